//! The order of the table: families together, the one that needs a person first, children below their parents.

use super::reader::{Need, Seen};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// A session at its place.
pub(super) struct Placed<'a> {
    pub(super) seen: &'a Seen,
    /// Its name, below a parent without the parent's.
    pub(super) name: &'a str,
    /// How many sessions are above it.
    pub(super) depth: usize,
}

/// What a family is sorted by: the most urgent need in it, then the newest change.
type Rank = (Need, Reverse<u64>);

/// All sessions in the order in which they are shown.
pub(super) fn placed(all: &[Seen]) -> Vec<Placed<'_>> {
    let known: BTreeMap<&str, &Seen> = all.iter().map(|seen| (seen.head.session.as_str(), seen)).collect();
    let mut children: BTreeMap<&str, Vec<&Seen>> = BTreeMap::new();
    let mut tops: Vec<&Seen> = Vec::new();
    for seen in all {
        match seen.head.glance.parent.as_deref().filter(|parent| known.contains_key(parent)) {
            Some(parent) if parent != seen.head.session => children.entry(parent).or_default().push(seen),
            _ => tops.push(seen),
        }
    }
    let mut order = Vec::new();
    sort(&mut tops, &children);
    for top in tops {
        place(top, &top.head.session, 0, &children, &mut order);
    }
    order
}

fn place<'a>(
    seen: &'a Seen,
    name: &'a str,
    depth: usize,
    children: &BTreeMap<&str, Vec<&'a Seen>>,
    order: &mut Vec<Placed<'a>>,
) {
    order.push(Placed { seen, name, depth });
    let mut below = children.get(seen.head.session.as_str()).cloned().unwrap_or_default();
    sort(&mut below, children);
    for child in below {
        let whole = child.head.session.as_str();
        let short = whole.strip_prefix(&seen.head.session).and_then(|rest| rest.strip_prefix('/'));
        place(child, short.unwrap_or(whole), depth + 1, children, order);
    }
}

fn sort(sessions: &mut [&Seen], children: &BTreeMap<&str, Vec<&Seen>>) {
    sessions.sort_by_cached_key(|seen| (rank(seen, children), seen.head.session.clone()));
}

/// The rank of a session with everything below it.
fn rank(seen: &Seen, children: &BTreeMap<&str, Vec<&Seen>>) -> Rank {
    let own = (seen.need, Reverse(seen.head.updated));
    let below = children.get(seen.head.session.as_str()).into_iter().flatten();
    below.map(|child| rank(child, children)).fold(own, Rank::min)
}

//! Sort order of the table: sessions grouped with their children, the group that needs a person first.

use super::session_reader::{Attention, TopSession};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// A session at its position in the table.
pub(super) struct OrderedSession<'a> {
    pub(super) session: &'a TopSession,
    /// Its name; a child's name omits the parent's prefix.
    pub(super) name: &'a str,
    /// Number of ancestors.
    pub(super) depth: usize,
}

/// Sort key of a group: its most urgent session, then the latest change.
type SortKey = (Attention, Reverse<u64>);

/// All sessions in display order.
pub(super) fn order_sessions(all: &[TopSession]) -> Vec<OrderedSession<'_>> {
    let known: BTreeMap<&str, &TopSession> =
        all.iter().map(|session| (session.row.session.as_str(), session)).collect();
    let mut children: BTreeMap<&str, Vec<&TopSession>> = BTreeMap::new();
    let mut tops: Vec<&TopSession> = Vec::new();
    for session in all {
        match session.row.summary.parent.as_deref().filter(|parent| known.contains_key(parent)) {
            Some(parent) if parent != session.row.session => {
                children.entry(parent).or_default().push(session)
            }
            _ => tops.push(session),
        }
    }
    let mut order = Vec::new();
    sort(&mut tops, &children);
    for top in tops {
        push_with_children(top, &top.row.session, 0, &children, &mut order);
    }
    order
}

fn push_with_children<'a>(
    session: &'a TopSession,
    name: &'a str,
    depth: usize,
    children: &BTreeMap<&str, Vec<&'a TopSession>>,
    order: &mut Vec<OrderedSession<'a>>,
) {
    order.push(OrderedSession { session, name, depth });
    let mut below = children.get(session.row.session.as_str()).cloned().unwrap_or_default();
    sort(&mut below, children);
    for child in below {
        let whole = child.row.session.as_str();
        let short = whole.strip_prefix(&session.row.session).and_then(|rest| rest.strip_prefix('/'));
        push_with_children(child, short.unwrap_or(whole), depth + 1, children, order);
    }
}

fn sort(sessions: &mut [&TopSession], children: &BTreeMap<&str, Vec<&TopSession>>) {
    sessions.sort_by_cached_key(|session| (sort_key(session, children), session.row.session.clone()));
}

/// The sort key of a session and all its descendants.
fn sort_key(session: &TopSession, children: &BTreeMap<&str, Vec<&TopSession>>) -> SortKey {
    let own = (session.attention, Reverse(session.row.updated));
    let below = children.get(session.row.session.as_str()).into_iter().flatten();
    below.map(|child| sort_key(child, children)).fold(own, SortKey::min)
}

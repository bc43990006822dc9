//! The sessions at work, as they were stored last, and in the order they were used.

use super::flights::Flights;
use crate::record::Head;
use flyball::{PolicySource, Session, Sessions};
use std::collections::{BTreeMap, BTreeSet};
use xxhash_rust::xxh3::xxh3_64;

/// Sessions in memory. What is here may be older than the store; the fence of an append tells.
pub(super) struct Cache {
    pub(super) sessions: Sessions,
    heads: BTreeMap<String, Kept>,
    /// The ids of sessions that were followed from their first event, as hashes: what is not here is new, and the
    /// store need not be asked.
    seen: BTreeMap<String, BTreeSet<u64>>,
    clock: u64,
}

/// How many ids of a session are kept; a longer session asks the store.
const SEEN: usize = 4_096;

struct Kept {
    head: Head,
    used: u64,
}

impl Cache {
    pub(super) fn new(source: PolicySource) -> Self {
        Cache { sessions: Sessions::new(source), heads: BTreeMap::new(), seen: BTreeMap::new(), clock: 0 }
    }

    /// The head that goes with the session in memory.
    pub(super) fn head(&mut self, name: &str) -> Option<&Head> {
        self.clock += 1;
        let kept = self.heads.get_mut(name)?;
        kept.used = self.clock;
        Some(&kept.head)
    }

    /// Keeps a session that was loaded.
    pub(super) fn put(&mut self, head: Head, session: Session) {
        self.sessions.insert(head.session.clone(), session);
        self.moved(head);
    }

    /// A session begins here: all its ids will have been seen.
    pub(super) fn follow(&mut self, name: &str) {
        self.seen.entry(name.to_owned()).or_default();
    }

    /// Whether an id is surely new in its session.
    pub(super) fn is_new(&self, name: &str, id: &str) -> bool {
        self.seen.get(name).is_some_and(|seen| !seen.contains(&xxh3_64(id.as_bytes())))
    }

    /// An id was folded into its session.
    pub(super) fn saw(&mut self, name: &str, id: &str) {
        let Some(seen) = self.seen.get_mut(name) else { return };
        seen.insert(xxh3_64(id.as_bytes()));
        if seen.len() > SEEN {
            self.seen.remove(name);
        }
    }

    /// A session in memory has been stored with this head.
    pub(super) fn moved(&mut self, head: Head) {
        self.clock += 1;
        self.heads.insert(head.session.clone(), Kept { head, used: self.clock });
    }

    /// What is in memory of a session is not to be used any more.
    pub(super) fn forget(&mut self, name: &str) {
        self.heads.remove(name);
        self.seen.remove(name);
        self.sessions.remove(name);
    }

    /// Forgets the sessions that were not used for the longest time, if there are too many.
    pub(super) fn trim(&mut self, most: usize, flights: &Flights) {
        if self.heads.len() <= most {
            return;
        }
        let under_way = flights.all();
        let idle = self.heads.iter().filter(|(name, _)| !under_way.contains(*name));
        let mut ages: Vec<(u64, String)> = idle.map(|(name, kept)| (kept.used, name.clone())).collect();
        ages.sort_unstable();
        for (_, name) in ages.into_iter().take(self.heads.len() - most / 2) {
            self.forget(&name);
        }
    }
}

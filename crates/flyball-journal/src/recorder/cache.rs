//! The sessions at work, as they were stored last, and in the order they were used.

use crate::record::Head;
use flyball::{PolicySource, Session, Sessions};
use std::collections::BTreeMap;

/// Sessions in memory. What is here may be older than the store; the fence of an append tells.
pub(super) struct Cache {
    pub(super) sessions: Sessions,
    heads: BTreeMap<String, Kept>,
    clock: u64,
}

struct Kept {
    head: Head,
    used: u64,
}

impl Cache {
    pub(super) fn new(source: PolicySource) -> Self {
        Cache { sessions: Sessions::new(source), heads: BTreeMap::new(), clock: 0 }
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

    /// A session in memory has been stored with this head.
    pub(super) fn moved(&mut self, head: Head) {
        self.clock += 1;
        self.heads.insert(head.session.clone(), Kept { head, used: self.clock });
    }

    /// What is in memory of a session is not to be used any more.
    pub(super) fn forget(&mut self, name: &str) {
        self.heads.remove(name);
        self.sessions.remove(name);
    }

    /// Forgets the sessions that were not used for the longest time, if there are too many.
    pub(super) fn trim(&mut self, most: usize) {
        if self.heads.len() <= most {
            return;
        }
        let mut ages: Vec<(u64, String)> =
            self.heads.iter().map(|(name, kept)| (kept.used, name.clone())).collect();
        ages.sort_unstable();
        for (_, name) in ages.into_iter().take(self.heads.len() - most / 2) {
            self.forget(&name);
        }
    }
}

//! The sessions at work, as they were stored last, and in the order they were used.

use super::flights::Flights;
use super::seen::Seen;
use crate::lookup::Lookup;
use crate::record::Head;
use flyball::{PolicySource, Session, Sessions};
use serde_json::Value;

/// Sessions in memory. What is here may be older than the store; the fence of an append tells.
pub(super) struct Cache {
    pub(super) sessions: Sessions,
    kept: Lookup<Kept>,
    clock: u64,
}

/// The policy that a session is pinned to, where it is not the recorder's.
#[derive(Default)]
pub(super) struct Pinned {
    pub(super) digest: String,
    /// The policy, if it is not in the store yet.
    pub(super) text: Option<String>,
    /// The event that tells of the change, if it was not recorded yet.
    pub(super) event: Option<Value>,
}

#[derive(Default)]
struct Kept {
    /// The head that goes with the session in memory; none if it is not in the store yet.
    head: Option<Head>,
    used: u64,
    /// It was stored from here since it was loaded.
    warm: bool,
    /// The ids of a session that was followed from its first event.
    seen: Option<Seen>,
    /// The policy that it is pinned to, if that is not the recorder's.
    pinned: Option<Pinned>,
}

impl Cache {
    pub(super) fn new(source: PolicySource) -> Self {
        Cache { sessions: Sessions::new(source), kept: Lookup::default(), clock: 0 }
    }

    /// The head that goes with the session in memory.
    pub(super) fn head(&mut self, name: &str) -> Option<&Head> {
        self.clock += 1;
        let kept = self.kept.get_mut(name)?;
        kept.used = self.clock;
        kept.head.as_ref()
    }

    /// Keeps a session that was loaded.
    pub(super) fn put(&mut self, head: Head, session: Session, pinned: Option<Pinned>) {
        self.sessions.insert(head.session.clone(), session);
        self.keep(&head, false);
        self.kept.entry(&head.session).pinned = pinned;
    }

    /// The digest of the policy that a session is pinned to, if that is not the recorder's.
    pub(super) fn pinned_digest(&self, name: &str) -> Option<&str> {
        Some(&self.kept.get(name)?.pinned.as_ref()?.digest)
    }

    /// The policy that a session is pinned to, if it is to be stored before the session.
    pub(super) fn pinned_text(&self, name: &str) -> Option<(String, String)> {
        let pinned = self.kept.get(name)?.pinned.as_ref()?;
        Some((pinned.digest.clone(), pinned.text.clone()?))
    }

    /// The event that tells of a changed policy, once.
    pub(super) fn take_policy_event(&mut self, name: &str) -> Option<Value> {
        self.kept.get_mut(name)?.pinned.as_mut()?.event.take()
    }

    /// A session begins here: all its ids will have been seen.
    pub(super) fn follow(&mut self, name: &str) {
        self.kept.entry(name).seen.get_or_insert_with(Seen::default);
    }

    /// Whether a session was followed from its first event.
    pub(super) fn follows(&self, name: &str) -> bool {
        self.kept.get(name).is_some_and(|kept| kept.seen.is_some())
    }

    /// Whether an id is surely new in its session.
    pub(super) fn is_new(&self, name: &str, id: &str) -> bool {
        self.kept.get(name).and_then(|kept| kept.seen.as_ref()).is_some_and(|seen| seen.lacks(id))
    }

    /// An id was folded into its session.
    pub(super) fn saw(&mut self, name: &str, id: &str) {
        if let Some(seen) = self.kept.get_mut(name).and_then(|kept| kept.seen.as_mut()) {
            seen.add(id);
        }
    }

    /// A session in memory has been stored with this head.
    pub(super) fn moved(&mut self, head: &Head) {
        self.keep(head, true);
    }

    /// Whether a session was stored from here since it was loaded: it is likely to stay in memory.
    pub(super) fn is_warm(&self, name: &str) -> bool {
        self.kept.get(name).is_some_and(|kept| kept.warm)
    }

    fn keep(&mut self, head: &Head, warm: bool) {
        self.clock += 1;
        let (name, used) = (head.session.as_str(), self.clock);
        match self.kept.get_mut(name) {
            Some(kept) => {
                kept.head.get_or_insert_default().become_as(head);
                (kept.used, kept.warm) = (used, warm);
            }
            None => {
                let kept = Kept { head: Some(head.clone()), used, warm, ..Kept::default() };
                self.kept.insert(name.to_owned(), kept);
            }
        }
    }

    /// What is in memory of a session is not to be used any more.
    pub(super) fn forget(&mut self, name: &str) {
        self.kept.remove(name);
        self.sessions.remove(name);
    }

    /// Forgets the sessions that were not used for the longest time, if there are too many.
    pub(super) fn trim(&mut self, most: usize, flights: &Flights) {
        if self.kept.len() <= most {
            return;
        }
        let under_way = flights.all();
        let idle = self.kept.in_no_order().filter(|(name, _)| !under_way.contains(*name));
        let mut ages: Vec<(u64, String)> = idle.map(|(name, kept)| (kept.used, name.to_owned())).collect();
        ages.sort_unstable();
        for (_, name) in ages.into_iter().take(self.kept.len() - most / 2) {
            self.forget(&name);
        }
    }
}

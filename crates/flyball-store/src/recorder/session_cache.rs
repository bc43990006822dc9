//! Session cache: sessions as last stored, in order of use.

use super::in_flight::InFlight;
use super::seen_ids::SeenIds;
use crate::name_map::NameMap;
use crate::record::SessionRow;
use flyball::{PolicySource, Session, Sessions};
use serde_json::Value;

/// Sessions in memory. An entry may be stale; the revision check of an append detects that.
pub(super) struct SessionCache {
    pub(super) sessions: Sessions,
    entries: NameMap<CachedSession>,
    tick: u64,
}

/// Policy that a session is pinned to, if not the recorder's.
#[derive(Default)]
pub(super) struct PinnedPolicy {
    pub(super) digest: String,
    /// The policy text, if it is not stored yet.
    pub(super) text: Option<String>,
    /// The event that records the policy change, if not recorded yet.
    pub(super) event: Option<Value>,
}

#[derive(Default)]
struct CachedSession {
    /// The head that goes with the session in memory; none if it is not in the store yet.
    head: Option<SessionRow>,
    last_used: u64,
    /// Whether this process stored it since it was loaded.
    warm: bool,
    /// Ids of a session that was tracked from its first event.
    seen_ids: Option<SeenIds>,
    /// Policy that it is pinned to, if not the recorder's.
    pinned: Option<PinnedPolicy>,
}

impl SessionCache {
    pub(super) fn new(source: PolicySource) -> Self {
        SessionCache { sessions: Sessions::new(source), entries: NameMap::default(), tick: 0 }
    }

    /// The head that goes with the session in memory.
    pub(super) fn head(&mut self, name: &str) -> Option<&SessionRow> {
        self.tick += 1;
        let kept = self.entries.get_mut(name)?;
        kept.last_used = self.tick;
        kept.head.as_ref()
    }

    /// Keeps a session that was loaded.
    pub(super) fn insert(&mut self, head: SessionRow, session: Session, pinned: Option<PinnedPolicy>) {
        self.sessions.insert(head.session.clone(), session);
        self.set_head(&head, false);
        self.entries.get_or_default(&head.session).pinned = pinned;
    }

    /// Digest of the policy that a session is pinned to, if not the recorder's.
    pub(super) fn pinned_digest(&self, name: &str) -> Option<&str> {
        Some(&self.entries.get(name)?.pinned.as_ref()?.digest)
    }

    /// Policy that a session is pinned to, if it has to be stored before the session.
    pub(super) fn pinned_text(&self, name: &str) -> Option<(String, String)> {
        let pinned = self.entries.get(name)?.pinned.as_ref()?;
        Some((pinned.digest.clone(), pinned.text.clone()?))
    }

    /// Takes the event that records a policy change.
    pub(super) fn take_policy_event(&mut self, name: &str) -> Option<Value> {
        self.entries.get_mut(name)?.pinned.as_mut()?.event.take()
    }

    /// Tracks the ids of a new session.
    pub(super) fn track_ids(&mut self, name: &str) {
        self.entries.get_or_default(name).seen_ids.get_or_insert_with(SeenIds::default);
    }

    /// Whether a session was tracked from its first event.
    pub(super) fn tracks_ids(&self, name: &str) -> bool {
        self.entries.get(name).is_some_and(|kept| kept.seen_ids.is_some())
    }

    /// Whether an id is certainly new in its session.
    pub(super) fn is_new_id(&self, name: &str, id: &str) -> bool {
        self.entries.get(name).and_then(|kept| kept.seen_ids.as_ref()).is_some_and(|seen| seen.lacks(id))
    }

    /// Adds an id of a folded event.
    pub(super) fn add_id(&mut self, name: &str, id: &str) {
        if let Some(seen) = self.entries.get_mut(name).and_then(|kept| kept.seen_ids.as_mut()) {
            seen.insert(id);
        }
    }

    /// A session in memory has been stored with this head.
    pub(super) fn set_stored_head(&mut self, head: &SessionRow) {
        self.set_head(head, true);
    }

    /// Whether this process stored the session since it was loaded, so that it is likely to stay in memory.
    pub(super) fn is_warm(&self, name: &str) -> bool {
        self.entries.get(name).is_some_and(|kept| kept.warm)
    }

    fn set_head(&mut self, head: &SessionRow, warm: bool) {
        self.tick += 1;
        let (name, used) = (head.session.as_str(), self.tick);
        match self.entries.get_mut(name) {
            Some(kept) => {
                kept.head.get_or_insert_default().assign_from(head);
                (kept.last_used, kept.warm) = (used, warm);
            }
            None => {
                let kept = CachedSession {
                    head: Some(head.clone()),
                    last_used: used,
                    warm,
                    ..CachedSession::default()
                };
                self.entries.insert(name.to_owned(), kept);
            }
        }
    }

    /// Drops a session.
    pub(super) fn remove(&mut self, name: &str) {
        self.entries.remove(name);
        self.sessions.remove(name);
    }

    /// Evicts the least recently used sessions, if there are too many.
    pub(super) fn evict(&mut self, most: usize, in_flight: &InFlight) {
        if self.entries.len() <= most {
            return;
        }
        let under_way = in_flight.sessions();
        let idle = self.entries.iter_unordered().filter(|(name, _)| !under_way.contains(*name));
        let mut ages: Vec<(u64, String)> =
            idle.map(|(name, kept)| (kept.last_used, name.to_owned())).collect();
        ages.sort_unstable();
        for (_, read_name) in ages.into_iter().take(self.entries.len() - most / 2) {
            self.remove(&read_name);
        }
    }
}

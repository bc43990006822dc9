//! Cache of recently decided events, so that metrics need not read and parse them from the store again.
//!
//! This is a cache, not a record. An entry may never appear in the store under its number, because it was a
//! duplicate; and stored events of other processes are not in the cache. Only the store says what happened.

use flyball::Decision;
use flyball_store::{BoxedSubmission, EventRef};
use std::collections::{BTreeMap, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Maximum size of the cached events, in bytes.
const MAX_BYTES: usize = 4 * 1024 * 1024;

/// Hash of a session, and a sequence number in it.
type RecentKey = (u64, u64);

#[derive(Debug)]
struct RecentDecision {
    /// Boxed, because B-tree operations move their entries.
    incoming: BoxedSubmission,
    decision: Decision,
}

#[derive(Debug, Default)]
struct RecentCache {
    events: BTreeMap<RecentKey, RecentDecision>,
    /// Keys in insertion order.
    order: VecDeque<RecentKey>,
    bytes: usize,
}

impl RecentCache {
    fn remove(&mut self, key: RecentKey) -> Option<RecentDecision> {
        let kept = self.events.remove(&key)?;
        self.bytes = self.bytes.saturating_sub(kept.incoming.text.len());
        Some(kept)
    }
}

/// Recently decided events.
#[derive(Debug, Default)]
pub(crate) struct RecentDecisions {
    cache: Mutex<RecentCache>,
    hash: RandomState,
}

impl RecentDecisions {
    fn lock(&self) -> MutexGuard<'_, RecentCache> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn key(&self, session: &str, seq: u64) -> RecentKey {
        (self.hash.hash_one(session), seq)
    }

    /// Caches decided events and evicts the oldest ones over the limit.
    pub(crate) fn put(&self, decided: impl Iterator<Item = (BoxedSubmission, Decision)>) {
        let mut cache = self.lock();
        for (incoming, decision) in decided {
            let key = self.key(&incoming.event.session, decision.seq);
            cache.remove(key);
            cache.bytes += incoming.text.len();
            cache.events.insert(key, RecentDecision { incoming, decision });
            cache.order.push_back(key);
        }
        while let Some(oldest) = cache.order.front().copied() {
            let is_cached = cache.events.contains_key(&oldest);
            if is_cached && cache.bytes <= MAX_BYTES {
                break;
            }
            cache.remove(oldest);
            cache.order.pop_front();
        }
    }

    /// Takes an event that was seen in the store.
    pub(crate) fn take(&self, session: &str, seq: u64) -> Option<(BoxedSubmission, Decision)> {
        let key = self.key(session, seq);
        let mut cache = self.lock();
        // Hashes can collide, so the name is compared.
        if cache.events.get(&key).is_none_or(|kept| kept.incoming.event.session != session) {
            return None;
        }
        cache.remove(key).map(|kept| (kept.incoming, kept.decision))
    }

    /// Takes events that were seen in the store, up to the first one that is not cached.
    pub(crate) fn take_first(&self, refs: &[EventRef]) -> Vec<(BoxedSubmission, Decision)> {
        refs.iter().map_while(|event| self.take(&event.session, event.seq)).collect()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

    use super::*;
    use flyball_store::{StreamCursor, Submission};

    fn decided(session: &str, seq: u64, bytes: usize) -> (BoxedSubmission, Decision) {
        let line = format!(r#"{{"type":"user.message","session":"{session}","text":"{seq}"}}"#);
        let decision = Decision { session: session.to_owned(), seq, ..Decision::default() };
        let mut incoming = Submission::parse(line, None).unwrap();
        incoming.text = " ".repeat(bytes);
        (Box::new(incoming), decision)
    }

    fn event_ref(session: &str, seq: u64) -> EventRef {
        EventRef { cursor: StreamCursor::default(), session: session.to_owned(), seq }
    }

    #[test]
    fn recent_decisions_are_taken_once_up_to_the_first_gap() {
        let recent = RecentDecisions::default();
        recent.put([decided("a", 1, 10), decided("b", 1, 10), decided("a", 3, 10)].into_iter());
        let seen = [event_ref("a", 1), event_ref("b", 1), event_ref("a", 2), event_ref("a", 3)];
        let numbers: Vec<u64> = recent.take_first(&seen).iter().map(|(_, decision)| decision.seq).collect();
        assert_eq!(numbers, [1, 1]);
        assert!(recent.take("a", 1).is_none(), "it was already taken");
        assert!(recent.take("a", 3).is_some());
        assert_eq!(recent.lock().bytes, 0);
    }

    #[test]
    fn recent_decisions_are_bounded_in_bytes() {
        let recent = RecentDecisions::default();
        (1..=50).for_each(|seq| recent.put([decided("a", seq, MAX_BYTES / 10)].into_iter()));
        // The same events again, as after a redelivery.
        (41..=50).for_each(|seq| recent.put([decided("a", seq, MAX_BYTES / 10)].into_iter()));
        let cache = recent.lock();
        assert!(cache.bytes <= MAX_BYTES && cache.order.len() <= 20, "{} {}", cache.bytes, cache.order.len());
        assert_eq!(cache.events.len(), 10);
        drop(cache);
        assert!(recent.take("a", 40).is_none() && recent.take("a", 50).is_some());
    }
}

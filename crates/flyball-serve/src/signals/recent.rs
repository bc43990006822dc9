//! Events that were decided here a moment ago, as they were read then: whoever counts them need not read them from the
//! store and parse them again.
//!
//! This is memory and no record. What is in it may never turn up in the store under that number, because it was answered
//! before; what turns up may not be in it, because another process wrote it. Only the store says what has happened.

use flyball::Decision;
use flyball_journal::{Parcel, Sighting};
use std::collections::{BTreeMap, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// How many bytes of events are kept.
const BYTES: usize = 4 * 1024 * 1024;

/// A session, hashed, and the number of an event in it.
type Key = (u64, u64);

#[derive(Debug)]
struct Kept {
    /// In a box, as it comes: a tree moves what is in it about.
    incoming: Parcel,
    decision: Decision,
}

#[derive(Debug, Default)]
struct Shelf {
    events: BTreeMap<Key, Kept>,
    /// The order in which they came.
    order: VecDeque<Key>,
    bytes: usize,
}

impl Shelf {
    fn remove(&mut self, key: Key) -> Option<Kept> {
        let kept = self.events.remove(&key)?;
        self.bytes = self.bytes.saturating_sub(kept.incoming.text.len());
        Some(kept)
    }
}

/// The events of the last moment.
#[derive(Debug, Default)]
pub(crate) struct Recent {
    shelf: Mutex<Shelf>,
    hash: RandomState,
}

impl Recent {
    fn lock(&self) -> MutexGuard<'_, Shelf> {
        self.shelf.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn key(&self, session: &str, seq: u64) -> Key {
        (self.hash.hash_one(session), seq)
    }

    /// Keeps events that were decided upon. If there are too many, the oldest are forgotten.
    pub(crate) fn put(&self, decided: impl Iterator<Item = (Parcel, Decision)>) {
        let mut shelf = self.lock();
        for (incoming, decision) in decided {
            let key = self.key(&incoming.event.session, decision.seq);
            shelf.remove(key);
            shelf.bytes += incoming.text.len();
            shelf.events.insert(key, Kept { incoming, decision });
            shelf.order.push_back(key);
        }
        while let Some(oldest) = shelf.order.front().copied() {
            let there = shelf.events.contains_key(&oldest);
            if there && shelf.bytes <= BYTES {
                break;
            }
            shelf.remove(oldest);
            shelf.order.pop_front();
        }
    }

    /// Takes an event that was seen in the store.
    pub(crate) fn take(&self, session: &str, seq: u64) -> Option<(Parcel, Decision)> {
        let key = self.key(session, seq);
        let mut shelf = self.lock();
        // Two sessions may fall together; the name tells.
        if shelf.events.get(&key).is_none_or(|kept| kept.incoming.event.session != session) {
            return None;
        }
        shelf.remove(key).map(|kept| (kept.incoming, kept.decision))
    }

    /// Takes events that were seen in the store, up to the first that is not here.
    pub(crate) fn take_first(&self, sighted: &[Sighting]) -> Vec<(Parcel, Decision)> {
        sighted.iter().map_while(|sighted| self.take(&sighted.session, sighted.seq)).collect()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "in a test that is how a failure is told")]

    use super::*;
    use flyball_journal::{Cursor, Incoming};

    fn decided(session: &str, seq: u64, bytes: usize) -> (Parcel, Decision) {
        let line = format!(r#"{{"type":"user.message","session":"{session}","text":"{seq}"}}"#);
        let decision = Decision { session: session.to_owned(), seq, ..Decision::default() };
        let mut incoming = Incoming::read(line, None).unwrap();
        incoming.text = " ".repeat(bytes);
        (Box::new(incoming), decision)
    }

    fn sighted(session: &str, seq: u64) -> Sighting {
        Sighting { cursor: Cursor::default(), session: session.to_owned(), seq }
    }

    #[test]
    fn what_was_decided_is_taken_once_and_up_to_the_first_that_is_not_there() {
        let recent = Recent::default();
        recent.put([decided("a", 1, 10), decided("b", 1, 10), decided("a", 3, 10)].into_iter());
        let seen = [sighted("a", 1), sighted("b", 1), sighted("a", 2), sighted("a", 3)];
        let numbers: Vec<u64> = recent.take_first(&seen).iter().map(|(_, decision)| decision.seq).collect();
        assert_eq!(numbers, [1, 1]);
        assert!(recent.take("a", 1).is_none(), "it was taken");
        assert!(recent.take("a", 3).is_some());
        assert_eq!(recent.lock().bytes, 0);
    }

    #[test]
    fn it_holds_so_many_bytes_and_no_more() {
        let recent = Recent::default();
        (1..=50).for_each(|seq| recent.put([decided("a", seq, BYTES / 10)].into_iter()));
        // The same again, as when an event is sent twice.
        (41..=50).for_each(|seq| recent.put([decided("a", seq, BYTES / 10)].into_iter()));
        let shelf = recent.lock();
        assert!(shelf.bytes <= BYTES && shelf.order.len() <= 20, "{} {}", shelf.bytes, shelf.order.len());
        assert_eq!(shelf.events.len(), 10);
        drop(shelf);
        assert!(recent.take("a", 40).is_none() && recent.take("a", 50).is_some());
    }
}

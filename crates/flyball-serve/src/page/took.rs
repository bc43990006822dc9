//! How long decisions took lately, from the line to the disk.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// How many are remembered.
const REMEMBERED: usize = 1_000;

/// The last ones, in microseconds.
#[derive(Debug, Default)]
pub(crate) struct Took(Mutex<VecDeque<u64>>);

/// What half of them, nearly all of them, and the slowest took, in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Lately {
    pub(super) count: usize,
    pub(super) half: u64,
    pub(super) nearly_all: u64,
    pub(super) slowest: u64,
}

impl Took {
    /// One took so long.
    pub(crate) fn add(&self, took: Duration) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() >= REMEMBERED {
            kept.pop_front();
        }
        kept.push_back(u64::try_from(took.as_micros()).unwrap_or(u64::MAX));
    }

    /// How long they took; nothing if there was none.
    pub(super) fn lately(&self) -> Option<Lately> {
        let mut all: Vec<u64> =
            self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().copied().collect();
        all.sort_unstable();
        let at =
            |percent: usize| all.get((all.len() * percent / 100).min(all.len().saturating_sub(1))).copied();
        Some(Lately { count: all.len(), half: at(50)?, nearly_all: at(99)?, slowest: at(100)? })
    }
}

#[cfg(test)]
mod tests {
    //! The shares of what was measured.

    use super::{Lately, Took};
    use std::time::Duration;

    #[test]
    fn the_last_thousand_are_told() {
        let took = Took::default();
        assert_eq!(took.lately(), None);
        (1..=2_000).for_each(|micros| took.add(Duration::from_micros(micros)));
        let all = Lately { count: 1_000, half: 1_501, nearly_all: 1_991, slowest: 2_000 };
        assert_eq!(took.lately(), Some(all));
    }
}

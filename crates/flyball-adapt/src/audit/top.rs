//! The worst of many, without keeping the many.

use super::finding::Loop;
use std::cmp::{Ordering, Reverse};

/// What loops are ranked by, first to last.
type Rank = fn(&Loop) -> [u64; 3];

/// The worst loops. In whatever order they come, the same ones are kept.
#[derive(Debug, Clone)]
pub struct Top {
    most: usize,
    rank: Rank,
    list: Vec<Loop>,
}

impl Top {
    /// Ranked by money, then tokens, then calls.
    pub(super) fn by_cost(most: usize) -> Self {
        let rank = |found: &Loop| [found.after.cost_micro_usd, found.after.tokens, found.after.calls];
        Top { most, rank, list: Vec::new() }
    }

    /// Ranked by tokens, then calls.
    pub(super) fn by_tokens(most: usize) -> Self {
        let rank = |found: &Loop| [found.after.tokens, found.after.calls, found.after.time_ms];
        Top { most, rank, list: Vec::new() }
    }

    /// Ranked by calls, then by how long the loop became.
    pub(super) fn by_calls(most: usize) -> Self {
        let rank = |found: &Loop| [found.after.calls, found.count, found.after.time_ms];
        Top { most, rank, list: Vec::new() }
    }

    /// Takes one loop, if it is among the worst.
    pub(super) fn take(&mut self, found: &Loop) {
        let at = self.list.partition_point(|known| self.order(known, found) == Ordering::Less);
        if at < self.most {
            self.list.insert(at, found.clone());
            self.list.truncate(self.most);
        }
    }

    /// The worst first.
    #[must_use]
    pub fn list(&self) -> &[Loop] {
        &self.list
    }

    fn order(&self, left: &Loop, right: &Loop) -> Ordering {
        let key = |found: &Loop| Reverse((self.rank)(found));
        let place = |found: &Loop| (found.file.clone(), found.noticed, found.session.clone());
        key(left).cmp(&key(right)).then_with(|| place(left).cmp(&place(right)))
    }
}

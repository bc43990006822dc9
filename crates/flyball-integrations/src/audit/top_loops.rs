//! Top-N selection of loops.

use super::finding::LoopFinding;
use std::cmp::{Ordering, Reverse};

/// Ranking key of a loop.
type LoopRank = fn(&LoopFinding) -> [u64; 3];

/// The worst loops. The selection does not depend on insertion order.
#[derive(Debug, Clone)]
pub struct TopLoops {
    capacity: usize,
    rank: LoopRank,
    loops: Vec<LoopFinding>,
}

impl TopLoops {
    /// Ranked by cost, then tokens, then calls.
    pub(super) fn by_cost(capacity: usize) -> Self {
        let rank =
            |found: &LoopFinding| [found.wasted.cost_micro_usd, found.wasted.tokens, found.wasted.calls];
        TopLoops { capacity, rank, loops: Vec::new() }
    }

    /// Ranked by tokens, then calls.
    pub(super) fn by_tokens(capacity: usize) -> Self {
        let rank = |found: &LoopFinding| [found.wasted.tokens, found.wasted.calls, found.wasted.time_ms];
        TopLoops { capacity, rank, loops: Vec::new() }
    }

    /// Ranked by calls, then by length.
    pub(super) fn by_calls(capacity: usize) -> Self {
        let rank = |found: &LoopFinding| [found.wasted.calls, found.count, found.wasted.time_ms];
        TopLoops { capacity, rank, loops: Vec::new() }
    }

    /// Inserts a loop if it is among the worst.
    pub(super) fn insert(&mut self, found: &LoopFinding) {
        let at = self.loops.partition_point(|known| self.compare(known, found) == Ordering::Less);
        if at < self.capacity {
            self.loops.insert(at, found.clone());
            self.loops.truncate(self.capacity);
        }
    }

    /// The loops, worst first.
    #[must_use]
    pub fn as_slice(&self) -> &[LoopFinding] {
        &self.loops
    }

    fn compare(&self, left: &LoopFinding, right: &LoopFinding) -> Ordering {
        let key = |found: &LoopFinding| Reverse((self.rank)(found));
        let place = |found: &LoopFinding| (found.file.clone(), found.noticed, found.session.clone());
        key(left).cmp(&key(right)).then_with(|| place(left).cmp(&place(right)))
    }
}

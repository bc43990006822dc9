//! Runs of calls that differ only in their numbers: paging through a file, incrementing an id, fetching page after
//! page.
//!
//! Such a run is normal work by itself: a batch, a list processed item by item, a file read to its end. It indicates a
//! loop when the ranges jump back and forth and each jump is introduced by the same sentence, or when the ranges were
//! already covered.

use crate::bounded_map::push_bounded;
use crate::call_ledger::CallFacts;
use crate::event::CallNumbers;
use crate::fingerprint::Fingerprint;
use serde::{Deserialize, Serialize};

/// Maximum number of covered ranges kept.
const MAX_RANGES: usize = 48;
/// Pairs of numbers further apart than this are not treated as a range.
const MAX_RANGE_WIDTH: u64 = 10_000;

/// The current run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct DriftTracker {
    skeleton: Fingerprint,
    calls: u32,
    first: u64,
    last: u64,
    numbers: CallNumbers,
    covered: Vec<(u64, u64)>,
    /// Number of calls whose range was already covered.
    revisits: u32,
    /// Number of consecutive jumps introduced by the same sentence.
    announced: u32,
    last_sentence: Fingerprint,
    pending_sentence: Fingerprint,
}

/// The sign that indicates a loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DriftSign {
    SameSentence,
    CoveredRange,
}

/// A run that is long enough to trip.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct DriftMatch {
    pub(super) sign: DriftSign,
    pub(super) count: u64,
    /// Block instead of warn.
    pub(super) refuse: bool,
}

impl DriftTracker {
    /// Records an agent message that precedes the next call.
    pub(super) fn record_message(&mut self, text: &str) {
        let text = text.trim();
        self.pending_sentence = if text.is_empty() { Fingerprint::NONE } else { Fingerprint::of_text(text) };
    }

    /// Records an accepted call.
    pub(super) fn record_call(&mut self, call: &CallFacts) {
        if call.skeleton == self.skeleton {
            self.calls = self.calls.saturating_add(1);
            if !self.same_sentence() {
                self.announced = 1;
            } else if is_jump(&self.numbers, &call.numbers) {
                self.announced = self.announced.saturating_add(1);
            }
            if let Some((low, high)) = requested_range(&self.numbers, &call.numbers) {
                self.record_range((low, high));
            }
        } else {
            let (spoken, skeleton) = (self.pending_sentence, call.skeleton);
            *self = DriftTracker {
                skeleton,
                calls: 1,
                first: call.seq,
                announced: 1,
                pending_sentence: spoken,
                ..DriftTracker::default()
            };
        }
        self.numbers = call.numbers;
        self.last_sentence = std::mem::take(&mut self.pending_sentence);
        self.last = call.seq;
    }

    /// Starts over after a new write, which may change what later reads return.
    pub(super) fn reset(&mut self) {
        *self = DriftTracker { pending_sentence: self.pending_sentence, ..DriftTracker::default() };
    }

    /// Checks whether one more such call exceeds the limit.
    pub(super) fn check(&self, call: &CallFacts, limit: u64) -> Option<DriftMatch> {
        if call.skeleton != self.skeleton || call.numbers == self.numbers {
            return None;
        }
        let announced = u64::from(self.announced) + 1;
        let again = self.same_sentence() && is_jump(&self.numbers, &call.numbers);
        // Warn from two thirds of the limit.
        if again && limit > 2 && announced * 3 >= limit * 2 {
            return Some(DriftMatch {
                sign: DriftSign::SameSentence,
                count: announced,
                refuse: announced > limit,
            });
        }
        let (count, revisits) = (u64::from(self.calls) + 1, u64::from(self.revisits));
        let enough = count > limit && revisits * 2 >= limit;
        enough.then_some(DriftMatch { sign: DriftSign::CoveredRange, count, refuse: revisits >= limit })
    }

    fn same_sentence(&self) -> bool {
        !self.pending_sentence.is_none() && self.pending_sentence == self.last_sentence
    }

    fn record_range(&mut self, (low, high): (u64, u64)) {
        let width = high - low + 1;
        let known = |(from, to): &(u64, u64)| {
            let shared = (*to).min(high).saturating_add(1).saturating_sub((*from).max(low));
            shared * 2 >= width
        };
        if self.covered.iter().any(known) {
            self.revisits = self.revisits.saturating_add(1);
        } else {
            push_bounded(&mut self.covered, (low, high), MAX_RANGES);
        }
    }

    /// Sequence number of the first event of the run.
    pub(super) const fn first(&self) -> u64 {
        self.first
    }

    /// Sequence number of the last event of the run.
    pub(super) const fn last(&self) -> u64 {
        self.last
    }
}

/// Whether a call requests a range that does not continue where the previous one ended.
fn is_jump(before: &CallNumbers, now: &CallNumbers) -> bool {
    let Some((low, high)) = requested_range(before, now) else { return false };
    let end = before.windows(2).zip(now.windows(2)).find_map(|(before, now)| match (before, now) {
        ([_, end], [from, to]) if *from == low && *to == high => Some(*end),
        _ => None,
    });
    !end.is_some_and(|end| low >= end && low - end <= 1 + (high - low) / 4)
}

/// The range that a call requests: two adjacent numbers that both changed and are in ascending order.
fn requested_range(before: &CallNumbers, now: &CallNumbers) -> Option<(u64, u64)> {
    let pairs = before.windows(2).zip(now.windows(2));
    pairs
        .filter_map(|(before, now)| match (before, now) {
            ([a, b], [low, high])
                if a != low && b != high && low <= high && high - low <= MAX_RANGE_WIDTH =>
            {
                Some((*low, *high))
            }
            _ => None,
        })
        .next()
}

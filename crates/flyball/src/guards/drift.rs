//! A row of calls that differ in their numbers only: leafing through a file, an id counted up, a page after a page.
//!
//! By itself that is honest work: a batch, a list worked through item by item, a file read on to its end. It is a sign
//! of going round when the ranges jump to and fro in one place and each jump is announced by the same sentence, or
//! when they go over ground that was covered before.

use crate::event::Numbers;
use crate::fingerprint::Fingerprint;
use crate::ledger::CallFacts;
use crate::window::keep;
use serde::{Deserialize, Serialize};

/// How many covered ranges are remembered.
const RANGES: usize = 48;
/// A pair of numbers further apart than this is not taken for a range.
const WIDEST: u64 = 10_000;

/// The current row.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Drift {
    skeleton: Fingerprint,
    calls: u32,
    first: u64,
    last: u64,
    numbers: Numbers,
    covered: Vec<(u64, u64)>,
    /// How many calls went over ground that was covered before.
    revisits: u32,
    /// How many jumps in a row were announced by the same sentence.
    announced: u32,
    sentence: Fingerprint,
    spoken: Fingerprint,
}

/// What gives the row away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sign {
    SameSentence,
    OldGround,
}

/// A row that is long enough to speak of.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) sign: Sign,
    pub(super) count: u64,
    /// It is time to refuse, not only to warn.
    pub(super) refuse: bool,
}

impl Drift {
    /// The agent said something before its next call.
    pub(super) fn heard(&mut self, text: &str) {
        let text = text.trim();
        self.spoken = if text.is_empty() { Fingerprint::NONE } else { Fingerprint::of_text(text) };
    }

    /// A call was accepted.
    pub(super) fn called(&mut self, call: &CallFacts) {
        if call.skeleton == self.skeleton {
            self.calls = self.calls.saturating_add(1);
            if !self.same_sentence() {
                self.announced = 1;
            } else if jumps(&self.numbers, &call.numbers) {
                self.announced = self.announced.saturating_add(1);
            }
            if let Some((low, high)) = range(&self.numbers, &call.numbers) {
                self.cover((low, high));
            }
        } else {
            let (spoken, skeleton) = (self.spoken, call.skeleton);
            *self = Drift { skeleton, calls: 1, first: call.seq, announced: 1, spoken, ..Drift::default() };
        }
        self.numbers = call.numbers;
        self.sentence = std::mem::take(&mut self.spoken);
        self.last = call.seq;
    }

    /// Something new was written: what was read before is behind.
    pub(super) fn end(&mut self) {
        *self = Drift { spoken: self.spoken, ..Drift::default() };
    }

    /// Whether one more call of this kind would be one too many.
    pub(super) fn judge(&self, call: &CallFacts, limit: u64) -> Option<Found> {
        if call.skeleton != self.skeleton || call.numbers == self.numbers {
            return None;
        }
        let announced = u64::from(self.announced) + 1;
        let again = self.same_sentence() && jumps(&self.numbers, &call.numbers);
        // Two thirds of the way there is a warning.
        if again && limit > 2 && announced * 3 >= limit * 2 {
            return Some(Found { sign: Sign::SameSentence, count: announced, refuse: announced > limit });
        }
        let (count, revisits) = (u64::from(self.calls) + 1, u64::from(self.revisits));
        let enough = count > limit && revisits * 2 >= limit;
        enough.then_some(Found { sign: Sign::OldGround, count, refuse: revisits >= limit })
    }

    fn same_sentence(&self) -> bool {
        !self.spoken.is_none() && self.spoken == self.sentence
    }

    fn cover(&mut self, (low, high): (u64, u64)) {
        let width = high - low + 1;
        let known = |(from, to): &(u64, u64)| {
            let shared = (*to).min(high).saturating_add(1).saturating_sub((*from).max(low));
            shared * 2 >= width
        };
        if self.covered.iter().any(known) {
            self.revisits = self.revisits.saturating_add(1);
        } else {
            keep(&mut self.covered, (low, high), RANGES);
        }
    }

    /// The number of the event that began the row.
    pub(super) const fn first(&self) -> u64 {
        self.first
    }

    /// The number of the last event of the row.
    pub(super) const fn last(&self) -> u64 {
        self.last
    }
}

/// Whether a call asks for a range that does not simply go on where the one before ended.
fn jumps(before: &Numbers, now: &Numbers) -> bool {
    let Some((low, high)) = range(before, now) else { return false };
    let end = before.windows(2).zip(now.windows(2)).find_map(|(before, now)| match (before, now) {
        ([_, end], [from, to]) if *from == low && *to == high => Some(*end),
        _ => None,
    });
    !end.is_some_and(|end| low >= end && low - end <= 1 + (high - low) / 4)
}

/// The range that a call asks for: two neighbouring numbers that both changed and stand in order.
fn range(before: &Numbers, now: &Numbers) -> Option<(u64, u64)> {
    let pairs = before.windows(2).zip(now.windows(2));
    pairs
        .filter_map(|(before, now)| match (before, now) {
            ([a, b], [low, high]) if a != low && b != high && low <= high && high - low <= WIDEST => {
                Some((*low, *high))
            }
            _ => None,
        })
        .next()
}

//! A row of calls that differ in their numbers only: leafing through a file, an id counted up, a page after a page.
//!
//! By itself that is honest work (a batch, a file read to its end). It is a sign of going round when every call is
//! announced by the same sentence, or when the ranges go over ground that was covered before.

use crate::event::Numbers;
use crate::fingerprint::Fingerprint;
use crate::ledger::CallFacts;
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
    /// How many calls in a row were announced by the same sentence.
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
            let same = !self.spoken.is_none() && self.spoken == self.sentence;
            self.calls = self.calls.saturating_add(1);
            self.announced = if same { self.announced.saturating_add(1) } else { 1 };
            if let Some(range) = range(&self.numbers, &call.numbers) {
                self.cover(range);
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
        let same = !self.spoken.is_none() && self.spoken == self.sentence;
        // Two thirds of the way there is a warning.
        if same && limit > 2 && announced * 3 >= limit * 2 {
            return Some(Found { sign: Sign::SameSentence, count: announced, refuse: announced > limit });
        }
        let (count, revisits) = (u64::from(self.calls) + 1, u64::from(self.revisits));
        let enough = count > limit && revisits * 3 >= limit;
        enough.then_some(Found { sign: Sign::OldGround, count, refuse: revisits * 3 >= limit * 2 })
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
            if self.covered.len() == RANGES {
                self.covered.remove(0);
            }
            self.covered.push((low, high));
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

//! Exact detection of any period up to a bound in a stream of fingerprints, at constant cost per element.
//!
//! For every period p it keeps the length of the current run in which each element equals the one p positions before
//! it. The stream ends with r repetitions of a block of p elements exactly when that run is at least (r - 1) * p long.
//! The smallest such p is primitive: if the block were itself a repetition of a shorter one, the shorter period would
//! have been found first.

use crate::fingerprint::Fingerprint;
use crate::limits::MAX_PERIOD;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// Number of elements kept: one pass of the longest period.
const MAX_RECENT: usize = MAX_PERIOD;

/// A block that is repeated at the end of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RepeatedBlock {
    /// Length of the block.
    pub(crate) period: usize,
    /// Number of consecutive elements that equal the one a period before.
    pub(crate) run: usize,
}

impl RepeatedBlock {
    /// Number of complete passes of the block, including the first.
    #[must_use]
    pub(crate) const fn passes(self) -> usize {
        self.run / self.period + 1
    }
}

/// The detector: the most recent elements with their event numbers, and one run length per period.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PeriodDetector {
    /// Newest last; at most [`MAX_RECENT`].
    recent: VecDeque<(Fingerprint, u64)>,
    /// `runs[p - 1]` for period p.
    runs: Vec<u32>,
    /// The longest run: zero while nothing repeats, which is the common case.
    longest: u32,
}

impl PeriodDetector {
    /// Appends an element that came with event number `seq`.
    pub(crate) fn push(&mut self, element: Fingerprint, seq: u64) {
        self.runs.resize(MAX_PERIOD, 0);
        self.longest = 0;
        for (run, (earlier, _)) in self.runs.iter_mut().zip(self.recent.iter().rev()) {
            *run = if *earlier == element { run.saturating_add(1) } else { 0 };
            self.longest = self.longest.max(*run);
        }
        if self.recent.len() == MAX_RECENT {
            self.recent.pop_front();
        }
        self.recent.push_back((element, seq));
    }

    /// The shortest block of `from` to `to` elements that is currently repeated at least `passes` times.
    pub(crate) fn find_repeat(&self, from: usize, to: usize, passes: usize) -> Option<RepeatedBlock> {
        self.find_period(from, to, |period| passes.saturating_sub(1).max(1) * period, &self.runs)
    }

    /// Like [`PeriodDetector::find_repeat`], but as if one more element were appended.
    pub(crate) fn find_repeat_with(
        &self,
        next: Fingerprint,
        from: usize,
        to: usize,
        passes: usize,
    ) -> Option<RepeatedBlock> {
        let length = self.recent.len();
        (from.max(1)..=to.min(MAX_PERIOD)).find_map(|period| {
            let earlier = length.checked_sub(period).and_then(|at| self.recent.get(at))?;
            let run = *self.runs.get(period - 1)? as usize + 1;
            (earlier.0 == next && run >= passes.saturating_sub(1).max(1) * period)
                .then_some(RepeatedBlock { period, run })
        })
    }

    /// The shortest block of 2 to `to` elements, not all equal, that would be repeated at least `passes` times if one
    /// more element were appended. A preceding run of equal elements hides nothing.
    pub(crate) fn repeating_block_with(
        &self,
        next: Fingerprint,
        to: usize,
        passes: usize,
    ) -> Option<RepeatedBlock> {
        let passes = passes.max(2);
        let length = self.recent.len();
        let run_of = |period: usize| {
            let earlier = length.checked_sub(period).and_then(|at| self.recent.get(at))?;
            (earlier.0 == next).then_some(*self.runs.get(period - 1)? as usize + 1)
        };
        let equal = run_of(1).map_or(1, |run| run + 1);
        (2..=to.min(MAX_PERIOD)).find_map(|period| {
            let run = run_of(period)?;
            let stands = run >= (passes - 1) * period && equal < passes * period;
            stands.then_some(RepeatedBlock { period, run })
        })
    }

    /// Event numbers of the last `count` elements, oldest first.
    pub(crate) fn last_events(&self, count: usize) -> Vec<u64> {
        let from = self.recent.len().saturating_sub(count);
        self.recent.iter().skip(from).map(|(_, seq)| *seq).collect()
    }

    /// The last `count` elements, oldest first.
    pub(crate) fn last(&self, count: usize) -> Vec<Fingerprint> {
        let from = self.recent.len().saturating_sub(count);
        self.recent.iter().skip(from).map(|(element, _)| *element).collect()
    }

    /// Clears the detector.
    pub(crate) fn clear(&mut self) {
        self.recent.clear();
        self.runs.clear();
        self.longest = 0;
    }

    fn find_period(
        &self,
        from: usize,
        to: usize,
        needed: impl Fn(usize) -> usize,
        runs: &[u32],
    ) -> Option<RepeatedBlock> {
        if (self.longest as usize) < needed(from.max(1)) {
            return None;
        }
        (from.max(1)..=to.min(MAX_PERIOD)).find_map(|period| {
            let run = *runs.get(period - 1)? as usize;
            (run >= needed(period)).then_some(RepeatedBlock { period, run })
        })
    }
}

#[cfg(test)]
#[path = "period_detector_tests.rs"]
mod tests;

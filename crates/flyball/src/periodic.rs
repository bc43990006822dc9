//! Finds any period up to a bound in a stream of fingerprints, exactly, at a fixed cost per element.
//!
//! For every period p it keeps the length of the current run in which each element equals the one p places before.
//! A block of p elements stands r times at the end of the stream exactly when that run is at least (r - 1) * p long.
//! The smallest such p is primitive: were the block itself a repetition of a shorter one, the shorter period would
//! have been found first.

use crate::fingerprint::Fingerprint;
use crate::limits::PERIOD;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// How many elements are kept: one pass of the longest period.
const KEPT: usize = PERIOD;

/// A block that stands several times in a row at the end of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Repeat {
    /// The length of the block.
    pub(crate) period: usize,
    /// How many elements in a row equalled the one a period before.
    pub(crate) run: usize,
}

impl Repeat {
    /// How many whole passes of the block there were, the first included.
    #[must_use]
    pub(crate) const fn passes(self) -> usize {
        self.run / self.period + 1
    }
}

/// The detector: the last elements with their event numbers, and one run length a period.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Periodic {
    /// Newest last; at most `KEPT`.
    kept: VecDeque<(Fingerprint, u64)>,
    /// `runs[p - 1]` for period p.
    runs: Vec<u32>,
    /// The longest of the runs: zero as long as nothing repeats, which is most of the time.
    longest: u32,
}

impl Periodic {
    /// Takes one more element that came with event number `seq`.
    pub(crate) fn push(&mut self, element: Fingerprint, seq: u64) {
        self.runs.resize(PERIOD, 0);
        self.longest = 0;
        for (run, (earlier, _)) in self.runs.iter_mut().zip(self.kept.iter().rev()) {
            *run = if *earlier == element { run.saturating_add(1) } else { 0 };
            self.longest = self.longest.max(*run);
        }
        if self.kept.len() == KEPT {
            self.kept.pop_front();
        }
        self.kept.push_back((element, seq));
    }

    /// The shortest block of `from` to `to` elements that now stands at least `passes` times in a row.
    pub(crate) fn repeat(&self, from: usize, to: usize, passes: usize) -> Option<Repeat> {
        self.find(from, to, |period| passes.saturating_sub(1).max(1) * period, &self.runs)
    }

    /// Like [`Periodic::repeat`], but as it would be after one more element, which is not taken.
    pub(crate) fn repeat_with(
        &self,
        next: Fingerprint,
        from: usize,
        to: usize,
        passes: usize,
    ) -> Option<Repeat> {
        let length = self.kept.len();
        (from.max(1)..=to.min(PERIOD)).find_map(|period| {
            let earlier = length.checked_sub(period).and_then(|at| self.kept.get(at))?;
            let run = *self.runs.get(period - 1)? as usize + 1;
            (earlier.0 == next && run >= passes.saturating_sub(1).max(1) * period)
                .then_some(Repeat { period, run })
        })
    }

    /// The shortest block of 2 to `to` elements, not all equal, that would stand at least `passes` times in a row after
    /// one more element, which is not taken. A run of equal elements before it hides nothing.
    pub(crate) fn block_with(&self, next: Fingerprint, to: usize, passes: usize) -> Option<Repeat> {
        let passes = passes.max(2);
        let length = self.kept.len();
        let run_of = |period: usize| {
            let earlier = length.checked_sub(period).and_then(|at| self.kept.get(at))?;
            (earlier.0 == next).then_some(*self.runs.get(period - 1)? as usize + 1)
        };
        let equal = run_of(1).map_or(1, |run| run + 1);
        (2..=to.min(PERIOD)).find_map(|period| {
            let run = run_of(period)?;
            let stands = run >= (passes - 1) * period && equal < passes * period;
            stands.then_some(Repeat { period, run })
        })
    }

    /// The event numbers of the last `count` elements, oldest first.
    pub(crate) fn last_events(&self, count: usize) -> Vec<u64> {
        let from = self.kept.len().saturating_sub(count);
        self.kept.iter().skip(from).map(|(_, seq)| *seq).collect()
    }

    /// The last `count` elements, oldest first.
    pub(crate) fn last(&self, count: usize) -> Vec<Fingerprint> {
        let from = self.kept.len().saturating_sub(count);
        self.kept.iter().skip(from).map(|(element, _)| *element).collect()
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        self.kept.clear();
        self.runs.clear();
        self.longest = 0;
    }

    fn find(&self, from: usize, to: usize, needed: impl Fn(usize) -> usize, runs: &[u32]) -> Option<Repeat> {
        if (self.longest as usize) < needed(from.max(1)) {
            return None;
        }
        (from.max(1)..=to.min(PERIOD)).find_map(|period| {
            let run = *runs.get(period - 1)? as usize;
            (run >= needed(period)).then_some(Repeat { period, run })
        })
    }
}

#[cfg(test)]
#[path = "periodic_tests.rs"]
mod tests;

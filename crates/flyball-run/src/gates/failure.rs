//! The same failure or a new one: what a failure is known by, and how failures change from run to run.

use flyball::Fingerprint;
use flyball_checks::Finding;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// How many counts a trend shows.
const SHOWN: usize = 8;

/// One failure.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// The check that it belongs to.
    pub check: String,
    /// What failed: without line numbers, times, addresses and folders.
    pub what: String,
    /// What it is known by: the same for the same failure in another line, at another time, in another folder.
    pub fingerprint: Fingerprint,
}

/// What changed between two runs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Changes {
    /// Failures that were there before.
    pub same: Vec<Failure>,
    /// Failures that were not there before.
    pub new: Vec<Failure>,
    /// How many failures are gone.
    pub gone: usize,
}

impl Changes {
    /// Compares the failures of a run with those of the run before, known by their fingerprints.
    #[must_use]
    pub fn between(before: &[Fingerprint], now: &[Failure]) -> Self {
        let before: BTreeSet<Fingerprint> = before.iter().copied().collect();
        let (same, new): (Vec<Failure>, Vec<Failure>) =
            now.iter().cloned().partition(|failure| before.contains(&failure.fingerprint));
        let gone = before.len() - same.len().min(before.len());
        Changes { same, new, gone }
    }
}

/// Every failure of some checks once.
pub(crate) fn failures<'a, I: Iterator<Item = &'a Finding> + Clone>(checks: &[(&str, I)]) -> Vec<Failure> {
    let mut seen = BTreeSet::new();
    let mut out = Vec::new();
    for (check, findings) in checks {
        for finding in findings.clone() {
            let what = finding.identity();
            // Not the check: an error that both the build and the linter tell is one failure.
            let fingerprint = Fingerprint::of_text(&format!("{:?}\0{what}", finding.kind));
            if seen.insert(fingerprint) {
                out.push(Failure { check: (*check).to_owned(), what, fingerprint });
            }
        }
    }
    out
}

/// One fingerprint for a set of failures, whatever their order.
pub(crate) fn fingerprint(failures: &[Failure]) -> Option<Fingerprint> {
    let each: BTreeSet<Fingerprint> = failures.iter().map(|failure| failure.fingerprint).collect();
    each.into_iter().reduce(Fingerprint::with)
}

/// How a number went from run to run: `failing tests 7 -> 4 -> 2`. Of a long story only the end is told.
#[must_use]
pub fn trend(what: &str, counts: &[u64]) -> String {
    let from = counts.len().saturating_sub(SHOWN);
    let shown: Vec<String> = counts.iter().skip(from).map(u64::to_string).collect();
    let dots = if from > 0 { "... -> " } else { "" };
    format!("{what} {dots}{}", shown.join(" -> "))
}

#[cfg(test)]
#[path = "failure_tests.rs"]
mod tests;

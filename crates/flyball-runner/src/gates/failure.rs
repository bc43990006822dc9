//! Identity of failures, and how failures change between runs.

use flyball::Fingerprint;
use flyball_checks::CheckFinding;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// Maximum number of counts in a trend.
const MAX_TREND_POINTS: usize = 8;

/// A failure.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GateFailure {
    /// Check that it belongs to.
    pub check: String,
    /// Identity without line numbers, times, addresses and folders.
    #[serde(rename = "what")]
    pub identity: String,
    /// Stable fingerprint, independent of line, time and folder.
    pub fingerprint: Fingerprint,
}

/// Changes between two runs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailureChanges {
    /// Failures that existed before.
    pub same: Vec<GateFailure>,
    /// New failures.
    pub new: Vec<GateFailure>,
    /// Number of fixed failures.
    pub gone: usize,
}

impl FailureChanges {
    /// Compares the failures of a run with the fingerprints of the previous run.
    #[must_use]
    pub fn between(before: &[Fingerprint], now: &[GateFailure]) -> Self {
        let before: BTreeSet<Fingerprint> = before.iter().copied().collect();
        let (same, new): (Vec<GateFailure>, Vec<GateFailure>) =
            now.iter().cloned().partition(|failure| before.contains(&failure.fingerprint));
        let gone = before.len() - same.len().min(before.len());
        FailureChanges { same, new, gone }
    }
}

/// Collects the failures of several checks without duplicates.
pub(crate) fn collect_failures<'a, I: Iterator<Item = &'a CheckFinding> + Clone>(
    checks: &[(&str, I)],
) -> Vec<GateFailure> {
    let mut seen = BTreeSet::new();
    let mut out = Vec::new();
    for (check, findings) in checks {
        for finding in findings.clone() {
            let what = finding.identity();
            // Excludes the check name: an error reported by both the build and the linter is one failure.
            let fingerprint = Fingerprint::of_text(&format!("{:?}\0{what}", finding.kind));
            if seen.insert(fingerprint) {
                out.push(GateFailure { check: (*check).to_owned(), identity: what, fingerprint });
            }
        }
    }
    out
}

/// Order-independent fingerprint of a set of failures.
pub(crate) fn fingerprint_all(failures: &[GateFailure]) -> Option<Fingerprint> {
    let each: BTreeSet<Fingerprint> = failures.iter().map(|failure| failure.fingerprint).collect();
    each.into_iter().reduce(Fingerprint::combine)
}

/// Trend of a count over several runs: `failing tests 7 -> 4 -> 2`. Shows only the last few.
#[must_use]
pub fn trend(what: &str, counts: &[u64]) -> String {
    let from = counts.len().saturating_sub(MAX_TREND_POINTS);
    let shown: Vec<String> = counts.iter().skip(from).map(u64::to_string).collect();
    let dots = if from > 0 { "... -> " } else { "" };
    format!("{what} {dots}{}", shown.join(" -> "))
}

#[cfg(test)]
#[path = "failure_tests.rs"]
mod tests;

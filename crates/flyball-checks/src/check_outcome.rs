//! Determines the outcome of a check from its exit code and its results, which must agree.
//!
//! A command that exits with 0 but lists failures has failed. One that exits with another code and lists nothing has
//! failed too, and the end of its output becomes the reason. Incomplete results never pass. A check that ran nothing is
//! skipped, not passed.

use super::finding::{CheckFinding, FindingKind};
use super::format::ResultsFormat;
use super::parsers::{ParsedResults, TestCounts};
use flyball::CheckKind;
use flyball::text::last_lines;
use serde::{Deserialize, Serialize};

/// Number of output lines used as the message of a failure without a finding.
const TAIL_LINES: usize = 6;

/// Messages that tools print if there are no tests.
const NO_TESTS: [&str; 5] =
    ["no tests ran", "no tests to run", "No tests found", "No test files found", "no tests were collected"];

/// The outcome of a check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "outcome")]
pub enum CheckOutcome {
    /// It ran and found no problem.
    Passed,
    /// It ran and found a problem, or its results are inconclusive.
    Failed,
    /// It did not run, or had nothing to check.
    Skipped {
        /// The reason, for people.
        reason: String,
    },
}

impl CheckOutcome {
    /// Whether it is a pass.
    #[must_use]
    pub fn is_passed(&self) -> bool {
        *self == CheckOutcome::Passed
    }

    /// Whether it is a failure.
    #[must_use]
    pub fn is_failed(&self) -> bool {
        *self == CheckOutcome::Failed
    }
}

/// The outcome of a command that exited with a code; also drops findings that do not count.
pub fn determine_outcome(
    name: &str,
    kind: CheckKind,
    code: i32,
    reading: &mut ParsedResults,
) -> CheckOutcome {
    if code == 0 && reading.format == ResultsFormat::Plain {
        // Findings from plain text are guesses, so a successful exit code overrides them, except for named tests.
        reading.findings.retain(|found| matches!(found.kind, FindingKind::Test | FindingKind::Setup));
    }
    if reading.findings.iter().any(CheckFinding::is_failure) {
        return CheckOutcome::Failed;
    }
    if let Some(reason) = no_tests_reason(kind, code, reading) {
        return CheckOutcome::Skipped { reason };
    }
    if code == 0 && reading.complete {
        return CheckOutcome::Passed;
    }
    if code != 0 {
        let reason = format!("exited with code {code}");
        push_failure_finding(name, &reason, reading);
    }
    if !reading.complete {
        let note = reading.notes.first().cloned().unwrap_or_else(|| "the results are incomplete".to_owned());
        reading.findings.push(CheckFinding::new(FindingKind::Other, name, &note));
    }
    CheckOutcome::Failed
}

/// The outcome of a command that was stopped: failed, with `message` as the reason.
pub fn failed_because(name: &str, message: &str, reading: &mut ParsedResults) -> CheckOutcome {
    reading.partial = true;
    reading.findings.retain(CheckFinding::is_failure);
    reading.findings.insert(0, CheckFinding::new(FindingKind::Other, name, message));
    CheckOutcome::Failed
}

/// Adds a finding to a failed check that listed none: from hints in its output, or from the end of it.
pub(crate) fn push_failure_finding(name: &str, reason: &str, reading: &mut ParsedResults) {
    if !reading.hints.is_empty() {
        let hints = std::mem::take(&mut reading.hints);
        reading.findings.splice(0..0, hints);
        return;
    }
    let warnings = reading.findings.len();
    let said = last_lines(&reading.text, TAIL_LINES);
    let message = match (warnings, said.is_empty()) {
        (0, true) => format!("{reason} and printed nothing"),
        (0, false) => format!("{reason}: {said}"),
        (n, _) => format!("{reason}; {n} warnings and no error are listed"),
    };
    reading.findings.insert(0, CheckFinding::new(FindingKind::Other, name, &message));
}

/// The reason why nothing was tested, if nothing was.
pub(crate) fn no_tests_reason(kind: CheckKind, code: i32, reading: &ParsedResults) -> Option<String> {
    if kind != CheckKind::Tests {
        return None;
    }
    let counts = reading.tests.unwrap_or_default();
    if code == 0 && reading.complete && reading.tests.is_some() && counts.passed + counts.failed == 0 {
        return Some(no_tests_text(&counts));
    }
    let says_so = NO_TESTS.iter().any(|words| reading.text.contains(words));
    // An empty report is vitest's only sign of this in JSON, unless the output also contains an error.
    let empty = reading.format == ResultsFormat::Jest && reading.complete && !reading.text.contains("Error");
    (code != 0 && counts.total() == 0 && reading.hints.is_empty() && (says_so || empty))
        .then(|| no_tests_text(&counts))
}

fn no_tests_text(counts: &TestCounts) -> String {
    match counts.skipped {
        0 => "no tests were found".to_owned(),
        1 => "the only test was skipped".to_owned(),
        n => format!("all {n} tests were skipped"),
    }
}

#[cfg(test)]
#[path = "check_outcome_tests.rs"]
mod tests;

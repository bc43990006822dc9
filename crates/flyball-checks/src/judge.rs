//! Whether one gate passed: how its command ended and what its results say must agree.
//!
//! A command that ends with 0 but lists failures has failed. One that ends with another code and lists nothing has
//! failed too, and the end of its output says why. Results that are not whole never pass. Nothing that ran at all is
//! skipped, not passed.

use super::finding::{Finding, FindingKind};
use super::format::Format;
use super::read::{Counts, Reading};
use flyball::CheckKind;
use flyball::text::tail;
use serde::{Deserialize, Serialize};

/// How many lines of output stand for a failure that nothing else explains.
const TAIL_LINES: usize = 6;

/// What tools print when there is no test at all.
const NO_TESTS: [&str; 5] =
    ["no tests ran", "no tests to run", "No tests found", "No test files found", "no tests were collected"];

/// What became of one gate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "outcome")]
pub enum Outcome {
    /// It ran and found nothing that is wrong.
    Passed,
    /// It ran and found something, or could not say.
    Failed,
    /// It did not run, or had nothing to look at.
    Skipped {
        /// Why, in words for people.
        reason: String,
    },
}

impl Outcome {
    /// Whether it is a pass.
    #[must_use]
    pub fn is_passed(&self) -> bool {
        *self == Outcome::Passed
    }

    /// Whether it is a failure.
    #[must_use]
    pub fn is_failed(&self) -> bool {
        *self == Outcome::Failed
    }
}

/// The outcome of a command that ended with an exit code, and the findings that count.
pub fn judge(name: &str, kind: CheckKind, code: i32, reading: &mut Reading) -> Outcome {
    if code == 0 && reading.format == Format::Plain {
        // Text is read by its looks; a command that is content outweighs that, except where a test is named.
        reading.findings.retain(|found| matches!(found.kind, FindingKind::Test | FindingKind::Setup));
    }
    if reading.findings.iter().any(Finding::is_failure) {
        return Outcome::Failed;
    }
    if let Some(reason) = nothing_ran(kind, code, reading) {
        return Outcome::Skipped { reason };
    }
    if code == 0 && reading.whole {
        return Outcome::Passed;
    }
    if code != 0 {
        let reason = format!("it ended with code {code}");
        explain(name, &reason, reading);
    }
    if !reading.whole {
        let note = reading.notes.first().cloned().unwrap_or_else(|| "the results are not whole".to_owned());
        reading.findings.push(Finding::new(FindingKind::Other, name, &note));
    }
    Outcome::Failed
}

/// The outcome of a command that did not end by itself: it failed, and `message` says why.
pub fn failed_because(name: &str, message: &str, reading: &mut Reading) -> Outcome {
    reading.partial = true;
    reading.findings.retain(Finding::is_failure);
    reading.findings.insert(0, Finding::new(FindingKind::Other, name, message));
    Outcome::Failed
}

/// Adds why a check failed that listed no failure: what its output hints at, or the end of it.
pub(crate) fn explain(name: &str, reason: &str, reading: &mut Reading) {
    if !reading.hints.is_empty() {
        let hints = std::mem::take(&mut reading.hints);
        reading.findings.splice(0..0, hints);
        return;
    }
    let warnings = reading.findings.len();
    let said = tail(&reading.text, TAIL_LINES);
    let message = match (warnings, said.is_empty()) {
        (0, true) => format!("{reason} and printed nothing"),
        (0, false) => format!("{reason}: {said}"),
        (n, _) => format!("{reason}; {n} warnings are listed and no error"),
    };
    reading.findings.insert(0, Finding::new(FindingKind::Other, name, &message));
}

/// Why nothing was tested, if that is so.
pub(crate) fn nothing_ran(kind: CheckKind, code: i32, reading: &Reading) -> Option<String> {
    if kind != CheckKind::Tests {
        return None;
    }
    let counts = reading.tests.unwrap_or_default();
    if code == 0 && reading.whole && reading.tests.is_some() && counts.passed + counts.failed == 0 {
        return Some(none_of(&counts));
    }
    let says_so = NO_TESTS.iter().any(|words| reading.text.contains(words));
    // An empty report is the only way in which vitest's JSON says it; an error beside it says something else.
    let empty = reading.format == Format::Jest && reading.whole && !reading.text.contains("Error");
    (code != 0 && counts.total() == 0 && reading.hints.is_empty() && (says_so || empty))
        .then(|| none_of(&counts))
}

fn none_of(counts: &Counts) -> String {
    match counts.skipped {
        0 => "no tests were found".to_owned(),
        1 => "the only test was skipped".to_owned(),
        n => format!("all {n} tests were skipped"),
    }
}

#[cfg(test)]
#[path = "judge_tests.rs"]
mod tests;

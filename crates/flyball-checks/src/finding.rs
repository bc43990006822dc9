//! A finding of a check: a failing test, a compile error or a lint.

use flyball::text::{normalize_volatile, one_line, truncate};
use serde::{Deserialize, Serialize};
use std::fmt;

/// Maximum length of a finding's message, in characters.
const MAX_MESSAGE_CHARS: usize = 400;

/// The kind of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FindingKind {
    /// A compile or type error.
    Build,
    /// A test that could not run: a broken fixture, hook, import or test program.
    Setup,
    /// A test that failed.
    Test,
    /// A linter rule violation.
    Lint,
    /// Any other reason why the check does not pass.
    Other,
}

/// The severity of a finding.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FindingSeverity {
    /// Makes the check fail.
    #[default]
    Error,
    /// Reported, but does not make the check fail.
    Warning,
}

/// A finding of a check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckFinding {
    /// Its kind.
    pub kind: FindingKind,
    /// Its severity.
    #[serde(default, skip_serializing_if = "is_error")]
    pub severity: FindingSeverity,
    /// The test name, the rule, or the compiler's error code. Empty if there is none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The file, relative to the workspace folder if it is inside.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// The line, starting at 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    /// The message, on one line of at most 400 characters.
    pub message: String,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_error(severity: &FindingSeverity) -> bool {
    *severity == FindingSeverity::Error
}

impl CheckFinding {
    /// Creates an error; the message is reduced to one line.
    #[must_use]
    pub fn new(kind: FindingKind, name: impl Into<String>, message: &str) -> Self {
        let message = truncate(&one_line(message), MAX_MESSAGE_CHARS);
        CheckFinding {
            kind,
            severity: FindingSeverity::Error,
            name: name.into(),
            file: None,
            line: None,
            message,
        }
    }

    /// Sets the location.
    #[must_use]
    pub fn at(mut self, file: impl Into<String>, line: Option<u32>) -> Self {
        let file = file.into();
        if !file.is_empty() {
            self.file = Some(file);
            self.line = line.filter(|line| *line > 0);
        }
        self
    }

    /// Sets the location, if known.
    pub(crate) fn at_optional(self, place: Option<(String, Option<u32>)>) -> Self {
        match place {
            Some((file, line)) => self.at(file, line),
            None => self,
        }
    }

    /// Makes it a warning.
    #[must_use]
    pub fn warning(mut self) -> Self {
        self.severity = FindingSeverity::Warning;
        self
    }

    /// Whether it makes the check fail.
    #[must_use]
    pub fn is_failure(&self) -> bool {
        self.severity == FindingSeverity::Error
    }

    /// Whether it concerns a test, whose name then counts as failing.
    #[must_use]
    pub fn is_test_failure(&self) -> bool {
        matches!(self.kind, FindingKind::Test | FindingKind::Setup)
            && self.is_failure()
            && !self.name.is_empty()
    }

    /// The failure on one line that stays equal when lines move, times differ or addresses change: with the file,
    /// without the line. Used to distinguish repeated failures from new ones.
    #[must_use]
    pub fn identity(&self) -> String {
        let mut out = String::new();
        let is_test = matches!(self.kind, FindingKind::Test | FindingKind::Setup);
        if let Some(file) = self.file.as_deref().filter(|_| !is_test) {
            out.push_str(file);
            out.push_str(": ");
        }
        if is_test && !self.name.is_empty() {
            out.push_str(&normalize_volatile(&self.name));
            out.push_str(": ");
        }
        out.push_str(&normalize_volatile(&self.message));
        if !is_test && !self.name.is_empty() {
            out.push_str(" [");
            out.push_str(&self.name);
            out.push(']');
        }
        out
    }
}

/// Formats a finding on one line with its location: `tests::adds: assertion failed (src/lib.rs:28)`, `src/lib.rs:11:
/// not found [E0425]`.
impl fmt::Display for CheckFinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = match (&self.file, self.line) {
            (Some(file), Some(line)) => format!("{file}:{line}"),
            (Some(file), None) => file.clone(),
            (None, _) => String::new(),
        };
        if matches!(self.kind, FindingKind::Test | FindingKind::Setup) {
            if !self.name.is_empty() {
                write!(f, "{}: ", self.name)?;
            }
            f.write_str(&self.message)?;
            return if place.is_empty() { Ok(()) } else { write!(f, " ({place})") };
        }
        if !place.is_empty() {
            write!(f, "{place}: ")?;
        }
        f.write_str(&self.message)?;
        if self.name.is_empty() { Ok(()) } else { write!(f, " [{}]", self.name) }
    }
}

/// Removes duplicates with the same message and location; a tool that builds a crate twice reports errors twice.
pub fn dedup_findings(findings: &mut Vec<CheckFinding>) {
    let mut seen = std::collections::BTreeSet::new();
    findings.retain(|finding| {
        seen.insert((
            finding.kind,
            finding.severity,
            finding.name.clone(),
            finding.file.clone(),
            finding.line,
            finding.message.clone(),
        ))
    });
}

/// Maximum number of failures listed per check.
const MAX_DETAILS: usize = 50;

/// The failures of a check, one line each with locations, for `details` of an event.
///
/// Failed tests are sorted: a parallel runner reports them in varying order, and equal failures must give equal output,
/// or a stall goes unnoticed. Everything else keeps its order, because the first compiler error is the one to fix.
#[must_use]
pub fn details<'a>(failures: impl Iterator<Item = &'a CheckFinding>) -> Vec<String> {
    let mut seen = std::collections::BTreeSet::new();
    let mut failures: Vec<&CheckFinding> = failures.collect();
    if failures.iter().all(|found| found.kind == FindingKind::Test) {
        failures.sort_by_cached_key(|found| found.to_string());
    }
    let mut details: Vec<String> = failures.into_iter().map(CheckFinding::to_string).collect();
    details.retain(|detail| seen.insert(detail.clone()));
    let more = details.len().saturating_sub(MAX_DETAILS);
    details.truncate(MAX_DETAILS);
    if more > 0 {
        details.push(format!("and {more} more"));
    }
    details
}

#[cfg(test)]
#[path = "finding_tests.rs"]
mod tests;

//! One thing that a check found: a failing test, a compile error, a lint.

use flyball::text::{cut, one_line, stable};
use serde::{Deserialize, Serialize};
use std::fmt;

/// The longest message of a finding, in characters.
const MESSAGE_CHARS: usize = 400;

/// What sort of thing was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FindingKind {
    /// The code does not compile, or its types are wrong.
    Build,
    /// A test could not run: a broken fixture, hook, import or test program.
    Setup,
    /// A test ran and failed.
    Test,
    /// A rule of a linter is broken.
    Lint,
    /// Anything else that keeps the check from passing.
    Other,
}

/// How bad it is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// The check fails because of it.
    #[default]
    Error,
    /// It is told, and the check may pass all the same.
    Warning,
}

/// One thing that a check found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// What sort of thing it is.
    pub kind: FindingKind,
    /// How bad it is.
    #[serde(default, skip_serializing_if = "is_error")]
    pub severity: Severity,
    /// The test as its tool names it, the rule, or the code of the compiler's message. Empty if there is none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The file, from the workspace's folder if it lies inside.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// The line, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    /// What is wrong, in one line of at most 400 characters.
    pub message: String,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference over")]
fn is_error(severity: &Severity) -> bool {
    *severity == Severity::Error
}

impl Finding {
    /// An error of a kind; the message is brought into one line.
    #[must_use]
    pub fn new(kind: FindingKind, name: impl Into<String>, message: &str) -> Self {
        let message = cut(&one_line(message), MESSAGE_CHARS);
        Finding { kind, severity: Severity::Error, name: name.into(), file: None, line: None, message }
    }

    /// Says where it is.
    #[must_use]
    pub fn at(mut self, file: impl Into<String>, line: Option<u32>) -> Self {
        let file = file.into();
        if !file.is_empty() {
            self.file = Some(file);
            self.line = line.filter(|line| *line > 0);
        }
        self
    }

    /// Says where it is, if that is known.
    pub(crate) fn maybe_at(self, place: Option<(String, Option<u32>)>) -> Self {
        match place {
            Some((file, line)) => self.at(file, line),
            None => self,
        }
    }

    /// Makes it a warning.
    #[must_use]
    pub fn warning(mut self) -> Self {
        self.severity = Severity::Warning;
        self
    }

    /// Whether the check fails because of it.
    #[must_use]
    pub fn is_failure(&self) -> bool {
        self.severity == Severity::Error
    }

    /// Whether it belongs to a test, so that its name counts as failing.
    #[must_use]
    pub fn is_of_a_test(&self) -> bool {
        matches!(self.kind, FindingKind::Test | FindingKind::Setup)
            && self.is_failure()
            && !self.name.is_empty()
    }

    /// What failed, in one line that stays the same when lines move, times pass and addresses change: with the file,
    /// without the line. This is what tells the same failure from a new one.
    #[must_use]
    pub fn identity(&self) -> String {
        let mut out = String::new();
        let is_test = matches!(self.kind, FindingKind::Test | FindingKind::Setup);
        if let Some(file) = self.file.as_deref().filter(|_| !is_test) {
            out.push_str(file);
            out.push_str(": ");
        }
        if is_test && !self.name.is_empty() {
            out.push_str(&stable(&self.name));
            out.push_str(": ");
        }
        out.push_str(&stable(&self.message));
        if !is_test && !self.name.is_empty() {
            out.push_str(" [");
            out.push_str(&self.name);
            out.push(']');
        }
        out
    }
}

/// In one line with its place: `tests::adds: assertion failed (src/lib.rs:28)`, `src/lib.rs:11: not found [E0425]`.
impl fmt::Display for Finding {
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

/// Keeps the first of those that say the same about the same place; a tool that builds a crate twice says it twice.
pub fn without_doubles(findings: &mut Vec<Finding>) {
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

/// The most failures that a check lists.
const MOST_DETAILS: usize = 50;

/// The failures of a check, one line each with their places, as `details` of an event lists them.
///
/// Failed tests are sorted: a parallel runner reports them in another order each time, and the same failures must give the
/// same output, or a stall goes unnoticed. Everything else keeps its order, because the first error of a compiler is the
/// one to fix.
#[must_use]
pub fn details<'a>(failures: impl Iterator<Item = &'a Finding>) -> Vec<String> {
    let mut seen = std::collections::BTreeSet::new();
    let mut failures: Vec<&Finding> = failures.collect();
    if failures.iter().all(|found| found.kind == FindingKind::Test) {
        failures.sort_by_cached_key(|found| found.to_string());
    }
    let mut details: Vec<String> = failures.into_iter().map(Finding::to_string).collect();
    details.retain(|detail| seen.insert(detail.clone()));
    let more = details.len().saturating_sub(MOST_DETAILS);
    details.truncate(MOST_DETAILS);
    if more > 0 {
        details.push(format!("and {more} more"));
    }
    details
}

#[cfg(test)]
#[path = "finding_tests.rs"]
mod tests;

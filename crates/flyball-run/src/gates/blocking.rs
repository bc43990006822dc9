//! What the one whose completion was refused is told: what failed, where, and what to do next (seed 002).

use super::finding::Finding;
use super::gate::GateKind;
use super::judge::Outcome;
use super::report::{GateRun, Report, Verdict};
use super::text::cut;
use flyball::Check;
use flyball::policy::{Gate as Limits, Unverified};
use serde::Serialize;
use std::fmt::Write;

/// What a completion is asked for with, unless the workflow names it otherwise.
pub const TASK_COMPLETE: &str = "TASK_COMPLETE";
/// The most failures that are told of the check that blocks.
const MOST: usize = 20;
/// The most failures that are told of each other check.
const MOST_OF_OTHERS: usize = 5;
/// The longest line that is told, in characters.
const DETAIL_CHARS: usize = 300;

/// The checks as seed 002 groups them.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct GateResult {
    /// Whether all that ran passed.
    pub passed: bool,
    /// The check of the tests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tests: Option<Check>,
    /// The check of the linter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lint: Option<Check>,
    /// The check of the build.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub build: Option<Check>,
    /// Every other check.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<Check>,
    /// `QUALITY_PASSED` or `QUALITY_BLOCKED`.
    pub feedback: String,
}

impl GateResult {
    /// Groups the checks of a report.
    #[must_use]
    pub fn of(report: &Report) -> Self {
        let find = |name: &str| report.checks.iter().find(|check| check.name == name).cloned();
        let is_other = |check: &&Check| !matches!(check.name.as_str(), "tests" | "lint" | "build");
        let passed = report.verdict == Verdict::Passed;
        GateResult {
            passed,
            tests: find("tests"),
            lint: find("lint"),
            build: find("build"),
            others: report.checks.iter().filter(is_other).cloned().collect(),
            feedback: if passed { "QUALITY_PASSED" } else { "QUALITY_BLOCKED" }.to_owned(),
        }
    }

    /// The checks in the order in which the seed shows them.
    fn shown(&self) -> impl Iterator<Item = &Check> {
        [&self.tests, &self.lint, &self.build].into_iter().flatten().chain(&self.others)
    }
}

/// A refused completion, with what is needed to get it accepted.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BlockingEvent {
    /// What was asked for, such as `TASK_COMPLETE`.
    pub original_request: String,
    /// The check that is to blame; `unknown` if none failed.
    pub blocked_by: String,
    /// In one line.
    pub summary: String,
    /// The single failures: first those of the check to blame, then those of the others.
    pub details: Vec<String>,
    /// What to do next.
    pub suggestions: Vec<String>,
    /// All checks that failed, the one to blame first.
    pub failed: Vec<String>,
    /// The checks themselves.
    pub gate_result: GateResult,
}

impl BlockingEvent {
    /// What to tell about a report under a policy's `gate` limits. Nothing if the work passed, if it is unverified
    /// and the policy lets that through, if the run was cancelled, or if the policy has backpressure off: then the
    /// completion is refused without a word.
    #[must_use]
    pub fn of(report: &Report, request: &str, limits: &Limits) -> Option<Self> {
        let refused = match report.verdict {
            Verdict::Passed => false,
            Verdict::Failed => true,
            Verdict::Unverified => limits.unverified == Unverified::Block && !report.is_cancelled(),
        };
        if !refused || !limits.backpressure {
            return None;
        }
        let blocker = report.blocker(limits.order);
        let blocked_by = blocker.map_or("unknown", |check| &check.name);
        let failed = report.checks.iter().filter(|check| !check.passed && !check.skipped);
        let mut failed: Vec<String> = failed.map(|check| check.name.clone()).collect();
        failed.sort_by_key(|name| name != blocked_by);
        let summary =
            if blocker.is_some() { format!("{blocked_by} failed") } else { "no check ran".to_owned() };
        Some(BlockingEvent {
            original_request: request.to_owned(),
            blocked_by: blocked_by.to_owned(),
            summary,
            details: if blocker.is_some() { details(report, &failed) } else { reasons(report) },
            suggestions: suggestions(report, blocked_by),
            failed,
            gate_result: GateResult::of(report),
        })
    }

    /// The message for the one whose completion was refused, as seed 002 words it.
    #[must_use]
    pub fn text(&self) -> String {
        let mut out = String::new();
        // Writing into a string cannot fail.
        let _ = self.write(&mut out);
        out
    }

    fn write(&self, out: &mut String) -> std::fmt::Result {
        write!(out, "## Completion Blocked: {}\n\n", self.summary)?;
        write!(out, "Your `{}` request was blocked.\n\n", self.original_request)?;
        if !self.details.is_empty() {
            out.push_str("### Issues Found\n");
            for detail in &self.details {
                writeln!(out, "- {detail}")?;
            }
            out.push('\n');
        }
        if !self.suggestions.is_empty() {
            out.push_str("### Suggested Actions\n");
            for (at, suggestion) in self.suggestions.iter().enumerate() {
                writeln!(out, "{}. {suggestion}", at + 1)?;
            }
            out.push('\n');
        }
        out.push_str("### Gate Status\n");
        for check in self.gate_result.shown() {
            // Skipped first: a check that did not run has not passed, whatever else it says.
            let (icon, status) = match (check.skipped, check.passed) {
                (true, _) => ("[~]", "skipped"),
                (false, true) => ("[x]", "passed"),
                (false, false) => ("[ ]", "failed"),
            };
            writeln!(out, "{icon} {}: {status}", check.name)?;
        }
        Ok(())
    }
}

/// What failed, one line each: the blocking check in full, of the others a few lines with the check's name.
fn details(report: &Report, failed: &[String]) -> Vec<String> {
    let mut seen: Vec<&Finding> = Vec::new();
    let mut out = Vec::new();
    for (at, name) in failed.iter().enumerate() {
        let most = if at == 0 { MOST } else { MOST_OF_OTHERS };
        let of_check = |run: &&GateRun| run.check == *name;
        let all = report.gates.iter().filter(of_check).flat_map(GateRun::failures);
        let fresh: Vec<&Finding> = all.filter(|found| !seen.contains(found)).collect();
        for found in fresh.iter().take(most) {
            let line = if at == 0 { found.to_string() } else { format!("{name}: {found}") };
            out.push(cut(&line, DETAIL_CHARS));
        }
        if fresh.len() > most {
            out.push(format!("{name}: and {} more", fresh.len() - most));
        }
        seen.extend(fresh);
    }
    out
}

/// Why nothing ran.
fn reasons(report: &Report) -> Vec<String> {
    let reason = |run: &GateRun| match &run.outcome {
        Outcome::Skipped { reason } => Some(cut(&format!("{}: {reason}", run.name), DETAIL_CHARS)),
        _ => None,
    };
    report.gates.iter().filter_map(reason).collect()
}

fn suggestions(report: &Report, blocked_by: &str) -> Vec<String> {
    let kind = report
        .gates
        .iter()
        .find(|run| run.check == blocked_by && run.outcome.is_failed())
        .map(|run| run.kind);
    let lines: &[&str] = match kind {
        Some(GateKind::Tests) => &[
            "Review the failing test assertions",
            "Check if recent changes broke existing behavior",
            "Run the specific failing test locally for more details",
        ],
        Some(GateKind::Lint) => &["Fix the reported style/lint issues", "Run the linter to see all issues"],
        Some(GateKind::Build) => {
            &["Fix compilation errors before proceeding", "Check for missing imports or typos"]
        }
        Some(GateKind::Custom) | None => &[],
    };
    lines.iter().map(|line| (*line).to_owned()).collect()
}

#[cfg(test)]
#[path = "blocking_tests.rs"]
mod tests;

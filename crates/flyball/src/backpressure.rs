//! Backpressure: the response to a completion that the quality gate blocks, as data and as text for the agent.
//!
//! It depends only on the checks of a `gate.checked` event and the policy's `gate` limits, so every integration gives
//! the same response. A check that depends on a failed one counts as skipped, because its result is meaningless.

use crate::event::{Check, CheckKind};
use crate::fingerprint::Fingerprint;
use crate::policy::{GateOrder, GatePolicy as Limits, UnverifiedAction};
use crate::text::{elide_middle, last_lines, normalize_volatile, one_line, truncate};
use serde::Serialize;
use serde_json::Value;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// Default name of a completion request.
pub const TASK_COMPLETE: &str = "TASK_COMPLETE";
/// Maximum number of failures listed for the blocking check.
const MAX_DETAILS: usize = 20;
/// Maximum number of failures listed for each other check.
const MAX_OTHER_DETAILS: usize = 5;
/// Maximum number of failures listed in total.
const MAX_TOTAL_DETAILS: usize = 100;
/// Maximum number of checks listed besides tests, lint and build.
const MAX_OTHER_CHECKS: usize = 64;
/// Maximum length of a failure line, in characters.
const MAX_DETAIL_CHARS: usize = 300;
/// Maximum length of a check or request name, in characters.
const MAX_NAME_CHARS: usize = 120;
/// Maximum length of a check's output, in characters.
const MAX_OUTPUT_CHARS: usize = 2_000;
/// Number of output lines shown for a failure without details.
const TAIL_LINES: usize = 6;

/// Checks grouped into tests, lint, build and others.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct GateResult {
    /// Whether at least one check ran and all that ran passed.
    pub passed: bool,
    /// The test check.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tests: Option<Check>,
    /// The lint check.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lint: Option<Check>,
    /// The build check.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub build: Option<Check>,
    /// All other checks, at most 64.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<Check>,
    /// Number of checks not listed.
    #[serde(skip_serializing_if = "is_zero")]
    pub omitted: usize,
    /// `QUALITY_PASSED` or `QUALITY_BLOCKED`.
    pub feedback: String,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(number: &usize) -> bool {
    *number == 0
}

impl GateResult {
    /// Groups checks.
    #[must_use]
    pub fn from_checks(checks: &[Check]) -> Self {
        let passed =
            !checks.iter().any(has_failed) && checks.iter().any(|check| check.passed && !check.skipped);
        let mut left: Vec<&Check> = checks.iter().collect();
        let mut take = |kind: CheckKind| {
            let named = left.iter().position(|check| check.name == kind.as_str());
            let at = named.or_else(|| left.iter().position(|check| check.kind() == kind))?;
            Some(truncate_output(left.remove(at)))
        };
        let (tests, lint, build) = (take(CheckKind::Tests), take(CheckKind::Lint), take(CheckKind::Build));
        GateResult {
            passed,
            tests,
            lint,
            build,
            others: left.iter().take(MAX_OTHER_CHECKS).map(|check| truncate_output(check)).collect(),
            omitted: left.len().saturating_sub(MAX_OTHER_CHECKS),
            feedback: if passed { "QUALITY_PASSED" } else { "QUALITY_BLOCKED" }.to_owned(),
        }
    }

    /// The checks in the order in which the status lists them.
    fn checks_in_order(&self) -> impl Iterator<Item = &Check> {
        [&self.tests, &self.lint, &self.build].into_iter().flatten().chain(&self.others)
    }
}

/// A check with its output truncated for display.
fn truncate_output(check: &Check) -> Check {
    Check {
        name: bounded_line(&check.name, MAX_NAME_CHARS),
        output: elide_middle(&check.output, MAX_OUTPUT_CHARS),
        details: check
            .details
            .iter()
            .take(MAX_DETAILS)
            .map(|detail| bounded_line(detail, MAX_DETAIL_CHARS))
            .collect(),
        ..check.clone()
    }
}

/// A blocked completion, with the information needed to fix it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BlockingEvent {
    /// The original request, such as `TASK_COMPLETE`.
    pub original_request: String,
    /// Root cause check; `unknown` if none failed.
    pub blocked_by: String,
    /// One-line summary.
    pub summary: String,
    /// Individual failures: those of the root cause check first, then the others.
    pub details: Vec<String>,
    /// Suggested next steps.
    pub suggestions: Vec<String>,
    /// All failed checks, root cause first.
    pub failed: Vec<String>,
    /// The check results.
    pub gate_result: GateResult,
}

impl BlockingEvent {
    /// Evaluates checks under a policy's `gate` limits. `None` if they passed, if nothing was verified and the policy
    /// allows that, or if the policy turns backpressure off: the completion is then blocked without details.
    #[must_use]
    pub fn from_checks(checks: &[Check], request: &str, limits: &Limits) -> Option<Self> {
        let checks = skip_dependents(checks, &limits.dependencies);
        let blocker = root_cause(&checks, limits.order);
        let unverified = blocker.is_none() && !checks.iter().any(|check| check.passed && !check.skipped);
        let refused = blocker.is_some() || unverified && limits.unverified == UnverifiedAction::Block;
        if !refused || !limits.backpressure {
            return None;
        }
        let mut failing: Vec<&Check> = checks.iter().filter(|check| has_failed(check)).collect();
        failing.sort_by_key(|check| cause_rank(check, limits.order));
        let blocked_by =
            blocker.map_or_else(|| "unknown".to_owned(), |check| bounded_line(&check.name, MAX_NAME_CHARS));
        Some(BlockingEvent {
            original_request: bounded_line(request, MAX_NAME_CHARS),
            summary: match blocker {
                Some(_) => format!("{blocked_by} failed"),
                None => "no check ran".to_owned(),
            },
            details: if blocker.is_some() { failure_details(&failing) } else { skip_reasons(&checks) },
            suggestions: suggestions(blocker),
            failed: failing
                .iter()
                .take(MAX_OTHER_CHECKS)
                .map(|check| bounded_line(&check.name, MAX_NAME_CHARS))
                .collect(),
            gate_result: GateResult::from_checks(&checks),
            blocked_by,
        })
    }

    /// Message for the agent whose completion was blocked.
    #[must_use]
    pub fn text(&self) -> String {
        let mut out = String::new();
        // Writing into a string cannot fail.
        let _ = self.write_text(&mut out);
        out
    }

    fn write_text(&self, out: &mut String) -> std::fmt::Result {
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
        for check in self.gate_result.checks_in_order() {
            // Test `skipped` first: a check that did not run has not passed.
            let (icon, status) = match (check.skipped, check.passed) {
                (true, _) => ("[~]", "skipped"),
                (false, true) => ("[x]", "passed"),
                (false, false) => ("[ ]", "failed"),
            };
            writeln!(out, "{icon} {}: {status}", check.name)?;
        }
        Ok(())
    }

    /// The fields of the effect `completion.blocked`.
    pub(crate) fn fields(&self) -> BTreeMap<String, Value> {
        let mut fields: BTreeMap<String, Value> = match serde_json::to_value(self) {
            Ok(Value::Object(map)) => map.into_iter().collect(),
            _ => BTreeMap::new(),
        };
        fields.insert("text".to_owned(), Value::from(self.text()));
        fields
    }
}

/// Whether a check ran and did not pass.
pub(crate) fn has_failed(check: &Check) -> bool {
    !check.passed && !check.skipped
}

/// The failed check to report: the root cause (checks that others depend on come first), or in the order tests, lint,
/// build.
#[must_use]
pub fn root_cause(checks: &[Check], order: GateOrder) -> Option<&Check> {
    checks.iter().filter(|check| has_failed(check)).min_by_key(|check| cause_rank(check, order))
}

/// Sort key of a failed check.
fn cause_rank(check: &Check, order: GateOrder) -> (usize, usize) {
    let kinds = match order {
        GateOrder::RootCause => [CheckKind::Build, CheckKind::Tests, CheckKind::Lint],
        GateOrder::TestsFirst => [CheckKind::Tests, CheckKind::Lint, CheckKind::Build],
    };
    let kind = kinds.iter().position(|kind| *kind == check.kind()).unwrap_or(kinds.len());
    (kind, ["build", "compile"].iter().position(|name| *name == check.name).unwrap_or(2))
}

/// Marks checks as skipped that depend, directly or transitively, on a failed one. `("lint", "build")` means that lint
/// depends on build.
#[must_use]
pub fn skip_dependents<'c>(checks: &'c [Check], dependencies: &[(String, String)]) -> Cow<'c, [Check]> {
    let causes: Vec<Option<&str>> = checks
        .iter()
        .map(|check| failed_dependency(checks, dependencies, &check.name, &mut BTreeSet::new()))
        .collect();
    if causes.iter().all(Option::is_none) {
        return checks.into();
    }
    let skip = |(check, cause): (&Check, Option<&str>)| match cause {
        Some(cause) if !(check.skipped && check.skip_reason.is_some()) => Check {
            passed: false,
            skipped: true,
            skip_reason: Some(format!("skipped: {cause} failed")),
            details: Vec::new(),
            ..check.clone()
        },
        _ => check.clone(),
    };
    checks.iter().zip(causes).map(skip).collect()
}

/// The failed root dependency of a check.
fn failed_dependency<'c>(
    checks: &'c [Check],
    dependencies: &[(String, String)],
    name: &str,
    seen: &mut BTreeSet<String>,
) -> Option<&'c str> {
    // Policies with dependency cycles are rejected; this only prevents infinite recursion.
    if !seen.insert(name.to_owned()) {
        return None;
    }
    let needed = dependencies.iter().filter(|(gate, _)| gate == name).map(|(_, on)| on);
    needed.into_iter().find_map(|on| {
        let above = failed_dependency(checks, dependencies, on, seen);
        above.or_else(|| {
            let found = checks.iter().find(|check| check.name == *on && has_failed(check))?;
            Some(found.name.as_str())
        })
    })
}

/// Fingerprint of the failures. Stays the same when lines of code move, so a repeated failure is recognized.
pub(crate) fn failure_fingerprint(checks: &[Check]) -> Fingerprint {
    Fingerprint::of_text(&failure_lines(checks).join("\n"))
}

/// Failures as lines without volatile parts such as line numbers, times and addresses.
fn failure_lines(checks: &[Check]) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for check in checks.iter().filter(|check| has_failed(check)) {
        if check.details.is_empty() {
            lines.push(format!(
                "{}\0{}",
                check.name,
                normalize_volatile(crate::bounded_map::truncate_bytes(&check.output, 64 * 1024))
            ));
        }
        lines.extend(
            check.details.iter().map(|detail| format!("{}\0{}", check.name, normalize_volatile(detail))),
        );
    }
    lines.sort_unstable();
    lines
}

/// A single line of bounded length, without terminal control characters.
fn bounded_line(text: &str, chars: usize) -> String {
    truncate(&one_line(text), chars)
}

/// Failure lines: those of the blocking check in full, then a few of each other check, prefixed with its name.
fn failure_details(failing: &[&Check]) -> Vec<String> {
    let mut seen: BTreeSet<String> = BTreeSet::new();
    let mut out: Vec<String> = Vec::new();
    for (at, check) in failing.iter().enumerate() {
        let most = if at == 0 { MAX_DETAILS } else { MAX_OTHER_DETAILS };
        let mut own: Vec<String> =
            check.details.iter().map(|detail| bounded_line(detail, MAX_DETAIL_CHARS)).collect();
        if own.is_empty() {
            own.extend(
                Some(truncate(&last_lines(&check.output, TAIL_LINES), MAX_DETAIL_CHARS))
                    .filter(|text| !text.is_empty()),
            );
        }
        own.retain(|detail| !detail.is_empty() && seen.insert(detail.clone()));
        let more = own.len().saturating_sub(most);
        let name = bounded_line(&check.name, MAX_NAME_CHARS);
        let shown = own.into_iter().take(most);
        out.extend(shown.map(|detail| if at == 0 { detail } else { format!("{name}: {detail}") }));
        if more > 0 {
            out.push(format!("{name}: and {more} more"));
        }
    }
    let omitted = out.len().saturating_sub(MAX_TOTAL_DETAILS);
    out.truncate(MAX_TOTAL_DETAILS);
    if omitted > 0 {
        out.push(format!("and {omitted} more lines"));
    }
    out
}

/// Why no check ran.
fn skip_reasons(checks: &[Check]) -> Vec<String> {
    let reason = |check: &Check| {
        let reason = check.skip_reason.as_deref().unwrap_or("skipped");
        bounded_line(&format!("{}: {reason}", check.name), MAX_DETAIL_CHARS)
    };
    checks.iter().take(MAX_DETAILS).map(reason).collect()
}

fn suggestions(blocker: Option<&Check>) -> Vec<String> {
    let lines: &[&str] = match blocker.map(Check::kind) {
        Some(CheckKind::Tests) => &[
            "Review the failing test assertions",
            "Check if recent changes broke existing behavior",
            "Run the specific failing test locally for more details",
        ],
        Some(CheckKind::Lint) => &["Fix the reported style/lint issues", "Run the linter to see all issues"],
        Some(CheckKind::Build) => {
            &["Fix compilation errors before proceeding", "Check for missing imports or typos"]
        }
        Some(CheckKind::Custom) | None => &[],
    };
    lines.iter().map(|line| (*line).to_owned()).collect()
}

#[cfg(test)]
#[path = "backpressure_tests.rs"]
mod tests;

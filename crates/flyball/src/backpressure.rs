//! Backpressure: the answer to a completion that the quality gate refuses, as data and as text for the agent.
//!
//! It is made from the checks of a `gate.checked` event and the policy's `gate` limits alone, so that every path gives the
//! same answer. A check that depends on one that failed counts as skipped, whatever it says: its result means nothing.

use crate::event::{Check, CheckKind};
use crate::fingerprint::Fingerprint;
use crate::policy::{Gate as Limits, GateOrder, Unverified};
use crate::text::{cut, one_line, shortened, stable, tail};
use serde::Serialize;
use serde_json::Value;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// What a completion is asked for with, unless it is named otherwise.
pub const TASK_COMPLETE: &str = "TASK_COMPLETE";
/// The most failures that are listed of the check that blocks.
const MOST: usize = 20;
/// The most failures that are listed of each other check.
const MOST_OF_OTHERS: usize = 5;
/// The most failures that are listed in all.
const MOST_IN_ALL: usize = 100;
/// The most checks besides tests, lint and build that are listed.
const MOST_CHECKS: usize = 64;
/// The longest line of a failure, in characters.
const DETAIL_CHARS: usize = 300;
/// The longest name of a check or request, in characters.
const NAME_CHARS: usize = 120;
/// How many characters of a check's output are repeated.
const OUTPUT_CHARS: usize = 2_000;
/// How many lines of output stand for a failure that nothing else explains.
const TAIL_LINES: usize = 6;

/// The checks, grouped: tests, lint, build and others.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct GateResult {
    /// Whether all that ran passed, and at least one ran.
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
    /// Every other check, at most 64.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<Check>,
    /// How many checks are not listed.
    #[serde(skip_serializing_if = "is_zero")]
    pub omitted: usize,
    /// `QUALITY_PASSED` or `QUALITY_BLOCKED`.
    pub feedback: String,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference over")]
fn is_zero(number: &usize) -> bool {
    *number == 0
}

impl GateResult {
    /// Groups checks.
    #[must_use]
    pub fn of(checks: &[Check]) -> Self {
        let passed = !checks.iter().any(failed) && checks.iter().any(|check| check.passed && !check.skipped);
        let mut left: Vec<&Check> = checks.iter().collect();
        let mut take = |kind: CheckKind| {
            let named = left.iter().position(|check| check.name == kind.as_str());
            let at = named.or_else(|| left.iter().position(|check| check.kind() == kind))?;
            Some(short(left.remove(at)))
        };
        let (tests, lint, build) = (take(CheckKind::Tests), take(CheckKind::Lint), take(CheckKind::Build));
        GateResult {
            passed,
            tests,
            lint,
            build,
            others: left.iter().take(MOST_CHECKS).map(|check| short(check)).collect(),
            omitted: left.len().saturating_sub(MOST_CHECKS),
            feedback: if passed { "QUALITY_PASSED" } else { "QUALITY_BLOCKED" }.to_owned(),
        }
    }

    /// The checks in the order in which the status lists them.
    fn shown(&self) -> impl Iterator<Item = &Check> {
        [&self.tests, &self.lint, &self.build].into_iter().flatten().chain(&self.others)
    }
}

/// A check with as much of its output as is worth repeating.
fn short(check: &Check) -> Check {
    Check {
        name: line(&check.name, NAME_CHARS),
        output: shortened(&check.output, OUTPUT_CHARS),
        details: check.details.iter().take(MOST).map(|detail| line(detail, DETAIL_CHARS)).collect(),
        ..check.clone()
    }
}

/// A refused completion, with what is needed to get it accepted.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BlockingEvent {
    /// What was asked for, such as `TASK_COMPLETE`.
    pub original_request: String,
    /// The check that is to blame; `unknown` if none failed.
    pub blocked_by: String,
    /// One line.
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
    /// The answer to checks under a policy's `gate` limits. `None` if they passed, if nothing was verified and the policy
    /// lets that through, or if the policy has backpressure off: the completion is then refused without details.
    #[must_use]
    pub fn of(checks: &[Check], request: &str, limits: &Limits) -> Option<Self> {
        let checks = with_dependencies(checks, &limits.dependencies);
        let blocker = blocker(&checks, limits.order);
        let unverified = blocker.is_none() && !checks.iter().any(|check| check.passed && !check.skipped);
        let refused = blocker.is_some() || unverified && limits.unverified == Unverified::Block;
        if !refused || !limits.backpressure {
            return None;
        }
        let mut failing: Vec<&Check> = checks.iter().filter(|check| failed(check)).collect();
        failing.sort_by_key(|check| rank(check, limits.order));
        let blocked_by = blocker.map_or_else(|| "unknown".to_owned(), |check| line(&check.name, NAME_CHARS));
        Some(BlockingEvent {
            original_request: line(request, NAME_CHARS),
            summary: match blocker {
                Some(_) => format!("{blocked_by} failed"),
                None => "no check ran".to_owned(),
            },
            details: if blocker.is_some() { details(&failing) } else { skip_reasons(&checks) },
            suggestions: suggestions(blocker),
            failed: failing.iter().take(MOST_CHECKS).map(|check| line(&check.name, NAME_CHARS)).collect(),
            gate_result: GateResult::of(&checks),
            blocked_by,
        })
    }

    /// The message for the agent whose completion was refused.
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
pub(crate) fn failed(check: &Check) -> bool {
    !check.passed && !check.skipped
}

/// The check to blame: the root cause (what others build upon comes first), or tests, then lint, then build.
#[must_use]
pub fn blocker(checks: &[Check], order: GateOrder) -> Option<&Check> {
    checks.iter().filter(|check| failed(check)).min_by_key(|check| rank(check, order))
}

/// The place of a check among those that failed.
fn rank(check: &Check, order: GateOrder) -> (usize, usize) {
    let kinds = match order {
        GateOrder::RootCause => [CheckKind::Build, CheckKind::Tests, CheckKind::Lint],
        GateOrder::Seed => [CheckKind::Tests, CheckKind::Lint, CheckKind::Build],
    };
    let kind = kinds.iter().position(|kind| *kind == check.kind()).unwrap_or(kinds.len());
    (kind, ["build", "compile"].iter().position(|name| *name == check.name).unwrap_or(2))
}

/// The checks with those skipped that depend, directly or through others, on one that failed. `("lint", "build")`: lint
/// depends on build.
#[must_use]
pub fn with_dependencies<'c>(checks: &'c [Check], dependencies: &[(String, String)]) -> Cow<'c, [Check]> {
    let causes: Vec<Option<&str>> =
        checks.iter().map(|check| cause(checks, dependencies, &check.name, &mut BTreeSet::new())).collect();
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

/// The failed check at the root of those that a check depends on.
fn cause<'c>(
    checks: &'c [Check],
    dependencies: &[(String, String)],
    name: &str,
    seen: &mut BTreeSet<String>,
) -> Option<&'c str> {
    // A policy with a circle is refused; this only keeps a search from going round one.
    if !seen.insert(name.to_owned()) {
        return None;
    }
    let needed = dependencies.iter().filter(|(gate, _)| gate == name).map(|(_, on)| on);
    needed.into_iter().find_map(|on| {
        let above = cause(checks, dependencies, on, seen);
        above.or_else(|| {
            let found = checks.iter().find(|check| check.name == *on && failed(check))?;
            Some(found.name.as_str())
        })
    })
}

/// One fingerprint for what failed: the same failure again is told from a new one, also if lines of code have moved.
pub(crate) fn failure_fingerprint(checks: &[Check]) -> Fingerprint {
    Fingerprint::of_text(&failure_lines(checks).join("\n"))
}

/// What failed, as lines that stay the same when lines of code move, times pass and addresses change.
fn failure_lines(checks: &[Check]) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for check in checks.iter().filter(|check| failed(check)) {
        if check.details.is_empty() {
            lines.push(format!("{}\0{}", check.name, stable(crate::window::cut(&check.output, 64 * 1024))));
        }
        lines.extend(check.details.iter().map(|detail| format!("{}\0{}", check.name, stable(detail))));
    }
    lines.sort_unstable();
    lines
}

/// One line of bounded length, without what could steer a terminal.
fn line(text: &str, chars: usize) -> String {
    cut(&one_line(text), chars)
}

/// What failed, one line each: the blocking check in full, of the others a few lines with the check's name.
fn details(failing: &[&Check]) -> Vec<String> {
    let mut seen: BTreeSet<String> = BTreeSet::new();
    let mut out: Vec<String> = Vec::new();
    for (at, check) in failing.iter().enumerate() {
        let most = if at == 0 { MOST } else { MOST_OF_OTHERS };
        let mut own: Vec<String> = check.details.iter().map(|detail| line(detail, DETAIL_CHARS)).collect();
        if own.is_empty() {
            own.extend(
                Some(cut(&tail(&check.output, TAIL_LINES), DETAIL_CHARS)).filter(|text| !text.is_empty()),
            );
        }
        own.retain(|detail| !detail.is_empty() && seen.insert(detail.clone()));
        let more = own.len().saturating_sub(most);
        let name = line(&check.name, NAME_CHARS);
        let shown = own.into_iter().take(most);
        out.extend(shown.map(|detail| if at == 0 { detail } else { format!("{name}: {detail}") }));
        if more > 0 {
            out.push(format!("{name}: and {more} more"));
        }
    }
    let omitted = out.len().saturating_sub(MOST_IN_ALL);
    out.truncate(MOST_IN_ALL);
    if omitted > 0 {
        out.push(format!("and {omitted} more lines"));
    }
    out
}

/// Why nothing ran.
fn skip_reasons(checks: &[Check]) -> Vec<String> {
    let reason = |check: &Check| {
        let reason = check.skip_reason.as_deref().unwrap_or("skipped");
        line(&format!("{}: {reason}", check.name), DETAIL_CHARS)
    };
    checks.iter().take(MOST).map(reason).collect()
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

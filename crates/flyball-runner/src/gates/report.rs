//! Report of a set of gates: checks for the governor, findings for the agent.

use super::failure::{GateFailure, collect_failures, fingerprint_all};
use super::gate::QualityGate;
use flyball::policy::GateOrder;
use flyball::{Check, EventKind, Fingerprint};
use flyball_checks::{
    CheckFinding, CheckKind, CheckOutcome, FindingKind, ResultsFormat, TestCounts, details,
};
use serde::Serialize;

/// Verdict on the work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum GateVerdict {
    /// At least one check ran, and none failed.
    Passed,
    /// A check failed.
    Failed,
    /// No check ran, or the run was cancelled: there is no evidence that the work is correct.
    Unverified,
}

/// Result of one gate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct GateRun {
    /// Gate name.
    pub name: String,
    /// Check that it counts toward.
    pub check: String,
    /// Kind of check.
    pub kind: CheckKind,
    /// Whether it must run: if skipped, it counts as failed.
    pub required: bool,
    /// Passed, failed or skipped.
    #[serde(flatten)]
    pub outcome: CheckOutcome,
    /// Failed gate that caused this one to be skipped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub because: Option<String>,
    /// Detected format of its results.
    pub format: ResultsFormat,
    /// Findings, including warnings.
    pub findings: Vec<CheckFinding>,
    /// Number of tests, if reported.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tests: Option<TestCounts>,
    /// Failing tests, sorted.
    pub failing: Vec<String>,
    /// Whether all tests ran, so that the number of failing ones is comparable.
    pub counted: bool,
    /// Tests that failed in one run and passed in another.
    pub flaky_suspected: Vec<String>,
    /// Output as text, shortened in the middle.
    pub output: String,
    /// Total duration of all its runs.
    pub duration_ms: u64,
    /// Exit code of the last run; `None` if it was not started, was killed by a signal or was stopped.
    pub exit: Option<i32>,
    /// Whether it was cancelled.
    pub cancelled: bool,
    /// Number of runs.
    pub attempts: u32,
    /// Notes about the run itself.
    pub notes: Vec<String>,
}

impl GateRun {
    pub(crate) fn skipped(gate: &QualityGate, reason: String, because: Option<String>) -> Self {
        let cancelled = reason.starts_with("cancelled");
        GateRun {
            name: gate.name.clone(),
            check: gate.check.clone(),
            kind: gate.kind,
            required: gate.required,
            outcome: CheckOutcome::Skipped { reason },
            because,
            format: gate.format,
            findings: Vec::new(),
            tests: None,
            failing: Vec::new(),
            counted: false,
            flaky_suspected: Vec::new(),
            output: String::new(),
            duration_ms: 0,
            exit: None,
            cancelled,
            attempts: 0,
            notes: Vec::new(),
        }
    }

    /// Findings that made it fail; empty if it did not fail.
    pub(crate) fn failures(&self) -> impl Iterator<Item = &CheckFinding> + Clone {
        self.findings.iter().filter(|found| found.is_failure() && self.outcome.is_failed())
    }

    /// Turns a skipped required gate into a failure, unless another gate caused the skip or the run was cancelled.
    pub(crate) fn fail_if_required(mut self) -> Self {
        let CheckOutcome::Skipped { reason } = &self.outcome else { return self };
        if self.required && self.because.is_none() && !self.cancelled {
            let message = format!("required, but did not run: {reason}");
            self.findings.push(CheckFinding::new(FindingKind::Other, &*self.name, &message));
            self.outcome = CheckOutcome::Failed;
        }
        self
    }
}

/// Result of a set of gates.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct GateReport {
    /// Verdict on the work.
    pub verdict: GateVerdict,
    /// Checks in the format of the event `gate.checked`, root cause first.
    pub checks: Vec<Check>,
    /// Result of each gate, in the given order.
    pub gates: Vec<GateRun>,
    /// All failures without duplicates, root cause first.
    pub findings: Vec<CheckFinding>,
    /// Failing tests of all gates, sorted.
    pub failing: Vec<String>,
    /// Whether all tests ran. Only then is the number of failing ones comparable with that of another run.
    pub counted: bool,
    /// Tests that failed in one run and passed in another.
    pub flaky_suspected: Vec<String>,
    /// Warnings to show even if everything passed.
    pub warnings: Vec<String>,
    /// Failures with their fingerprints.
    pub failures: Vec<GateFailure>,
    /// Fingerprint of all failures; `None` if there are none. Independent of line, time and folder.
    pub fingerprint: Option<Fingerprint>,
}

impl GateReport {
    pub(crate) fn new(gates: Vec<GateRun>) -> Self {
        let mut checks = build_checks(&gates);
        checks.sort_by_key(|check| cause_rank(&check.name, check.passed || check.skipped));
        let mut by_cause: Vec<&GateRun> = gates.iter().collect();
        by_cause.sort_by_key(|run| cause_rank(&run.check, !run.outcome.is_failed()));
        let mut findings: Vec<CheckFinding> =
            by_cause.iter().flat_map(|run| run.failures().cloned()).collect();
        flyball_checks::dedup_findings(&mut findings);
        let mut failing: Vec<String> = gates.iter().flat_map(|run| run.failing.iter().cloned()).collect();
        let mut flaky: Vec<String> =
            gates.iter().flat_map(|run| run.flaky_suspected.iter().cloned()).collect();
        for names in [&mut failing, &mut flaky] {
            names.sort();
            names.dedup();
        }
        let tests: Vec<&GateRun> =
            gates.iter().filter(|run| run.kind == CheckKind::Tests && !is_off(run)).collect();
        let failures =
            collect_failures(&by_cause.iter().map(|run| (&*run.check, run.failures())).collect::<Vec<_>>());
        GateReport {
            verdict: verdict(&gates),
            counted: !tests.is_empty() && tests.iter().all(|run| run.counted),
            warnings: warnings(&gates),
            fingerprint: fingerprint_all(&failures),
            checks,
            findings,
            failing,
            flaky_suspected: flaky,
            failures,
            gates,
        }
    }

    /// The check to report first: the root cause (build, then types, then tests, then lint), or the classic order
    /// (tests, then lint, then build).
    #[must_use]
    pub fn blocker(&self, order: GateOrder) -> Option<&Check> {
        flyball::backpressure::root_cause(&self.checks, order)
    }

    /// Whether the run was cancelled before all gates finished.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.gates.iter().any(|run| run.cancelled)
    }

    /// Event for the governor. `None` if the run was cancelled, because a partial report could look like a pass.
    #[must_use]
    pub fn event(&self, request: Option<&str>) -> Option<EventKind> {
        let event =
            || EventKind::GateChecked { request: request.map(str::to_owned), checks: self.checks.clone() };
        (!self.is_cancelled()).then(event)
    }

    /// Progress for the signal `tests`. `None` if some tests did not run, because fewer failing tests would then look
    /// like progress.
    #[must_use]
    pub fn progress(&self) -> Option<EventKind> {
        self.counted.then(|| EventKind::Progress {
            signal: "tests".to_owned(),
            content: None,
            hash: None,
            value: None,
            failing: Some(self.failing.clone()),
            done: None,
            total: None,
            better: None,
        })
    }
}

/// Whether a gate was disabled from the start: no tests, or no tool.
fn is_off(run: &GateRun) -> bool {
    matches!(run.outcome, CheckOutcome::Skipped { .. }) && run.because.is_none() && !run.cancelled
}

fn verdict(gates: &[GateRun]) -> GateVerdict {
    if gates.iter().any(|run| run.outcome.is_failed()) {
        return GateVerdict::Failed;
    }
    if gates.iter().any(|run| run.cancelled) || !gates.iter().any(|run| run.outcome.is_passed()) {
        return GateVerdict::Unverified;
    }
    GateVerdict::Passed
}

fn warnings(gates: &[GateRun]) -> Vec<String> {
    let mut out = Vec::new();
    for run in gates {
        out.extend(run.notes.iter().map(|note| format!("{}: {note}", run.name)));
        let flagged = run.findings.iter().filter(|found| !found.is_failure()).count();
        if flagged > 0 && run.outcome.is_passed() {
            out.push(format!("{}: passed with {flagged} warnings", run.name));
        }
    }
    out
}

/// Sort key that puts causes before consequences: a failed build explains failed tests.
fn cause_rank(check: &str, is_fine: bool) -> (bool, usize) {
    let order = ["build", "compile", "typecheck", "types", "tests", "test", "lint"];
    (is_fine, order.iter().position(|name| *name == check).unwrap_or(order.len()))
}

/// One check per check name, in the order of the gates.
fn build_checks(gates: &[GateRun]) -> Vec<Check> {
    let mut names: Vec<&str> = Vec::new();
    for run in gates {
        if !names.contains(&run.check.as_str()) {
            names.push(&run.check);
        }
    }
    names
        .into_iter()
        .map(|name| build_check(name, gates.iter().filter(|run| run.check == name).collect()))
        .collect()
}

fn build_check(name: &str, runs: Vec<&GateRun>) -> Check {
    let failed = runs.iter().any(|run| run.outcome.is_failed());
    let passed = !failed && runs.iter().any(|run| run.outcome.is_passed());
    let skipped = !failed && !passed;
    let alone = runs.len() == 1;
    let reasons: Vec<String> = runs
        .iter()
        .filter_map(|run| match &run.outcome {
            CheckOutcome::Skipped { reason } if alone => Some(reason.clone()),
            CheckOutcome::Skipped { reason } => Some(format!("{}: {reason}", run.name)),
            _ => None,
        })
        .collect();
    let with_output: Vec<&&GateRun> = runs.iter().filter(|run| !run.output.is_empty()).collect();
    let output = match with_output.as_slice() {
        [one] => one.output.clone(),
        several => {
            several.iter().map(|run| format!("== {} ==\n{}\n", run.name, run.output.trim_end())).collect()
        }
    };
    Check {
        name: name.to_owned(),
        kind: runs.first().map(|run| run.kind.as_str().to_owned()),
        passed,
        skipped,
        skip_reason: skipped.then(|| reasons.join("; ")),
        output,
        duration_ms: runs.iter().map(|run| run.duration_ms).fold(0, u64::saturating_add),
        details: details(runs.iter().flat_map(|run| run.failures())),
    }
}

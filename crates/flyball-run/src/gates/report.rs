//! What a set of gates came to: checks for the governor, findings for the one who must act on them.

use super::failure::{Failure, failures, fingerprint};
use super::gate::Gate;
use flyball::policy::GateOrder;
use flyball::{Check, Fingerprint, Kind};
use flyball_checks::{CheckKind, Counts, Finding, FindingKind, Format, Outcome, details};
use serde::Serialize;

/// Whether the work is what it should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// At least one check ran and none failed.
    Passed,
    /// A check failed.
    Failed,
    /// No check ran, or the run was cancelled: nothing shows that the work is right.
    Unverified,
}

/// What became of one gate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct GateRun {
    /// The gate's name.
    pub name: String,
    /// The check that it counts towards.
    pub check: String,
    /// What it looks at.
    pub kind: CheckKind,
    /// Whether it must run: if it is skipped, it counts as failed.
    pub required: bool,
    /// Passed, failed or skipped.
    #[serde(flatten)]
    pub outcome: Outcome,
    /// The failed gate that is to blame for this one being skipped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub because: Option<String>,
    /// What its results were read as.
    pub format: Format,
    /// What it found, warnings included.
    pub findings: Vec<Finding>,
    /// How many tests there were, if it says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tests: Option<Counts>,
    /// The failing tests, sorted.
    pub failing: Vec<String>,
    /// Whether all tests ran, so that the number of failing ones may be compared.
    pub counted: bool,
    /// Tests that failed in one run and passed in another.
    pub flaky_suspected: Vec<String>,
    /// The output in words, its middle left out if it is long.
    pub output: String,
    /// How long all its runs took.
    pub duration_ms: u64,
    /// The code its last run ended with; none if it was not started, ended by a signal or stopped.
    pub exit: Option<i32>,
    /// Whether it was cancelled.
    pub cancelled: bool,
    /// How often it was run.
    pub attempts: u32,
    /// What one should know about the run itself.
    pub notes: Vec<String>,
}

impl GateRun {
    pub(crate) fn skipped(gate: &Gate, reason: String, because: Option<String>) -> Self {
        let cancelled = reason.starts_with("cancelled");
        GateRun {
            name: gate.name.clone(),
            check: gate.check.clone(),
            kind: gate.kind,
            required: gate.required,
            outcome: Outcome::Skipped { reason },
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

    /// What it failed for; nothing if it did not fail.
    pub(crate) fn failures(&self) -> impl Iterator<Item = &Finding> + Clone {
        self.findings.iter().filter(|found| found.is_failure() && self.outcome.is_failed())
    }

    /// A required gate that did not run has failed, unless another gate is to blame or everything was stopped.
    pub(crate) fn held_to_it(mut self) -> Self {
        let Outcome::Skipped { reason } = &self.outcome else { return self };
        if self.required && self.because.is_none() && !self.cancelled {
            let message = format!("it is required, but did not run: {reason}");
            self.findings.push(Finding::new(FindingKind::Other, &*self.name, &message));
            self.outcome = Outcome::Failed;
        }
        self
    }
}

/// What a set of gates came to.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// Whether the work is what it should be.
    pub verdict: Verdict,
    /// The checks in the shape of the event `gate.checked`, root cause first.
    pub checks: Vec<Check>,
    /// What became of each gate, as they were given.
    pub gates: Vec<GateRun>,
    /// Every failure, root cause first. A failure that an earlier gate has told already is not told again.
    pub findings: Vec<Finding>,
    /// The failing tests of all gates, sorted.
    pub failing: Vec<String>,
    /// Whether all tests ran. Only then may the number of failing ones be compared with that of another run.
    pub counted: bool,
    /// Tests that failed in one run and passed in another.
    pub flaky_suspected: Vec<String>,
    /// What should be said even if everything passed.
    pub warnings: Vec<String>,
    /// Each failure with what it is known by.
    pub failures: Vec<Failure>,
    /// One fingerprint for all failures; nothing if there is none. Equal for the same failures in other lines, at
    /// other times and in other folders.
    pub fingerprint: Option<Fingerprint>,
}

impl Report {
    pub(crate) fn new(gates: Vec<GateRun>) -> Self {
        let mut checks = checks(&gates);
        checks.sort_by_key(|check| rank(&check.name, check.passed || check.skipped));
        let mut by_cause: Vec<&GateRun> = gates.iter().collect();
        by_cause.sort_by_key(|run| rank(&run.check, !run.outcome.is_failed()));
        let mut findings: Vec<Finding> = by_cause.iter().flat_map(|run| run.failures().cloned()).collect();
        flyball_checks::without_doubles(&mut findings);
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
            failures(&by_cause.iter().map(|run| (&*run.check, run.failures())).collect::<Vec<_>>());
        Report {
            verdict: verdict(&gates),
            counted: !tests.is_empty() && tests.iter().all(|run| run.counted),
            warnings: warnings(&gates),
            fingerprint: fingerprint(&failures),
            checks,
            findings,
            failing,
            flaky_suspected: flaky,
            failures,
            gates,
        }
    }

    /// The check that is to blame: the root cause (build, then types, then tests, then lint), or the seed's order
    /// (tests, then lint, then build).
    #[must_use]
    pub fn blocker(&self, order: GateOrder) -> Option<&Check> {
        flyball::backpressure::blocker(&self.checks, order)
    }

    /// Whether the run was cancelled before all gates had ended.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.gates.iter().any(|run| run.cancelled)
    }

    /// The event that tells the governor. Nothing if the run was cancelled: half a report would look like a pass.
    #[must_use]
    pub fn event(&self, request: Option<&str>) -> Option<Kind> {
        let event = || Kind::GateChecked { request: request.map(str::to_owned), checks: self.checks.clone() };
        (!self.is_cancelled()).then(event)
    }

    /// The progress that the tests show, for the signal `tests`. Nothing if some tests did not run: fewer failing
    /// tests would then look like progress and be none.
    #[must_use]
    pub fn progress(&self) -> Option<Kind> {
        self.counted.then(|| Kind::Progress {
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

/// A gate that was never meant to run here: no such tests, no such tool.
fn is_off(run: &GateRun) -> bool {
    matches!(run.outcome, Outcome::Skipped { .. }) && run.because.is_none() && !run.cancelled
}

fn verdict(gates: &[GateRun]) -> Verdict {
    if gates.iter().any(|run| run.outcome.is_failed()) {
        return Verdict::Failed;
    }
    if gates.iter().any(|run| run.cancelled) || !gates.iter().any(|run| run.outcome.is_passed()) {
        return Verdict::Unverified;
    }
    Verdict::Passed
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

/// Causes before what they cause: a failed build explains failed tests.
fn rank(check: &str, is_fine: bool) -> (bool, usize) {
    let order = ["build", "compile", "typecheck", "types", "tests", "test", "lint"];
    (is_fine, order.iter().position(|name| *name == check).unwrap_or(order.len()))
}

/// One check for each name that gates count towards, in the order of the gates.
fn checks(gates: &[GateRun]) -> Vec<Check> {
    let mut names: Vec<&str> = Vec::new();
    for run in gates {
        if !names.contains(&run.check.as_str()) {
            names.push(&run.check);
        }
    }
    names
        .into_iter()
        .map(|name| check(name, gates.iter().filter(|run| run.check == name).collect()))
        .collect()
}

fn check(name: &str, runs: Vec<&GateRun>) -> Check {
    let failed = runs.iter().any(|run| run.outcome.is_failed());
    let passed = !failed && runs.iter().any(|run| run.outcome.is_passed());
    let skipped = !failed && !passed;
    let alone = runs.len() == 1;
    let reasons: Vec<String> = runs
        .iter()
        .filter_map(|run| match &run.outcome {
            Outcome::Skipped { reason } if alone => Some(reason.clone()),
            Outcome::Skipped { reason } => Some(format!("{}: {reason}", run.name)),
            _ => None,
        })
        .collect();
    let told: Vec<&&GateRun> = runs.iter().filter(|run| !run.output.is_empty()).collect();
    let output = match told.as_slice() {
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

//! Runs a set of gates sequentially and combines their results.
//!
//! Order -> skip check for each gate -> [`run_attempt`] -> rerun if tests failed -> [`GateReport`].

use super::attempt::{GateAttempt, GateLine, run_attempt};
use super::checklist;
use super::gate::QualityGate;
use super::gate_error::GateError;
use super::options::{FlakyPolicy, GateOptions};
use super::order::{topological_order, validate};
use super::report::{GateReport, GateRun};
use crate::process::{CancelToken, ProcessEnd};
use flyball::text::elide_middle;
use flyball_checks::CheckKind;
use flyball_checks::CheckOutcome;
use flyball_checks::{CheckFinding, FindingKind};
use std::collections::BTreeSet;
use std::path::Path;

/// Maximum length of a gate's output in its check.
const MAX_OUTPUT_CHARS: usize = 10_000;

/// Runs gates in a workspace.
///
/// A gate whose `needs` failed is skipped, and the reason names the gate that failed first. `on_line` receives output
/// as it is written. Nothing is left behind except what the commands leave in the workspace.
///
/// # Errors
/// If the set of gates is invalid: see [`validate`]. Failures of a gate are in the report.
pub fn run_gates(
    gates: &[QualityGate],
    workspace: &Path,
    options: &GateOptions,
    cancel: &CancelToken,
    on_line: &mut dyn FnMut(GateLine<'_>),
) -> Result<GateReport, GateError> {
    validate(gates)?;
    let mut runs: Vec<GateRun> = Vec::with_capacity(gates.len());
    for gate in topological_order(gates)? {
        let found = match (skip_reason(gate, &runs, options, cancel), &gate.checklist) {
            (Some((reason, because)), _) => vec![GateRun::skipped(gate, reason, because)],
            (None, Some(file)) => checklist::run_checklist(gate, file, workspace),
            (None, None) => vec![run_gate(gate, workspace, options, cancel, on_line)],
        };
        runs.extend(found.into_iter().map(GateRun::fail_if_required));
    }
    // The report uses the given order.
    let position = |run: &GateRun| gates.iter().position(|gate| gate.name == run.name);
    runs.sort_by_key(position);
    Ok(GateReport::new(runs))
}

/// Why a gate is skipped, and the failed gate that caused it, if any.
fn skip_reason(
    gate: &QualityGate,
    runs: &[GateRun],
    options: &GateOptions,
    cancel: &CancelToken,
) -> Option<(String, Option<String>)> {
    if let Some(reason) = &gate.skip {
        return Some((reason.clone(), None));
    }
    if cancel.is_cancelled() {
        return Some(("cancelled before it started".to_owned(), None));
    }
    // In a checklist, single items are waived instead.
    if is_skip_requested(gate, options) && gate.may_skip && gate.checklist.is_none() {
        return Some(("skipped on request".to_owned(), None));
    }
    let blames = |run: &&GateRun| options.cascade || gate.needs.contains(&run.name);
    let root = runs.iter().filter(blames).find_map(|run| match &run.because {
        Some(root) => Some(root.clone()),
        None => run.outcome.is_failed().then(|| run.name.clone()),
    })?;
    Some((format!("skipped: {root} failed"), Some(root)))
}

fn is_skip_requested(gate: &QualityGate, options: &GateOptions) -> bool {
    options.skip_requests.iter().any(|name| *name == gate.name || *name == gate.check)
}

fn run_gate(
    gate: &QualityGate,
    workspace: &Path,
    options: &GateOptions,
    cancel: &CancelToken,
    on_line: &mut dyn FnMut(GateLine<'_>),
) -> GateRun {
    let first = run_attempt(gate, workspace, options, cancel, on_line);
    let mut run = to_gate_run(gate, first);
    if is_skip_requested(gate, options) {
        run.notes.push(format!("'{}' may not be skipped, so it ran", gate.name));
    }
    let only_tests =
        run.findings.iter().filter(|found| found.is_failure()).all(CheckFinding::is_test_failure);
    let failed = run.outcome.is_failed() && run.exit.is_some();
    let worth_it = gate.kind == CheckKind::Tests && failed && only_tests;
    if !options.rerun || !worth_it || cancel.is_cancelled() {
        return apply_flaky_policy(run, options.flaky);
    }
    let again = to_gate_run(gate, run_attempt(gate, workspace, options, cancel, on_line));
    merge_rerun(run, again, options.flaky)
}

fn to_gate_run(gate: &QualityGate, attempt: GateAttempt) -> GateRun {
    let GateAttempt { outcome, results: mut reading, end, duration } = attempt;
    let failing = failing_tests(&reading.findings);
    // A failure outside the tests means that some of them may not have run.
    let only_tests =
        reading.findings.iter().filter(|found| found.is_failure()).all(CheckFinding::is_test_failure);
    let ran = !matches!(outcome, CheckOutcome::Skipped { .. });
    if !reading.flaky.is_empty() {
        reading.notes.push(format!("passed only when retried: {}", reading.flaky.join(", ")));
    }
    GateRun {
        name: gate.name.clone(),
        check: gate.check.clone(),
        kind: gate.kind,
        required: gate.required,
        outcome,
        because: None,
        failing,
        counted: gate.kind == CheckKind::Tests && ran && reading.complete && !reading.partial && only_tests,
        format: reading.format,
        findings: reading.findings,
        tests: reading.tests,
        flaky_suspected: reading.flaky,
        output: elide_middle(&reading.text, MAX_OUTPUT_CHARS),
        duration_ms: u64::try_from(duration.as_millis()).unwrap_or(u64::MAX),
        exit: if let Some(ProcessEnd::Exit(code)) = end { Some(code) } else { None },
        cancelled: end == Some(ProcessEnd::Cancelled),
        attempts: 1,
        notes: reading.notes,
    }
}

/// Applies the flaky policy to tests that the tool itself retried.
fn apply_flaky_policy(mut run: GateRun, flaky: FlakyPolicy) -> GateRun {
    if flaky == FlakyPolicy::Fail && run.outcome.is_passed() && !run.flaky_suspected.is_empty() {
        let finding =
            |name: &String| CheckFinding::new(FindingKind::Test, &**name, "passed only when retried");
        run.findings.extend(run.flaky_suspected.iter().map(finding));
        run.failing = failing_tests(&run.findings);
        run.outcome = CheckOutcome::Failed;
    }
    run
}

fn failing_tests(findings: &[CheckFinding]) -> Vec<String> {
    let names: BTreeSet<&String> =
        findings.iter().filter(|found| found.is_test_failure()).map(|found| &found.name).collect();
    names.into_iter().cloned().collect()
}

/// Merges a rerun with the first run: tests that differ are suspected to be flaky.
fn merge_rerun(first: GateRun, mut again: GateRun, flaky: FlakyPolicy) -> GateRun {
    if again.cancelled {
        return first;
    }
    let before: BTreeSet<&String> = first.failing.iter().collect();
    let after: BTreeSet<&String> = again.failing.iter().collect();
    let mut differed: Vec<String> = before.symmetric_difference(&after).map(|name| (*name).clone()).collect();
    differed.extend(first.flaky_suspected.iter().chain(&again.flaky_suspected).cloned());
    differed.sort();
    differed.dedup();
    again.attempts = first.attempts + 1;
    again.duration_ms = again.duration_ms.saturating_add(first.duration_ms);
    again.notes.splice(0..0, first.notes);
    again.notes.sort();
    again.notes.dedup();
    again.flaky_suspected = differed;
    if again.outcome.is_passed() {
        again.notes.push(format!(
            "failed, then passed on rerun; suspected flaky tests: {}",
            again.flaky_suspected.join(", ")
        ));
        if flaky == FlakyPolicy::Fail {
            again.outcome = CheckOutcome::Failed;
            again.findings.splice(0..0, first.findings);
            again.failing = first.failing;
        }
    } else if !again.flaky_suspected.is_empty() {
        again.notes.push(format!("failed in only one of two runs: {}", again.flaky_suspected.join(", ")));
    }
    again
}

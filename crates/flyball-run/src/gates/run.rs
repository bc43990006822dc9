//! Runs a set of gates, one after another, and puts what they said together.
//!
//! order -> for each gate: may it run? -> [`attempt`] -> once more if tests failed -> [`Report`].

use super::attempt::{Attempt, Line, attempt};
use super::checklist;
use super::error::GateError;
use super::gate::Gate;
use super::options::{Flaky, Options};
use super::order::{ordered, validate};
use super::report::{GateRun, Report};
use crate::process::{Cancel, End};
use flyball::text::shortened;
use flyball_checks::CheckKind;
use flyball_checks::Outcome;
use flyball_checks::{Finding, FindingKind};
use std::collections::BTreeSet;
use std::path::Path;

/// How many characters of a gate's output go into its check.
const OUTPUT_CHARS: usize = 10_000;

/// Runs gates in a workspace and reports what they found.
///
/// A gate whose `needs` failed is skipped, and the reason names the gate that failed first. `on_line` hears the
/// output while it is written. Nothing is left behind but what the commands themselves leave in the workspace.
///
/// # Errors
/// If the set of gates cannot be run as it is: see [`validate`]. What goes wrong in a gate is in the report.
pub fn run(
    gates: &[Gate],
    workspace: &Path,
    options: &Options,
    cancel: &Cancel,
    on_line: &mut dyn FnMut(Line<'_>),
) -> Result<Report, GateError> {
    validate(gates)?;
    let mut runs: Vec<GateRun> = Vec::with_capacity(gates.len());
    for gate in ordered(gates)? {
        let found = match (why_not(gate, &runs, options, cancel), &gate.checklist) {
            (Some((reason, because)), _) => vec![GateRun::skipped(gate, reason, because)],
            (None, Some(file)) => checklist::look(gate, file, workspace),
            (None, None) => vec![one(gate, workspace, options, cancel, on_line)],
        };
        runs.extend(found.into_iter().map(GateRun::held_to_it));
    }
    // The report lists them as they were given.
    let place = |run: &GateRun| gates.iter().position(|gate| gate.name == run.name);
    runs.sort_by_key(place);
    Ok(Report::new(runs))
}

/// Why a gate does not run, and which failed gate is to blame for it, if one is.
fn why_not(
    gate: &Gate,
    runs: &[GateRun],
    options: &Options,
    cancel: &Cancel,
) -> Option<(String, Option<String>)> {
    if let Some(reason) = &gate.skip {
        return Some((reason.clone(), None));
    }
    if cancel.is_cancelled() {
        return Some(("cancelled before it began".to_owned(), None));
    }
    // Of a checklist, single items may be left open, with a reason each.
    if asked_to_skip(gate, options) && gate.may_skip && gate.checklist.is_none() {
        return Some(("left out on request".to_owned(), None));
    }
    let blames = |run: &&GateRun| options.cascade || gate.needs.contains(&run.name);
    let root = runs.iter().filter(blames).find_map(|run| match &run.because {
        Some(root) => Some(root.clone()),
        None => run.outcome.is_failed().then(|| run.name.clone()),
    })?;
    Some((format!("skipped: {root} failed"), Some(root)))
}

fn asked_to_skip(gate: &Gate, options: &Options) -> bool {
    options.asked_to_skip.iter().any(|name| *name == gate.name || *name == gate.check)
}

fn one(
    gate: &Gate,
    workspace: &Path,
    options: &Options,
    cancel: &Cancel,
    on_line: &mut dyn FnMut(Line<'_>),
) -> GateRun {
    let first = attempt(gate, workspace, options, cancel, on_line);
    let mut run = done(gate, first);
    if asked_to_skip(gate, options) {
        run.notes.push(format!("'{}' may not be left out, so it was run", gate.name));
    }
    let only_tests = run.findings.iter().filter(|found| found.is_failure()).all(Finding::is_of_a_test);
    let failed = run.outcome.is_failed() && run.exit.is_some();
    let worth_it = gate.kind == CheckKind::Tests && failed && only_tests;
    if !options.rerun || !worth_it || cancel.is_cancelled() {
        return held_against(run, options.flaky);
    }
    let again = done(gate, attempt(gate, workspace, options, cancel, on_line));
    compared(run, again, options.flaky)
}

fn done(gate: &Gate, attempt: Attempt) -> GateRun {
    let Attempt { outcome, mut reading, end, duration } = attempt;
    let failing = failing(&reading.findings);
    // A failure outside the tests says that some of them may not have run.
    let only_tests = reading.findings.iter().filter(|found| found.is_failure()).all(Finding::is_of_a_test);
    let ran = !matches!(outcome, Outcome::Skipped { .. });
    if !reading.flaky.is_empty() {
        reading.notes.push(format!("passed only when they were tried again: {}", reading.flaky.join(", ")));
    }
    GateRun {
        name: gate.name.clone(),
        check: gate.check.clone(),
        kind: gate.kind,
        required: gate.required,
        outcome,
        because: None,
        failing,
        counted: gate.kind == CheckKind::Tests && ran && reading.whole && !reading.partial && only_tests,
        format: reading.format,
        findings: reading.findings,
        tests: reading.tests,
        flaky_suspected: reading.flaky,
        output: shortened(&reading.text, OUTPUT_CHARS),
        duration_ms: u64::try_from(duration.as_millis()).unwrap_or(u64::MAX),
        exit: if let Some(End::Exit(code)) = end { Some(code) } else { None },
        cancelled: end == Some(End::Cancelled),
        attempts: 1,
        notes: reading.notes,
    }
}

/// A pass of tests that the tool itself had to try again, under a policy that does not take that for one.
fn held_against(mut run: GateRun, flaky: Flaky) -> GateRun {
    if flaky == Flaky::Fail && run.outcome.is_passed() && !run.flaky_suspected.is_empty() {
        let told = |name: &String| {
            Finding::new(FindingKind::Test, &**name, "it passed only when it was tried again")
        };
        run.findings.extend(run.flaky_suspected.iter().map(told));
        run.failing = failing(&run.findings);
        run.outcome = Outcome::Failed;
    }
    run
}

fn failing(findings: &[Finding]) -> Vec<String> {
    let names: BTreeSet<&String> =
        findings.iter().filter(|found| found.is_of_a_test()).map(|found| &found.name).collect();
    names.into_iter().cloned().collect()
}

/// The second run after a first one whose tests failed: whatever differs is suspected to be flaky.
fn compared(first: GateRun, mut again: GateRun, flaky: Flaky) -> GateRun {
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
            "failed and then passed when it was run again; suspected to be flaky: {}",
            again.flaky_suspected.join(", ")
        ));
        if flaky == Flaky::Fail {
            again.outcome = Outcome::Failed;
            again.findings.splice(0..0, first.findings);
            again.failing = first.failing;
        }
    } else if !again.flaky_suspected.is_empty() {
        again.notes.push(format!("failed in one of two runs only: {}", again.flaky_suspected.join(", ")));
    }
    again
}

//! How a command ended and what its results say must agree; here are the cases in which they do not.

use super::{Outcome, judge, span};
use crate::gates::finding::{Finding, FindingKind};
use crate::gates::format::Format;
use crate::gates::gate::{Gate, GateKind};
use crate::gates::read::{Counts, Reading};
use crate::process::End;
use std::time::Duration;

fn reading(format: Format) -> Reading {
    Reading { format, whole: true, ..Reading::default() }
}

fn failing() -> Finding {
    Finding::new(FindingKind::Test, "tests::adds", "left: 4")
}

fn tests() -> Gate {
    Gate::new("tests", GateKind::Tests, &["x"])
}

fn counted(passed: u64, failed: u64, skipped: u64) -> Reading {
    Reading { tests: Some(Counts { passed, failed, skipped }), ..reading(Format::Junit) }
}

#[test]
fn a_command_that_ends_with_0_and_lists_failures_has_failed() {
    let mut said = Reading { findings: vec![failing()], ..counted(1, 1, 0) };
    assert_eq!(judge(&tests(), End::Exit(0), &mut said), Outcome::Failed);
}

#[test]
fn a_command_that_fails_without_a_finding_says_the_end_of_its_output() {
    let mut said = Reading { text: "one\ntwo\nthe disk is full\n".to_owned(), ..counted(3, 0, 0) };
    assert_eq!(judge(&tests(), End::Exit(1), &mut said), Outcome::Failed);
    let message = &said.findings.first().expect("a finding").message;
    assert_eq!(message, "it ended with code 1: one; two; the disk is full");
    let mut silent = reading(Format::Plain);
    assert_eq!(judge(&tests(), End::Exit(7), &mut silent), Outcome::Failed);
    assert_eq!(
        silent.findings.first().expect("a finding").message,
        "it ended with code 7 and printed nothing"
    );
}

#[test]
fn warnings_alone_do_not_fail_but_a_code_does() {
    let warned = || Reading { findings: vec![failing().warning()], ..reading(Format::Eslint) };
    let lint = Gate::new("lint", GateKind::Lint, &["x"]);
    assert_eq!(judge(&lint, End::Exit(0), &mut warned()), Outcome::Passed);
    let mut said = warned();
    assert_eq!(judge(&lint, End::Exit(1), &mut said), Outcome::Failed);
    assert!(said.findings.iter().any(Finding::is_failure));
}

#[test]
fn text_that_looks_like_an_error_does_not_outweigh_a_0_unless_it_names_a_test() {
    let text = |kind| Reading { findings: vec![Finding::new(kind, "x", "y")], ..reading(Format::Plain) };
    let custom = Gate::new("docs", GateKind::Custom, &["x"]);
    assert_eq!(judge(&custom, End::Exit(0), &mut text(FindingKind::Other)), Outcome::Passed);
    assert_eq!(judge(&custom, End::Exit(0), &mut text(FindingKind::Test)), Outcome::Failed);
}

#[test]
fn results_that_are_not_whole_never_pass() {
    let mut said = Reading { whole: false, notes: vec!["cut off".to_owned()], ..counted(3, 0, 0) };
    assert_eq!(judge(&tests(), End::Exit(0), &mut said), Outcome::Failed);
    assert_eq!(said.findings.first().expect("a finding").message, "cut off");
}

#[test]
fn nothing_that_ran_is_skipped_not_passed() {
    let skipped = |reason: &str| Outcome::Skipped { reason: reason.to_owned() };
    assert_eq!(judge(&tests(), End::Exit(0), &mut counted(0, 0, 0)), skipped("no tests were found"));
    assert_eq!(judge(&tests(), End::Exit(0), &mut counted(0, 0, 3)), skipped("all 3 tests were skipped"));
    assert_eq!(judge(&tests(), End::Exit(0), &mut counted(0, 0, 1)), skipped("the only test was skipped"));
    assert_eq!(judge(&tests(), End::Exit(0), &mut counted(1, 0, 3)), Outcome::Passed);
    // An empty report and a code that nothing explains: that is a failure.
    assert_eq!(judge(&tests(), End::Exit(1), &mut counted(0, 0, 0)), Outcome::Failed);
    let mut said = Reading { text: "error: no tests to run\n".to_owned(), ..counted(0, 0, 0) };
    assert_eq!(judge(&tests(), End::Exit(4), &mut said), skipped("no tests were found"));
    let hints = vec![Finding::new(FindingKind::Other, "", "Error: no database")];
    let mut broken = Reading { text: "No test files found".to_owned(), hints, ..counted(0, 0, 0) };
    assert_eq!(judge(&tests(), End::Exit(1), &mut broken), Outcome::Failed);
}

#[test]
fn a_run_that_was_stopped_has_not_passed() {
    let mut late = counted(5, 0, 0);
    assert_eq!(judge(&tests(), End::Deadline, &mut late), Outcome::Failed);
    assert_eq!(late.findings.first().expect("a finding").message, "it ran longer than its deadline of 5m");
    let mut killed = counted(5, 0, 0);
    assert_eq!(judge(&tests(), End::Signal(9), &mut killed), Outcome::Failed);
    assert_eq!(killed.findings.first().expect("a finding").message, "it was ended by signal 9");
    let cancelled = judge(&tests(), End::Cancelled, &mut counted(5, 0, 0));
    assert_eq!(cancelled, Outcome::Skipped { reason: "cancelled before it ended".to_owned() });
}

#[test]
fn lengths_of_time_are_written_as_they_are_read() {
    let words = [(7_200_000, "2h"), (300_000, "5m"), (90_000, "90s"), (1_500, "1500ms"), (0, "0ms")];
    for (ms, expected) in words {
        assert_eq!(span(Duration::from_millis(ms)), expected);
    }
}

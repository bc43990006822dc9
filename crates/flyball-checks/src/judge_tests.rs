//! How a command ended and what its results say must agree; here are the cases in which they do not.

use super::{Outcome, failed_because, judge};
use crate::finding::{Finding, FindingKind};
use crate::format::Format;
use crate::read::{Counts, Reading};
use flyball::CheckKind;

fn reading(format: Format) -> Reading {
    Reading { format, whole: true, ..Reading::default() }
}

fn failing() -> Finding {
    Finding::new(FindingKind::Test, "tests::adds", "left: 4")
}

fn counted(passed: u64, failed: u64, skipped: u64) -> Reading {
    Reading { tests: Some(Counts { passed, failed, skipped }), ..reading(Format::Junit) }
}

#[test]
fn a_command_that_ends_with_0_and_lists_failures_has_failed() {
    let mut said = Reading { findings: vec![failing()], ..counted(1, 1, 0) };
    assert_eq!(judge("tests", CheckKind::Tests, 0, &mut said), Outcome::Failed);
}

#[test]
fn a_command_that_fails_without_a_finding_says_the_end_of_its_output() {
    let mut said = Reading { text: "one\ntwo\nthe disk is full\n".to_owned(), ..counted(3, 0, 0) };
    assert_eq!(judge("tests", CheckKind::Tests, 1, &mut said), Outcome::Failed);
    let message = &said.findings.first().expect("a finding").message;
    assert_eq!(message, "it ended with code 1: one; two; the disk is full");
    let mut silent = reading(Format::Plain);
    assert_eq!(judge("tests", CheckKind::Tests, 7, &mut silent), Outcome::Failed);
    assert_eq!(
        silent.findings.first().expect("a finding").message,
        "it ended with code 7 and printed nothing"
    );
}

#[test]
fn warnings_alone_do_not_fail_but_a_code_does() {
    let warned = || Reading { findings: vec![failing().warning()], ..reading(Format::Eslint) };
    assert_eq!(judge("lint", CheckKind::Lint, 0, &mut warned()), Outcome::Passed);
    let mut said = warned();
    assert_eq!(judge("lint", CheckKind::Lint, 1, &mut said), Outcome::Failed);
    assert!(said.findings.iter().any(Finding::is_failure));
}

#[test]
fn text_that_looks_like_an_error_does_not_outweigh_a_0_unless_it_names_a_test() {
    let text = |kind| Reading { findings: vec![Finding::new(kind, "x", "y")], ..reading(Format::Plain) };
    assert_eq!(judge("docs", CheckKind::Custom, 0, &mut text(FindingKind::Other)), Outcome::Passed);
    assert_eq!(judge("docs", CheckKind::Custom, 0, &mut text(FindingKind::Test)), Outcome::Failed);
}

#[test]
fn results_that_are_not_whole_never_pass() {
    let mut said = Reading { whole: false, notes: vec!["cut off".to_owned()], ..counted(3, 0, 0) };
    assert_eq!(judge("tests", CheckKind::Tests, 0, &mut said), Outcome::Failed);
    assert_eq!(said.findings.first().expect("a finding").message, "cut off");
}

#[test]
fn nothing_that_ran_is_skipped_not_passed() {
    let skipped = |reason: &str| Outcome::Skipped { reason: reason.to_owned() };
    assert_eq!(judge("tests", CheckKind::Tests, 0, &mut counted(0, 0, 0)), skipped("no tests were found"));
    assert_eq!(
        judge("tests", CheckKind::Tests, 0, &mut counted(0, 0, 3)),
        skipped("all 3 tests were skipped")
    );
    assert_eq!(
        judge("tests", CheckKind::Tests, 0, &mut counted(0, 0, 1)),
        skipped("the only test was skipped")
    );
    assert_eq!(judge("tests", CheckKind::Tests, 0, &mut counted(1, 0, 3)), Outcome::Passed);
    // An empty report and a code that nothing explains: that is a failure.
    assert_eq!(judge("tests", CheckKind::Tests, 1, &mut counted(0, 0, 0)), Outcome::Failed);
    let mut said = Reading { text: "error: no tests to run\n".to_owned(), ..counted(0, 0, 0) };
    assert_eq!(judge("tests", CheckKind::Tests, 4, &mut said), skipped("no tests were found"));
    let hints = vec![Finding::new(FindingKind::Other, "", "Error: no database")];
    let mut broken = Reading { text: "No test files found".to_owned(), hints, ..counted(0, 0, 0) };
    assert_eq!(judge("tests", CheckKind::Tests, 1, &mut broken), Outcome::Failed);
}

#[test]
fn a_run_that_was_stopped_has_not_passed() {
    let mut late = counted(5, 0, 0);
    assert_eq!(failed_because("tests", "it ran longer than its deadline of 5m", &mut late), Outcome::Failed);
    assert_eq!(late.findings.first().expect("a finding").message, "it ran longer than its deadline of 5m");
    assert!(late.partial);
}

//! Cases in which the exit code and the results of a command disagree.

use super::{CheckOutcome, determine_outcome, failed_because};
use crate::finding::{CheckFinding, FindingKind};
use crate::format::ResultsFormat;
use crate::parsers::{ParsedResults, TestCounts};
use flyball::CheckKind;

fn reading(format: ResultsFormat) -> ParsedResults {
    ParsedResults { format, complete: true, ..ParsedResults::default() }
}

fn failing() -> CheckFinding {
    CheckFinding::new(FindingKind::Test, "tests::adds", "left: 4")
}

fn counted(passed: u64, failed: u64, skipped: u64) -> ParsedResults {
    ParsedResults { tests: Some(TestCounts { passed, failed, skipped }), ..reading(ResultsFormat::Junit) }
}

#[test]
fn exit_0_with_failures_is_failed() {
    let mut said = ParsedResults { findings: vec![failing()], ..counted(1, 1, 0) };
    assert_eq!(determine_outcome("tests", CheckKind::Tests, 0, &mut said), CheckOutcome::Failed);
}

#[test]
fn failure_without_findings_reports_the_output_tail() {
    let mut said = ParsedResults { text: "one\ntwo\nthe disk is full\n".to_owned(), ..counted(3, 0, 0) };
    assert_eq!(determine_outcome("tests", CheckKind::Tests, 1, &mut said), CheckOutcome::Failed);
    let message = &said.findings.first().expect("a finding").message;
    assert_eq!(message, "exited with code 1: one; two; the disk is full");
    let mut silent = reading(ResultsFormat::Plain);
    assert_eq!(determine_outcome("tests", CheckKind::Tests, 7, &mut silent), CheckOutcome::Failed);
    assert_eq!(silent.findings.first().expect("a finding").message, "exited with code 7 and printed nothing");
}

#[test]
fn warnings_pass_but_a_nonzero_exit_fails() {
    let warned = || ParsedResults { findings: vec![failing().warning()], ..reading(ResultsFormat::Eslint) };
    assert_eq!(determine_outcome("lint", CheckKind::Lint, 0, &mut warned()), CheckOutcome::Passed);
    let mut said = warned();
    assert_eq!(determine_outcome("lint", CheckKind::Lint, 1, &mut said), CheckOutcome::Failed);
    assert!(said.findings.iter().any(CheckFinding::is_failure));
}

#[test]
fn plain_text_errors_do_not_override_exit_0_unless_a_test_is_named() {
    let text = |kind| ParsedResults {
        findings: vec![CheckFinding::new(kind, "x", "y")],
        ..reading(ResultsFormat::Plain)
    };
    assert_eq!(
        determine_outcome("docs", CheckKind::Custom, 0, &mut text(FindingKind::Other)),
        CheckOutcome::Passed
    );
    assert_eq!(
        determine_outcome("docs", CheckKind::Custom, 0, &mut text(FindingKind::Test)),
        CheckOutcome::Failed
    );
}

#[test]
fn incomplete_results_never_pass() {
    let mut said = ParsedResults { complete: false, notes: vec!["cut off".to_owned()], ..counted(3, 0, 0) };
    assert_eq!(determine_outcome("tests", CheckKind::Tests, 0, &mut said), CheckOutcome::Failed);
    assert_eq!(said.findings.first().expect("a finding").message, "cut off");
}

#[test]
fn no_tests_run_is_skipped_not_passed() {
    let skipped = |reason: &str| CheckOutcome::Skipped { reason: reason.to_owned() };
    assert_eq!(
        determine_outcome("tests", CheckKind::Tests, 0, &mut counted(0, 0, 0)),
        skipped("no tests were found")
    );
    assert_eq!(
        determine_outcome("tests", CheckKind::Tests, 0, &mut counted(0, 0, 3)),
        skipped("all 3 tests were skipped")
    );
    assert_eq!(
        determine_outcome("tests", CheckKind::Tests, 0, &mut counted(0, 0, 1)),
        skipped("the only test was skipped")
    );
    assert_eq!(determine_outcome("tests", CheckKind::Tests, 0, &mut counted(1, 0, 3)), CheckOutcome::Passed);
    // An empty report with an unexplained exit code is a failure.
    assert_eq!(determine_outcome("tests", CheckKind::Tests, 1, &mut counted(0, 0, 0)), CheckOutcome::Failed);
    let mut said = ParsedResults { text: "error: no tests to run\n".to_owned(), ..counted(0, 0, 0) };
    assert_eq!(determine_outcome("tests", CheckKind::Tests, 4, &mut said), skipped("no tests were found"));
    let hints = vec![CheckFinding::new(FindingKind::Other, "", "Error: no database")];
    let mut broken = ParsedResults { text: "No test files found".to_owned(), hints, ..counted(0, 0, 0) };
    assert_eq!(determine_outcome("tests", CheckKind::Tests, 1, &mut broken), CheckOutcome::Failed);
}

#[test]
fn stopped_run_has_not_passed() {
    let mut late = counted(5, 0, 0);
    assert_eq!(
        failed_because("tests", "it ran longer than its deadline of 5m", &mut late),
        CheckOutcome::Failed
    );
    assert_eq!(late.findings.first().expect("a finding").message, "it ran longer than its deadline of 5m");
    assert!(late.partial);
}

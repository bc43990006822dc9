//! The message of seed 002, word for word, and what goes into it.

use super::{BlockingEvent, TASK_COMPLETE};
use crate::gates::finding::{Finding, FindingKind};
use crate::gates::gate::{Gate, GateKind};
use crate::gates::judge::Outcome;
use crate::gates::report::{GateRun, Report, Verdict};
use flyball::policy::{Gate as Limits, GateOrder, Unverified};

fn run(name: &str, kind: GateKind, outcome: Outcome, findings: Vec<Finding>) -> GateRun {
    let mut run = GateRun::skipped(&Gate::new(name, kind, &["x"]), "why".to_owned(), None);
    (run.outcome, run.findings) = (outcome, findings);
    run
}

fn test_failure(name: &str) -> Finding {
    Finding::new(FindingKind::Test, name, "left: 4").at("src/lib.rs", Some(28))
}

fn build_error() -> Finding {
    Finding::new(FindingKind::Build, "E0425", "cannot find value `missing`").at("src/lib.rs", Some(11))
}

fn skipped(reason: &str) -> Outcome {
    Outcome::Skipped { reason: reason.to_owned() }
}

fn blocked(report: &Report) -> BlockingEvent {
    BlockingEvent::of(report, TASK_COMPLETE, &Limits::default()).expect("blocked")
}

#[test]
fn failed_tests_are_told_as_the_seed_words_it() {
    let report = Report::new(vec![
        run("build", GateKind::Build, Outcome::Passed, vec![]),
        run(
            "tests",
            GateKind::Tests,
            Outcome::Failed,
            vec![test_failure("tests::adds"), test_failure("tests::divides")],
        ),
        run("lint", GateKind::Lint, skipped("clippy is not installed"), vec![]),
    ]);
    let expected = "\
## Completion Blocked: tests failed

Your `TASK_COMPLETE` request was blocked.

### Issues Found
- tests::adds: left: 4 (src/lib.rs:28)
- tests::divides: left: 4 (src/lib.rs:28)

### Suggested Actions
1. Review the failing test assertions
2. Check if recent changes broke existing behavior
3. Run the specific failing test locally for more details

### Gate Status
[ ] tests: failed
[~] lint: skipped
[x] build: passed
";
    assert_eq!(blocked(&report).text(), expected);
}

#[test]
fn a_failed_build_is_the_root_cause_and_the_others_are_told_after_it() {
    let lint = Finding::new(FindingKind::Lint, "F401", "unused").at("a.py", Some(1));
    let report = Report::new(vec![
        run("lint", GateKind::Lint, Outcome::Failed, vec![build_error(), lint]),
        run("tests", GateKind::Tests, Outcome::Failed, vec![test_failure("t")]),
        run("build", GateKind::Build, Outcome::Failed, vec![build_error()]),
    ]);
    let event = blocked(&report);
    assert_eq!(event.blocked_by, "build");
    assert_eq!(event.summary, "build failed");
    assert_eq!(event.failed, ["build", "tests", "lint"]);
    assert_eq!(
        event.details,
        [
            "src/lib.rs:11: cannot find value `missing` [E0425]",
            "tests: t: left: 4 (src/lib.rs:28)",
            "lint: a.py:1: unused [F401]",
        ]
    );
    assert_eq!(
        event.suggestions,
        ["Fix compilation errors before proceeding", "Check for missing imports or typos"]
    );
    let seed = Limits { order: GateOrder::Seed, ..Limits::default() };
    assert_eq!(BlockingEvent::of(&report, TASK_COMPLETE, &seed).expect("blocked").blocked_by, "tests");
}

#[test]
fn each_kind_has_its_suggestions_and_a_custom_gate_has_none() {
    let failed = |name: &str, kind| blocked(&Report::new(vec![run(name, kind, Outcome::Failed, vec![])]));
    let lint = failed("lint", GateKind::Lint);
    assert_eq!(lint.suggestions, ["Fix the reported style/lint issues", "Run the linter to see all issues"]);
    let docs = failed("docs", GateKind::Custom);
    assert_eq!(
        docs.text(),
        "\
## Completion Blocked: docs failed

Your `TASK_COMPLETE` request was blocked.

### Gate Status
[ ] docs: failed
"
    );
}

#[test]
fn the_event_has_the_seeds_keys() {
    let report = Report::new(vec![run("tests", GateKind::Tests, Outcome::Failed, vec![test_failure("t")])]);
    let json = serde_json::to_value(blocked(&report)).expect("JSON");
    for key in ["original_request", "blocked_by", "summary", "details", "suggestions", "gate_result"] {
        assert!(json.get(key).is_some(), "{key}");
    }
    let result = &json["gate_result"];
    assert_eq!(result["passed"], false);
    assert_eq!(result["feedback"], "QUALITY_BLOCKED");
    assert_eq!(result["tests"]["passed"], false);
    assert!(result.get("lint").is_none());
    assert_eq!(json["original_request"], "TASK_COMPLETE");
}

#[test]
fn passed_work_is_not_blocked_and_unverified_work_only_if_the_policy_says_so() {
    let passed = Report::new(vec![run("tests", GateKind::Tests, Outcome::Passed, vec![])]);
    assert_eq!(passed.verdict, Verdict::Passed);
    assert!(BlockingEvent::of(&passed, "done", &Limits::default()).is_none());
    let unverified =
        Report::new(vec![run("tests", GateKind::Tests, skipped("pytest is not installed"), vec![])]);
    assert_eq!(unverified.verdict, Verdict::Unverified);
    assert!(BlockingEvent::of(&unverified, "done", &Limits::default()).is_none());
    let strict = Limits { unverified: Unverified::Block, ..Limits::default() };
    let event = BlockingEvent::of(&unverified, "done", &strict).expect("blocked");
    assert_eq!(
        event.text(),
        "\
## Completion Blocked: no check ran

Your `done` request was blocked.

### Issues Found
- tests: pytest is not installed

### Gate Status
[~] tests: skipped
"
    );
    let silent = Limits { backpressure: false, ..Limits::default() };
    let failed = Report::new(vec![run("tests", GateKind::Tests, Outcome::Failed, vec![])]);
    assert!(BlockingEvent::of(&failed, "done", &silent).is_none());
}

#[test]
fn a_long_list_is_cut_and_says_how_much_is_missing() {
    let many: Vec<Finding> = (0..100).map(|n| test_failure(&format!("t{n}"))).collect();
    let lints =
        (0..9).map(|n| Finding::new(FindingKind::Lint, "r", &"x".repeat(390)).at("a", Some(n + 1))).collect();
    let report = Report::new(vec![
        run("tests", GateKind::Tests, Outcome::Failed, many),
        run("lint", GateKind::Lint, Outcome::Failed, lints),
    ]);
    let event = blocked(&report);
    assert_eq!(event.details.len(), 20 + 1 + 5 + 1);
    assert_eq!(event.details[20], "tests: and 80 more");
    assert_eq!(event.details[26], "lint: and 4 more");
    assert!(event.details.iter().all(|detail| detail.chars().count() <= 300));
}

//! Tests of the exact blocked-completion message and its content.

use super::{BlockingEvent, TASK_COMPLETE, skip_dependents};
use crate::event::Check;
use crate::policy::{GateOrder, GatePolicy as Limits, UnverifiedAction};

fn passed(name: &str) -> Check {
    Check { name: name.to_owned(), passed: true, ..Check::default() }
}

fn failed(name: &str, details: &[&str]) -> Check {
    let details = details.iter().map(|detail| (*detail).to_owned()).collect();
    Check { name: name.to_owned(), details, ..Check::default() }
}

fn skipped(name: &str, reason: &str) -> Check {
    Check { name: name.to_owned(), skipped: true, skip_reason: Some(reason.to_owned()), ..Check::default() }
}

fn blocked(checks: &[Check]) -> BlockingEvent {
    BlockingEvent::from_checks(checks, TASK_COMPLETE, &Limits::default()).expect("blocked")
}

fn depends_on(pairs: &[(&str, &str)]) -> Limits {
    let dependencies = pairs.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect();
    Limits { dependencies, ..Limits::default() }
}

#[test]
fn failed_tests_produce_the_specified_message() {
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
    let checks = [
        passed("build"),
        failed("tests", &["tests::adds: left: 4 (src/lib.rs:28)", "tests::divides: left: 4 (src/lib.rs:28)"]),
        skipped("lint", "clippy is not installed"),
    ];
    assert_eq!(blocked(&checks).text(), expected);
}

#[test]
fn a_check_that_is_passed_and_skipped_is_shown_as_skipped() {
    let checks = [failed("tests", &["x"]), Check { passed: true, ..skipped("lint", "no command found") }];
    assert!(blocked(&checks).text().contains("[~] lint: skipped"));
}

#[test]
fn failed_build_is_listed_first_as_root_cause() {
    let error = "src/lib.rs:11: cannot find value `missing` [E0425]";
    let checks = [
        failed("lint", &[error, "a.py:1: unused [F401]"]),
        failed("tests", &["t: left: 4 (src/lib.rs:28)"]),
        failed("build", &[error]),
    ];
    let event = blocked(&checks);
    assert_eq!((event.blocked_by.as_str(), event.summary.as_str()), ("build", "build failed"));
    assert_eq!(event.failed, ["build", "tests", "lint"]);
    assert_eq!(event.details, [error, "tests: t: left: 4 (src/lib.rs:28)", "lint: a.py:1: unused [F401]"]);
    assert_eq!(
        event.suggestions,
        ["Fix compilation errors before proceeding", "Check for missing imports or typos"]
    );
    let seed = Limits { order: GateOrder::TestsFirst, ..Limits::default() };
    assert_eq!(
        BlockingEvent::from_checks(&checks, TASK_COMPLETE, &seed).expect("blocked").blocked_by,
        "tests"
    );
}

#[test]
fn check_kind_is_used_when_the_name_is_unknown() {
    let kind = |name: &str, kind: &str| Check { kind: Some(kind.to_owned()), ..failed(name, &["x"]) };
    let event = blocked(&[kind("api suite", "tests"), kind("cargo", "build")]);
    assert_eq!(event.blocked_by, "cargo");
    assert_eq!(event.gate_result.tests.as_ref().expect("tests").name, "api suite");
    assert_eq!(event.gate_result.build.as_ref().expect("build").name, "cargo");
    assert_eq!(blocked(&[kind("api suite", "tests")]).suggestions.len(), 3);
    assert!(blocked(&[failed("docs", &[])]).suggestions.is_empty());
}

#[test]
fn event_has_the_specified_keys() {
    let fields = blocked(&[failed("tests", &["t"])]).fields();
    for key in ["original_request", "blocked_by", "summary", "details", "suggestions", "gate_result", "text"]
    {
        assert!(fields.contains_key(key), "{key}");
    }
    let result = &fields["gate_result"];
    assert_eq!((&result["passed"], &result["feedback"]), (&false.into(), &"QUALITY_BLOCKED".into()));
    assert_eq!(result["tests"]["passed"], false);
    assert!(result.get("lint").is_none());
}

#[test]
fn passed_is_never_blocked_and_unverified_follows_policy() {
    assert_eq!(BlockingEvent::from_checks(&[passed("tests")], "done", &Limits::default()), None);
    let unverified = [skipped("tests", "pytest is not installed")];
    assert_eq!(BlockingEvent::from_checks(&unverified, "done", &Limits::default()), None);
    let strict = Limits { unverified: UnverifiedAction::Block, ..Limits::default() };
    let event = BlockingEvent::from_checks(&unverified, "done", &strict).expect("blocked");
    assert_eq!((event.blocked_by.as_str(), event.summary.as_str()), ("unknown", "no check ran"));
    assert_eq!(event.details, ["tests: pytest is not installed"]);
    let silent = Limits { backpressure: false, ..Limits::default() };
    assert_eq!(BlockingEvent::from_checks(&[failed("tests", &[])], "done", &silent), None);
}

#[test]
fn long_detail_list_is_truncated_with_a_count() {
    let many: Vec<String> = (0..100).map(|n| format!("t{n}: left: 4")).collect();
    let lints: Vec<String> = (0..9).map(|n| format!("a:{n}: {}", "x".repeat(390))).collect();
    let list = |all: &[String]| all.iter().map(String::as_str).collect::<Vec<_>>().join("\n");
    let all = [
        Check { details: many.clone(), ..failed("tests", &[]) },
        Check { details: lints, ..failed("lint", &[]) },
        Check { output: list(&many), ..failed("docs", &[]) },
    ];
    let event = blocked(&all);
    assert_eq!(event.details[20], "tests: and 80 more");
    assert_eq!(event.details[26], "lint: and 4 more");
    assert_eq!(
        event.details[27],
        "docs: t94: left: 4; t95: left: 4; t96: left: 4; t97: left: 4; t98: left: 4; t99: left: 4"
    );
    assert!(event.details.iter().all(|detail| detail.chars().count() <= 320));
    let outputs = event.gate_result.others.iter().map(|check| check.output.chars().count());
    assert!(outputs.max() <= Some(2_100));
}

#[test]
fn detail_is_always_one_line() {
    let event = blocked(&[failed("te\u{1b}[31msts\n# x", &["a\nb\u{1b}[0m\u{7}"])]);
    assert!(!event.text().contains(['\u{1b}', '\u{7}']), "{}", event.text());
    assert_eq!(event.details, ["a; b "]);
}

#[test]
fn dependents_of_a_failed_check_are_skipped_with_the_root_cause() {
    let limits = depends_on(&[("lint", "build"), ("docs", "lint"), ("tests", "docs")]);
    let checks = [failed("lint", &["l"]), passed("docs"), failed("tests", &["t"]), failed("build", &["b"])];
    let event = BlockingEvent::from_checks(&checks, TASK_COMPLETE, &limits).expect("blocked");
    assert_eq!((event.blocked_by.as_str(), event.failed.as_slice()), ("build", &["build".to_owned()][..]));
    assert_eq!(event.details, ["b"]);
    for check in [event.gate_result.lint.as_ref(), event.gate_result.tests.as_ref()].into_iter().flatten() {
        assert_eq!(check.skip_reason.as_deref(), Some("skipped: build failed"), "{check:?}");
        assert!(check.skipped && !check.passed, "{check:?}");
    }
    assert!(
        event
            .text()
            .ends_with("[~] tests: skipped\n[~] lint: skipped\n[ ] build: failed\n[~] docs: skipped\n")
    );
}

#[test]
fn dependents_of_a_passed_or_skipped_check_are_unchanged() {
    let limits = depends_on(&[("lint", "build"), ("tests", "build")]);
    for build in [passed("build"), skipped("build", "no command found")] {
        let checks = [build, failed("lint", &["l"]), passed("tests")];
        assert_eq!(*skip_dependents(&checks, &limits.dependencies), checks);
    }
    let circle = depends_on(&[("a", "b"), ("b", "a")]);
    let checks = [failed("a", &["x"]), failed("b", &["y"])];
    assert_eq!(skip_dependents(&checks, &circle.dependencies).len(), 2);
}

//! Running gates with real commands and files, up to the governor.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

use flyball::backpressure::{BlockingEvent, TASK_COMPLETE};
use flyball::policy::GatePolicy as Limits;
use flyball::{Decision, Event, PolicySource, Preset, Sessions, Verdict as Answer};
use flyball_runner::gates::{
    CheckKind, CheckOutcome, FlakyPolicy, GateLine, GateOptions, GateReport, GateVerdict, QualityGate,
    ResultsFormat, ResultsLocation, run_gates,
};
use flyball_runner::process::CancelToken;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

static NEXT: AtomicU32 = AtomicU32::new(0);

/// A temporary folder.
struct GateTestDir(PathBuf);

impl GateTestDir {
    fn new() -> Self {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("flyball-gates-test-{}-{number}", std::process::id()));
        fs::create_dir(&path).expect("a folder");
        GateTestDir(path)
    }

    fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for GateTestDir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn sh(name: &str, kind: CheckKind, script: &str) -> QualityGate {
    QualityGate::new(name, kind, &["sh", "-c", script])
}

fn run_silent(gates: &[QualityGate], folder: &GateTestDir, options: &GateOptions) -> GateReport {
    run_gates(gates, folder.path(), options, &CancelToken::new(), &mut |_| {}).expect("a report")
}

fn without_rerun() -> GateOptions {
    GateOptions { rerun: false, ..GateOptions::default() }
}

fn outcome<'a>(report: &'a GateReport, name: &str) -> &'a CheckOutcome {
    &report.gates.iter().find(|gate| gate.name == name).expect("a gate").outcome
}

fn skipped(reason: &str) -> CheckOutcome {
    CheckOutcome::Skipped { reason: reason.to_owned() }
}

#[test]
fn passing_gates_give_a_passed_verdict() {
    let folder = GateTestDir::new();
    let gates = [sh("build", CheckKind::Build, "echo built"), sh("docs", CheckKind::Custom, "true")];
    let report = run_silent(&gates, &folder, &without_rerun());
    assert_eq!(report.verdict, GateVerdict::Passed);
    assert_eq!(report.fingerprint, None);
    assert!(report.checks.iter().all(|check| check.passed && !check.skipped));
    assert_eq!(report.checks[0].output, "built\n");
    assert!(BlockingEvent::from_checks(&report.checks, TASK_COMPLETE, &Limits::default()).is_none());
}

#[test]
fn gate_with_failed_dependency_is_skipped_with_root_cause() {
    let folder = GateTestDir::new();
    let gates = [
        sh("deploy", CheckKind::Custom, "touch deployed").needs("tests"),
        sh("tests", CheckKind::Tests, "touch tested").needs("build"),
        sh("build", CheckKind::Build, "echo 'main.c:3:1: error: no such thing' >&2; exit 2"),
        sh("lint", CheckKind::Lint, "true"),
    ];
    let report = run_silent(&gates, &folder, &without_rerun());
    assert_eq!(*outcome(&report, "tests"), skipped("skipped: build failed"));
    assert_eq!(*outcome(&report, "deploy"), skipped("skipped: build failed"));
    assert_eq!(*outcome(&report, "lint"), CheckOutcome::Passed, "it has no needs");
    assert!(!folder.path().join("tested").exists() && !folder.path().join("deployed").exists());
    assert_eq!(report.verdict, GateVerdict::Failed);
    assert_eq!(report.checks[0].name, "build", "the root cause comes first");
    assert_eq!(report.findings[0].to_string(), "main.c:3: no such thing");
    // The tests did not run: an empty list of failing tests is not progress.
    assert!(report.failing.is_empty() && report.progress().is_none());
    let tests = report.checks.iter().find(|check| check.name == "tests").unwrap();
    assert!(tests.skipped && !tests.passed);
    assert_eq!(tests.skip_reason.as_deref(), Some("skipped: build failed"));
}

#[test]
fn cascade_skips_gates_after_the_first_failure() {
    let folder = GateTestDir::new();
    let gates = [sh("a", CheckKind::Custom, "exit 1"), sh("b", CheckKind::Custom, "true")];
    assert_eq!(*outcome(&run_silent(&gates, &folder, &without_rerun()), "b"), CheckOutcome::Passed);
    let cascade = GateOptions { cascade: true, ..without_rerun() };
    assert_eq!(*outcome(&run_silent(&gates, &folder, &cascade), "b"), skipped("skipped: a failed"));
}

#[test]
fn skipped_gates_are_unverified_and_required_ones_fail() {
    let folder = GateTestDir::new();
    let off = QualityGate::skipped("tests", CheckKind::Tests, "pytest is not installed");
    let report = run_silent(std::slice::from_ref(&off), &folder, &without_rerun());
    assert_eq!(report.verdict, GateVerdict::Unverified);
    assert_eq!(report.checks[0].skip_reason.as_deref(), Some("pytest is not installed"));
    assert_eq!(run_silent(&[], &folder, &without_rerun()).verdict, GateVerdict::Unverified);
    let required = QualityGate { required: true, ..off };
    let report = run_silent(&[required, sh("lint", CheckKind::Lint, "true")], &folder, &without_rerun());
    assert_eq!(report.verdict, GateVerdict::Failed);
    assert_eq!(report.findings[0].message, "required, but did not run: pytest is not installed");
}

#[test]
fn only_skippable_gates_are_skipped_on_request() {
    let folder = GateTestDir::new();
    let lint = QualityGate { may_skip: true, ..sh("lint", CheckKind::Lint, "exit 1") };
    let gates = [sh("unit", CheckKind::Tests, "exit 1"), lint];
    let asked = GateOptions { skip_requests: vec!["tests".to_owned(), "lint".to_owned()], ..without_rerun() };
    let report = run_silent(&gates, &folder, &asked);
    assert_eq!(*outcome(&report, "lint"), skipped("skipped on request"));
    assert_eq!(*outcome(&report, "unit"), CheckOutcome::Failed);
    assert_eq!(report.warnings, ["unit: 'unit' may not be skipped, so it ran"]);
}

#[test]
fn hanging_gate_is_killed_at_its_deadline() {
    let folder = GateTestDir::new();
    let mut hangs = sh("tests", CheckKind::Tests, "echo '--- FAIL: TestA (0.00s)'; sleep 600");
    hangs.deadline = Duration::from_millis(300);
    let begun = Instant::now();
    let report = run_silent(&[hangs, sh("lint", CheckKind::Lint, "true")], &folder, &GateOptions::default());
    assert!(begun.elapsed() < Duration::from_secs(120));
    assert_eq!(*outcome(&report, "tests"), CheckOutcome::Failed);
    assert_eq!(report.findings[0].message, "exceeded its deadline of 300 ms");
    assert_eq!(report.failing, ["TestA"], "earlier output is kept");
    assert_eq!(report.gates[0].attempts, 1, "a hanging gate is not run again");
    assert_eq!(*outcome(&report, "lint"), CheckOutcome::Passed);
}

#[test]
fn cancelled_run_is_unverified_and_emits_no_event() {
    let folder = GateTestDir::new();
    let cancel = CancelToken::new();
    let gates = [
        sh("build", CheckKind::Build, "true"),
        sh("tests", CheckKind::Tests, "echo begun; sleep 600"),
        sh("lint", CheckKind::Lint, "true"),
    ];
    let stop = cancel.clone();
    let begun = Instant::now();
    let mut on_line = |line: GateLine<'_>| {
        if line.text == "begun" {
            stop.cancel();
        }
    };
    let report =
        run_gates(&gates, folder.path(), &GateOptions::default(), &cancel, &mut on_line).expect("a report");
    assert!(begun.elapsed() < Duration::from_secs(120));
    assert_eq!(*outcome(&report, "build"), CheckOutcome::Passed);
    assert_eq!(*outcome(&report, "tests"), skipped("cancelled before it ended"));
    assert_eq!(*outcome(&report, "lint"), skipped("cancelled before it started"));
    assert_eq!(report.verdict, GateVerdict::Unverified);
    assert!(report.event(None).is_none() && report.is_cancelled());
}

const JUNIT: &str = r#"<testsuites><testsuite name="s"><testcase name="one"/>
<testcase name="two"><failure message="left: 4">at</failure></testcase></testsuite></testsuites>"#;

#[test]
fn results_file_in_scratch_dir_is_read_and_removed() {
    let folder = GateTestDir::new();
    let script =
        format!("printf '%s' '{JUNIT}' > {{results}}; printf '%s' {{results}} > where; echo words; exit 1");
    let gate = sh("tests", CheckKind::Tests, &script).format(ResultsFormat::Junit).results_in("junit.xml");
    let report = run_silent(&[gate], &folder, &without_rerun());
    assert_eq!(report.failing, ["two"]);
    assert_eq!(report.gates[0].output, "words\n");
    assert!(report.counted);
    let place = PathBuf::from(fs::read_to_string(folder.path().join("where")).unwrap());
    assert!(!place.exists() && !place.parent().unwrap().exists(), "{}", place.display());
}

#[test]
fn stale_results_file_is_ignored() {
    let folder = GateTestDir::new();
    let passing = JUNIT.replace("<failure message=\"left: 4\">at</failure>", "");
    fs::write(folder.path().join("junit.xml"), &passing).unwrap();
    let mut gate = sh("tests", CheckKind::Tests, "true").format(ResultsFormat::Junit);
    gate.results = ResultsLocation::File("junit.xml".into());
    let report = run_silent(&[gate.clone()], &folder, &without_rerun());
    assert_eq!(report.verdict, GateVerdict::Failed);
    assert!(
        report.findings[0].message.contains("no results file was written"),
        "{}",
        report.findings[0].message
    );
    gate.argv = ["sh", "-c", &format!("printf '%s\\n' '{passing}' > junit.xml")].map(str::to_owned).to_vec();
    assert_eq!(run_silent(&[gate], &folder, &without_rerun()).verdict, GateVerdict::Passed);
}

#[test]
fn truncated_output_never_passes_as_results() {
    let folder = GateTestDir::new();
    let tap = "i=1; echo 1..3000; while [ $i -le 3000 ]; do echo \"ok $i - a test\"; i=$((i+1)); done";
    let gate = sh("tests", CheckKind::Tests, tap).format(ResultsFormat::Tap);
    assert_eq!(
        run_silent(std::slice::from_ref(&gate), &folder, &without_rerun()).verdict,
        GateVerdict::Passed
    );
    let short = GateOptions { max_output_bytes: 4096, ..without_rerun() };
    let report = run_silent(&[gate], &folder, &short);
    assert_eq!(report.verdict, GateVerdict::Failed);
    assert!(
        report.findings[0].message.contains("the output was too long to keep"),
        "{}",
        report.findings[0].message
    );
    // The end of the output is kept too.
    assert!(report.gates[0].output.contains("ok 3000 - a test"));
}

#[test]
fn command_that_cannot_start_fails_with_a_reason() {
    let folder = GateTestDir::new();
    let report = run_silent(
        &[QualityGate::new("docs", CheckKind::Custom, &["no-such-program-here"])],
        &folder,
        &without_rerun(),
    );
    assert_eq!(report.verdict, GateVerdict::Failed);
    let said = &report.findings[0].message;
    assert!(said.starts_with("could not be started: ") && said.contains("program_not_found"), "{said}");
}

#[test]
fn test_passing_on_rerun_is_suspected_flaky() {
    let fails_once = "if [ -e ran ]; then echo '1..2'; echo 'ok 1 - steady'; echo 'ok 2 - shaky'; else touch ran; \
                      echo '1..2'; echo 'ok 1 - steady'; echo 'not ok 2 - shaky'; exit 1; fi";
    let folder = GateTestDir::new();
    let gate = sh("tests", CheckKind::Tests, fails_once);
    let report = run_silent(std::slice::from_ref(&gate), &folder, &GateOptions::default());
    assert_eq!(report.verdict, GateVerdict::Passed);
    assert_eq!(report.flaky_suspected, ["shaky"]);
    assert!(report.failing.is_empty());
    assert_eq!(report.warnings, ["tests: failed, then passed on rerun; suspected flaky tests: shaky"]);
    assert_eq!(report.gates[0].attempts, 2);
    let folder = GateTestDir::new();
    let strict = GateOptions { flaky: FlakyPolicy::Fail, ..GateOptions::default() };
    let report = run_silent(std::slice::from_ref(&gate), &folder, &strict);
    assert_eq!((report.verdict, report.failing.clone()), (GateVerdict::Failed, vec!["shaky".to_owned()]));
    assert_eq!(report.flaky_suspected, ["shaky"]);
    let folder = GateTestDir::new();
    let report = run_silent(&[gate], &folder, &without_rerun());
    assert_eq!((report.verdict, report.gates[0].attempts), (GateVerdict::Failed, 1));
}

#[test]
fn test_failing_in_only_one_run_is_listed_separately() {
    let folder = GateTestDir::new();
    let script = "echo '1..2'; echo 'not ok 1 - broken'; \
                  if [ -e ran ]; then echo 'ok 2 - shaky'; else touch ran; echo 'not ok 2 - shaky'; fi; exit 1";
    let report = run_silent(&[sh("tests", CheckKind::Tests, script)], &folder, &GateOptions::default());
    assert_eq!(
        (report.failing.clone(), report.flaky_suspected.clone()),
        (vec!["broken".to_owned()], vec!["shaky".to_owned()])
    );
    assert_eq!(report.verdict, GateVerdict::Failed);
}

#[test]
fn build_error_in_tests_is_not_rerun() {
    let folder = GateTestDir::new();
    let script = "echo x >> runs; echo 'error[E0425]: not found'; echo ' --> src/lib.rs:3:1'; exit 101";
    let report = run_silent(&[sh("tests", CheckKind::Tests, script)], &folder, &GateOptions::default());
    assert_eq!(fs::read_to_string(folder.path().join("runs")).unwrap(), "x\n");
    assert!(report.failing.is_empty() && report.progress().is_none());
}

#[test]
fn gates_sharing_a_check_are_merged() {
    let folder = GateTestDir::new();
    fs::create_dir(folder.path().join("api")).unwrap();
    let mut api = sh(
        "api tests",
        CheckKind::Tests,
        "echo '--- FAIL: TestA (0.00s)'; echo '    a_test.go:3: no'; exit 1",
    );
    api.dir = "api".into();
    let gates = [
        sh("web tests", CheckKind::Tests, "echo fine"),
        api,
        QualityGate::skipped("doctests", CheckKind::Tests, "none"),
    ];
    let report = run_silent(&gates, &folder, &without_rerun());
    assert_eq!(report.checks.len(), 1);
    assert_eq!(report.checks[0].name, "tests");
    assert!(!report.checks[0].passed && !report.checks[0].skipped);
    assert_eq!(report.findings[0].file.as_deref(), Some("api/a_test.go"), "named from the workspace");
    assert!(report.checks[0].output.contains("== web tests ==\nfine\n"));
}

#[test]
fn output_lines_are_streamed_except_machine_output() {
    let folder = GateTestDir::new();
    let script = "echo one; printf 'two'; echo >&2 err; echo '{\"reason\":\"x\"}'; printf 'last'";
    let mut heard = Vec::new();
    let gates = [sh("docs", CheckKind::Custom, script)];
    let mut on_line = |line: GateLine<'_>| heard.push((line.gate.to_owned(), line.text.to_owned()));
    run_gates(&gates, folder.path(), &without_rerun(), &CancelToken::new(), &mut on_line).expect("a report");
    heard.sort();
    let texts: Vec<&str> = heard.iter().map(|(_, text)| text.as_str()).collect();
    assert_eq!(texts, ["err", "last", "one", "two{\"reason\":\"x\"}"]);
    assert!(heard.iter().all(|(gate, _)| gate == "docs"));
}

#[test]
fn invalid_gate_sets_are_rejected_before_running() {
    let folder = GateTestDir::new();
    let gates = [sh("a", CheckKind::Custom, "touch ran"), sh("b", CheckKind::Custom, "true").needs("c")];
    let error = run_gates(&gates, folder.path(), &without_rerun(), &CancelToken::new(), &mut |_| {})
        .expect_err("refused");
    assert_eq!(error.code, "gate_unknown_need");
    assert!(!folder.path().join("ran").exists());
}

/// Submits a report to the governor.
fn submit_report(sessions: &mut Sessions, report: &GateReport) -> Decision {
    let event = Event::new("s", report.event(Some("DONE")).expect("an event"));
    // Serialized and parsed, as the store does.
    sessions.step(&Event::from_json(&event.to_json().to_string()).expect("an event")).expect("a decision")
}

#[test]
fn third_identical_failure_halts_even_if_lines_move() {
    let folder = GateTestDir::new();
    let mut sessions = Sessions::new(PolicySource::preset(Preset::Agent));
    let mut answers = Vec::new();
    let mut prints = Vec::new();
    for turn in 1..=3 {
        let script = format!(
            "echo '--- FAIL: TestAdd (0.0{turn}s)'; echo '    calc_test.go:{turn}: got 4, want 5'; exit 1"
        );
        let report = run_silent(&[sh("tests", CheckKind::Tests, &script)], &folder, &without_rerun());
        prints.push(report.fingerprint.expect("a fingerprint"));
        let decision = submit_report(&mut sessions, &report);
        answers.push((decision.decision, decision.trips.first().map(|trip| trip.reason.clone())));
    }
    let reason = |text: &str| Some(text.to_owned());
    assert_eq!(
        answers,
        [
            (Answer::Block, reason("quality_gate_blocked")),
            (Answer::Block, reason("quality_gate_blocked")),
            (Answer::Halt, reason("repeated_error")),
        ]
    );
    assert!(prints.windows(2).all(|pair| pair[0] == pair[1]));
}

#[test]
fn different_failures_do_not_halt() {
    let folder = GateTestDir::new();
    let mut sessions = Sessions::new(PolicySource::preset(Preset::Agent));
    for turn in 1..=4 {
        let script = format!(
            "echo '--- FAIL: TestAdd (0.00s)'; echo '    calc_test.go:9: got {turn}, want 5'; exit 1"
        );
        let report = run_silent(&[sh("tests", CheckKind::Tests, &script)], &folder, &without_rerun());
        assert_eq!(submit_report(&mut sessions, &report).decision, Answer::Block, "turn {turn}");
    }
}

#[test]
fn failing_tests_are_reported_as_progress() {
    let folder = GateTestDir::new();
    let script = "echo 1..3; echo 'not ok 1 - b'; echo 'not ok 2 - a'; echo 'ok 3 - c'; exit 1";
    let report = run_silent(&[sh("tests", CheckKind::Tests, script)], &folder, &without_rerun());
    let event = Event::new("s", report.progress().expect("all tests ran")).to_json();
    assert_eq!(event["signal"], "tests");
    assert_eq!(event["failing"], serde_json::json!(["a", "b"]));
}

#[test]
fn non_test_failure_reports_no_progress() {
    let folder = GateTestDir::new();
    let script =
        "printf '<testsuites name=\"vitest tests\"/>' > {results}; echo 'Error: no database' >&2; exit 1";
    let gate = sh("tests", CheckKind::Tests, script).format(ResultsFormat::Junit).results_in("junit.xml");
    let report = run_silent(&[gate], &folder, &without_rerun());
    assert_eq!(report.verdict, GateVerdict::Failed);
    assert_eq!(report.findings[0].message, "Error: no database");
    assert!(report.failing.is_empty() && report.progress().is_none());
}

#[test]
fn tool_level_retries_are_flaky_and_follow_policy() {
    let case = "<testcase name=\"shaky\"><flakyFailure message=\"x\"/></testcase>";
    let script = format!("printf '%s' '<testsuites>{case}</testsuites>' > {{results}}");
    let gate = sh("tests", CheckKind::Tests, &script).format(ResultsFormat::Junit).results_in("junit.xml");
    let folder = GateTestDir::new();
    let report = run_silent(std::slice::from_ref(&gate), &folder, &GateOptions::default());
    assert_eq!(
        (report.verdict, report.flaky_suspected.clone()),
        (GateVerdict::Passed, vec!["shaky".to_owned()])
    );
    assert_eq!(report.warnings, ["tests: passed only when retried: shaky"]);
    let strict = GateOptions { flaky: FlakyPolicy::Fail, ..GateOptions::default() };
    let report = run_silent(&[gate], &folder, &strict);
    assert_eq!((report.verdict, report.failing.clone()), (GateVerdict::Failed, vec!["shaky".to_owned()]));
}

/// Report of a checklist gate for this text.
fn checklist_report(text: &str, may_skip: bool) -> GateReport {
    let folder = GateTestDir::new();
    fs::write(folder.path().join("TODO.md"), text).expect("a file");
    let mut gate = QualityGate::new("checklist", CheckKind::Custom, &[]);
    (gate.checklist, gate.may_skip) = (Some("TODO.md".into()), may_skip);
    run_silent(&[gate], &folder, &without_rerun())
}

#[test]
fn open_checklist_items_fail() {
    let report = checklist_report(
        "# To do\n\n- [x] parser\n* [ ] docs updated\n- [~] benchmark: no hardware here\n- [?] text\n",
        false,
    );
    assert_eq!(report.verdict, GateVerdict::Failed);
    let failed: Vec<&str> =
        report.checks.iter().filter(|c| !c.passed && !c.skipped).map(|c| &*c.name).collect();
    assert_eq!(
        failed,
        ["docs updated", "benchmark: no hardware here"],
        "items can be waived only with `may_skip`"
    );
    assert_eq!(report.checks.iter().filter(|check| check.passed).count(), 1);
}

#[test]
fn skippable_item_with_reason_is_skipped() {
    let report = checklist_report("- [x] parser\n- [~] benchmark: no hardware here\n", true);
    assert_eq!(report.verdict, GateVerdict::Passed);
    let waived = report.checks.iter().find(|check| check.name == "benchmark").expect("a check");
    assert!(waived.skipped && !waived.passed);
    assert_eq!(waived.skip_reason.as_deref(), Some("waived: no hardware here"));
    assert_eq!(
        checklist_report("- [x] parser\n- [~] benchmark\n", true).verdict,
        GateVerdict::Failed,
        "without a reason"
    );
    let nothing_done = checklist_report("- [~] parser: too hard\n- [~] benchmark: no hardware here\n", true);
    assert_eq!(nothing_done.verdict, GateVerdict::Unverified, "skipped is not passed");
    assert_eq!(checklist_report("nothing\n", true).verdict, GateVerdict::Unverified);
}

#[test]
fn third_identical_open_item_is_thrashing() {
    let report = checklist_report("- [x] parser\n- [ ] docs updated\n", true);
    let mut sessions = Sessions::new(PolicySource::preset(Preset::Workflow));
    let mut last = Decision::default();
    for _ in 0..3 {
        last = sessions.step(&Event::new("s", report.event(None).expect("an event"))).expect("a decision");
    }
    assert_eq!(last.decision, Answer::Halt);
    assert_eq!(last.trips.first().map(|trip| &*trip.reason), Some("loop_thrashing"));
}

#[test]
fn missing_checklist_fails() {
    let folder = GateTestDir::new();
    let mut gate = QualityGate::new("checklist", CheckKind::Custom, &[]);
    gate.checklist = Some("TODO.md".into());
    assert_eq!(run_silent(&[gate], &folder, &without_rerun()).verdict, GateVerdict::Failed);
}

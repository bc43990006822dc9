//! Gates as they are run: real commands, real files, and the governor at the end.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test may stop at what it cannot have"
)]

use flyball::backpressure::{BlockingEvent, TASK_COMPLETE};
use flyball::policy::Gate as Limits;
use flyball::{Decision, Event, PolicySource, Preset, Sessions, Verdict as Answer};
use flyball_run::gates::{
    CheckKind, Flaky, Format, Gate, Line, Options, Outcome, Report, Results, Verdict, run,
};
use flyball_run::process::Cancel;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

static NEXT: AtomicU32 = AtomicU32::new(0);

/// A folder of a test's own.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("flyball-gates-test-{}-{number}", std::process::id()));
        fs::create_dir(&path).expect("a folder");
        Folder(path)
    }

    fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn sh(name: &str, kind: CheckKind, script: &str) -> Gate {
    Gate::new(name, kind, &["sh", "-c", script])
}

fn quietly(gates: &[Gate], folder: &Folder, options: &Options) -> Report {
    run(gates, folder.path(), options, &Cancel::new(), &mut |_| {}).expect("a report")
}

fn once() -> Options {
    Options { rerun: false, ..Options::default() }
}

fn outcome<'a>(report: &'a Report, name: &str) -> &'a Outcome {
    &report.gates.iter().find(|gate| gate.name == name).expect("a gate").outcome
}

fn skipped(reason: &str) -> Outcome {
    Outcome::Skipped { reason: reason.to_owned() }
}

#[test]
fn gates_that_pass_make_work_that_passes() {
    let folder = Folder::new();
    let gates = [sh("build", CheckKind::Build, "echo built"), sh("docs", CheckKind::Custom, "true")];
    let report = quietly(&gates, &folder, &once());
    assert_eq!(report.verdict, Verdict::Passed);
    assert_eq!(report.fingerprint, None);
    assert!(report.checks.iter().all(|check| check.passed && !check.skipped));
    assert_eq!(report.checks[0].output, "built\n");
    assert!(BlockingEvent::of(&report.checks, TASK_COMPLETE, &Limits::default()).is_none());
}

#[test]
fn a_gate_whose_need_failed_is_skipped_and_names_the_root_cause() {
    let folder = Folder::new();
    let gates = [
        sh("deploy", CheckKind::Custom, "touch deployed").needs("tests"),
        sh("tests", CheckKind::Tests, "touch tested").needs("build"),
        sh("build", CheckKind::Build, "echo 'main.c:3:1: error: no such thing' >&2; exit 2"),
        sh("lint", CheckKind::Lint, "true"),
    ];
    let report = quietly(&gates, &folder, &once());
    assert_eq!(*outcome(&report, "tests"), skipped("skipped: build failed"));
    assert_eq!(*outcome(&report, "deploy"), skipped("skipped: build failed"));
    assert_eq!(*outcome(&report, "lint"), Outcome::Passed, "it needs nothing");
    assert!(!folder.path().join("tested").exists() && !folder.path().join("deployed").exists());
    assert_eq!(report.verdict, Verdict::Failed);
    assert_eq!(report.checks[0].name, "build", "the root cause comes first");
    assert_eq!(report.findings[0].to_string(), "main.c:3: no such thing");
    // The tests did not run: no failing test is not progress.
    assert!(report.failing.is_empty() && report.progress().is_none());
    let tests = report.checks.iter().find(|check| check.name == "tests").unwrap();
    assert!(tests.skipped && !tests.passed);
    assert_eq!(tests.skip_reason.as_deref(), Some("skipped: build failed"));
}

#[test]
fn all_gates_run_unless_the_first_failure_is_to_skip_the_rest() {
    let folder = Folder::new();
    let gates = [sh("a", CheckKind::Custom, "exit 1"), sh("b", CheckKind::Custom, "true")];
    assert_eq!(*outcome(&quietly(&gates, &folder, &once()), "b"), Outcome::Passed);
    let cascade = Options { cascade: true, ..once() };
    assert_eq!(*outcome(&quietly(&gates, &folder, &cascade), "b"), skipped("skipped: a failed"));
}

#[test]
fn nothing_that_ran_is_unverified_and_a_required_gate_must_run() {
    let folder = Folder::new();
    let off = Gate::skipped("tests", CheckKind::Tests, "pytest is not installed");
    let report = quietly(std::slice::from_ref(&off), &folder, &once());
    assert_eq!(report.verdict, Verdict::Unverified);
    assert_eq!(report.checks[0].skip_reason.as_deref(), Some("pytest is not installed"));
    assert_eq!(quietly(&[], &folder, &once()).verdict, Verdict::Unverified);
    let required = Gate { required: true, ..off };
    let report = quietly(&[required, sh("lint", CheckKind::Lint, "true")], &folder, &once());
    assert_eq!(report.verdict, Verdict::Failed);
    assert_eq!(report.findings[0].message, "it is required, but did not run: pytest is not installed");
}

#[test]
fn only_a_gate_that_may_be_left_out_is_left_out_on_request() {
    let folder = Folder::new();
    let lint = Gate { may_skip: true, ..sh("lint", CheckKind::Lint, "exit 1") };
    let gates = [sh("unit", CheckKind::Tests, "exit 1"), lint];
    let asked = Options { asked_to_skip: vec!["tests".to_owned(), "lint".to_owned()], ..once() };
    let report = quietly(&gates, &folder, &asked);
    assert_eq!(*outcome(&report, "lint"), skipped("left out on request"));
    assert_eq!(*outcome(&report, "unit"), Outcome::Failed);
    assert_eq!(report.warnings, ["unit: 'unit' may not be left out, so it was run"]);
}

#[test]
fn a_gate_that_hangs_is_ended_at_its_deadline() {
    let folder = Folder::new();
    let mut hangs = sh("tests", CheckKind::Tests, "echo '--- FAIL: TestA (0.00s)'; sleep 600");
    hangs.deadline = Duration::from_millis(300);
    let begun = Instant::now();
    let report = quietly(&[hangs, sh("lint", CheckKind::Lint, "true")], &folder, &Options::default());
    assert!(begun.elapsed() < Duration::from_secs(120));
    assert_eq!(*outcome(&report, "tests"), Outcome::Failed);
    assert_eq!(report.findings[0].message, "it ran longer than its deadline of 300ms");
    assert_eq!(report.failing, ["TestA"], "what it said before is not lost");
    assert_eq!(report.gates[0].attempts, 1, "a hanging gate is not run again");
    assert_eq!(*outcome(&report, "lint"), Outcome::Passed);
}

#[test]
fn a_cancelled_run_is_unverified_and_tells_the_governor_nothing() {
    let folder = Folder::new();
    let cancel = Cancel::new();
    let gates = [
        sh("build", CheckKind::Build, "true"),
        sh("tests", CheckKind::Tests, "echo begun; sleep 600"),
        sh("lint", CheckKind::Lint, "true"),
    ];
    let stop = cancel.clone();
    let begun = Instant::now();
    let mut on_line = |line: Line<'_>| {
        if line.text == "begun" {
            stop.cancel();
        }
    };
    let report = run(&gates, folder.path(), &Options::default(), &cancel, &mut on_line).expect("a report");
    assert!(begun.elapsed() < Duration::from_secs(120));
    assert_eq!(*outcome(&report, "build"), Outcome::Passed);
    assert_eq!(*outcome(&report, "tests"), skipped("cancelled before it ended"));
    assert_eq!(*outcome(&report, "lint"), skipped("cancelled before it began"));
    assert_eq!(report.verdict, Verdict::Unverified);
    assert!(report.event(None).is_none() && report.is_cancelled());
}

const JUNIT: &str = r#"<testsuites><testsuite name="s"><testcase name="one"/>
<testcase name="two"><failure message="left: 4">at</failure></testcase></testsuite></testsuites>"#;

#[test]
fn results_come_from_a_file_of_the_run_that_is_gone_afterwards() {
    let folder = Folder::new();
    let script =
        format!("printf '%s' '{JUNIT}' > {{results}}; printf '%s' {{results}} > where; echo words; exit 1");
    let gate = sh("tests", CheckKind::Tests, &script).format(Format::Junit).results_in("junit.xml");
    let report = quietly(&[gate], &folder, &once());
    assert_eq!(report.failing, ["two"]);
    assert_eq!(report.gates[0].output, "words\n");
    assert!(report.counted);
    let place = PathBuf::from(fs::read_to_string(folder.path().join("where")).unwrap());
    assert!(!place.exists() && !place.parent().unwrap().exists(), "{}", place.display());
}

#[test]
fn a_results_file_that_lay_there_before_does_not_count() {
    let folder = Folder::new();
    let passing = JUNIT.replace("<failure message=\"left: 4\">at</failure>", "");
    fs::write(folder.path().join("junit.xml"), &passing).unwrap();
    let mut gate = sh("tests", CheckKind::Tests, "true").format(Format::Junit);
    gate.results = Results::File("junit.xml".into());
    let report = quietly(&[gate.clone()], &folder, &once());
    assert_eq!(report.verdict, Verdict::Failed);
    assert!(
        report.findings[0].message.contains("no results file was written"),
        "{}",
        report.findings[0].message
    );
    gate.argv = ["sh", "-c", &format!("printf '%s\\n' '{passing}' > junit.xml")].map(str::to_owned).to_vec();
    assert_eq!(quietly(&[gate], &folder, &once()).verdict, Verdict::Passed);
}

#[test]
fn output_that_is_too_long_to_be_kept_never_passes_as_results() {
    let folder = Folder::new();
    let tap = "i=1; echo 1..3000; while [ $i -le 3000 ]; do echo \"ok $i - a test\"; i=$((i+1)); done";
    let gate = sh("tests", CheckKind::Tests, tap).format(Format::Tap);
    assert_eq!(quietly(std::slice::from_ref(&gate), &folder, &once()).verdict, Verdict::Passed);
    let short = Options { keep: 4096, ..once() };
    let report = quietly(&[gate], &folder, &short);
    assert_eq!(report.verdict, Verdict::Failed);
    assert!(
        report.findings[0].message.contains("too long to be kept whole"),
        "{}",
        report.findings[0].message
    );
    // Its end is told all the same.
    assert!(report.gates[0].output.contains("ok 3000 - a test"));
}

#[test]
fn a_command_that_cannot_start_has_failed_and_says_why() {
    let folder = Folder::new();
    let report =
        quietly(&[Gate::new("docs", CheckKind::Custom, &["no-such-program-here"])], &folder, &once());
    assert_eq!(report.verdict, Verdict::Failed);
    let said = &report.findings[0].message;
    assert!(said.starts_with("it could not be started: ") && said.contains("program_not_found"), "{said}");
}

#[test]
fn a_test_that_passes_the_second_time_is_suspected_to_be_flaky() {
    let fails_once = "if [ -e ran ]; then echo '1..2'; echo 'ok 1 - steady'; echo 'ok 2 - shaky'; else touch ran; \
                      echo '1..2'; echo 'ok 1 - steady'; echo 'not ok 2 - shaky'; exit 1; fi";
    let folder = Folder::new();
    let gate = sh("tests", CheckKind::Tests, fails_once);
    let report = quietly(std::slice::from_ref(&gate), &folder, &Options::default());
    assert_eq!(report.verdict, Verdict::Passed);
    assert_eq!(report.flaky_suspected, ["shaky"]);
    assert!(report.failing.is_empty());
    assert_eq!(
        report.warnings,
        ["tests: failed and then passed when it was run again; suspected to be flaky: shaky"]
    );
    assert_eq!(report.gates[0].attempts, 2);
    let folder = Folder::new();
    let strict = Options { flaky: Flaky::Fail, ..Options::default() };
    let report = quietly(std::slice::from_ref(&gate), &folder, &strict);
    assert_eq!((report.verdict, report.failing.clone()), (Verdict::Failed, vec!["shaky".to_owned()]));
    assert_eq!(report.flaky_suspected, ["shaky"]);
    let folder = Folder::new();
    let report = quietly(&[gate], &folder, &once());
    assert_eq!((report.verdict, report.gates[0].attempts), (Verdict::Failed, 1));
}

#[test]
fn a_test_that_fails_in_one_of_two_failing_runs_is_named_apart() {
    let folder = Folder::new();
    let script = "echo '1..2'; echo 'not ok 1 - broken'; \
                  if [ -e ran ]; then echo 'ok 2 - shaky'; else touch ran; echo 'not ok 2 - shaky'; fi; exit 1";
    let report = quietly(&[sh("tests", CheckKind::Tests, script)], &folder, &Options::default());
    assert_eq!(
        (report.failing.clone(), report.flaky_suspected.clone()),
        (vec!["broken".to_owned()], vec!["shaky".to_owned()])
    );
    assert_eq!(report.verdict, Verdict::Failed);
}

#[test]
fn a_build_error_in_the_tests_is_not_tried_again() {
    let folder = Folder::new();
    let script = "echo x >> runs; echo 'error[E0425]: not found'; echo ' --> src/lib.rs:3:1'; exit 101";
    let report = quietly(&[sh("tests", CheckKind::Tests, script)], &folder, &Options::default());
    assert_eq!(fs::read_to_string(folder.path().join("runs")).unwrap(), "x\n");
    assert!(report.failing.is_empty() && report.progress().is_none());
}

#[test]
fn gates_that_share_a_check_are_one_check() {
    let folder = Folder::new();
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
        Gate::skipped("doctests", CheckKind::Tests, "none"),
    ];
    let report = quietly(&gates, &folder, &once());
    assert_eq!(report.checks.len(), 1);
    assert_eq!(report.checks[0].name, "tests");
    assert!(!report.checks[0].passed && !report.checks[0].skipped);
    assert_eq!(report.findings[0].file.as_deref(), Some("api/a_test.go"), "named from the workspace");
    assert!(report.checks[0].output.contains("== web tests ==\nfine\n"));
}

#[test]
fn lines_are_told_while_a_gate_runs_but_not_those_for_programs() {
    let folder = Folder::new();
    let script = "echo one; printf 'two'; echo >&2 err; echo '{\"reason\":\"x\"}'; printf 'last'";
    let mut heard = Vec::new();
    let gates = [sh("docs", CheckKind::Custom, script)];
    let mut on_line = |line: Line<'_>| heard.push((line.gate.to_owned(), line.text.to_owned()));
    run(&gates, folder.path(), &once(), &Cancel::new(), &mut on_line).expect("a report");
    heard.sort();
    let texts: Vec<&str> = heard.iter().map(|(_, text)| text.as_str()).collect();
    assert_eq!(texts, ["err", "last", "one", "two{\"reason\":\"x\"}"]);
    assert!(heard.iter().all(|(gate, _)| gate == "docs"));
}

#[test]
fn sets_that_cannot_run_are_refused_before_anything_runs() {
    let folder = Folder::new();
    let gates = [sh("a", CheckKind::Custom, "touch ran"), sh("b", CheckKind::Custom, "true").needs("c")];
    let error = run(&gates, folder.path(), &once(), &Cancel::new(), &mut |_| {}).expect_err("refused");
    assert_eq!(error.code, "gate_unknown_need");
    assert!(!folder.path().join("ran").exists());
}

/// A report as the governor hears of it.
fn told(sessions: &mut Sessions, report: &Report) -> Decision {
    let event = Event::new("s", report.event(Some("DONE")).expect("an event"));
    // As the journal does: written down and read again.
    sessions.step(&Event::from_json(&event.to_json().to_string()).expect("an event")).expect("a decision")
}

#[test]
fn the_same_failure_in_other_lines_halts_at_the_third_time() {
    let folder = Folder::new();
    let mut sessions = Sessions::new(PolicySource::preset(Preset::Agent));
    let mut answers = Vec::new();
    let mut prints = Vec::new();
    for turn in 1..=3 {
        let script = format!(
            "echo '--- FAIL: TestAdd (0.0{turn}s)'; echo '    calc_test.go:{turn}: got 4, want 5'; exit 1"
        );
        let report = quietly(&[sh("tests", CheckKind::Tests, &script)], &folder, &once());
        prints.push(report.fingerprint.expect("a fingerprint"));
        let decision = told(&mut sessions, &report);
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
fn a_new_failure_each_time_is_not_the_same_failure() {
    let folder = Folder::new();
    let mut sessions = Sessions::new(PolicySource::preset(Preset::Agent));
    for turn in 1..=4 {
        let script = format!(
            "echo '--- FAIL: TestAdd (0.00s)'; echo '    calc_test.go:9: got {turn}, want 5'; exit 1"
        );
        let report = quietly(&[sh("tests", CheckKind::Tests, &script)], &folder, &once());
        assert_eq!(told(&mut sessions, &report).decision, Answer::Block, "turn {turn}");
    }
}

#[test]
fn the_failing_tests_are_a_signal_of_progress() {
    let folder = Folder::new();
    let script = "echo 1..3; echo 'not ok 1 - b'; echo 'not ok 2 - a'; echo 'ok 3 - c'; exit 1";
    let report = quietly(&[sh("tests", CheckKind::Tests, script)], &folder, &once());
    let event = Event::new("s", report.progress().expect("all tests ran")).to_json();
    assert_eq!(event["signal"], "tests");
    assert_eq!(event["failing"], serde_json::json!(["a", "b"]));
}

#[test]
fn a_failure_outside_the_tests_is_no_progress() {
    let folder = Folder::new();
    let script =
        "printf '<testsuites name=\"vitest tests\"/>' > {results}; echo 'Error: no database' >&2; exit 1";
    let gate = sh("tests", CheckKind::Tests, script).format(Format::Junit).results_in("junit.xml");
    let report = quietly(&[gate], &folder, &once());
    assert_eq!(report.verdict, Verdict::Failed);
    assert_eq!(report.findings[0].message, "Error: no database");
    assert!(report.failing.is_empty() && report.progress().is_none());
}

#[test]
fn tests_that_the_tool_itself_tried_again_are_told_and_may_fail() {
    let case = "<testcase name=\"shaky\"><flakyFailure message=\"x\"/></testcase>";
    let script = format!("printf '%s' '<testsuites>{case}</testsuites>' > {{results}}");
    let gate = sh("tests", CheckKind::Tests, &script).format(Format::Junit).results_in("junit.xml");
    let folder = Folder::new();
    let report = quietly(std::slice::from_ref(&gate), &folder, &Options::default());
    assert_eq!((report.verdict, report.flaky_suspected.clone()), (Verdict::Passed, vec!["shaky".to_owned()]));
    assert_eq!(report.warnings, ["tests: passed only when they were tried again: shaky"]);
    let strict = Options { flaky: Flaky::Fail, ..Options::default() };
    let report = quietly(&[gate], &folder, &strict);
    assert_eq!((report.verdict, report.failing.clone()), (Verdict::Failed, vec!["shaky".to_owned()]));
}

/// The checks of a checklist gate over this text.
fn ticked(text: &str, may_skip: bool) -> Report {
    let folder = Folder::new();
    fs::write(folder.path().join("TODO.md"), text).expect("a file");
    let mut gate = Gate::new("checklist", CheckKind::Custom, &[]);
    (gate.checklist, gate.may_skip) = (Some("TODO.md".into()), may_skip);
    quietly(&[gate], &folder, &once())
}

#[test]
fn open_items_of_a_checklist_are_checks_that_fail() {
    let report = ticked(
        "# To do\n\n- [x] parser\n* [ ] docs updated\n- [~] benchmark: no hardware here\n- [?] text\n",
        false,
    );
    assert_eq!(report.verdict, Verdict::Failed);
    let failed: Vec<&str> =
        report.checks.iter().filter(|c| !c.passed && !c.skipped).map(|c| &*c.name).collect();
    assert_eq!(
        failed,
        ["docs updated", "benchmark: no hardware here"],
        "nobody waves it through unless they may"
    );
    assert_eq!(report.checks.iter().filter(|check| check.passed).count(), 1);
}

#[test]
fn an_item_is_left_open_knowingly_with_a_reason_where_that_is_allowed() {
    let report = ticked("- [x] parser\n- [~] benchmark: no hardware here\n", true);
    assert_eq!(report.verdict, Verdict::Passed);
    let told = report.checks.iter().find(|check| check.name == "benchmark").expect("a check");
    assert!(told.skipped && !told.passed);
    assert_eq!(told.skip_reason.as_deref(), Some("left open knowingly: no hardware here"));
    assert_eq!(ticked("- [x] parser\n- [~] benchmark\n", true).verdict, Verdict::Failed, "without a reason");
    let nothing_done = ticked("- [~] parser: too hard\n- [~] benchmark: no hardware here\n", true);
    assert_eq!(nothing_done.verdict, Verdict::Unverified, "skipped is not passed");
    assert_eq!(ticked("nothing\n", true).verdict, Verdict::Unverified);
}

#[test]
fn the_same_open_item_three_times_is_thrashing() {
    let report = ticked("- [x] parser\n- [ ] docs updated\n", true);
    let mut sessions = Sessions::new(PolicySource::preset(Preset::Workflow));
    let mut last = Decision::default();
    for _ in 0..3 {
        last = sessions.step(&Event::new("s", report.event(None).expect("an event"))).expect("a decision");
    }
    assert_eq!(last.decision, Answer::Halt);
    assert_eq!(last.trips.first().map(|trip| &*trip.reason), Some("loop_thrashing"));
}

#[test]
fn a_checklist_that_is_not_there_has_not_passed() {
    let folder = Folder::new();
    let mut gate = Gate::new("checklist", CheckKind::Custom, &[]);
    gate.checklist = Some("TODO.md".into());
    assert_eq!(quietly(&[gate], &folder, &once()).verdict, Verdict::Failed);
}

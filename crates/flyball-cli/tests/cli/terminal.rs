//! Interactive terminal output: the live lines of a run, questions, Ctrl-C, and `top`.

use crate::command_harness::{CliStore, test_dir};
use crate::pty::{PtyResult, PtySession};
use std::path::PathBuf;

/// A loop with progress: three items are left, and each round does one.
const PROGRESSING_WORKFLOW: &str = r#"
version: 1
name: rounds
goal: do three things
policy: {budgets: {session: {tokens: 1000}}}
signals: [{name: tests, after: check, command: "cat left"}]
nodes:
  - {name: try, kind: command, run: "printf 'trying %s\n' $FLYBALL_VISIT", next: check}
  - name: check
    kind: command
    run: "left=$((3 - FLYBALL_VISIT)); echo $left > left; echo $left are left; test $left -eq 0"
    on_success: done
    on_failure: try
"#;

fn project_with_workflow(name: &str, workflow: &str) -> PathBuf {
    let folder = test_dir(name);
    std::fs::write(folder.join("workflow.yaml"), workflow).unwrap();
    folder
}

fn run_in_terminal(name: &str, workflow: &str, env: &[(&str, &str)], size: (u16, u16)) -> PtyResult {
    let folder = project_with_workflow(name, workflow);
    PtySession::start(&folder, &["run", "workflow.yaml"], env, size).wait()
}

/// The lines of the live view in a frame, starting with its spinner.
fn live_view_lines(frame: &str) -> Vec<&str> {
    let is_head = |line: &&str| line.starts_with(|c: char| ('\u{2800}'..='\u{28ff}').contains(&c));
    frame.lines().skip_while(|line| !is_head(line)).collect()
}

#[test]
fn live_view_shows_loop_trend_gauges_and_output_and_is_cleared() {
    let ended = run_in_terminal("terminal-live", PROGRESSING_WORKFLOW, &[], (100, 30));
    assert_eq!(ended.code, 0, "{}", ended.text);
    let has = |part: &str| {
        ended.frames.iter().any(|frame| live_view_lines(frame).iter().any(|line| line.contains(part)))
    };
    for part in [
        "try 0 s of 10 min",
        "turn 2/9",
        "Loop 1/8",
        "Loop 2/8",
        "failing tests 2 → 1",
        "active █",
        "of 4 h",
        "tokens ░",
        "│ trying 2",
    ] {
        assert!(has(part), "{part}: {:#?}", ended.frames);
    }
    assert!(live_view_lines(&ended.screen).is_empty(), "the live view is removed: {}", ended.screen);
    assert!(!ended.screen.contains("active █"), "{}", ended.screen);
    for part in ["check → try   Loop 1/8", "failing tests 2 → 1 → 0", "done rounds-1"] {
        assert!(ended.screen.contains(part), "{part}: {}", ended.screen);
    }
    let count = |part: &str| ended.text.matches(part).count();
    assert_eq!(count("\x1b[?2026h"), count("\x1b[?2026l"), "every update is terminated");
    assert_eq!(
        count("\x1b[?25l") + count("\x1b[?1049h"),
        0,
        "the cursor and the screen buffer are not changed"
    );
}

#[test]
fn live_lines_are_never_wider_than_the_terminal() {
    let ended = run_in_terminal("terminal-narrow", PROGRESSING_WORKFLOW, &[], (32, 12));
    assert_eq!(ended.code, 0, "{}", ended.text);
    let blocks: Vec<Vec<&str>> = ended.frames.iter().map(|frame| live_view_lines(frame)).collect();
    assert!(blocks.iter().any(|lines| lines.len() > 1), "{:?}", ended.frames);
    for lines in &blocks {
        assert!(lines.len() < 12, "{lines:?}");
        assert!(lines.iter().all(|line| line.chars().count() < 32), "{lines:?}");
    }
    assert!(live_view_lines(&ended.screen).is_empty(), "{}", ended.screen);
}

#[test]
fn colors_are_omitted_when_disabled() {
    let coloured = run_in_terminal("terminal-colours", PROGRESSING_WORKFLOW, &[], (80, 24));
    let plain = run_in_terminal("terminal-no-colours", PROGRESSING_WORKFLOW, &[("NO_COLOR", "1")], (80, 24));
    assert!(plain.text.contains("\x1b[?2026h"), "the lines are still live");
    for style in ["\x1b[0m", "\x1b[1m", "\x1b[2m", "\x1b[32m"] {
        assert!(coloured.text.contains(style), "{style:?}");
        assert!(!plain.text.contains(style), "{style:?}");
    }
    let dumb = run_in_terminal(
        "terminal-dumb",
        PROGRESSING_WORKFLOW,
        &[("TERM", "dumb"), ("NO_COLOR", "1")],
        (80, 24),
    );
    assert!(!dumb.text.contains('\x1b'), "{}", dumb.text);
    assert!(dumb.text.contains("check → try   Loop 1/8"), "{}", dumb.text);
}

#[test]
fn ctrl_c_ends_the_run_and_leaves_the_terminal_clean() {
    let slow = "{version: 1, name: slow, nodes: [{name: work, kind: command, run: \"echo begun; sleep 600\", next: done}]}";
    let folder = project_with_workflow("terminal-interrupt", slow);
    let mut terminal = PtySession::start(&folder, &["run", "workflow.yaml"], &[], (80, 24));
    terminal.wait_for("│ begun");
    terminal.send_ctrl_c();
    let ended = terminal.wait();
    assert_eq!(ended.code, 1, "{}", ended.text);
    assert!(ended.screen.contains("interrupted slow-1"), "{}", ended.screen);
    assert!(ended.screen.contains("flyball resume slow-1"), "{}", ended.screen);
    assert!(live_view_lines(&ended.screen).is_empty() && ended.settings_restored, "{}", ended.screen);
}

const QUESTION_WORKFLOW: &str =
    "{version: 1, name: asks, nodes: [{name: ask, kind: human, ask: \"Which day?\", next: done}]}";

#[test]
fn a_question_is_answered_at_the_terminal() {
    let folder = project_with_workflow("terminal-question", QUESTION_WORKFLOW);
    let mut terminal = PtySession::start(&folder, &["run", "workflow.yaml"], &[], (80, 24));
    terminal.wait_for("> ");
    terminal.type_line("Friday\n");
    let ended = terminal.wait();
    assert_eq!(ended.code, 0, "{}", ended.text);
    assert_eq!(ended.screen.matches("Which day?").count(), 1, "it is asked once: {}", ended.screen);
    for part in ["> Friday\n", "answer: Friday", "done asks-1"] {
        assert!(ended.screen.contains(part), "{part}: {}", ended.screen);
    }
}

#[test]
fn ctrl_c_at_a_question_leaves_it_pending() {
    let folder = project_with_workflow("terminal-question-interrupt", QUESTION_WORKFLOW);
    let mut terminal = PtySession::start(&folder, &["run", "workflow.yaml"], &[], (80, 24));
    terminal.wait_for("> ");
    terminal.send_ctrl_c();
    let ended = terminal.wait();
    assert_eq!(ended.code, 4, "{}", ended.text);
    assert!(ended.screen.contains("flyball send asks-1 \"…\""), "{}", ended.screen);
}

#[test]
fn top_runs_until_q_or_ctrl_c_and_restores_the_terminal() {
    let store = CliStore::project_store("terminal-top");
    store.event(r#"{"type":"human.stopped","session":"stands","by":"anna","why":"wrong branch"}"#);
    for by_key in [true, false] {
        let mut terminal = PtySession::start(&store.folder, &["top"], &[], (100, 20));
        terminal.wait_for("q or Ctrl-C quits");
        assert!(!terminal.has_default_settings(), "keys are read one by one");
        // Changes appear without a key press.
        let session = if by_key { "came" } else { "later" };
        store.event(&format!(r#"{{"type":"user.message","session":"{session}","text":"hello"}}"#));
        terminal.wait_for(session);
        if by_key {
            terminal.type_line("xq");
        } else {
            terminal.send_ctrl_c();
        }
        let ended = terminal.wait();
        assert_eq!(ended.code, 0, "{}", ended.text);
        assert!(ended.settings_restored, "echo is restored");
        let last = ended.frames.last().expect("a frame");
        let table: Vec<&str> = last.lines().collect();
        assert!(table[0].contains("sessions: "), "{last}");
        assert!(
            table[2].starts_with("stands") && table[2].contains("stopped by anna: wrong branch"),
            "{last}"
        );
        assert!(last.contains(session), "{last}");
    }
}

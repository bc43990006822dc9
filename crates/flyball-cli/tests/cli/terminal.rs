//! What a person at a terminal sees: the live lines of a run, questions, Ctrl-C, and `top`.

use crate::kit::{Store, folder};
use crate::pty::{Ended, Terminal};
use std::path::PathBuf;

/// A loop that gets somewhere: three things are left, and each round does one of them.
const ROUNDS: &str = r#"
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

fn with(name: &str, workflow: &str) -> PathBuf {
    let folder = folder(name);
    std::fs::write(folder.join("workflow.yaml"), workflow).unwrap();
    folder
}

fn run(name: &str, workflow: &str, env: &[(&str, &str)], size: (u16, u16)) -> Ended {
    let folder = with(name, workflow);
    Terminal::start(&folder, &["run", "workflow.yaml"], env, size).end()
}

/// The lines of the live view in a frame: from its turning sign on.
fn block(frame: &str) -> Vec<&str> {
    let is_head = |line: &&str| line.starts_with(|c: char| ('\u{2800}'..='\u{28ff}').contains(&c));
    frame.lines().skip_while(|line| !is_head(line)).collect()
}

#[test]
fn the_live_view_has_loop_trend_gauges_and_output_and_is_gone_at_the_end() {
    let ended = run("terminal-live", ROUNDS, &[], (100, 30));
    assert_eq!(ended.code, 0, "{}", ended.text);
    let has =
        |part: &str| ended.frames.iter().any(|frame| block(frame).iter().any(|line| line.contains(part)));
    for part in [
        "try 0:0",
        "turn 2/9",
        "Loop 1/8",
        "Loop 2/8",
        "failing tests 2 → 1",
        "at work █",
        "of 4:00:00",
        "tokens ░",
        "│ trying 2",
    ] {
        assert!(has(part), "{part}: {:#?}", ended.frames);
    }
    assert!(block(&ended.screen).is_empty(), "nothing of it is left: {}", ended.screen);
    assert!(!ended.screen.contains("at work █"), "{}", ended.screen);
    for part in ["check → try   Loop 1/8", "failing tests 2 → 1 → 0", "done rounds-1"] {
        assert!(ended.screen.contains(part), "{part}: {}", ended.screen);
    }
    let count = |part: &str| ended.text.matches(part).count();
    assert_eq!(count("\x1b[?2026h"), count("\x1b[?2026l"), "every update is ended");
    assert_eq!(count("\x1b[?25l") + count("\x1b[?1049h"), 0, "nothing is switched over");
}

#[test]
fn live_lines_are_never_wider_than_the_terminal() {
    let ended = run("terminal-narrow", ROUNDS, &[], (32, 12));
    assert_eq!(ended.code, 0, "{}", ended.text);
    let blocks: Vec<Vec<&str>> = ended.frames.iter().map(|frame| block(frame)).collect();
    assert!(blocks.iter().any(|lines| lines.len() > 1), "{:?}", ended.frames);
    for lines in &blocks {
        assert!(lines.len() < 12, "{lines:?}");
        assert!(lines.iter().all(|line| line.chars().count() < 32), "{lines:?}");
    }
    assert!(block(&ended.screen).is_empty(), "{}", ended.screen);
}

#[test]
fn colours_are_left_out_where_nobody_wants_them() {
    let coloured = run("terminal-colours", ROUNDS, &[], (80, 24));
    let plain = run("terminal-no-colours", ROUNDS, &[("NO_COLOR", "1")], (80, 24));
    assert!(plain.text.contains("\x1b[?2026h"), "the lines are live all the same");
    for style in ["\x1b[0m", "\x1b[1m", "\x1b[2m", "\x1b[32m"] {
        assert!(coloured.text.contains(style), "{style:?}");
        assert!(!plain.text.contains(style), "{style:?}");
    }
    let dumb = run("terminal-dumb", ROUNDS, &[("TERM", "dumb"), ("NO_COLOR", "1")], (80, 24));
    assert!(!dumb.text.contains('\x1b'), "{}", dumb.text);
    assert!(dumb.text.contains("check → try   Loop 1/8"), "{}", dumb.text);
}

#[test]
fn ctrl_c_ends_the_run_and_leaves_the_terminal_clean() {
    let slow = "{version: 1, name: slow, nodes: [{name: work, kind: command, run: \"echo begun; sleep 600\", next: done}]}";
    let folder = with("terminal-interrupt", slow);
    let mut terminal = Terminal::start(&folder, &["run", "workflow.yaml"], &[], (80, 24));
    terminal.wait_for("│ begun");
    terminal.interrupt();
    let ended = terminal.end();
    assert_eq!(ended.code, 1, "{}", ended.text);
    assert!(ended.screen.contains("interrupted slow-1"), "{}", ended.screen);
    assert!(ended.screen.contains("flyball resume slow-1"), "{}", ended.screen);
    assert!(block(&ended.screen).is_empty() && ended.as_usual, "{}", ended.screen);
}

const ASKS: &str =
    "{version: 1, name: asks, nodes: [{name: ask, kind: human, ask: \"Which day?\", next: done}]}";

#[test]
fn a_question_is_answered_at_the_terminal() {
    let folder = with("terminal-question", ASKS);
    let mut terminal = Terminal::start(&folder, &["run", "workflow.yaml"], &[], (80, 24));
    terminal.wait_for("> ");
    terminal.enter("Friday\n");
    let ended = terminal.end();
    assert_eq!(ended.code, 0, "{}", ended.text);
    assert_eq!(ended.screen.matches("Which day?").count(), 1, "it is put once: {}", ended.screen);
    for part in ["> Friday\n", "answer: Friday", "done asks-1"] {
        assert!(ended.screen.contains(part), "{part}: {}", ended.screen);
    }
}

#[test]
fn ctrl_c_at_a_question_leaves_it_open() {
    let folder = with("terminal-question-interrupt", ASKS);
    let mut terminal = Terminal::start(&folder, &["run", "workflow.yaml"], &[], (80, 24));
    terminal.wait_for("> ");
    terminal.interrupt();
    let ended = terminal.end();
    assert_eq!(ended.code, 4, "{}", ended.text);
    assert!(ended.screen.contains("flyball send asks-1 \"…\""), "{}", ended.screen);
}

#[test]
fn top_is_live_until_q_or_ctrl_c_and_puts_the_terminal_back() {
    let store = Store::own("terminal-top");
    store.event(r#"{"type":"human.stopped","session":"stands","by":"anna","why":"wrong branch"}"#);
    for by_key in [true, false] {
        let mut terminal = Terminal::start(&store.folder, &["top"], &[], (100, 20));
        terminal.wait_for("q or Ctrl-C ends");
        assert!(!terminal.is_as_usual(), "keys come one by one");
        // What changes is seen without a key.
        let session = if by_key { "came" } else { "later" };
        store.event(&format!(r#"{{"type":"user.message","session":"{session}","text":"hello"}}"#));
        terminal.wait_for(session);
        if by_key {
            terminal.enter("xq");
        } else {
            terminal.interrupt();
        }
        let ended = terminal.end();
        assert_eq!(ended.code, 0, "{}", ended.text);
        assert!(ended.as_usual, "the keys are shown again");
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

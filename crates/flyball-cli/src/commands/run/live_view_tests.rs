//! Tests of the live view, with runs built from events.

use super::super::run_state::RunState;
use super::{LiveViewInput, rows};
use crate::live_screen::TerminalSize;
use flyball::{Event, PolicySource, Sessions};
use flyball_runner::engine::RecordedEvent;

/// A policy with limits, so that gauges are shown.
fn source() -> PolicySource {
    let set = ["budgets.session.tokens=1000".to_owned(), "budgets.session.cost_usd=2".to_owned()];
    let layer = flyball::policy::from_set(&set).expect("a policy");
    PolicySource::new(vec![layer], flyball::Preset::Workflow).expect("a policy")
}

/// The state of a run after these events.
fn run_state(lines: &[&str]) -> RunState {
    let (mut governor, mut run_state) = (Sessions::new(source()), RunState::new("r", source()));
    for line in lines {
        let event = Event::from_json(line).unwrap_or_else(|error| panic!("{line}: {error:?}"));
        let decision = governor.step(&event).expect("a decision");
        run_state.push(&RecordedEvent { event, decision });
    }
    run_state
}

fn rendered(run_state: &RunState, now: u64, columns: usize, height: usize) -> Vec<String> {
    let size = TerminalSize { columns, rows: height };
    let clean = |text: &str| text.replace("hunter2", "[redacted]");
    let moment = LiveViewInput { run_state, now, tick: 0, size, stopping: false, redact: &clean };
    rows(&moment).iter().map(|row| row.text()).collect()
}

const START: &str = r#"{"type":"session.started","session":"r","at":0,"workflow":{"nodes":["coder","verifier","done"],"edges":[{"from":"coder","to":"verifier"},{"from":"verifier","to":"coder"},{"from":"verifier","to":"done"}],"signals":["tests"]}}"#;

fn one_round() -> RunState {
    run_state(&[
        START,
        r#"{"type":"turn.started","session":"r","at":0,"node":"coder"}"#,
        r#"{"type":"assistant.message","session":"r","at":500,"node":"coder","text":"mended","usage":{"tokens_in":200,"tokens_out":50,"cost_usd":0.5}}"#,
        r#"{"type":"turn.finished","session":"r","at":1000,"node":"coder","output":"mended"}"#,
        r#"{"type":"transition.requested","session":"r","at":1000,"from":"coder","to":"verifier"}"#,
        r#"{"type":"turn.started","session":"r","at":1000,"node":"verifier"}"#,
        r#"{"type":"gate.checked","session":"r","at":2000,"node":"verifier","checks":[{"name":"tests","passed":false,"output":"2 failed"}]}"#,
        r#"{"type":"turn.finished","session":"r","at":2000,"node":"verifier","output":"2 failed"}"#,
        r#"{"type":"progress","session":"r","at":2000,"node":"verifier","signal":"tests","failing":["a","b"]}"#,
        r#"{"type":"transition.requested","session":"r","at":2000,"from":"verifier","to":"coder"}"#,
        r#"{"type":"turn.started","session":"r","at":3000,"node":"coder"}"#,
    ])
}

#[test]
fn live_view_shows_phase_loop_trend_gauges_decision_and_output() {
    let mut run_state = one_round();
    run_state.push_output("r", "reading src/lib.rs\nthe password is hunter2\nwri");
    run_state.push_output("r", "ting");
    let lines = rendered(&run_state, 10_000, 120, 24);
    assert_eq!(lines[0], "⠋ coder 7 s of 10 min · turn 2/9 · Loop 1/8 · failing tests 2");
    assert_eq!(
        lines[1],
        "  active █░░░░░░░░░ 10 s of 4 h   tokens ██░░░░░░░░ 250 of 1,000   cost ██░░░░░░░░ $0.50 of $2.00"
    );
    assert_eq!(lines[2], "  last decision block at event 7: completion blocked by tests");
    assert_eq!(lines[3..], ["  │ reading src/lib.rs", "  │ the password is [redacted]", "  │ writing"]);
}

#[test]
fn output_is_limited_to_a_few_lines() {
    let mut run_state = one_round();
    run_state.push_output("r", &"line of a long output\n".repeat(10_000));
    run_state.push_output("r", &"x".repeat(100_000));
    let lines = rendered(&run_state, 10_000, 40, 24);
    let output: Vec<&String> = lines.iter().filter(|line| line.starts_with("  │")).collect();
    assert_eq!(output.len(), 4, "{lines:?}");
    assert!(
        output[3].starts_with("  │ …xxx") && output[3].chars().count() < 40,
        "the end of a long line: {}",
        output[3]
    );
}

#[test]
fn short_terminal_keeps_the_header_and_drops_output() {
    let mut run_state = one_round();
    run_state.push_output("r", "1\n2\n3\n4\n5\n");
    for height in [3, 6, 8] {
        let lines = rendered(&run_state, 10_000, 120, height);
        assert!(lines[0].contains("Loop 1/8"), "{lines:?}");
        assert!(lines.len() < height.max(4), "{height}: {lines:?}");
    }
}

#[test]
fn active_branches_are_shown_with_their_names() {
    let child =
        |name: &str| START.replace(r#""session":"r""#, &format!(r#""session":"r/{name}","parent":"r""#));
    let mut run_state = run_state(&[
        START,
        &child("left.1"),
        &child("right.1"),
        r#"{"type":"turn.started","session":"r/left.1","at":1000,"node":"coder"}"#,
        r#"{"type":"turn.started","session":"r/right.1","at":2000,"node":"verifier"}"#,
    ]);
    run_state.push_output("r/left.1", "from the left\n");
    run_state.push_output("r/right.1", "from the right\n");
    let lines = rendered(&run_state, 5_000, 120, 24);
    assert!(lines[0].contains("[left.1] coder 4 s"), "{lines:?}");
    assert!(lines[1].contains("[right.1] verifier 3 s"), "{lines:?}");
    for part in ["  │ [left.1] from the left", "  │ [right.1] from the right"] {
        assert!(lines.iter().any(|line| line == part), "{part}: {lines:?}");
    }
}

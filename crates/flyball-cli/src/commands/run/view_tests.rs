//! The live lines of runs that are put together from their events.

use super::super::so_far::SoFar;
use super::{Moment, rows};
use crate::screen::Size;
use flyball::{Event, PolicySource, Sessions};
use flyball_run::engine::Past;

/// A policy with limits, so that there is something to show.
fn source() -> PolicySource {
    let set = ["budgets.session.tokens=1000".to_owned(), "budgets.session.cost_usd=2".to_owned()];
    let layer = flyball::policy::from_set(&set).expect("a policy");
    PolicySource::new(vec![layer], flyball::Preset::Workflow).expect("a policy")
}

/// A run so far, from its events.
fn run(lines: &[&str]) -> SoFar {
    let (mut governor, mut so_far) = (Sessions::new(source()), SoFar::new("r", source()));
    for line in lines {
        let event = Event::from_json(line).unwrap_or_else(|error| panic!("{line}: {error:?}"));
        let decision = governor.step(&event).expect("a decision");
        so_far.take(&Past { event, decision });
    }
    so_far
}

fn shown(so_far: &SoFar, now: u64, columns: usize, height: usize) -> Vec<String> {
    let size = Size { columns, rows: height };
    let clean = |text: &str| text.replace("hunter2", "[redacted]");
    let moment = Moment { so_far, now, tick: 0, size, stopping: false, clean: &clean };
    rows(&moment).iter().map(|row| row.text()).collect()
}

const START: &str = r#"{"type":"session.started","session":"r","at":0,"workflow":{"nodes":["coder","verifier","done"],"edges":[{"from":"coder","to":"verifier"},{"from":"verifier","to":"coder"},{"from":"verifier","to":"done"}],"signals":["tests"]}}"#;

fn once_round() -> SoFar {
    run(&[
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
fn the_view_has_phase_loop_trend_gauges_decision_and_output() {
    let mut so_far = once_round();
    so_far.printed("r", "reading src/lib.rs\nthe password is hunter2\nwri");
    so_far.printed("r", "ting");
    let lines = shown(&so_far, 10_000, 120, 24);
    assert_eq!(lines[0], "⠋ coder 0:07 of 10:00 · turn 2/9 · Loop 1/8 · failing tests 2");
    assert_eq!(
        lines[1],
        "  at work █░░░░░░░░░ 0:10 of 4:00:00   tokens ██░░░░░░░░ 250 of 1000   cost ██░░░░░░░░ $0.5000 of $2.0000"
    );
    assert_eq!(lines[2], "  last decision block at event 7: completion blocked by tests");
    assert_eq!(lines[3..], ["  │ reading src/lib.rs", "  │ the password is [redacted]", "  │ writing"]);
}

#[test]
fn output_never_takes_more_than_its_few_lines() {
    let mut so_far = once_round();
    so_far.printed("r", &"line of a long output\n".repeat(10_000));
    so_far.printed("r", &"x".repeat(100_000));
    let lines = shown(&so_far, 10_000, 40, 24);
    let output: Vec<&String> = lines.iter().filter(|line| line.starts_with("  │")).collect();
    assert_eq!(output.len(), 4, "{lines:?}");
    assert!(
        output[3].starts_with("  │ …xxx") && output[3].chars().count() < 40,
        "the end of a long line: {}",
        output[3]
    );
}

#[test]
fn a_low_terminal_keeps_the_head_and_gives_up_the_output() {
    let mut so_far = once_round();
    so_far.printed("r", "1\n2\n3\n4\n5\n");
    for height in [3, 6, 8] {
        let lines = shown(&so_far, 10_000, 120, height);
        assert!(lines[0].contains("Loop 1/8"), "{lines:?}");
        assert!(lines.len() < height.max(4), "{height}: {lines:?}");
    }
}

#[test]
fn branches_at_work_are_shown_side_by_side_with_their_names() {
    let child =
        |name: &str| START.replace(r#""session":"r""#, &format!(r#""session":"r/{name}","parent":"r""#));
    let mut so_far = run(&[
        START,
        &child("left.1"),
        &child("right.1"),
        r#"{"type":"turn.started","session":"r/left.1","at":1000,"node":"coder"}"#,
        r#"{"type":"turn.started","session":"r/right.1","at":2000,"node":"verifier"}"#,
    ]);
    so_far.printed("r/left.1", "from the left\n");
    so_far.printed("r/right.1", "from the right\n");
    let lines = shown(&so_far, 5_000, 120, 24);
    assert!(lines[0].contains("[left.1] coder 0:04"), "{lines:?}");
    assert!(lines[1].contains("[right.1] verifier 0:03"), "{lines:?}");
    for part in ["  │ [left.1] from the left", "  │ [right.1] from the right"] {
        assert!(lines.iter().any(|line| line == part), "{part}: {lines:?}");
    }
}

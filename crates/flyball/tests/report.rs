//! The session at a glance: what a person sees of it besides its decisions.

#![allow(clippy::unwrap_used, reason = "in a test that is how a failure is told")]

#[path = "guards/kit.rs"]
mod kit;

use flyball::{Ending, Report, Sessions, State, ToolUse, ending};
use kit::{History, Run, failed, ok, only};
use serde_json::json;

fn report(run: &Run) -> Report {
    let session = run.sessions.get("s1").unwrap();
    session.state().report(session.policy())
}

fn ls() -> serde_json::Value {
    json!({"command": "ls"})
}

/// The report of a session that was stored and read back.
fn reopened(run: &Run) -> Report {
    let session = run.sessions.get("s1").unwrap();
    let bytes = session.state().encode().unwrap();
    State::decode(&bytes).unwrap().report(session.policy())
}

#[test]
fn each_tool_has_its_totals_and_neither_a_release_nor_a_person_clears_them() {
    let work = History::new()
        .times(7, |history, _| history.call("bash", ls(), ok("a b c")))
        .call("read_file", json!({"path": "x"}), failed("no such file"))
        .human("and now?")
        .release("repetition", "reset")
        .call("bash", json!({"command": "pwd"}), ok("/"))
        .event(
            "tool.finished",
            json!({"call": "late", "tool": "fetch", "args": {}, "ok": false, "error": "x"}),
        );
    let run = work.run();
    let report = report(&run);
    let tools: Vec<(&str, ToolUse)> =
        report.tools.iter().map(|(name, used)| (name.as_str(), *used)).collect();
    assert_eq!(
        tools,
        [
            ("bash", ToolUse { calls: 6, failed: 0, refused: 2 }),
            ("fetch", ToolUse { calls: 1, failed: 1, refused: 0 }),
            ("read_file", ToolUse { calls: 1, failed: 1, refused: 0 }),
        ]
    );
    assert_eq!(reopened(&run), report, "the totals survive a restart");
}

#[test]
fn a_request_that_is_delivered_twice_is_counted_once_and_refusals_of_a_halt_are_refusals() {
    let ask = json!({"type": "tool.requested", "session": "s1", "id": "e1", "call": "c", "tool": "bash", "args": {}});
    let mut run = History::new().run();
    for _ in 0..3 {
        run.step(&ask);
    }
    assert_eq!(report(&run).tools["bash"], ToolUse { calls: 1, failed: 0, refused: 0 });
    let run = History::new().event("human.stopped", json!({"by": "ana"})).ask("bash", ls()).run();
    assert_eq!(report(&run).tools["bash"], ToolUse { calls: 0, failed: 0, refused: 1 });
}

#[test]
fn very_many_tools_are_counted_together() {
    let most = flyball::limits::TOOLS;
    let name = |n: usize| format!("tool_{}", "x".repeat(n % 40 + 1));
    let run = History::new().times(most + 5, |history, n| history.ask(&name(n), json!({"n": n}))).run();
    let report = report(&run);
    assert_eq!(report.tools.len(), most + 1);
    assert_eq!(report.tools["(others)"].calls, 5);
    assert_eq!(report.tools.values().map(|used| used.calls).sum::<u64>(), most as u64 + 5);
}

#[test]
fn every_report_tells_the_way_and_why_it_stands_still() {
    let run = History::under(only("cycle", json!({}))).walk("fix>test>fix>test>fix>test>fix").run();
    let report = report(&run);
    assert_eq!(report.trail, ["fix", "test", "fix", "test", "fix", "test"], "the refused step was not taken");
    assert_eq!((report.reason.as_deref(), report.ending), (Some("cycle_detected"), Some(Ending::Exhaustion)));
    assert_eq!(report.halt_reason, None, "blocked, not halted");
    assert_eq!(reopened(&run), report);
}

/// Each of the coarse reasons of a halt, with its fine reason and the kind of end.
#[test]
fn a_halt_has_a_fine_reason_a_coarse_one_and_a_kind_of_end() {
    let turns = json!({"preset": "off", "budgets": {"session": {"turns": 1}}});
    for (history, reason, coarse, kind) in [
        (History::under(turns).begins("a").begins("a"), "max_turns", "budget_exceeded", Ending::Exhaustion),
        (History::new().diff("a").diff("a"), "stalled", "stalled", Ending::Exhaustion),
        (
            History::new().diff("a").diff("b").diff("a").diff("b"),
            "oscillating",
            "oscillating",
            Ending::Exhaustion,
        ),
        (
            History::new().times(3, |history, _| history.invalid("x")),
            "validation_failure",
            "repeated_error",
            Ending::Exhaustion,
        ),
        (History::new().event("human.stopped", json!({})), "user_stop", "user_stop", Ending::External),
    ] {
        let report = report(&history.run());
        assert_eq!(report.reason.as_deref(), Some(reason));
        assert_eq!(report.halt_reason.map(flyball::HaltReason::as_str), Some(coarse), "{reason}");
        assert_eq!((report.ending, ending(reason)), (Some(kind), Some(kind)), "{reason}");
    }
    let running = report(&History::new().human("hello").run());
    assert_eq!((running.reason, running.ending, running.halt_reason), (None, None, None));
}

#[test]
fn a_guard_that_is_switched_off_is_seen() {
    let off = |policy: serde_json::Value| report(&History::under(policy).run()).off;
    assert_eq!(off(json!("workflow")), [""; 0]);
    assert_eq!(off(json!({"guards": {"monologue": "off", "cycle": "off"}})), ["cycle", "monologue"]);
    assert_eq!(off(json!({"loop_prevention": {"enabled": false}})), ["visits", "transitions"]);
    assert_eq!(off(json!({"budgets": {"mode": "off"}})), ["budget"]);
    let all = off(json!("off"));
    assert_eq!(all.len(), flyball::policy::Guards::NAMES.len(), "{all:?}");
}

/// What is counted stays with its session.
#[test]
fn two_sessions_have_totals_of_their_own() {
    let both = History::new().session("s2").event("session.started", json!({})).ask("bash", ls());
    let run = both.session("s1").ask("grep", ls()).ask("grep", ls()).run();
    let tools = |sessions: &Sessions, name: &str| {
        let session = sessions.get(name).unwrap();
        session.state().report(session.policy()).tools.into_keys().collect::<Vec<_>>()
    };
    assert_eq!(
        (tools(&run.sessions, "s1"), tools(&run.sessions, "s2")),
        (vec!["grep".into()], vec!["bash".into()])
    );
}

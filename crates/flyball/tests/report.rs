//! Tests of the session report.

#![allow(clippy::unwrap_used, reason = "a failed test panics")]

#[path = "guards/harness.rs"]
mod harness;

use flyball::{EndingKind, SessionReport, SessionState, Sessions, ToolUsage, ending_kind};
use harness::{EventHistory, HistoryRun, failed, ok, only_guard};
use serde_json::json;

fn report(run: &HistoryRun) -> SessionReport {
    let session = run.sessions.get("s1").unwrap();
    session.state().report(session.policy())
}

fn ls() -> serde_json::Value {
    json!({"command": "ls"})
}

/// The report of a session that was encoded and decoded.
fn reopened_report(run: &HistoryRun) -> SessionReport {
    let session = run.sessions.get("s1").unwrap();
    let bytes = session.state().encode().unwrap();
    SessionState::decode(&bytes).unwrap().report(session.policy())
}

#[test]
fn tool_totals_survive_releases_and_user_messages() {
    let work = EventHistory::new()
        .times(7, |history, _| history.call("bash", ls(), ok("a b c")))
        .call("read_file", json!({"path": "x"}), failed("no such file"))
        .user_message("and now?")
        .release("repetition", "reset")
        .call("bash", json!({"command": "pwd"}), ok("/"))
        .event(
            "tool.finished",
            json!({"call": "late", "tool": "fetch", "args": {}, "ok": false, "error": "x"}),
        );
    let run = work.run();
    let report = report(&run);
    let tools: Vec<(&str, ToolUsage)> =
        report.tools.iter().map(|(name, used)| (name.as_str(), *used)).collect();
    assert_eq!(
        tools,
        [
            ("bash", ToolUsage { calls: 6, failed: 0, refused: 2 }),
            ("fetch", ToolUsage { calls: 1, failed: 1, refused: 0 }),
            ("read_file", ToolUsage { calls: 1, failed: 1, refused: 0 }),
        ]
    );
    assert_eq!(reopened_report(&run), report, "the totals survive a restart");
}

#[test]
fn redelivered_request_counts_once_and_requests_under_a_halt_count_as_refused() {
    let ask = json!({"type": "tool.requested", "session": "s1", "id": "e1", "call": "c", "tool": "bash", "args": {}});
    let mut run = EventHistory::new().run();
    for _ in 0..3 {
        run.step(&ask);
    }
    assert_eq!(report(&run).tools["bash"], ToolUsage { calls: 1, failed: 0, refused: 0 });
    let run = EventHistory::new().event("human.stopped", json!({"by": "ana"})).request("bash", ls()).run();
    assert_eq!(report(&run).tools["bash"], ToolUsage { calls: 0, failed: 0, refused: 1 });
}

#[test]
fn tools_beyond_the_limit_are_counted_together() {
    let most = flyball::limits::TOOLS;
    let name = |n: usize| format!("tool_{}", "x".repeat(n % 40 + 1));
    let run =
        EventHistory::new().times(most + 5, |history, n| history.request(&name(n), json!({"n": n}))).run();
    let report = report(&run);
    assert_eq!(report.tools.len(), most + 1);
    assert_eq!(report.tools["(others)"].calls, 5);
    assert_eq!(report.tools.values().map(|used| used.calls).sum::<u64>(), most as u64 + 5);
}

#[test]
fn report_shows_trail_and_stop_reason() {
    let run = EventHistory::with_policy(only_guard("cycle", json!({})))
        .transitions_along("fix>test>fix>test>fix>test>fix")
        .run();
    let report = report(&run);
    assert_eq!(report.trail, ["fix", "test", "fix", "test", "fix", "test"], "the blocked step was not taken");
    assert_eq!(
        (report.reason.as_deref(), report.ending),
        (Some("cycle_detected"), Some(EndingKind::Exhaustion))
    );
    assert_eq!(report.halt_reason, None, "blocked, not halted");
    assert_eq!(reopened_report(&run), report);
}

/// Each coarse halt reason, with its specific reason and kind of ending.
#[test]
fn halt_report_has_reason_halt_reason_and_ending() {
    let turns = json!({"preset": "off", "budgets": {"session": {"turns": 1}}});
    for (history, reason, coarse, kind) in [
        (
            EventHistory::with_policy(turns).start_turn("a").start_turn("a"),
            "max_turns",
            "budget_exceeded",
            EndingKind::Exhaustion,
        ),
        (EventHistory::new().diff("a").diff("a"), "stalled", "stalled", EndingKind::Exhaustion),
        (
            EventHistory::new().diff("a").diff("b").diff("a").diff("b"),
            "oscillating",
            "oscillating",
            EndingKind::Exhaustion,
        ),
        (
            EventHistory::new().times(3, |history, _| history.validation_failed("x")),
            "validation_failure",
            "repeated_error",
            EndingKind::Exhaustion,
        ),
        (
            EventHistory::new().event("human.stopped", json!({})),
            "user_stop",
            "user_stop",
            EndingKind::External,
        ),
    ] {
        let report = report(&history.run());
        assert_eq!(report.reason.as_deref(), Some(reason));
        assert_eq!(report.halt_reason.map(flyball::HaltReason::as_str), Some(coarse), "{reason}");
        assert_eq!((report.ending, ending_kind(reason)), (Some(kind), Some(kind)), "{reason}");
    }
    let running = report(&EventHistory::new().user_message("hello").run());
    assert_eq!((running.reason, running.ending, running.halt_reason), (None, None, None));
}

#[test]
fn report_lists_disabled_guards() {
    let off = |policy: serde_json::Value| report(&EventHistory::with_policy(policy).run()).off;
    assert_eq!(off(json!("workflow")), [""; 0]);
    assert_eq!(off(json!({"guards": {"monologue": "off", "cycle": "off"}})), ["cycle", "monologue"]);
    assert_eq!(off(json!({"loop_prevention": {"enabled": false}})), ["visits", "transitions"]);
    assert_eq!(off(json!({"budgets": {"mode": "off"}})), ["budget"]);
    let all = off(json!("off"));
    assert_eq!(all.len(), flyball::policy::GuardPolicies::NAMES.len(), "{all:?}");
}

/// Counts belong to their session.
#[test]
fn tool_totals_are_per_session() {
    let both = EventHistory::new().session("s2").event("session.started", json!({})).request("bash", ls());
    let run = both.session("s1").request("grep", ls()).request("grep", ls()).run();
    let tools = |sessions: &Sessions, name: &str| {
        let session = sessions.get(name).unwrap();
        session.state().report(session.policy()).tools.into_keys().collect::<Vec<_>>()
    };
    assert_eq!(
        (tools(&run.sessions, "s1"), tools(&run.sessions, "s2")),
        (vec!["grep".into()], vec!["bash".into()])
    );
}

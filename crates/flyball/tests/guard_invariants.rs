//! Invariants of all guards: what counts as progress, what counts once, and what never counts.

#[path = "guards/harness.rs"]
mod harness;

use flyball::{Decision, ErrorCode, Event, SessionPhase, Verdict};
use harness::{Block, EventHistory, Halt, check, failed, never, new_sessions, ok, only_guard, quiet, trips};
use serde_json::{Value, json};

fn ls() -> Value {
    json!({"command": "ls"})
}

fn repeat_ls(history: EventHistory, n: usize) -> EventHistory {
    history.times(n, |history, _| history.call("bash", ls(), ok("a b c")))
}

#[test]
fn repetition_with_changing_results_is_not_a_loop() {
    let words =
        ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"];
    let history =
        words.iter().fold(EventHistory::new(), |history, word| history.call("bash", ls(), ok(*word)));
    check("new results", &history, &[harness::silent()]);
    let stamps = EventHistory::new().times(6, |history, i| {
        history.call("bash", ls(), ok(format!("2026-03-0{}T00:00:00Z took 0.{i}s pid 1{i}", i + 1)))
    });
    check("only the clock changes", &stamps, &[trips("repetition", "repetition_loop", Block).at(12)]);
}

#[test]
fn new_write_between_equal_calls_is_progress() {
    let history = EventHistory::new().times(12, |history, i| {
        let text = "x".repeat(i + 1);
        history.call("edit_file", json!({"path": "a.rs", "new": text}), ok("done")).call(
            "run_tests",
            json!({}),
            ok("3 failed"),
        )
    });
    check(
        "edit and test",
        &history,
        &[quiet("repetition"), quiet("cycle"), quiet("recurrence"), never("stall", Block)],
    );
    let same_edit = EventHistory::new().times(12, |history, _| {
        history.call("edit_file", json!({"path": "a.rs", "new": "x"}), ok("done")).call(
            "run_tests",
            json!({}),
            ok("3 failed"),
        )
    });
    check("the same edit again is not a new write", &same_edit, &[trips("cycle", "cycle_detected", Block)]);
}

#[test]
fn same_answer_to_different_user_questions_is_not_a_stall() {
    let answered = |origin: &str| {
        EventHistory::new().times(4, |history, i| {
            history
                .event("user.message", json!({"text": format!("question {i}"), "origin": origin}))
                .event("assistant.message", json!({"text": "Done.", "final": true}))
        })
    };
    check("a person asks", &answered("human"), &[quiet("stall"), quiet("monologue")]);
    check("a schedule asks", &answered("schedule"), &[trips("stall", "stalled", Halt).at(7)]);
}

#[test]
fn only_human_messages_reset_repetition() {
    let between = |origin: &str| {
        let origin = origin.to_owned();
        repeat_ls(
            repeat_ls(EventHistory::new(), 3)
                .event("user.message", json!({"text": "go on", "origin": origin})),
            3,
        )
    };
    check("a person", &between("human"), &[never("repetition", Block)]);
    for origin in ["agent", "schedule"] {
        check(origin, &between(origin), &[trips("repetition", "repetition_loop", Block).at(13).count(6, 5)]);
    }
}

#[test]
fn equal_calls_in_one_round_count_once() {
    let rounds =
        |n: u64| (1..=n).fold(EventHistory::new(), |history, round| repeat_ls(history.round(round), 4));
    check("five responses of four equal calls", &rounds(5), &[never("repetition", Block)]);
    check(
        "the sixth response",
        &rounds(6),
        &[trips("repetition", "repetition_loop", Block).at(42).count(6, 5)],
    );
}

fn with_event_ids(history: EventHistory) -> Vec<Value> {
    let lines = history.run().lines;
    lines
        .iter()
        .enumerate()
        .map(|(at, line)| {
            let mut event: Value = serde_json::from_str(line).unwrap_or_default();
            event["id"] = json!(format!("e{at}"));
            event
        })
        .collect()
}

/// Histories with every kind of decision: allow, warn, block, halt, with effects.
fn varied_histories() -> Vec<(&'static str, EventHistory)> {
    vec![
        ("repetition", repeat_ls(EventHistory::new(), 8)),
        ("stall", EventHistory::new().diff("same").diff("same").request("bash", ls())),
        (
            "visits",
            EventHistory::with_policy(only_guard("visits", json!({"limit": 2})))
                .times(4, |history, _| history.start_turn("a")),
        ),
        (
            "confirmation",
            EventHistory::new().request_confirmation(&["t1"]).answer("hm").answer("yes").answer("yes"),
        ),
        ("retry", EventHistory::new().times(5, |history, _| history.operation_failed("pay"))),
        ("released", EventHistory::new().diff("same").diff("same").release("stall", "grant").diff("same")),
        (
            "budget",
            EventHistory::with_policy(json!({"budgets": {"session": {"turns": 1}}}))
                .start_turn("a")
                .start_turn("a"),
        ),
    ]
}

/// The same id with the same body gives the same decision again and changes nothing.
#[test]
fn redelivered_event_gets_the_same_decision_and_changes_nothing() {
    for (name, history) in varied_histories() {
        let events = with_event_ids(history);
        let mut sessions = new_sessions();
        for event in &events {
            let event = Event::from_json(&event.to_string()).unwrap();
            let first = sessions.step(&event).unwrap();
            let before = sessions.get("s1").unwrap().state().digest().unwrap();
            for _ in 0..3 {
                let again = sessions.step(&event).unwrap();
                assert_eq!(again.to_json(), first.to_json(), "{name}");
            }
            assert_eq!(
                sessions.get("s1").unwrap().state().digest().unwrap(),
                before,
                "{name}: nothing changed"
            );
        }
        // Repeat all of them from the start.
        let before = sessions.get("s1").unwrap().state().digest().unwrap();
        for event in &events {
            sessions.step(&Event::from_json(&event.to_string()).unwrap()).unwrap();
        }
        assert_eq!(sessions.get("s1").unwrap().state().digest().unwrap(), before, "{name}: nothing changed");
    }
}

#[test]
fn redelivery_ignores_time_key_order_and_number_spelling() {
    let mut sessions = new_sessions();
    let first = r#"{"type":"tool.requested","session":"s1","id":"e1","at":1000,"call":"c","tool":"t","args":{"a":1,"b":2}}"#;
    let again = r#"{"args":{"b":2.0,"a":1},"tool":"t","call":"c","at":2000,"id":"e1","session":"s1","type":"tool.requested"}"#;
    let one = sessions.step(&Event::from_json(first).unwrap()).unwrap();
    let two = sessions.step(&Event::from_json(again).unwrap()).unwrap();
    assert_eq!(one, two);
    assert_eq!(sessions.get("s1").unwrap().state().seq(), 1);
}

#[test]
fn same_id_with_another_body_is_a_conflict_and_changes_nothing() {
    let mut run = repeat_ls(EventHistory::new(), 2).run();
    run.step(&json!({"type": "user.message", "session": "s1", "id": "e1", "text": "a"}));
    let before = run.digest("s1");
    for other in [
        json!({"type": "user.message", "session": "s1", "id": "e1", "text": "b"}),
        json!({"type": "compaction", "session": "s1", "id": "e1"}),
        json!({"type": "user.message", "session": "s1", "id": "e1", "text": "a", "extra": 1}),
    ] {
        let error = run.try_step(&other).unwrap_err();
        assert_eq!(error.code, ErrorCode::EventConflict);
        assert_eq!(run.digest("s1"), before);
    }
    let elsewhere = json!({"type": "user.message", "session": "s2", "id": "e1", "text": "b"});
    assert!(run.try_step(&elsewhere).is_ok(), "ids belong to their session");
}

/// Every decision survives a JSON round trip: bindings and stores keep it as JSON.
#[test]
fn decision_round_trips_through_json() {
    for (name, history) in varied_histories() {
        for decision in history.run().decisions {
            let back: Result<Decision, _> = serde_json::from_str(&decision.to_json());
            assert_eq!(
                back.map_err(|error| error.to_string()),
                Ok(decision.clone()),
                "{name}: {}",
                decision.to_json()
            );
        }
    }
}

/// Without event ids: an identical request of a call that is still open.
#[test]
fn redelivered_request_gets_its_stored_decision_and_counts_once() {
    let mut run = repeat_ls(EventHistory::new(), 5).run();
    let ask = json!({"type": "tool.requested", "session": "s1", "id": "e6", "call": "again", "tool": "bash", "args": ls()});
    let refused = run.step(&ask);
    assert_eq!(refused.decision, Verdict::Block);
    let before = run.digest("s1");
    for _ in 0..5 {
        assert_eq!(run.step(&ask).to_json(), refused.to_json());
    }
    assert_eq!(run.digest("s1"), before, "a repeated request does not trip again");
}

#[test]
fn open_call_requested_under_another_event_id_is_a_new_request() {
    for id in [Some("other"), None] {
        let ask = |id: Option<&str>| {
            let mut ask =
                json!({"type": "tool.requested", "session": "s1", "call": "c", "tool": "bash", "args": ls()});
            if let Some(id) = id {
                ask["id"] = json!(id);
            }
            ask
        };
        let mut run = EventHistory::new().run();
        assert_eq!(run.step(&ask(Some("first"))).seq, 2);
        assert_eq!(run.step(&ask(id)).seq, 3, "the agent chooses the call id");
    }
}

#[test]
fn own_block_is_neither_progress_nor_a_new_violation() {
    let blocked = || repeat_ls(EventHistory::new(), 6);
    let plain = blocked().run();
    assert_eq!(plain.last().decision, Verdict::Block);
    for (name, echo) in [
        ("denied", blocked().event("tool.denied", json!({"call": "c6", "by": "guard"}))),
        ("reported as a failure", blocked().finish_call_always(6, failed("blocked by flyball"))),
        ("reported as a success", blocked().finish_call_always(6, ok("blocked by flyball"))),
    ] {
        let run = echo.clone().run();
        assert!(run.last().trips.is_empty(), "{name}: {}", run.last().to_json());
        let run = echo.call("bash", ls(), ok("a b c")).run();
        let decision = run.last();
        assert_eq!(decision.decision, Verdict::Block, "{name}: no progress: {}", decision.to_json());
        assert_eq!(decision.trips[0].count, 6, "{name}: the blocked call was not counted");
    }
    let vetoes = EventHistory::new().times(9, |history, i| {
        history
            .request("bash", json!({"command": "x".repeat(i + 1)}))
            .event("tool.denied", json!({"call": format!("c{}", i + 1), "by": "guard"}))
    });
    check("nine vetoes", &vetoes, &[quiet("denial"), quiet("error_streak")]);
}

#[test]
fn compaction_and_api_retry_do_not_clear_evidence() {
    for name in ["compaction", "api.retry"] {
        let history = repeat_ls(repeat_ls(EventHistory::new(), 3).event(name, json!({})), 4);
        let run = history.run();
        let blocked = run.trips_of("repetition").iter().any(|(_, trip)| trip.severity == Block);
        assert!(blocked, "{name} hid the loop");
    }
    let mixed = EventHistory::new().times(4, |history, _| {
        history
            .call("read_file", json!({"path": "a"}), ok("a"))
            .event("compaction", json!({}))
            .call("read_file", json!({"path": "b"}), ok("b"))
            .event("api.retry", json!({}))
    });
    check("a cycle through both", &mixed, &[trips("cycle", "cycle_detected", Block)]);
}

/// Constant provider retries must not hide the loop: each of these calls ran and was reported.
#[test]
fn api_retry_before_every_call_does_not_hide_a_loop() {
    let history =
        EventHistory::new().times(12, |history, _| repeat_ls(history.event("api.retry", json!({})), 1));
    check("twelve calls, twelve retries", &history, &[trips("repetition", "repetition_loop", Block)]);
}

#[test]
fn call_repeated_by_an_api_retry_counts_once() {
    let history = repeat_ls(EventHistory::new(), 4).request("bash", ls()).event("api.retry", json!({})).call(
        "bash",
        ls(),
        ok("a b c"),
    );
    check("five calls, one of them twice", &history, &[never("repetition", Block)]);
}

#[test]
fn interleaved_sessions_do_not_share_counters() {
    let both = (0..5)
        .fold(EventHistory::new().session("s2").event("session.started", json!({})), |history, _| {
            repeat_ls(repeat_ls(history.session("s1"), 1).session("s2"), 1)
        });
    let run = check("five each", &both, &[never("repetition", Block)]);
    let alone = repeat_ls(EventHistory::new(), 5).run();
    let strip = |decision: &Decision| (decision.seq, decision.decision, decision.trips.len());
    for name in ["s1", "s2"] {
        let mine: Vec<_> = run.decisions.iter().filter(|d| d.session == name).map(strip).collect();
        let expected: Vec<_> = alone.decisions.iter().map(strip).collect();
        assert_eq!(mine, expected, "{name} differs from a session on its own");
    }
    let sixth = repeat_ls(both.session("s1"), 1).run();
    assert_eq!(sixth.last().decision, Verdict::Block);
    assert_eq!(sixth.last().session, "s1");
}

#[test]
fn time_never_runs_backwards() {
    let policy = json!({"budgets": {"session": {"runtime": "10s"}}});
    let history = EventHistory::with_policy(policy)
        .with_fields(json!({"at": 100_000}))
        .at_time(100_000)
        .assistant_message("a")
        .at_time(105_000)
        .assistant_message("b")
        .at_time(1)
        .assistant_message("c")
        .at_time(104_000)
        .assistant_message("d")
        .at_time(109_000)
        .assistant_message("e");
    check("alternating, nine seconds in total", &history, &[never("budget", Block)]);
    let run = history.at_time(110_001).assistant_message("f").run();
    assert_eq!(run.last().decision, Verdict::Halt, "{}", run.last().to_json());
}

#[test]
fn child_halts_with_its_parent_and_continues_after_release() {
    let family = EventHistory::new()
        .session("kid")
        .event("session.started", json!({"parent": "s1"}))
        .request("bash", ls())
        .session("s1")
        .event("human.stopped", json!({"by": "alice"}))
        .session("kid")
        .request("bash", json!({"command": "pwd"}))
        .event("progress", json!({"signal": "diff", "content": "x"}));
    let run = family.clone().run();
    assert_eq!(run.at(3).decision, Verdict::Allow);
    assert_eq!(run.at(5).decision, Verdict::Halt, "{}", run.at(5).to_json());
    assert_eq!(run.at(5).trips[0].message, "the ancestor session 's1' is halted");
    assert_eq!(run.at(6).decision, Verdict::Allow, "a fact is recorded");
    let run = family.session("s1").release("human", "grant").session("kid").request("bash", ls()).run();
    assert_eq!((run.last().decision, run.last().state), (Verdict::Allow, SessionPhase::Running));
}

#[test]
fn a_halted_child_does_not_stop_its_parent() {
    let run = EventHistory::new()
        .session("kid")
        .event("session.started", json!({"parent": "s1"}))
        .diff("same")
        .diff("same")
        .session("s1")
        .request("bash", ls())
        .run();
    assert_eq!((run.at(4).decision, run.at(5).decision), (Verdict::Halt, Verdict::Allow));
}

#[test]
fn invalid_event_changes_nothing() {
    let mut run = repeat_ls(EventHistory::new(), 3).run();
    let before = run.digest("s1");
    for bad in [
        json!({"type": "session.started", "session": "s1", "policy": {"guards": {"repetiton": {"limit": 1}}}}),
        json!({"type": "session.started", "session": "s1", "policy": "no-such-preset"}),
        json!({"type": "human.released", "session": "s1", "guard": "nobody"}),
    ] {
        assert!(run.try_step(&bad).is_err(), "{bad}");
        assert_eq!(run.digest("s1"), before, "{bad}");
    }
    let fresh = json!({"type": "session.started", "session": "s9", "policy": "no-such-preset"});
    assert!(run.try_step(&fresh).is_err());
    assert!(run.sessions.get("s9").is_none(), "it must not create a session");
}

#[test]
fn reopening_between_any_two_events_changes_no_decision() {
    for (name, history) in varied_histories() {
        let run = history.run();
        let source = flyball::PolicySource::preset(flyball::Preset::Agent);
        let mut session = flyball::Session::new(std::sync::Arc::clone(source.base()));
        let mut sessions = new_sessions();
        for (line, wanted) in run.lines.iter().zip(&run.decisions) {
            let event = Event::from_json(line).unwrap();
            sessions.insert("s1", session);
            let decision = sessions.step(&event).unwrap();
            assert_eq!(decision.to_json(), wanted.to_json(), "{name}");
            let bytes = sessions.get("s1").unwrap().state().encode().unwrap();
            let state = flyball::SessionState::decode(&bytes).unwrap();
            session = flyball::Session::resume(&source, state).unwrap();
        }
    }
}

#[test]
fn reopened_session_resets_counters() {
    let history = EventHistory::with_policy(only_guard("visits", json!({"limit": 2})))
        .times(2, |history, _| history.start_turn("a"))
        .event("session.started", json!({"reopen": true}))
        .times(2, |history, _| history.start_turn("a"));
    check("reopened", &history, &[never("visits", Block)]);
    let history = EventHistory::with_policy(only_guard("visits", json!({"limit": 2})))
        .times(2, |history, _| history.start_turn("a"))
        .event("session.started", json!({}))
        .start_turn("a");
    check("a restart does not reset the session", &history, &[trips("visits", "visit_limit", Block).at(5)]);
}

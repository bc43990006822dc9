//! Laws that hold for all guards: what counts as progress, what counts once, and what never counts.

#[path = "guards/kit.rs"]
mod kit;

use flyball::{Code, Decision, Event, Status, Verdict};
use kit::{Block, Halt, History, check, failed, fresh_sessions, never, ok, only, quiet, trips};
use serde_json::{Value, json};

fn ls() -> Value {
    json!({"command": "ls"})
}

fn same(history: History, n: usize) -> History {
    history.times(n, |history, _| history.call("bash", ls(), ok("a b c")))
}

#[test]
fn a_repetition_whose_normalised_result_changes_is_not_a_loop() {
    let words =
        ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"];
    let history = words.iter().fold(History::new(), |history, word| history.call("bash", ls(), ok(*word)));
    check("new results", &history, &[kit::silent()]);
    let stamps = History::new().times(6, |history, i| {
        history.call("bash", ls(), ok(format!("2026-03-0{}T00:00:00Z took 0.{i}s pid 1{i}", i + 1)))
    });
    check("only the clock moves", &stamps, &[trips("repetition", "repetition_loop", Block).at(12)]);
}

#[test]
fn a_new_write_between_two_equal_calls_is_progress() {
    let history = History::new().times(12, |history, i| {
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
    let same_edit = History::new().times(12, |history, _| {
        history.call("edit_file", json!({"path": "a.rs", "new": "x"}), ok("done")).call(
            "run_tests",
            json!({}),
            ok("3 failed"),
        )
    });
    check("the same edit again is no new write", &same_edit, &[trips("cycle", "cycle_detected", Block)]);
}

#[test]
fn the_same_answer_to_three_questions_of_a_person_is_no_stall() {
    let answered = |origin: &str| {
        History::new().times(4, |history, i| {
            history
                .event("user.message", json!({"text": format!("question {i}"), "origin": origin}))
                .event("assistant.message", json!({"text": "Done.", "final": true}))
        })
    };
    check("a person asks", &answered("human"), &[quiet("stall"), quiet("monologue")]);
    check("a schedule asks", &answered("schedule"), &[trips("stall", "stalled", Halt).at(7)]);
}

#[test]
fn a_person_starts_afresh_and_nobody_else_does() {
    let between = |origin: &str| {
        let origin = origin.to_owned();
        same(same(History::new(), 3).event("user.message", json!({"text": "go on", "origin": origin})), 3)
    };
    check("a person", &between("human"), &[never("repetition", Block)]);
    for origin in ["agent", "schedule"] {
        check(origin, &between(origin), &[trips("repetition", "repetition_loop", Block).at(13).count(6, 5)]);
    }
}

#[test]
fn equal_calls_inside_one_round_count_once() {
    let rounds = |n: u64| (1..=n).fold(History::new(), |history, round| same(history.round(round), 4));
    check("five answers of four equal calls", &rounds(5), &[never("repetition", Block)]);
    check(
        "the sixth answer",
        &rounds(6),
        &[trips("repetition", "repetition_loop", Block).at(42).count(6, 5)],
    );
}

fn number(history: History) -> Vec<Value> {
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

/// Histories whose answers are of every kind: allow, warn, block, halt, with effects.
fn telling() -> Vec<(&'static str, History)> {
    vec![
        ("repetition", same(History::new(), 8)),
        ("stall", History::new().diff("same").diff("same").ask("bash", ls())),
        (
            "visits",
            History::under(only("visits", json!({"limit": 2}))).times(4, |history, _| history.begins("a")),
        ),
        ("confirmation", History::new().plan(&["t1"]).answer("hm").answer("yes").answer("yes")),
        ("retry", History::new().times(5, |history, _| history.attempt("pay"))),
        ("released", History::new().diff("same").diff("same").release("stall", "grant").diff("same")),
        ("budget", History::under(json!({"budgets": {"session": {"turns": 1}}})).begins("a").begins("a")),
    ]
}

/// The contract, section 2: the same id with the same body gives the same answer again and changes nothing.
#[test]
fn a_redelivered_event_gets_the_same_answer_and_changes_nothing() {
    for (name, history) in telling() {
        let events = number(history);
        let mut sessions = fresh_sessions();
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
        // And once more, all of them from the start.
        let before = sessions.get("s1").unwrap().state().digest().unwrap();
        for event in &events {
            sessions.step(&Event::from_json(&event.to_string()).unwrap()).unwrap();
        }
        assert_eq!(sessions.get("s1").unwrap().state().digest().unwrap(), before, "{name}: nothing changed");
    }
}

#[test]
fn a_redelivery_may_carry_another_time_key_order_and_number_spelling() {
    let mut sessions = fresh_sessions();
    let first = r#"{"type":"tool.requested","session":"s1","id":"e1","at":1000,"call":"c","tool":"t","args":{"a":1,"b":2}}"#;
    let again = r#"{"args":{"b":2.0,"a":1},"tool":"t","call":"c","at":2000,"id":"e1","session":"s1","type":"tool.requested"}"#;
    let one = sessions.step(&Event::from_json(first).unwrap()).unwrap();
    let two = sessions.step(&Event::from_json(again).unwrap()).unwrap();
    assert_eq!(one, two);
    assert_eq!(sessions.get("s1").unwrap().state().seq(), 1);
}

#[test]
fn the_same_id_with_another_body_is_a_conflict_and_changes_nothing() {
    let mut run = same(History::new(), 2).run();
    run.step(&json!({"type": "user.message", "session": "s1", "id": "e1", "text": "a"}));
    let before = run.digest("s1");
    for other in [
        json!({"type": "user.message", "session": "s1", "id": "e1", "text": "b"}),
        json!({"type": "compaction", "session": "s1", "id": "e1"}),
        json!({"type": "user.message", "session": "s1", "id": "e1", "text": "a", "extra": 1}),
    ] {
        let error = run.try_step(&other).unwrap_err();
        assert_eq!(error.code, Code::EventConflict);
        assert_eq!(run.digest("s1"), before);
    }
    let elsewhere = json!({"type": "user.message", "session": "s2", "id": "e1", "text": "b"});
    assert!(run.try_step(&elsewhere).is_ok(), "ids belong to their session");
}

/// Every decision reads back as it was: bindings and journals keep it as JSON.
#[test]
fn a_decision_reads_back_from_its_own_json() {
    for (name, history) in telling() {
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

/// Without event ids: a call that is still open is asked for once more, word for word.
#[test]
fn a_redelivered_request_gets_its_stored_verdict_and_counts_once() {
    let mut run = same(History::new(), 5).run();
    let ask = json!({"type": "tool.requested", "session": "s1", "id": "e6", "call": "again", "tool": "bash", "args": ls()});
    let refused = run.step(&ask);
    assert_eq!(refused.decision, Verdict::Block);
    let before = run.digest("s1");
    for _ in 0..5 {
        assert_eq!(run.step(&ask).to_json(), refused.to_json());
    }
    assert_eq!(run.digest("s1"), before, "asking again is no new offence");
}

#[test]
fn an_open_call_asked_for_under_another_event_id_is_a_new_request() {
    for id in [Some("other"), None] {
        let ask = |id: Option<&str>| {
            let mut ask =
                json!({"type": "tool.requested", "session": "s1", "call": "c", "tool": "bash", "args": ls()});
            if let Some(id) = id {
                ask["id"] = json!(id);
            }
            ask
        };
        let mut run = History::new().run();
        assert_eq!(run.step(&ask(Some("first"))).seq, 2);
        assert_eq!(run.step(&ask(id)).seq, 3, "the call id is the agent's to choose");
    }
}

#[test]
fn the_guards_own_veto_is_neither_progress_nor_a_new_offence() {
    let blocked = || same(History::new(), 6);
    let plain = blocked().run();
    assert_eq!(plain.last().decision, Verdict::Block);
    for (name, echo) in [
        ("denied", blocked().event("tool.denied", json!({"call": "c6", "by": "guard"}))),
        ("told as a failure", blocked().echo_of(6, failed("blocked by flyball"))),
        ("told as a success", blocked().echo_of(6, ok("blocked by flyball"))),
    ] {
        let run = echo.clone().run();
        assert!(run.last().trips.is_empty(), "{name}: {}", run.last().to_json());
        let run = echo.call("bash", ls(), ok("a b c")).run();
        let decision = run.last();
        assert_eq!(decision.decision, Verdict::Block, "{name}: no progress: {}", decision.to_json());
        assert_eq!(decision.trips[0].count, 6, "{name}: the refused call was not counted");
    }
    let vetoes = History::new().times(9, |history, i| {
        history
            .ask("bash", json!({"command": "x".repeat(i + 1)}))
            .event("tool.denied", json!({"call": format!("c{}", i + 1), "by": "guard"}))
    });
    check("nine vetoes", &vetoes, &[quiet("denial"), quiet("error_streak")]);
}

#[test]
fn compaction_and_a_retry_of_the_provider_do_not_clear_the_evidence() {
    for name in ["compaction", "api.retry"] {
        let history = same(same(History::new(), 3).event(name, json!({})), 4);
        let run = history.run();
        let blocked = run.trips_of("repetition").iter().any(|(_, trip)| trip.severity == Block);
        assert!(blocked, "{name} hid the loop");
    }
    let mixed = History::new().times(4, |history, _| {
        history
            .call("read_file", json!({"path": "a"}), ok("a"))
            .event("compaction", json!({}))
            .call("read_file", json!({"path": "b"}), ok("b"))
            .event("api.retry", json!({}))
    });
    check("a circle through both", &mixed, &[trips("cycle", "cycle_detected", Block)]);
}

/// A provider that is asked again every time must not hide the loop for ever: each of these calls ran and was told.
#[test]
fn a_retry_of_the_provider_before_every_call_does_not_hide_the_loop() {
    let history = History::new().times(12, |history, _| same(history.event("api.retry", json!({})), 1));
    check("twelve calls, twelve retries", &history, &[trips("repetition", "repetition_loop", Block)]);
}

#[test]
fn the_answer_that_the_provider_sent_twice_counts_once() {
    let history = same(History::new(), 4).ask("bash", ls()).event("api.retry", json!({})).call(
        "bash",
        ls(),
        ok("a b c"),
    );
    check("five calls, one of them twice", &history, &[never("repetition", Block)]);
}

#[test]
fn two_sessions_that_take_turns_do_not_share_counters() {
    let both = (0..5).fold(History::new().session("s2").event("session.started", json!({})), |history, _| {
        same(same(history.session("s1"), 1).session("s2"), 1)
    });
    let run = check("five each", &both, &[never("repetition", Block)]);
    let alone = same(History::new(), 5).run();
    let strip = |decision: &Decision| (decision.seq, decision.decision, decision.trips.len());
    for name in ["s1", "s2"] {
        let mine: Vec<_> = run.decisions.iter().filter(|d| d.session == name).map(strip).collect();
        let expected: Vec<_> = alone.decisions.iter().map(strip).collect();
        assert_eq!(mine, expected, "{name} is as it would be alone");
    }
    let sixth = same(both.session("s1"), 1).run();
    assert_eq!(sixth.last().decision, Verdict::Block);
    assert_eq!(sixth.last().session, "s1");
}

#[test]
fn time_never_runs_backwards() {
    let policy = json!({"budgets": {"session": {"runtime": "10s"}}});
    let history = History::under(policy)
        .with(json!({"at": 100_000}))
        .clock(100_000)
        .says("a")
        .clock(105_000)
        .says("b")
        .clock(1)
        .says("c")
        .clock(104_000)
        .says("d")
        .clock(109_000)
        .says("e");
    check("to and fro, nine seconds in all", &history, &[never("budget", Block)]);
    let run = history.clock(110_001).says("f").run();
    assert_eq!(run.last().decision, Verdict::Halt, "{}", run.last().to_json());
}

#[test]
fn a_child_stops_when_its_parent_halts_and_goes_on_when_it_is_released() {
    let family = History::new()
        .session("kid")
        .event("session.started", json!({"parent": "s1"}))
        .ask("bash", ls())
        .session("s1")
        .event("human.stopped", json!({"by": "alice"}))
        .session("kid")
        .ask("bash", json!({"command": "pwd"}))
        .event("progress", json!({"signal": "diff", "content": "x"}));
    let run = family.clone().run();
    assert_eq!(run.at(3).decision, Verdict::Allow);
    assert_eq!(run.at(5).decision, Verdict::Halt, "{}", run.at(5).to_json());
    assert_eq!(run.at(5).trips[0].message, "the session 's1' above this one is halted");
    assert_eq!(run.at(6).decision, Verdict::Allow, "a fact is recorded");
    let run = family.session("s1").release("human", "grant").session("kid").ask("bash", ls()).run();
    assert_eq!((run.last().decision, run.last().state), (Verdict::Allow, Status::Running));
}

#[test]
fn a_halted_child_does_not_stop_its_parent() {
    let run = History::new()
        .session("kid")
        .event("session.started", json!({"parent": "s1"}))
        .diff("same")
        .diff("same")
        .session("s1")
        .ask("bash", ls())
        .run();
    assert_eq!((run.at(4).decision, run.at(5).decision), (Verdict::Halt, Verdict::Allow));
}

#[test]
fn an_event_that_cannot_be_used_changes_nothing() {
    let mut run = same(History::new(), 3).run();
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
    assert!(run.sessions.get("s9").is_none(), "no session came of it");
}

#[test]
fn stopping_and_reopening_between_any_two_events_changes_no_decision() {
    for (name, history) in telling() {
        let run = history.run();
        let source = flyball::PolicySource::preset(flyball::Preset::Agent);
        let mut session = flyball::Session::new(std::sync::Arc::clone(source.base()));
        let mut sessions = fresh_sessions();
        for (line, wanted) in run.lines.iter().zip(&run.decisions) {
            let event = Event::from_json(line).unwrap();
            sessions.insert("s1", session);
            let decision = sessions.step(&event).unwrap();
            assert_eq!(decision.to_json(), wanted.to_json(), "{name}");
            let bytes = sessions.get("s1").unwrap().state().encode().unwrap();
            let state = flyball::State::decode(&bytes).unwrap();
            session = flyball::Session::resume(&source, state).unwrap();
        }
    }
}

#[test]
fn a_session_taken_up_again_on_purpose_counts_afresh() {
    let history = History::under(only("visits", json!({"limit": 2})))
        .times(2, |history, _| history.begins("a"))
        .event("session.started", json!({"reopen": true}))
        .times(2, |history, _| history.begins("a"));
    check("reopened", &history, &[never("visits", Block)]);
    let history = History::under(only("visits", json!({"limit": 2})))
        .times(2, |history, _| history.begins("a"))
        .event("session.started", json!({}))
        .begins("a");
    check("a restart is no new beginning", &history, &[trips("visits", "visit_limit", Block).at(5)]);
}

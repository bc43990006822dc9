//! The six meanings of a limit: capacity, trip, reset, release, the warning before the limit, observe.
//!
//! Each is checked over many guards at once, so that a limit means the same everywhere.

#[path = "guards/harness.rs"]
mod harness;

use flyball::{SessionPhase, Verdict};
use harness::{Block, EventHistory, Halt, Warn, check, failed, never, ok, only_guard, silent, trips};
use serde_json::{Value, json};

/// A guard's limit as a function of the number of acts or failures.
struct LimitCase {
    name: &'static str,
    guard: &'static str,
    n: usize,
    history: fn(usize) -> EventHistory,
}

fn letter_name(at: usize) -> String {
    char::from(b'a' + u8::try_from(at % 26).unwrap_or(0)).to_string().repeat(at / 26 + 2)
}

fn budget_history(keys: Value) -> EventHistory {
    EventHistory::with_policy(json!({"preset": "off", "budgets": keys}))
}

fn repeat_visits(n: usize) -> EventHistory {
    EventHistory::with_policy(only_guard("visits", json!({"limit": 4})))
        .times(n, |history, _| history.start_turn("test"))
}

fn repeat_transition(n: usize) -> EventHistory {
    EventHistory::with_policy(only_guard("transitions", json!({"limit": 4})))
        .times(n, |history, _| history.transition("fix", "test"))
}

fn capacities() -> Vec<LimitCase> {
    vec![
        LimitCase { name: "visits", guard: "visits", n: 4, history: repeat_visits },
        LimitCase { name: "transitions", guard: "transitions", n: 4, history: repeat_transition },
        LimitCase {
            name: "identical calls",
            guard: "repetition",
            n: 5,
            history: |n| {
                EventHistory::with_policy(only_guard("repetition", json!({})))
                    .times(n, |history, _| history.request("bash", json!({"command": "ls"})))
            },
        },
        LimitCase {
            name: "turns",
            guard: "budget",
            n: 4,
            history: |n| {
                budget_history(json!({"session": {"turns": 4}}))
                    .times(n, |history, _| history.start_turn("a"))
            },
        },
        LimitCase {
            name: "model responses",
            guard: "budget",
            n: 4,
            history: |n| {
                budget_history(json!({"session": {"iterations": 4}}))
                    .times(n, |history, i| history.request("read_file", json!({"path": letter_name(i)})))
            },
        },
        LimitCase {
            name: "tool calls",
            guard: "budget",
            n: 4,
            history: |n| {
                budget_history(json!({"session": {"tool_calls": 4}}))
                    .times(n, |history, i| history.request("read_file", json!({"path": letter_name(i)})))
            },
        },
        LimitCase {
            name: "turns of a node",
            guard: "budget",
            n: 6,
            history: |n| {
                budget_history(json!({"node": {"turns": 6}})).times(n, |history, _| history.start_turn("a"))
            },
        },
        LimitCase {
            name: "transitions of one message",
            guard: "budget",
            n: 25,
            history: |n| {
                budget_history(json!({"message": {"transitions": 25}}))
                    .times(n, |history, i| history.transition(&letter_name(i), &letter_name(i + 1)))
            },
        },
    ]
}

/// The Nth failure trips.
fn failures() -> Vec<LimitCase> {
    vec![
        LimitCase {
            name: "unreadable answers",
            guard: "validation",
            n: 3,
            history: |n| EventHistory::new().times(n, |history, _| history.validation_failed("x")),
        },
        LimitCase {
            name: "the same error",
            guard: "error_streak",
            n: 4,
            history: |n| {
                EventHistory::new().times(n, |history, i| {
                    history.call("bash", json!({"command": letter_name(i)}), failed("denied"))
                })
            },
        },
        LimitCase {
            name: "the same output",
            guard: "stall",
            n: 3,
            history: |n| EventHistory::new().times(n, |history, _| history.finish_turn("a", "same")),
        },
        LimitCase {
            name: "the same diff",
            guard: "stall",
            n: 2,
            history: |n| EventHistory::new().times(n, |history, _| history.diff("same")),
        },
        LimitCase {
            name: "the same question",
            guard: "question",
            n: 3,
            history: |n| EventHistory::new().times(n, |history, _| history.ask_question("Why?")),
        },
        LimitCase {
            name: "alternating messages",
            guard: "oscillation",
            n: 4,
            history: |n| {
                EventHistory::new().times(n, |history, i| history.finish_turn("a", ["x", "y"][i % 2]))
            },
        },
    ]
}

#[test]
fn capacity_allows_n_acts_and_refuses_the_next() {
    for limit in capacities() {
        check(limit.name, &(limit.history)(limit.n), &[never(limit.guard, Block)]);
        let run = (limit.history)(limit.n + 1).run();
        let decision = run.last();
        assert!(decision.decision >= Verdict::Block, "{}: {}", limit.name, decision.to_json());
        assert_eq!(decision.trips[0].limit, limit.n as u64, "{}", limit.name);
        assert!(decision.trips[0].message.contains(&limit.n.to_string()) || limit.guard == "repetition");
    }
}

#[test]
fn nth_failure_trips() {
    for limit in failures() {
        check(limit.name, &(limit.history)(limit.n - 1), &[never(limit.guard, Block)]);
        let run = (limit.history)(limit.n).run();
        let decision = run.last();
        assert!(decision.decision >= Verdict::Block, "{}: {}", limit.name, decision.to_json());
        assert_eq!(
            decision.trips.last().map(|trip| trip.guard.as_str()),
            Some(limit.guard),
            "{}",
            limit.name
        );
    }
}

#[test]
fn success_resets_the_count() {
    let fails = |history: EventHistory, i: usize| {
        history.call("bash", json!({"command": letter_name(i)}), failed("permission denied"))
    };
    for (name, guard, history) in [
        (
            "a valid response",
            "validation",
            EventHistory::new().times(4, |h, _| {
                h.validation_failed("x").validation_failed("x").event("validation.passed", json!({}))
            }),
        ),
        (
            "a successful operation",
            "retry",
            EventHistory::new().times(4, |h, _| {
                h.operation_failed("a").operation_failed("a").operation_failed("a").operation_succeeded("a")
            }),
        ),
        (
            "a successful call",
            "error_streak",
            EventHistory::new().times(4, |h, i| {
                fails(fails(fails(h, 3 * i), 3 * i + 1), 3 * i + 2).call(
                    "bash",
                    json!({"command": "true"}),
                    ok(letter_name(i)),
                )
            }),
        ),
        (
            "a passed gate",
            "gate",
            EventHistory::new().times(4, |h, _| {
                h.gate(&[("tests", Some("a"))]).gate(&[("tests", Some("b"))]).gate(&[("tests", None)])
            }),
        ),
        (
            "a changed diff",
            "stall",
            EventHistory::new()
                .times(4, |h, i| h.finish_turn("a", "same").finish_turn("a", "same").diff(&letter_name(i))),
        ),
    ] {
        let severity = if matches!(guard, "gate") { Halt } else { Block };
        check(name, &history, &[never(guard, severity)]);
    }
}

#[test]
fn release_grant_lets_three_more_through() {
    let history =
        repeat_visits(5).release("visits", "grant").times(4, |history, _| history.start_turn("test"));
    let run = history.run();
    assert_eq!(run.at(6).decision, Verdict::Block);
    assert_eq!(run.at(6).state, SessionPhase::Blocked);
    assert_eq!((run.at(7).decision, run.at(7).state), (Verdict::Allow, SessionPhase::Running));
    for more in 8..=10 {
        assert_eq!(run.at(more).decision, Verdict::Warn, "{}", run.at(more).to_json());
    }
    assert!(run.at(8).trips[0].message.ends_with("(released by a person; 2 more allowed)"));
    assert_eq!((run.at(11).decision, run.at(11).state), (Verdict::Block, SessionPhase::Blocked));
}

#[test]
fn release_grant_may_name_a_number() {
    let history = repeat_visits(5)
        .release("visits", "grant")
        .with_fields(json!({"n": 1}))
        .times(2, |history, _| history.start_turn("test"));
    let run = history.run();
    assert_eq!((run.at(8).decision, run.at(9).decision), (Verdict::Warn, Verdict::Block));
    let policy = json!({"preset": "off", "guards": {"visits": {"limit": 4}}, "releases": {"grant": 1}});
    let history =
        EventHistory::with_policy(policy).times(5, |h, _| h.start_turn("test")).release("visits", "grant");
    let run = history.times(2, |history, _| history.start_turn("test")).run();
    assert_eq!((run.at(8).decision, run.at(9).decision), (Verdict::Warn, Verdict::Block));
}

#[test]
fn release_reset_gives_the_whole_limit_again() {
    let run =
        repeat_visits(5).release("visits", "reset").times(5, |history, _| history.start_turn("test")).run();
    for more in 8..=11 {
        assert!(run.at(more).decision < Verdict::Block, "{}", run.at(more).to_json());
    }
    assert_eq!(run.at(12).decision, Verdict::Block);
}

#[test]
fn release_keep_lifts_the_stop_without_changing_counters() {
    let run = repeat_visits(5).release("visits", "keep").start_turn("test").start_turn("other").run();
    assert_eq!(run.at(7).state, SessionPhase::Running);
    assert_eq!(run.at(8).decision, Verdict::Block, "the count is unchanged");
    assert_eq!(run.at(9).decision, Verdict::Allow, "another node is not affected");
}

/// A release without a guard name releases the active hold.
#[test]
fn release_without_a_guard_lifts_the_current_stop() {
    for fields in [json!({}), json!({"trip": "visits"}), json!({"trip": {"guard": "visits"}})] {
        let run = repeat_visits(5).event("human.released", fields).start_turn("test").run();
        assert_eq!(run.at(7).state, SessionPhase::Running);
        assert_eq!(run.at(8).decision, Verdict::Warn);
    }
    check("nothing to release", &EventHistory::new().event("human.released", json!({})), &[silent()]);
}

#[test]
fn release_then_continue_does_not_stop_again_at_once() {
    let tokens = |history: EventHistory| {
        history.event("tool.finished", json!({"call": "x", "tool": "t", "usage": {"tokens_in": 10}}))
    };
    for (guard, stopped, next) in [
        (
            "visits",
            repeat_visits(5),
            (|h: EventHistory| h.start_turn("test")) as fn(EventHistory) -> EventHistory,
        ),
        ("transitions", repeat_transition(5), |h| h.transition("fix", "test")),
        (
            "cycle",
            EventHistory::with_policy(only_guard("cycle", json!({}))).transitions_along("a>b>a>b>a>b>a"),
            |h| h.transition("b", "a"),
        ),
        ("stall", EventHistory::new().times(3, |h, _| h.finish_turn("a", "same")), |h| {
            h.finish_turn("a", "same")
        }),
        ("oscillation", EventHistory::new().times(4, |h, i| h.finish_turn("a", ["x", "y"][i % 2])), |h| {
            h.finish_turn("a", "x")
        }),
        ("question", EventHistory::new().times(3, |h, _| h.ask_question("Why?")), |h| h.ask_question("Why?")),
        ("validation", EventHistory::new().times(3, |h, _| h.validation_failed("x")), |h| {
            h.validation_failed("x")
        }),
        ("gate", EventHistory::new().times(5, |h, i| h.gate(&[("tests", Some(&letter_name(i)))])), |h| {
            h.gate(&[("tests", Some("z"))])
        }),
        ("monologue", EventHistory::new().times(9, |h, _| h.assistant_message("I will do it now.")), |h| {
            h.assistant_message("I will do it now.")
        }),
        (
            "budget",
            budget_history(json!({"session": {"turns": 2}})).times(3, |h, _| h.start_turn("a")),
            |h| h.start_turn("a"),
        ),
        ("budget", tokens(budget_history(json!({"session": {"tokens": 9}}))), |h| h.assistant_message("on")),
        (
            "budget",
            budget_history(json!({"session": {"runtime": "1s"}}))
                .at_time(0)
                .assistant_message("a")
                .after_ms(1_001)
                .assistant_message("b"),
            |h| h.assistant_message("c"),
        ),
    ] {
        let before = stopped.run();
        assert!(
            flyball::waits_for_person(before.last().state),
            "{guard} stopped it: {}",
            before.last().to_json()
        );
        let run = next(stopped.release(guard, "grant")).run();
        assert!(run.last().decision < Verdict::Block, "{guard}: {}", run.last().to_json());
        assert_eq!(run.last().state, SessionPhase::Running, "{guard}");
    }
}

#[test]
fn a_grant_raises_a_budget_by_a_bounded_step() {
    let run = budget_history(json!({"session": {"turns": 2}}))
        .times(3, |h, _| h.start_turn("a"))
        .release("budget", "grant")
        .times(4, |h, _| h.start_turn("a"))
        .run();
    assert!(run.at(8).decision < Verdict::Block, "three more turns: {}", run.at(8).to_json());
    assert_eq!(run.at(9).decision, Verdict::Halt, "{}", run.at(9).to_json());
    assert_eq!(run.at(9).trips[0].limit, 5);
}

fn released_history(times: usize) -> EventHistory {
    EventHistory::with_policy(only_guard("visits", json!({"limit": 1}))).start_turn("test").times(
        times,
        |history, _| {
            history
                .start_turn("test")
                .release("visits", "grant")
                .with_fields(json!({"n": 1}))
                .start_turn("test")
        },
    )
}

#[test]
fn after_five_releases_the_next_trip_is_a_halt() {
    for (times, verdict) in [(4, Verdict::Block), (5, Verdict::Halt)] {
        let run = released_history(times).start_turn("test").run();
        assert_eq!(run.last().decision, verdict, "{}", run.last().to_json());
    }
    let policy = json!({"preset": "off", "guards": {"visits": {"limit": 1}}, "releases": {"ceiling": 1}});
    let run = EventHistory::with_policy(policy)
        .start_turn("test")
        .start_turn("test")
        .release("visits", "reset")
        .times(2, |history, _| history.start_turn("test"))
        .run();
    assert_eq!(run.last().decision, Verdict::Halt, "the policy may lower the ceiling");
}

#[test]
fn sixth_release_does_not_lift_the_halt() {
    let run = released_history(5).start_turn("test").release("visits", "reset").start_turn("test").run();
    assert_eq!(run.last().decision, Verdict::Halt);
    assert_eq!(run.last().state, SessionPhase::Halted);
    let report = run.sessions.get("s1").map(|session| session.state().report(session.policy()));
    assert_eq!(report.unwrap().releases["visits"], 5);
}

/// The ceiling applies, and a person whose release has no effect must be notified.
#[test]
fn sixth_release_reports_that_it_is_refused() {
    let history = released_history(5).start_turn("test").release("visits", "grant");
    let run = history.run();
    let decision = run.last();
    assert_eq!(decision.decision, Verdict::Block, "{}", decision.to_json());
    assert_eq!((decision.trips[0].count, decision.trips[0].limit), (5, 5));
    assert_eq!(decision.trips[0].message, "'visits' was released 5 times, as often as the policy allows");
}

#[test]
fn releases_of_one_guard_do_not_count_for_another() {
    let run = released_history(5).run();
    assert_eq!(run.last().state, SessionPhase::Running);
    let history =
        released_history(5).release("repetition", "grant").times(3, |history, _| history.start_turn("other"));
    let run = history.run();
    assert_eq!(run.at(run.decisions.len() - 3).decision, Verdict::Allow, "{}", run.last().to_json());
}

#[test]
fn a_halt_is_latched_and_facts_are_recorded() {
    let history = EventHistory::new()
        .diff("same")
        .diff("same")
        .request("bash", json!({"command": "ls"}))
        .assistant_message("may I?")
        .event("tool.finished", json!({"call": "old", "tool": "bash", "ok": true, "output": "x"}))
        .event("progress", json!({"signal": "diff", "content": "same"}))
        .user_message("hello?")
        .transition("a", "b")
        .release("stall", "reset")
        .request("bash", json!({"command": "pwd"}));
    let run = history.run();
    assert_eq!(run.at(3).decision, Verdict::Halt);
    for asks in [4, 5, 9] {
        let decision = run.at(asks);
        assert_eq!(decision.decision, Verdict::Halt, "{}", decision.to_json());
        assert_eq!(
            (decision.trips[0].guard.as_str(), decision.trips[0].reason.as_str()),
            ("stall", "stalled")
        );
        assert_eq!(decision.trips[0].evidence.events, [3], "it names the halted event");
        assert!(decision.effects.is_empty(), "reported once");
    }
    for fact in [6, 7, 8] {
        let decision = run.at(fact);
        assert_eq!(
            (decision.decision, decision.state),
            (Verdict::Allow, SessionPhase::Halted),
            "{}",
            decision.to_json()
        );
        assert_eq!(decision.seq, fact as u64, "it is recorded");
    }
    assert_eq!((run.at(11).decision, run.at(11).state), (Verdict::Allow, SessionPhase::Running));
}

#[test]
fn human_stop_halts_until_released() {
    let history = EventHistory::new()
        .event("human.stopped", json!({"by": "alice", "why": "lunch"}))
        .request("bash", json!({"command": "ls"}))
        .event("human.stopped", json!({"by": "alice", "why": "still lunch"}))
        .release("human", "grant")
        .request("bash", json!({"command": "ls"}));
    let run = check(
        "stopped",
        &history,
        &[trips("human", "user_stop", Halt)
            .at(2)
            .halt_reason("user_stop")
            .message("stopped by alice: lunch")],
    );
    assert_eq!(run.effects(2), ["loop.halted"]);
    assert_eq!(run.at(3).decision, Verdict::Halt);
    assert_eq!(run.effects(4), [""; 0], "halted already");
    assert_eq!((run.at(6).decision, run.at(6).state), (Verdict::Allow, SessionPhase::Running));
}

#[test]
fn escalated_block_adds_a_label_and_release_removes_it() {
    let run = repeat_visits(6).release("visits", "keep").start_turn("test").run();
    assert_eq!(run.effects(6), ["label.added"]);
    assert_eq!(run.at(6).effects[0].fields["label"], "flyball-hitl:loop-prevention");
    assert_eq!(run.effects(7), [""; 0], "set once");
    assert_eq!(run.effects(8), ["label.removed"]);
    assert_eq!(run.at(8).effects[0].fields["label"], "flyball-hitl:loop-prevention");
    assert_eq!(run.effects(9), ["label.added"], "and again at the next stop");
    let policy = json!({"preset": "off", "guards": {"visits": {"limit": 1}}, "labels": {"prefix": "team-"}});
    let run = EventHistory::with_policy(policy).start_turn("a").start_turn("a").run();
    assert_eq!(run.at(3).effects[0].fields["label"], "team-hitl:loop-prevention");
    let policy = json!({"preset": "off", "guards": {"visits": {"limit": 1}}, "escalate": false});
    let run = EventHistory::with_policy(policy).start_turn("a").start_turn("a").run();
    assert_eq!(
        (run.at(3).state, run.effects(3).len()),
        (SessionPhase::Blocked, 0),
        "blocked without escalation"
    );
}

#[test]
fn notify_policy_emits_a_notify_effect() {
    let run = EventHistory::with_policy(json!({"notify": true})).diff("same").diff("same").run();
    assert_eq!(run.effects(3), ["loop.halted", "notify"]);
}

#[test]
fn effects_have_unique_keys() {
    let run = EventHistory::with_policy(json!({"notify": true})).diff("same").diff("same").run();
    let keys: Vec<&str> = run.at(3).effects.iter().map(|effect| effect.key.as_str()).collect();
    assert_eq!(keys, ["s1/3/0", "s1/3/1"]);
}

#[test]
fn warning_precedes_the_limit() {
    for limit in capacities().into_iter().filter(|limit| limit.guard != "repetition") {
        let run = (limit.history)(limit.n).run();
        let warned: Vec<usize> = run
            .trips_of(limit.guard)
            .iter()
            .filter(|(_, trip)| trip.severity == Warn)
            .map(|(at, _)| *at)
            .collect();
        // The history starts with event 1, so act N - 1 is event N.
        assert_eq!(warned, [limit.n], "{}: once, with one act left", limit.name);
    }
}

/// Warnings tell the model how much is left, in a fixed sentence.
#[test]
fn feedback_says_how_much_is_left() {
    let ls = |history: EventHistory| history.request("bash", json!({"command": "ls"}));
    for (history, expected) in [
        (EventHistory::new().times(3, |h, _| ls(h)), "2 more identical calls are allowed."),
        (EventHistory::new().times(5, |h, _| ls(h)), "The next identical call will be blocked."),
        (repeat_visits(3), "'test' may be visited once more after this."),
        (repeat_transition(3), "The transition from 'fix' to 'test' may be taken once more after this."),
        (EventHistory::new().gate(&[("tests", Some("x"))]), "4 attempts are left."),
        (EventHistory::new().operation_failed("pay"), "(attempt 1 of 3)"),
        (budget_history(json!({"session": {"turns": 4}})).times(3, |h, _| h.start_turn("a")), "3 of 4 turns"),
    ] {
        let run = history.run();
        let feedback = run.last().feedback.clone().unwrap_or_default();
        assert!(feedback.contains(expected), "{expected}: {feedback}");
    }
}

#[test]
fn observe_reports_everything_and_stops_nothing() {
    for limit in capacities().into_iter().chain(failures()).filter(|limit| {
        // The preset has the limits of an agent: no nodes, edges or messages to count.
        !matches!(limit.guard, "visits" | "transitions" | "budget")
    }) {
        let observed = (limit.history)(limit.n + 3).run();
        let lines: Vec<Value> =
            observed.lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
        let mut run = EventHistory::with_policy("observe").run();
        for line in lines.iter().skip(1) {
            let decision = run.step(line);
            assert_eq!(decision.decision, Verdict::Allow, "{}: {}", limit.name, decision.to_json());
            assert_eq!((decision.state, decision.feedback), (SessionPhase::Running, None));
        }
        assert!(!run.trips_of(limit.guard).is_empty(), "{} is reported", limit.name);
    }
}

#[test]
fn off_preset_reports_nothing() {
    for limit in failures() {
        let lines = (limit.history)(limit.n).run().lines;
        let mut run = EventHistory::with_policy("off").run();
        for line in lines.iter().skip(1) {
            let decision = run.step(&serde_json::from_str(line).unwrap());
            assert!(decision.trips.is_empty(), "{}: {}", limit.name, decision.to_json());
        }
    }
}

#[test]
fn release_of_an_unknown_guard_is_rejected_with_a_suggestion() {
    let mut run = EventHistory::new().run();
    let before = run.digest("s1");
    let error =
        run.try_step(&json!({"type": "human.released", "session": "s1", "guard": "repitition"})).unwrap_err();
    assert_eq!((error.code.as_str(), error.help.as_str()), ("wrong_type", "did you mean `repetition`?"));
    assert_eq!(run.digest("s1"), before, "nothing changed");
}

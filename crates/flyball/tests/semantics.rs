//! The six meanings of a limit: capacity, trip, reset, release, the warning before the end, observe.
//!
//! Each is checked over many guards at once, so that a limit means the same thing wherever it stands.

#[path = "guards/kit.rs"]
mod kit;

use flyball::{Status, Verdict};
use kit::{Block, Halt, History, Warn, check, failed, never, ok, only, silent, trips};
use serde_json::{Value, json};

/// A guard's limit as a function of how often the act or failure happens.
struct Limit {
    name: &'static str,
    guard: &'static str,
    n: usize,
    history: fn(usize) -> History,
}

fn word(at: usize) -> String {
    char::from(b'a' + u8::try_from(at % 26).unwrap_or(0)).to_string().repeat(at / 26 + 2)
}

fn budget(keys: Value) -> History {
    History::under(json!({"preset": "off", "budgets": keys}))
}

fn visits(n: usize) -> History {
    History::under(only("visits", json!({"limit": 4}))).times(n, |history, _| history.begins("test"))
}

fn edges(n: usize) -> History {
    History::under(only("transitions", json!({"limit": 4}))).times(n, |history, _| history.go("fix", "test"))
}

fn capacities() -> Vec<Limit> {
    vec![
        Limit { name: "visits", guard: "visits", n: 4, history: visits },
        Limit { name: "transitions", guard: "transitions", n: 4, history: edges },
        Limit {
            name: "identical calls",
            guard: "repetition",
            n: 5,
            history: |n| {
                History::under(only("repetition", json!({})))
                    .times(n, |history, _| history.ask("bash", json!({"command": "ls"})))
            },
        },
        Limit {
            name: "turns",
            guard: "budget",
            n: 4,
            history: |n| budget(json!({"session": {"turns": 4}})).times(n, |history, _| history.begins("a")),
        },
        Limit {
            name: "answers of the model",
            guard: "budget",
            n: 4,
            history: |n| {
                budget(json!({"session": {"iterations": 4}}))
                    .times(n, |history, i| history.ask("read_file", json!({"path": word(i)})))
            },
        },
        Limit {
            name: "tool calls",
            guard: "budget",
            n: 4,
            history: |n| {
                budget(json!({"session": {"tool_calls": 4}}))
                    .times(n, |history, i| history.ask("read_file", json!({"path": word(i)})))
            },
        },
        Limit {
            name: "turns of a node",
            guard: "budget",
            n: 6,
            history: |n| budget(json!({"node": {"turns": 6}})).times(n, |history, _| history.begins("a")),
        },
        Limit {
            name: "transitions of one message",
            guard: "budget",
            n: 25,
            history: |n| {
                budget(json!({"message": {"transitions": 25}}))
                    .times(n, |history, i| history.go(&word(i), &word(i + 1)))
            },
        },
    ]
}

/// The Nth failure trips.
fn failures() -> Vec<Limit> {
    vec![
        Limit {
            name: "unreadable answers",
            guard: "validation",
            n: 3,
            history: |n| History::new().times(n, |history, _| history.invalid("x")),
        },
        Limit {
            name: "the same error",
            guard: "error_streak",
            n: 4,
            history: |n| {
                History::new().times(n, |history, i| {
                    history.call("bash", json!({"command": word(i)}), failed("denied"))
                })
            },
        },
        Limit {
            name: "the same output",
            guard: "stall",
            n: 3,
            history: |n| History::new().times(n, |history, _| history.ends("a", "same")),
        },
        Limit {
            name: "the same diff",
            guard: "stall",
            n: 2,
            history: |n| History::new().times(n, |history, _| history.diff("same")),
        },
        Limit {
            name: "the same question",
            guard: "question",
            n: 3,
            history: |n| History::new().times(n, |history, _| history.question("Why?")),
        },
        Limit {
            name: "the same message to and fro",
            guard: "oscillation",
            n: 4,
            history: |n| History::new().times(n, |history, i| history.ends("a", ["x", "y"][i % 2])),
        },
    ]
}

#[test]
fn capacity_n_acts_are_allowed_and_act_n_plus_1_is_refused() {
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
fn trip_the_nth_failure_trips() {
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
fn reset_what_succeeds_begins_the_count_again() {
    let fails = |history: History, i: usize| {
        history.call("bash", json!({"command": word(i)}), failed("permission denied"))
    };
    for (name, guard, history) in [
        (
            "a readable answer",
            "validation",
            History::new().times(4, |h, _| h.invalid("x").invalid("x").event("validation.passed", json!({}))),
        ),
        (
            "an operation that worked",
            "retry",
            History::new().times(4, |h, _| h.attempt("a").attempt("a").attempt("a").success("a")),
        ),
        (
            "a call that worked",
            "error_streak",
            History::new().times(4, |h, i| {
                fails(fails(fails(h, 3 * i), 3 * i + 1), 3 * i + 2).call(
                    "bash",
                    json!({"command": "true"}),
                    ok(word(i)),
                )
            }),
        ),
        (
            "a gate that passed",
            "gate",
            History::new().times(4, |h, _| {
                h.gate(&[("tests", Some("a"))]).gate(&[("tests", Some("b"))]).gate(&[("tests", None)])
            }),
        ),
        (
            "a diff that moved",
            "stall",
            History::new().times(4, |h, i| h.ends("a", "same").ends("a", "same").diff(&word(i))),
        ),
    ] {
        let severity = if matches!(guard, "gate") { Halt } else { Block };
        check(name, &history, &[never(guard, severity)]);
    }
}

#[test]
fn release_grant_lets_three_more_through() {
    let history = visits(5).release("visits", "grant").times(4, |history, _| history.begins("test"));
    let run = history.run();
    assert_eq!(run.at(6).decision, Verdict::Block);
    assert_eq!(run.at(6).state, Status::Blocked);
    assert_eq!((run.at(7).decision, run.at(7).state), (Verdict::Allow, Status::Running));
    for more in 8..=10 {
        assert_eq!(run.at(more).decision, Verdict::Warn, "{}", run.at(more).to_json());
    }
    assert!(run.at(8).trips[0].message.ends_with("(released by a person, 2 more)"));
    assert_eq!((run.at(11).decision, run.at(11).state), (Verdict::Block, Status::Blocked));
}

#[test]
fn release_grant_may_name_a_number() {
    let history = visits(5)
        .release("visits", "grant")
        .with(json!({"n": 1}))
        .times(2, |history, _| history.begins("test"));
    let run = history.run();
    assert_eq!((run.at(8).decision, run.at(9).decision), (Verdict::Warn, Verdict::Block));
    let policy = json!({"preset": "off", "guards": {"visits": {"limit": 4}}, "releases": {"grant": 1}});
    let history = History::under(policy).times(5, |h, _| h.begins("test")).release("visits", "grant");
    let run = history.times(2, |history, _| history.begins("test")).run();
    assert_eq!((run.at(8).decision, run.at(9).decision), (Verdict::Warn, Verdict::Block));
}

#[test]
fn release_reset_gives_the_whole_limit_again() {
    let run = visits(5).release("visits", "reset").times(5, |history, _| history.begins("test")).run();
    for more in 8..=11 {
        assert!(run.at(more).decision < Verdict::Block, "{}", run.at(more).to_json());
    }
    assert_eq!(run.at(12).decision, Verdict::Block);
}

#[test]
fn release_keep_lifts_the_stop_and_changes_no_counter() {
    let run = visits(5).release("visits", "keep").begins("test").begins("other").run();
    assert_eq!(run.at(7).state, Status::Running);
    assert_eq!(run.at(8).decision, Verdict::Block, "the count is what it was");
    assert_eq!(run.at(9).decision, Verdict::Allow, "another node is free");
}

/// A release without a name is of what stands.
#[test]
fn release_without_a_guard_lifts_what_stands() {
    for fields in [json!({}), json!({"trip": "visits"}), json!({"trip": {"guard": "visits"}})] {
        let run = visits(5).event("human.released", fields).begins("test").run();
        assert_eq!(run.at(7).state, Status::Running);
        assert_eq!(run.at(8).decision, Verdict::Warn);
    }
    check("nothing stands", &History::new().event("human.released", json!({})), &[silent()]);
}

#[test]
fn release_then_continue_does_not_stop_again_at_once() {
    let tokens = |history: History| {
        history.event("tool.finished", json!({"call": "x", "tool": "t", "usage": {"tokens_in": 10}}))
    };
    for (guard, stopped, next) in [
        ("visits", visits(5), (|h: History| h.begins("test")) as fn(History) -> History),
        ("transitions", edges(5), |h| h.go("fix", "test")),
        ("cycle", History::under(only("cycle", json!({}))).walk("a>b>a>b>a>b>a"), |h| h.go("b", "a")),
        ("stall", History::new().times(3, |h, _| h.ends("a", "same")), |h| h.ends("a", "same")),
        ("oscillation", History::new().times(4, |h, i| h.ends("a", ["x", "y"][i % 2])), |h| h.ends("a", "x")),
        ("question", History::new().times(3, |h, _| h.question("Why?")), |h| h.question("Why?")),
        ("validation", History::new().times(3, |h, _| h.invalid("x")), |h| h.invalid("x")),
        ("gate", History::new().times(5, |h, i| h.gate(&[("tests", Some(&word(i)))])), |h| {
            h.gate(&[("tests", Some("z"))])
        }),
        ("monologue", History::new().times(9, |h, _| h.says("I will do it now.")), |h| {
            h.says("I will do it now.")
        }),
        ("budget", budget(json!({"session": {"turns": 2}})).times(3, |h, _| h.begins("a")), |h| {
            h.begins("a")
        }),
        ("budget", tokens(budget(json!({"session": {"tokens": 9}}))), |h| h.says("on")),
        (
            "budget",
            budget(json!({"session": {"runtime": "1s"}})).clock(0).says("a").later(1_001).says("b"),
            |h| h.says("c"),
        ),
    ] {
        let before = stopped.run();
        assert!(flyball::waits(before.last().state), "{guard} stopped it: {}", before.last().to_json());
        let run = next(stopped.release(guard, "grant")).run();
        assert!(run.last().decision < Verdict::Block, "{guard}: {}", run.last().to_json());
        assert_eq!(run.last().state, Status::Running, "{guard}");
    }
}

#[test]
fn a_grant_raises_a_budget_by_a_bounded_step() {
    let run = budget(json!({"session": {"turns": 2}}))
        .times(3, |h, _| h.begins("a"))
        .release("budget", "grant")
        .times(4, |h, _| h.begins("a"))
        .run();
    assert!(run.at(8).decision < Verdict::Block, "three more turns: {}", run.at(8).to_json());
    assert_eq!(run.at(9).decision, Verdict::Halt, "{}", run.at(9).to_json());
    assert_eq!(run.at(9).trips[0].limit, 5);
}

fn released(times: usize) -> History {
    History::under(only("visits", json!({"limit": 1}))).begins("test").times(times, |history, _| {
        history.begins("test").release("visits", "grant").with(json!({"n": 1})).begins("test")
    })
}

#[test]
fn after_five_releases_the_next_trip_is_a_halt() {
    for (times, verdict) in [(4, Verdict::Block), (5, Verdict::Halt)] {
        let run = released(times).begins("test").run();
        assert_eq!(run.last().decision, verdict, "{}", run.last().to_json());
    }
    let policy = json!({"preset": "off", "guards": {"visits": {"limit": 1}}, "releases": {"ceiling": 1}});
    let run = History::under(policy)
        .begins("test")
        .begins("test")
        .release("visits", "reset")
        .times(2, |history, _| history.begins("test"))
        .run();
    assert_eq!(run.last().decision, Verdict::Halt, "the policy may lower the ceiling");
}

#[test]
fn the_sixth_release_does_not_lift_the_halt() {
    let run = released(5).begins("test").release("visits", "reset").begins("test").run();
    assert_eq!(run.last().decision, Verdict::Halt);
    assert_eq!(run.last().state, Status::Halted);
    let report = run.sessions.get("s1").map(|session| session.state().report(session.policy()));
    assert_eq!(report.unwrap().releases["visits"], 5);
}

/// The contract, section 4: the ceiling holds. A person whose release has no effect must be told so.
#[test]
fn the_sixth_release_says_that_it_is_refused() {
    let history = released(5).begins("test").release("visits", "grant");
    let run = history.run();
    let decision = run.last();
    assert_eq!(decision.decision, Verdict::Block, "{}", decision.to_json());
    assert_eq!((decision.trips[0].count, decision.trips[0].limit), (5, 5));
    assert_eq!(decision.trips[0].message, "'visits' was released 5 times, as often as the policy allows");
}

#[test]
fn releases_of_one_guard_do_not_count_for_another() {
    let run = released(5).run();
    assert_eq!(run.last().state, Status::Running);
    let history = released(5).release("repetition", "grant").times(3, |history, _| history.begins("other"));
    let run = history.run();
    assert_eq!(run.at(run.decisions.len() - 3).decision, Verdict::Allow, "{}", run.last().to_json());
}

#[test]
fn a_halt_is_latched_and_facts_are_recorded() {
    let history = History::new()
        .diff("same")
        .diff("same")
        .ask("bash", json!({"command": "ls"}))
        .says("may I?")
        .event("tool.finished", json!({"call": "old", "tool": "bash", "ok": true, "output": "x"}))
        .event("progress", json!({"signal": "diff", "content": "same"}))
        .human("hello?")
        .go("a", "b")
        .release("stall", "reset")
        .ask("bash", json!({"command": "pwd"}));
    let run = history.run();
    assert_eq!(run.at(3).decision, Verdict::Halt);
    for asks in [4, 5, 9] {
        let decision = run.at(asks);
        assert_eq!(decision.decision, Verdict::Halt, "{}", decision.to_json());
        assert_eq!(
            (decision.trips[0].guard.as_str(), decision.trips[0].reason.as_str()),
            ("stall", "stalled")
        );
        assert_eq!(decision.trips[0].evidence.events, [3], "it names the event that halted");
        assert!(decision.effects.is_empty(), "told once");
    }
    for fact in [6, 7, 8] {
        let decision = run.at(fact);
        assert_eq!(
            (decision.decision, decision.state),
            (Verdict::Allow, Status::Halted),
            "{}",
            decision.to_json()
        );
        assert_eq!(decision.seq, fact as u64, "it is recorded");
    }
    assert_eq!((run.at(11).decision, run.at(11).state), (Verdict::Allow, Status::Running));
}

#[test]
fn a_person_stops_a_session_and_lets_it_go_on() {
    let history = History::new()
        .event("human.stopped", json!({"by": "alice", "why": "lunch"}))
        .ask("bash", json!({"command": "ls"}))
        .event("human.stopped", json!({"by": "alice", "why": "still lunch"}))
        .release("human", "grant")
        .ask("bash", json!({"command": "ls"}));
    let run = check(
        "stopped",
        &history,
        &[trips("human", "user_stop", Halt).at(2).because("user_stop").message("stopped by alice: lunch")],
    );
    assert_eq!(run.effects(2), ["loop.halted"]);
    assert_eq!(run.at(3).decision, Verdict::Halt);
    assert_eq!(run.effects(4), [""; 0], "halted already");
    assert_eq!((run.at(6).decision, run.at(6).state), (Verdict::Allow, Status::Running));
}

#[test]
fn a_block_that_needs_a_person_sets_a_label_and_its_release_takes_it_away() {
    let run = visits(6).release("visits", "keep").begins("test").run();
    assert_eq!(run.effects(6), ["label.added"]);
    assert_eq!(run.at(6).effects[0].fields["label"], "flyball-hitl:loop-prevention");
    assert_eq!(run.effects(7), [""; 0], "set once");
    assert_eq!(run.effects(8), ["label.removed"]);
    assert_eq!(run.at(8).effects[0].fields["label"], "flyball-hitl:loop-prevention");
    assert_eq!(run.effects(9), ["label.added"], "and again when it stops again");
    let policy = json!({"preset": "off", "guards": {"visits": {"limit": 1}}, "labels": {"prefix": "team-"}});
    let run = History::under(policy).begins("a").begins("a").run();
    assert_eq!(run.at(3).effects[0].fields["label"], "team-hitl:loop-prevention");
    let policy = json!({"preset": "off", "guards": {"visits": {"limit": 1}}, "escalate": false});
    let run = History::under(policy).begins("a").begins("a").run();
    assert_eq!(
        (run.at(3).state, run.effects(3).len()),
        (Status::Blocked, 0),
        "blocked, and nobody is called"
    );
}

#[test]
fn the_policy_may_want_somebody_told() {
    let run = History::under(json!({"notify": true})).diff("same").diff("same").run();
    assert_eq!(run.effects(3), ["loop.halted", "notify"]);
}

#[test]
fn effects_have_keys_of_their_own() {
    let run = History::under(json!({"notify": true})).diff("same").diff("same").run();
    let keys: Vec<&str> = run.at(3).effects.iter().map(|effect| effect.key.as_str()).collect();
    assert_eq!(keys, ["s1/3/0", "s1/3/1"]);
}

#[test]
fn a_warning_comes_before_the_end() {
    for limit in capacities().into_iter().filter(|limit| limit.guard != "repetition") {
        let run = (limit.history)(limit.n).run();
        let warned: Vec<usize> = run
            .trips_of(limit.guard)
            .iter()
            .filter(|(_, trip)| trip.severity == Warn)
            .map(|(at, _)| *at)
            .collect();
        // The history begins with event 1, so act N - 1 is event N.
        assert_eq!(warned, [limit.n], "{}: once, with one act left", limit.name);
    }
}

/// The model is told how much is left to it, in a fixed sentence.
#[test]
fn feedback_says_how_much_is_left() {
    let ls = |history: History| history.ask("bash", json!({"command": "ls"}));
    for (history, told) in [
        (History::new().times(3, |h, _| ls(h)), "2 more will run, then it is blocked."),
        (History::new().times(5, |h, _| ls(h)), "0 more will run, then it is blocked."),
        (visits(3), "'test' may be visited once more after this."),
        (edges(3), "The way from 'fix' to 'test' may be taken once more after this."),
        (History::new().gate(&[("tests", Some("x"))]), "4 attempts are left."),
        (History::new().attempt("pay"), "(attempt 1 of 3)"),
        (budget(json!({"session": {"turns": 4}})).times(3, |h, _| h.begins("a")), "3 of 4 turns"),
    ] {
        let run = history.run();
        let feedback = run.last().feedback.clone().unwrap_or_default();
        assert!(feedback.contains(told), "{told}: {feedback}");
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
        let mut run = History::under("observe").run();
        for line in lines.iter().skip(1) {
            let decision = run.step(line);
            assert_eq!(decision.decision, Verdict::Allow, "{}: {}", limit.name, decision.to_json());
            assert_eq!((decision.state, decision.feedback), (Status::Running, None));
        }
        assert!(!run.trips_of(limit.guard).is_empty(), "{} is reported", limit.name);
    }
}

#[test]
fn off_is_off() {
    for limit in failures() {
        let lines = (limit.history)(limit.n).run().lines;
        let mut run = History::under("off").run();
        for line in lines.iter().skip(1) {
            let decision = run.step(&serde_json::from_str(line).unwrap());
            assert!(decision.trips.is_empty(), "{}: {}", limit.name, decision.to_json());
        }
    }
}

#[test]
fn a_release_of_a_guard_that_does_not_exist_is_an_error_with_a_suggestion() {
    let mut run = History::new().run();
    let before = run.digest("s1");
    let error =
        run.try_step(&json!({"type": "human.released", "session": "s1", "guard": "repitition"})).unwrap_err();
    assert_eq!((error.code.as_str(), error.advice.as_str()), ("wrong_type", "did you mean `repetition`?"));
    assert_eq!(run.digest("s1"), before, "nothing changed");
}

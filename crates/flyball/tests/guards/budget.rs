//! `budget` of a session: time, turns, iterations, tokens, cost and calls.

use crate::harness::{
    Block, EventHistory, GuardCase, Halt, Warn, case, check, check_all, check_fixtures, never, ok, quiet,
    trips,
};
use flyball::{SessionPhase, Verdict};
use serde_json::{Value, json};

const HOUR: u64 = 3_600_000;

/// A policy with budgets only.
pub(crate) fn budget_policy(keys: Value) -> Value {
    json!({"preset": "off", "budgets": keys})
}

fn session_budget_policy(keys: Value) -> Value {
    budget_policy(json!({"session": keys}))
}

fn letter_name(at: usize) -> String {
    char::from(b'a' + u8::try_from(at % 26).unwrap_or(0)).to_string().repeat(at / 26 + 1)
}

fn calls(history: EventHistory, n: usize) -> EventHistory {
    history
        .times(n, |history, i| history.call("read_file", json!({"path": letter_name(i)}), ok(letter_name(i))))
}

fn spends(history: EventHistory, usage: Value) -> EventHistory {
    history.event("assistant.message", json!({"text": "", "usage": usage}))
}

fn must_trip() -> Vec<GuardCase> {
    vec![
        case(
            "a session may be active for four hours and not a millisecond longer",
            calls(EventHistory::new().at_time(0), 1)
                .at_time(4 * HOUR)
                .request("read_file", json!({"path": "x"}))
                .at_time(4 * HOUR + 1)
                .request("read_file", json!({"path": "y"})),
            [
                trips("budget", "max_runtime", Warn).at(4),
                trips("budget", "max_runtime", Halt)
                    .at(5)
                    .count(4 * HOUR + 1, 4 * HOUR)
                    .halt_reason("budget_exceeded")
                    .events(&[5])
                    .state(SessionPhase::Halted)
                    .message("session terminated: max runtime exceeded (4h0m)"),
            ],
        ),
        case(
            "three turns are allowed, the fourth is blocked",
            EventHistory::with_policy(session_budget_policy(json!({"turns": 3})))
                .times(4, |history, _| history.start_turn("a")),
            [
                trips("budget", "max_turns", Warn).at(3),
                trips("budget", "max_turns", Halt).at(5).count(3, 3).halt_reason("budget_exceeded"),
            ],
        ),
        case(
            "three model responses are allowed, the fourth is blocked",
            calls(EventHistory::with_policy(session_budget_policy(json!({"iterations": 3}))), 4),
            [trips("budget", "max_iterations", Halt).at(8).count(3, 3)],
        ),
        case(
            "three tool calls are allowed, the fourth is blocked",
            calls(EventHistory::with_policy(session_budget_policy(json!({"tool_calls": 3}))), 4),
            [trips("budget", "max_steps", Halt).at(8).count(3, 3)],
        ),
        case(
            "more tokens than allowed",
            spends(
                spends(
                    EventHistory::with_policy(session_budget_policy(json!({"tokens": 1000}))),
                    json!({"tokens_in": 600, "tokens_out": 300}),
                ),
                json!({"tokens_out": 101}),
            ),
            [
                trips("budget", "max_tokens", Warn).at(2).count(900, 1000),
                trips("budget", "max_tokens", Halt).at(3).count(1001, 1000).halt_reason("budget_exceeded"),
            ],
        ),
        case(
            "more money than allowed",
            spends(
                EventHistory::with_policy(session_budget_policy(json!({"cost_usd": 2.50}))),
                json!({"cost_usd": 2.51}),
            ),
            [trips("budget", "max_cost", Halt)
                .at(2)
                .count(2_510_000, 2_500_000)
                .message("the session has used $2.51 of $2.50")],
        ),
        case(
            "waiting counts toward wall-clock time, if the policy limits it",
            calls(EventHistory::with_policy(session_budget_policy(json!({"wall": "1h"}))).at_time(0), 1)
                .at_time(HOUR + 1)
                .user_message("good morning"),
            [trips("budget", "max_runtime", Halt).at(4).count(HOUR + 1, HOUR).halt_reason("budget_exceeded")],
        ),
    ]
}

fn must_not_trip() -> Vec<GuardCase> {
    vec![
        case(
            "waiting for a person is not active time",
            calls(EventHistory::new().at_time(0), 1)
                .at_time(100 * HOUR)
                .user_message("good morning")
                .request("read_file", json!({"path": "x"})),
            [quiet("budget")],
        ),
        case(
            "three turns of three",
            EventHistory::with_policy(session_budget_policy(json!({"turns": 3})))
                .times(3, |history, _| history.start_turn("a")),
            [never("budget", Block)],
        ),
        case(
            "exactly all tokens",
            spends(
                EventHistory::with_policy(session_budget_policy(json!({"tokens": 1000}))),
                json!({"tokens_in": 1000}),
            ),
            [never("budget", Block)],
        ),
        case(
            "parallel calls of one response are one iteration",
            calls(EventHistory::with_policy(session_budget_policy(json!({"iterations": 3}))).round(1), 6),
            [quiet("budget")],
        ),
        case("a hundred calls without a call budget", calls(EventHistory::new(), 100), [quiet("budget")]),
        case(
            "0 and off mean no limit",
            calls(
                EventHistory::with_policy(session_budget_policy(
                    json!({"turns": 0, "iterations": "off", "tokens": 0, "cost_usd": 0, "runtime": "off"}),
                ))
                .at_time(0),
                3,
            )
            .after_ms(1_000 * HOUR)
            .request("read_file", json!({"path": "x"})),
            [quiet("budget")],
        ),
    ]
}

#[test]
fn session_budgets_trip_when_exceeded() {
    check_all(&must_trip());
}

#[test]
fn session_budgets_do_not_trip_within_limits() {
    check_all(&must_not_trip());
}

#[test]
fn budgets_obey_their_mode() {
    for (mode, verdict) in [
        ("observe", Verdict::Allow),
        ("warn", Verdict::Warn),
        ("block", Verdict::Block),
        ("halt", Verdict::Halt),
        ("staged", Verdict::Halt),
        ("off", Verdict::Allow),
    ] {
        let policy = budget_policy(json!({"mode": mode, "session": {"turns": 2}}));
        let run = EventHistory::with_policy(policy).times(3, |history, _| history.start_turn("a")).run();
        assert_eq!(run.last().decision, verdict, "{mode}: {}", run.last().to_json());
        assert_eq!(run.last().trips.is_empty(), mode == "off");
    }
}

#[test]
fn budget_trip_names_its_budget() {
    let run = EventHistory::with_policy(session_budget_policy(json!({"turns": 1})))
        .start_turn("a")
        .start_turn("a")
        .run();
    let budget = run.last().trips[0].budget.clone().unwrap();
    assert_eq!(
        (budget.scope.as_str(), budget.name.as_str(), budget.limit, budget.used),
        ("session", "turns", 1, 1)
    );
    let halted = &run.last().effects[0];
    assert_eq!(halted.fields["budget"], json!({"scope": "session", "name": "turns", "limit": 1, "used": 1}));
    assert_eq!(halted.fields["haltReason"], "budget_exceeded");
    assert!(run.last().trips[0].suggested_actions.contains(&"raise_budget".to_owned()));
}

#[test]
fn budget_warning_is_given_once() {
    let policy = session_budget_policy(json!({"tokens": 1000}));
    let run = EventHistory::with_policy(policy)
        .times(9, |history, _| spends(history, json!({"tokens_in": 105})))
        .run();
    let warned: Vec<usize> = run.trips_of("budget").iter().map(|(at, _)| *at).collect();
    assert_eq!(warned, [9], "warned once, at 80 percent");
}

/// An event without `at` has no known time; it is not the year 1970.
#[test]
fn first_timestamp_after_untimed_events_starts_the_clock() {
    let history = EventHistory::new()
        .request("read_file", json!({"path": "x"}))
        .at_time(1_767_225_600_000)
        .finish(ok("text"));
    check("the first event had no timestamp", &history, &[quiet("budget")]);
}

/// Continuation after a halt by each budget, and the grant that a default release reports.
fn cases_for_each_budget() -> Vec<(&'static str, EventHistory, &'static str)> {
    let tokens = json!({"tokens_in": 500});
    let dollars = json!({"cost_usd": 5.0});
    let begin =
        |keys: Value| EventHistory::with_policy(budget_policy(keys)).at_time(0).for_node("a").start_turn("a");
    vec![
        (
            "runtime",
            begin(json!({"session": {"runtime": 2_000}, "turn": {"timeout": "10m"}}))
                .after_ms(3_000)
                .start_turn("b"),
            "granted 10m0s more runtime to the session: 10m3s in total, 3s used",
        ),
        (
            "runtime of four hours",
            begin(json!({"session": {"runtime": "4h"}})).after_ms(4 * HOUR + 60_000).start_turn("b"),
            "granted 1h12m more runtime to the session: 5h13m in total, 4h1m used",
        ),
        (
            "wall",
            begin(json!({"session": {"wall": 2_000}})).after_ms(3_000).start_turn("b"),
            "granted 10m0s more wall-clock time to the session: 10m3s in total, 3s used",
        ),
        (
            "turn timeout",
            begin(json!({"turn": {"timeout": 2_000}})).after_ms(3_000).request("bash", json!({})),
            "granted 2s more time to a turn of node 'a': 5s in total, 3s used",
        ),
        (
            "tokens",
            spends(begin(json!({"session": {"tokens": 100}})), tokens.clone()),
            "granted 500 more tokens to the session: 1000 in total, 500 used",
        ),
        (
            "tokens of a turn",
            spends(begin(json!({"turn": {"tokens": 100}})), tokens),
            "granted 500 more tokens to a turn of node 'a': 1000 in total, 500 used",
        ),
        (
            "cost",
            spends(begin(json!({"session": {"cost_usd": 1}})), dollars),
            "granted $5.00 more to the session: $10.00 in total, $5.00 used",
        ),
        (
            "turns",
            begin(json!({"session": {"turns": 1}})).start_turn("a"),
            "granted 3 more turns to the session: 4 in total, 1 used",
        ),
        (
            "turns of a node",
            begin(json!({"node": {"turns": 1}})).start_turn("a"),
            "granted 3 more turns to node 'a': 4 in total, 1 used",
        ),
        (
            "tool calls",
            begin(json!({"session": {"tool_calls": 1}}))
                .call("x", json!({}), ok("1"))
                .request("y", json!({})),
            "granted 3 more tool calls to the session: 4 in total, 1 used",
        ),
        (
            "iterations",
            begin(json!({"session": {"iterations": 1}}))
                .round(1)
                .call("x", json!({}), ok("1"))
                .round(2)
                .request("y", json!({})),
            "granted 3 more iterations to the session: 4 in total, 1 used",
        ),
    ]
}

#[test]
fn default_release_allows_one_more_step_and_reports_the_grant() {
    for (name, stopped, text) in cases_for_each_budget() {
        assert_eq!(stopped.clone().run().last().state, SessionPhase::Halted, "{name}");
        // No matter how long the person took and which facts arrived meanwhile.
        let late = spends(stopped.after_ms(5 * HOUR), json!({"tokens_in": 1}));
        let released = late.event("human.released", json!({"why": "go on"}));
        let run = released.clone().run();
        assert_eq!(run.last().state, SessionPhase::Running, "{name}");
        let effect = run.last().effects.iter().find(|effect| effect.effect == "budget.raised").expect(name);
        assert_eq!(effect.fields["text"], text, "{name}");
        for next in [
            released.clone().after_ms(1).start_turn("a"),
            released.clone().after_ms(1).round(9).call("z", json!({}), ok("1")),
            released.clone().after_ms(9 * HOUR).event("turn.started", json!({"idle": true})),
        ] {
            let decision = next.run().last().clone();
            assert!(decision.decision < Verdict::Block, "{name}: {}", decision.to_json());
        }
    }
}

#[test]
fn two_budgets_exhausted_together_are_both_raised() {
    let keys = json!({"session": {"turns": 1, "tokens": 10, "runtime": 1_000}, "node": {"turns": 1}});
    let stopped = spends(
        EventHistory::with_policy(budget_policy(keys)).at_time(0).for_node("a").start_turn("a"),
        json!({"tokens_in": 10}),
    )
    .after_ms(2_000)
    .start_turn("a");
    let run = stopped.clone().event("human.released", json!({"why": "go on"})).start_turn("a").run();
    assert!(run.last().decision < Verdict::Block, "{}", run.last().to_json());
    assert_eq!(run.at(5).effects.len(), 3, "{}", run.at(5).to_json());
}

#[test]
fn an_interrupted_turn_is_no_failure_and_no_progress() {
    let history = EventHistory::new().at_time(0).for_node("a").start_turn("a");
    let cut = history.times(9, |history, _| {
        history
            .event("turn.interrupted", json!({"step": "command"}))
            .event("turn.resumed", json!({"step": "command"}))
    });
    check("interrupted repeatedly", &cut, &[crate::harness::silent()]);
    let runtime = EventHistory::with_policy(session_budget_policy(json!({"runtime": 1_000})))
        .at_time(0)
        .start_turn("a")
        .after_ms(1_001);
    let tripped = runtime.event("turn.interrupted", json!({"step": "command"}));
    check("it must use time", &tripped, &[trips("budget", "max_runtime", Halt).at(3)]);
}

#[test]
fn budget_fixtures_are_current() {
    check_fixtures("budget", &must_trip()[0], &must_not_trip()[0]);
}

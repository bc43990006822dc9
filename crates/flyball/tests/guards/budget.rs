//! `budget` of a session: time, turns, iterations, tokens, cost and calls.

use crate::kit::{
    Block, Case, Halt, History, Warn, case, check, check_all, keep_fixtures, never, ok, quiet, trips,
};
use flyball::{Status, Verdict};
use serde_json::{Value, json};

const HOUR: u64 = 3_600_000;

/// Nothing but budgets.
pub(crate) fn budgets(keys: Value) -> Value {
    json!({"preset": "off", "budgets": keys})
}

fn session(keys: Value) -> Value {
    budgets(json!({"session": keys}))
}

fn word(at: usize) -> String {
    char::from(b'a' + u8::try_from(at % 26).unwrap_or(0)).to_string().repeat(at / 26 + 1)
}

fn calls(history: History, n: usize) -> History {
    history.times(n, |history, i| history.call("read_file", json!({"path": word(i)}), ok(word(i))))
}

fn spends(history: History, usage: Value) -> History {
    history.event("assistant.message", json!({"text": "", "usage": usage}))
}

fn must_trip() -> Vec<Case> {
    vec![
        case(
            "a session may work for four hours and not a millisecond longer",
            calls(History::new().clock(0), 1)
                .clock(4 * HOUR)
                .ask("read_file", json!({"path": "x"}))
                .clock(4 * HOUR + 1)
                .ask("read_file", json!({"path": "y"})),
            [
                trips("budget", "max_runtime", Warn).at(4),
                trips("budget", "max_runtime", Halt)
                    .at(5)
                    .count(4 * HOUR + 1, 4 * HOUR)
                    .because("budget_exceeded")
                    .events(&[5])
                    .state(Status::Halted)
                    .message("session terminated: max runtime exceeded (4h0m)"),
            ],
        ),
        case(
            "three turns are allowed, the fourth is refused",
            History::under(session(json!({"turns": 3}))).times(4, |history, _| history.begins("a")),
            [
                trips("budget", "max_turns", Warn).at(3),
                trips("budget", "max_turns", Halt).at(5).count(3, 3).because("budget_exceeded"),
            ],
        ),
        case(
            "three answers of the model are allowed, the fourth is refused",
            calls(History::under(session(json!({"iterations": 3}))), 4),
            [trips("budget", "max_iterations", Halt).at(8).count(3, 3)],
        ),
        case(
            "three tool calls are allowed, the fourth is refused",
            calls(History::under(session(json!({"tool_calls": 3}))), 4),
            [trips("budget", "max_steps", Halt).at(8).count(3, 3)],
        ),
        case(
            "more tokens than allowed",
            spends(
                spends(
                    History::under(session(json!({"tokens": 1000}))),
                    json!({"tokens_in": 600, "tokens_out": 300}),
                ),
                json!({"tokens_out": 101}),
            ),
            [
                trips("budget", "max_tokens", Warn).at(2).count(900, 1000),
                trips("budget", "max_tokens", Halt).at(3).count(1001, 1000).because("budget_exceeded"),
            ],
        ),
        case(
            "more money than allowed",
            spends(History::under(session(json!({"cost_usd": 2.50}))), json!({"cost_usd": 2.51})),
            [trips("budget", "max_cost", Halt)
                .at(2)
                .count(2_510_000, 2_500_000)
                .message("the session has used $2.51 of $2.50")],
        ),
        case(
            "by the clock on the wall waiting counts too, if the policy says so",
            calls(History::under(session(json!({"wall": "1h"}))).clock(0), 1)
                .clock(HOUR + 1)
                .human("good morning"),
            [trips("budget", "max_runtime", Halt).at(4).count(HOUR + 1, HOUR).because("budget_exceeded")],
        ),
    ]
}

fn must_not_trip() -> Vec<Case> {
    vec![
        case(
            "waiting for a person is not work",
            calls(History::new().clock(0), 1)
                .clock(100 * HOUR)
                .human("good morning")
                .ask("read_file", json!({"path": "x"})),
            [quiet("budget")],
        ),
        case(
            "three turns of three",
            History::under(session(json!({"turns": 3}))).times(3, |history, _| history.begins("a")),
            [never("budget", Block)],
        ),
        case(
            "all tokens, and not one more",
            spends(History::under(session(json!({"tokens": 1000}))), json!({"tokens_in": 1000})),
            [never("budget", Block)],
        ),
        case(
            "parallel calls of one answer are one iteration",
            calls(History::under(session(json!({"iterations": 3}))).round(1), 6),
            [quiet("budget")],
        ),
        case("a hundred calls, no budget for them", calls(History::new(), 100), [quiet("budget")]),
        case(
            "0 and off mean no limit",
            calls(
                History::under(session(
                    json!({"turns": 0, "iterations": "off", "tokens": 0, "cost_usd": 0, "runtime": "off"}),
                ))
                .clock(0),
                3,
            )
            .later(1_000 * HOUR)
            .ask("read_file", json!({"path": "x"})),
            [quiet("budget")],
        ),
    ]
}

#[test]
fn session_budgets_trip() {
    check_all(&must_trip());
}

#[test]
fn session_budgets_do_not_trip() {
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
        let policy = budgets(json!({"mode": mode, "session": {"turns": 2}}));
        let run = History::under(policy).times(3, |history, _| history.begins("a")).run();
        assert_eq!(run.last().decision, verdict, "{mode}: {}", run.last().to_json());
        assert_eq!(run.last().trips.is_empty(), mode == "off");
    }
}

#[test]
fn a_budget_trip_says_which_budget() {
    let run = History::under(session(json!({"turns": 1}))).begins("a").begins("a").run();
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
fn the_warning_before_the_end_comes_once() {
    let policy = session(json!({"tokens": 1000}));
    let run = History::under(policy).times(9, |history, _| spends(history, json!({"tokens_in": 105}))).run();
    let warned: Vec<usize> = run.trips_of("budget").iter().map(|(at, _)| *at).collect();
    assert_eq!(warned, [9], "at 80 percent, and not again");
}

/// The time of an event without `at` is not known here; it is not the year 1970.
#[test]
fn a_time_that_comes_late_does_not_make_the_session_old() {
    let history =
        History::new().ask("read_file", json!({"path": "x"})).clock(1_767_225_600_000).finish(ok("text"));
    check("the first event had no time", &history, &[quiet("budget")]);
}

/// What is left to do after a halt by each budget, and what a default release says that it grants.
fn stopped_by_each_budget() -> Vec<(&'static str, History, &'static str)> {
    let tokens = json!({"tokens_in": 500});
    let dollars = json!({"cost_usd": 5.0});
    let begin = |keys: Value| History::under(budgets(keys)).clock(0).by("a").begins("a");
    vec![
        (
            "runtime",
            begin(json!({"session": {"runtime": 2_000}, "turn": {"timeout": "10m"}}))
                .later(3_000)
                .begins("b"),
            "granted 10m0s more runtime to the session: 10m3s in all, 3s used",
        ),
        (
            "runtime of four hours",
            begin(json!({"session": {"runtime": "4h"}})).later(4 * HOUR + 60_000).begins("b"),
            "granted 1h12m more runtime to the session: 5h13m in all, 4h1m used",
        ),
        (
            "wall",
            begin(json!({"session": {"wall": 2_000}})).later(3_000).begins("b"),
            "granted 10m0s more wall-clock time to the session: 10m3s in all, 3s used",
        ),
        (
            "turn timeout",
            begin(json!({"turn": {"timeout": 2_000}})).later(3_000).ask("bash", json!({})),
            "granted 2s more time to a turn of node 'a': 5s in all, 3s used",
        ),
        (
            "tokens",
            spends(begin(json!({"session": {"tokens": 100}})), tokens.clone()),
            "granted 500 more tokens to the session: 1000 in all, 500 used",
        ),
        (
            "tokens of a turn",
            spends(begin(json!({"turn": {"tokens": 100}})), tokens),
            "granted 500 more tokens to a turn of node 'a': 1000 in all, 500 used",
        ),
        (
            "cost",
            spends(begin(json!({"session": {"cost_usd": 1}})), dollars),
            "granted $5.00 more to the session: $10.00 in all, $5.00 used",
        ),
        (
            "turns",
            begin(json!({"session": {"turns": 1}})).begins("a"),
            "granted 3 more turns to the session: 4 in all, 1 used",
        ),
        (
            "turns of a node",
            begin(json!({"node": {"turns": 1}})).begins("a"),
            "granted 3 more turns to node 'a': 4 in all, 1 used",
        ),
        (
            "tool calls",
            begin(json!({"session": {"tool_calls": 1}})).call("x", json!({}), ok("1")).ask("y", json!({})),
            "granted 3 more tool calls to the session: 4 in all, 1 used",
        ),
        (
            "iterations",
            begin(json!({"session": {"iterations": 1}}))
                .round(1)
                .call("x", json!({}), ok("1"))
                .round(2)
                .ask("y", json!({})),
            "granted 3 more iterations to the session: 4 in all, 1 used",
        ),
    ]
}

#[test]
fn a_default_release_is_enough_for_one_more_step_and_says_what_it_grants() {
    for (name, stopped, text) in stopped_by_each_budget() {
        assert_eq!(stopped.clone().run().last().state, Status::Halted, "{name}");
        // However long the person took, and whatever facts arrived meanwhile.
        let late = spends(stopped.later(5 * HOUR), json!({"tokens_in": 1}));
        let released = late.event("human.released", json!({"why": "go on"}));
        let run = released.clone().run();
        assert_eq!(run.last().state, Status::Running, "{name}");
        let effect = run.last().effects.iter().find(|effect| effect.effect == "budget.raised").expect(name);
        assert_eq!(effect.fields["text"], text, "{name}");
        for next in [
            released.clone().later(1).begins("a"),
            released.clone().later(1).round(9).call("z", json!({}), ok("1")),
            released.clone().later(9 * HOUR).event("turn.started", json!({"idle": true})),
        ] {
            let decision = next.run().last().clone();
            assert!(decision.decision < Verdict::Block, "{name}: {}", decision.to_json());
        }
    }
}

#[test]
fn two_budgets_that_are_used_up_at_once_are_both_raised() {
    let keys = json!({"session": {"turns": 1, "tokens": 10, "runtime": 1_000}, "node": {"turns": 1}});
    let stopped =
        spends(History::under(budgets(keys)).clock(0).by("a").begins("a"), json!({"tokens_in": 10}))
            .later(2_000)
            .begins("a");
    let run = stopped.clone().event("human.released", json!({"why": "go on"})).begins("a").run();
    assert!(run.last().decision < Verdict::Block, "{}", run.last().to_json());
    assert_eq!(run.at(5).effects.len(), 3, "{}", run.at(5).to_json());
}

#[test]
fn an_interrupted_turn_is_no_failure_and_no_progress() {
    let history = History::new().clock(0).by("a").begins("a");
    let cut = history.times(9, |history, _| {
        history
            .event("turn.interrupted", json!({"step": "command"}))
            .event("turn.resumed", json!({"step": "command"}))
    });
    check("cut again and again", &cut, &[crate::kit::silent()]);
    let runtime = History::under(session(json!({"runtime": 1_000}))).clock(0).begins("a").later(1_001);
    let tripped = runtime.event("turn.interrupted", json!({"step": "command"}));
    check("it uses time", &tripped, &[trips("budget", "max_runtime", Halt).at(3)]);
}

#[test]
fn fixtures_of_budget() {
    keep_fixtures("budget", &must_trip()[0], &must_not_trip()[0]);
}

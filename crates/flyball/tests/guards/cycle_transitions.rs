//! `cycle` on transitions: repeated blocks, the recurring suffix, self-loops.

use crate::harness::{
    Block, EventHistory, GuardCase, Halt, case, check, check_all, check_modes, only_guard, quiet, trips,
};
use flyball::{SessionPhase, Verdict};
use serde_json::{Value, json};

fn cycle_only() -> Value {
    only_guard("cycle", json!({}))
}

fn suffix_rule_only(length: u64) -> Value {
    only_guard("cycle", json!({"transitions": {"suffix_length": length, "max_period": "off"}}))
}

fn must_trip() -> Vec<GuardCase> {
    vec![
        case(
            "fix and test alternate: the transition that would complete the third pass is blocked",
            EventHistory::with_policy(cycle_only()).transitions_along("fix>test>fix>test>fix>test>fix"),
            [trips("cycle", "cycle_detected", Block)
                .at(7)
                .count(3, 3)
                .events(&[2, 3, 4, 5, 6, 7])
                .state(SessionPhase::Blocked)
                .message("Oscillating cycle detected: fix→test→fix→test→fix→test→fix")],
        ),
        case(
            "the documented example of length 2 is blocked at its fourth transition",
            EventHistory::with_policy(suffix_rule_only(2)).transitions_along("fix>test>fix>test>fix"),
            [trips("cycle", "cycle_detected", Block)
                .at(5)
                .message("Oscillating cycle detected: fix→test→fix→test→fix")],
        ),
        case(
            "the documented example of length 3 is blocked at its seventh transition",
            EventHistory::with_policy(suffix_rule_only(3)).transitions_along("A>B>C>B>A>B>C>B"),
            [trips("cycle", "cycle_detected", Block).at(8)],
        ),
        case(
            "Issue-789 is blocked at its seventh transition",
            EventHistory::with_policy(cycle_only())
                .transitions_along("plan>implement>test>fix>implement>test>fix>implement"),
            [trips("cycle", "cycle_detected", Block).at(8)],
        ),
        case(
            "a cycle of three is detected by the block rule at the ninth transition",
            EventHistory::with_policy(only_guard("cycle", json!({"transitions": {"suffix_length": "off"}})))
                .transitions_along("A>B>C>A>B>C>A>B>C>A"),
            [trips("cycle", "cycle_detected", Block).at(10).count(3, 3)],
        ),
        case(
            "a cycle of four is detected by the block rule at the twelfth transition",
            EventHistory::with_policy(only_guard("cycle", json!({"transitions": {"suffix_length": "off"}})))
                .transitions_along("A>B>C>D>A>B>C>D>A>B>C>D>A"),
            [trips("cycle", "cycle_detected", Block).at(13).count(3, 3)],
        ),
        case(
            "a node may return to itself five times, not six",
            EventHistory::with_policy(cycle_only()).times(6, |history, _| history.transition("poll", "poll")),
            [trips("cycle", "cycle_detected", Block).at(7).count(6, 5)],
        ),
    ]
}

fn must_not_trip() -> Vec<GuardCase> {
    vec![
        case(
            "one rework is not a cycle",
            EventHistory::with_policy(cycle_only()).transitions_along("implement>test>fix>test>review>done"),
            [quiet("cycle")],
        ),
        case(
            "two and a half passes",
            EventHistory::with_policy(cycle_only()).transitions_along("fix>test>fix>test>fix>test"),
            [quiet("cycle")],
        ),
        case(
            "a path without repetition",
            EventHistory::with_policy(cycle_only()).transitions_along("a>b>c>d>e>f>g>h>i>j>k>l>m"),
            [quiet("cycle")],
        ),
        case(
            "a normal dialogue",
            EventHistory::with_policy(cycle_only()).transitions_along("understand>validate_slot>collect_next_slot>understand>validate_slot"),
            [quiet("cycle")],
        ),
        case(
            "each step answers a user message",
            EventHistory::with_policy(cycle_only()).times(6, |history, _| history.user_message("go on").transitions_along("fix>test>fix")),
            [quiet("cycle")],
        ),
        case(
            "five returns of a node to itself",
            EventHistory::with_policy(cycle_only()).times(5, |history, _| history.transition("poll", "poll")),
            [quiet("cycle")],
        ),
        case(
            "a node where cycles are intended",
            EventHistory::with_policy(json!({"preset": "off", "guards": {"cycle": "staged"}, "nodes": {"test": {"allow_cycles": true}}}))
                .transitions_along("fix>test>fix>test>fix>test>fix>test>fix"),
            [quiet("cycle")],
        ),
        case(
            "an edge whose cycle guard is off",
            EventHistory::with_policy(json!({"preset": "off", "guards": {"cycle": "staged"}, "edges": {"fix->test": {"cycle": "off"}, "test->fix": {"cycle": "off"}}}))
                .transitions_along("fix>test>fix>test>fix>test>fix>test>fix"),
            [quiet("cycle")],
        ),
    ]
}

#[test]
fn cycles_of_transitions_trip() {
    check_all(&must_trip());
}

#[test]
fn cycles_of_transitions_do_not_trip() {
    check_all(&must_not_trip());
}

#[test]
fn cycles_of_transitions_obey_their_mode() {
    let history = |keys| {
        EventHistory::with_policy(only_guard("cycle", keys))
            .transitions_along("fix>test>fix>test>fix>test>fix")
    };
    check_modes("cycle", history, 7);
}

#[test]
fn refused_transition_does_not_extend_the_cycle() {
    let history = EventHistory::with_policy(cycle_only())
        .transitions_along("fix>test>fix>test>fix>test")
        .times(3, |h, _| h.transition("test", "fix"));
    let run = check("requested three times", &history, &[trips("cycle", "cycle_detected", Block).at(7)]);
    let counts: Vec<u64> = run.trips_of("cycle").iter().map(|(_, trip)| trip.count).collect();
    assert_eq!(counts, [3, 3, 3], "a blocked transition does not extend the cycle");
    assert_eq!(run.effects(7), ["label.added"]);
    assert_eq!(run.effects(8), [""; 0], "the label is already set");
    assert_eq!(run.at(7).effects[0].fields["label"], "flyball-hitl:loop-prevention");
}

#[test]
fn cycle_in_halt_mode_reports_its_halt_reason() {
    let history = EventHistory::with_policy(only_guard("cycle", json!({"mode": "halt"})))
        .transitions_along("a>b>a>b>a>b>a");
    let run =
        check("halt", &history, &[trips("cycle", "cycle_detected", Halt).at(7).halt_reason("oscillating")]);
    let halted = run.at(7).effects.iter().find(|effect| effect.effect == "loop.halted").unwrap();
    assert_eq!(halted.fields["haltReason"], "oscillating");
    assert_eq!(halted.fields["evidence"]["transitionTrail"], json!(["a", "b", "a", "b", "a", "b"]));
}

/// The first transition that a policy blocks on an endless walk around these nodes, if within 60.
fn first_refusal(policy: &Value, round: &[&str]) -> Option<usize> {
    let walk = |history: EventHistory, step: usize| {
        history.transition(round[step % round.len()], round[(step + 1) % round.len()])
    };
    let run = EventHistory::with_policy(policy.clone()).times(60, walk).run();
    run.decisions.iter().skip(1).position(|decision| decision.decision >= Verdict::Block).map(|at| at + 1)
}

/// The definition of the recurring-suffix rule: with the proposed transition appended, the last L transitions occur
/// earlier, without overlap, in the last max(10, 3 L).
fn first_refusal_by_definition(round: &[&str], length: usize) -> Option<usize> {
    let mut trail: Vec<(&str, &str)> = Vec::new();
    for step in 0..60 {
        trail.push((round[step % round.len()], round[(step + 1) % round.len()]));
        let window = &trail[trail.len().saturating_sub((3 * length).max(10))..];
        if window.len() >= 2 * length {
            let (before, suffix) = window.split_at(window.len() - length);
            if before.windows(length).any(|run| run == suffix) {
                return Some(step + 1);
            }
        }
    }
    None
}

#[test]
fn a_longer_cycle_detection_length_is_less_sensitive_and_nothing_else_fires_earlier() {
    let rounds: [&[&str]; 5] =
        [&["A", "B"], &["A", "B", "C"], &["A", "B", "C", "D"], &["A", "B", "C", "D", "E"], &["A"]];
    // A and B alternate: the blocked transition, by length.
    let to_and_fro = [(2, 4), (3, 7), (4, 8), (5, 11), (6, 12), (7, 15), (8, 16), (9, 19), (10, 20)];
    for (length, expected) in to_and_fro {
        let policy = json!({"preset": "agent", "loop_prevention": {"enabled": true, "max_visits_default": "off",
            "max_transitions_default": "off", "cycle_detection_length": length}});
        assert_eq!(first_refusal(&policy, rounds[0]), Some(expected), "length {length}");
        for round in rounds {
            assert_eq!(
                first_refusal(&policy, round),
                first_refusal_by_definition(round, length as usize),
                "{length}: {round:?}"
            );
        }
    }
    // Without an explicit length the rule uses length 3, regardless of the preset.
    for preset in ["agent", "workflow", "simple", "complex", "strict", "off"] {
        let policy = json!({"preset": preset, "loop_prevention": {"cycle_detection_enabled": true,
            "max_visits_default": "off", "max_transitions_default": "off"},
            "budgets": {"message": {"transitions": "off"}, "loop": {"iterations": "off"}}});
        assert_eq!(first_refusal(&policy, rounds[0]), Some(7), "{preset}");
    }
    // Explicit values next to it apply.
    let both = json!({"loop_prevention": {"cycle_detection_length": 5, "max_visits_default": "off",
        "max_transitions_default": "off"}, "guards": {"cycle": {"transitions": {"max_period": 10}}}});
    assert_eq!(first_refusal(&both, rounds[0]), Some(6));
}

#[test]
fn issue_456_is_stopped_by_cycle_detection_at_its_eighth_transition() {
    let policy = json!({"loop_prevention": {"enabled": true, "cycle_detection_length": 3}});
    let history =
        EventHistory::with_policy(policy).transitions_along("implement>test>fix>test>fix>test>fix>test>fix");
    check("issue 456", &history, &[trips("cycle", "cycle_detected", Block).at(9)]);
}

#[test]
fn a_self_edge_that_closes_a_longer_cycle_is_found_like_the_others() {
    // Whichever transition closes the block, the one that completes its third pass is blocked.
    let blocks = only_guard("cycle", json!({"transitions": {"suffix_length": "off"}}));
    for walk in ["A>B>A>A>B>A>A>B>A>A", "A>A>B>A>A>B>A>A>B>A", "B>A>A>B>A>A>B>A>A>B"] {
        check(
            walk,
            &EventHistory::with_policy(blocks.clone()).transitions_along(walk),
            &[trips("cycle", "cycle_detected", Block).at(10)],
        );
    }
    // Also after a few self-edges in a row.
    let walk = "A>B>A>A>A>A>B>A>A>A>A>B>A>A>A>A";
    check(
        walk,
        &EventHistory::with_policy(blocks).transitions_along(walk),
        &[trips("cycle", "cycle_detected", Block).at(16)],
    );
    // The recurring suffix detects it too, at the second pass.
    let walk = "A>B>A>A>B>A>A";
    check(
        walk,
        &EventHistory::with_policy(suffix_rule_only(3)).transitions_along(walk),
        &[trips("cycle", "cycle_detected", Block).at(7)],
    );
    // A run of self-edges is a separate class: the suffix rule leaves it to that class.
    let poll = EventHistory::with_policy(suffix_rule_only(2))
        .times(5, |history, _| history.transition("poll", "poll"));
    check("a run of self-edges", &poll, &[quiet("cycle")]);
}

#[test]
fn rules_version_1_knows_self_edges_only_as_a_class_of_their_own() {
    let mut policy = only_guard("cycle", json!({"transitions": {"suffix_length": "off"}}));
    policy["rules_version"] = json!(1);
    check(
        "version 1",
        &EventHistory::with_policy(policy).transitions_along("A>B>A>A>B>A>A>B>A>A"),
        &[quiet("cycle")],
    );
}

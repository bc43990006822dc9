//! `cycle` on transitions: blocks that repeat, the recurring suffix, self-loops.

use crate::kit::{Block, Case, Halt, History, case, check, check_all, modes, only, quiet, trips};
use flyball::{Status, Verdict};
use serde_json::{Value, json};

fn alone() -> Value {
    only("cycle", json!({}))
}

fn suffix(length: u64) -> Value {
    only("cycle", json!({"transitions": {"suffix_length": length, "max_period": "off"}}))
}

fn must_trip() -> Vec<Case> {
    vec![
        case(
            "fix and test to and fro: the transition that would complete the third pass is refused",
            History::under(alone()).walk("fix>test>fix>test>fix>test>fix"),
            [trips("cycle", "cycle_detected", Block)
                .at(7)
                .count(3, 3)
                .events(&[2, 3, 4, 5, 6, 7])
                .state(Status::Blocked)
                .message("Oscillating cycle detected: fix→test→fix→test→fix→test→fix")],
        ),
        case(
            "the seed's example of length 2 is refused at its fourth transition",
            History::under(suffix(2)).walk("fix>test>fix>test>fix"),
            [trips("cycle", "cycle_detected", Block)
                .at(5)
                .message("Oscillating cycle detected: fix→test→fix→test→fix")],
        ),
        case(
            "the seed's example of length 3 is refused at its seventh transition",
            History::under(suffix(3)).walk("A>B>C>B>A>B>C>B"),
            [trips("cycle", "cycle_detected", Block).at(8)],
        ),
        case(
            "Issue-789 is refused at its seventh transition",
            History::under(alone()).walk("plan>implement>test>fix>implement>test>fix>implement"),
            [trips("cycle", "cycle_detected", Block).at(8)],
        ),
        case(
            "three steps round are seen by the block rule at the ninth transition",
            History::under(only("cycle", json!({"transitions": {"suffix_length": "off"}})))
                .walk("A>B>C>A>B>C>A>B>C>A"),
            [trips("cycle", "cycle_detected", Block).at(10).count(3, 3)],
        ),
        case(
            "four steps round are seen by the block rule at the twelfth transition",
            History::under(only("cycle", json!({"transitions": {"suffix_length": "off"}})))
                .walk("A>B>C>D>A>B>C>D>A>B>C>D>A"),
            [trips("cycle", "cycle_detected", Block).at(13).count(3, 3)],
        ),
        case(
            "a node may return to itself five times, not six",
            History::under(alone()).times(6, |history, _| history.go("poll", "poll")),
            [trips("cycle", "cycle_detected", Block).at(7).count(6, 5)],
        ),
    ]
}

fn must_not_trip() -> Vec<Case> {
    vec![
        case(
            "one rework is not a cycle",
            History::under(alone()).walk("implement>test>fix>test>review>done"),
            [quiet("cycle")],
        ),
        case(
            "to and fro two and a half times",
            History::under(alone()).walk("fix>test>fix>test>fix>test"),
            [quiet("cycle")],
        ),
        case(
            "a straight way",
            History::under(alone()).walk("a>b>c>d>e>f>g>h>i>j>k>l>m"),
            [quiet("cycle")],
        ),
        case(
            "the seed's normal dialogue",
            History::under(alone()).walk("understand>validate_slot>collect_next_slot>understand>validate_slot"),
            [quiet("cycle")],
        ),
        case(
            "each step answers a person's message",
            History::under(alone()).times(6, |history, _| history.human("go on").walk("fix>test>fix")),
            [quiet("cycle")],
        ),
        case(
            "five returns of a node to itself",
            History::under(alone()).times(5, |history, _| history.go("poll", "poll")),
            [quiet("cycle")],
        ),
        case(
            "a node where cycles are intended",
            History::under(json!({"preset": "off", "guards": {"cycle": "staged"}, "nodes": {"test": {"allow_cycles": true}}}))
                .walk("fix>test>fix>test>fix>test>fix>test>fix"),
            [quiet("cycle")],
        ),
        case(
            "an edge whose cycle guard is off",
            History::under(json!({"preset": "off", "guards": {"cycle": "staged"}, "edges": {"fix->test": {"cycle": "off"}, "test->fix": {"cycle": "off"}}}))
                .walk("fix>test>fix>test>fix>test>fix>test>fix"),
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
    let history = |keys| History::under(only("cycle", keys)).walk("fix>test>fix>test>fix>test>fix");
    modes("cycle", history, 7);
}

#[test]
fn a_refused_transition_is_not_taken() {
    let history =
        History::under(alone()).walk("fix>test>fix>test>fix>test").times(3, |h, _| h.go("test", "fix"));
    let run = check("asked three times", &history, &[trips("cycle", "cycle_detected", Block).at(7)]);
    let counts: Vec<u64> = run.trips_of("cycle").iter().map(|(_, trip)| trip.count).collect();
    assert_eq!(counts, [3, 3, 3], "a refused transition does not make the cycle longer");
    assert_eq!(run.effects(7), ["label.added"]);
    assert_eq!(run.effects(8), [""; 0], "the label is set already");
    assert_eq!(run.at(7).effects[0].fields["label"], "flyball-hitl:loop-prevention");
}

#[test]
fn in_mode_halt_a_cycle_says_why_it_halts() {
    let history = History::under(only("cycle", json!({"mode": "halt"}))).walk("a>b>a>b>a>b>a");
    let run = check("halt", &history, &[trips("cycle", "cycle_detected", Halt).at(7).because("oscillating")]);
    let halted = run.at(7).effects.iter().find(|effect| effect.effect == "loop.halted").unwrap();
    assert_eq!(halted.fields["haltReason"], "oscillating");
    assert_eq!(halted.fields["evidence"]["transitionTrail"], json!(["a", "b", "a", "b", "a", "b"]));
}

/// At which transition of an endless walk round these nodes a policy first refuses, if within 60.
fn first_refusal(policy: &Value, round: &[&str]) -> Option<usize> {
    let walk = |history: History, step: usize| {
        history.go(round[step % round.len()], round[(step + 1) % round.len()])
    };
    let run = History::under(policy.clone()).times(60, walk).run();
    run.decisions.iter().skip(1).position(|decision| decision.decision >= Verdict::Block).map(|at| at + 1)
}

/// The recurring-suffix rule by its words: with the proposed transition appended, the last L transitions stand earlier
/// in the last max(10, 3 L) of them, without overlap.
fn by_the_rule(round: &[&str], length: usize) -> Option<usize> {
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
    // A and B take turns: the transition that is refused, by length.
    let to_and_fro = [(2, 4), (3, 7), (4, 8), (5, 11), (6, 12), (7, 15), (8, 16), (9, 19), (10, 20)];
    for (length, expected) in to_and_fro {
        let policy = json!({"preset": "agent", "loop_prevention": {"enabled": true, "max_visits_default": "off",
            "max_transitions_default": "off", "cycle_detection_length": length}});
        assert_eq!(first_refusal(&policy, rounds[0]), Some(expected), "length {length}");
        for round in rounds {
            assert_eq!(
                first_refusal(&policy, round),
                by_the_rule(round, length as usize),
                "{length}: {round:?}"
            );
        }
    }
    // Without a length its rule has the length 3, and the same holds however the preset begins.
    for preset in ["agent", "workflow", "simple", "complex", "strict", "off"] {
        let policy = json!({"preset": preset, "loop_prevention": {"cycle_detection_enabled": true,
            "max_visits_default": "off", "max_transitions_default": "off"},
            "budgets": {"message": {"transitions": "off"}, "loop": {"iterations": "off"}}});
        assert_eq!(first_refusal(&policy, rounds[0]), Some(7), "{preset}");
    }
    // What is written beside it counts.
    let both = json!({"loop_prevention": {"cycle_detection_length": 5, "max_visits_default": "off",
        "max_transitions_default": "off"}, "guards": {"cycle": {"transitions": {"max_period": 10}}}});
    assert_eq!(first_refusal(&both, rounds[0]), Some(6));
}

#[test]
fn issue_456_is_stopped_by_cycle_detection_at_its_eighth_transition() {
    let policy = json!({"loop_prevention": {"enabled": true, "cycle_detection_length": 3}});
    let history = History::under(policy).walk("implement>test>fix>test>fix>test>fix>test>fix");
    check("issue 456", &history, &[trips("cycle", "cycle_detected", Block).at(9)]);
}

#[test]
fn a_self_edge_that_closes_a_longer_cycle_is_found_like_the_others() {
    // Whichever transition closes the block: the one that completes its third pass is refused.
    let blocks = only("cycle", json!({"transitions": {"suffix_length": "off"}}));
    for walk in ["A>B>A>A>B>A>A>B>A>A", "A>A>B>A>A>B>A>A>B>A", "B>A>A>B>A>A>B>A>A>B"] {
        check(
            walk,
            &History::under(blocks.clone()).walk(walk),
            &[trips("cycle", "cycle_detected", Block).at(10)],
        );
    }
    // Also behind a few self-edges in a row.
    let walk = "A>B>A>A>A>A>B>A>A>A>A>B>A>A>A>A";
    check(walk, &History::under(blocks).walk(walk), &[trips("cycle", "cycle_detected", Block).at(16)]);
    // The recurring suffix sees it too, at the second pass.
    let walk = "A>B>A>A>B>A>A";
    check(walk, &History::under(suffix(3)).walk(walk), &[trips("cycle", "cycle_detected", Block).at(7)]);
    // One run of self-edges is a class of its own: the suffix rule leaves it to that class.
    let poll = History::under(suffix(2)).times(5, |history, _| history.go("poll", "poll"));
    check("a run of self-edges", &poll, &[quiet("cycle")]);
}

#[test]
fn rules_version_1_knows_self_edges_only_as_a_class_of_their_own() {
    let mut policy = only("cycle", json!({"transitions": {"suffix_length": "off"}}));
    policy["rules_version"] = json!(1);
    check("version 1", &History::under(policy).walk("A>B>A>A>B>A>A>B>A>A"), &[quiet("cycle")]);
}

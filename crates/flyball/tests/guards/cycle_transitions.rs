//! `cycle` on transitions: blocks that repeat, the recurring suffix, self-loops (seeds 000 and 003).

use crate::kit::{Block, Case, Halt, History, case, check, check_all, modes, only, quiet, trips};
use flyball::Status;
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
    assert_eq!(run.at(7).effects[0].fields["label"], "ashep-hitl:loop-prevention");
}

#[test]
fn in_mode_halt_a_cycle_says_why_it_halts() {
    let history = History::under(only("cycle", json!({"mode": "halt"}))).walk("a>b>a>b>a>b>a");
    let run = check("halt", &history, &[trips("cycle", "cycle_detected", Halt).at(7).because("oscillating")]);
    let halted = run.at(7).effects.iter().find(|effect| effect.effect == "loop.halted").unwrap();
    assert_eq!(halted.fields["haltReason"], "oscillating");
    assert_eq!(halted.fields["evidence"]["transitionTrail"], json!(["a", "b", "a", "b", "a", "b"]));
}

//! Scenarios that run with and without restarts: workflow, messages and expected end.

use crate::chat_harness::ChatHarness;

/// Expected end of a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ScenarioEnd {
    Done,
    Failed,
    AwaitingInput,
}

/// A scenario.
pub(crate) struct ChatScenario {
    pub(crate) name: &'static str,
    pub(crate) chat: fn() -> ChatHarness,
    pub(crate) says: &'static [&'static str],
    pub(crate) ends: ScenarioEnd,
    /// Expected lines of the bookings file.
    pub(crate) booked: &'static str,
}

fn booking() -> ChatHarness {
    ChatHarness::example("booking")
}

const REQUEST: &str = "Book a flight from Madrid to Lisbon on 2026-12-09 for 2 people";
const BOOKED: &str = "Madrid,Lisbon,2026-12-09,2\n";

/// All scenarios.
pub(crate) fn all_scenarios() -> Vec<ChatScenario> {
    let scene = |name, says, ends, booked| ChatScenario { name, chat: booking, says, ends, booked };
    let mut all = vec![
        scene("everything in one message", &[REQUEST, "yes"] as &[_], ScenarioEnd::Done, BOOKED),
        scene(
            "slot by slot, with a correction",
            &["hello", "Madrid", "Paris", "no, I meant Lisbon", "2026-12-09", "2", "yes, please"],
            ScenarioEnd::Done,
            BOOKED,
        ),
        scene(
            "in Russian, with a partial yes",
            &["Хочу билет", "из Мадрида", "в Лиссабон", "9 декабря 2026", "2", "да, но пусть будет 3", "Да"],
            ScenarioEnd::Done,
            "Мадрида,Лиссабон,2026-12-09,3\n",
        ),
        scene(
            "in Spanish, with a change",
            &[
                "Quiero volar desde Madrid a Lisboa",
                "2026-12-09",
                "dos",
                "cambia la fecha a 2026-12-10",
                "sí, adelante",
            ],
            ScenarioEnd::Done,
            "Madrid,Lisboa,2026-12-10,2\n",
        ),
        scene("cancelled at once", &["never mind"], ScenarioEnd::Done, ""),
        scene("cancelled at a slot", &["hello", "Madrid", "отмена"], ScenarioEnd::Done, ""),
        scene("cancelled at the end", &[REQUEST, "cancel"], ScenarioEnd::Done, ""),
        scene(
            "unclear, then yes",
            &[REQUEST, "the aisle", "hm", "aisle, as always", "yes"],
            ScenarioEnd::Done,
            BOOKED,
        ),
        scene(
            "given up, then started over",
            &[REQUEST, "the blue one", "near the river", "hm", "the river", REQUEST, "yes"],
            ScenarioEnd::Done,
            BOOKED,
        ),
        scene(
            "denied, and then changed",
            &[REQUEST, "no", "the date", "2026-12-11", "yes"],
            ScenarioEnd::Done,
            "Madrid,Lisbon,2026-12-11,2\n",
        ),
        scene("denied, and nothing to change", &[REQUEST, "no", "nothing", "yes"], ScenarioEnd::Done, BOOKED),
        scene(
            "questions on the side",
            &[
                "what does it cost?",
                "hello",
                "Madrid",
                "Is there luggage?",
                "Lisbon",
                "2026-12-09",
                "2",
                "what does it cost?",
                "can I smoke?",
                "yes",
            ],
            ScenarioEnd::Done,
            BOOKED,
        ),
        scene(
            "a value that does not fit",
            &["from Madrid to Lisbon", "2026-02-31", "soon", "2026-12-09", "12", "2", "yes"],
            ScenarioEnd::Done,
            BOOKED,
        ),
        scene(
            "seats that never fit",
            &["from Madrid to Lisbon on 2026-12-09", "12", "13", "14", "15", "cancel"],
            ScenarioEnd::Done,
            "",
        ),
        scene("a person is wanted", &["hello", "I want to talk to a human"], ScenarioEnd::AwaitingInput, ""),
        scene(
            "a person takes over and ends it",
            &["hello", "operator", "booked by phone"],
            ScenarioEnd::Done,
            "",
        ),
        scene("left alone", &["hello", "Madrid"], ScenarioEnd::AwaitingInput, ""),
    ];
    all.extend(workflow_variants());
    all
}

/// Scenarios with modified workflow files.
fn workflow_variants() -> Vec<ChatScenario> {
    let scene = |name, chat, says, ends, booked| ChatScenario { name, chat, says, ends, booked };
    vec![
        scene(
            "without a last question",
            || booking().with("confirm: true", "confirm: false"),
            &[REQUEST] as &[_],
            ScenarioEnd::Done,
            BOOKED,
        ),
        scene(
            "without anything to do",
            || ChatHarness::new(&two_slot_workflow("on_success: done, next: failed")),
            &["red", "2"],
            ScenarioEnd::Done,
            "",
        ),
        scene(
            "an action that does not work",
            || booking().with("argv: [sh, book.sh,", "argv: [sh, no-such-file.sh,"),
            &[REQUEST, "yes"],
            ScenarioEnd::Failed,
            "",
        ),
        scene(
            "changed too often",
            || booking().with("confirm: true", "confirm: true\n    max_changes: 1"),
            &[REQUEST, "make it 3", "make it 4"],
            ScenarioEnd::AwaitingInput,
            "",
        ),
        scene(
            "not getting on",
            || booking().with("confirm: true", "confirm: true\n    max_turns_without_progress: 3"),
            &[
                "hello",
                "Madrid",
                "what does it cost?",
                "what does it cost?",
                "luggage?",
                "what is the price?",
            ],
            ScenarioEnd::AwaitingInput,
            "",
        ),
        scene(
            "given up too often",
            || booking().with("confirm: true", "confirm: true\n    max_aborts: 2"),
            &[REQUEST, "hm", "the river", "blue", "hm", REQUEST, "hm"],
            ScenarioEnd::AwaitingInput,
            "",
        ),
    ]
}

/// A workflow with two slots, without confirmation or action.
pub(crate) fn two_slot_workflow(ways: &str) -> String {
    format!(
        "nodes:\n  - {{name: ask, kind: collect, {ways}, slots: [\n      {{name: color, ask: 'Which color?', values: [red, \
         green]}},\n      {{name: count, ask: 'How many?', kind: number}}]}}\n"
    )
}

//! Conversations that are held in one go and in pieces: the workflow, what the person says, how it ends.

use crate::kit::Chat;

/// How a conversation ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ends {
    Done,
    Failed,
    Asks,
}

/// One conversation.
pub(crate) struct Scene {
    pub(crate) name: &'static str,
    pub(crate) chat: fn() -> Chat,
    pub(crate) says: &'static [&'static str],
    pub(crate) ends: Ends,
    /// The lines of the file of bookings in the end.
    pub(crate) booked: &'static str,
}

fn booking() -> Chat {
    Chat::example("booking")
}

const REQUEST: &str = "Book a flight from Madrid to Lisbon on 2026-12-09 for 2 people";
const BOOKED: &str = "Madrid,Lisbon,2026-12-09,2\n";

/// All of them.
pub(crate) fn all() -> Vec<Scene> {
    let scene = |name, says, ends, booked| Scene { name, chat: booking, says, ends, booked };
    let mut all = vec![
        scene("everything in one message", &[REQUEST, "yes"] as &[_], Ends::Done, BOOKED),
        scene(
            "slot by slot, with a correction",
            &["hello", "Madrid", "Paris", "no, I meant Lisbon", "2026-12-09", "2", "yes, please"],
            Ends::Done,
            BOOKED,
        ),
        scene(
            "in Russian, with a partial yes",
            &["Хочу билет", "из Мадрида", "в Лиссабон", "9 декабря 2026", "2", "да, но пусть будет 3", "Да"],
            Ends::Done,
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
            Ends::Done,
            "Madrid,Lisboa,2026-12-10,2\n",
        ),
        scene("cancelled at once", &["never mind"], Ends::Done, ""),
        scene("cancelled at a slot", &["hello", "Madrid", "отмена"], Ends::Done, ""),
        scene("cancelled at the end", &[REQUEST, "cancel"], Ends::Done, ""),
        scene(
            "unclear, then yes",
            &[REQUEST, "the aisle", "hm", "aisle, as always", "yes"],
            Ends::Done,
            BOOKED,
        ),
        scene(
            "given up, then started over",
            &[REQUEST, "the blue one", "near the river", "hm", "the river", REQUEST, "yes"],
            Ends::Done,
            BOOKED,
        ),
        scene(
            "denied, and then changed",
            &[REQUEST, "no", "the date", "2026-12-11", "yes"],
            Ends::Done,
            "Madrid,Lisbon,2026-12-11,2\n",
        ),
        scene("denied, and nothing to change", &[REQUEST, "no", "nothing", "yes"], Ends::Done, BOOKED),
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
            Ends::Done,
            BOOKED,
        ),
        scene(
            "a value that does not fit",
            &["from Madrid to Lisbon", "2026-02-31", "soon", "2026-12-09", "12", "2", "yes"],
            Ends::Done,
            BOOKED,
        ),
        scene(
            "seats that never fit",
            &["from Madrid to Lisbon on 2026-12-09", "12", "13", "14", "15", "cancel"],
            Ends::Done,
            "",
        ),
        scene("a person is wanted", &["hello", "I want to talk to a human"], Ends::Asks, ""),
        scene("a person takes over and ends it", &["hello", "operator", "booked by phone"], Ends::Done, ""),
        scene("left alone", &["hello", "Madrid"], Ends::Asks, ""),
    ];
    all.extend(variants());
    all
}

/// Conversations with another file.
fn variants() -> Vec<Scene> {
    let scene = |name, chat, says, ends, booked| Scene { name, chat, says, ends, booked };
    vec![
        scene(
            "without a last question",
            || booking().with("confirm: true", "confirm: false"),
            &[REQUEST] as &[_],
            Ends::Done,
            BOOKED,
        ),
        scene(
            "without anything to do",
            || Chat::new(&small("on_success: done, next: failed")),
            &["red", "2"],
            Ends::Done,
            "",
        ),
        scene(
            "an action that does not work",
            || booking().with("argv: [sh, book.sh,", "argv: [sh, no-such-file.sh,"),
            &[REQUEST, "yes"],
            Ends::Failed,
            "",
        ),
        scene(
            "changed too often",
            || booking().with("confirm: true", "confirm: true\n    max_changes: 1"),
            &[REQUEST, "make it 3", "make it 4"],
            Ends::Asks,
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
            Ends::Asks,
            "",
        ),
        scene(
            "given up too often",
            || booking().with("confirm: true", "confirm: true\n    max_aborts: 2"),
            &[REQUEST, "hm", "the river", "blue", "hm", REQUEST, "hm"],
            Ends::Asks,
            "",
        ),
    ]
}

/// Two slots, nothing to confirm and nothing to do.
pub(crate) fn small(ways: &str) -> String {
    format!(
        "nodes:\n  - {{name: ask, kind: collect, {ways}, slots: [\n      {{name: colour, ask: 'Which colour?', values: [red, \
         green]}},\n      {{name: count, ask: 'How many?', kind: number}}]}}\n"
    )
}

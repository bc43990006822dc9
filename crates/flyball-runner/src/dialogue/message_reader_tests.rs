//! Tables of messages in three languages and their meanings, by expected reply.

use super::{ExpectedReply, MessageContext, MessageMeaning, MessageReader, SlotEdit};
use crate::dialogue::SlotMatcher;
use crate::workflow::spec::SlotSpec;
use serde_json::{Map, Value, json};

const ORIGIN: usize = 0;
const DESTINATION: usize = 1;
const DAY: usize = 2;
const SEATS: usize = 3;
const CLASS: usize = 4;

fn reader() -> MessageReader {
    let slots = json!([
        {"name": "origin", "ask": "?", "also": ["departure", "город вылета"],
         "after": ["from", "из", "desde"]},
        {"name": "destination", "ask": "?", "also": ["куда", "destino"], "after": ["to", "в", "a", "hasta"]},
        {"name": "day", "ask": "?", "kind": "date", "also": ["date", "дату", "дата", "fecha"], "after": ["on"]},
        {"name": "seats", "ask": "?", "kind": "number", "pattern": "[1-9]", "also": ["places", "мест*", "plazas"],
         "after": ["for", "на", "para"]},
        {"name": "class", "ask": "?", "values": ["economy", "business"], "also": ["класс", "clase"]},
    ]);
    let slots: Vec<SlotSpec> = serde_json::from_value(slots).expect("slots");
    let matchers = slots.iter().map(|slot| SlotMatcher::new(slot).expect("a valid slot")).collect();
    MessageReader::new(matchers, ["cost".to_owned(), "сколько сто*".to_owned(), "cuánto cuesta".to_owned()])
}

fn all_values() -> Map<String, Value> {
    let values = json!({"origin": "Madrid", "destination": "Paris", "day": "2026-12-09", "seats": 1,
        "class": "economy"});
    values.as_object().cloned().expect("a map")
}

fn read_as_text(
    text: &str,
    values: &Map<String, Value>,
    expecting: ExpectedReply,
    last: Option<usize>,
) -> String {
    let recent: Vec<usize> = last.into_iter().collect();
    let known = MessageContext { values, expecting, recently_filled: &recent };
    let names = ["origin", "destination", "day", "seats", "class"];
    match reader().read(text, &known) {
        MessageMeaning::Values(act, found) => {
            let act = match act {
                SlotEdit::Fill => "fill",
                SlotEdit::Correct => "correct",
                SlotEdit::Modify => "modify",
            };
            let mut found = found;
            found.sort_by_key(|found| found.slot);
            let found: Vec<String> =
                found.iter().map(|found| format!("{}={}", names[found.slot], found.text)).collect();
            format!("{act} {}", found.join(" "))
        }
        MessageMeaning::Change(_, slot) => format!("change {}", slot.map_or("?", |slot| names[slot])),
        MessageMeaning::SideQuestion(key) => format!("side {}", key.unwrap_or_default()),
        other => format!("{other:?}").to_lowercase(),
    }
}

fn check(values: &Map<String, Value>, expecting: ExpectedReply, last: Option<usize>, cases: &[(&str, &str)]) {
    let mismatch = |(text, expected): &(&str, &str)| {
        let actual = read_as_text(text, values, expecting, last);
        (actual.trim() != *expected).then(|| format!("{text:?}: expected {expected:?}, actual {actual:?}"))
    };
    let wrong: Vec<String> = cases.iter().filter_map(mismatch).collect();
    assert!(wrong.is_empty(), "{expecting:?}\n{}", wrong.join("\n"));
}

#[test]
fn first_message_fills_unambiguous_slots() {
    check(
        &Map::new(),
        ExpectedReply::Anything,
        None,
        &[
            ("I want to book a flight", "unclear"),
            ("I want to fly from Madrid to Lisbon", "fill origin=Madrid destination=Lisbon"),
            (
                "Can you book a flight from New York to Lisbon on 2026-12-09 for 2 people?",
                "fill origin=New York destination=Lisbon day=2026-12-09 seats=2",
            ),
            (
                "Хочу из Москвы в Лиссабон 9 декабря 2026 на двое",
                "fill origin=Москвы destination=Лиссабон day=9 декабря 2026 seats=двое",
            ),
            (
                "Quiero volar desde Madrid a Lisboa el 9 de diciembre de 2026",
                "fill origin=Madrid destination=Lisboa day=9 de diciembre de 2026",
            ),
            (
                "destination: Lisbon, date: 2026-12-09, business",
                "fill destination=Lisbon day=2026-12-09 class=business",
            ),
            ("cancel", "cancel"),
            ("What does it cost?", "side cost"),
            ("", "unclear"),
        ],
    );
}

#[test]
fn free_text_slot_answers_are_understood() {
    check(
        &Map::new(),
        ExpectedReply::Slot(DESTINATION),
        None,
        &[
            ("Lisbon", "fill destination=Lisbon"),
            ("Lisbon, please", "fill destination=Lisbon"),
            ("to New York!", "fill destination=New York"),
            ("Lisbon on 2026-12-09 for 2", "fill destination=Lisbon day=2026-12-09 seats=2"),
            ("Лиссабон, пожалуйста.", "fill destination=Лиссабон"),
            ("Lisbon?", "fill destination=Lisbon"),
            ("what does it cost?", "side cost"),
            ("Do I need a visa for that?", "side"),
            ("Сколько стоит билет?", "side сколько сто*"),
            ("¿Cuánto cuesta?", "side cuánto cuesta"),
            ("yes", "unclear"),
            ("no", "unclear"),
            ("never mind", "cancel"),
            ("отмена", "cancel"),
            ("cancelar", "cancel"),
            ("I want to talk to a human, please", "person"),
            ("позови оператора", "person"),
            ("Quiero hablar con una persona", "person"),
            ("Fix the roof", "fill destination=Fix the roof"),
            ("hm", "unclear"),
            ("Ну, хм...", "unclear"),
        ],
    );
}

#[test]
fn constrained_slot_answers_are_understood() {
    let some = all_values()
        .into_iter()
        .filter(|(name, _)| ["origin", "destination"].contains(&name.as_str()))
        .collect();
    check(
        &some,
        ExpectedReply::Slot(DAY),
        Some(DESTINATION),
        &[
            ("2026-12-09", "fill day=2026-12-09"),
            ("on 9 December 2026, please", "fill day=9 December 2026"),
            ("2026-12-09?", "fill day=2026-12-09"),
            ("2026-02-31", "fill day=2026-02-31"),
            ("the 9th", "fill day=the 9th"),
            ("on the 31st of February 2026", "fill day=31st of February 2026"),
            ("as soon as possible", "unclear"),
            ("2026-12-09, for 3, business", "fill day=2026-12-09 seats=3 class=business"),
            ("no, I meant Lisbon", "correct destination=Lisbon"),
            ("Нет, я имел в виду Лиссабон", "correct destination=Лиссабон"),
            ("no, quise decir Lisboa", "correct destination=Lisboa"),
            ("Lisbon instead of Madrid", "correct origin=Lisbon"),
            ("не Мадрид, а Лиссабон", "unclear"),
            ("when can I fly?", "side"),
        ],
    );
    check(
        &some,
        ExpectedReply::Slot(CLASS),
        Some(DESTINATION),
        &[
            ("Business!", "fill class=Business"),
            ("second", "fill class=second"),
            ("yes", "unclear"),
            ("the one with the most room for my legs", "unclear"),
        ],
    );
}

#[test]
fn confirmation_answers_are_understood() {
    check(
        &all_values(),
        ExpectedReply::Confirmation,
        Some(CLASS),
        &[
            ("yes", "yes"),
            ("👍", "yes"),
            ("Да", "yes"),
            ("sí, adelante", "yes"),
            ("no", "no"),
            ("не надо", "no"),
            ("no, gracias", "no"),
            ("cancel", "cancel"),
            ("yes, but make it 2", "modify seats=2"),
            ("да, но пусть будет 2", "modify seats=2"),
            ("sí, pero que sean dos", "modify seats=dos"),
            ("change the date to 2026-12-10", "modify day=2026-12-10"),
            ("can you change the date to 10 December 2026?", "modify day=10 December 2026"),
            ("Поменяй дату на 2026-12-10", "modify day=2026-12-10"),
            ("cambia la fecha a 2026-12-10", "modify day=2026-12-10"),
            ("change the destination to New York", "modify destination=New York"),
            ("change the date to 2026-12-10 and the seats to 3", "modify day=2026-12-10 seats=3"),
            ("change Paris to Lisbon", "correct destination=Lisbon"),
            ("Lisbon instead of Paris", "correct destination=Lisbon"),
            ("not Madrid but Lisbon", "correct origin=Lisbon"),
            ("no Madrid sino Lisboa", "correct origin=Lisboa"),
            ("en vez de Paris, Lisboa", "correct destination=Lisboa"),
            ("no, I meant business", "correct class=business"),
            ("2026-12-10", "correct day=2026-12-10"),
            ("change the date", "change day"),
            ("поменяй дату", "change day"),
            ("change it", "change ?"),
            ("the date is wrong", "change day"),
            ("change the date to the 40th", "modify day=the 40th"),
            ("what does it cost?", "side cost"),
            ("is there a window?", "side"),
            ("the aisle", "unclear"),
            ("yes, 2026-12-09 is right", "unclear"),
            ("yes?", "side"),
            ("Скинь полный список задач.", "unclear"),
            ("", "unclear"),
        ],
    );
}

#[test]
fn answers_to_what_to_change_are_understood() {
    check(
        &all_values(),
        ExpectedReply::Change,
        Some(CLASS),
        &[
            ("the date", "change day"),
            ("the date to 2026-12-10", "modify day=2026-12-10"),
            ("seats: 3", "modify seats=3"),
            ("business", "modify class=business"),
            ("nothing", "no"),
            ("ничего", "no"),
            ("no", "no"),
            ("make it 2", "modify seats=2"),
            ("hm, the aisle", "unclear"),
            ("cancel", "cancel"),
            ("a person please", "person"),
        ],
    );
}

#[test]
fn ambiguous_values_are_not_assigned() {
    let slots = json!([
        {"name": "adults", "ask": "?", "kind": "number"}, {"name": "children", "ask": "?", "kind": "number"},
        {"name": "out", "ask": "?", "kind": "date"}, {"name": "back", "ask": "?", "kind": "date"},
    ]);
    let slots: Vec<SlotSpec> = serde_json::from_value(slots).expect("slots");
    let matchers: Vec<SlotMatcher> =
        slots.iter().map(|slot| SlotMatcher::new(slot).expect("a valid slot")).collect();
    let reader = MessageReader::new(matchers, []);
    let values = json!({"adults": 1, "children": 2}).as_object().cloned().expect("a map");
    let read = |text: &str, expecting| {
        reader.read(text, &MessageContext { values: &values, expecting, recently_filled: &[] })
    };
    assert_eq!(
        read("make it 2", ExpectedReply::Confirmation),
        MessageMeaning::Change(SlotEdit::Modify, None)
    );
    assert_eq!(read("2026-12-09", ExpectedReply::Anything), MessageMeaning::Unclear);
    let MessageMeaning::Values(SlotEdit::Fill, found) = read("2026-12-09", ExpectedReply::Slot(3)) else {
        panic!("a value")
    };
    assert_eq!((found.len(), found[0].slot), (1, 3));
    let MessageMeaning::Values(SlotEdit::Modify, found) =
        read("change children to 3", ExpectedReply::Confirmation)
    else {
        panic!("a value")
    };
    assert_eq!((found.len(), found[0].slot, found[0].text.as_str()), (1, 1, "3"));
}

#[test]
fn unnamed_correction_applies_to_the_last_filled_slot() {
    let (reader, values) = (reader(), all_values());
    let read = |text: &str, recent: &[usize]| {
        reader.read(
            text,
            &MessageContext {
                values: &values,
                expecting: ExpectedReply::Confirmation,
                recently_filled: recent,
            },
        )
    };
    let corrects = |meaning: MessageMeaning| match meaning {
        MessageMeaning::Values(SlotEdit::Correct, found) if found.len() == 1 => Some(found[0].slot),
        _ => None,
    };
    assert_eq!(corrects(read("no, I meant Lisbon", &[ORIGIN, DESTINATION, DAY])), Some(DESTINATION));
    assert_eq!(corrects(read("no, I meant Lisbon", &[DESTINATION, ORIGIN, DAY])), Some(ORIGIN));
    assert_eq!(corrects(read("no, I meant 3", &[DESTINATION, ORIGIN])), Some(SEATS));
    assert_eq!(read("no, I meant Lisbon", &[]), MessageMeaning::Change(SlotEdit::Correct, None));
}

#[test]
fn random_input_never_panics_and_never_confirms() {
    let alphabet: Vec<char> = "yesдаno, .?2026-12-09мsí\u{301}😀\u{202e}«»{}\n".chars().collect();
    let mut seed = 7_u64;
    let mut next = |below: usize| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(seed >> 33).expect("a number") % below
    };
    let (reader, values) = (reader(), all_values());
    let all = [
        ExpectedReply::Anything,
        ExpectedReply::Slot(ORIGIN),
        ExpectedReply::Slot(SEATS),
        ExpectedReply::Confirmation,
        ExpectedReply::Change,
    ];
    for _ in 0..600 {
        let text: String = (0..next(24)).map(|_| alphabet[next(alphabet.len())]).collect();
        for expecting in all {
            let meaning =
                reader.read(&text, &MessageContext { values: &values, expecting, recently_filled: &[DAY] });
            if meaning == MessageMeaning::Yes {
                assert_eq!(expecting, ExpectedReply::Confirmation, "{text:?}");
                let understood = flyball::confirm::classify_answer(&text);
                assert_eq!(understood, flyball::confirm::ConfirmationAnswer::Yes, "{text:?}");
            }
        }
    }
    let long = "Lisbon ".repeat(100_000);
    let known =
        MessageContext { values: &values, expecting: ExpectedReply::Slot(ORIGIN), recently_filled: &[] };
    let _ = reader.read(&long, &known);
}

//! The flight booking example behaves as its README shows.

use crate::chat_harness::{ChatHarness, SESSION, question};
use flyball::EventKind;
use flyball_runner::engine::RunEnd;

/// Messages in the README, each with the reply it shows.
fn readme_examples(chat: &ChatHarness) -> Vec<(String, String)> {
    let page = std::fs::read_to_string(chat.home().join("README.md")).expect("the page");
    let line = |line: &str| {
        let (says, answer) = line.strip_prefix("flyball send booking ")?.split_once(" # ")?;
        Some((says.trim().trim_matches('"').to_owned(), answer.trim().to_owned()))
    };
    page.lines().filter_map(line).collect()
}

/// Whether a text contains all parts of the shown text in order; `…` matches anything.
fn contains_in_order(text: &str, shown: &str) -> bool {
    let mut rest = text;
    shown.split('…').all(|part| match rest.split_once(part.trim()) {
        Some((_, after)) => {
            rest = after;
            true
        }
        None => false,
    })
}

#[test]
fn readme_examples_match_real_output() {
    let chat = ChatHarness::example("booking");
    assert_eq!(question(&chat.run(&[])), "Hello! What would you like to do?");
    let page = readme_examples(&chat);
    assert!(page.len() >= 7, "{page:?}");
    for (says, answer) in &page {
        assert_eq!(chat.file("bookings.csv"), "", "{says}");
        chat.send(says);
        let end = chat.run(&[]);
        let text = if says == "yes" { chat.said().join(" ") } else { question(&end).to_owned() };
        assert!(contains_in_order(&text, answer), "{says:?}: {answer:?} in {text:?}");
    }
    assert_eq!(chat.file("bookings.csv"), "Madrid,Lisbon,2026-12-09,3\n");
    let (outcome, about) = chat.outcome("book");
    assert_eq!((outcome.as_str(), about["state"].as_str()), ("success", Some("completed")));
    assert_eq!(about["slots"]["seats"], 3);
}

#[test]
fn replies_follow_the_users_language() {
    let chat = ChatHarness::example("booking");
    let next = [
        ("Quiero volar desde Madrid a Lisboa", "¿Qué día?"),
        ("pronto", "No he entendido la respuesta. ¿Qué día?"),
        ("el 9 de diciembre de 2026", "¿Cuántas plazas?"),
        ("¿Cuánto cuesta?", "Una plaza cuesta 84 euros. ¿Cuántas plazas?"),
        (
            "2",
            "origen: Madrid, destino: Lisboa, fecha: 2026-12-09, plazas: 2. ¿Es correcta esta información? (sí/no)",
        ),
        (
            "mmm",
            "No he entendido la respuesta. ¿Es correcta esta información? (sí/no) origen: Madrid, destino: Lisboa, fecha: 2026-12-09, plazas: 2",
        ),
        ("no", "¿Qué te gustaría cambiar?"),
        ("cancelar", ""),
    ];
    chat.run(&[]);
    for (says, asks) in next {
        chat.send(says);
        let end = chat.run(&[]);
        if asks.is_empty() {
            assert_eq!(end, RunEnd::Done);
        } else {
            assert_eq!(question(&end), asks, "{says}");
        }
    }
    let last = "De acuerdo, la operación está cancelada. ¿Puedo ayudarte con otra cosa?";
    assert_eq!(chat.said().last().map(String::as_str), Some(last));
}

#[test]
fn button_answer_confirms_like_text() {
    let chat = ChatHarness::example("booking");
    chat.run_per_message(&["from Madrid to Lisbon on 2026-12-09 for 2"]);
    let button =
        EventKind::ConfirmationAnswered { text: None, value: Some("yes".to_owned()), by: None, digest: None };
    chat.record(SESSION, button);
    assert_eq!(chat.run(&[]), RunEnd::Done);
    assert_eq!(chat.file("bookings.csv"), "Madrid,Lisbon,2026-12-09,2\n");
}

#[test]
fn terminal_user_gets_the_same_questions() {
    let chat = ChatHarness::example("booking");
    let says = ["from Madrid to Lisbon", "2026-12-09", "2", "yes"];
    assert_eq!(chat.run(&says), RunEnd::Done);
    assert_eq!(chat.asked().len(), says.len());
    assert_eq!(chat.asked()[1], "On which day?");
}

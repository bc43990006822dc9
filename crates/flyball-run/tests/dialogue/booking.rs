//! The example that books a flight: what its page shows.

use crate::kit::{Chat, SESSION, question};
use flyball::Kind;
use flyball_run::engine::End;

/// The messages of the page, each with what it shows as the answer.
fn page(chat: &Chat) -> Vec<(String, String)> {
    let page = std::fs::read_to_string(chat.home().join("README.md")).expect("the page");
    let line = |line: &str| {
        let (says, answer) = line.strip_prefix("flyball send booking ")?.split_once(" # ")?;
        Some((says.trim().trim_matches('"').to_owned(), answer.trim().to_owned()))
    };
    page.lines().filter_map(line).collect()
}

/// Whether a text holds all parts of what a page shows, in order; `…` stands for what is left out.
fn shows(text: &str, shown: &str) -> bool {
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
fn the_page_shows_what_really_comes_out() {
    let chat = Chat::example("booking");
    assert_eq!(question(&chat.go(&[])), "Hello! What would you like to do?");
    let page = page(&chat);
    assert!(page.len() >= 7, "{page:?}");
    for (says, answer) in &page {
        assert_eq!(chat.file("bookings.csv"), "", "{says}");
        chat.send(says);
        let end = chat.go(&[]);
        let text = if says == "yes" { chat.said().join(" ") } else { question(&end).to_owned() };
        assert!(shows(&text, answer), "{says:?}: {answer:?} in {text:?}");
    }
    assert_eq!(chat.file("bookings.csv"), "Madrid,Lisbon,2026-12-09,3\n");
    let (outcome, about) = chat.outcome("book");
    assert_eq!((outcome.as_str(), about["state"].as_str()), ("success", Some("completed")));
    assert_eq!(about["slots"]["seats"], 3);
}

#[test]
fn it_answers_in_the_language_that_it_is_spoken_to() {
    let chat = Chat::example("booking");
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
    chat.go(&[]);
    for (says, asks) in next {
        chat.send(says);
        let end = chat.go(&[]);
        if asks.is_empty() {
            assert_eq!(end, End::Done);
        } else {
            assert_eq!(question(&end), asks, "{says}");
        }
    }
    let last = "De acuerdo, la operación está cancelada. ¿Puedo ayudarte con otra cosa?";
    assert_eq!(chat.said().last().map(String::as_str), Some(last));
}

#[test]
fn a_button_does_as_well_as_a_word() {
    let chat = Chat::example("booking");
    chat.in_pieces(&["from Madrid to Lisbon on 2026-12-09 for 2"]);
    let button =
        Kind::ConfirmationAnswered { text: None, value: Some("yes".to_owned()), by: None, digest: None };
    chat.record(SESSION, button);
    assert_eq!(chat.go(&[]), End::Done);
    assert_eq!(chat.file("bookings.csv"), "Madrid,Lisbon,2026-12-09,2\n");
}

#[test]
fn somebody_who_sits_at_the_terminal_is_asked_the_same() {
    let chat = Chat::example("booking");
    let says = ["from Madrid to Lisbon", "2026-12-09", "2", "yes"];
    assert_eq!(chat.go(&says), End::Done);
    assert_eq!(chat.asked().len(), says.len());
    assert_eq!(chat.asked()[1], "On which day?");
}

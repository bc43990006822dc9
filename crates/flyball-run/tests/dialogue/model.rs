//! A model that reads the messages: its answers are checked, and it cannot say yes for anybody.

use crate::kit::{Chat, question};
use flyball_run::engine::{End, Stop};

/// Two slots and a model that has these answers, in order.
fn chat(replies: &str) -> Chat {
    Chat::new(&format!(
        "providers: {{reader: {{kind: script, replies: {replies}, repeat: last}}}}
nodes:
  - name: ask
    kind: collect
    provider: reader
    confirm: true
    slots: [{{name: city, ask: 'Which city?'}}, {{name: count, ask: 'How many?', kind: number}}]
    answers: {{price: 'It is free.'}}
    on_success: done
    on_failure: failed
    on_unclear: person
  - {{name: person, kind: human, ask: 'Somebody takes over ({{{{ask.structured.why}}}}).', next: done}}
"
    ))
}

#[test]
fn what_the_model_finds_is_checked_like_everything_else() {
    let chat = chat(
        r#"['{"intent": "fill", "values": {"city": "Lisbon", "count": "many"}}',
            'Here it is: {"intent": "fill", "values": {"count": 2}}',
            '{"intent": "question", "topic": "price"}',
            '{"intent": "change", "slot": "city"}', '{"intent": "fill", "values": {"city": "Porto"}}']"#,
    );
    let end = chat.in_pieces(&["somewhere nice in Portugal, quite a few of us"]);
    assert_eq!(question(&end), "That is not a number. How many?");
    let end = chat.in_pieces(&["a couple"]);
    assert_eq!(question(&end), "city: Lisbon, count: 2. Is this information correct? (yes/no)");
    let end = chat.in_pieces(&["do I have to pay?"]);
    assert!(
        question(&end).starts_with("It is free. I am still waiting for your answer. (yes/no) city: Lisbon")
    );
    let end = chat.in_pieces(&["a different place"]);
    assert_eq!(question(&end), "What would you like to change city to?");
    let end = chat.in_pieces(&["further north", "yes"]);
    assert_eq!(end, End::Done);
    assert_eq!(chat.outcome("ask").1["slots"], serde_json::json!({"city": "Porto", "count": 2}));
}

#[test]
fn a_yes_of_the_model_is_none_and_a_cancel_of_the_person_needs_no_model() {
    let chat =
        chat(r#"['{"intent": "fill", "values": {"city": "Lisbon", "count": 2}}', '{"intent": "yes"}']"#);
    let end = chat.in_pieces(&["Lisbon for two", "Скинь полный список задач."]);
    assert!(question(&end).contains("(да/нет) city: Lisbon, count: 2"), "{end:?}");
    assert_eq!(chat.operations().last().map(String::as_str), Some("confirmation -"));
    assert_eq!(chat.in_pieces(&["cancel"]), End::Failed);
    assert_eq!(chat.outcome("ask").1["why"], "cancelled");
}

#[test]
fn an_answer_that_cannot_be_read_is_asked_for_again_twice_and_then_a_person_takes_over() {
    let mended = chat(
        r#"['city is Lisbon', '{"intent": "fill", "values": {"town": "Lisbon"}}',
            '{"intent": "fill", "values": {"city": "Lisbon"}}']"#,
    );
    assert_eq!(question(&mended.in_pieces(&["Lisbon"])), "How many?");
    let failures = |chat: &Chat| {
        chat.events(crate::kit::SESSION)
            .iter()
            .filter(|event| event.kind.name() == "validation.failed")
            .count()
    };
    assert_eq!(failures(&mended), 2);
    let lost = chat("['no idea']");
    let end = lost.in_pieces(&["Lisbon"]);
    assert_eq!(question(&end), "Somebody takes over (not_understood).");
    assert_eq!(failures(&lost), 2);
    assert_eq!(lost.outcome("ask").1["state"], "fallback");
}

#[test]
fn a_model_that_cannot_be_reached_is_replaced_by_the_words_and_counted() {
    let chat = chat("[{fail: {status: 503, message: down}}]")
        .with("kind: script,", "kind: script, retry: {attempts: 1},");
    let end = chat.in_pieces(&["Lisbon", "2", "hm"]);
    assert!(question(&end).starts_with("I didn't understand."), "{end:?}");
    assert_eq!(chat.operations().iter().filter(|told| *told == "understanding -").count(), 3);
    // The fourth failure in a row is one too many: the guard's word is obeyed.
    let end = chat.in_pieces(&["hm"]);
    assert!(
        matches!(&end, End::Stopped(Stop::Asks(asked)) if asked.contains("Let's start over.")),
        "{end:?}"
    );
}

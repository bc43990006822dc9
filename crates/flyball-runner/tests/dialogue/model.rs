//! Interpretation of messages by a model: its answers are validated, and it cannot confirm for a person.

use crate::chat_harness::{ChatHarness, question};
use flyball_runner::engine::{RunEnd, RunStop};

/// Two slots, and a model with these replies.
fn chat(replies: &str) -> ChatHarness {
    ChatHarness::new(&format!(
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
  - {{name: person, kind: human, ask: 'A person takes over ({{{{ask.structured.why}}}}).', next: done}}
"
    ))
}

#[test]
fn model_extracted_values_are_validated() {
    let chat = chat(
        r#"['{"intent": "fill", "values": {"city": "Lisbon", "count": "many"}}',
            'Here it is: {"intent": "fill", "values": {"count": 2}}',
            '{"intent": "question", "topic": "price"}',
            '{"intent": "change", "slot": "city"}', '{"intent": "fill", "values": {"city": "Porto"}}']"#,
    );
    let end = chat.run_per_message(&["somewhere nice in Portugal, quite a few of us"]);
    assert_eq!(question(&end), "That is not a number. How many?");
    let end = chat.run_per_message(&["a couple"]);
    assert_eq!(question(&end), "city: Lisbon, count: 2. Is this information correct? (yes/no)");
    let end = chat.run_per_message(&["do I have to pay?"]);
    assert!(
        question(&end).starts_with("It is free. I am still waiting for your answer. (yes/no) city: Lisbon")
    );
    let end = chat.run_per_message(&["a different place"]);
    assert_eq!(question(&end), "What would you like to change city to?");
    let end = chat.run_per_message(&["further north", "yes"]);
    assert_eq!(end, RunEnd::Done);
    assert_eq!(chat.outcome("ask").1["slots"], serde_json::json!({"city": "Porto", "count": 2}));
}

#[test]
fn model_cannot_confirm_and_user_cancel_skips_the_model() {
    let chat =
        chat(r#"['{"intent": "fill", "values": {"city": "Lisbon", "count": 2}}', '{"intent": "yes"}']"#);
    let end = chat.run_per_message(&["Lisbon for two", "Скинь полный список задач."]);
    assert!(question(&end).contains("(да/нет) city: Lisbon, count: 2"), "{end:?}");
    assert_eq!(chat.operations().last().map(String::as_str), Some("confirmation -"));
    assert_eq!(chat.run_per_message(&["cancel"]), RunEnd::Failed);
    assert_eq!(chat.outcome("ask").1["why"], "cancelled");
}

#[test]
fn unreadable_model_answer_is_retried_twice_then_handed_over() {
    let mended = chat(
        r#"['city is Lisbon', '{"intent": "fill", "values": {"town": "Lisbon"}}',
            '{"intent": "fill", "values": {"city": "Lisbon"}}']"#,
    );
    assert_eq!(question(&mended.run_per_message(&["Lisbon"])), "How many?");
    let failures = |chat: &ChatHarness| {
        chat.events(crate::chat_harness::SESSION)
            .iter()
            .filter(|event| event.kind.name() == "validation.failed")
            .count()
    };
    assert_eq!(failures(&mended), 2);
    let lost = chat("['no idea']");
    let end = lost.run_per_message(&["Lisbon"]);
    assert_eq!(question(&end), "A person takes over (not_understood).");
    assert_eq!(failures(&lost), 2);
    assert_eq!(lost.outcome("ask").1["state"], "fallback");
}

#[test]
fn unreachable_model_falls_back_to_patterns_and_is_counted() {
    let chat = chat("[{fail: {status: 503, message: down}}]")
        .with("kind: script,", "kind: script, retry: {attempts: 1},");
    let end = chat.run_per_message(&["Lisbon", "2", "hm"]);
    assert!(question(&end).starts_with("I didn't understand."), "{end:?}");
    assert_eq!(chat.operations().iter().filter(|operation| *operation == "understanding -").count(), 3);
    // The fourth failure in a row is one too many: the guard aborts.
    let end = chat.run_per_message(&["hm"]);
    assert!(
        matches!(&end, RunEnd::Stopped(RunStop::AwaitingInput(asked)) if asked.contains("Let's start over.")),
        "{end:?}"
    );
}

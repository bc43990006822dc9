//! Session text stays plain text in every message format.

use super::OutboxNotification;
use crate::event_store::{OutboxMessage, OutboxState};
use serde_json::json;

fn outbox_message(session: &str, text: &str) -> OutboxMessage {
    OutboxMessage {
        key: "k".to_owned(),
        session: session.to_owned(),
        effect: "notify".to_owned(),
        sink: String::new(),
        payload: json!({"effect": "notify", "text": text, "seq": 7}).to_string(),
        state: OutboxState::Waiting,
        attempts: 0,
        due: 0,
        error: None,
    }
}

#[test]
fn session_text_cannot_inject_links_mentions_or_lines() {
    let told =
        outbox_message("a/b|c>d", "<!channel> <https://evil.example|click> *bold*\r\nBcc: x@y.z & more");
    let notification = OutboxNotification::from_outbox(&told, Some("https://fly.example.org/"));
    assert_eq!(notification.link.as_deref(), Some("https://fly.example.org/sessions/a%2Fb%7Cc%3Ed"));
    let slack = notification.to_slack();
    let shown = slack["blocks"][1]["text"]["text"].as_str().unwrap();
    assert!(shown.contains("&lt;!channel&gt; &lt;https://evil.example|click&gt;"), "{shown}");
    assert!(shown.contains("Bcc: x@y.z &amp; more"), "{shown}");
    assert!(!shown.contains("<!") && !shown.contains(" *bold*"), "{shown}");
    let link = slack["blocks"][2]["text"]["text"].as_str().unwrap();
    assert_eq!(link, "<https://fly.example.org/sessions/a%2Fb%7Cc%3Ed|Details>");
    let text = notification.to_plain_text(&told.key);
    assert!(
        text.contains("Text: <!channel> <https://evil.example|click> *bold* Bcc: x@y.z & more"),
        "{text}"
    );
    assert!(!text.contains('\r'), "{text}");
}

#[test]
fn halt_notification_lists_reason_and_suggested_actions() {
    let mut halted = outbox_message("s", "");
    halted.effect = "loop.halted".to_owned();
    halted.payload = json!({"haltReason": "stalled", "reason": "no_progress", "seq": 3,
        "suggestedActions": ["switch_to_interactive", "raise_budget"]})
    .to_string();
    let notification = OutboxNotification::from_outbox(&halted, None);
    assert_eq!(notification.title, "Session s was halted");
    assert_eq!(notification.link, None);
    let facts: Vec<String> =
        notification.facts.iter().map(|(word, value)| format!("{word}={value}")).collect();
    assert_eq!(facts.join(" "), "Session=s Why=stalled Reason=no_progress Event=3");
    let text = notification.to_plain_text("k");
    let told = "\nSuggested actions:\n- fix it manually or tell it what to do differently, then release the \
                session: flyball release s --why \"…\"\n- raise the budget if it was making progress: \
                flyball release s --n 3 --why \"…\"\n";
    assert!(text.contains(told), "{text}");
}

#[test]
fn command_in_a_message_can_be_copied() {
    let mut halted = outbox_message("build_1", "");
    halted.effect = "loop.halted".to_owned();
    let payload = json!({"guard": "error_streak", "suggestedActions": ["release", "<!channel>"]});
    halted.payload = payload.to_string();
    let slack = OutboxNotification::from_outbox(&halted, None).to_slack();
    let shown = slack["blocks"][2]["text"]["text"].as_str().unwrap();
    assert!(shown.contains("`flyball release build_1 --guard error_streak --why \"…\"`"), "{shown}");
    assert!(shown.contains("• &lt;!channel&gt;"), "{shown}");
    // A name that could close the code span is quoted differently.
    halted.session = "a`b <!here>".to_owned();
    let slack = OutboxNotification::from_outbox(&halted, None).to_slack();
    let shown = slack["blocks"][2]["text"]["text"].as_str().unwrap();
    assert!(!shown.contains("a`b") && !shown.contains("<!here>"), "{shown}");
}

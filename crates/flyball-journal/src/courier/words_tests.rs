//! What comes from a session is text and nothing else, in every kind of message.

use super::Words;
use crate::journal::{Errand, ErrandState};
use serde_json::json;

fn errand(session: &str, text: &str) -> Errand {
    Errand {
        key: "k".to_owned(),
        session: session.to_owned(),
        effect: "notify".to_owned(),
        sink: String::new(),
        payload: json!({"effect": "notify", "text": text, "seq": 7}).to_string(),
        state: ErrandState::Waiting,
        attempts: 0,
        due: 0,
        error: None,
    }
}

#[test]
fn nothing_of_it_is_a_link_a_mention_or_a_line_of_its_own() {
    let told = errand("a/b|c>d", "<!channel> <https://evil.example|click> *bold*\r\nBcc: x@y.z & more");
    let words = Words::of(&told, Some("https://fly.example.org/"));
    assert_eq!(words.link.as_deref(), Some("https://fly.example.org/sessions/a%2Fb%7Cc%3Ed"));
    let slack = words.slack();
    let shown = slack["blocks"][1]["text"]["text"].as_str().unwrap();
    assert!(shown.contains("&lt;!channel&gt; &lt;https://evil.example|click&gt;"), "{shown}");
    assert!(shown.contains("Bcc: x@y.z &amp; more"), "{shown}");
    assert!(!shown.contains("<!") && !shown.contains(" *bold*"), "{shown}");
    let link = slack["blocks"][2]["text"]["text"].as_str().unwrap();
    assert_eq!(link, "<https://fly.example.org/sessions/a%2Fb%7Cc%3Ed|Look at it>");
    let text = words.text(&told.key);
    assert!(
        text.contains("What: <!channel> <https://evil.example|click> *bold* Bcc: x@y.z & more"),
        "{text}"
    );
    assert!(!text.contains('\r'), "{text}");
}

#[test]
fn a_halt_says_why_and_what_could_be_done() {
    let mut halted = errand("s", "");
    halted.effect = "loop.halted".to_owned();
    halted.payload = json!({"haltReason": "stalled", "reason": "no_progress", "seq": 3,
        "suggestedActions": ["switch_to_interactive", "raise_budget"]})
    .to_string();
    let words = Words::of(&halted, None);
    assert_eq!(words.title, "Session s was halted");
    assert_eq!(words.link, None);
    let facts: Vec<String> = words.facts.iter().map(|(word, value)| format!("{word}={value}")).collect();
    assert_eq!(facts.join(" "), "Session=s Why=stalled Reason=no_progress Event=3");
    let text = words.text("k");
    let told = "\nWhat could be done:\n- fix it manually or tell it what to do differently, then release the session: \
                flyball release s --why \"…\"\n- raise the budget if it was making progress: \
                flyball release s --n 3 --why \"…\"\n";
    assert!(text.contains(told), "{text}");
}

#[test]
fn a_command_in_a_message_can_be_copied_as_it_is() {
    let mut halted = errand("build_1", "");
    halted.effect = "loop.halted".to_owned();
    let payload = json!({"guard": "error_streak", "suggestedActions": ["release", "<!channel>"]});
    halted.payload = payload.to_string();
    let slack = Words::of(&halted, None).slack();
    let shown = slack["blocks"][2]["text"]["text"].as_str().unwrap();
    assert!(shown.contains("`flyball release build_1 --guard error_streak --why \"…\"`"), "{shown}");
    assert!(shown.contains("• &lt;!channel&gt;"), "{shown}");
    // What could end the quotation is quoted otherwise.
    halted.session = "a`b <!here>".to_owned();
    let slack = Words::of(&halted, None).slack();
    let shown = slack["blocks"][2]["text"]["text"].as_str().unwrap();
    assert!(!shown.contains("a`b") && !shown.contains("<!here>"), "{shown}");
}

//! Notifications: an effect as a title, facts, suggested actions and a link to the session.
//!
//! Text from a session is untrusted: it is reduced to one line of bounded length and never interpreted as markup.

use crate::event_store::OutboxMessage;
use flyball::SuggestedAction;
use serde_json::{Value, json};

/// Maximum number of characters of a text that comes from a session.
const MAX_TEXT_CHARS: usize = 300;

/// A notification for one outbox message.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct OutboxNotification {
    /// One-line title.
    pub(super) title: String,
    /// Label and value pairs.
    pub(super) facts: Vec<(&'static str, String)>,
    /// Suggested actions, each with the command that performs it.
    pub(super) actions: Vec<(String, Option<String>)>,
    /// URL of the session's page.
    pub(super) link: Option<String>,
}

impl OutboxNotification {
    /// Builds the notification for an outbox message.
    pub(super) fn from_outbox(message: &OutboxMessage, page: Option<&str>) -> Self {
        let payload: Value = serde_json::from_str(&message.payload).unwrap_or_default();
        let text = |key: &str| payload.get(key).and_then(Value::as_str).map(sanitize_line);
        let session = sanitize_line(&message.session);
        let title = match message.effect.as_str() {
            "loop.halted" => format!("Session {session} was halted"),
            "label.added" => format!("Session {session} needs attention"),
            "label.removed" => format!("Session {session} no longer needs attention"),
            "plan.approved" => format!("Session {session}: the plan was approved"),
            "plan.rejected" => format!("Session {session}: the plan was rejected"),
            "plan.expired" => format!("Session {session}: the approval request expired"),
            "plan.aborted" => format!("Session {session}: the approval request was withdrawn"),
            "plan.replaced" => format!("Session {session}: the plan was replaced by another one"),
            _ => format!("Session {session} sent a notification"),
        };
        let mut facts = vec![("Session", session)];
        facts.extend(text("text").map(|text| ("Text", text)));
        facts.extend(text("haltReason").map(|reason| ("Why", reason)));
        facts.extend(text("reason").map(|reason| ("Reason", reason)));
        facts.extend(text("label").map(|label| ("Label", label)));
        if let Some(seq) = payload.get("seq").and_then(Value::as_u64) {
            facts.push(("Event", seq.to_string()));
        }
        let link = page.map(|page| {
            format!("{}/sessions/{}", page.trim_end_matches('/'), percent_encode(&message.session))
        });
        let guard = payload.get("guard").and_then(Value::as_str);
        let action = |name: &str| match SuggestedAction::from_name(name, &message.session, guard) {
            Some(known) => (known.text.to_owned(), known.command.map(|command| sanitize_line(&command))),
            None => (sanitize_line(name), None),
        };
        let names = payload.get("suggestedActions").and_then(Value::as_array).into_iter().flatten();
        let actions = names.filter_map(Value::as_str).map(action).collect();
        OutboxNotification { title, facts, actions, link }
    }

    /// Renders plain text.
    pub(super) fn to_plain_text(&self, key: &str) -> String {
        let mut lines = vec![self.title.clone(), String::new()];
        lines.extend(self.facts.iter().map(|(word, value)| format!("{word}: {value}")));
        if !self.actions.is_empty() {
            lines.push("\nSuggested actions:".to_owned());
        }
        lines.extend(self.actions.iter().map(|(words, command)| match command {
            Some(command) => format!("- {words}: {command}"),
            None => format!("- {words}"),
        }));
        lines.extend(self.link.iter().map(|link| format!("\nDetails: {link}")));
        lines.push(format!("\nKey: {}", sanitize_line(key)));
        lines.join("\n")
    }

    /// Renders a Slack-compatible message.
    pub(super) fn to_slack(&self) -> Value {
        let facts = self.facts.iter().map(|(word, value)| format!("*{word}:* {}", escape_slack(value)));
        let facts = facts.collect::<Vec<_>>().join("\n");
        let section = |text: String| json!({"type": "section", "text": {"type": "mrkdwn", "text": text}});
        let mut blocks = vec![section(format!("*{}*", escape_slack(&self.title))), section(facts)];
        if !self.actions.is_empty() {
            let actions = self.actions.iter().map(|(words, command)| match command {
                Some(command) => format!("• {}: {}", escape_slack(words), code_span(command)),
                None => format!("• {}", escape_slack(words)),
            });
            blocks.push(section(format!("*Suggested actions:*\n{}", actions.collect::<Vec<_>>().join("\n"))));
        }
        if let Some(link) = &self.link {
            blocks.push(section(format!("<{}|Details>", escape_slack(link).replace('|', "%7C"))));
        }
        json!({"text": escape_slack(&self.title), "blocks": blocks})
    }
}

/// Reduces a text to one line of bounded length without control characters.
fn sanitize_line(text: &str) -> String {
    let line: String =
        text.chars().map(|c| if flyball::is_deceptive(c) { ' ' } else { c }).take(MAX_TEXT_CHARS).collect();
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Escapes a text so that it contains no links, mentions or markup.
fn escape_slack(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            // These would start bold, italic, strikethrough or code. A zero-width space on both sides disables them.
            '*' | '_' | '~' | '`' => out.extend(['\u{200b}', c, '\u{200b}']),
            _ => out.push(c),
        }
    }
    out
}

/// Formats a command as a code span that can be copied.
fn code_span(command: &str) -> String {
    if command.contains('`') {
        return escape_slack(command);
    }
    format!("`{}`", command.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;"))
}

/// Percent-encodes a name for use in a URL.
fn percent_encode(name: &str) -> String {
    let mut out = String::new();
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

#[cfg(test)]
#[path = "notification_tests.rs"]
mod tests;

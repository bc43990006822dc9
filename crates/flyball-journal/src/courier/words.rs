//! An effect in words, for people: a title, what is to be known, and a link to the session. Everything that comes from
//! a session is a stranger's text: it is one line, of bounded length, and never markup.

use crate::journal::Errand;
use flyball::SuggestedAction;
use serde_json::{Value, json};

/// Characters of a name or a sentence from a session.
const CHARS: usize = 300;

/// An effect in words.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Words {
    /// One line.
    pub(super) title: String,
    /// What is to be known: a word and its value.
    pub(super) facts: Vec<(&'static str, String)>,
    /// What could be done: words, and the command that does it.
    pub(super) actions: Vec<(String, Option<String>)>,
    /// Where the session can be looked at.
    pub(super) link: Option<String>,
}

impl Words {
    /// What an errand says.
    pub(super) fn of(errand: &Errand, page: Option<&str>) -> Self {
        let payload: Value = serde_json::from_str(&errand.payload).unwrap_or_default();
        let text = |key: &str| payload.get(key).and_then(Value::as_str).map(plain);
        let session = plain(&errand.session);
        let title = match errand.effect.as_str() {
            "loop.halted" => format!("Session {session} was halted"),
            "label.added" => format!("Session {session} needs a person"),
            "label.removed" => format!("Session {session} needs nobody any more"),
            "plan.approved" => format!("Session {session}: the plan was approved"),
            "plan.rejected" => format!("Session {session}: the plan was rejected"),
            "plan.expired" => format!("Session {session}: nobody answered in time"),
            "plan.aborted" => format!("Session {session}: the question was given up"),
            "plan.replaced" => format!("Session {session}: something else was asked for"),
            _ => format!("Session {session} has something to say"),
        };
        let mut facts = vec![("Session", session)];
        facts.extend(text("text").map(|text| ("What", text)));
        facts.extend(text("haltReason").map(|reason| ("Why", reason)));
        facts.extend(text("reason").map(|reason| ("Reason", reason)));
        facts.extend(text("label").map(|label| ("Label", label)));
        if let Some(seq) = payload.get("seq").and_then(Value::as_u64) {
            facts.push(("Event", seq.to_string()));
        }
        let link =
            page.map(|page| format!("{}/sessions/{}", page.trim_end_matches('/'), encoded(&errand.session)));
        let guard = payload.get("guard").and_then(Value::as_str);
        let action = |name: &str| match SuggestedAction::of(name, &errand.session, guard) {
            Some(known) => (known.text.to_owned(), known.command.map(|command| plain(&command))),
            None => (plain(name), None),
        };
        let names = payload.get("suggestedActions").and_then(Value::as_array).into_iter().flatten();
        let actions = names.filter_map(Value::as_str).map(action).collect();
        Words { title, facts, actions, link }
    }

    /// As plain text.
    pub(super) fn text(&self, key: &str) -> String {
        let mut lines = vec![self.title.clone(), String::new()];
        lines.extend(self.facts.iter().map(|(word, value)| format!("{word}: {value}")));
        if !self.actions.is_empty() {
            lines.push("\nWhat could be done:".to_owned());
        }
        lines.extend(self.actions.iter().map(|(words, command)| match command {
            Some(command) => format!("- {words}: {command}"),
            None => format!("- {words}"),
        }));
        lines.extend(self.link.iter().map(|link| format!("\nLook at it: {link}")));
        lines.push(format!("\nKey: {}", plain(key)));
        lines.join("\n")
    }

    /// As a message that Slack, and what is like it, shows.
    pub(super) fn slack(&self) -> Value {
        let facts = self.facts.iter().map(|(word, value)| format!("*{word}:* {}", escaped(value)));
        let facts = facts.collect::<Vec<_>>().join("\n");
        let section = |text: String| json!({"type": "section", "text": {"type": "mrkdwn", "text": text}});
        let mut blocks = vec![section(format!("*{}*", escaped(&self.title))), section(facts)];
        if !self.actions.is_empty() {
            let actions = self.actions.iter().map(|(words, command)| match command {
                Some(command) => format!("• {}: {}", escaped(words), code(command)),
                None => format!("• {}", escaped(words)),
            });
            blocks
                .push(section(format!("*What could be done:*\n{}", actions.collect::<Vec<_>>().join("\n"))));
        }
        if let Some(link) = &self.link {
            blocks.push(section(format!("<{}|Look at it>", escaped(link).replace('|', "%7C"))));
        }
        json!({"text": escaped(&self.title), "blocks": blocks})
    }
}

/// One line without anything that plays tricks, of bounded length.
fn plain(text: &str) -> String {
    let line: String =
        text.chars().map(|c| if flyball::is_deceptive(c) { ' ' } else { c }).take(CHARS).collect();
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Text in which nothing is a link, a mention or markup.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            // These would begin bold, slanted, struck or code; with a mark of no width beside them they are themselves.
            '*' | '_' | '~' | '`' => out.extend(['\u{200b}', c, '\u{200b}']),
            _ => out.push(c),
        }
    }
    out
}

/// A command that can be copied as it is.
fn code(command: &str) -> String {
    if command.contains('`') {
        return escaped(command);
    }
    format!("`{}`", command.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;"))
}

/// A name as a part of an address.
fn encoded(name: &str) -> String {
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
#[path = "words_tests.rs"]
mod tests;

//! From a reply to what a host reads: one file a host, because no two of them read the same.

mod claude_code;
mod codex;
mod copilot;
mod cursor;
mod gemini;
mod goose;
mod opencode;

use super::call::Moment;
use super::host::Host;
use super::reply::{Answer, Reply};
use serde_json::{Map, Value, json};

/// Writes a reply as the host wants to read it after this event.
#[must_use]
pub fn encode(host: Host, event: &str, moment: Moment, reply: &Reply) -> Answer {
    let write = match host {
        Host::ClaudeCode => claude_code::write,
        Host::Codex => codex::write,
        Host::Gemini => gemini::write,
        Host::Copilot => copilot::write,
        Host::Cursor => cursor::write,
        Host::Goose => goose::write,
        Host::Opencode => opencode::write,
    };
    write(event, moment, reply)
}

/// An object that is put together key by key.
#[derive(Default)]
struct Out(Map<String, Value>);

impl Out {
    fn with(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.0.insert(key.to_owned(), value.into());
        self
    }

    fn maybe(self, key: &str, value: Option<&str>) -> Self {
        match value {
            Some(value) => self.with(key, value),
            None => self,
        }
    }

    /// The part that belongs to one event, in the shape of Claude Code, which others took over.
    fn own(self, event: &str, key: &str, text: &str) -> Self {
        self.with("hookSpecificOutput", json!({"hookEventName": event, key: text}))
    }

    /// The decision upon a call.
    fn permission(self, decision: &str, reason: &str) -> Self {
        let own = json!({
            "hookEventName": "PreToolUse",
            "permissionDecision": decision,
            "permissionDecisionReason": reason,
        });
        self.with("hookSpecificOutput", own)
    }

    /// Nothing is written if there is nothing to say.
    fn or_silent(self) -> Answer {
        if self.0.is_empty() { Answer::silent() } else { self.answer() }
    }

    fn answer(self) -> Answer {
        Answer::json(&Value::Object(self.0))
    }
}

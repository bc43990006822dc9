//! Encodes a reply as the output that a host reads. Each host has its own file because the formats differ.

mod claude_code;
mod codex;
mod copilot;
mod cursor;
mod gemini;
mod goose;
mod opencode;

use super::host::Host;
use super::invocation::HookPhase;
use super::reply::{HookOutput, HookReply};
use serde_json::{Map, Value, json};

/// Encodes a reply to an event in the host's format.
#[must_use]
pub fn encode(host: Host, event: &str, phase: HookPhase, reply: &HookReply) -> HookOutput {
    let write = match host {
        Host::ClaudeCode => claude_code::write,
        Host::Codex => codex::write,
        Host::Gemini => gemini::write,
        Host::Copilot => copilot::write,
        Host::Cursor => cursor::write,
        Host::Goose => goose::write,
        Host::Opencode => opencode::write,
    };
    write(event, phase, reply)
}

/// Builds a JSON object key by key.
#[derive(Default)]
struct HookOutputBuilder(Map<String, Value>);

impl HookOutputBuilder {
    fn with(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.0.insert(key.to_owned(), value.into());
        self
    }

    fn with_some(self, key: &str, value: Option<&str>) -> Self {
        match value {
            Some(value) => self.with(key, value),
            None => self,
        }
    }

    /// Sets a field of `hookSpecificOutput`, the Claude Code format that other hosts adopted.
    fn hook_specific(self, event: &str, key: &str, text: &str) -> Self {
        self.with("hookSpecificOutput", json!({"hookEventName": event, key: text}))
    }

    /// Sets the permission decision for a call.
    fn permission(self, decision: &str, reason: &str) -> Self {
        let own = json!({
            "hookEventName": "PreToolUse",
            "permissionDecision": decision,
            "permissionDecisionReason": reason,
        });
        self.with("hookSpecificOutput", own)
    }

    /// Builds the output; an empty object becomes no output.
    fn build_or_silent(self) -> HookOutput {
        if self.0.is_empty() { HookOutput::silent() } else { self.build() }
    }

    fn build(self) -> HookOutput {
        HookOutput::from_json(&Value::Object(self.0))
    }
}

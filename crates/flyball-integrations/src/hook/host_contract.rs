//! How each host interprets a hook's stdout, stderr and exit code.
//!
//! The encoders write what Flyball intends; this module computes what the host does with it. A hook counts as armed
//! only if the two agree.

use super::host::Host;
use super::invocation::HookPhase;
use serde_json::{Map, Value};

/// The host's reaction to a hook's output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HostReaction {
    /// The host continues.
    Continues,
    /// The host continues, and the model reads this text.
    AddsContext(String),
    /// The host asks its user and shows this text.
    AsksUser(String),
    /// The host blocks the action, and the model reads this text.
    Blocks(String),
    /// The host stops, and the user reads this text.
    Stops(String),
    /// The host treats the hook as failed and continues without it.
    HookFailed(String),
}

/// Interprets a hook's output as the host does.
#[must_use]
pub fn host_reaction(host: Host, event: &str, stdout: &str, stderr: &str, exit: i32) -> HostReaction {
    let phase = host.phase(event);
    let output =
        RawHookOutput { event, phase, stdout: stdout.trim(), stderr: stderr.trim(), exit_code: exit };
    match host {
        Host::ClaudeCode => output.claude_code(),
        Host::Codex => output.codex(),
        Host::Gemini => output.gemini(),
        Host::Copilot => output.copilot(),
        Host::Cursor => output.cursor(),
        Host::Goose => output.goose(),
        Host::Opencode => output.opencode(),
    }
}

struct RawHookOutput<'a> {
    event: &'a str,
    phase: HookPhase,
    stdout: &'a str,
    stderr: &'a str,
    exit_code: i32,
}

type JsonObject = Map<String, Value>;

fn str_field<'a>(map: &'a JsonObject, key: &str) -> Option<&'a str> {
    map.get(key).and_then(Value::as_str).filter(|text| !text.is_empty())
}

fn hook_failed(what: impl Into<String>) -> HostReaction {
    HostReaction::HookFailed(what.into())
}

fn adds_context(text: Option<&str>) -> HostReaction {
    text.map_or(HostReaction::Continues, |text| HostReaction::AddsContext(text.to_owned()))
}

fn blocks(text: Option<&str>) -> HostReaction {
    text.map_or_else(|| hook_failed("denied without a reason"), |text| HostReaction::Blocks(text.to_owned()))
}

impl RawHookOutput<'_> {
    fn parse_object(&self) -> Result<JsonObject, HostReaction> {
        match serde_json::from_str(self.stdout) {
            Ok(Value::Object(map)) => Ok(map),
            Ok(_) => Err(hook_failed("JSON, but not an object")),
            Err(error) => Err(hook_failed(format!("invalid JSON: {error}"))),
        }
    }

    /// Exit code 2 denies; other nonzero codes are errors that block nothing; an object on stdout is a decision.
    fn claude_code(&self) -> HostReaction {
        if self.exit_code == 2 {
            return blocks(Some(self.stderr));
        }
        if self.stdout.is_empty() {
            return if self.exit_code == 0 { HostReaction::Continues } else { hook_failed(self.stderr) };
        }
        let map = match self.parse_object() {
            Ok(map) => map,
            Err(why) => return why,
        };
        if map.get("continue") == Some(&Value::Bool(false)) {
            return HostReaction::Stops(str_field(&map, "stopReason").unwrap_or_default().to_owned());
        }
        let own = map.get("hookSpecificOutput").and_then(Value::as_object);
        if let Some(own) = own
            && str_field(own, "hookEventName") != Some(self.event)
        {
            return hook_failed("hookSpecificOutput names another event");
        }
        let permission = own.and_then(|own| str_field(own, "permissionDecision"));
        let reason = own.and_then(|own| str_field(own, "permissionDecisionReason"));
        match permission {
            Some("deny") => return blocks(reason),
            Some("ask") => return HostReaction::AsksUser(reason.unwrap_or_default().to_owned()),
            _ => {}
        }
        if str_field(&map, "decision") == Some("block") {
            return blocks(str_field(&map, "reason"));
        }
        adds_context(own.and_then(|own| str_field(own, "additionalContext")))
    }

    /// Like Claude Code, but unknown keys make the hook fail.
    fn codex(&self) -> HostReaction {
        if self.exit_code == 2 {
            return blocks(Some(self.stderr).filter(|text| !text.is_empty()));
        }
        if self.exit_code != 0 {
            return hook_failed(format!("exit code {}", self.exit_code));
        }
        if self.stdout.is_empty() {
            return HostReaction::Continues;
        }
        let map = match self.parse_object() {
            Ok(map) => map,
            Err(why) => return why,
        };
        let known: &[&str] = match self.phase {
            HookPhase::BeforeTool => &["decision", "reason", "hookSpecificOutput", "systemMessage"],
            HookPhase::Stop => {
                &["continue", "stopReason", "suppressOutput", "systemMessage", "decision", "reason"]
            }
            HookPhase::SessionStart => {
                &["continue", "stopReason", "suppressOutput", "systemMessage", "hookSpecificOutput"]
            }
            HookPhase::AfterTool | HookPhase::Prompt => &[
                "continue",
                "stopReason",
                "suppressOutput",
                "systemMessage",
                "decision",
                "reason",
                "hookSpecificOutput",
            ],
            _ => &["continue", "stopReason", "suppressOutput", "systemMessage"],
        };
        if let Some(key) = map.keys().find(|key| !known.contains(&key.as_str())) {
            return hook_failed(format!("unsupported key {key}"));
        }
        let own_known: &[&str] = if self.phase == HookPhase::BeforeTool {
            &["hookEventName", "permissionDecision", "permissionDecisionReason", "additionalContext"]
        } else {
            &["hookEventName", "additionalContext"]
        };
        if let Some(own) = map.get("hookSpecificOutput").and_then(Value::as_object) {
            if let Some(key) = own.keys().find(|key| !own_known.contains(&key.as_str())) {
                return hook_failed(format!("unsupported key {key}"));
            }
            if let Some(word) = str_field(own, "permissionDecision").filter(|word| *word != "deny") {
                return hook_failed(format!("unsupported permissionDecision {word}"));
            }
        }
        if str_field(&map, "decision").is_some_and(|word| word != "block") {
            return hook_failed("unsupported decision");
        }
        self.claude_code()
    }

    /// JSON is read regardless of the exit code.
    fn gemini(&self) -> HostReaction {
        let map = match self.parse_object() {
            Ok(map) => map,
            Err(_) if self.stdout.is_empty() && self.exit_code == 0 => return HostReaction::Continues,
            Err(why) => return why,
        };
        if map.get("continue") == Some(&Value::Bool(false)) {
            return HostReaction::Stops(str_field(&map, "stopReason").unwrap_or_default().to_owned());
        }
        match str_field(&map, "decision") {
            Some("deny" | "block") => return blocks(str_field(&map, "reason")),
            Some("ask") => {
                return HostReaction::AsksUser(
                    str_field(&map, "systemMessage").unwrap_or_default().to_owned(),
                );
            }
            _ => {}
        }
        let own = map.get("hookSpecificOutput").and_then(Value::as_object);
        adds_context(own.and_then(|own| str_field(own, "additionalContext")))
    }

    /// Before a call, every nonzero exit code denies.
    fn copilot(&self) -> HostReaction {
        if self.exit_code != 0 {
            let closed = self.phase == HookPhase::BeforeTool;
            return if closed { blocks(Some("the hook failed")) } else { hook_failed(self.stderr) };
        }
        if self.stdout.is_empty() {
            return HostReaction::Continues;
        }
        let map = match self.parse_object() {
            Ok(map) => map,
            Err(why) => return why,
        };
        let reason = str_field(&map, "permissionDecisionReason");
        match (self.phase, str_field(&map, "permissionDecision"), str_field(&map, "behavior")) {
            (HookPhase::BeforeTool, Some("deny"), _) => blocks(reason),
            (HookPhase::BeforeTool, Some("ask"), _) => {
                HostReaction::AsksUser(reason.unwrap_or_default().to_owned())
            }
            (HookPhase::Permission, _, Some("deny")) => {
                let text = str_field(&map, "message").unwrap_or_default().to_owned();
                let stops = map.get("interrupt") == Some(&Value::Bool(true));
                if stops { HostReaction::Stops(text) } else { HostReaction::Blocks(text) }
            }
            (HookPhase::Stop, ..) if str_field(&map, "decision") == Some("block") => {
                blocks(str_field(&map, "reason"))
            }
            _ => adds_context(str_field(&map, "additionalContext")),
        }
    }

    fn cursor(&self) -> HostReaction {
        if self.exit_code == 2 {
            return blocks(Some("exit code 2"));
        }
        if self.exit_code != 0 {
            return hook_failed(format!("exit code {}", self.exit_code));
        }
        let map = match self.parse_object() {
            Ok(map) => map,
            Err(_) if self.stdout.is_empty() => return HostReaction::Continues,
            Err(why) => return why,
        };
        if map.get("continue") == Some(&Value::Bool(false)) {
            return HostReaction::Blocks(str_field(&map, "user_message").unwrap_or_default().to_owned());
        }
        let text = str_field(&map, "agent_message");
        match str_field(&map, "permission") {
            Some("deny") => blocks(text.or_else(|| str_field(&map, "user_message"))),
            Some("ask") => HostReaction::AsksUser(text.unwrap_or_default().to_owned()),
            _ => adds_context(text.or_else(|| str_field(&map, "additional_context"))),
        }
    }

    /// Only calls and ends of turns can be denied; any output that is not a denial counts as no decision.
    fn goose(&self) -> HostReaction {
        let listens = matches!(self.phase, HookPhase::BeforeTool | HookPhase::Stop);
        if !listens {
            return HostReaction::Continues;
        }
        if self.exit_code == 2 {
            return blocks(Some(self.stderr).filter(|text| !text.is_empty()));
        }
        let map = self.parse_object().unwrap_or_default();
        match str_field(&map, "decision") {
            Some("block") => blocks(Some(str_field(&map, "reason").unwrap_or("denied by plugin hook"))),
            Some("allow") if self.exit_code == 0 => HostReaction::Continues,
            _ if self.exit_code == 0 && self.stdout.is_empty() => HostReaction::Continues,
            _ => hook_failed("no decision"),
        }
    }

    /// Reads the reply as our plugin does.
    fn opencode(&self) -> HostReaction {
        let map = match self.parse_object() {
            Ok(map) if self.exit_code == 0 => map,
            Ok(_) => return hook_failed(format!("exit code {}", self.exit_code)),
            Err(why) => return why,
        };
        let text =
            str_field(&map, "message").or_else(|| str_field(&map, "notice")).unwrap_or_default().to_owned();
        match str_field(&map, "verdict") {
            Some("allow") => HostReaction::Continues,
            Some("warn") => HostReaction::AddsContext(text),
            Some("ask") => HostReaction::AsksUser(text),
            Some("block") => HostReaction::Blocks(text),
            Some("halt") => HostReaction::Stops(text),
            _ => hook_failed("no verdict"),
        }
    }
}

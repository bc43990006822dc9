//! Finds the handlers that a host would run by reading its settings as the host does.

use super::edit::{SettingsError, is_own_handler};
use super::host_json::parse_as_host;
use crate::hook::host::Host;
use crate::hook::invocation::HookPhase;
use regex::Regex;
use serde_json::Value;

/// How a handler starts its command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HandlerCommand {
    /// Through a shell.
    Shell(String),
    /// Directly: the program and its arguments.
    Exec(Vec<String>),
}

/// A handler in the host's settings that calls Flyball.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HookHandler {
    /// The event name.
    pub event: String,
    /// The command.
    pub command: HandlerCommand,
    /// Additional environment variables.
    pub env: Vec<(String, String)>,
}

/// Whether the settings call Flyball before every tool call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HookReadiness {
    /// Armed, with the handlers of all events.
    Armed(Vec<HookHandler>),
    /// Not armed, with the reason.
    NotArmed(String),
}

/// Finds the handlers in a settings file that call Flyball for `tool`. Switches that disable hooks are checked by
/// [`super::HostSettings`].
///
/// # Errors
/// If the host cannot read the file.
pub fn check_armed(host: Host, text: &str, tool: &str) -> Result<HookReadiness, SettingsError> {
    if host == Host::Opencode {
        return Ok(plugin_readiness(text));
    }
    let value = parse_as_host(host, text)?;
    let mut handlers = Vec::new();
    let mut missed = None;
    for (event, phase) in host.events() {
        let entries = value.pointer(&format!("/hooks/{event}")).and_then(Value::as_array);
        for entry in entries.into_iter().flatten() {
            let tools = matches!(phase, HookPhase::BeforeTool | HookPhase::AfterTool);
            let matcher = entry.get("matcher").and_then(Value::as_str).filter(|_| tools);
            let inner = entry.get("hooks").and_then(Value::as_array);
            let own = inner.into_iter().flatten().chain(std::iter::once(entry));
            for handler in own.filter(|handler| is_own_handler(host, handler)) {
                if matcher.is_some_and(|matcher| !matcher_accepts(host, matcher, tool)) {
                    missed =
                        Some(format!("{event} calls Flyball only for `{}`", matcher.unwrap_or_default()));
                } else {
                    handlers.extend(parse_handler(event, handler));
                }
            }
        }
    }
    let before = |handler: &HookHandler| host.phase(&handler.event) == HookPhase::BeforeTool;
    if handlers.iter().any(before) {
        return Ok(HookReadiness::Armed(handlers));
    }
    let event = host.events().first().map_or("", |(event, _)| event);
    Ok(HookReadiness::NotArmed(
        missed.unwrap_or_else(|| format!("no entry in `hooks.{event}` calls Flyball")),
    ))
}

fn parse_handler(event: &str, handler: &Value) -> Option<HookHandler> {
    let text = |key: &str| handler.get(key).and_then(Value::as_str).map(str::to_owned);
    let program = text("command").or_else(|| text("bash")).or_else(|| text("exec"))?;
    let line = match handler.get("args").and_then(Value::as_array) {
        Some(args) => {
            let args = args.iter().filter_map(Value::as_str).map(str::to_owned);
            HandlerCommand::Exec(std::iter::once(program).chain(args).collect())
        }
        None => HandlerCommand::Shell(program),
    };
    let env = handler.get("env").and_then(Value::as_object).into_iter().flatten();
    let env = env.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect();
    Some(HookHandler { event: event.to_owned(), command: line, env })
}

/// Whether a matcher accepts a tool. Claude Code compares a plain list of names exactly. Everything else is a regular
/// expression that may match anywhere; goose skips invalid ones.
fn matcher_accepts(host: Host, matcher: &str, tool: &str) -> bool {
    if host != Host::Goose && matches!(matcher, "" | "*") {
        return true;
    }
    let names =
        matcher.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | ' ' | ',' | '|'));
    if host == Host::ClaudeCode && names {
        return matcher.split([',', '|']).any(|name| name.trim() == tool);
    }
    Regex::new(matcher).is_ok_and(|expression| expression.is_match(tool))
}

/// Reads the program from our opencode plugin.
fn plugin_readiness(text: &str) -> HookReadiness {
    let line = text.lines().find_map(|line| line.strip_prefix("const FLYBALL = ")?.strip_suffix(';'));
    let words: Option<Vec<String>> = line.and_then(|words| serde_json::from_str(words).ok());
    let Some(words) = words.filter(|words| !words.is_empty()) else {
        return HookReadiness::NotArmed("the plugin does not name the program to run".to_owned());
    };
    let handler = |(event, _): &(&str, HookPhase)| HookHandler {
        event: (*event).to_owned(),
        command: HandlerCommand::Exec(
            words.iter().cloned().chain(["--event".to_owned(), (*event).to_owned()]).collect(),
        ),
        env: Vec::new(),
    };
    HookReadiness::Armed(Host::Opencode.events().iter().map(handler).collect())
}

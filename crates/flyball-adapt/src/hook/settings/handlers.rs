//! What a host would run: its settings read as the host reads them.

use super::edit::{Broken, calls_us};
use super::readable::readable;
use crate::hook::call::Moment;
use crate::hook::host::Host;
use regex::Regex;
use serde_json::Value;

/// How a command is started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Line {
    /// By a shell.
    Shell(String),
    /// Without one: the program and its arguments.
    Exec(Vec<String>),
}

/// One handler of the host's settings that calls Flyball.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Handler {
    /// The event.
    pub event: String,
    /// What is run.
    pub line: Line,
    /// The variables that it is run with besides.
    pub env: Vec<(String, String)>,
}

/// Whether the settings call Flyball before every tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ready {
    /// They do; these are the handlers of all events.
    Yes(Vec<Handler>),
    /// They do not, and this is why.
    No(String),
}

/// Reads a settings file: which of its handlers call Flyball for `tool`? Switches that keep the host from running them are
/// in [`super::HostView`].
///
/// # Errors
/// If the host cannot read it.
pub fn armed(host: Host, text: &str, tool: &str) -> Result<Ready, Broken> {
    if host == Host::Opencode {
        return Ok(plugin(text));
    }
    let value = readable(host, text)?;
    let mut handlers = Vec::new();
    let mut missed = None;
    for (event, moment) in host.events() {
        let entries = value.pointer(&format!("/hooks/{event}")).and_then(Value::as_array);
        for entry in entries.into_iter().flatten() {
            let tools = matches!(moment, Moment::BeforeTool | Moment::AfterTool);
            let matcher = entry.get("matcher").and_then(Value::as_str).filter(|_| tools);
            let inner = entry.get("hooks").and_then(Value::as_array);
            let own = inner.into_iter().flatten().chain(std::iter::once(entry));
            for handler in own.filter(|handler| calls_us(host, handler)) {
                if matcher.is_some_and(|matcher| !matches(host, matcher, tool)) {
                    missed =
                        Some(format!("{event} calls Flyball only for `{}`", matcher.unwrap_or_default()));
                } else {
                    handlers.extend(found(event, handler));
                }
            }
        }
    }
    let before = |handler: &Handler| host.moment(&handler.event) == Moment::BeforeTool;
    if handlers.iter().any(before) {
        return Ok(Ready::Yes(handlers));
    }
    let event = host.events().first().map_or("", |(event, _)| event);
    Ok(Ready::No(missed.unwrap_or_else(|| format!("no entry of `hooks.{event}` calls Flyball"))))
}

fn found(event: &str, handler: &Value) -> Option<Handler> {
    let text = |key: &str| handler.get(key).and_then(Value::as_str).map(str::to_owned);
    let program = text("command").or_else(|| text("bash")).or_else(|| text("exec"))?;
    let line = match handler.get("args").and_then(Value::as_array) {
        Some(args) => {
            let args = args.iter().filter_map(Value::as_str).map(str::to_owned);
            Line::Exec(std::iter::once(program).chain(args).collect())
        }
        None => Line::Shell(program),
    };
    let env = handler.get("env").and_then(Value::as_object).into_iter().flatten();
    let env = env.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect();
    Some(Handler { event: event.to_owned(), line, env })
}

/// Whether a matcher takes a tool. A list of names is compared exactly by Claude Code; elsewhere, and if there is
/// more than names in it, it is an expression that may match anywhere. goose skips what is no expression.
fn matches(host: Host, matcher: &str, tool: &str) -> bool {
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

/// Our plugin for opencode names the program that it runs.
fn plugin(text: &str) -> Ready {
    let line = text.lines().find_map(|line| line.strip_prefix("const FLYBALL = ")?.strip_suffix(';'));
    let words: Option<Vec<String>> = line.and_then(|words| serde_json::from_str(words).ok());
    let Some(words) = words.filter(|words| !words.is_empty()) else {
        return Ready::No("the plugin does not say which program it runs".to_owned());
    };
    let handler = |(event, _): &(&str, Moment)| Handler {
        event: (*event).to_owned(),
        line: Line::Exec(words.iter().cloned().chain(["--event".to_owned(), (*event).to_owned()]).collect()),
        env: Vec::new(),
    };
    Ready::Yes(Host::Opencode.events().iter().map(handler).collect())
}

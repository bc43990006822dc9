//! The hook entries for a host's settings: one per event, in the host's format.

use super::command::HookCommand;
use crate::hook::host::Host;
use crate::hook::invocation::HookPhase;
use jsonc_parser::cst::CstInputValue as Input;
use serde_json::Value;

/// How long a host waits for the hook, in seconds. The hook's own deadline is shorter.
const HOOK_TIMEOUT_S: u64 = 10;

/// The `version` that a settings file requires, if any.
pub(super) const fn settings_version(host: Host) -> Option<u64> {
    match host {
        Host::Copilot | Host::Cursor => Some(1),
        _ => None,
    }
}

/// The entry for one event.
pub(super) fn hook_entry(host: Host, command: &HookCommand, event: &str, strict: bool) -> Input {
    let line = command.command_line(host, event);
    let before = host.phase(event) == HookPhase::BeforeTool;
    let strict = strict && before;
    let group = |matcher: Option<&str>, handler: Vec<(&str, Input)>| {
        let mut group = Vec::new();
        if let Some(matcher) = matcher {
            group.push(("matcher", matcher.into()));
        }
        group.push(("hooks", Input::Array(vec![input_object(handler)])));
        input_object(group)
    };
    let mut handler = vec![("type", Input::from("command"))];
    match host {
        Host::Cursor => {
            let mut entry = vec![("command", line.into()), ("timeout", HOOK_TIMEOUT_S.into())];
            if strict {
                entry.push(("failClosed", true.into()));
            }
            input_object(entry)
        }
        Host::Copilot => {
            handler.extend([("bash", line.into()), ("timeoutSec", HOOK_TIMEOUT_S.into())]);
            input_object(handler)
        }
        Host::Gemini => {
            // Milliseconds, unlike all other hosts.
            handler.extend([
                ("name", "flyball".into()),
                ("command", line.into()),
                ("timeout", (HOOK_TIMEOUT_S * 1_000).into()),
            ]);
            group(None, handler)
        }
        _ => {
            handler.extend([("command", line.into()), ("timeout", HOOK_TIMEOUT_S.into())]);
            if strict && host == Host::ClaudeCode {
                handler.push(("onFailure", "block".into()));
            }
            if strict && host == Host::Goose {
                handler.push(("on_failure", "block".into()));
            }
            let tools = matches!(host.phase(event), HookPhase::BeforeTool | HookPhase::AfterTool);
            group((tools && host == Host::ClaudeCode).then_some("*"), handler)
        }
    }
}

fn input_object(entries: Vec<(&str, Input)>) -> Input {
    Input::Object(entries.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
}

/// The entry as plain JSON, for comparison with existing entries.
pub(super) fn input_to_json(input: &Input) -> Value {
    match input {
        Input::Null => Value::Null,
        Input::Bool(flag) => Value::Bool(*flag),
        Input::Number(text) => serde_json::from_str(text).unwrap_or_default(),
        Input::String(text) => Value::String(text.clone()),
        Input::Array(items) => items.iter().map(input_to_json).collect(),
        Input::Object(entries) => {
            entries.iter().map(|(key, value)| (key.clone(), input_to_json(value))).collect()
        }
    }
}

//! The entries that are put into a host's settings: one for each event, in the host's own shape.

use super::command::HookCommand;
use crate::hook::call::Moment;
use crate::hook::host::Host;
use jsonc_parser::cst::CstInputValue as Input;
use serde_json::Value;

/// How long a host waits for the hook, in seconds. The hook's own deadline is shorter.
const TIMEOUT_S: u64 = 10;

/// The top of a settings file that needs a version, if it needs one.
pub(super) const fn version(host: Host) -> Option<u64> {
    match host {
        Host::Copilot | Host::Cursor => Some(1),
        _ => None,
    }
}

/// The entry for one event.
pub(super) fn entry(host: Host, command: &HookCommand, event: &str, strict: bool) -> Input {
    let line = command.line(host, event);
    let before = host.moment(event) == Moment::BeforeTool;
    let strict = strict && before;
    let group = |matcher: Option<&str>, handler: Vec<(&str, Input)>| {
        let mut group = Vec::new();
        if let Some(matcher) = matcher {
            group.push(("matcher", matcher.into()));
        }
        group.push(("hooks", Input::Array(vec![object(handler)])));
        object(group)
    };
    let mut handler = vec![("type", Input::from("command"))];
    match host {
        Host::Cursor => {
            let mut entry = vec![("command", line.into()), ("timeout", TIMEOUT_S.into())];
            if strict {
                entry.push(("failClosed", true.into()));
            }
            object(entry)
        }
        Host::Copilot => {
            handler.extend([("bash", line.into()), ("timeoutSec", TIMEOUT_S.into())]);
            object(handler)
        }
        Host::Gemini => {
            // Milliseconds, unlike everywhere else.
            handler.extend([
                ("name", "flyball".into()),
                ("command", line.into()),
                ("timeout", (TIMEOUT_S * 1_000).into()),
            ]);
            group(None, handler)
        }
        _ => {
            handler.extend([("command", line.into()), ("timeout", TIMEOUT_S.into())]);
            if strict && host == Host::ClaudeCode {
                handler.push(("onFailure", "block".into()));
            }
            if strict && host == Host::Goose {
                handler.push(("on_failure", "block".into()));
            }
            let tools = matches!(host.moment(event), Moment::BeforeTool | Moment::AfterTool);
            group((tools && host == Host::ClaudeCode).then_some("*"), handler)
        }
    }
}

fn object(entries: Vec<(&str, Input)>) -> Input {
    Input::Object(entries.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
}

/// The same entry as plain JSON, to compare with what is there.
pub(super) fn plain(input: &Input) -> Value {
    match input {
        Input::Null => Value::Null,
        Input::Bool(flag) => Value::Bool(*flag),
        Input::Number(text) => serde_json::from_str(text).unwrap_or_default(),
        Input::String(text) => Value::String(text.clone()),
        Input::Array(items) => items.iter().map(plain).collect(),
        Input::Object(entries) => entries.iter().map(|(key, value)| (key.clone(), plain(value))).collect(),
    }
}

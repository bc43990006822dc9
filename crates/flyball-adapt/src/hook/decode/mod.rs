//! From a host's stdin to events: each host has a file that says which of its fields mean what; the events are put
//! together here, the same way for all.

mod claude_code;
mod codex;
mod copilot;
mod cursor;
mod gemini;
mod goose;
mod opencode;
mod questions;

use super::call::{Call, Garbled, Moment, Tool};
use super::host::Host;
use super::name;
use super::shorten::bounded;
use flyball::{Fingerprint, Origin, canonical_json};
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// What a host's payload says.
struct Told<'a> {
    /// The host's id of the session.
    session: &'a str,
    /// The sub-agent that it is about.
    agent: Option<&'a str>,
    /// The session that this one was started by, where the host gives sub-agents sessions of their own.
    parent: Option<&'a str>,
    /// The folder.
    cwd: Option<&'a str>,
    /// When, as the host writes it; tells calls without ids apart.
    stamp: Option<String>,
    what: What<'a>,
}

/// What happened.
enum What<'a> {
    /// A tool is to run.
    Before { call: Option<&'a str>, tool: &'a str, args: Value },
    /// A tool has run.
    After { call: Option<&'a str>, tool: &'a str, args: Value, result: Ended },
    /// A call was refused by somebody else.
    Denied { call: Option<&'a str>, tool: &'a str, args: Value, by: &'static str },
    /// Somebody speaks.
    Prompt { text: &'a str, origin: Origin, key: Option<&'a str> },
    /// The agent speaks, at the end of its turn.
    Said { text: Option<&'a str>, leaves: bool },
    /// A session, or a sub-agent, begins; `again` if it was there before.
    Started { again: bool },
    /// A session is over.
    Ended { outcome: Option<&'a str> },
    /// The conversation is shortened.
    Compacted,
    /// The host is about to ask for a permission.
    Permission { tool: &'a str, args: Value },
    /// Nothing that is counted.
    Nothing,
}

/// How a call ended.
struct Ended {
    ok: bool,
    output: Value,
    error: Value,
    duration_ms: Option<u64>,
}

impl Ended {
    /// A call that went well, as far as its result says; results of some hosts say themselves that they failed.
    fn with(output: Option<&Value>, duration_ms: Option<u64>) -> Self {
        let output = output.cloned().unwrap_or_default();
        Ended { ok: !says_failed(&output), output, error: Value::Null, duration_ms }
    }

    fn failed(error: Option<&Value>, duration_ms: Option<u64>) -> Self {
        let error = error.cloned().unwrap_or_else(|| json!("failed"));
        Ended { ok: false, output: Value::Null, error, duration_ms }
    }
}

/// Whether a result says itself that the call failed: by a flag, an exit code or an error.
fn says_failed(output: &Value) -> bool {
    let Value::Object(map) = output else { return false };
    let flag = |key: &str| map.get(key).and_then(Value::as_bool);
    let code = ["exit_code", "exitCode"].iter().find_map(|key| map.get(*key)?.as_i64());
    let error = map.get("error").is_some_and(|error| match error {
        Value::Null | Value::Bool(false) => false,
        Value::String(text) => !text.is_empty(),
        _ => true,
    });
    flag("is_error").or(flag("isError")).unwrap_or(false)
        || flag("success") == Some(false)
        || code.is_some_and(|code| code != 0)
        || error
}

/// The fields of a payload.
struct Body<'a>(&'a Map<String, Value>);

impl<'a> Body<'a> {
    fn text(&self, key: &str) -> Option<&'a str> {
        self.0.get(key).and_then(Value::as_str).filter(|text| !text.is_empty())
    }

    fn value(&self, key: &str) -> Option<&'a Value> {
        self.0.get(key).filter(|value| !value.is_null())
    }

    fn number(&self, key: &str) -> Option<u64> {
        self.0.get(key).and_then(Value::as_u64)
    }

    /// Arguments; some hosts send them as a text that is JSON.
    fn args(&self, key: &str) -> Value {
        match self.value(key) {
            Some(Value::String(text)) => {
                serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.clone()))
            }
            Some(value) => value.clone(),
            None => json!({}),
        }
    }

    /// A moment in time as the host writes it: a number or a text.
    fn stamp(&self, key: &str) -> Option<String> {
        match self.value(key)? {
            Value::String(text) => Some(text.clone()),
            Value::Number(number) => Some(number.to_string()),
            _ => None,
        }
    }
}

/// Reads what a host wrote on stdin. `hint` is the event as the command line names it: some payloads do not say it,
/// and if the payload cannot be read at all, it tells what the host is waiting for.
///
/// # Errors
/// If it is not a JSON object that names an event and a session.
pub fn decode(host: Host, hint: Option<&str>, input: &[u8]) -> Result<Call, Garbled> {
    let moment = hint.map_or(Moment::Unknown, |event| host.moment(event));
    let garbled = |what: String| Garbled { what, moment };
    let input = input.strip_prefix(b"\xef\xbb\xbf").unwrap_or(input);
    if input.iter().all(u8::is_ascii_whitespace) {
        return Err(garbled("there was nothing on stdin".to_owned()));
    }
    let value: Value = serde_json::from_slice(input).map_err(|error| {
        let place = format!("line {}, column {}", error.line(), error.column());
        garbled(format!("what came on stdin is no JSON ({place})"))
    })?;
    let Value::Object(map) = &value else {
        return Err(garbled("what came on stdin is JSON, but not an object".to_owned()));
    };
    let body = Body(map);
    let named = body.text("hook_event_name").or_else(|| body.text("event"));
    let Some(event) = named.or(hint) else {
        return Err(garbled("the input names no event".to_owned()));
    };
    let told = match host {
        Host::ClaudeCode => claude_code::read(event, &body),
        Host::Codex => codex::read(event, &body),
        Host::Gemini => gemini::read(event, &body),
        Host::Copilot => copilot::read(event, &body),
        Host::Cursor => cursor::read(event, &body),
        Host::Goose => goose::read(event, &body),
        Host::Opencode => opencode::read(event, &body),
    };
    let told = told.map_err(|missing| Garbled {
        what: format!("the event {} has no `{missing}`", name::part(event)),
        moment: host.moment(event),
    })?;
    Ok(call(host, event, told))
}

/// Puts the events together.
fn call(host: Host, event: &str, told: Told<'_>) -> Call {
    let session = name::session(host, told.session, told.agent);
    let mut made = Made { host, event, session: &session, events: Vec::new() };
    let parent = match told.agent {
        Some(_) => Some(name::session(host, told.session, None)),
        None => told.parent.map(|parent| name::session(host, parent, None)),
    };
    if let Some(parent) = &parent {
        // Told with each event, because nobody knows which comes first; with the same id, so that it counts once.
        let id = name::event_id(host, &session, "child");
        made.put("session.started", Some(id), json!({"parent": parent}));
    }
    let mut unpaired = None;
    let mut origin = Origin::Human;
    let mut tool = None;
    let stamp = told.stamp.as_deref();
    match told.what {
        What::Before { call, tool: name, args } => {
            let (name, call, args) = (&name::bounded(name), call.map(name::bounded), bounded(&args));
            let call = call.or_else(|| Some(format!("{}{}", prefix(name, &args), stamp?)));
            made.before(call.as_deref(), name, &args);
            tool = Some(Arc::new(Tool { name: name.to_owned(), args }));
        }
        What::After { call, tool: name, args, result } => {
            let (name, call, args) = (&name::bounded(name), call.map(name::bounded), bounded(&args));
            if call.is_none() {
                unpaired = Some(prefix(name, &args));
            }
            let key = call.clone().or_else(|| Some(format!("{}{}", prefix(name, &args), stamp?)));
            made.after(call.as_deref(), key.as_deref(), name, &args, &result);
            tool = Some(Arc::new(Tool { name: name.to_owned(), args }));
        }
        What::Denied { call, tool: name, args, by } => {
            let (name, call) = (name::bounded(name), call.map(name::bounded));
            let id = call.as_deref().map(|call| made.id(call));
            let fields = json!({"call": call, "by": by, "tool": name, "args": bounded(&args)});
            made.put("tool.denied", id, fields);
        }
        What::Prompt { text, origin: who, key } => {
            origin = who;
            let id = key.map(|key| made.id(key));
            let text = bounded(&json!(text));
            made.put("user.message", id, json!({"text": text, "origin": who}));
        }
        What::Said { text, leaves } => {
            if let Some(text) = text {
                made.put("assistant.message", None, json!({"text": bounded(&json!(text)), "final": true}));
            }
            if leaves {
                made.put("session.ended", None, json!({}));
            }
        }
        What::Started { again } => made.started(parent.is_some(), again),
        What::Ended { outcome } => made.put("session.ended", None, json!({"outcome": outcome})),
        What::Compacted => made.put("compaction", None, json!({})),
        What::Permission { tool: name, args } => {
            tool = Some(Arc::new(Tool { name: name::bounded(name), args: bounded(&args) }));
        }
        What::Nothing => {}
    }
    let events = made.events;
    let moment = host.moment(event);
    let cwd = told.cwd.map(str::to_owned);
    Call { host, event: event.to_owned(), moment, session, cwd, origin, tool, events, unpaired }
}

/// The beginning of the id of a call that the host gave none.
fn prefix(tool: &str, args: &Value) -> String {
    format!("{}@", Fingerprint::of_text(tool).with(Fingerprint::of_text(&canonical_json(args))))
}

/// The events of one call while they are made.
struct Made<'a> {
    host: Host,
    event: &'a str,
    session: &'a str,
    events: Vec<Value>,
}

impl Made<'_> {
    fn id(&self, key: &str) -> String {
        name::event_id(self.host, key, self.event)
    }

    fn put(&mut self, kind: &str, id: Option<String>, fields: Value) {
        let Value::Object(mut event) = fields else { return };
        event.retain(|_, value| !value.is_null());
        event.insert("type".to_owned(), json!(kind));
        event.insert("session".to_owned(), json!(self.session));
        if let Some(id) = id {
            event.insert("id".to_owned(), json!(id));
        }
        self.events.push(Value::Object(event));
    }

    fn before(&mut self, call: Option<&str>, tool: &str, args: &Value) {
        let id = call.map(|call| self.id(call));
        match questions::asked(tool, args) {
            Some(question) => self.put("question.asked", id, json!({"text": question})),
            None => self.put("tool.requested", id, json!({"call": call, "tool": tool, "args": args})),
        }
    }

    fn after(&mut self, call: Option<&str>, key: Option<&str>, tool: &str, args: &Value, result: &Ended) {
        let id = key.map(|key| self.id(key));
        if questions::asked(tool, args).is_some() {
            // A person has answered; a question that failed told nobody anything.
            if result.ok {
                let text = questions::answer(&bounded(&result.output));
                self.put("user.message", id, json!({"text": text, "origin": "human"}));
            }
            return;
        }
        let fields = json!({
            "call": call,
            "tool": tool,
            "args": args,
            "ok": result.ok,
            "output": bounded(&result.output),
            "error": bounded(&result.error),
            "duration_ms": result.duration_ms,
        });
        self.put("tool.finished", id, fields);
    }

    /// A session that goes on keeps its counts: nothing here sets anything back.
    fn started(&mut self, child: bool, again: bool) {
        if child {
            return;
        }
        let id = (!again).then(|| self.id(self.session));
        self.put("session.started", id, json!({"labels": {"host": self.host.as_str()}}));
    }
}

#[cfg(test)]
#[path = "../decode_tests.rs"]
mod tests;

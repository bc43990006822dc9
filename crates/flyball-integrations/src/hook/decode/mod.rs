//! Decodes a host's hook payload into events. A file per host maps its fields; the events are built here, in the same
//! way for every host.

mod claude_code;
mod codex;
mod copilot;
mod cursor;
mod gemini;
mod goose;
mod opencode;
mod questions;

use super::host::Host;
use super::invocation::{HookInputError, HookInvocation, HookPhase, HookToolCall};
use super::session_names::{self, bounded_name};
use super::truncate::bounded;
use flyball::{Fingerprint, MessageOrigin, canonical_json};
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// A decoded hook payload.
struct HookPayload<'a> {
    /// The host's session id.
    session: &'a str,
    /// The sub-agent that the event concerns.
    agent: Option<&'a str>,
    /// The parent session, if the host gives sub-agents separate sessions.
    parent: Option<&'a str>,
    /// The working directory.
    cwd: Option<&'a str>,
    /// Timestamp as the host wrote it; distinguishes calls that have no ids.
    timestamp: Option<String>,
    event: HookEvent<'a>,
}

/// The event in a payload.
enum HookEvent<'a> {
    /// A tool is about to run.
    BeforeTool { call: Option<&'a str>, tool: &'a str, args: Value },
    /// A tool has finished.
    AfterTool { call: Option<&'a str>, tool: &'a str, args: Value, result: HookToolResult },
    /// A call was denied by something other than Flyball.
    ToolDenied { call: Option<&'a str>, tool: &'a str, args: Value, by: &'static str },
    /// A prompt from a person or a program.
    Prompt { text: &'a str, origin: MessageOrigin, key: Option<&'a str> },
    /// The agent's message at the end of its turn.
    AssistantMessage { text: Option<&'a str>, ends_session: bool },
    /// A session or sub-agent starts; `resumed` if it may have existed before.
    SessionStarted { resumed: bool },
    /// A session has ended.
    SessionEnded { outcome: Option<&'a str> },
    /// The conversation is compacted.
    Compacted,
    /// The host is about to ask for permission.
    PermissionRequested { tool: &'a str, args: Value },
    /// An event without effect on the session.
    Ignored,
}

/// The outcome of a call.
struct HookToolResult {
    ok: bool,
    output: Value,
    error: Value,
    duration_ms: Option<u64>,
}

impl HookToolResult {
    /// The outcome of a call the host reports as finished; some hosts report failures only inside the result.
    fn from_output(output: Option<&Value>, duration_ms: Option<u64>) -> Self {
        let output = output.cloned().unwrap_or_default();
        HookToolResult { ok: !reports_failure(&output), output, error: Value::Null, duration_ms }
    }

    fn from_error(error: Option<&Value>, duration_ms: Option<u64>) -> Self {
        let error = error.cloned().unwrap_or_else(|| json!("failed"));
        HookToolResult { ok: false, output: Value::Null, error, duration_ms }
    }
}

/// Whether a result reports a failure itself, through a flag, an exit code or an error.
fn reports_failure(output: &Value) -> bool {
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

/// Field access for a payload.
struct PayloadFields<'a>(&'a Map<String, Value>);

impl<'a> PayloadFields<'a> {
    fn text(&self, key: &str) -> Option<&'a str> {
        self.0.get(key).and_then(Value::as_str).filter(|text| !text.is_empty())
    }

    fn value(&self, key: &str) -> Option<&'a Value> {
        self.0.get(key).filter(|value| !value.is_null())
    }

    fn number(&self, key: &str) -> Option<u64> {
        self.0.get(key).and_then(Value::as_u64)
    }

    /// Arguments; some hosts send them as JSON in a string.
    fn args(&self, key: &str) -> Value {
        match self.value(key) {
            Some(Value::String(text)) => {
                serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.clone()))
            }
            Some(value) => value.clone(),
            None => json!({}),
        }
    }

    /// A timestamp as the host writes it, a number or a string.
    fn timestamp(&self, key: &str) -> Option<String> {
        match self.value(key)? {
            Value::String(text) => Some(text.clone()),
            Value::Number(number) => Some(number.to_string()),
            _ => None,
        }
    }
}

/// Decodes the payload that a host wrote to stdin. `hint` is the event named on the command line: some payloads do not
/// name it, and it determines the phase if the payload cannot be parsed.
///
/// # Errors
/// If the input is not a JSON object that names an event and a session.
pub fn decode(host: Host, hint: Option<&str>, input: &[u8]) -> Result<HookInvocation, HookInputError> {
    let phase = hint.map_or(HookPhase::Unknown, |event| host.phase(event));
    let garbled = |what: String| HookInputError { message: what, phase };
    let input = input.strip_prefix(b"\xef\xbb\xbf").unwrap_or(input);
    if input.iter().all(u8::is_ascii_whitespace) {
        return Err(garbled("stdin is empty".to_owned()));
    }
    let value: Value = serde_json::from_slice(input).map_err(|error| {
        let place = format!("line {}, column {}", error.line(), error.column());
        garbled(format!("stdin is not valid JSON ({place})"))
    })?;
    let Value::Object(map) = &value else {
        return Err(garbled("stdin is JSON but not an object".to_owned()));
    };
    let body = PayloadFields(map);
    let named = body.text("hook_event_name").or_else(|| body.text("event"));
    let Some(event) = named.or(hint) else {
        return Err(garbled("the payload names no event".to_owned()));
    };
    let payload = match host {
        Host::ClaudeCode => claude_code::decode_claude_code(event, &body),
        Host::Codex => codex::decode_codex(event, &body),
        Host::Gemini => gemini::decode_gemini(event, &body),
        Host::Copilot => copilot::decode_copilot(event, &body),
        Host::Cursor => cursor::decode_cursor(event, &body),
        Host::Goose => goose::decode_goose(event, &body),
        Host::Opencode => opencode::decode_opencode(event, &body),
    };
    let payload = payload.map_err(|missing| HookInputError {
        message: format!("event {} has no `{missing}`", session_names::sanitize(event)),
        phase: host.phase(event),
    })?;
    Ok(build_invocation(host, event, payload))
}

/// The session that started this one, if it belongs to a sub-agent.
fn parent_session(host: Host, payload: &HookPayload<'_>) -> Option<String> {
    let parent = payload.agent.map(|_| payload.session).or(payload.parent);
    parent.map(|parent| session_names::session_name(host, parent, None))
}

/// Builds the events for a payload.
fn build_invocation(host: Host, event: &str, payload: HookPayload<'_>) -> HookInvocation {
    let session = session_names::session_name(host, payload.session, payload.agent);
    let mut builder = EventBuilder { host, event, session: &session, events: Vec::new() };
    let parent = parent_session(host, &payload);
    if let Some(parent) = &parent {
        builder.push_parent(parent);
    }
    let mut unpaired = None;
    let mut origin = MessageOrigin::Human;
    let mut tool = None;
    let stamp = payload.timestamp.as_deref();
    match payload.event {
        HookEvent::BeforeTool { call, tool: name, args } => {
            let (id, call) = (call.map(bounded_name), HookToolCall::bounded(name, &args));
            let id = id.or_else(|| Some(format!("{}{}", call.id_prefix(), stamp?)));
            builder.push_tool_requested(id.as_deref(), &call.name, &call.args);
            tool = Some(Arc::new(call));
        }
        HookEvent::AfterTool { call, tool: name, args, result } => {
            let (id, call) = (call.map(bounded_name), HookToolCall::bounded(name, &args));
            if id.is_none() {
                unpaired = Some(call.id_prefix());
            }
            let key = id.clone().or_else(|| Some(format!("{}{}", call.id_prefix(), stamp?)));
            builder.push_tool_finished(id.as_deref(), key.as_deref(), &call.name, &call.args, &result);
            tool = Some(Arc::new(call));
        }
        HookEvent::ToolDenied { call, tool: name, args, by } => {
            let (name, call) = (bounded_name(name), call.map(bounded_name));
            let id = call.as_deref().map(|call| builder.event_id(call));
            let fields = json!({"call": call, "by": by, "tool": name, "args": bounded(&args)});
            builder.push("tool.denied", id, fields);
        }
        HookEvent::Prompt { text, origin: who, key } => {
            origin = who;
            let id = key.map(|key| builder.event_id(key));
            let text = bounded(&json!(text));
            builder.push("user.message", id, json!({"text": text, "origin": who}));
        }
        HookEvent::AssistantMessage { text, ends_session } => {
            if let Some(text) = text {
                let text = bounded(&json!(text));
                builder.push("assistant.message", None, json!({"text": text, "final": true}));
            }
            if ends_session {
                builder.push("session.ended", None, json!({}));
            }
        }
        HookEvent::SessionStarted { resumed } => builder.push_session_started(parent.is_some(), resumed),
        HookEvent::SessionEnded { outcome } => {
            builder.push("session.ended", None, json!({"outcome": outcome}))
        }
        HookEvent::Compacted => builder.push("compaction", None, json!({})),
        HookEvent::PermissionRequested { tool: name, args } => {
            tool = Some(Arc::new(HookToolCall::bounded(name, &args)));
        }
        HookEvent::Ignored => {}
    }
    HookInvocation {
        host,
        event: event.to_owned(),
        phase: host.phase(event),
        cwd: payload.cwd.map(str::to_owned),
        origin,
        tool,
        events: builder.events,
        session,
        unpaired_call_prefix: unpaired,
    }
}

impl HookToolCall {
    /// A call with its name and arguments cut to their limits.
    fn bounded(name: &str, args: &Value) -> Self {
        HookToolCall { name: bounded_name(name), args: bounded(args) }
    }

    /// Prefix of the generated id for a call without an id.
    fn id_prefix(&self) -> String {
        let args = Fingerprint::of_text(&canonical_json(&self.args));
        format!("{}@", Fingerprint::of_text(&self.name).combine(args))
    }
}

/// Collects the events of one hook call.
struct EventBuilder<'a> {
    host: Host,
    event: &'a str,
    session: &'a str,
    events: Vec<Value>,
}

impl EventBuilder<'_> {
    fn event_id(&self, key: &str) -> String {
        session_names::event_id(self.host, key, self.event)
    }

    fn push(&mut self, kind: &str, id: Option<String>, fields: Value) {
        let Value::Object(mut event) = fields else { return };
        event.retain(|_, value| !value.is_null());
        event.insert("type".to_owned(), json!(kind));
        event.insert("session".to_owned(), json!(self.session));
        if let Some(id) = id {
            event.insert("id".to_owned(), json!(id));
        }
        self.events.push(Value::Object(event));
    }

    fn push_tool_requested(&mut self, call: Option<&str>, tool: &str, args: &Value) {
        let id = call.map(|call| self.event_id(call));
        match questions::question_text(tool, args) {
            Some(question) => self.push("question.asked", id, json!({"text": question})),
            None => self.push("tool.requested", id, json!({"call": call, "tool": tool, "args": args})),
        }
    }

    fn push_tool_finished(
        &mut self,
        call: Option<&str>,
        key: Option<&str>,
        tool: &str,
        args: &Value,
        result: &HookToolResult,
    ) {
        let id = key.map(|key| self.event_id(key));
        if questions::question_text(tool, args).is_some() {
            // A successful result means that a person has answered; a failed question is not an answer.
            if result.ok {
                let text = questions::answer_text(&bounded(&result.output));
                self.push("user.message", id, json!({"text": text, "origin": "human"}));
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
        self.push("tool.finished", id, fields);
    }

    /// Names the parent of a sub-agent's session: with every event, because any of them may arrive first. The fixed id
    /// makes it count once.
    fn push_parent(&mut self, parent: &str) {
        let id = session_names::event_id(self.host, self.session, "child");
        self.push("session.started", Some(id), json!({"parent": parent}));
    }

    /// Starts a session. A resumed session keeps its counters.
    fn push_session_started(&mut self, child: bool, again: bool) {
        if child {
            return;
        }
        let id = (!again).then(|| self.event_id(self.session));
        self.push("session.started", id, json!({"labels": {"host": self.host.as_str()}}));
    }
}

#[cfg(test)]
#[path = "../decode_tests.rs"]
mod tests;

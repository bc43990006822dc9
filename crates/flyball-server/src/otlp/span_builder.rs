//! Converts events and decisions to spans.

use flyball::{Decision, Event, EventKind, Trip, Verdict};
use flyball_store::EventRecord;
use serde_json::{Value, json};
use std::collections::{BTreeMap, VecDeque};

/// Maximum number of open calls and turns; beyond it, the open spans of one session are flushed.
const MAX_OPEN: usize = 10_000;
/// Key of calls without an id, which end in the order in which they started.
const UNNAMED: &str = "";

/// Whether arguments, results and messages are included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ContentCapture {
    /// They are included.
    Include,
    /// Only names, times and trips are included.
    Omit,
}

/// A span that has started.
#[derive(Debug, Clone)]
struct OpenSpan {
    seq: u64,
    start: u64,
    event: Event,
    decision: Decision,
}

/// A session, and a call or node in it.
type SpanKey = (String, SpanSubject);

/// The subject of a span.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum SpanSubject {
    /// A tool call.
    Call(String),
    /// A turn of a node.
    Turn(String),
}

/// Converts a stream of events to spans.
#[derive(Debug)]
pub(crate) struct SpanBuilder {
    content: ContentCapture,
    open: BTreeMap<SpanKey, VecDeque<OpenSpan>>,
    count: usize,
    /// The user message that precedes a model's reply, by session.
    last_user_message: BTreeMap<String, String>,
}

/// Looks up in the store a span start that this builder has not seen.
pub(crate) type StartLookup<'a> = &'a dyn Fn(&str, u64, &SpanSubject) -> Option<EventRecord>;

impl SpanBuilder {
    /// Creates an empty builder.
    pub(crate) fn new(content: ContentCapture) -> Self {
        SpanBuilder { content, open: BTreeMap::new(), count: 0, last_user_message: BTreeMap::new() }
    }

    /// Adds an event with its decision and returns the spans that are now complete.
    pub(crate) fn push_event(
        &mut self,
        session: &str,
        record: &EventRecord,
        earlier: StartLookup<'_>,
    ) -> Vec<Value> {
        let Some(open) = OpenSpan::from_record(record) else { return Vec::new() };
        let refused = open.decision.decision >= Verdict::Block;
        let end = open.start;
        match open.event.kind.clone() {
            EventKind::ToolRequested { .. } | EventKind::TurnStarted {} if refused => {
                vec![self.span(session, &open, end, None)]
            }
            EventKind::ToolRequested { call, .. } => {
                self.open_span(session, SpanSubject::Call(call.unwrap_or_else(|| UNNAMED.to_owned())), open)
            }
            EventKind::TurnStarted {} => {
                self.open_span(session, SpanSubject::Turn(open.event.node.clone().unwrap_or_default()), open)
            }
            EventKind::ToolFinished { call, .. } | EventKind::ToolDenied { call, .. } => {
                let name = SpanSubject::Call(call.unwrap_or_else(|| UNNAMED.to_owned()));
                vec![self.close_span(session, name, &open, earlier)]
            }
            EventKind::TurnFinished { .. } => {
                let name = SpanSubject::Turn(open.event.node.clone().unwrap_or_default());
                vec![self.close_span(session, name, &open, earlier)]
            }
            EventKind::UserMessage { text, .. } | EventKind::PersonMessage { text, .. } => {
                if self.content == ContentCapture::Include {
                    if self.last_user_message.len() >= MAX_OPEN {
                        self.last_user_message.clear();
                    }
                    self.last_user_message.insert(session.to_owned(), text);
                }
                self.trip_span(session, &open)
            }
            EventKind::AssistantMessage { .. } => vec![self.span(session, &open, end, None)],
            EventKind::SessionEnded { .. } => {
                let mut all = self.trip_span(session, &open);
                all.extend(self.flush_session(session));
                all
            }
            _ => self.trip_span(session, &open),
        }
    }

    /// Returns the spans of a session that have no end.
    pub(crate) fn flush_session(&mut self, session: &str) -> Vec<Value> {
        self.last_user_message.remove(session);
        let from = (session.to_owned(), SpanSubject::Call(String::new()));
        let names = self.open.range(from..).map(|(name, _)| name.clone());
        let names: Vec<SpanKey> = names.take_while(|(of, _)| of == session).collect();
        let mut left: Vec<OpenSpan> =
            names.iter().filter_map(|name| self.open.remove(name)).flatten().collect();
        self.count = self.count.saturating_sub(left.len());
        left.sort_by_key(|open| open.seq);
        left.iter().map(|open| self.span(session, open, open.start, None)).collect()
    }

    fn open_span(&mut self, session: &str, subject: SpanSubject, open: OpenSpan) -> Vec<Value> {
        let oldest = self.open.keys().next().map(|(session, _)| session.clone());
        let evicted = if self.count < MAX_OPEN { None } else { oldest };
        let evicted = evicted.map(|session| self.flush_session(&session)).unwrap_or_default();
        self.open.entry((session.to_owned(), subject)).or_default().push_back(open);
        self.count += 1;
        evicted
    }

    fn close_span(
        &mut self,
        session: &str,
        subject: SpanSubject,
        end: &OpenSpan,
        earlier: StartLookup<'_>,
    ) -> Value {
        let name = (session.to_owned(), subject);
        let mut found = None;
        if let Some(waiting) = self.open.get_mut(&name) {
            found = waiting.pop_front();
            self.count = self.count.saturating_sub(usize::from(found.is_some()));
            if waiting.is_empty() {
                self.open.remove(&name);
            }
        }
        let found =
            found.or_else(|| earlier(session, end.seq, &name.1).as_ref().and_then(OpenSpan::from_record));
        // The start is unknown: use the reported duration, or zero.
        let begun = found.unwrap_or_else(|| {
            let took = match &end.event.kind {
                EventKind::ToolFinished { duration_ms, .. } | EventKind::TurnFinished { duration_ms, .. } => {
                    *duration_ms
                }
                _ => None,
            };
            let start = end.start.saturating_sub(took.unwrap_or(0).saturating_mul(1_000_000));
            OpenSpan { start, ..end.clone() }
        });
        self.span(session, &begun, end.start, Some(end))
    }

    /// A decision outside of calls and turns becomes a span only if a guard tripped.
    fn trip_span(&mut self, session: &str, open: &OpenSpan) -> Vec<Value> {
        if open.decision.trips.is_empty() {
            Vec::new()
        } else {
            vec![self.span(session, open, open.start, None)]
        }
    }

    fn span(&mut self, session: &str, begun: &OpenSpan, end: u64, ended: Option<&OpenSpan>) -> Value {
        let mut attributes = SpanAttributes::default();
        attributes.text("gen_ai.conversation.id", session);
        if let Some(node) = &begun.event.node {
            attributes.text("gen_ai.agent.name", node);
        }
        let (name, failed) = self.describe(session, begun, ended, &mut attributes);
        add_decision(&mut attributes, &begun.decision);
        let mut events = Vec::new();
        for part in std::iter::once(begun).chain(ended) {
            add_usage(&mut attributes, part);
            events.extend(part.decision.trips.iter().map(|trip| trip_event(part.start, trip)));
        }
        let status = failed.map_or_else(|| json!({}), |message| json!({"code": 2, "message": message}));
        json!({
            "traceId": hashed_id(&[session], 32),
            "spanId": hashed_id(&[session, &begun.seq.to_string()], 16),
            "name": name,
            "kind": 1,
            "startTimeUnixNano": begun.start.to_string(),
            "endTimeUnixNano": end.max(begun.start).to_string(),
            "attributes": attributes.0,
            "events": events,
            "status": status,
        })
    }

    /// The name of a span and, if it failed, the reason; adds its specific attributes.
    fn describe(
        &mut self,
        session: &str,
        begun: &OpenSpan,
        ended: Option<&OpenSpan>,
        attributes: &mut SpanAttributes,
    ) -> (String, Option<String>) {
        let refused = begun.decision.decision >= Verdict::Block;
        let why =
            begun.decision.trips.iter().max_by_key(|trip| trip.severity).map(|trip| trip.reason.clone());
        let refused = refused.then(|| why.unwrap_or_else(|| begun.decision.decision.as_str().to_owned()));
        if refused.is_some() {
            attributes.put("flyball.refused", json!({"boolValue": true}));
        }
        match &begun.event.kind {
            EventKind::ToolRequested { call, tool, args } => {
                let failed = self.describe_tool(attributes, call.as_deref(), tool, args, ended);
                (format!("execute_tool {tool}"), refused.or(failed))
            }
            EventKind::ToolFinished { call, tool, args, .. }
            | EventKind::ToolDenied { call, tool, args, .. } => {
                let tool = tool.as_deref().unwrap_or("unknown");
                let failed = self.describe_tool(attributes, call.as_deref(), tool, args, Some(begun));
                (format!("execute_tool {tool}"), failed)
            }
            EventKind::TurnStarted {} | EventKind::TurnFinished { .. } => {
                attributes.text("gen_ai.operation.name", "invoke_agent");
                (format!("invoke_agent {}", begun.event.node.as_deref().unwrap_or_default()), refused)
            }
            EventKind::AssistantMessage { text, .. } => {
                attributes.text("gen_ai.operation.name", "chat");
                if self.content == ContentCapture::Include {
                    if let Some(message_text) = self.last_user_message.remove(session) {
                        attributes.text("gen_ai.input.messages", &message("user", &message_text));
                    }
                    attributes.text("gen_ai.output.messages", &message("assistant", text));
                }
                ("chat".to_owned(), refused)
            }
            other => (format!("flyball {}", other.name()), refused),
        }
    }

    fn describe_tool(
        &self,
        attributes: &mut SpanAttributes,
        call: Option<&str>,
        tool: &str,
        args: &Value,
        ended: Option<&OpenSpan>,
    ) -> Option<String> {
        attributes.text("gen_ai.operation.name", "execute_tool");
        attributes.text("gen_ai.tool.name", tool);
        if let Some(call) = call {
            attributes.text("gen_ai.tool.call.id", call);
        }
        let include_content = self.content == ContentCapture::Include;
        if include_content && !args.is_null() {
            attributes.text("gen_ai.tool.call.arguments", &args.to_string());
        }
        match ended.map(|ended| &ended.event.kind) {
            Some(EventKind::ToolFinished { ok, output, error, .. }) => {
                if include_content && !output.is_null() {
                    attributes.text("gen_ai.tool.call.result", &value_text(output));
                }
                let failed = *ok == Some(false) || !error.is_null() && *ok != Some(true);
                failed.then(|| {
                    attributes.text("error.type", "tool_failed");
                    if include_content && !error.is_null() { value_text(error) } else { "failed".to_owned() }
                })
            }
            Some(EventKind::ToolDenied { by, .. }) => {
                attributes.text("flyball.denied_by", json!(by).as_str().unwrap_or_default());
                Some("denied".to_owned())
            }
            _ => None,
        }
    }
}

impl OpenSpan {
    fn from_record(record: &EventRecord) -> Option<Self> {
        let event = Event::from_json(&record.text).ok()?;
        let decision = serde_json::from_str(&record.decision_json).ok()?;
        // Keeps the order of events with the same millisecond.
        let at = record.at.unwrap_or_default().saturating_mul(1_000_000);
        Some(OpenSpan { seq: record.seq, start: at.saturating_add(record.seq % 1_000_000), event, decision })
    }
}

#[derive(Debug, Default)]
struct SpanAttributes(Vec<Value>);

impl SpanAttributes {
    fn put(&mut self, key: &str, value: Value) {
        self.0.push(json!({"key": key, "value": value}));
    }

    fn text(&mut self, key: &str, text: &str) {
        self.put(key, json!({"stringValue": text}));
    }

    fn number(&mut self, key: &str, number: u64) {
        self.put(key, json!({"intValue": number.to_string()}));
    }
}

/// Adds the decision and its most severe trip.
fn add_decision(attributes: &mut SpanAttributes, decision: &Decision) {
    attributes.text("flyball.decision", decision.decision.as_str());
    attributes.text("flyball.state", decision.state.as_str());
    attributes.number("flyball.seq", decision.seq);
    if let Some(trip) = decision.trips.iter().max_by_key(|trip| trip.severity) {
        add_trip(attributes, trip);
    }
}

fn add_trip(attributes: &mut SpanAttributes, trip: &Trip) {
    attributes.text("flyball.guard", &trip.guard);
    attributes.text("flyball.reason", &trip.reason);
    attributes.number("flyball.count", trip.count);
    attributes.number("flyball.limit", trip.limit);
}

/// A trip as a span event.
fn trip_event(at: u64, trip: &Trip) -> Value {
    let mut attributes = SpanAttributes::default();
    add_trip(&mut attributes, trip);
    attributes.text("flyball.severity", trip.severity.as_str());
    json!({"timeUnixNano": at.to_string(), "name": "flyball.trip", "attributes": attributes.0})
}

fn add_usage(attributes: &mut SpanAttributes, part: &OpenSpan) {
    let used = &part.event.usage;
    if used.tokens() > 0 {
        attributes.number("gen_ai.usage.input_tokens", used.tokens_in);
        attributes.number("gen_ai.usage.output_tokens", used.tokens_out);
    }
    let micros = used.cost_micro_usd;
    let dollars = format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000);
    if let Some(dollars) = serde_json::from_str::<Value>(&dollars).ok().filter(|_| micros > 0) {
        attributes.put("gen_ai.usage.cost", json!({"doubleValue": dollars}));
    }
}

fn message(role: &str, text: &str) -> String {
    json!([{"role": role, "parts": [{"type": "text", "content": text}]}]).to_string()
}

fn value_text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// A hexadecimal id of `digits` digits, derived from names.
fn hashed_id(names: &[&str], digits: usize) -> String {
    let mut hasher = blake3::Hasher::new();
    for name in names {
        hasher.update(&(name.len() as u64).to_le_bytes());
        hasher.update(name.as_bytes());
    }
    hasher.finalize().to_hex().get(..digits).unwrap_or_default().to_owned()
}

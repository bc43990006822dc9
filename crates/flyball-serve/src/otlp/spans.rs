//! From events and decisions to spans.

use flyball::{Decision, Event, Kind, Trip, Verdict};
use flyball_journal::Record;
use serde_json::{Value, json};
use std::collections::{BTreeMap, VecDeque};

/// How many calls and turns may be open; then the oldest of a session are told as they are.
const OPEN: usize = 10_000;
/// Stands for calls without a name: they end in the order in which they came.
const UNNAMED: &str = "";

/// Whether arguments, results and messages go along.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Content {
    /// They do.
    Along,
    /// Only names, times and findings do.
    Left,
}

/// Something that has begun.
#[derive(Debug, Clone)]
struct Open {
    seq: u64,
    start: u64,
    event: Event,
    decision: Decision,
}

/// What belongs together: a session, and a call or a node of it.
type Name = (String, Begun);

/// What may be under way.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Begun {
    /// A call.
    Call(String),
    /// A turn of a node.
    Turn(String),
}

/// Makes spans of events, as they come.
#[derive(Debug)]
pub(crate) struct Weaver {
    content: Content,
    open: BTreeMap<Name, VecDeque<Open>>,
    count: usize,
    /// The words that a model is to answer, by session.
    heard: BTreeMap<String, String>,
}

/// Where a beginning is found that this weaver has not seen: in the store.
pub(crate) type Earlier<'a> = &'a dyn Fn(&str, u64, &Begun) -> Option<Record>;

impl Weaver {
    /// A weaver that has seen nothing.
    pub(crate) fn new(content: Content) -> Self {
        Weaver { content, open: BTreeMap::new(), count: 0, heard: BTreeMap::new() }
    }

    /// An event and its decision; gives the spans that are complete now.
    pub(crate) fn take(&mut self, session: &str, record: &Record, earlier: Earlier<'_>) -> Vec<Value> {
        let Some(open) = Open::read(record) else { return Vec::new() };
        let refused = open.decision.decision >= Verdict::Block;
        let end = open.start;
        match open.event.kind.clone() {
            Kind::ToolRequested { .. } | Kind::TurnStarted {} if refused => {
                vec![self.span(session, &open, end, None)]
            }
            Kind::ToolRequested { call, .. } => {
                self.begin(session, Begun::Call(call.unwrap_or_else(|| UNNAMED.to_owned())), open)
            }
            Kind::TurnStarted {} => {
                self.begin(session, Begun::Turn(open.event.node.clone().unwrap_or_default()), open)
            }
            Kind::ToolFinished { call, .. } | Kind::ToolDenied { call, .. } => {
                let name = Begun::Call(call.unwrap_or_else(|| UNNAMED.to_owned()));
                vec![self.end(session, name, &open, earlier)]
            }
            Kind::TurnFinished { .. } => {
                let name = Begun::Turn(open.event.node.clone().unwrap_or_default());
                vec![self.end(session, name, &open, earlier)]
            }
            Kind::UserMessage { text, .. } | Kind::PersonMessage { text, .. } => {
                if self.content == Content::Along {
                    if self.heard.len() >= OPEN {
                        self.heard.clear();
                    }
                    self.heard.insert(session.to_owned(), text);
                }
                self.finding(session, &open)
            }
            Kind::AssistantMessage { .. } => vec![self.span(session, &open, end, None)],
            Kind::SessionEnded { .. } => {
                let mut all = self.finding(session, &open);
                all.extend(self.rest(session));
                all
            }
            _ => self.finding(session, &open),
        }
    }

    /// What has begun in a session and never ended.
    pub(crate) fn rest(&mut self, session: &str) -> Vec<Value> {
        self.heard.remove(session);
        let from = (session.to_owned(), Begun::Call(String::new()));
        let names = self.open.range(from..).map(|(name, _)| name.clone());
        let names: Vec<Name> = names.take_while(|(of, _)| of == session).collect();
        let mut left: Vec<Open> = names.iter().filter_map(|name| self.open.remove(name)).flatten().collect();
        self.count = self.count.saturating_sub(left.len());
        left.sort_by_key(|open| open.seq);
        left.iter().map(|open| self.span(session, open, open.start, None)).collect()
    }

    fn begin(&mut self, session: &str, what: Begun, open: Open) -> Vec<Value> {
        let oldest = self.open.keys().next().map(|(session, _)| session.clone());
        let told = if self.count < OPEN { None } else { oldest };
        let told = told.map(|session| self.rest(&session)).unwrap_or_default();
        self.open.entry((session.to_owned(), what)).or_default().push_back(open);
        self.count += 1;
        told
    }

    fn end(&mut self, session: &str, what: Begun, end: &Open, earlier: Earlier<'_>) -> Value {
        let name = (session.to_owned(), what);
        let mut found = None;
        if let Some(waiting) = self.open.get_mut(&name) {
            found = waiting.pop_front();
            self.count = self.count.saturating_sub(usize::from(found.is_some()));
            if waiting.is_empty() {
                self.open.remove(&name);
            }
        }
        let found = found.or_else(|| earlier(session, end.seq, &name.1).as_ref().and_then(Open::read));
        // Nobody knows when it began: it says how long it took, or nothing.
        let begun = found.unwrap_or_else(|| {
            let took = match &end.event.kind {
                Kind::ToolFinished { duration_ms, .. } | Kind::TurnFinished { duration_ms, .. } => {
                    *duration_ms
                }
                _ => None,
            };
            let start = end.start.saturating_sub(took.unwrap_or(0).saturating_mul(1_000_000));
            Open { start, ..end.clone() }
        });
        self.span(session, &begun, end.start, Some(end))
    }

    /// A decision that belongs to no call and no turn is told if something was found.
    fn finding(&mut self, session: &str, open: &Open) -> Vec<Value> {
        if open.decision.trips.is_empty() {
            Vec::new()
        } else {
            vec![self.span(session, open, open.start, None)]
        }
    }

    fn span(&mut self, session: &str, begun: &Open, end: u64, ended: Option<&Open>) -> Value {
        let mut attributes = Attributes::default();
        attributes.text("gen_ai.conversation.id", session);
        if let Some(node) = &begun.event.node {
            attributes.text("gen_ai.agent.name", node);
        }
        let (name, failed) = self.describe(session, begun, ended, &mut attributes);
        verdict(&mut attributes, &begun.decision);
        let mut events = Vec::new();
        for part in std::iter::once(begun).chain(ended) {
            usage(&mut attributes, part);
            events.extend(part.decision.trips.iter().map(|trip| finding(part.start, trip)));
        }
        let status = failed.map_or_else(|| json!({}), |message| json!({"code": 2, "message": message}));
        json!({
            "traceId": hex(&[session], 32),
            "spanId": hex(&[session, &begun.seq.to_string()], 16),
            "name": name,
            "kind": 1,
            "startTimeUnixNano": begun.start.to_string(),
            "endTimeUnixNano": end.max(begun.start).to_string(),
            "attributes": attributes.0,
            "events": events,
            "status": status,
        })
    }

    /// The name of a span, what is special about it, and why it failed if it did.
    fn describe(
        &mut self,
        session: &str,
        begun: &Open,
        ended: Option<&Open>,
        attributes: &mut Attributes,
    ) -> (String, Option<String>) {
        let refused = begun.decision.decision >= Verdict::Block;
        let why =
            begun.decision.trips.iter().max_by_key(|trip| trip.severity).map(|trip| trip.reason.clone());
        let refused = refused.then(|| why.unwrap_or_else(|| begun.decision.decision.as_str().to_owned()));
        if refused.is_some() {
            attributes.put("flyball.refused", json!({"boolValue": true}));
        }
        match &begun.event.kind {
            Kind::ToolRequested { call, tool, args } => {
                let failed = self.tool(attributes, call.as_deref(), tool, args, ended);
                (format!("execute_tool {tool}"), refused.or(failed))
            }
            Kind::ToolFinished { call, tool, args, .. } | Kind::ToolDenied { call, tool, args, .. } => {
                let tool = tool.as_deref().unwrap_or("unknown");
                let failed = self.tool(attributes, call.as_deref(), tool, args, Some(begun));
                (format!("execute_tool {tool}"), failed)
            }
            Kind::TurnStarted {} | Kind::TurnFinished { .. } => {
                attributes.text("gen_ai.operation.name", "invoke_agent");
                (format!("invoke_agent {}", begun.event.node.as_deref().unwrap_or_default()), refused)
            }
            Kind::AssistantMessage { text, .. } => {
                attributes.text("gen_ai.operation.name", "chat");
                if self.content == Content::Along {
                    if let Some(heard) = self.heard.remove(session) {
                        attributes.text("gen_ai.input.messages", &message("user", &heard));
                    }
                    attributes.text("gen_ai.output.messages", &message("assistant", text));
                }
                ("chat".to_owned(), refused)
            }
            other => (format!("flyball {}", other.name()), refused),
        }
    }

    fn tool(
        &self,
        attributes: &mut Attributes,
        call: Option<&str>,
        tool: &str,
        args: &Value,
        ended: Option<&Open>,
    ) -> Option<String> {
        attributes.text("gen_ai.operation.name", "execute_tool");
        attributes.text("gen_ai.tool.name", tool);
        if let Some(call) = call {
            attributes.text("gen_ai.tool.call.id", call);
        }
        let along = self.content == Content::Along;
        if along && !args.is_null() {
            attributes.text("gen_ai.tool.call.arguments", &args.to_string());
        }
        match ended.map(|ended| &ended.event.kind) {
            Some(Kind::ToolFinished { ok, output, error, .. }) => {
                if along && !output.is_null() {
                    attributes.text("gen_ai.tool.call.result", &words(output));
                }
                let failed = *ok == Some(false) || !error.is_null() && *ok != Some(true);
                failed.then(|| {
                    attributes.text("error.type", "tool_failed");
                    if along && !error.is_null() { words(error) } else { "failed".to_owned() }
                })
            }
            Some(Kind::ToolDenied { by, .. }) => {
                attributes.text("flyball.denied_by", json!(by).as_str().unwrap_or_default());
                Some("denied".to_owned())
            }
            _ => None,
        }
    }
}

impl Open {
    fn read(record: &Record) -> Option<Self> {
        let event = Event::from_json(&record.text).ok()?;
        let decision = serde_json::from_str(&record.decision).ok()?;
        // Events of one millisecond keep their order.
        let at = record.at.unwrap_or_default().saturating_mul(1_000_000);
        Some(Open { seq: record.seq, start: at.saturating_add(record.seq % 1_000_000), event, decision })
    }
}

#[derive(Debug, Default)]
struct Attributes(Vec<Value>);

impl Attributes {
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

/// What was decided, and the gravest finding behind it.
fn verdict(attributes: &mut Attributes, decision: &Decision) {
    attributes.text("flyball.decision", decision.decision.as_str());
    attributes.text("flyball.state", decision.state.as_str());
    attributes.number("flyball.seq", decision.seq);
    if let Some(trip) = decision.trips.iter().max_by_key(|trip| trip.severity) {
        about(attributes, trip);
    }
}

fn about(attributes: &mut Attributes, trip: &Trip) {
    attributes.text("flyball.guard", &trip.guard);
    attributes.text("flyball.reason", &trip.reason);
    attributes.number("flyball.count", trip.count);
    attributes.number("flyball.limit", trip.limit);
}

/// A finding as an event of a span.
fn finding(at: u64, trip: &Trip) -> Value {
    let mut attributes = Attributes::default();
    about(&mut attributes, trip);
    attributes.text("flyball.severity", trip.severity.as_str());
    json!({"timeUnixNano": at.to_string(), "name": "flyball.trip", "attributes": attributes.0})
}

fn usage(attributes: &mut Attributes, part: &Open) {
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

fn words(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// A number made from names, as so many digits.
fn hex(names: &[&str], digits: usize) -> String {
    let mut hasher = blake3::Hasher::new();
    for name in names {
        hasher.update(&(name.len() as u64).to_le_bytes());
        hasher.update(name.as_bytes());
    }
    hasher.finalize().to_hex().get(..digits).unwrap_or_default().to_owned()
}

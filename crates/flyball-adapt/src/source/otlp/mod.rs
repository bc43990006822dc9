//! Traces in OTLP, as JSON (a document, or a line each from a collector's file) and as protobuf: spans of agents, models
//! and tools after the GenAI conventions of OpenTelemetry or after OpenInference.
//!
//! Spans are written when they end, a parent after its children; so all of a file are read first, and told in the order
//! in which they began and ended.

mod json;
mod story;
mod wire;

use super::lines::{Reader, each_value, readable, whole};
use super::outbox::{Outbox, Step};
use super::{Broken, Format, Sink, Summary};
use flyball_journal::Door;
use serde_json::Value;
use std::collections::BTreeMap;

/// The most spans of one file.
const SPANS: usize = 2_000_000;

/// One span, with those of its attributes that are looked at.
#[derive(Debug, Default, Clone, PartialEq)]
struct Span {
    trace: String,
    id: String,
    name: String,
    /// Nanoseconds since 1970.
    start: u64,
    end: u64,
    failed: bool,
    message: String,
    attributes: BTreeMap<String, Value>,
    /// Its place in the file, from 1.
    line: u64,
}

impl Span {
    /// Keeps an attribute, if it is one that is looked at.
    fn keep(&mut self, key: &str, value: impl FnOnce() -> Value) {
        if is_wanted(key) {
            self.attributes.insert(key.to_owned(), value());
        }
    }

    /// The first of some attributes that is there, as a text.
    fn text(&self, keys: &[&str]) -> Option<String> {
        keys.iter().find_map(|key| match self.attributes.get(*key)? {
            Value::String(text) if text.is_empty() => None,
            Value::String(text) => Some(text.clone()),
            Value::Null => None,
            other => Some(other.to_string()),
        })
    }

    /// The first of some attributes that is there, as a number.
    fn number(&self, keys: &[&str]) -> f64 {
        let number = keys.iter().find_map(|key| match self.attributes.get(*key)? {
            Value::Number(number) => number.as_f64(),
            Value::String(text) => text.parse().ok(),
            _ => None,
        });
        number.unwrap_or(0.0)
    }
}

fn is_wanted(key: &str) -> bool {
    let roots = [
        "gen_ai.",
        "llm.",
        "tool",
        "openinference.",
        "input",
        "output",
        "cache_",
        "error",
        "session",
        "agent",
        "flyball.",
    ];
    let heavy =
        ["gen_ai.tool.definitions", "gen_ai.system_instructions", "llm.tools", "llm.invocation_parameters"];
    let listed = ["model", "exception.message"];
    (roots.iter().any(|root| key.starts_with(root)) || listed.contains(&key))
        && !heavy.iter().any(|heavy| key.starts_with(heavy))
}

/// Reads traces in JSON.
pub(super) fn read_json(mut reader: Reader<'_>, sink: Sink<'_>) -> Result<Summary, Broken> {
    let mut out = Outbox::new(Format::OtlpJson, sink);
    let mut spans = Vec::new();
    each_value(&mut reader, &mut out, &mut |out, text, _| {
        let before = spans.len();
        json::spans(text, &mut |mut span| {
            span.line = out.line().max(1);
            if spans.len() < SPANS {
                spans.push(span);
            }
        });
        if spans.len() > before { Step::Took } else { Step::Nothing }
    })?;
    story::tell(&mut out, spans);
    Ok(out.finish())
}

/// Reads traces in protobuf.
pub(super) fn read_protobuf(mut reader: Reader<'_>, sink: Sink<'_>) -> Result<Summary, Broken> {
    let mut out = Outbox::new(Format::OtlpProtobuf, sink);
    let bytes = whole(&mut reader, &out)?;
    let mut spans: Vec<Span> = Vec::new();
    let ended = wire::spans(&bytes, &mut |mut span| {
        if spans.len() < SPANS {
            out.next_line();
            span.line = out.line();
            clean(&mut span, reader.door);
            spans.push(span);
        }
    });
    match ended {
        wire::Ended::Whole => {}
        wire::Ended::Cut => out.unfinished(),
        wire::Ended::Broken => out.count(Step::Bad),
    }
    story::tell(&mut out, spans);
    Ok(out.finish())
}

/// A span has no line to be cleaned before it is read; its texts are, before anything looks at them.
fn clean(span: &mut Span, door: &Door) {
    for value in span.attributes.values_mut() {
        if let Value::String(text) = value {
            *text = door.clean(text).into_owned();
        }
    }
    span.message = door.clean(&span.message).into_owned();
}

/// Bytes that should be a text.
fn text(bytes: &[u8]) -> String {
    readable(bytes).into_owned()
}

/// Whether bytes look like traces in protobuf: a list of resources, with bytes in it that no text has.
pub(super) fn looks_like_protobuf(head: &[u8]) -> bool {
    let head = wire::unframed(head);
    let odd = head.iter().any(|byte| *byte < 9) || std::str::from_utf8(head).is_err();
    odd && wire::begins_as_traces(head)
}

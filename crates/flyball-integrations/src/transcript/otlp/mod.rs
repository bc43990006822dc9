//! OTLP traces as JSON (a document, or lines of a collector's file) and as protobuf: agent, model and tool spans that
//! follow the GenAI semantic conventions of OpenTelemetry or OpenInference.
//!
//! Spans are written when they end, a parent after its children. So all spans of a file are read first, and events are
//! emitted in the order of their start and end times.

mod json;
mod protobuf;
mod span_events;

use super::emitter::{EventEmitter, LineOutcome};
use super::lines::{TranscriptReader, each_value, lossy_text, read_rest};
use super::{TranscriptError, TranscriptFormat, TranscriptSink, TranscriptSummary};
use flyball_store::RedactingParser;
use serde_json::Value;
use std::collections::BTreeMap;

/// Maximum number of spans per file.
const MAX_SPANS: usize = 2_000_000;

/// One span with its relevant attributes.
#[derive(Debug, Default, Clone, PartialEq)]
struct TraceSpan {
    trace: String,
    id: String,
    name: String,
    /// Nanoseconds since 1970.
    start: u64,
    end: u64,
    failed: bool,
    message: String,
    attributes: BTreeMap<String, Value>,
    /// Its position in the file, starting at 1.
    line: u64,
}

impl TraceSpan {
    /// Stores an attribute, if it is relevant.
    fn set_attribute(&mut self, key: &str, value: impl FnOnce() -> Value) {
        if is_relevant_attribute(key) {
            self.attributes.insert(key.to_owned(), value());
        }
    }

    /// The first present attribute, as text.
    fn text(&self, keys: &[&str]) -> Option<String> {
        keys.iter().find_map(|key| match self.attributes.get(*key)? {
            Value::String(text) if text.is_empty() => None,
            Value::String(text) => Some(text.clone()),
            Value::Null => None,
            other => Some(other.to_string()),
        })
    }

    /// The first present attribute, as a number.
    fn number(&self, keys: &[&str]) -> f64 {
        let number = keys.iter().find_map(|key| match self.attributes.get(*key)? {
            Value::Number(number) => number.as_f64(),
            Value::String(text) => text.parse().ok(),
            _ => None,
        });
        number.unwrap_or(0.0)
    }
}

fn is_relevant_attribute(key: &str) -> bool {
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

/// Reads JSON traces.
pub(super) fn read_json(
    mut reader: TranscriptReader<'_>,
    sink: TranscriptSink<'_>,
) -> Result<TranscriptSummary, TranscriptError> {
    let mut out = EventEmitter::new(TranscriptFormat::OtlpJson, sink);
    let mut spans = Vec::new();
    each_value(&mut reader, &mut out, &mut |out, text, _| {
        let before = spans.len();
        json::spans(text, &mut |mut span| {
            span.line = out.line().max(1);
            if spans.len() < MAX_SPANS {
                spans.push(span);
            }
        });
        if spans.len() > before { LineOutcome::Counted } else { LineOutcome::Skipped }
    })?;
    span_events::emit_events(&mut out, spans);
    Ok(out.finish())
}

/// Reads protobuf traces.
pub(super) fn read_protobuf(
    mut reader: TranscriptReader<'_>,
    sink: TranscriptSink<'_>,
) -> Result<TranscriptSummary, TranscriptError> {
    let mut out = EventEmitter::new(TranscriptFormat::OtlpProtobuf, sink);
    let bytes = read_rest(&mut reader, &out)?;
    let mut spans: Vec<TraceSpan> = Vec::new();
    let ended = protobuf::spans(&bytes, &mut |mut span| {
        if spans.len() < MAX_SPANS {
            out.next_line();
            span.line = out.line();
            redact_span(&mut span, reader.redactor);
            spans.push(span);
        }
    });
    match ended {
        protobuf::WireEnd::Complete => {}
        protobuf::WireEnd::Truncated => out.mark_unfinished(),
        protobuf::WireEnd::Malformed => out.count(LineOutcome::Malformed),
    }
    span_events::emit_events(&mut out, spans);
    Ok(out.finish())
}

/// Redacts the texts of a span. Protobuf has no lines that could be redacted before parsing.
fn redact_span(span: &mut TraceSpan, redactor: &RedactingParser) {
    for value in span.attributes.values_mut() {
        if let Value::String(text) = value {
            *text = redactor.redact(text).into_owned();
        }
    }
    span.message = redactor.redact(&span.message).into_owned();
}

/// Decodes bytes as text, lossily.
fn lossy_string(bytes: &[u8]) -> String {
    lossy_text(bytes).into_owned()
}

/// Whether bytes look like protobuf traces: a list of resources with bytes that do not occur in text.
pub(super) fn looks_like_protobuf(head: &[u8]) -> bool {
    let head = protobuf::unframed(head);
    let odd = head.iter().any(|byte| *byte < 9) || std::str::from_utf8(head).is_err();
    odd && protobuf::looks_like_traces(head)
}

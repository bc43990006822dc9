//! Traces: decisions as spans in OTLP JSON, following the OpenTelemetry conventions for generative AI.
//!
//! A tool call or a turn is one span from start to end; trips are span events. Ids are derived from names, so that
//! all servers of a store produce the same ones.

mod exporter;
mod span_builder;

pub(crate) use exporter::start_exporter;
pub(crate) use span_builder::{ContentCapture, SpanBuilder};

use serde_json::{Value, json};

/// An OTLP collector.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OtlpCollector {
    /// `http://HOST:4318`; `/v1/traces` is appended if missing.
    pub address: String,
    /// Whether to include arguments, results and messages; otherwise only names, times and trips are sent.
    pub content: bool,
}

impl OtlpCollector {
    fn endpoint(&self) -> String {
        let base = self.address.trim_end_matches('/');
        if base.ends_with("/v1/traces") { base.to_owned() } else { format!("{base}/v1/traces") }
    }
}

/// The resource of all spans: this service.
fn resource() -> Value {
    json!({"attributes": [
        {"key": "service.name", "value": {"stringValue": "flyball"}},
        {"key": "service.version", "value": {"stringValue": env!("CARGO_PKG_VERSION")}},
    ]})
}

fn scope() -> Value {
    json!({"name": "flyball", "version": env!("CARGO_PKG_VERSION")})
}

/// An OTLP document of spans.
fn spans_document(spans: &[Value]) -> Value {
    json!({"resourceSpans": [{"resource": resource(), "scopeSpans": [{"scope": scope(), "spans": spans}]}]})
}

/// The text before and after the spans of a document that is written incrementally.
pub(crate) fn document_brackets() -> (String, &'static str) {
    let begin = format!(
        "{{\"resourceSpans\":[{{\"resource\":{},\"scopeSpans\":[{{\"scope\":{},\"spans\":[",
        resource(),
        scope()
    );
    (begin, "]}]}]}\n")
}

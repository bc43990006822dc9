//! Traces: decisions as spans after the conventions of OpenTelemetry for agents, as OTLP in JSON.
//!
//! A tool call or a turn is one span, from the request to its end; what a guard found is an event of it. The ids are
//! made from the names, so that several servers of a store say the same.

mod push;
mod spans;

pub(crate) use push::push;
pub(crate) use spans::{Content, Weaver};

use serde_json::{Value, json};

/// Where traces go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Collector {
    /// `http://HOST:4318`; `/v1/traces` is added unless it is there.
    pub address: String,
    /// Whether arguments, results and messages go along; without it only names, times and findings do.
    pub content: bool,
}

impl Collector {
    fn endpoint(&self) -> String {
        let base = self.address.trim_end_matches('/');
        if base.ends_with("/v1/traces") { base.to_owned() } else { format!("{base}/v1/traces") }
    }
}

/// What all spans have in common: who made them.
fn resource() -> Value {
    json!({"attributes": [
        {"key": "service.name", "value": {"stringValue": "flyball"}},
        {"key": "service.version", "value": {"stringValue": env!("CARGO_PKG_VERSION")}},
    ]})
}

fn scope() -> Value {
    json!({"name": "flyball", "version": env!("CARGO_PKG_VERSION")})
}

/// A document of spans.
fn document(spans: &[Value]) -> Value {
    json!({"resourceSpans": [{"resource": resource(), "scopeSpans": [{"scope": scope(), "spans": spans}]}]})
}

/// What stands before and after the spans of a document that is written piece by piece.
pub(crate) fn brackets() -> (String, &'static str) {
    let begin = format!(
        "{{\"resourceSpans\":[{{\"resource\":{},\"scopeSpans\":[{{\"scope\":{},\"spans\":[",
        resource(),
        scope()
    );
    (begin, "]}]}]}\n")
}

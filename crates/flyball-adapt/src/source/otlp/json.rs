//! Spans in OTLP's JSON: resources hold scopes, scopes hold spans.

use super::super::fields::{Count, Text, or_default};
use super::super::peel::{fields, items, pieces};
use super::Span;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Raw<'a> {
    #[serde(borrow)]
    trace_id: Text<'a>,
    #[serde(borrow)]
    span_id: Text<'a>,
    #[serde(borrow)]
    name: Text<'a>,
    #[serde(borrow)]
    start_time_unix_nano: Text<'a>,
    #[serde(borrow)]
    end_time_unix_nano: Text<'a>,
    #[serde(borrow, deserialize_with = "or_default")]
    attributes: Vec<Attribute<'a>>,
    #[serde(borrow, deserialize_with = "or_default")]
    events: Vec<Happening<'a>>,
    #[serde(borrow, deserialize_with = "or_default")]
    status: Status<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Attribute<'a> {
    #[serde(borrow)]
    key: Text<'a>,
    #[serde(borrow)]
    value: Option<&'a RawValue>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Happening<'a> {
    #[serde(borrow, deserialize_with = "or_default")]
    attributes: Vec<Attribute<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Status<'a> {
    code: Count,
    #[serde(borrow)]
    message: Text<'a>,
}

/// Hands on the spans of a document; of one that is cut, those before the cut.
pub(super) fn spans(text: &str, each: &mut dyn FnMut(Span)) {
    for resource in below(text, &["resourceSpans", "resource_spans", "batches"]) {
        for scope in below(resource, &["scopeSpans", "scope_spans", "instrumentationLibrarySpans"]) {
            let list = fields(scope).find(|field| field.key == "spans").map_or("", |field| field.value);
            for span in items(list) {
                if let Ok(raw) = serde_json::from_str::<Raw<'_>>(span) {
                    each(read(raw));
                }
            }
        }
    }
}

fn below<'a>(text: &'a str, keys: &'static [&'static str]) -> impl Iterator<Item = &'a str> {
    let list = fields(text).find(|field| keys.contains(&field.key)).map_or("", |field| field.value);
    pieces(list)
}

fn read(raw: Raw<'_>) -> Span {
    let nanoseconds = |text: &Text<'_>| text.parse().unwrap_or(0);
    let mut span = Span {
        start: nanoseconds(&raw.start_time_unix_nano),
        end: nanoseconds(&raw.end_time_unix_nano),
        trace: raw.trace_id.to_string(),
        id: raw.span_id.to_string(),
        name: raw.name.to_string(),
        failed: raw.status.code.0 == 2,
        message: raw.status.message.to_string(),
        ..Span::default()
    };
    for attribute in raw.events.iter().flat_map(|event| &event.attributes).chain(&raw.attributes) {
        span.keep(&attribute.key, || value(attribute.value.map_or("", RawValue::get)));
    }
    span
}

/// A value is an object with one key that says what it is.
fn value(raw: &str) -> Value {
    let Some(field) = fields(raw).next() else { return Value::Null };
    match field.key {
        "stringValue" | "string_value" | "intValue" | "int_value" | "bytesValue" => {
            serde_json::from_str::<Text<'_>>(field.value).map_or(Value::Null, |text| Value::from(text.0))
        }
        "arrayValue" | "array_value" => {
            let list =
                fields(field.value).find(|field| field.key == "values").map_or("", |field| field.value);
            Value::Array(items(list).map(value).collect())
        }
        "kvlistValue" | "kvlist_value" => {
            let list =
                fields(field.value).find(|field| field.key == "values").map_or("", |field| field.value);
            let pairs = items(list).filter_map(|pair| serde_json::from_str::<Attribute<'_>>(pair).ok());
            let pair = |one: Attribute<'_>| (one.key.to_string(), value(one.value.map_or("", RawValue::get)));
            Value::Object(pairs.map(pair).collect())
        }
        _ => serde_json::from_str(field.value).unwrap_or(Value::Null),
    }
}

//! OTLP JSON: resources contain scopes, scopes contain spans.

use super::super::lenient_fields::{LenientCount, LenientText, or_default};
use super::super::raw_json::{fields, items, items_with_partial};
use super::TraceSpan;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct OtlpJsonSpan<'a> {
    #[serde(borrow)]
    trace_id: LenientText<'a>,
    #[serde(borrow)]
    span_id: LenientText<'a>,
    #[serde(borrow)]
    name: LenientText<'a>,
    #[serde(borrow)]
    start_time_unix_nano: LenientText<'a>,
    #[serde(borrow)]
    end_time_unix_nano: LenientText<'a>,
    #[serde(borrow, deserialize_with = "or_default")]
    attributes: Vec<OtlpJsonAttribute<'a>>,
    #[serde(borrow, deserialize_with = "or_default")]
    events: Vec<OtlpJsonEvent<'a>>,
    #[serde(borrow, deserialize_with = "or_default")]
    status: OtlpJsonStatus<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct OtlpJsonAttribute<'a> {
    #[serde(borrow)]
    key: LenientText<'a>,
    #[serde(borrow)]
    value: Option<&'a RawValue>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct OtlpJsonEvent<'a> {
    #[serde(borrow, deserialize_with = "or_default")]
    attributes: Vec<OtlpJsonAttribute<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct OtlpJsonStatus<'a> {
    code: LenientCount,
    #[serde(borrow)]
    message: LenientText<'a>,
}

/// Calls a function for each complete span of a document.
pub(super) fn spans(text: &str, each: &mut dyn FnMut(TraceSpan)) {
    for resource in child_items(text, &["resourceSpans", "resource_spans", "batches"]) {
        for scope in child_items(resource, &["scopeSpans", "scope_spans", "instrumentationLibrarySpans"]) {
            let list = fields(scope).find(|field| field.key == "spans").map_or("", |field| field.value);
            for span in items(list) {
                if let Ok(raw) = serde_json::from_str::<OtlpJsonSpan<'_>>(span) {
                    each(to_span(raw));
                }
            }
        }
    }
}

fn child_items<'a>(text: &'a str, keys: &'static [&'static str]) -> impl Iterator<Item = &'a str> {
    let list = fields(text).find(|field| keys.contains(&field.key)).map_or("", |field| field.value);
    items_with_partial(list)
}

fn to_span(raw: OtlpJsonSpan<'_>) -> TraceSpan {
    let nanoseconds = |text: &LenientText<'_>| text.parse().unwrap_or(0);
    let mut span = TraceSpan {
        start: nanoseconds(&raw.start_time_unix_nano),
        end: nanoseconds(&raw.end_time_unix_nano),
        trace: raw.trace_id.to_string(),
        id: raw.span_id.to_string(),
        name: raw.name.to_string(),
        failed: raw.status.code.0 == 2,
        message: raw.status.message.to_string(),
        ..TraceSpan::default()
    };
    for attribute in raw.events.iter().flat_map(|event| &event.attributes).chain(&raw.attributes) {
        span.set_attribute(&attribute.key, || attribute_value(attribute.value.map_or("", RawValue::get)));
    }
    span
}

/// Parses an attribute value, an object whose only key is the type.
fn attribute_value(raw: &str) -> Value {
    let Some(field) = fields(raw).next() else { return Value::Null };
    match field.key {
        "stringValue" | "string_value" | "intValue" | "int_value" | "bytesValue" => {
            serde_json::from_str::<LenientText<'_>>(field.value)
                .map_or(Value::Null, |text| Value::from(text.0))
        }
        "arrayValue" | "array_value" => {
            let list =
                fields(field.value).find(|field| field.key == "values").map_or("", |field| field.value);
            Value::Array(items(list).map(attribute_value).collect())
        }
        "kvlistValue" | "kvlist_value" => {
            let list =
                fields(field.value).find(|field| field.key == "values").map_or("", |field| field.value);
            let pairs =
                items(list).filter_map(|pair| serde_json::from_str::<OtlpJsonAttribute<'_>>(pair).ok());
            let pair = |one: OtlpJsonAttribute<'_>| {
                (one.key.to_string(), attribute_value(one.value.map_or("", RawValue::get)))
            };
            Value::Object(pairs.map(pair).collect())
        }
        _ => serde_json::from_str(field.value).unwrap_or(Value::Null),
    }
}

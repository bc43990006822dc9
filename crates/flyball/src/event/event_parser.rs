//! Parses a line of JSON into an event, with all limits checked. Errors name the field.

use super::canonical_json::fields_fingerprint;
use super::event_fields::{EventFields, EventFieldsSeed};
use super::types::{fields_of, type_names};
use super::{Event, EventId, EventKind, Usage};
use crate::error::{Error, ErrorCode};
use crate::limits::{EVENT_BYTES, EVENT_DEPTH, EVENT_ENTRIES, ID_BYTES, NAME_BYTES};
use crate::suggest::closest;
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::map::Entry;
use serde_json::{Map, Number, Value, json};
use std::fmt;

pub(super) fn parse_event_bytes(line: &[u8]) -> Result<Event, Error> {
    let text = std::str::from_utf8(line).map_err(|error| {
        Error::new(
            ErrorCode::NotUtf8,
            format!("the line is not UTF-8 (invalid byte at column {})", error.valid_up_to() + 1),
            "write the file as UTF-8; in Python: open(path, 'w', encoding='utf-8')",
        )
    })?;
    parse_event(text)
}

pub(super) fn parse_event(line: &str) -> Result<Event, Error> {
    if line.len() > EVENT_BYTES {
        return Err(Error::new(
            ErrorCode::EventTooLarge,
            format!("the line has {} bytes; the limit is {EVENT_BYTES}", line.len()),
            "send a fingerprint or the beginning of a large output instead",
        ));
    }
    let mut fields = parse_fields(line)?;
    let id = take_id(&mut fields)?;
    let name = match fields.remove("type") {
        Some(Value::String(name)) => name,
        Some(_) => return Err(invalid_field("type", "a string")),
        None => {
            return Err(missing_field("type", "set the event type, for example \"tool.requested\""));
        }
    };
    let Some(own) = fields_of(&name) else { return Err(unknown_event_type(&name)) };
    let session = take_name(&mut fields, "session")?.unwrap_or_else(|| "default".to_owned());
    let at = fields.remove("at").map_or(Ok(None), |value| parse_time(&value))?;
    let node = take_name(&mut fields, "node")?;
    let round = fields.remove("round").map_or(Ok(None), |value| parse_round(&value))?;
    let usage = fields.remove("usage").map_or(Ok(Usage::default()), |value| parse_usage(&value))?;
    let kind = match super::fast_path::parse_tool_event(&name, &mut fields) {
        Some(kind) => kind,
        None => parse_kind(&name, &mut fields, own)?,
    };
    Ok(Event { session, id, at, node, round, usage, kind, extra: fields.into_map() })
}

/// Parses the fields of a line, within the limits of [`parse_bounded_json`].
fn parse_fields(line: &str) -> Result<EventFields<'_>, Error> {
    if !line.trim_ascii_start().starts_with('{') {
        parse_bounded_json(line)?;
        return Err(invalid_json(
            "the line is JSON but not an object",
            "write one {\"type\": …} object per line",
        ));
    }
    let mut reader = serde_json::Deserializer::from_str(line);
    let read = EventFieldsSeed.deserialize(&mut reader).and_then(|fields| reader.end().map(|()| fields));
    read.map_err(|error| json_error(&error))
}

/// Parses any kind of event; errors name the field.
fn parse_kind(name: &str, fields: &mut EventFields<'_>, own: &[&str]) -> Result<EventKind, Error> {
    let mut taken = Map::from_iter([("type".to_owned(), Value::from(name))]);
    for field in own {
        if let Some(value) = fields.remove(field) {
            taken.insert((*field).to_owned(), value);
        }
    }
    deserialize_kind(name, taken)
}

fn deserialize_kind(name: &str, mut own: Map<String, Value>) -> Result<EventKind, Error> {
    check_names(&own)?;
    let null = |own: &Map<String, Value>, field: &str| own.get(field).is_none_or(Value::is_null);
    if name == "confirmation.answered" && null(&own, "value") && !null(&own, "text") {
        // With a `text`, a null `value` counts as missing; alone it means that the answer was not understood.
        own.remove("value");
    }
    let whole = Value::Object(own);
    // Deserialized by reference, so that only the fields that the event keeps are copied.
    let kind = EventKind::deserialize(&whole)
        .map_err(|error| kind_error(name, whole.as_object().unwrap_or(&Map::new()), &error))?;
    if let EventKind::ToolFinished { call: None, tool: None, .. }
    | EventKind::ToolDenied { call: None, tool: None, .. } = &kind
    {
        return Err(missing_field("call", "set `call` to the call that ended, or set `tool` and `args`"));
    }
    if let EventKind::ConfirmationRequested { plan, .. } = &kind
        && plan.len() > crate::limits::PLAN_STEPS
    {
        return Err(invalid_field("plan", "a list of at most 256 steps"));
    }
    if let EventKind::OutputReceived { text: None, output: None, .. } = &kind {
        return Err(missing_field("text", "set `text` to the output"));
    }
    if let EventKind::ConfirmationAnswered { text: None, value: None, .. } = &kind {
        return Err(missing_field(
            "text",
            "set `text`, or set `value` to one of: yes, no, cancel, change, true, false or null",
        ));
    }
    Ok(kind)
}

/// Checks the length of names; texts, arguments and outputs are only limited by the line.
fn check_names(own: &Map<String, Value>) -> Result<(), Error> {
    for field in [
        "call",
        "tool",
        "from",
        "to",
        "edge",
        "signal",
        "operation",
        "key",
        "parent",
        "guard",
        "by",
        "requester",
    ] {
        if let Some(Value::String(text)) = own.get(field)
            && text.len() > NAME_BYTES
        {
            return Err(name_too_long(field, text.len(), NAME_BYTES));
        }
    }
    Ok(())
}

/// Converts a deserialization error into one that names the field.
fn kind_error(name: &str, own: &Map<String, Value>, error: &serde_json::Error) -> Error {
    let text = error.to_string();
    if let Some(field) = text.strip_prefix("missing field `").and_then(|rest| rest.split('`').next()) {
        return missing_field(field, &format!("`{name}` requires it"));
    }
    let culprit = own.iter().find(|(key, value)| {
        let mut probe = own.clone();
        probe.remove(*key);
        !value.is_null()
            && key.as_str() != "type"
            && match serde_json::from_value::<EventKind>(Value::Object(probe)) {
                Ok(_) => true,
                Err(other) => {
                    other.to_string().starts_with("missing field") && !text.contains("missing field")
                }
            }
    });
    let field = culprit.map_or_else(|| name.to_owned(), |(key, _)| key.clone());
    Error::new(
        ErrorCode::WrongType,
        format!("invalid `{field}` in `{name}`: {text}"),
        format!("see the fields of `{name}` in docs/events.md"),
    )
}

fn take_id(fields: &mut EventFields<'_>) -> Result<Option<EventId>, Error> {
    let id = match fields.get("id") {
        None => return Ok(None),
        Some(Value::String(text)) if text.is_empty() => {
            return Err(invalid_field("id", "a non-empty string"));
        }
        Some(Value::String(text)) if text.len() > ID_BYTES => {
            return Err(name_too_long("id", text.len(), ID_BYTES));
        }
        Some(Value::String(_) | Value::Number(_) | Value::Null) => fields.remove("id"),
        Some(_) => return Err(invalid_field("id", "a string")),
    };
    let id = match id {
        Some(Value::String(text)) => text,
        Some(Value::Number(number)) => number.to_string(),
        _ => return Ok(None),
    };
    // A redelivery may get a new timestamp, so the time of arrival is not part of the body.
    let is_stamp = |key: &str| matches!(key, "at" | "claimed_at" | "suspended_ms" | "claimed_suspended_ms");
    let body = fields_fingerprint(fields.iter().filter(|(key, _)| !is_stamp(key)));
    Ok(Some(EventId { id, body }))
}

fn take_name(fields: &mut EventFields<'_>, field: &str) -> Result<Option<String>, Error> {
    match fields.remove(field) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) if text.len() > NAME_BYTES => {
            Err(name_too_long(field, text.len(), NAME_BYTES))
        }
        Some(Value::String(text)) if text.is_empty() => Err(invalid_field(field, "a non-empty string")),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(invalid_field(field, "a string")),
    }
}

/// Parses milliseconds since 1970, or RFC 3339.
fn parse_time(value: &Value) -> Result<Option<u64>, Error> {
    let advice = "milliseconds since 1970, or RFC 3339 such as 2026-11-15T12:00:00Z";
    match value {
        Value::Null => Ok(None),
        Value::Number(number) => whole_number(number).map(Some).ok_or_else(|| invalid_field("at", advice)),
        Value::String(text) => {
            let stamp: jiff::Timestamp = text.parse().map_err(|_| invalid_field("at", advice))?;
            u64::try_from(stamp.as_millisecond()).map(Some).map_err(|_| invalid_field("at", advice))
        }
        _ => Err(invalid_field("at", advice)),
    }
}

fn parse_round(value: &Value) -> Result<Option<u64>, Error> {
    match value {
        Value::Null => Ok(None),
        Value::Number(number) => {
            whole_number(number).map(Some).ok_or_else(|| invalid_field("round", "a whole number or a string"))
        }
        Value::String(text) => Ok(Some(crate::fingerprint::Fingerprint::of_text(text).number())),
        _ => Err(invalid_field("round", "a whole number or a string")),
    }
}

fn parse_usage(value: &Value) -> Result<Usage, Error> {
    let Value::Object(map) = value else { return Err(invalid_field("usage", "an object")) };
    let count = |field: &str| match map.get(field) {
        None | Some(Value::Null) => Ok(0),
        Some(Value::Number(number)) => {
            whole_number(number).ok_or_else(|| invalid_field(&format!("usage.{field}"), "a whole number"))
        }
        Some(_) => Err(invalid_field(&format!("usage.{field}"), "a whole number")),
    };
    let cost = match map.get("cost_usd") {
        None | Some(Value::Null) => 0,
        Some(Value::Number(number)) => micro_dollars(number)
            .ok_or_else(|| invalid_field("usage.cost_usd", "an amount in dollars, at least 0"))?,
        Some(_) => return Err(invalid_field("usage.cost_usd", "an amount in dollars")),
    };
    Ok(Usage { tokens_in: count("tokens_in")?, tokens_out: count("tokens_out")?, cost_micro_usd: cost })
}

fn whole_number(number: &Number) -> Option<u64> {
    if let Some(value) = number.as_u64() {
        return Some(value);
    }
    let float = number.as_f64()?;
    (0.0..1e15).contains(&float).then_some(float as u64)
}

#[expect(clippy::float_arithmetic, reason = "dollars are converted once, here, to whole millionths")]
fn micro_dollars(number: &Number) -> Option<u64> {
    let dollars = number.as_f64()?;
    (0.0..1e12).contains(&dollars).then(|| (dollars * 1e6).round() as u64)
}

pub(super) fn event_to_json(event: &Event) -> Value {
    let mut map = match serde_json::to_value(&event.kind) {
        Ok(Value::Object(map)) => map,
        _ => Map::new(),
    };
    map.insert("session".into(), json!(event.session));
    if let Some(id) = &event.id {
        map.insert("id".into(), json!(id.id));
    }
    if let Some(at) = event.at {
        map.insert("at".into(), json!(at));
    }
    if let Some(node) = &event.node {
        map.insert("node".into(), json!(node));
    }
    if let Some(round) = event.round {
        map.insert("round".into(), json!(round));
    }
    if event.usage != Usage::default() {
        #[expect(clippy::float_arithmetic, reason = "dollars are for display")]
        let dollars = event.usage.cost_micro_usd as f64 / 1e6;
        let usage = json!({"tokens_in": event.usage.tokens_in, "tokens_out": event.usage.tokens_out, "cost_usd": dollars});
        map.insert("usage".into(), usage);
    }
    for (key, value) in &event.extra {
        map.entry(key.clone()).or_insert_with(|| value.clone());
    }
    Value::Object(map)
}

fn unknown_event_type(name: &str) -> Error {
    let shown: String = name.chars().take(60).collect();
    let advice = closest(name, type_names()).map_or_else(
        || "see docs/events.md for all types".to_owned(),
        |near| format!("did you mean `{near}`? See docs/events.md for all types"),
    );
    Error::new(ErrorCode::UnknownEvent, format!("unknown event type `{shown}`"), advice)
}

fn missing_field(field: &str, advice: &str) -> Error {
    Error::new(ErrorCode::MissingField, format!("missing field `{field}`"), advice)
}

fn invalid_field(field: &str, wanted: &str) -> Error {
    Error::new(ErrorCode::WrongType, format!("invalid `{field}`"), format!("expected {wanted}"))
}

fn name_too_long(field: &str, length: usize, most: usize) -> Error {
    Error::new(
        ErrorCode::NameTooLong,
        format!("`{field}` has {length} bytes; the limit is {most}"),
        "use a shorter name",
    )
}

fn invalid_json(what: &str, advice: &str) -> Error {
    Error::new(ErrorCode::InvalidJson, what, advice)
}

/// Parses JSON within limits that the JSON library does not check: depth, number of entries, duplicate keys.
pub(super) fn parse_bounded_json(text: &str) -> Result<Value, Error> {
    let mut reader = serde_json::Deserializer::from_str(text);
    let read =
        BoundedValueSeed::default().deserialize(&mut reader).and_then(|value| reader.end().map(|()| value));
    read.map_err(|error| json_error(&error))
}

fn json_error(error: &serde_json::Error) -> Error {
    let text = error.to_string();
    let place = format!("column {}", error.column());
    if let Some(key) = text.strip_prefix(DUPLICATE_KEY).and_then(|rest| rest.split("` at line").next()) {
        return Error::new(
            ErrorCode::DuplicateKey,
            format!("duplicate key `{key}` in one object ({place})"),
            "keep one of them",
        );
    }
    if text.starts_with(TOO_DEEP) || text.starts_with("recursion limit") {
        return Error::new(
            ErrorCode::EventTooDeep,
            format!("the JSON is nested deeper than {EVENT_DEPTH} levels ({place})"),
            "send deeply nested data as a string",
        );
    }
    let what = text.split(" at line ").next().unwrap_or(&text).to_owned();
    invalid_json(
        &format!("the line is not JSON: {what} ({place})"),
        "write one complete JSON object per line",
    )
}

const DUPLICATE_KEY: &str = "duplicate key `";
const TOO_DEEP: &str = "nested too deeply";

/// Deserializes any value and tracks its depth.
#[derive(Clone, Copy, Default)]
pub(super) struct BoundedValueSeed {
    depth: usize,
}

impl<'de> DeserializeSeed<'de> for BoundedValueSeed {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for BoundedValueSeed {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let inner = self.deeper()?;
        let mut items = Vec::new();
        while let Some(item) = access.next_element_seed(inner)? {
            items.push(item);
            check_entry_count(items.len())?;
        }
        Ok(Value::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        self.deeper()?.read_entries(&mut map, &mut access)?;
        Ok(Value::Object(map))
    }
}

impl BoundedValueSeed {
    /// Reads the entries of an object into a map; `self` reads their values.
    pub(super) fn read_entries<'de, A: MapAccess<'de>>(
        self,
        map: &mut Map<String, Value>,
        access: &mut A,
    ) -> Result<(), A::Error> {
        while let Some(key) = access.next_key::<String>()? {
            match map.entry(key) {
                Entry::Vacant(place) => {
                    let value = access.next_value_seed(self)?;
                    place.insert(value);
                }
                Entry::Occupied(there) => return Err(duplicate_key(there.key())),
            }
            check_entry_count(map.len())?;
        }
        Ok(())
    }

    pub(super) fn deeper<E: serde::de::Error>(self) -> Result<BoundedValueSeed, E> {
        if self.depth >= EVENT_DEPTH {
            return Err(E::custom(TOO_DEEP));
        }
        Ok(BoundedValueSeed { depth: self.depth + 1 })
    }
}

pub(super) fn duplicate_key<E: serde::de::Error>(key: &str) -> E {
    let shown: String = key.chars().take(60).collect();
    E::custom(format!("{DUPLICATE_KEY}{shown}`"))
}

pub(super) fn check_entry_count<E: serde::de::Error>(count: usize) -> Result<(), E> {
    if count > EVENT_ENTRIES {
        return Err(E::custom(format!("more than {EVENT_ENTRIES} entries in one object or list")));
    }
    Ok(())
}

#[cfg(test)]
#[path = "event_parser_tests.rs"]
mod tests;

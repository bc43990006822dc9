//! From a line of JSON to an event, with every bound checked and every complaint naming the field.

use super::canonical::fields_fingerprint;
use super::fields::{Fields, Top};
use super::types::{fields_of, type_names};
use super::{Event, EventId, Kind, Usage};
use crate::error::{Code, Error};
use crate::limits::{EVENT_BYTES, EVENT_DEPTH, EVENT_ENTRIES, ID_BYTES, NAME_BYTES};
use crate::suggest::closest;
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::map::Entry;
use serde_json::{Map, Number, Value, json};
use std::fmt;

pub(super) fn event_bytes(line: &[u8]) -> Result<Event, Error> {
    let text = std::str::from_utf8(line).map_err(|error| {
        Error::new(
            Code::NotUtf8,
            format!("the line is not UTF-8 (bad byte at column {})", error.valid_up_to() + 1),
            "write the file as UTF-8; in Python: open(path, 'w', encoding='utf-8')",
        )
    })?;
    event(text)
}

pub(super) fn event(line: &str) -> Result<Event, Error> {
    if line.len() > EVENT_BYTES {
        return Err(Error::new(
            Code::EventTooLarge,
            format!("the line has {} bytes, an event may have {EVENT_BYTES}", line.len()),
            "send a fingerprint or the first part of large outputs instead of the whole",
        ));
    }
    let mut fields = fields(line)?;
    let id = take_id(&mut fields)?;
    let name = match fields.remove("type") {
        Some(Value::String(name)) => name,
        Some(_) => return Err(wrong("type", "a text")),
        None => return Err(missing("type", "say which kind of event it is, for example \"tool.requested\"")),
    };
    let Some(own) = fields_of(&name) else { return Err(unknown(&name)) };
    let session = take_name(&mut fields, "session")?.unwrap_or_else(|| "default".to_owned());
    let at = fields.remove("at").map_or(Ok(None), |value| time(&value))?;
    let node = take_name(&mut fields, "node")?;
    let round = fields.remove("round").map_or(Ok(None), |value| round(&value))?;
    let usage = fields.remove("usage").map_or(Ok(Usage::default()), |value| usage(&value))?;
    let kind = match super::quick::take(&name, &mut fields) {
        Some(kind) => kind,
        None => slowly(&name, &mut fields, own)?,
    };
    Ok(Event { session, id, at, node, round, usage, kind, extra: fields.into_map() })
}

/// The fields of a line, with the bounds of [`checked`].
fn fields(line: &str) -> Result<Fields<'_>, Error> {
    if !line.trim_ascii_start().starts_with('{') {
        checked(line)?;
        return Err(broken("the line is JSON but not an object", "write one {\"type\": …} object a line"));
    }
    let mut reader = serde_json::Deserializer::from_str(line);
    let read = Top.deserialize(&mut reader).and_then(|fields| reader.end().map(|()| fields));
    read.map_err(|error| json_error(&error))
}

/// A kind of event the long way, with a complaint that names the field.
fn slowly(name: &str, fields: &mut Fields<'_>, own: &[&str]) -> Result<Kind, Error> {
    let mut taken = Map::from_iter([("type".to_owned(), Value::from(name))]);
    for field in own {
        if let Some(value) = fields.remove(field) {
            taken.insert((*field).to_owned(), value);
        }
    }
    typed(name, taken)
}

fn typed(name: &str, mut own: Map<String, Value>) -> Result<Kind, Error> {
    check_names(&own)?;
    let null = |own: &Map<String, Value>, field: &str| own.get(field).is_none_or(Value::is_null);
    if name == "confirmation.answered" && null(&own, "value") && !null(&own, "text") {
        // Beside a text, null is a field that was left out; alone it is an answer that nobody understood.
        own.remove("value");
    }
    let whole = Value::Object(own);
    // Read through a reference: nothing is copied that the event does not keep.
    let kind = Kind::deserialize(&whole)
        .map_err(|error| explain(name, whole.as_object().unwrap_or(&Map::new()), &error))?;
    if let Kind::ToolFinished { call: None, tool: None, .. }
    | Kind::ToolDenied { call: None, tool: None, .. } = &kind
    {
        return Err(missing("call", "name the call that ended, or give `tool` and `args` here"));
    }
    if let Kind::ConfirmationRequested { plan, .. } = &kind
        && plan.len() > crate::limits::PLAN_STEPS
    {
        return Err(wrong("plan", "a list of at most 256 steps"));
    }
    if let Kind::OutputReceived { text: None, output: None, .. } = &kind {
        return Err(missing("text", "give the output as `text`"));
    }
    if let Kind::ConfirmationAnswered { text: None, value: None, .. } = &kind {
        return Err(missing(
            "text",
            "give the answer as `text`, or as `value`: yes, no, cancel, change, true, false or null",
        ));
    }
    Ok(kind)
}

/// Names are bounded; texts, arguments and outputs are bounded by the line.
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
            return Err(too_long(field, text.len(), NAME_BYTES));
        }
    }
    Ok(())
}

/// Turns the JSON library's complaint into one that names the field.
fn explain(name: &str, own: &Map<String, Value>, error: &serde_json::Error) -> Error {
    let text = error.to_string();
    if let Some(field) = text.strip_prefix("missing field `").and_then(|rest| rest.split('`').next()) {
        return missing(field, &format!("`{name}` needs it"));
    }
    let culprit = own.iter().find(|(key, value)| {
        let mut probe = own.clone();
        probe.remove(*key);
        !value.is_null()
            && key.as_str() != "type"
            && match serde_json::from_value::<Kind>(Value::Object(probe)) {
                Ok(_) => true,
                Err(other) => {
                    other.to_string().starts_with("missing field") && !text.contains("missing field")
                }
            }
    });
    let field = culprit.map_or_else(|| name.to_owned(), |(key, _)| key.clone());
    Error::new(
        Code::WrongType,
        format!("`{field}` of `{name}` cannot be used: {text}"),
        format!("see the fields of `{name}` in docs/events.md"),
    )
}

fn take_id(fields: &mut Fields<'_>) -> Result<Option<EventId>, Error> {
    let id = match fields.get("id") {
        None => return Ok(None),
        Some(Value::String(text)) if text.is_empty() => return Err(wrong("id", "a text that is not empty")),
        Some(Value::String(text)) if text.len() > ID_BYTES => {
            return Err(too_long("id", text.len(), ID_BYTES));
        }
        Some(Value::String(_) | Value::Number(_) | Value::Null) => fields.remove("id"),
        Some(_) => return Err(wrong("id", "a text")),
    };
    let id = match id {
        Some(Value::String(text)) => text,
        Some(Value::Number(number)) => number.to_string(),
        _ => return Ok(None),
    };
    // A redelivery may be stamped anew on its way; the time of arrival is not part of the body.
    let is_stamp = |key: &str| matches!(key, "at" | "claimed_at" | "suspended_ms" | "claimed_suspended_ms");
    let body = fields_fingerprint(fields.iter().filter(|(key, _)| !is_stamp(key)));
    Ok(Some(EventId { id, body }))
}

fn take_name(fields: &mut Fields<'_>, field: &str) -> Result<Option<String>, Error> {
    match fields.remove(field) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) if text.len() > NAME_BYTES => Err(too_long(field, text.len(), NAME_BYTES)),
        Some(Value::String(text)) if text.is_empty() => Err(wrong(field, "a text that is not empty")),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(wrong(field, "a text")),
    }
}

/// Milliseconds since 1970, or RFC 3339.
fn time(value: &Value) -> Result<Option<u64>, Error> {
    let advice = "milliseconds since 1970, or RFC 3339 such as 2026-11-15T12:00:00Z";
    match value {
        Value::Null => Ok(None),
        Value::Number(number) => whole(number).map(Some).ok_or_else(|| wrong("at", advice)),
        Value::String(text) => {
            let stamp: jiff::Timestamp = text.parse().map_err(|_| wrong("at", advice))?;
            u64::try_from(stamp.as_millisecond()).map(Some).map_err(|_| wrong("at", advice))
        }
        _ => Err(wrong("at", advice)),
    }
}

fn round(value: &Value) -> Result<Option<u64>, Error> {
    match value {
        Value::Null => Ok(None),
        Value::Number(number) => {
            whole(number).map(Some).ok_or_else(|| wrong("round", "a whole number or a text"))
        }
        Value::String(text) => Ok(Some(crate::fingerprint::Fingerprint::of_text(text).number())),
        _ => Err(wrong("round", "a whole number or a text")),
    }
}

fn usage(value: &Value) -> Result<Usage, Error> {
    let Value::Object(map) = value else { return Err(wrong("usage", "an object")) };
    let count = |field: &str| match map.get(field) {
        None | Some(Value::Null) => Ok(0),
        Some(Value::Number(number)) => {
            whole(number).ok_or_else(|| wrong(&format!("usage.{field}"), "a whole number"))
        }
        Some(_) => Err(wrong(&format!("usage.{field}"), "a whole number")),
    };
    let cost = match map.get("cost_usd") {
        None | Some(Value::Null) => 0,
        Some(Value::Number(number)) => {
            micro(number).ok_or_else(|| wrong("usage.cost_usd", "an amount in dollars, not below 0"))?
        }
        Some(_) => return Err(wrong("usage.cost_usd", "an amount in dollars")),
    };
    Ok(Usage { tokens_in: count("tokens_in")?, tokens_out: count("tokens_out")?, cost_micro_usd: cost })
}

fn whole(number: &Number) -> Option<u64> {
    if let Some(value) = number.as_u64() {
        return Some(value);
    }
    let float = number.as_f64()?;
    (0.0..1e15).contains(&float).then_some(float as u64)
}

#[expect(
    clippy::float_arithmetic,
    reason = "money is read as dollars once, here, and is whole millionths from then on"
)]
fn micro(number: &Number) -> Option<u64> {
    let dollars = number.as_f64()?;
    (0.0..1e12).contains(&dollars).then(|| (dollars * 1e6).round() as u64)
}

pub(super) fn to_json(event: &Event) -> Value {
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
        #[expect(clippy::float_arithmetic, reason = "dollars are for people to read")]
        let dollars = event.usage.cost_micro_usd as f64 / 1e6;
        let usage = json!({"tokens_in": event.usage.tokens_in, "tokens_out": event.usage.tokens_out, "cost_usd": dollars});
        map.insert("usage".into(), usage);
    }
    for (key, value) in &event.extra {
        map.entry(key.clone()).or_insert_with(|| value.clone());
    }
    Value::Object(map)
}

fn unknown(name: &str) -> Error {
    let shown: String = name.chars().take(60).collect();
    let advice = closest(name, type_names()).map_or_else(
        || "the types are listed in docs/events.md".to_owned(),
        |near| format!("did you mean `{near}`? The types are listed in docs/events.md"),
    );
    Error::new(Code::UnknownEvent, format!("`{shown}` is not a type of event"), advice)
}

fn missing(field: &str, advice: &str) -> Error {
    Error::new(Code::MissingField, format!("the field `{field}` is missing"), advice)
}

fn wrong(field: &str, wanted: &str) -> Error {
    Error::new(Code::WrongType, format!("`{field}` cannot be used"), format!("give {wanted}"))
}

fn too_long(field: &str, length: usize, most: usize) -> Error {
    Error::new(
        Code::NameTooLong,
        format!("`{field}` has {length} bytes, it may have {most}"),
        "use a shorter name",
    )
}

fn broken(what: &str, advice: &str) -> Error {
    Error::new(Code::BrokenLine, what, advice)
}

/// Reads JSON with the bounds that the JSON library does not check: depth, number of entries, duplicate keys.
pub(super) fn checked(text: &str) -> Result<Value, Error> {
    let mut reader = serde_json::Deserializer::from_str(text);
    let read = Bounded::default().deserialize(&mut reader).and_then(|value| reader.end().map(|()| value));
    read.map_err(|error| json_error(&error))
}

fn json_error(error: &serde_json::Error) -> Error {
    let text = error.to_string();
    let place = format!("column {}", error.column());
    if let Some(key) = text.strip_prefix(DUPLICATE).and_then(|rest| rest.split("` at line").next()) {
        return Error::new(
            Code::DuplicateKey,
            format!("the key `{key}` stands twice in one object ({place})"),
            "keep one of the two; which one would count is anybody's guess",
        );
    }
    if text.starts_with(TOO_DEEP) || text.starts_with("recursion limit") {
        return Error::new(
            Code::EventTooDeep,
            format!("the JSON is nested deeper than {EVENT_DEPTH} levels ({place})"),
            "send deeply nested data as a text",
        );
    }
    let what = text.split(" at line ").next().unwrap_or(&text).to_owned();
    broken(&format!("the line is not JSON: {what} ({place})"), "write one complete JSON object a line")
}

const DUPLICATE: &str = "duplicate key `";
const TOO_DEEP: &str = "nested too deeply";

/// Reads any value, and knows how deep it is.
#[derive(Clone, Copy, Default)]
pub(super) struct Bounded {
    depth: usize,
}

impl<'de> DeserializeSeed<'de> for Bounded {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Bounded {
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
            too_many(items.len())?;
        }
        Ok(Value::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        self.deeper()?.entries(&mut map, &mut access)?;
        Ok(Value::Object(map))
    }
}

impl Bounded {
    /// Reads the entries of an object into a map; `self` reads their values.
    pub(super) fn entries<'de, A: MapAccess<'de>>(
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
                Entry::Occupied(there) => return Err(duplicate(there.key())),
            }
            too_many(map.len())?;
        }
        Ok(())
    }

    pub(super) fn deeper<E: serde::de::Error>(self) -> Result<Bounded, E> {
        if self.depth >= EVENT_DEPTH {
            return Err(E::custom(TOO_DEEP));
        }
        Ok(Bounded { depth: self.depth + 1 })
    }
}

pub(super) fn duplicate<E: serde::de::Error>(key: &str) -> E {
    let shown: String = key.chars().take(60).collect();
    E::custom(format!("{DUPLICATE}{shown}`"))
}

pub(super) fn too_many<E: serde::de::Error>(count: usize) -> Result<(), E> {
    if count > EVENT_ENTRIES {
        return Err(E::custom(format!("more than {EVENT_ENTRIES} entries in one object or list")));
    }
    Ok(())
}

#[cfg(test)]
#[path = "parse_tests.rs"]
mod tests;

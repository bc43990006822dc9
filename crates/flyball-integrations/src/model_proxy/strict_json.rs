//! JSON parser that rejects duplicate keys, because parsers disagree about which one counts.

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};
use std::fmt;

/// Parses a body.
///
/// # Errors
/// If it is not JSON, or an object has a duplicate key.
pub(super) fn parse_strict(body: &[u8]) -> Result<Value, serde_json::Error> {
    serde_json::from_slice::<StrictValue>(body).map(|strict| strict.0)
}

struct StrictValue(Value);

impl<'de> Deserialize<'de> for StrictValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(StrictVisitor).map(StrictValue)
    }
}

struct StrictVisitor;

impl<'de> Visitor<'de> for StrictVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON without duplicate keys")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(StrictValue(item)) = items.next_element()? {
            list.push(item);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some((key, StrictValue(value))) = entries.next_entry::<String, StrictValue>()? {
            if map.insert(key, value).is_some() {
                return Err(A::Error::custom("duplicate key in an object"));
            }
        }
        Ok(Value::Object(map))
    }
}

#[cfg(test)]
mod tests {
    use super::parse_strict;
    use serde_json::json;

    #[test]
    fn duplicate_keys_are_refused_at_any_depth() {
        assert!(parse_strict(br#"{"a": 1, "a": 2}"#).is_err());
        assert!(parse_strict(br#"{"a": [{"b": 1, "\u0062": 2}]}"#).is_err());
        let body = json!({"a": [1, -2, 0.5, "x", null, true, {"b": {"a": 1}}]});
        assert_eq!(parse_strict(body.to_string().as_bytes()).ok(), Some(body));
    }

    #[test]
    fn other_encodings_and_several_values_are_refused() {
        let wide: Vec<u8> = "{}".encode_utf16().flat_map(u16::to_le_bytes).collect();
        assert!(parse_strict(&wide).is_err());
        assert!(parse_strict(b"{} {}").is_err());
    }
}

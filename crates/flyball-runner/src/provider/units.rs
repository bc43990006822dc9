//! Durations and prices as written in the file, parsed to integers.

use flyball::units::{parse_duration_ms, parse_micro_usd, parse_scaled};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, de::Error};
use serde_json::Value;
use std::borrow::Cow;
use std::time::Duration;

/// A duration: `250ms`, `90s`, `10m`, `1.5h`, or a number of milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProviderDuration(pub Duration);

/// US dollars in millionths: `0.15` is 150,000.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usd(pub u64);

impl<'de> Deserialize<'de> for ProviderDuration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = raw_number(deserializer)?;
        // A fraction of a millisecond is rounded down.
        let ms = parse_duration_ms(&text).or_else(|| parse_scaled(&text, 1));
        ms.map(|ms| ProviderDuration(Duration::from_millis(ms))).ok_or_else(|| {
            D::Error::custom(format!(
                "invalid duration '{text}': expected e.g. 250ms, 90s, 10m, 1h or a number of milliseconds"
            ))
        })
    }
}

impl<'de> Deserialize<'de> for Usd {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = raw_number(deserializer)?;
        let wrong =
            || D::Error::custom(format!("invalid dollar amount '{text}': expected a number such as 0.15"));
        parse_micro_usd(&text).map(Usd).ok_or_else(wrong)
    }
}

impl JsonSchema for ProviderDuration {
    fn schema_name() -> Cow<'static, str> {
        "Millis".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A duration: `250ms`, `90s`, `10m`, `1.5h`, or a number of milliseconds.",
            "anyOf": [{"type": "number", "minimum": 0}, {"type": "string"}],
        })
    }
}

impl JsonSchema for Usd {
    fn schema_name() -> Cow<'static, str> {
        "Usd".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "US dollars, such as 0.15.",
            "anyOf": [{"type": "number", "minimum": 0}, {"type": "string"}],
        })
    }
}

/// A number or string as written, without floating point conversion.
fn raw_number<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    match Value::deserialize(deserializer)? {
        Value::Number(number) => Ok(number.to_string()),
        Value::String(text) => Ok(text),
        other => Ok(other.to_string()),
    }
}

#[cfg(test)]
#[path = "units_tests.rs"]
mod tests;

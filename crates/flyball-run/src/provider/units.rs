//! Durations and money as people write them in the file, turned into integers.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, de::Error};
use serde_json::Value;
use std::borrow::Cow;
use std::time::Duration;

const MICRO: u64 = 1_000_000;
const UNITS: [(&str, u64); 4] = [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000)];

/// A duration: `250ms`, `90s`, `10m`, `1.5h`, or a number of milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Millis(pub Duration);

/// Dollars as millionths: `0.15` is 150,000.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usd(pub u64);

impl<'de> Deserialize<'de> for Millis {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = written(deserializer)?;
        millis(&text).map(|ms| Millis(Duration::from_millis(ms))).ok_or_else(|| {
            D::Error::custom(format!(
                "'{text}' is no duration; write 250ms, 90s, 10m, 1h or a number of milliseconds"
            ))
        })
    }
}

impl<'de> Deserialize<'de> for Usd {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = written(deserializer)?;
        let amount = text.trim().strip_prefix('$').unwrap_or(&text);
        let wrong =
            || D::Error::custom(format!("'{text}' is no amount of dollars; write a number like 0.15"));
        scaled(amount, MICRO).map(Usd).ok_or_else(wrong)
    }
}

impl JsonSchema for Millis {
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
            "description": "Dollars, such as 0.15.",
            "anyOf": [{"type": "number", "minimum": 0}, {"type": "string"}],
        })
    }
}

/// A number or text as it was written: no number passes through floating point arithmetic.
fn written<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    match Value::deserialize(deserializer)? {
        Value::Number(number) => Ok(number.to_string()),
        Value::String(text) => Ok(text),
        other => Ok(other.to_string()),
    }
}

fn millis(text: &str) -> Option<u64> {
    let text = text.trim();
    let end = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, unit) = text.split_at_checked(end)?;
    let unit = if unit.is_empty() { "ms" } else { unit };
    let (_, factor) = UNITS.iter().find(|(name, _)| *name == unit)?;
    scaled(number, *factor)
}

/// A decimal number times a factor, rounded down.
fn scaled(number: &str, factor: u64) -> Option<u64> {
    let number = number.trim();
    let (whole, part) = number.split_once('.').unwrap_or((number, ""));
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    if whole.is_empty() || !digits(whole) || !digits(part) || whole.len() > 12 || part.len() > 12 {
        return None;
    }
    let mantissa: u128 = [whole, part].concat().parse().ok()?;
    let divisor = 10_u128.checked_pow(u32::try_from(part.len()).ok()?)?;
    u64::try_from(mantissa.checked_mul(u128::from(factor))? / divisor).ok()
}

#[cfg(test)]
#[path = "units_tests.rs"]
mod tests;

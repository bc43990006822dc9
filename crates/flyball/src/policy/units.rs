//! Limits, switches and money as values of a policy file.

pub(super) use crate::units::{
    parse_duration_ms, parse_micro_usd, parse_scaled, parse_whole, written_duration,
};
use serde_json::Value;

/// Maximum duration: about 100 years, so that sums never overflow.
pub(super) const MAX_MS: u64 = 100 * 366 * 24 * 3_600_000;
/// Maximum cost: a million dollars, in millionths.
pub(super) const MAX_MICRO_USD: u64 = 1_000_000 * MICROS_PER_DOLLAR;
const MICROS_PER_DOLLAR: u64 = 1_000_000;

/// Millionths of a dollar as a value for the effective policy: a number if whole, else text.
pub(super) fn usd_value(micro: u64) -> Value {
    if micro.is_multiple_of(MICROS_PER_DOLLAR) {
        return Value::from(micro / MICROS_PER_DOLLAR);
    }
    let text = format!("{}.{:06}", micro / MICROS_PER_DOLLAR, micro % MICROS_PER_DOLLAR);
    Value::from(text.trim_end_matches('0'))
}

/// Whether the value means "no limit": `off`, `0`, `false` or null.
pub(super) fn is_off(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Number(n) => n.as_f64() == Some(0.0),
        Value::String(s) => {
            let s = s.trim();
            s.eq_ignore_ascii_case("off") || s == "0"
        }
        _ => false,
    }
}

/// Whether two values are equivalent: `4h` and `14400000`, `off` and `0`.
pub(super) fn same_meaning(a: &Value, b: &Value) -> bool {
    fn number(value: &Value) -> Option<u64> {
        match value {
            Value::Number(n) => n.as_u64(),
            Value::String(s) => parse_duration_ms(s),
            _ => None,
        }
    }
    a == b || (is_off(a) && is_off(b)) || number(a).is_some_and(|n| number(b) == Some(n))
}

#[cfg(test)]
#[path = "units_tests.rs"]
mod tests;

//! Durations, limits and money as people write them, turned into integers.

use serde_json::Value;

/// The longest duration: about 100 years, so that sums never overflow.
pub(super) const MAX_MS: u64 = 100 * 366 * 24 * 3_600_000;
/// The largest amount of money: a million dollars in millionths.
pub(super) const MAX_MICRO_USD: u64 = 1_000_000 * MICRO;
const MICRO: u64 = 1_000_000;

const UNITS: [(&str, u64); 5] =
    [("d", 24 * 3_600_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

/// A decimal number without floating point: `1.5` becomes (15, 1).
fn decimal(text: &str) -> Option<(u128, u32)> {
    let text = text.trim();
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let part = part.trim_end_matches('0');
    let digits = |s: &str| s.bytes().all(|b| b.is_ascii_digit());
    if whole.is_empty() || !digits(whole) || !digits(part) || whole.len() > 18 || part.len() > 12 {
        return None;
    }
    let joined: String = [whole, part].concat();
    Some((joined.parse().ok()?, u32::try_from(part.len()).ok()?))
}

/// `number` × `factor` as a whole number, rounded down.
pub(super) fn scaled(number: &str, factor: u64) -> Option<u64> {
    let (mantissa, decimals) = decimal(number)?;
    let divisor = 10_u128.checked_pow(decimals)?;
    u64::try_from(mantissa.checked_mul(u128::from(factor))? / divisor).ok()
}

/// A whole number, underscores allowed: `200_000`.
pub(super) fn whole(text: &str) -> Option<u64> {
    let text = text.trim();
    if text.is_empty() || text.starts_with('_') || !text.bytes().all(|b| b.is_ascii_digit() || b == b'_') {
        return None;
    }
    text.replace('_', "").parse().ok()
}

/// `90s`, `10m`, `4h`, `1h30m`, `1.5h`, `250ms`, or a bare number of milliseconds.
pub(super) fn duration_ms(text: &str) -> Option<u64> {
    if let Some(ms) = whole(text) {
        return Some(ms);
    }
    let mut rest = text.trim();
    let mut total = 0_u64;
    while !rest.is_empty() {
        let number_end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, after) = rest.split_at_checked(number_end)?;
        let after = after.trim_start();
        let unit_end = after.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(after.len());
        let (unit, next) = after.split_at_checked(unit_end)?;
        let (_, factor) = UNITS.iter().find(|(name, _)| *name == unit)?;
        total = total.checked_add(scaled(number, *factor)?)?;
        rest = next.trim_start();
    }
    (!text.trim().is_empty()).then_some(total)
}

/// The shortest way to write a duration: `4h`, `1h30m`, `1500ms`.
pub(super) fn duration_text(ms: u64) -> String {
    if ms == 0 || !ms.is_multiple_of(1_000) {
        return format!("{ms}ms");
    }
    let mut rest = ms;
    let mut text = String::new();
    for (unit, factor) in UNITS.iter().skip(1).take(3) {
        if rest >= *factor {
            text.push_str(&format!("{}{unit}", rest / factor));
            rest %= factor;
        }
    }
    text
}

/// Dollars as millionths: `2.5` becomes 2,500,000.
pub(super) fn micro_usd(text: &str) -> Option<u64> {
    let text = text.trim();
    scaled(text.strip_prefix('$').unwrap_or(text), MICRO)
}

/// Millionths of a dollar as a value for the effective policy: a number if whole, else text.
pub(super) fn usd_value(micro: u64) -> Value {
    if micro.is_multiple_of(MICRO) {
        return Value::from(micro / MICRO);
    }
    let text = format!("{}.{:06}", micro / MICRO, micro % MICRO);
    Value::from(text.trim_end_matches('0'))
}

/// Whether the value says "no limit": `off`, `0`, `false`, null.
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

/// Whether two written values mean the same: `4h` and `14400000`, `off` and `0`.
pub(super) fn same_meaning(a: &Value, b: &Value) -> bool {
    fn number(value: &Value) -> Option<u64> {
        match value {
            Value::Number(n) => n.as_u64(),
            Value::String(s) => duration_ms(s),
            _ => None,
        }
    }
    a == b || (is_off(a) && is_off(b)) || number(a).is_some_and(|n| number(b) == Some(n))
}

#[cfg(test)]
#[path = "units_tests.rs"]
mod tests;

//! Reading a price list: YAML, TOML or JSON, checked key by key, without floating point arithmetic.

use super::{Price, Prices, Rates};
use flyball::policy::{Format, parse};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

const MICRO: u128 = 1_000_000;
/// The dearest price that is believed, in dollars for a million tokens.
const DEAREST: u64 = 100_000;

/// Why a price list cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PriceError {
    /// The file, and the line if it is known.
    pub place: String,
    /// What is wrong.
    pub what: String,
    /// What to do about it.
    pub advice: String,
}

/// Reads a list.
pub(super) fn read(text: &str, name: &str) -> Result<Prices, PriceError> {
    let layer = parse(text, Format::guess(name, text), name).map_err(|errors| {
        let first = errors.iter().next();
        let line = first.and_then(|first| first.line).map(|line| format!(":{line}")).unwrap_or_default();
        PriceError {
            place: format!("{name}{line}"),
            what: first.map(|first| first.what.clone()).unwrap_or_default(),
            advice: "write it as docs/audit.md shows, as YAML, TOML or JSON".to_owned(),
        }
    })?;
    let wrong = |what: String| {
        PriceError {
        place: name.to_owned(),
        what,
        advice: "a model is written as `name: {input: 3.00, output: 15.00, cache_read: 0.30, cache_write: 3.75}`, \
                 in dollars for a million tokens"
            .to_owned(),
    }
    };
    let Value::Object(tree) = &layer.tree else { return Err(wrong("there is no `models`".to_owned())) };
    known(tree, &["version", "dated", "models"], "").map_err(wrong)?;
    let Some(Value::Object(list)) = tree.get("models") else {
        return Err(wrong("there is no `models` with names and prices under it".to_owned()));
    };
    let mut models = BTreeMap::new();
    for (model, value) in list {
        let Value::Object(fields) = value else { return Err(wrong(format!("`{model}` has no prices"))) };
        let (price, aliases) = price(model, fields).map_err(wrong)?;
        for name in aliases.into_iter().chain([model.clone()]) {
            models.insert(name, price);
        }
    }
    let dated = tree.get("dated").and_then(Value::as_str).unwrap_or_default().to_owned();
    Ok(Prices { dated, models })
}

fn price(model: &str, fields: &Map<String, Value>) -> Result<(Price, Vec<String>), String> {
    known(fields, &["input", "output", "cache_read", "cache_write", "long", "aliases", "source"], model)?;
    let base = rates(model, fields)?;
    let long = match fields.get("long") {
        None => None,
        Some(Value::Object(long)) => {
            known(long, &["above", "input", "output", "cache_read", "cache_write"], model)?;
            let above = long.get("above").and_then(Value::as_u64);
            let above = above.ok_or_else(|| format!("`{model}.long.above` is no number of tokens"))?;
            Some((above, rates(model, long)?))
        }
        Some(_) => return Err(format!("`{model}.long` has no prices")),
    };
    let aliases = match fields.get("aliases") {
        None => Vec::new(),
        Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        Some(_) => return Err(format!("`{model}.aliases` is no list of names")),
    };
    Ok((Price { rates: base, long }, aliases))
}

fn rates(model: &str, fields: &Map<String, Value>) -> Result<Rates, String> {
    let amount = |key: &str| match fields.get(key) {
        None => Ok(None),
        Some(value) => {
            micros(value).map(Some).ok_or_else(|| format!("`{model}.{key}` is no amount of dollars"))
        }
    };
    let needed = |key: &str| amount(key)?.ok_or_else(|| format!("`{model}` has no `{key}`"));
    let input = needed("input")?;
    Ok(Rates {
        input,
        output: needed("output")?,
        cache_read: amount("cache_read")?.unwrap_or(input),
        cache_write: amount("cache_write")?.unwrap_or(input),
    })
}

fn known(fields: &Map<String, Value>, keys: &[&str], model: &str) -> Result<(), String> {
    let inside = if model.is_empty() { String::new() } else { format!(" of `{model}`") };
    match fields.keys().find(|key| !keys.contains(&key.as_str())) {
        Some(key) => Err(format!("`{key}`{inside} is not known; known are {}", keys.join(", "))),
        None => Ok(()),
    }
}

/// Dollars as they are written, in millionths.
fn micros(value: &Value) -> Option<u64> {
    let text = match value {
        Value::Number(number) => number.to_string(),
        Value::String(text) => text.trim().trim_start_matches('$').to_owned(),
        _ => return None,
    };
    let (whole, part) = text.split_once('.').unwrap_or((&text, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !digits(whole) || !digits(part) || whole.len() > 6 || part.len() > 9 {
        return None;
    }
    let mantissa: u128 = [whole, part].concat().parse().ok()?;
    let divisor = 10_u128.checked_pow(u32::try_from(part.len()).ok()?)?;
    let micros = u64::try_from(mantissa * MICRO / divisor).ok()?;
    (micros <= DEAREST * 1_000_000).then_some(micros)
}

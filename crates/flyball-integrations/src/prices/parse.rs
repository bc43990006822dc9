//! Parses a price list in YAML, TOML or JSON, checking every key, without floating-point arithmetic.

use super::{ModelPrice, PriceList, TokenRates};
use flyball::policy::{PolicyFormat, parse};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

const MICRO: u128 = 1_000_000;
/// Maximum accepted price, in dollars per million tokens.
const MAX_DOLLARS: u64 = 100_000;

/// An invalid price list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PriceError {
    /// The file, and the line if known.
    pub location: String,
    /// The error message.
    pub message: String,
    /// The suggested fix.
    pub help: String,
}

/// Parses a price list.
pub(super) fn parse_prices(text: &str, name: &str) -> Result<PriceList, PriceError> {
    let layer = parse(text, PolicyFormat::guess(name, text), name).map_err(|errors| {
        let first = errors.iter().next();
        let line = first.and_then(|first| first.line).map(|line| format!(":{line}")).unwrap_or_default();
        PriceError {
            location: format!("{name}{line}"),
            message: first.map(|first| first.message.clone()).unwrap_or_default(),
            help: "write it as YAML, TOML or JSON in the format shown in docs/audit.md".to_owned(),
        }
    })?;
    let wrong = |what: String| PriceError {
        location: name.to_owned(),
        message: what,
        help: "write a model as `name: {input: 3.00, output: 15.00, cache_read: 0.30, cache_write: 3.75}`, \
             in dollars per million tokens"
            .to_owned(),
    };
    let Value::Object(tree) = &layer.tree else { return Err(wrong("there is no `models` key".to_owned())) };
    check_keys(tree, &["version", "dated", "models"], "").map_err(wrong)?;
    let Some(Value::Object(list)) = tree.get("models") else {
        return Err(wrong("there is no `models` key with model names and prices".to_owned()));
    };
    let mut models = BTreeMap::new();
    for (model, value) in list {
        let Value::Object(fields) = value else { return Err(wrong(format!("`{model}` has no prices"))) };
        let (price, aliases) = parse_price(model, fields).map_err(wrong)?;
        for name in aliases.into_iter().chain([model.clone()]) {
            models.insert(name, price);
        }
    }
    let dated = tree.get("dated").and_then(Value::as_str).unwrap_or_default().to_owned();
    Ok(PriceList { dated, models })
}

fn parse_price(model: &str, fields: &Map<String, Value>) -> Result<(ModelPrice, Vec<String>), String> {
    check_keys(
        fields,
        &["input", "output", "cache_read", "cache_write", "long", "aliases", "source"],
        model,
    )?;
    let base = parse_rates(model, fields)?;
    let long = match fields.get("long") {
        None => None,
        Some(Value::Object(long)) => {
            check_keys(long, &["above", "input", "output", "cache_read", "cache_write"], model)?;
            let above = long.get("above").and_then(Value::as_u64);
            let above = above.ok_or_else(|| format!("`{model}.long.above` is not a number of tokens"))?;
            Some((above, parse_rates(model, long)?))
        }
        Some(_) => return Err(format!("`{model}.long` has no prices")),
    };
    let aliases = match fields.get("aliases") {
        None => Vec::new(),
        Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        Some(_) => return Err(format!("`{model}.aliases` is not a list of names")),
    };
    Ok((ModelPrice { rates: base, long_request: long }, aliases))
}

fn parse_rates(model: &str, fields: &Map<String, Value>) -> Result<TokenRates, String> {
    let amount = |key: &str| match fields.get(key) {
        None => Ok(None),
        Some(value) => parse_micros(value)
            .map(Some)
            .ok_or_else(|| format!("`{model}.{key}` is not an amount in dollars")),
    };
    let needed = |key: &str| amount(key)?.ok_or_else(|| format!("`{model}` has no `{key}`"));
    let input = needed("input")?;
    Ok(TokenRates {
        input,
        output: needed("output")?,
        cache_read: amount("cache_read")?.unwrap_or(input),
        cache_write: amount("cache_write")?.unwrap_or(input),
    })
}

fn check_keys(fields: &Map<String, Value>, keys: &[&str], model: &str) -> Result<(), String> {
    let inside = if model.is_empty() { String::new() } else { format!(" in `{model}`") };
    match fields.keys().find(|key| !keys.contains(&key.as_str())) {
        Some(key) => Err(format!("unknown key `{key}`{inside}; known keys are {}", keys.join(", "))),
        None => Ok(()),
    }
}

/// Converts dollars as written to millionths.
fn parse_micros(value: &Value) -> Option<u64> {
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
    (micros <= MAX_DOLLARS * 1_000_000).then_some(micros)
}

//! The schema of a tool's arguments is sent to the model, and the same schema checks what comes back.
//!
//! A small part of JSON Schema: `type`, `properties`, `required`, `additionalProperties`, `items`, `enum`, `minimum`,
//! `maximum`, `minLength`, `maxLength`, `minItems`, `maxItems`, besides words that only describe. A schema with any
//! other word is refused when it is declared, because a rule that nobody checks is worse than none.

use super::error::ToolError;
use serde_json::{Map, Value};

/// Words that check.
const CHECKED: [&str; 12] = [
    "type",
    "properties",
    "required",
    "additionalProperties",
    "items",
    "enum",
    "minimum",
    "maximum",
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
];
/// Words that only describe.
const DESCRIBING: [&str; 8] =
    ["title", "description", "default", "examples", "$schema", "$id", "$comment", "deprecated"];
/// The types there are.
const TYPES: [&str; 7] = ["object", "array", "string", "integer", "number", "boolean", "null"];
/// The deepest nesting of a schema.
const DEPTH: usize = 16;

/// Checks arguments against the schema of a tool. No arguments at all (`null`) are taken as an empty object.
pub(super) fn check(tool: &str, schema: &Value, args: &Value) -> Result<(), ToolError> {
    let empty = Value::Object(Map::new());
    let args = if args.is_null() { &empty } else { args };
    if !args.is_object() {
        let what = format!("the arguments of '{tool}' are {}, not an object", kind(args));
        return Err(ToolError::new("wrong_type", what, "send one JSON object with a value for each field"));
    }
    value(schema, args, &mut Path { tool, parts: Vec::new() })
}

/// Where we are inside the arguments.
struct Path<'a> {
    tool: &'a str,
    parts: Vec<String>,
}

impl Path<'_> {
    fn wrong(&self, problem: &str, hint: impl Into<String>) -> ToolError {
        let what = format!("the field '{}' of '{}' {problem}", self.parts.concat(), self.tool);
        ToolError::new("wrong_type", what, hint)
    }

    fn field(&self, name: &str) -> String {
        let prefix = self.parts.concat();
        if prefix.is_empty() { name.to_owned() } else { format!("{prefix}.{name}") }
    }

    fn inside<T>(&mut self, part: String, then: impl FnOnce(&mut Self) -> T) -> T {
        self.parts.push(part);
        let done = then(self);
        self.parts.pop();
        done
    }
}

fn value(schema: &Value, found: &Value, path: &mut Path<'_>) -> Result<(), ToolError> {
    let wanted = types(schema);
    if !wanted.is_empty() && !wanted.iter().any(|wanted| is(found, wanted)) {
        let wanted = wanted.join(" or ");
        return Err(path.wrong(&format!("is {}, not {wanted}", kind(found)), format!("send it as {wanted}")));
    }
    if let Some(allowed) = schema.get("enum").and_then(Value::as_array)
        && !allowed.contains(found)
    {
        let allowed: Vec<String> = allowed.iter().map(Value::to_string).collect();
        return Err(
            path.wrong("has a value that is not allowed", format!("use one of {}", allowed.join(", ")))
        );
    }
    match found {
        Value::Object(map) => object(schema, map, path),
        Value::Array(list) => array(schema, list, path),
        Value::String(text) => {
            within(schema, "minLength", "maxLength", text.chars().count(), "characters", path)
        }
        Value::Number(_) => range(schema, found, path),
        Value::Null | Value::Bool(_) => Ok(()),
    }
}

fn object(schema: &Value, map: &Map<String, Value>, path: &mut Path<'_>) -> Result<(), ToolError> {
    let none = Map::new();
    let properties = schema.get("properties").and_then(Value::as_object).unwrap_or(&none);
    let required = schema.get("required").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    for name in required.iter().filter_map(Value::as_str) {
        if !map.contains_key(name) {
            let what = format!("the field '{}' of '{}' is missing", path.field(name), path.tool);
            let about =
                properties.get(name).and_then(|about| about.get("description")).and_then(Value::as_str);
            let hint = about.map_or_else(|| "send it".to_owned(), |about| format!("send it: {about}"));
            return Err(ToolError::new("missing_field", what, hint));
        }
    }
    for (name, found) in map {
        if let Some(about) = properties.get(name) {
            let part = if path.parts.is_empty() { name.clone() } else { format!(".{name}") };
            path.inside(part, |path| value(about, found, path))?;
        } else if schema.get("additionalProperties") == Some(&Value::Bool(false)) {
            let what = format!("'{}' has no field '{}'", path.tool, path.field(name));
            let known: Vec<&str> = properties.keys().map(String::as_str).collect();
            let hint = format!("its fields are: {}", known.join(", "));
            return Err(ToolError::new("unknown_field", what, hint));
        }
    }
    Ok(())
}

fn array(schema: &Value, list: &[Value], path: &mut Path<'_>) -> Result<(), ToolError> {
    within(schema, "minItems", "maxItems", list.len(), "elements", path)?;
    let Some(items) = schema.get("items") else { return Ok(()) };
    for (number, found) in list.iter().enumerate() {
        path.inside(format!("[{number}]"), |path| value(items, found, path))?;
    }
    Ok(())
}

fn within(
    schema: &Value,
    least: &str,
    most: &str,
    length: usize,
    unit: &str,
    path: &Path<'_>,
) -> Result<(), ToolError> {
    let limit = |key: &str| schema.get(key).and_then(Value::as_u64);
    let length = length as u64;
    if let Some(least) = limit(least).filter(|least| length < *least) {
        return Err(path.wrong(&format!("has {length} {unit}"), format!("send at least {least}")));
    }
    if let Some(most) = limit(most).filter(|most| length > *most) {
        return Err(path.wrong(&format!("has {length} {unit}"), format!("send at most {most}")));
    }
    Ok(())
}

fn range(schema: &Value, found: &Value, path: &Path<'_>) -> Result<(), ToolError> {
    let number = found.as_f64().unwrap_or_default();
    let limit = |key: &str| schema.get(key).and_then(Value::as_f64);
    if let Some(least) = limit("minimum").filter(|least| number < *least) {
        return Err(path.wrong(&format!("is {found}"), format!("send at least {least}")));
    }
    if let Some(most) = limit("maximum").filter(|most| number > *most) {
        return Err(path.wrong(&format!("is {found}"), format!("send at most {most}")));
    }
    Ok(())
}

fn types(schema: &Value) -> Vec<&str> {
    match schema.get("type") {
        Some(Value::String(one)) => vec![one.as_str()],
        Some(Value::Array(many)) => many.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

fn is(found: &Value, wanted: &str) -> bool {
    match wanted {
        "integer" => found.is_i64() || found.is_u64(),
        "number" => found.is_number(),
        _ => bare_kind(found) == wanted,
    }
}

fn bare_kind(found: &Value) -> &'static str {
    match found {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// What it is, as it stands in a sentence.
fn kind(found: &Value) -> &'static str {
    match found {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

/// Whether a schema that somebody has declared can be checked by us in every word. `Err` says what cannot.
pub(super) fn lint(schema: &Value) -> Result<(), String> {
    if schema.get("type").and_then(Value::as_str) != Some("object") {
        return Err("its 'type' must be \"object\", because arguments have names".to_owned());
    }
    lint_part(schema, "the schema", 0)
}

fn lint_part(schema: &Value, place: &str, depth: usize) -> Result<(), String> {
    let Some(map) = schema.as_object() else { return Err(format!("{place} is not an object")) };
    if depth > DEPTH {
        return Err(format!("{place} is nested more than {DEPTH} deep"));
    }
    for (word, part) in map {
        let fits = match word.as_str() {
            "type" => {
                let named = types(schema);
                !named.is_empty() && named.iter().all(|name| TYPES.contains(name))
            }
            "properties" => part.is_object(),
            "required" => part.as_array().is_some_and(|list| list.iter().all(Value::is_string)),
            "enum" => part.as_array().is_some_and(|list| !list.is_empty()),
            "additionalProperties" => part.is_boolean(),
            "minimum" | "maximum" => part.is_number(),
            "minLength" | "maxLength" | "minItems" | "maxItems" => part.is_u64(),
            _ if CHECKED.contains(&word.as_str()) || DESCRIBING.contains(&word.as_str()) => true,
            _ => return Err(format!("{place} has '{word}', which is not checked here; leave it out")),
        };
        if !fits {
            return Err(format!("'{word}' of {place} has no meaning"));
        }
    }
    if let Some(items) = map.get("items") {
        lint_part(items, &format!("'items' of {place}"), depth + 1)?;
    }
    let properties = map.get("properties").and_then(Value::as_object);
    for (name, part) in properties.into_iter().flatten() {
        lint_part(part, &format!("'{name}' of {place}"), depth + 1)?;
    }
    for name in map.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
    {
        if properties.is_none_or(|properties| !properties.contains_key(name)) {
            return Err(format!("{place} requires '{name}', which is not among its properties"));
        }
    }
    Ok(())
}

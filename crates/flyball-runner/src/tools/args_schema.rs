//! Validates tool arguments against the schema that is sent to the model.
//!
//! Supports a subset of JSON Schema: `type`, `properties`, `required`, `additionalProperties`, `items`, `enum`,
//! `minimum`, `maximum`, `minLength`, `maxLength`, `minItems`, `maxItems`, and annotations. A declared schema with any
//! other keyword is rejected, because an unchecked rule is worse than none.

use super::tool_error::ToolError;
use serde_json::{Map, Value};

/// Keywords that are validated.
const VALIDATED_KEYWORDS: [&str; 12] = [
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
/// Keywords that only describe.
const ANNOTATION_KEYWORDS: [&str; 8] =
    ["title", "description", "default", "examples", "$schema", "$id", "$comment", "deprecated"];
/// Known types.
const TYPES: [&str; 7] = ["object", "array", "string", "integer", "number", "boolean", "null"];
/// Maximum nesting of a schema.
const MAX_DEPTH: usize = 16;

/// Validates arguments against the schema of a tool. Missing arguments (`null`) count as an empty object.
pub(super) fn validate_args(tool: &str, schema: &Value, args: &Value) -> Result<(), ToolError> {
    let empty = Value::Object(Map::new());
    let args = if args.is_null() { &empty } else { args };
    if !args.is_object() {
        let what = format!("the arguments of '{tool}' are {}, not an object", type_phrase(args));
        return Err(ToolError::new("wrong_type", what, "send one JSON object"));
    }
    validate_value(schema, args, &mut ArgPath { tool, parts: Vec::new() })
}

/// Position within the arguments.
struct ArgPath<'a> {
    tool: &'a str,
    parts: Vec<String>,
}

impl ArgPath<'_> {
    fn error(&self, problem: &str, help: impl Into<String>) -> ToolError {
        let what = format!("the field '{}' of '{}' {problem}", self.parts.concat(), self.tool);
        ToolError::new("wrong_type", what, help)
    }

    fn field(&self, name: &str) -> String {
        let prefix = self.parts.concat();
        if prefix.is_empty() { name.to_owned() } else { format!("{prefix}.{name}") }
    }

    fn with_part<T>(&mut self, part: String, then: impl FnOnce(&mut Self) -> T) -> T {
        self.parts.push(part);
        let done = then(self);
        self.parts.pop();
        done
    }
}

fn validate_value(schema: &Value, found: &Value, path: &mut ArgPath<'_>) -> Result<(), ToolError> {
    let wanted = schema_types(schema);
    if !wanted.is_empty() && !wanted.iter().any(|wanted| has_type(found, wanted)) {
        let wanted = wanted.join(" or ");
        return Err(
            path.error(&format!("is {}, not {wanted}", type_phrase(found)), format!("send it as {wanted}"))
        );
    }
    if let Some(allowed) = schema.get("enum").and_then(Value::as_array)
        && !allowed.contains(found)
    {
        let allowed: Vec<String> = allowed.iter().map(Value::to_string).collect();
        return Err(
            path.error("has a value that is not allowed", format!("use one of {}", allowed.join(", ")))
        );
    }
    match found {
        Value::Object(map) => validate_object(schema, map, path),
        Value::Array(list) => validate_array(schema, list, path),
        Value::String(text) => {
            check_length(schema, "minLength", "maxLength", text.chars().count(), "characters", path)
        }
        Value::Number(_) => check_range(schema, found, path),
        Value::Null | Value::Bool(_) => Ok(()),
    }
}

fn validate_object(
    schema: &Value,
    map: &Map<String, Value>,
    path: &mut ArgPath<'_>,
) -> Result<(), ToolError> {
    let none = Map::new();
    let properties = schema.get("properties").and_then(Value::as_object).unwrap_or(&none);
    let required = schema.get("required").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    for name in required.iter().filter_map(Value::as_str) {
        if !map.contains_key(name) {
            let what = format!("the field '{}' of '{}' is missing", path.field(name), path.tool);
            let about =
                properties.get(name).and_then(|about| about.get("description")).and_then(Value::as_str);
            let help = about.map_or_else(|| "send it".to_owned(), |about| format!("send it: {about}"));
            return Err(ToolError::new("missing_field", what, help));
        }
    }
    for (name, found) in map {
        if let Some(about) = properties.get(name) {
            let part = if path.parts.is_empty() { name.clone() } else { format!(".{name}") };
            path.with_part(part, |path| validate_value(about, found, path))?;
        } else if schema.get("additionalProperties") == Some(&Value::Bool(false)) {
            let what = format!("'{}' has no field '{}'", path.tool, path.field(name));
            let known: Vec<&str> = properties.keys().map(String::as_str).collect();
            let help = format!("known fields: {}", known.join(", "));
            return Err(ToolError::new("unknown_field", what, help));
        }
    }
    Ok(())
}

fn validate_array(schema: &Value, list: &[Value], path: &mut ArgPath<'_>) -> Result<(), ToolError> {
    check_length(schema, "minItems", "maxItems", list.len(), "elements", path)?;
    let Some(items) = schema.get("items") else { return Ok(()) };
    for (number, found) in list.iter().enumerate() {
        path.with_part(format!("[{number}]"), |path| validate_value(items, found, path))?;
    }
    Ok(())
}

fn check_length(
    schema: &Value,
    least: &str,
    most: &str,
    length: usize,
    unit: &str,
    path: &ArgPath<'_>,
) -> Result<(), ToolError> {
    let limit = |key: &str| schema.get(key).and_then(Value::as_u64);
    let length = length as u64;
    if let Some(least) = limit(least).filter(|least| length < *least) {
        return Err(path.error(&format!("has {length} {unit}"), format!("send at least {least}")));
    }
    if let Some(most) = limit(most).filter(|most| length > *most) {
        return Err(path.error(&format!("has {length} {unit}"), format!("send at most {most}")));
    }
    Ok(())
}

fn check_range(schema: &Value, found: &Value, path: &ArgPath<'_>) -> Result<(), ToolError> {
    let number = found.as_f64().unwrap_or_default();
    let limit = |key: &str| schema.get(key).and_then(Value::as_f64);
    if let Some(least) = limit("minimum").filter(|least| number < *least) {
        return Err(path.error(&format!("is {found}"), format!("send at least {least}")));
    }
    if let Some(most) = limit("maximum").filter(|most| number > *most) {
        return Err(path.error(&format!("is {found}"), format!("send at most {most}")));
    }
    Ok(())
}

fn schema_types(schema: &Value) -> Vec<&str> {
    match schema.get("type") {
        Some(Value::String(one)) => vec![one.as_str()],
        Some(Value::Array(many)) => many.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

fn has_type(found: &Value, wanted: &str) -> bool {
    match wanted {
        "integer" => found.is_i64() || found.is_u64(),
        "number" => found.is_number(),
        _ => type_name(found) == wanted,
    }
}

fn type_name(found: &Value) -> &'static str {
    match found {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// Type of a value with its article, for messages.
fn type_phrase(found: &Value) -> &'static str {
    match found {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

/// Checks that a declared schema uses only supported keywords. `Err` describes the problem.
pub(super) fn check_schema(schema: &Value) -> Result<(), String> {
    if schema.get("type").and_then(Value::as_str) != Some("object") {
        return Err("its 'type' must be \"object\"".to_owned());
    }
    check_schema_part(schema, "the schema", 0)
}

fn check_schema_part(schema: &Value, place: &str, depth: usize) -> Result<(), String> {
    let Some(map) = schema.as_object() else { return Err(format!("{place} is not an object")) };
    if depth > MAX_DEPTH {
        return Err(format!("{place} is nested more than {MAX_DEPTH} deep"));
    }
    for (keyword, part) in map {
        let fits = match keyword.as_str() {
            "type" => {
                let named = schema_types(schema);
                !named.is_empty() && named.iter().all(|name| TYPES.contains(name))
            }
            "properties" => part.is_object(),
            "required" => part.as_array().is_some_and(|list| list.iter().all(Value::is_string)),
            "enum" => part.as_array().is_some_and(|list| !list.is_empty()),
            "additionalProperties" => part.is_boolean(),
            "minimum" | "maximum" => part.is_number(),
            "minLength" | "maxLength" | "minItems" | "maxItems" => part.is_u64(),
            _ if VALIDATED_KEYWORDS.contains(&keyword.as_str())
                || ANNOTATION_KEYWORDS.contains(&keyword.as_str()) =>
            {
                true
            }
            _ => return Err(format!("{place} has the unsupported keyword '{keyword}'; remove it")),
        };
        if !fits {
            return Err(format!("invalid '{keyword}' in {place}"));
        }
    }
    if let Some(items) = map.get("items") {
        check_schema_part(items, &format!("'items' of {place}"), depth + 1)?;
    }
    let properties = map.get("properties").and_then(Value::as_object);
    for (name, part) in properties.into_iter().flatten() {
        check_schema_part(part, &format!("'{name}' of {place}"), depth + 1)?;
    }
    for name in map.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
    {
        if properties.is_none_or(|properties| !properties.contains_key(name)) {
            return Err(format!("{place} requires '{name}', which is not one of its properties"));
        }
    }
    Ok(())
}

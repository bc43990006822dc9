//! Fast path for the two most frequent kinds of event, which takes fields out of the JSON without copying.
//!
//! Any event with an unusual field goes through the general parser, which reports errors.

use super::EventKind;
use super::event_fields::EventFields;
use crate::limits::NAME_BYTES;
use serde_json::Value;

/// Parses the event if it is one of the two kinds and all its fields are valid; the fields are removed from `fields`.
pub(super) fn parse_tool_event(name: &str, fields: &mut EventFields<'_>) -> Option<EventKind> {
    match name {
        "tool.requested" => parse_tool_requested(fields),
        "tool.finished" => parse_tool_finished(fields),
        _ => None,
    }
}

fn parse_tool_requested(fields: &mut EventFields<'_>) -> Option<EventKind> {
    let tool = fields.get("tool")?.as_str()?;
    if tool.len() > NAME_BYTES || !is_name(fields, "call") {
        return None;
    }
    Some(EventKind::ToolRequested {
        call: take_text(fields, "call"),
        tool: take_text(fields, "tool")?,
        args: fields.remove("args").unwrap_or_default(),
    })
}

fn parse_tool_finished(fields: &mut EventFields<'_>) -> Option<EventKind> {
    let call = fields.get("call")?.as_str()?;
    let ok = match fields.get("ok") {
        None => None,
        Some(ok) => Some(ok.as_bool()?),
    };
    let duration_ms = match fields.get("duration_ms") {
        None => None,
        Some(duration) => Some(duration.as_u64()?),
    };
    if call.len() > NAME_BYTES || !is_name(fields, "tool") {
        return None;
    }
    for taken in ["ok", "duration_ms"] {
        fields.remove(taken);
    }
    Some(EventKind::ToolFinished {
        call: take_text(fields, "call"),
        ok,
        output: fields.remove("output").unwrap_or_default(),
        error: fields.remove("error").unwrap_or_default(),
        duration_ms,
        tool: take_text(fields, "tool"),
        args: fields.remove("args").unwrap_or_default(),
    })
}

/// Whether a field is missing, or is a string short enough for a name.
fn is_name(fields: &EventFields<'_>, field: &str) -> bool {
    fields.get(field).is_none_or(|value| value.as_str().is_some_and(|text| text.len() <= NAME_BYTES))
}

/// Removes a string from the fields.
fn take_text(fields: &mut EventFields<'_>, field: &str) -> Option<String> {
    match fields.remove(field)? {
        Value::String(text) => Some(text),
        _ => None,
    }
}

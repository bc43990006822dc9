//! The two kinds of event that come by far most often, taken out of the JSON without copying it.
//!
//! Everything that is not plainly right goes the long way, which says what is wrong with it.

use super::Kind;
use super::fields::Fields;
use crate::limits::NAME_BYTES;
use serde_json::Value;

/// The kind, if it is one of the two and all its fields are plainly right; they are taken out of the fields.
pub(super) fn take(name: &str, fields: &mut Fields<'_>) -> Option<Kind> {
    match name {
        "tool.requested" => requested(fields),
        "tool.finished" => finished(fields),
        _ => None,
    }
}

fn requested(fields: &mut Fields<'_>) -> Option<Kind> {
    let tool = fields.get("tool")?.as_str()?;
    if tool.len() > NAME_BYTES || !is_name(fields, "call") {
        return None;
    }
    Some(Kind::ToolRequested {
        call: text(fields, "call"),
        tool: text(fields, "tool")?,
        args: fields.remove("args").unwrap_or_default(),
    })
}

fn finished(fields: &mut Fields<'_>) -> Option<Kind> {
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
    Some(Kind::ToolFinished {
        call: text(fields, "call"),
        ok,
        output: fields.remove("output").unwrap_or_default(),
        error: fields.remove("error").unwrap_or_default(),
        duration_ms,
        tool: text(fields, "tool"),
        args: fields.remove("args").unwrap_or_default(),
    })
}

/// Whether a field is absent, or a text that is short enough for a name.
fn is_name(fields: &Fields<'_>, field: &str) -> bool {
    fields.get(field).is_none_or(|value| value.as_str().is_some_and(|text| text.len() <= NAME_BYTES))
}

/// Takes a text out of the fields.
fn text(fields: &mut Fields<'_>, field: &str) -> Option<String> {
    match fields.remove(field)? {
        Value::String(text) => Some(text),
        _ => None,
    }
}

//! The two kinds of event that come by far most often, taken out of the JSON without copying it.
//!
//! Everything that is not plainly right goes the long way, which says what is wrong with it.

use super::Kind;
use crate::limits::NAME_BYTES;
use serde_json::{Map, Value};

/// The kind, if it is one of the two and all its fields are plainly right; they are taken out of the map.
pub(super) fn take(name: &str, map: &mut Map<String, Value>) -> Option<Kind> {
    match name {
        "tool.requested" => requested(map),
        "tool.finished" => finished(map),
        _ => None,
    }
}

fn requested(map: &mut Map<String, Value>) -> Option<Kind> {
    let tool = map.get("tool")?.as_str()?;
    if tool.len() > NAME_BYTES || !is_name(map, "call") {
        return None;
    }
    Some(Kind::ToolRequested {
        call: text(map, "call"),
        tool: text(map, "tool")?,
        args: map.remove("args").unwrap_or_default(),
    })
}

fn finished(map: &mut Map<String, Value>) -> Option<Kind> {
    let call = map.get("call")?.as_str()?;
    let ok = match map.get("ok") {
        None => None,
        Some(ok) => Some(ok.as_bool()?),
    };
    let duration_ms = match map.get("duration_ms") {
        None => None,
        Some(duration) => Some(duration.as_u64()?),
    };
    if call.len() > NAME_BYTES || !is_name(map, "tool") {
        return None;
    }
    for taken in ["ok", "duration_ms"] {
        map.remove(taken);
    }
    Some(Kind::ToolFinished {
        call: text(map, "call"),
        ok,
        output: map.remove("output").unwrap_or_default(),
        error: map.remove("error").unwrap_or_default(),
        duration_ms,
        tool: text(map, "tool"),
        args: map.remove("args").unwrap_or_default(),
    })
}

/// Whether a field is absent, or a text that is short enough for a name.
fn is_name(map: &Map<String, Value>, field: &str) -> bool {
    map.get(field).is_none_or(|value| value.as_str().is_some_and(|text| text.len() <= NAME_BYTES))
}

/// Takes a text out of the map.
fn text(map: &mut Map<String, Value>, field: &str) -> Option<String> {
    match map.remove(field)? {
        Value::String(text) => Some(text),
        _ => None,
    }
}

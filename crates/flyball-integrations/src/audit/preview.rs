//! One-line preview of a repeated call or message, truncated and redacted.

use flyball::{Event, EventKind};
use flyball_store::RedactingParser;
use serde_json::Value;

/// Number of bytes scanned for secrets before truncation.
const MAX_SCANNED_BYTES: usize = 4096;
/// Maximum length of a preview, in characters.
const MAX_PREVIEW_CHARS: usize = 240;

/// Preview of a tool call.
pub(super) fn call(tool: &str, args: &Value, redactor: &RedactingParser) -> String {
    let args = match args {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    redact_and_shorten(&format!("{tool} {args}"), redactor)
}

/// Preview of any other event.
pub(super) fn event(event: &Event, redactor: &RedactingParser) -> String {
    let text = match &event.kind {
        EventKind::AssistantMessage { text, .. } | EventKind::QuestionAsked { text } => text.clone(),
        EventKind::TransitionRequested { from, to, .. } => format!("{from} → {to}"),
        EventKind::TurnFinished { output, .. } => output.clone().unwrap_or_default(),
        EventKind::ValidationFailed { kind, error, .. } => {
            format!("{} {}", json_text(&serde_json::to_value(kind)), json_text(&serde_json::to_value(error)))
        }
        EventKind::Progress { signal, .. } => signal.clone(),
        other => other.name().to_owned(),
    };
    redact_and_shorten(&text, redactor)
}

fn json_text(value: &Result<Value, serde_json::Error>) -> String {
    match value {
        Ok(Value::String(text)) => text.clone(),
        Ok(Value::Null) | Err(_) => String::new(),
        Ok(other) => other.to_string(),
    }
}

fn redact_and_shorten(text: &str, redactor: &RedactingParser) -> String {
    let end =
        text.char_indices().map(|(at, _)| at).take_while(|at| *at <= MAX_SCANNED_BYTES).last().unwrap_or(0);
    let looked_at = if text.len() <= MAX_SCANNED_BYTES { text } else { text.get(..end).unwrap_or_default() };
    let clean = redactor.redact(looked_at);
    let mut shown: String = clean
        .chars()
        .map(|c| if flyball::is_deceptive(c) { ' ' } else { c })
        .take(MAX_PREVIEW_CHARS)
        .collect();
    if clean.chars().nth(MAX_PREVIEW_CHARS).is_some() || text.len() > MAX_SCANNED_BYTES {
        shown.push('…');
    }
    shown.trim().to_owned()
}

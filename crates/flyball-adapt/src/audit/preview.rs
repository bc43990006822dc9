//! What goes round, in one line that can be shown: shortened, and without what looks like a secret.

use flyball::{Event, Kind};
use flyball_journal::Door;
use serde_json::Value;

/// How much is looked at for secrets before it is shortened.
const LOOKED_AT: usize = 4096;
/// How much is shown, in characters.
const SHOWN: usize = 240;

/// A call.
pub(super) fn call(tool: &str, args: &Value, door: &Door) -> String {
    let args = match args {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    short(&format!("{tool} {args}"), door)
}

/// Anything else that asks.
pub(super) fn event(event: &Event, door: &Door) -> String {
    let text = match &event.kind {
        Kind::AssistantMessage { text, .. } | Kind::QuestionAsked { text } => text.clone(),
        Kind::TransitionRequested { from, to, .. } => format!("{from} → {to}"),
        Kind::TurnFinished { output, .. } => output.clone().unwrap_or_default(),
        Kind::ValidationFailed { kind, error, .. } => {
            format!("{} {}", plain(&serde_json::to_value(kind)), plain(&serde_json::to_value(error)))
        }
        Kind::Progress { signal, .. } => signal.clone(),
        other => other.name().to_owned(),
    };
    short(&text, door)
}

fn plain(value: &Result<Value, serde_json::Error>) -> String {
    match value {
        Ok(Value::String(text)) => text.clone(),
        Ok(Value::Null) | Err(_) => String::new(),
        Ok(other) => other.to_string(),
    }
}

fn short(text: &str, door: &Door) -> String {
    let end = text.char_indices().map(|(at, _)| at).take_while(|at| *at <= LOOKED_AT).last().unwrap_or(0);
    let looked_at = if text.len() <= LOOKED_AT { text } else { text.get(..end).unwrap_or_default() };
    let clean = door.clean(looked_at);
    let mut shown: String =
        clean.chars().map(|c| if flyball::is_deceptive(c) { ' ' } else { c }).take(SHOWN).collect();
    if clean.chars().nth(SHOWN).is_some() || text.len() > LOOKED_AT {
        shown.push('…');
    }
    shown.trim().to_owned()
}

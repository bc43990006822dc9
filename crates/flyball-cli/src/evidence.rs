//! The events that a trip rests on, fetched from the file and shortened for a person to read.

use crate::fail::Failure;
use crate::input::Lines;
use flyball::{Event, Kind};
use serde::Serialize;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// How much of an argument list or a result is shown.
const SHOWN: usize = 140;

/// One event, shortened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Line {
    pub(crate) seq: u64,
    pub(crate) text: String,
    /// What came of it, if it was a call.
    pub(crate) result: Option<String>,
}

/// Where a session stands while the file is read again.
#[derive(Default)]
struct Cursor {
    seq: u64,
    ids: BTreeSet<String>,
    lines: Vec<Line>,
    /// Calls that are shown and have not ended: call id to place in `lines`.
    open: BTreeMap<String, usize>,
}

/// Fetches the events with these numbers, by session.
pub(crate) fn collect(
    path: &Path,
    wanted: &BTreeMap<String, BTreeSet<u64>>,
) -> Result<BTreeMap<String, Vec<Line>>, Failure> {
    let mut cursors: BTreeMap<String, Cursor> = BTreeMap::new();
    let mut lines = Lines::open(path)?;
    while let Some(event) = lines.next_event()? {
        let Ok(event) = event else { continue };
        let Some(numbers) = wanted.get(&event.session) else { continue };
        cursors.entry(event.session.clone()).or_default().take(&event, numbers);
    }
    Ok(cursors.into_iter().map(|(session, cursor)| (session, cursor.lines)).collect())
}

impl Cursor {
    fn take(&mut self, event: &Event, numbers: &BTreeSet<u64>) {
        if event.id.as_ref().is_some_and(|id| !self.ids.insert(id.id.clone())) {
            // A redelivery has no number of its own.
            return;
        }
        self.seq += 1;
        if numbers.contains(&self.seq) {
            if let Kind::ToolRequested { call: Some(call), .. } = &event.kind {
                self.open.insert(call.clone(), self.lines.len());
            }
            self.lines.push(Line { seq: self.seq, text: describe(event), result: None });
        }
        if let Kind::ToolFinished { call: Some(call), ok, output, error, .. } = &event.kind
            && let Some(line) = self.open.remove(call).and_then(|at| self.lines.get_mut(at))
        {
            let failed = *ok == Some(false);
            let text = if failed && !error.is_null() { error } else { output };
            let word = if failed { "failed: " } else { "" };
            line.result = Some(format!("{word}{}", short(&plain(text))));
        }
    }
}

/// An event in one line.
fn describe(event: &Event) -> String {
    match &event.kind {
        Kind::ToolRequested { tool, args, .. } => format!("{tool} {}", short(&plain(args))),
        Kind::ToolFinished { ok, output, error, .. } => {
            let failed = *ok == Some(false);
            let text = if failed && !error.is_null() { error } else { output };
            format!("{} {}", if failed { "failed:" } else { "result:" }, short(&plain(text)))
        }
        Kind::TransitionRequested { from, to, .. } => format!("{from} → {to}"),
        Kind::AssistantMessage { text, .. } => format!("says: {}", short(text)),
        Kind::UserMessage { text, .. } => format!("is told: {}", short(text)),
        Kind::QuestionAsked { text } => format!("asks: {}", short(text)),
        Kind::TurnStarted {} => format!("turn of {} begins", event.node.as_deref().unwrap_or("the agent")),
        Kind::TurnFinished { output, .. } => {
            let output = output.as_deref().map(short).unwrap_or_default();
            format!("turn of {} ends: {output}", event.node.as_deref().unwrap_or("the agent"))
        }
        _ => {
            let whole = event.to_json();
            let mut fields: Vec<String> = Vec::new();
            for (key, value) in whole.as_object().into_iter().flatten() {
                if !["type", "session", "at", "id"].contains(&key.as_str()) {
                    fields.push(format!("{key} {}", plain(value)));
                }
            }
            let kind = whole.get("type").and_then(Value::as_str).unwrap_or_default();
            short(&format!("{kind} {}", fields.join(", ")))
        }
    }
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

/// One line, cut to a readable length, without characters that could play tricks on a terminal.
fn short(text: &str) -> String {
    let mut line: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(SHOWN).collect();
    if text.chars().nth(SHOWN).is_some() {
        line.push('…');
    }
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

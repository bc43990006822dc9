//! The events that a trip rests on, fetched and shortened for a person to read.

use crate::words::line;
use flyball::{Check, Event, Kind};
use flyball_journal::{Desk, Record, StoreError};
use serde::Serialize;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// How much of an argument list or a result is shown.
const SHOWN: usize = 140;
/// How many events after the last one that is wanted may hold its result.
const AFTER: u64 = 50;
/// How many stored events are read at once.
const PORTION: u64 = 500;

/// One event, shortened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Line {
    /// Its number.
    pub seq: u64,
    /// What it was.
    pub text: String,
    /// What came of it, if it was a call.
    pub result: Option<String>,
}

/// Where a session stands while its events are read again.
#[derive(Debug, Default)]
pub struct Cursor {
    seq: u64,
    ids: BTreeSet<String>,
    lines: Vec<Line>,
    /// Calls that are shown and have not ended: call id to place in `lines`.
    open: BTreeMap<String, usize>,
}

/// Fetches the events with these numbers from a session of a store. Events that were pruned are left out.
///
/// # Errors
/// If they cannot be read.
pub fn fetch(desk: &dyn Desk, session: &str, wanted: &BTreeSet<u64>) -> Result<Vec<Line>, StoreError> {
    let mut cursor = Cursor::default();
    let (Some(first), Some(last)) = (wanted.first(), wanted.last()) else { return Ok(Vec::new()) };
    each_record::<StoreError>(desk, session, (*first, last.saturating_add(AFTER)), |record| {
        // What is stored may be shortened; what of it is no event any more is not shown.
        if let Ok(event) = Event::from_json(&record.text) {
            cursor.note(record.seq, &event, wanted);
        }
        Ok(())
    })?;
    Ok(cursor.lines())
}

/// Hands on the stored events with these numbers, oldest first, without holding all of them.
///
/// # Errors
/// If they cannot be read, or `each` fails.
pub fn each_record<E: From<StoreError>>(
    desk: &dyn Desk,
    session: &str,
    (from, to): (u64, u64),
    mut each: impl FnMut(Record) -> Result<(), E>,
) -> Result<(), E> {
    let mut next = from;
    while next <= to {
        let end = next.saturating_add(PORTION - 1).min(to);
        for record in desk.records(session, next, end)? {
            each(record)?;
        }
        next = end.saturating_add(1);
    }
    Ok(())
}

impl Cursor {
    /// What was wanted.
    #[must_use]
    pub fn lines(self) -> Vec<Line> {
        self.lines
    }

    /// Takes an event of a file; what is wanted of it is kept.
    pub fn take(&mut self, event: &Event, numbers: &BTreeSet<u64>) {
        if event.id.as_ref().is_some_and(|id| !self.ids.insert(id.id.clone())) {
            // A redelivery has no number of its own.
            return;
        }
        self.note(self.seq + 1, event, numbers);
    }

    /// Takes an event whose number is known.
    fn note(&mut self, seq: u64, event: &Event, numbers: &BTreeSet<u64>) {
        self.seq = seq;
        if numbers.contains(&seq) {
            if let Kind::ToolRequested { call: Some(call), .. } = &event.kind {
                self.open.insert(call.clone(), self.lines.len());
            }
            self.lines.push(Line { seq, text: describe(event), result: None });
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
#[must_use]
pub fn describe(event: &Event) -> String {
    match &event.kind {
        Kind::ToolRequested { tool, args, .. } => format!("{tool} {}", short(&plain(args))),
        Kind::ToolFinished { ok, output, error, .. } => {
            let failed = *ok == Some(false);
            let text = if failed && !error.is_null() { error } else { output };
            format!("{} {}", if failed { "failed:" } else { "result:" }, short(&plain(text)))
        }
        Kind::TransitionRequested { from, to, .. } => format!("{from} → {to}"),
        Kind::AssistantMessage { text, .. } => format!("says: {}", short(text)),
        Kind::UserMessage { text, .. } | Kind::PersonMessage { text, .. } => {
            format!("is told: {}", short(text))
        }
        Kind::QuestionAsked { text } => format!("asks: {}", short(text)),
        Kind::TurnStarted {} => format!("turn of {} begins", event.node.as_deref().unwrap_or("the agent")),
        Kind::TurnFinished { output, .. } => {
            let output = output.as_deref().map(short).unwrap_or_default();
            format!("turn of {} ends: {output}", event.node.as_deref().unwrap_or("the agent"))
        }
        Kind::Progress { .. } => measured(event),
        Kind::GateChecked { checks, .. } => {
            let word = |check: &Check| match (check.passed, check.details.first()) {
                (true, _) => format!("{} passed", check.name),
                (false, Some(first)) => format!("{} failed ({first})", check.name),
                (false, None) => format!("{} failed", check.name),
            };
            let told: Vec<String> = checks.iter().filter(|check| !check.skipped).map(word).collect();
            short(&format!(
                "checks: {}",
                if told.is_empty() { "none ran".to_owned() } else { told.join(", ") }
            ))
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

/// What was measured of a signal, and after whom.
fn measured(event: &Event) -> String {
    let Kind::Progress { signal, content, hash, value, failing, done, total, .. } = &event.kind else {
        return String::new();
    };
    let found = if let Some(failing) = failing {
        match failing.len() {
            0 => "nothing fails".to_owned(),
            count => format!("{count} failing: {}", failing.join(", ")),
        }
    } else if let Some(done) = done {
        format!("{done} done{}", total.map(|total| format!(" of {total}")).unwrap_or_default())
    } else if let Some(value) = value {
        value.to_string()
    } else if let Some(hash) = hash {
        format!("contents {hash}")
    } else {
        content.clone().unwrap_or_default()
    };
    let node = event.node.as_ref().map(|node| format!(" after {node}")).unwrap_or_default();
    short(&format!("{signal}{node}: {found}"))
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

fn short(text: &str) -> String {
    line(text, SHOWN)
}

//! The events that a trip is based on, fetched and shortened for display.

use crate::formatting::single_line;
use flyball::{Check, Event, EventKind};
use flyball_store::{AdminStore, EventRecord, StoreError};
use serde::Serialize;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of characters shown of arguments or a result.
const MAX_SHOWN_CHARS: usize = 140;
/// How many events after the last requested one are searched for its result.
const RESULT_WINDOW_EVENTS: u64 = 50;
/// Number of stored events read at once.
const PAGE_EVENTS: u64 = 500;

/// One event, shortened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct EvidenceLine {
    /// Sequence number.
    pub seq: u64,
    /// The event in one line.
    pub text: String,
    /// The result, if the event was a tool call.
    pub result: Option<String>,
}

/// Collects the requested events while a session's events are read in order.
#[derive(Debug, Default)]
pub struct EvidenceReader {
    seq: u64,
    ids: BTreeSet<String>,
    lines: Vec<EvidenceLine>,
    /// Shown calls without a result yet: call id to index in `lines`.
    open: BTreeMap<String, usize>,
}

/// Fetches the events with these sequence numbers from a stored session. Pruned events are left out.
///
/// # Errors
/// If they cannot be read.
pub fn fetch(
    store: &dyn AdminStore,
    session: &str,
    wanted: &BTreeSet<u64>,
) -> Result<Vec<EvidenceLine>, StoreError> {
    let mut cursor = EvidenceReader::default();
    let (Some(first), Some(last)) = (wanted.first(), wanted.last()) else { return Ok(Vec::new()) };
    each_record::<StoreError>(
        store,
        session,
        (*first, last.saturating_add(RESULT_WINDOW_EVENTS)),
        |record| {
            // Redaction and truncation can leave stored text that no longer parses as an event; it is not shown.
            if let Ok(event) = Event::from_json(&record.text) {
                cursor.push_numbered(record.seq, &event, wanted);
            }
            Ok(())
        },
    )?;
    Ok(cursor.into_lines())
}

/// Passes the stored events of a range to `each`, oldest first, one page in memory at a time.
///
/// # Errors
/// If they cannot be read, or `each` fails.
pub fn each_record<E: From<StoreError>>(
    store: &dyn AdminStore,
    session: &str,
    (from, to): (u64, u64),
    mut each: impl FnMut(EventRecord) -> Result<(), E>,
) -> Result<(), E> {
    let mut next = from;
    while next <= to {
        let end = next.saturating_add(PAGE_EVENTS - 1).min(to);
        for record in store.records(session, next, end)? {
            each(record)?;
        }
        next = end.saturating_add(1);
    }
    Ok(())
}

impl EvidenceReader {
    /// The collected lines.
    #[must_use]
    pub fn into_lines(self) -> Vec<EvidenceLine> {
        self.lines
    }

    /// Reads an event from a file and keeps it if its number is requested.
    pub fn push(&mut self, event: &Event, numbers: &BTreeSet<u64>) {
        if event.id.as_ref().is_some_and(|id| !self.ids.insert(id.id.clone())) {
            // A redelivered event does not get a new sequence number.
            return;
        }
        self.push_numbered(self.seq + 1, event, numbers);
    }

    /// Reads an event with a known sequence number.
    fn push_numbered(&mut self, seq: u64, event: &Event, numbers: &BTreeSet<u64>) {
        self.seq = seq;
        if numbers.contains(&seq) {
            if let EventKind::ToolRequested { call: Some(call), .. } = &event.kind {
                self.open.insert(call.clone(), self.lines.len());
            }
            self.lines.push(EvidenceLine { seq, text: describe(event), result: None });
        }
        if let EventKind::ToolFinished { call: Some(call), ok, output, error, .. } = &event.kind
            && let Some(line) = self.open.remove(call).and_then(|at| self.lines.get_mut(at))
        {
            let failed = *ok == Some(false);
            let text = if failed && !error.is_null() { error } else { output };
            let prefix = if failed { "failed: " } else { "" };
            line.result = Some(format!("{prefix}{}", shorten(&json_text(text))));
        }
    }
}

/// Describes an event in one line.
#[must_use]
pub fn describe(event: &Event) -> String {
    match &event.kind {
        EventKind::ToolRequested { tool, args, .. } => format!("{tool} {}", shorten(&json_text(args))),
        EventKind::ToolFinished { ok, output, error, .. } => {
            let failed = *ok == Some(false);
            let text = if failed && !error.is_null() { error } else { output };
            format!("{} {}", if failed { "failed:" } else { "result:" }, shorten(&json_text(text)))
        }
        EventKind::TransitionRequested { from, to, .. } => format!("{from} → {to}"),
        EventKind::AssistantMessage { text, .. } => format!("agent: {}", shorten(text)),
        EventKind::UserMessage { text, .. } | EventKind::PersonMessage { text, .. } => {
            format!("user: {}", shorten(text))
        }
        EventKind::QuestionAsked { text } => format!("asks: {}", shorten(text)),
        EventKind::TurnStarted {} => {
            format!("turn of {} begins", event.node.as_deref().unwrap_or("the agent"))
        }
        EventKind::TurnFinished { output, .. } => {
            let output = output.as_deref().map(shorten).unwrap_or_default();
            format!("turn of {} ends: {output}", event.node.as_deref().unwrap_or("the agent"))
        }
        EventKind::Progress { .. } => describe_progress(event),
        EventKind::GateChecked { checks, .. } => {
            let result = |check: &Check| match (check.passed, check.details.first()) {
                (true, _) => format!("{} passed", check.name),
                (false, Some(first)) => format!("{} failed ({first})", check.name),
                (false, None) => format!("{} failed", check.name),
            };
            let shown: Vec<String> = checks.iter().filter(|check| !check.skipped).map(result).collect();
            shorten(&format!(
                "checks: {}",
                if shown.is_empty() { "none ran".to_owned() } else { shown.join(", ") }
            ))
        }
        _ => {
            let whole = event.to_json();
            let mut fields: Vec<String> = Vec::new();
            for (key, value) in whole.as_object().into_iter().flatten() {
                if !["type", "session", "at", "id"].contains(&key.as_str()) {
                    fields.push(format!("{key} {}", json_text(value)));
                }
            }
            let kind = whole.get("type").and_then(Value::as_str).unwrap_or_default();
            shorten(&format!("{kind} {}", fields.join(", ")))
        }
    }
}

/// The measured value of a progress signal, with the node it was measured after.
fn describe_progress(event: &Event) -> String {
    let EventKind::Progress { signal, content, hash, value, failing, done, total, .. } = &event.kind else {
        return String::new();
    };
    let found = if let Some(failing) = failing {
        match failing.len() {
            0 => "nothing failing".to_owned(),
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
    shorten(&format!("{signal}{node}: {found}"))
}

fn json_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

fn shorten(text: &str) -> String {
    single_line(text, MAX_SHOWN_CHARS)
}

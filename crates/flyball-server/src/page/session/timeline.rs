//! Timeline of a session: events with their decisions. A call and its result form one row, and repeated rows are
//! folded. Only one window is read at a time, because a session may have any number of events.

use crate::page::links;
use crate::page::text::{multi_line, single_line};
use flyball::{Decision, Event, EventKind, Verdict};
use flyball_store::{AdminStore, EventRecord, StoreError};
use flyball_view::evidence::describe;
use flyball_view::explanations::sentence;
use flyball_view::formatting::utc_time;
use maud::{Markup, html};
use serde_json::Value;
use std::collections::BTreeMap;

/// Number of events in a window.
const WINDOW_EVENTS: u64 = 200;
/// Maximum number of rows in a folded block.
const MAX_FOLD_ROWS: usize = 8;
/// Maximum number of characters shown of an expanded event.
const MAX_SHOWN_CHARS: usize = 6_000;

/// The events of a window.
pub(super) struct TimelineWindow {
    from: u64,
    to: u64,
    newest: u64,
    folds: Vec<TimelineFold>,
}

/// One row of the timeline.
#[derive(Debug, Clone)]
struct TimelineRow {
    seq: u64,
    at: Option<u64>,
    kind: &'static str,
    text: String,
    result: Option<String>,
    verdict: Verdict,
    /// Guard and message of each trip.
    trips: Vec<(String, String)>,
    /// The whole event, shown on expansion.
    full_event: String,
}

impl TimelineRow {
    /// Whether two rows can be folded.
    fn is_same(&self, other: &TimelineRow) -> bool {
        let guards = |row: &TimelineRow| row.trips.iter().map(|(guard, _)| guard.clone()).collect::<Vec<_>>();
        self.kind == other.kind
            && self.text == other.text
            && self.result == other.result
            && self.verdict == other.verdict
            && guards(self) == guards(other)
    }
}

/// A block of rows and its number of consecutive repetitions.
#[derive(Debug)]
struct TimelineFold {
    rows: Vec<TimelineRow>,
    times: usize,
    last: u64,
}

/// The goal of a session.
pub(super) fn goal(store: &dyn AdminStore, session: &str) -> Result<Option<String>, StoreError> {
    let first = store.records(session, 1, 1)?.pop();
    let first = first.and_then(|record| Event::from_json(&record.text).ok());
    Ok(match first.map(|event| event.kind) {
        Some(EventKind::SessionStarted { goal, .. }) => goal,
        _ => None,
    })
}

impl TimelineWindow {
    /// Reads the events from `from` on, or the newest ones.
    ///
    /// # Errors
    /// If they cannot be read.
    pub(super) fn read(
        store: &dyn AdminStore,
        session: &str,
        newest: u64,
        from: Option<u64>,
    ) -> Result<Self, StoreError> {
        let last = newest.saturating_sub(WINDOW_EVENTS - 1).max(1);
        let from = from.unwrap_or(last).clamp(1, newest.max(1));
        let to = from.saturating_add(WINDOW_EVENTS - 1).min(newest);
        let records = store.records(session, from, to)?;
        Ok(TimelineWindow { from, to, newest, folds: fold_rows(rows(&records)) })
    }
}

/// Builds the rows; a result is attached to its call.
fn rows(records: &[EventRecord]) -> Vec<TimelineRow> {
    let mut rows: Vec<TimelineRow> = Vec::new();
    let mut open: BTreeMap<String, usize> = BTreeMap::new();
    for record in records {
        let Ok(event) = Event::from_json(&record.text) else { continue };
        let decision = serde_json::from_str::<Decision>(&record.decision_json).unwrap_or_default();
        let text = describe(&event);
        if let EventKind::ToolFinished { call: Some(call), .. } = &event.kind
            && record.verdict == Verdict::Allow
            && let Some(row) = open.remove(call).and_then(|at| rows.get_mut(at))
        {
            row.result = Some(text);
            continue;
        }
        if let EventKind::ToolRequested { call: Some(call), .. } = &event.kind {
            open.insert(call.clone(), rows.len());
        }
        let trips = decision.trips.iter().map(|trip| (trip.guard.clone(), trip.message.clone()));
        rows.push(TimelineRow {
            seq: record.seq,
            at: record.at,
            kind: event.kind.name(),
            text,
            result: None,
            verdict: record.verdict,
            trips: trips.collect(),
            full_event: pretty_event(&record.text),
        });
    }
    rows
}

fn pretty_event(text: &str) -> String {
    let value: Option<Value> = serde_json::from_str(text).ok();
    let pretty = value.and_then(|value| serde_json::to_string_pretty(&value).ok());
    multi_line(pretty.as_deref().unwrap_or(text), MAX_SHOWN_CHARS)
}

/// Folds repetitions: a single row from two times, a block of rows from three times.
fn fold_rows(rows: Vec<TimelineRow>) -> Vec<TimelineFold> {
    let mut folds = Vec::new();
    let mut at = 0;
    while at < rows.len() {
        let mut best = (1, 1);
        for period in 1..=MAX_FOLD_ROWS.min((rows.len() - at) / 2) {
            let mut length = period;
            while let (Some(row), Some(before)) = (rows.get(at + length), rows.get(at + length - period))
                && row.is_same(before)
            {
                length += 1;
            }
            let times = length / period;
            let least = if period == 1 { 2 } else { 3 };
            if times >= least && times * period > best.0 * best.1 {
                best = (period, times);
            }
        }
        let (period, times) = best;
        let block = rows.get(at..at + period).unwrap_or_default().to_vec();
        let end = at + period * times;
        let last = rows.get(end - 1).map_or(0, |row| row.seq);
        folds.push(TimelineFold { rows: block, times, last });
        at = end;
    }
    folds
}

/// Renders the timeline with links to older and newer events.
pub(super) fn section(session: &str, window: &TimelineWindow) -> Markup {
    html! {
        section #timeline .card.timeline data-live {
            h2 { "Timeline" }
            p.hint {
                "Events " (window.from) " to " (window.to) " of " (window.newest) ", newest last."
            }
            (pager(session, window))
            ol.story { @for fold in &window.folds { (fold_item(session, fold)) } }
            (pager(session, window))
        }
    }
}

fn pager(session: &str, window: &TimelineWindow) -> Markup {
    let to = |from: u64| format!("{}#timeline", links::session_path_with(session, &format!("from={from}")));
    let latest = format!("{}#timeline", links::session_path(session));
    html! {
        @if window.newest > WINDOW_EVENTS {
            nav.pager aria-label="Older and newer events" {
                @if window.from > 1 {
                    a.button href=(to(1)) { "First" }
                    a.button href=(to(window.from.saturating_sub(WINDOW_EVENTS).max(1))) { "Older" }
                }
                @if window.to < window.newest {
                    a.button href=(to(window.to + 1)) { "Newer" }
                    a.button href=(latest) { "Last" }
                }
            }
        }
    }
}

fn fold_item(session: &str, fold: &TimelineFold) -> Markup {
    html! {
        @if fold.times > 1 && fold.rows.len() > 1 {
            li.fold {
                p.times { "These " (fold.rows.len()) " events × " b { (fold.times) } span.soft { " up to event " (fold.last) } }
                ol.story { @for row in &fold.rows { (row_item(session, row, None)) } }
            }
        } @else {
            @for row in &fold.rows { (row_item(session, row, (fold.times > 1).then_some((fold.times, fold.last)))) }
        }
    }
}

fn row_item(session: &str, row: &TimelineRow, times: Option<(usize, u64)>) -> Markup {
    let worst = if row.verdict > Verdict::Allow { row.verdict.as_str() } else { "" };
    html! {
        li class=(worst) {
            details #{"event-" (row.seq)} {
                summary {
                    span.seq title=(row.at.map(utc_time).unwrap_or_default()) { (row.seq) }
                    span class=(format!("verdict {}", row.verdict.as_str())) { (row.verdict.as_str()) }
                    span.summary {
                        code.untrusted { (single_line(&row.text, 200)) }
                        @if let Some((times, last)) = times {
                            " " b.times { "× " (times) } span.soft { " up to event " (last) }
                        }
                        @if let Some(result) = &row.result { span.result.untrusted { (single_line(result, 200)) } }
                        @for (guard, message) in &row.trips {
                            span.trip.untrusted { b { (single_line(guard, 40)) } " " (single_line(&sentence(message), 300)) }
                        }
                    }
                }
                pre.untrusted { (row.full_event) }
                @if !row.trips.is_empty() {
                    p { a href=(format!("{}#evidence", links::session_path_with(session, &format!("trip={}", row.seq)))) { "Evidence" } }
                }
            }
        }
    }
}

#[cfg(test)]
#[path = "timeline_tests.rs"]
mod tests;

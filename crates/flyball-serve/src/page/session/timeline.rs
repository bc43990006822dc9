//! The story of a session: events with their decisions, a call and its result as one, repeats folded; one window of it
//! at a time, because a session may have any number of events.

use crate::page::links;
use crate::page::text::{line, plain};
use flyball::{Decision, Event, Kind, Verdict};
use flyball_journal::{Desk, Record, StoreError};
use flyball_view::evidence::describe;
use flyball_view::meaning::sentence;
use flyball_view::words::moment;
use maud::{Markup, html};
use serde_json::Value;
use std::collections::BTreeMap;

/// How many events a window has.
const EVENTS: u64 = 200;
/// The longest block that is folded.
const LONGEST: usize = 8;
/// How much of an event is shown when it is opened.
const OPENED: usize = 6_000;

/// The events that are shown.
pub(super) struct Window {
    from: u64,
    to: u64,
    newest: u64,
    folds: Vec<Fold>,
}

/// One line of the story.
#[derive(Debug, Clone)]
struct Row {
    seq: u64,
    at: Option<u64>,
    kind: &'static str,
    told: String,
    result: Option<String>,
    verdict: Verdict,
    /// Who found something, and what.
    trips: Vec<(String, String)>,
    /// The whole event, for whoever wants to see it.
    whole: String,
}

impl Row {
    /// What must be equal for two lines to be told as one.
    fn same(&self, other: &Row) -> bool {
        let guards = |row: &Row| row.trips.iter().map(|(guard, _)| guard.clone()).collect::<Vec<_>>();
        self.kind == other.kind
            && self.told == other.told
            && self.result == other.result
            && self.verdict == other.verdict
            && guards(self) == guards(other)
    }
}

/// A block of lines, and how often it stands in a row.
#[derive(Debug)]
struct Fold {
    rows: Vec<Row>,
    times: usize,
    last: u64,
}

/// What a session was started for.
pub(super) fn goal(desk: &dyn Desk, session: &str) -> Result<Option<String>, StoreError> {
    let first = desk.records(session, 1, 1)?.pop();
    let first = first.and_then(|record| Event::from_json(&record.text).ok());
    Ok(match first.map(|event| event.kind) {
        Some(Kind::SessionStarted { goal, .. }) => goal,
        _ => None,
    })
}

impl Window {
    /// Reads the events from `from` on, or the newest ones.
    ///
    /// # Errors
    /// If they cannot be read.
    pub(super) fn read(
        desk: &dyn Desk,
        session: &str,
        newest: u64,
        from: Option<u64>,
    ) -> Result<Self, StoreError> {
        let last = newest.saturating_sub(EVENTS - 1).max(1);
        let from = from.unwrap_or(last).clamp(1, newest.max(1));
        let to = from.saturating_add(EVENTS - 1).min(newest);
        let records = desk.records(session, from, to)?;
        Ok(Window { from, to, newest, folds: folded(rows(&records)) })
    }
}

/// The lines of the story; a result stands with its call.
fn rows(records: &[Record]) -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    let mut open: BTreeMap<String, usize> = BTreeMap::new();
    for record in records {
        let Ok(event) = Event::from_json(&record.text) else { continue };
        let decision = serde_json::from_str::<Decision>(&record.decision).unwrap_or_default();
        let told = describe(&event);
        if let Kind::ToolFinished { call: Some(call), .. } = &event.kind
            && record.verdict == Verdict::Allow
            && let Some(row) = open.remove(call).and_then(|at| rows.get_mut(at))
        {
            row.result = Some(told);
            continue;
        }
        if let Kind::ToolRequested { call: Some(call), .. } = &event.kind {
            open.insert(call.clone(), rows.len());
        }
        let trips = decision.trips.iter().map(|trip| (trip.guard.clone(), trip.message.clone()));
        rows.push(Row {
            seq: record.seq,
            at: record.at,
            kind: event.kind.name(),
            told,
            result: None,
            verdict: record.verdict,
            trips: trips.collect(),
            whole: whole(&record.text),
        });
    }
    rows
}

fn whole(text: &str) -> String {
    let value: Option<Value> = serde_json::from_str(text).ok();
    let pretty = value.and_then(|value| serde_json::to_string_pretty(&value).ok());
    plain(pretty.as_deref().unwrap_or(text), OPENED)
}

/// Folds what repeats: one line again and again, or a block of lines three times and more.
fn folded(rows: Vec<Row>) -> Vec<Fold> {
    let mut folds = Vec::new();
    let mut at = 0;
    while at < rows.len() {
        let mut best = (1, 1);
        for period in 1..=LONGEST.min((rows.len() - at) / 2) {
            let mut length = period;
            while let (Some(row), Some(before)) = (rows.get(at + length), rows.get(at + length - period))
                && row.same(before)
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
        folds.push(Fold { rows: block, times, last });
        at = end;
    }
    folds
}

/// The story, with links to what comes before and after.
pub(super) fn section(session: &str, window: &Window) -> Markup {
    html! {
        section #timeline .card.timeline data-live {
            h2 { "Timeline" }
            p.hint {
                "Events " (window.from) " to " (window.to) " of " (window.newest) ", the newest at the end."
            }
            (pager(session, window))
            ol.story { @for fold in &window.folds { (told(session, fold)) } }
            (pager(session, window))
        }
    }
}

fn pager(session: &str, window: &Window) -> Markup {
    let to = |from: u64| format!("{}#timeline", links::session_with(session, &format!("from={from}")));
    let latest = format!("{}#timeline", links::session(session));
    html! {
        @if window.newest > EVENTS {
            nav.pager aria-label="Older and newer events" {
                @if window.from > 1 {
                    a.button href=(to(1)) { "First" }
                    a.button href=(to(window.from.saturating_sub(EVENTS).max(1))) { "Older" }
                }
                @if window.to < window.newest {
                    a.button href=(to(window.to + 1)) { "Newer" }
                    a.button href=(latest) { "Last" }
                }
            }
        }
    }
}

fn told(session: &str, fold: &Fold) -> Markup {
    html! {
        @if fold.times > 1 && fold.rows.len() > 1 {
            li.fold {
                p.times { "These " (fold.rows.len()) " × " b { (fold.times) } span.soft { " up to event " (fold.last) } }
                ol.story { @for row in &fold.rows { (one(session, row, None)) } }
            }
        } @else {
            @for row in &fold.rows { (one(session, row, (fold.times > 1).then_some((fold.times, fold.last)))) }
        }
    }
}

fn one(session: &str, row: &Row, times: Option<(usize, u64)>) -> Markup {
    let worst = if row.verdict > Verdict::Allow { row.verdict.as_str() } else { "" };
    html! {
        li class=(worst) {
            details #{"event-" (row.seq)} {
                summary {
                    span.seq title=(row.at.map(moment).unwrap_or_default()) { (row.seq) }
                    span class=(format!("verdict {}", row.verdict.as_str())) { (row.verdict.as_str()) }
                    span.told {
                        code.untrusted { (line(&row.told, 200)) }
                        @if let Some((times, last)) = times {
                            " " b.times { "× " (times) } span.soft { " up to event " (last) }
                        }
                        @if let Some(result) = &row.result { span.result.untrusted { (line(result, 200)) } }
                        @for (guard, message) in &row.trips {
                            span.trip.untrusted { b { (line(guard, 40)) } " " (line(&sentence(message), 300)) }
                        }
                    }
                }
                pre.untrusted { (row.whole) }
                @if !row.trips.is_empty() {
                    p { a href=(format!("{}#evidence", links::session_with(session, &format!("trip={}", row.seq)))) { "Evidence of this finding" } }
                }
            }
        }
    }
}

#[cfg(test)]
#[path = "timeline_tests.rs"]
mod tests;

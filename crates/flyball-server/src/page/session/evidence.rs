//! Loop evidence: the events behind each trip side by side, their differences, the fingerprints, the count and limit,
//! the policy line, and suggested actions.

use super::diff::marked_diff;
use super::origin::{PolicyOrigins, PolicyValueOrigin};
use crate::page::links;
use crate::page::pending_action::headline;
use crate::page::text::{multi_line, single_line};
use flyball::{Decision, Event, EventKind, Trip, Verdict};
use flyball_store::{AdminStore, EventRecord, StoreError};
use flyball_view::evidence::describe;
use flyball_view::explanations::{actions, explain_reason, sentence};
use maud::{Markup, html};
use serde_json::Value;
use std::collections::BTreeSet;

/// Maximum number of trips shown, and how many events are searched for them.
const MAX_FINDINGS: usize = 5;
const MAX_CANDIDATES: usize = 40;
const MAX_SEARCHED_EVENTS: u64 = 2_000;
const PAGE_EVENTS: u64 = 200;
/// Maximum number of events shown per trip.
const MAX_EVENTS: usize = 8;
/// How many events after a call are searched for its result.
const RESULT_WINDOW_EVENTS: u64 = 40;
/// Maximum number of characters compared.
const MAX_COMPARED_CHARS: usize = 4_000;

/// A trip and its evidence.
pub(super) struct EvidenceFinding {
    seq: u64,
    verdict: Verdict,
    trip: Trip,
    events: Vec<EvidenceEvent>,
    origin: Option<PolicyValueOrigin>,
}

/// One event of the evidence.
struct EvidenceEvent {
    seq: u64,
    summary: String,
    /// The arguments of a call, or the summary of another event.
    contents: String,
    result: Option<String>,
    is_call: bool,
}

/// The newest trips of a session; those of decision `wanted` come first.
pub(super) fn findings(
    store: &dyn AdminStore,
    session: &str,
    newest: u64,
    wanted: Option<u64>,
    origins: &PolicyOrigins,
) -> Result<Vec<EvidenceFinding>, StoreError> {
    let mut found: Vec<(u64, Verdict, Trip)> = Vec::new();
    if let Some(wanted) = wanted {
        let record = store.records(session, wanted, wanted)?.pop();
        record.into_iter().for_each(|record| add_findings(&mut found, &record));
    }
    let mut to = newest;
    while to > 0 && found.len() < MAX_CANDIDATES && newest - to < MAX_SEARCHED_EVENTS {
        let from = to.saturating_sub(PAGE_EVENTS - 1).max(1);
        let records = store.records(session, from, to)?;
        records.iter().rev().filter(|record| record.verdict > Verdict::Allow).for_each(|record| {
            if found.len() < MAX_CANDIDATES {
                add_findings(&mut found, record);
            }
        });
        to = from - 1;
    }
    // A halted session repeats the same trip without its count: keep the original, which says more.
    let counted: BTreeSet<(String, String)> =
        found.iter().filter(|(.., trip)| trip.count > 0).map(|(.., trip)| trip_kind(trip)).collect();
    found.retain(|(_, _, trip)| trip.count > 0 || !counted.contains(&trip_kind(trip)));
    found.truncate(MAX_FINDINGS);
    let mut all = Vec::new();
    for (seq, verdict, trip) in found {
        let mut events = Vec::new();
        for number in trip.evidence.events.iter().rev().take(MAX_EVENTS).rev() {
            events.extend(evidence_event(store, session, *number)?);
        }
        let origin = origins.origin_of(&trip);
        all.push(EvidenceFinding { seq, verdict, trip, events, origin });
    }
    Ok(all)
}

fn trip_kind(trip: &Trip) -> (String, String) {
    (trip.guard.clone(), trip.reason.clone())
}

/// Adds the trips of a decision that are not in the list yet.
fn add_findings(found: &mut Vec<(u64, Verdict, Trip)>, record: &EventRecord) {
    let Ok(decision) = serde_json::from_str::<Decision>(&record.decision_json) else { return };
    for trip in decision.trips {
        let is_same = |known: &Trip| {
            trip_kind(known) == trip_kind(&trip)
                && known.scope == trip.scope
                && (known.count > 0) == (trip.count > 0)
        };
        if !found.iter().any(|(.., known)| is_same(known)) {
            found.push((decision.seq, decision.decision, trip));
        }
    }
}

/// An event and, if it is a call, its result.
fn evidence_event(
    store: &dyn AdminStore,
    session: &str,
    seq: u64,
) -> Result<Option<EvidenceEvent>, StoreError> {
    let records = store.records(session, seq, seq.saturating_add(RESULT_WINDOW_EVENTS))?;
    let mut events =
        records.iter().filter_map(|record| Some((record.seq, Event::from_json(&record.text).ok()?)));
    let Some((_, event)) = events.next().filter(|(at, _)| *at == seq) else { return Ok(None) };
    let summary = describe(&event);
    let is_call = matches!(event.kind, EventKind::ToolRequested { .. });
    let (contents, call) = match &event.kind {
        EventKind::ToolRequested { args, call, .. } => (pretty_value(args), call.clone()),
        _ => (summary.clone(), None),
    };
    let result = call.and_then(|wanted| {
        events.find_map(|(_, event)| match event.kind {
            EventKind::ToolFinished { call: Some(call), ok, output, error, .. } if call == wanted => {
                let failed = ok == Some(false) && !error.is_null();
                Some(pretty_value(if failed { &error } else { &output }))
            }
            _ => None,
        })
    });
    Ok(Some(EvidenceEvent { seq, summary, contents, result, is_call }))
}

fn pretty_value(value: &Value) -> String {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => serde_json::to_string_pretty(other).unwrap_or_default(),
    };
    multi_line(&text, MAX_COMPARED_CHARS)
}

/// Renders the evidence section.
pub(super) fn section(session: &str, findings: &[EvidenceFinding]) -> Markup {
    html! {
        section #evidence .card.evidence data-live {
            h2 { "Loop evidence" }
            p.hint { "The latest trips of this session and the events behind them." }
            @for (at, finding) in findings.iter().enumerate() { (finding_item(session, finding, at == 0)) }
        }
    }
}

fn trip_headline(trip: &Trip) -> String {
    headline(Some(trip), &trip.message)
}

/// A sentence without its first letter, to ignore capitalization.
fn without_first_letter(sentence: &str) -> &str {
    let mut letters = sentence.chars();
    letters.next();
    letters.as_str()
}

fn finding_item(session: &str, finding: &EvidenceFinding, open: bool) -> Markup {
    let EvidenceFinding { seq, verdict, trip, events, origin } = finding;
    let path = links::session_path_with(session, &format!("trip={seq}"));
    html! {
        details #{"trip-" (seq) "-" (links::dom_id(&format!("{}{}", trip.guard, trip.reason)))} open[open] {
            summary {
                span class=(format!("verdict {}", trip.severity.as_str())) { (trip.severity.as_str()) }
                span.headline.untrusted { (trip_headline(trip)) }
                span.soft { "event " (seq) }
            }
            p.untrusted { (single_line(&sentence(&trip.message), 600)) }
            @if let Some(means) = explain_reason(&trip.reason).filter(|means| !trip_headline(trip).contains(without_first_letter(means))) { p.soft { (means) } }
            (figures(trip, origin.as_ref()))
            @if !events.is_empty() { (side_by_side(events)) (comparison(trip, events)) }
            (suggestions(session, trip))
            p.soft {
                "Decision " (verdict.as_str()) ". " a href=(format!("{path}#evidence")) { "Link to this trip" }
            }
        }
    }
}

fn figures(trip: &Trip, origin: Option<&PolicyValueOrigin>) -> Markup {
    let evidence = &trip.evidence;
    let scope = trip.scope.iter().filter(|(_, value)| !value.is_empty());
    let prints: Vec<String> = evidence.fingerprints.iter().map(ToString::to_string).collect();
    let same = prints.windows(2).all(|two| two.first() == two.last());
    html! {
        dl {
            dt { "Guard" } dd.untrusted { (single_line(&trip.guard, 60)) " (" (single_line(&trip.reason, 60)) ")" }
            dt { "Count" } dd { b { (trip.count) } @if trip.limit > 0 { ", limit " b { (trip.limit) } } }
            @for (key, value) in scope { dt { (single_line(key, 40)) } dd.untrusted { (single_line(value, 200)) } }
            @if let (Some(period), Some(repeats)) = (evidence.period, evidence.repeats) {
                dt { "Repeats" }
                dd { @if period > 1 { "a sequence of " (period) ", " } (repeats) " times in a row" }
            }
            @if !evidence.trend.is_empty() {
                dt { "Measured" }
                dd { (evidence.trend.iter().map(ToString::to_string).collect::<Vec<_>>().join(" → ")) }
            }
            @if !evidence.names.is_empty() { dt { "Still failing" } dd.untrusted { (single_line(&evidence.names.join(", "), 400)) } }
            @if !evidence.trail.is_empty() { dt { "Path" } dd.untrusted { (single_line(&evidence.trail.join(" → "), 400)) } }
            @if let Some(budget) = &trip.budget {
                dt { "Budget" } dd.untrusted { (single_line(&budget.scope, 40)) " " (single_line(&budget.name, 40)) ": " (budget.used) " of " (budget.limit) }
            }
            @if !prints.is_empty() {
                dt { "Fingerprints" }
                dd {
                    @if same && prints.len() > 1 {
                        code { (prints.first().map_or("", String::as_str)) } " × " (prints.len()) " (all equal)"
                    } @else { @for print in prints.iter().take(8) { code { (print) } " " } }
                }
            }
            @if let Some(origin) = origin {
                dt { "Policy" }
                dd { code.untrusted { (single_line(&origin.key, 120)) " = " (single_line(&origin.value, 60)) } " from " span.untrusted { (single_line(&origin.location, 160)) } }
            }
        }
    }
}

fn side_by_side(events: &[EvidenceEvent]) -> Markup {
    html! {
        div.wide tabindex="0" role="region" aria-label="Events of this trip" {
            table.side {
                thead { tr { @for event in events { th scope="col" { "event " (event.seq) } } } }
                tbody {
                    tr { @for event in events { td.untrusted { code { (single_line(&event.summary, 160)) } } } }
                    @if events.iter().any(|event| event.is_call) { tr { @for event in events { td.untrusted {
                        @match &event.result { Some(result) => { "→ " (single_line(result, 160)) } None => span.soft { "no result" } }
                    } } } }
                }
            }
        }
    }
}

/// Compares the newest event with the one it repeats: arguments and results, with differences marked.
fn comparison(trip: &Trip, events: &[EvidenceEvent]) -> Markup {
    let period = trip.evidence.period.and_then(|period| usize::try_from(period).ok()).unwrap_or(1).max(1);
    let pair = |ready: &dyn Fn(&EvidenceEvent) -> bool| {
        let fit: Vec<&EvidenceEvent> = events.iter().filter(|event| ready(event)).collect();
        let last = fit.len().checked_sub(1)?;
        Some((*fit.get(last.checked_sub(period)?)?, *fit.get(last)?))
    };
    let contents = pair(&|_| true);
    let results = pair(&|event| event.result.is_some());
    html! {
        @if let Some((a, b)) = contents { (difference(if a.is_call { "Arguments" } else { "Contents" }, a.seq, b.seq, &a.contents, &b.contents)) }
        @if let Some((a, b)) = results {
            (difference("Results", a.seq, b.seq, a.result.as_deref().unwrap_or_default(), b.result.as_deref().unwrap_or_default()))
        }
    }
}

fn difference(label: &str, first: u64, second: u64, before: &str, after: &str) -> Markup {
    html! {
        h3 {
            (label) " of event " (first) " and " (second) ": "
            @if before == after { span.same { "equal" } } @else { span.differ { "different" } }
        }
        pre.untrusted.diff { (marked_diff(before, after)) }
    }
}

fn suggestions(session: &str, trip: &Trip) -> Markup {
    let actions = actions(trip, session);
    html! {
        @if !actions.is_empty() {
            h3 { "Suggested actions" }
            ul.plain { @for action in &actions {
                li { (action.text) @if let Some(command) = &action.command { ": " code.untrusted { (single_line(command, 300)) } } }
            } }
        }
    }
}

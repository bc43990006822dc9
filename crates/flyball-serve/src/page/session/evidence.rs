//! Loop evidence: what each trip rests on. The events side by side, what is equal in them and what differs, the
//! fingerprints, the count against the limit, the line of the policy, and what could be done.

use super::diff::marked;
use super::origin::{Line, Origins};
use crate::page::links;
use crate::page::need::headline;
use crate::page::text::{line, plain};
use flyball::{Decision, Event, Kind, Trip, Verdict};
use flyball_journal::{Desk, Record, StoreError};
use flyball_view::evidence::describe;
use flyball_view::meaning::{actions, meaning, sentence};
use maud::{Markup, html};
use serde_json::Value;
use std::collections::BTreeSet;

/// How many findings are shown, and how many events are searched for them.
const FINDINGS: usize = 5;
const CANDIDATES: usize = 40;
const SEARCHED: u64 = 2_000;
const PORTION: u64 = 200;
/// How many events of one finding are shown.
const EVENTS: usize = 8;
/// How many events after a call may hold its result.
const AFTER: u64 = 40;
/// How much of arguments and results is compared.
const COMPARED: usize = 4_000;

/// A trip and what it rests on.
pub(super) struct Finding {
    seq: u64,
    verdict: Verdict,
    trip: Trip,
    events: Vec<Seen>,
    origin: Option<Line>,
}

/// One event of the evidence.
struct Seen {
    seq: u64,
    told: String,
    /// The arguments of a call, or what else the event says.
    asked: String,
    result: Option<String>,
    is_call: bool,
}

/// The newest findings of a session; the one of decision `wanted` first, if it is asked for.
pub(super) fn findings(
    desk: &dyn Desk,
    session: &str,
    newest: u64,
    wanted: Option<u64>,
    origins: &Origins,
) -> Result<Vec<Finding>, StoreError> {
    let mut found: Vec<(u64, Verdict, Trip)> = Vec::new();
    if let Some(wanted) = wanted {
        let record = desk.records(session, wanted, wanted)?.pop();
        record.into_iter().for_each(|record| add(&mut found, &record));
    }
    let mut to = newest;
    while to > 0 && found.len() < CANDIDATES && newest - to < SEARCHED {
        let from = to.saturating_sub(PORTION - 1).max(1);
        let records = desk.records(session, from, to)?;
        records.iter().rev().filter(|record| record.verdict > Verdict::Allow).for_each(|record| {
            if found.len() < CANDIDATES {
                add(&mut found, record);
            }
        });
        to = from - 1;
    }
    // A halted session answers with the same finding again, without its count: the finding itself says more.
    let counted: BTreeSet<(String, String)> =
        found.iter().filter(|(.., trip)| trip.count > 0).map(|(.., trip)| kind(trip)).collect();
    found.retain(|(_, _, trip)| trip.count > 0 || !counted.contains(&kind(trip)));
    found.truncate(FINDINGS);
    let mut all = Vec::new();
    for (seq, verdict, trip) in found {
        let mut events = Vec::new();
        for number in trip.evidence.events.iter().rev().take(EVENTS).rev() {
            events.extend(seen(desk, session, *number)?);
        }
        let origin = origins.line(&trip);
        all.push(Finding { seq, verdict, trip, events, origin });
    }
    Ok(all)
}

fn kind(trip: &Trip) -> (String, String) {
    (trip.guard.clone(), trip.reason.clone())
}

/// Adds the findings of a decision that were not told yet.
fn add(found: &mut Vec<(u64, Verdict, Trip)>, record: &Record) {
    let Ok(decision) = serde_json::from_str::<Decision>(&record.decision) else { return };
    for trip in decision.trips {
        let told = |known: &Trip| {
            kind(known) == kind(&trip) && known.scope == trip.scope && (known.count > 0) == (trip.count > 0)
        };
        if !found.iter().any(|(.., known)| told(known)) {
            found.push((decision.seq, decision.decision, trip));
        }
    }
}

/// An event and, if it is a call, what came of it.
fn seen(desk: &dyn Desk, session: &str, seq: u64) -> Result<Option<Seen>, StoreError> {
    let records = desk.records(session, seq, seq.saturating_add(AFTER))?;
    let mut events =
        records.iter().filter_map(|record| Some((record.seq, Event::from_json(&record.text).ok()?)));
    let Some((_, event)) = events.next().filter(|(at, _)| *at == seq) else { return Ok(None) };
    let told = describe(&event);
    let is_call = matches!(event.kind, Kind::ToolRequested { .. });
    let (asked, call) = match &event.kind {
        Kind::ToolRequested { args, call, .. } => (whole(args), call.clone()),
        _ => (told.clone(), None),
    };
    let result = call.and_then(|wanted| {
        events.find_map(|(_, event)| match event.kind {
            Kind::ToolFinished { call: Some(call), ok, output, error, .. } if call == wanted => {
                let failed = ok == Some(false) && !error.is_null();
                Some(whole(if failed { &error } else { &output }))
            }
            _ => None,
        })
    });
    Ok(Some(Seen { seq, told, asked, result, is_call }))
}

fn whole(value: &Value) -> String {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => serde_json::to_string_pretty(other).unwrap_or_default(),
    };
    plain(&text, COMPARED)
}

/// The evidence of a session.
pub(super) fn section(session: &str, findings: &[Finding]) -> Markup {
    html! {
        section #evidence .card.evidence data-live {
            h2 { "Loop evidence" }
            p.hint { "The newest findings of this session, each with what it rests on." }
            @for (at, finding) in findings.iter().enumerate() { (one(session, finding, at == 0)) }
        }
    }
}

fn told(trip: &Trip) -> String {
    headline(Some(trip), &trip.message)
}

/// A sentence without its first letter, which may be large or small.
fn lower(sentence: &str) -> &str {
    let mut letters = sentence.chars();
    letters.next();
    letters.as_str()
}

fn one(session: &str, finding: &Finding, open: bool) -> Markup {
    let Finding { seq, verdict, trip, events, origin } = finding;
    let place = links::session_with(session, &format!("trip={seq}"));
    html! {
        details #{"trip-" (seq) "-" (links::key(&format!("{}{}", trip.guard, trip.reason)))} open[open] {
            summary {
                span class=(format!("verdict {}", trip.severity.as_str())) { (trip.severity.as_str()) }
                span.headline.untrusted { (told(trip)) }
                span.soft { "event " (seq) }
            }
            p.untrusted { (line(&sentence(&trip.message), 600)) }
            @if let Some(means) = meaning(&trip.reason).filter(|means| !told(trip).contains(lower(means))) { p.soft { (means) } }
            (figures(trip, origin.as_ref()))
            @if !events.is_empty() { (side_by_side(events)) (compared(trip, events)) }
            (suggestions(session, trip))
            p.soft {
                "Decision " (verdict.as_str()) ". " a href=(format!("{place}#evidence")) { "Link to this finding" }
            }
        }
    }
}

fn figures(trip: &Trip, origin: Option<&Line>) -> Markup {
    let evidence = &trip.evidence;
    let scope = trip.scope.iter().filter(|(_, value)| !value.is_empty());
    let prints: Vec<String> = evidence.fingerprints.iter().map(ToString::to_string).collect();
    let same = prints.windows(2).all(|two| two.first() == two.last());
    html! {
        dl {
            dt { "Guard" } dd.untrusted { (line(&trip.guard, 60)) " (" (line(&trip.reason, 60)) ")" }
            dt { "Counted" } dd { b { (trip.count) } @if trip.limit > 0 { " against a limit of " b { (trip.limit) } } }
            @for (key, value) in scope { dt { (line(key, 40)) } dd.untrusted { (line(value, 200)) } }
            @if let (Some(period), Some(repeats)) = (evidence.period, evidence.repeats) {
                dt { "Repeats" }
                dd { @if period > 1 { "a block of " (period) ", " } (repeats) " times in a row" }
            }
            @if !evidence.trend.is_empty() {
                dt { "Measured" }
                dd { (evidence.trend.iter().map(ToString::to_string).collect::<Vec<_>>().join(" → ")) }
            }
            @if !evidence.names.is_empty() { dt { "Still failing" } dd.untrusted { (line(&evidence.names.join(", "), 400)) } }
            @if !evidence.trail.is_empty() { dt { "The way" } dd.untrusted { (line(&evidence.trail.join(" → "), 400)) } }
            @if let Some(budget) = &trip.budget {
                dt { "Budget" } dd.untrusted { (line(&budget.scope, 40)) " " (line(&budget.name, 40)) ": " (budget.used) " of " (budget.limit) }
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
                dd { code.untrusted { (line(&origin.key, 120)) " = " (line(&origin.value, 60)) } " from " span.untrusted { (line(&origin.place, 160)) } }
            }
        }
    }
}

fn side_by_side(events: &[Seen]) -> Markup {
    html! {
        div.wide tabindex="0" role="region" aria-label="Events of this finding" {
            table.side {
                thead { tr { @for event in events { th scope="col" { "event " (event.seq) } } } }
                tbody {
                    tr { @for event in events { td.untrusted { code { (line(&event.told, 160)) } } } }
                    @if events.iter().any(|event| event.is_call) { tr { @for event in events { td.untrusted {
                        @match &event.result { Some(result) => { "→ " (line(result, 160)) } None => span.soft { "no result" } }
                    } } } }
                }
            }
        }
    }
}

/// The newest event beside the one that it repeats: arguments and results, with what differs marked.
fn compared(trip: &Trip, events: &[Seen]) -> Markup {
    let period = trip.evidence.period.and_then(|period| usize::try_from(period).ok()).unwrap_or(1).max(1);
    let pair = |ready: &dyn Fn(&Seen) -> bool| {
        let fit: Vec<&Seen> = events.iter().filter(|event| ready(event)).collect();
        let last = fit.len().checked_sub(1)?;
        Some((*fit.get(last.checked_sub(period)?)?, *fit.get(last)?))
    };
    let asked = pair(&|_| true);
    let results = pair(&|event| event.result.is_some());
    html! {
        @if let Some((a, b)) = asked { (difference(if a.is_call { "Arguments" } else { "Contents" }, a.seq, b.seq, &a.asked, &b.asked)) }
        @if let Some((a, b)) = results {
            (difference("Results", a.seq, b.seq, a.result.as_deref().unwrap_or_default(), b.result.as_deref().unwrap_or_default()))
        }
    }
}

fn difference(what: &str, first: u64, second: u64, before: &str, after: &str) -> Markup {
    html! {
        h3 {
            (what) " of event " (first) " and " (second) ": "
            @if before == after { span.same { "equal" } } @else { span.differ { "different" } }
        }
        pre.untrusted.diff { (marked(before, after)) }
    }
}

fn suggestions(session: &str, trip: &Trip) -> Markup {
    let actions = actions(trip, session);
    html! {
        @if !actions.is_empty() {
            h3 { "What could be done" }
            ul.plain { @for action in &actions {
                li { (action.text) @if let Some(command) = &action.command { ": " code.untrusted { (line(command, 300)) } } }
            } }
        }
    }
}

//! All sessions in a list: how each does, what it has used, and what was decided last.

use super::charts::spark;
use super::gate::Trouble;
use super::inbox::waiting;
use super::links::{self, encoded};
use super::shell::{Frame, Place, page};
use super::text::{line, short};
use crate::office::{Office, Shared};
use crate::problem::Problem;
use crate::who::Principal;
use axum::extract::{Extension, Query, State};
use flyball::{Decision, Report, Verdict};
use flyball_journal::{Head, Which};
use flyball_view::heads::heads;
use flyball_view::meaning::sentence;
use flyball_view::trend;
use flyball_view::words::{ago, dollars, moment};
use flyball_view::{SessionActivity, SessionStatus};
use maud::{Markup, html};
use serde::Deserialize;

/// How many sessions are looked over: those that changed last.
const LOOKED_OVER: usize = 10_000;
/// How many are on a page.
const SHOWN: usize = 25;

/// What the page is asked with.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Asked {
    state: Option<String>,
    q: Option<String>,
    page: Option<String>,
}

/// One line of the list.
struct Row {
    head: Head,
    report: Option<Report>,
    last: Option<Decision>,
    activity: SessionActivity,
}

/// What is shown of all.
struct List {
    rows: Vec<Row>,
    /// How many there are that fit the question.
    count: usize,
    waiting: usize,
    /// How many sessions have each status.
    states: Vec<(SessionStatus, usize)>,
}

/// The page.
pub(super) async fn show(
    State(office): State<Shared>,
    Extension(principal): Extension<Principal>,
    Query(asked): Query<Asked>,
) -> Result<Markup, Trouble> {
    let who = principal.clone();
    let number: usize = asked.page.as_deref().and_then(|page| page.parse().ok()).unwrap_or(1).max(1);
    let state = asked.state.clone().unwrap_or_default();
    let name = asked.q.clone().unwrap_or_default().trim().to_owned();
    let (wanted_state, wanted_name) = (state.clone(), name.clone());
    let list = office.look(move |office| list(office, &who, &wanted_state, &wanted_name, number)).await?;
    let now = office.now();
    let to = format!("/sessions?state={}&q={}", encoded(&state), encoded(&name));
    let body = html! {
        div.heading { h1 { "Sessions" } p #count .soft data-live { (list.count) " shown as they changed last" } }
        (filter(&list, &state, &name))
        @if list.rows.is_empty() {
            p #list .card.empty data-live { "No session fits." }
        } @else {
            (table(&list.rows, now))
        }
        (super::inbox::pager(&to, number, list.count))
    };
    let frame = Frame {
        title: "Sessions",
        place: Place::Sessions,
        who: Some(&principal),
        waiting: Some(list.waiting),
        notice: None,
        alarm: Some(office.alarm()),
    };
    Ok(page(&frame, body))
}

fn list(office: &Office, who: &Principal, state: &str, name: &str, number: usize) -> Result<List, Problem> {
    let mut all = heads(office.desk(), &[Which::All], LOOKED_OVER)?;
    let wanted = name.to_lowercase();
    all.retain(|head| who.may_touch(&head.session).is_ok() && head.session.to_lowercase().contains(&wanted));
    let reader = office.activity_reader()?;
    let with_activity = |head: Head| Ok::<_, Problem>((reader.activity(&head)?, head));
    let mut all = all.into_iter().map(with_activity).collect::<Result<Vec<_>, _>>()?;
    let count_of = |status| all.iter().filter(|(activity, _)| activity.status == status).count();
    let states = SessionStatus::ALL.map(|status| (status, count_of(status)));
    all.retain(|(activity, _)| state.is_empty() || activity.status.as_str() == state);
    let count = all.len();
    let waiting = waiting(office, who)?;
    let mut rows = Vec::new();
    for (activity, head) in all.into_iter().skip((number - 1).saturating_mul(SHOWN)).take(SHOWN) {
        // One that cannot be read is listed all the same.
        let report = office.session(&head.session).ok().map(|(state, policy)| state.report(&policy));
        let last = office.desk().records(&head.session, head.seq, head.seq)?.pop();
        let last = last.and_then(|record| serde_json::from_str(&record.decision).ok());
        rows.push(Row { head, report, last, activity });
    }
    Ok(List { rows, count, waiting: waiting.len(), states: states.to_vec() })
}

fn filter(list: &List, state: &str, name: &str) -> Markup {
    html! {
        form.filter method="get" action="/sessions" role="search" {
            label.hidden for="q" { "Search by name" }
            input #q type="search" name="q" value=(line(name, 200)) placeholder="search by name";
            label.hidden for="state" { "State" }
            select #state name="state" {
                option value="" selected[state.is_empty()] { "all states" }
                @for (status, count) in &list.states {
                    option value=(status.as_str()) selected[status.as_str() == state] {
                        (word(*status)) " (" (count) ")"
                    }
                }
            }
            button type="submit" { "Show" }
        }
    }
}

fn table(rows: &[Row], now: u64) -> Markup {
    html! {
        table #list .card.list data-live data-keyed-rows {
            caption.hidden { "Sessions, the one that changed last first" }
            thead { tr {
                th scope="col" { "Session" } th scope="col" { "State" } th scope="col" { "Loop" }
                th scope="col" { "Trend" } th.number scope="col" { "Tokens" } th.number scope="col" { "Cost" }
                th.number scope="col" { "Calls" } th scope="col" { "Last decision" } th.number scope="col" { "Changed" }
            } }
            tbody #rows data-keyed { @for row in rows { (told(row, now)) } }
        }
    }
}

fn told(row: &Row, now: u64) -> Markup {
    let head = &row.head;
    let report = row.report.as_ref();
    html! {
        tr #{"row-" (links::key(&head.session))} data-item tabindex="-1" {
            th scope="row" {
                a.untrusted data-open href=(links::session(&head.session)) { (line(&head.session, 60)) }
                @if let Some(parent) = &head.glance.parent { span.soft.untrusted { "below " (line(parent, 40)) } }
            }
            td { (state(&row.activity)) }
            td data-name="Loop" { @if let Some(report) = report { (badges(report)) } }
            td data-name="Trend" { @if let Some(report) = report { (sparks(report)) } }
            td.number data-name="Tokens" { @if let Some(report) = report { (short(report.tokens)) } }
            td.number data-name="Cost" { @if let Some(report) = report { (cents(report.cost_micro_usd)) } }
            td.number data-name="Calls" { @if let Some(report) = report { (short(report.calls)) } }
            td data-name="Last decision" { @if let Some(last) = &row.last { (decided(last, head)) } }
            td.number data-name="Changed" { time title=(moment(head.updated)) { (ago(head.updated, now)) } }
        }
    }
}

fn cents(micro: u64) -> String {
    if micro == 0 { "–".to_owned() } else { dollars(micro) }
}

/// The loops that were gone round, and the ones that were halted in.
pub(super) fn badges(report: &Report) -> Markup {
    let mut gone: Vec<_> = report.loops.iter().filter(|found| found.iterations > 0).collect();
    gone.sort_by_key(|found| std::cmp::Reverse(found.iterations));
    html! {
        @for found in gone.iter().take(2) {
            span.badge.untrusted .full[found.limit.is_some_and(|limit| found.iterations >= limit)]
                title=(line(&found.nodes.join(", "), 200)) { (found.badge) }
            " "
        }
    }
}

fn sparks(report: &Report) -> Markup {
    let mut measured: Vec<_> = report.trends.iter().filter(|(_, values)| values.len() > 1).collect();
    measured.sort_by_key(|(name, _)| *name != "tests");
    html! {
        @if let Some((name, values)) = measured.first() { (spark(values, &line(&trend::told(name, values), 120))) }
    }
}

/// The last decision, in a word and the reason for it; of one that stands still, what stopped it.
fn decided(decision: &Decision, head: &Head) -> Markup {
    let trip = decision.trips.iter().max_by_key(|trip| trip.severity);
    let trip = trip.filter(|_| decision.decision > Verdict::Allow);
    let stopped = head.glance.stopped_by.as_deref().and_then(|why| why.split_once(": "));
    let why = trip.map(|trip| (trip.reason.as_str(), trip.message.as_str())).or(stopped);
    html! {
        span class=(format!("verdict {}", decision.decision.as_str())) { (decision.decision.as_str()) }
        @if let Some((reason, message)) = why {
            " " span.soft.untrusted.why title=(line(&sentence(message), 400)) { (line(reason, 60)) }
        }
    }
}

/// A status: color, shape and word.
pub(super) fn state(activity: &SessionActivity) -> Markup {
    let class = match activity.status {
        SessionStatus::AwaitingAnswer => SessionStatus::AwaitingConfirmation.as_str(),
        status => status.as_str(),
    };
    html! {
        span class=(format!("state {class}")) {
            svg viewBox="0 0 12 12" aria-hidden="true" { (shape(class)) }
            (activity.label())
        }
    }
}

fn shape(class: &str) -> Markup {
    html! {
        @match class {
            "running" => circle cx="6" cy="6" r="5" {},
            "awaiting_confirmation" => path d="M6 0 12 6 6 12 0 6z" {},
            "blocked" => path d="M6 0.5 12 11.5H0z" {},
            "lost" => path d="M1 1 11 11M11 1 1 11" stroke="currentColor" stroke-width="2.4" {},
            "halted" => rect x="1" y="1" width="10" height="10" {},
            _ => circle.open cx="6" cy="6" r="4.2" {},
        }
    }
}

/// A status as the filter shows it.
fn word(status: SessionStatus) -> String {
    SessionActivity { status, is_held: false, idle_ms: None, question: None }.label()
}

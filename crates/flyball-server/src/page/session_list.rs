//! Sessions page: status, usage and last decision of each session.

use super::charts::sparkline;
use super::inbox::waiting_sessions;
use super::layout::{NavSection, PageLayout, render_page};
use super::links::{self, encoded};
use super::security_headers::PageError;
use super::text::single_line;
use crate::api_error::ApiError;
use crate::app_state::{AppState, SharedState};
use crate::auth::Principal;
use axum::extract::{Extension, Query, State};
use flyball::{Decision, SessionReport, Verdict};
use flyball_store::{SessionFilter, SessionRow};
use flyball_view::explanations::sentence;
use flyball_view::formatting::{format_amount, format_dollars, relative_time, utc_time};
use flyball_view::session_list::list_sessions;
use flyball_view::trend;
use flyball_view::{SessionActivity, SessionStatus};
use maud::{Markup, html};
use serde::Deserialize;

/// Number of sessions searched, most recently changed first.
const MAX_SEARCHED_SESSIONS: usize = 10_000;
/// Number of sessions per page.
const PAGE_SIZE: usize = 25;

/// Query of the page.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct SessionListQuery {
    state: Option<String>,
    q: Option<String>,
    page: Option<String>,
}

/// One row of the list.
struct SessionListRow {
    head: SessionRow,
    report: Option<SessionReport>,
    last: Option<Decision>,
    activity: SessionActivity,
}

/// Data of the page.
struct SessionListView {
    rows: Vec<SessionListRow>,
    /// Number of sessions that match the filter.
    count: usize,
    waiting: usize,
    /// Number of sessions per status.
    states: Vec<(SessionStatus, usize)>,
}

/// Renders the page.
pub(super) async fn show(
    State(app): State<SharedState>,
    Extension(principal): Extension<Principal>,
    Query(asked): Query<SessionListQuery>,
) -> Result<Markup, PageError> {
    let who = principal.clone();
    let number: usize = asked.page.as_deref().and_then(|page| page.parse().ok()).unwrap_or(1).max(1);
    let state = asked.state.clone().unwrap_or_default();
    let name = asked.q.clone().unwrap_or_default().trim().to_owned();
    let (wanted_state, wanted_name) = (state.clone(), name.clone());
    let list = app.run_blocking(move |app| read_list(app, &who, &wanted_state, &wanted_name, number)).await?;
    let now = app.now();
    let to = format!("/sessions?state={}&q={}", encoded(&state), encoded(&name));
    let body = html! {
        div.heading { h1 { "Sessions" } p #count .soft data-live { (list.count) " sessions, most recently changed first" } }
        (filter(&list, &state, &name))
        @if list.rows.is_empty() {
            p #list .card.empty data-live { "No sessions match." }
        } @else {
            (table(&list.rows, now))
        }
        (super::inbox::pager(&to, number, list.count))
    };
    let frame = PageLayout {
        title: "Sessions",
        section: NavSection::Sessions,
        principal: Some(&principal),
        waiting: Some(list.waiting),
        notice: None,
        alarm: Some(app.warning_banner()),
    };
    Ok(render_page(&frame, body))
}

fn read_list(
    app: &AppState,
    who: &Principal,
    state: &str,
    name: &str,
    number: usize,
) -> Result<SessionListView, ApiError> {
    let mut all = list_sessions(app.store(), &[SessionFilter::All], MAX_SEARCHED_SESSIONS)?;
    let wanted = name.to_lowercase();
    all.retain(|head| {
        who.check_session(&head.session).is_ok() && head.session.to_lowercase().contains(&wanted)
    });
    let reader = app.activity_reader()?;
    let with_activity = |head: SessionRow| Ok::<_, ApiError>((reader.activity(&head)?, head));
    let mut all = all.into_iter().map(with_activity).collect::<Result<Vec<_>, _>>()?;
    let count_of = |status| all.iter().filter(|(activity, _)| activity.status == status).count();
    let states = SessionStatus::ALL.map(|status| (status, count_of(status)));
    all.retain(|(activity, _)| state.is_empty() || activity.status.as_str() == state);
    let count = all.len();
    let waiting = waiting_sessions(app, who)?;
    let mut rows = Vec::new();
    for (activity, head) in all.into_iter().skip((number - 1).saturating_mul(PAGE_SIZE)).take(PAGE_SIZE) {
        // A session that cannot be read is listed anyway.
        let report = app.session(&head.session).ok().map(|(state, policy)| state.report(&policy));
        let last = app.store().records(&head.session, head.seq, head.seq)?.pop();
        let last = last.and_then(|record| serde_json::from_str(&record.decision_json).ok());
        rows.push(SessionListRow { head, report, last, activity });
    }
    Ok(SessionListView { rows, count, waiting: waiting.len(), states: states.to_vec() })
}

fn filter(list: &SessionListView, state: &str, name: &str) -> Markup {
    html! {
        form.filter method="get" action="/sessions" role="search" {
            label.hidden for="q" { "Search by name" }
            input #q type="search" name="q" value=(single_line(name, 200)) placeholder="Search by name";
            label.hidden for="state" { "State" }
            select #state name="state" {
                option value="" selected[state.is_empty()] { "All states" }
                @for (status, count) in &list.states {
                    option value=(status.as_str()) selected[status.as_str() == state] {
                        (status_label(*status)) " (" (count) ")"
                    }
                }
            }
            button type="submit" { "Filter" }
        }
    }
}

fn table(rows: &[SessionListRow], now: u64) -> Markup {
    html! {
        table #list .card.list data-live data-keyed-rows {
            caption.hidden { "Sessions, most recently changed first" }
            thead { tr {
                th scope="col" { "Session" } th scope="col" { "State" } th scope="col" { "Loop" }
                th scope="col" { "Trend" } th.number scope="col" { "Tokens" } th.number scope="col" { "Spend" }
                th.number scope="col" { "Calls" } th scope="col" { "Last decision" } th.number scope="col" { "Changed" }
            } }
            tbody #rows data-keyed { @for row in rows { (session_row(row, now)) } }
        }
    }
}

fn session_row(row: &SessionListRow, now: u64) -> Markup {
    let head = &row.head;
    let report = row.report.as_ref();
    html! {
        tr #{"row-" (links::dom_id(&head.session))} data-item tabindex="-1" {
            th scope="row" {
                a.untrusted data-open href=(links::session_path(&head.session)) { (single_line(&head.session, 60)) }
                @if let Some(parent) = &head.summary.parent { span.soft.untrusted { "child of " (single_line(parent, 40)) } }
            }
            td { (status_badge(&row.activity)) }
            td data-name="Loop" { @if let Some(report) = report { (badges(report)) } }
            td data-name="Trend" { @if let Some(report) = report { (sparks(report)) } }
            td.number data-name="Tokens" { @if let Some(report) = report { (format_amount(report.tokens)) } }
            td.number data-name="Spend" { @if let Some(report) = report { (format_cost(report.cost_micro_usd)) } }
            td.number data-name="Calls" { @if let Some(report) = report { (format_amount(report.calls)) } }
            td data-name="Last decision" { @if let Some(last) = &row.last { (last_decision(last, head)) } }
            td.number data-name="Changed" { time title=(utc_time(head.updated)) { (relative_time(head.updated, now)) } }
        }
    }
}

fn format_cost(micro: u64) -> String {
    if micro == 0 { "–".to_owned() } else { format_dollars(micro) }
}

/// Badges of the two most active loops, highlighted at their limit.
pub(super) fn badges(report: &SessionReport) -> Markup {
    let mut active: Vec<_> = report.loops.iter().filter(|found| found.iterations > 0).collect();
    active.sort_by_key(|found| std::cmp::Reverse(found.iterations));
    html! {
        @for found in active.iter().take(2) {
            span.badge.untrusted .full[found.limit.is_some_and(|limit| found.iterations >= limit)]
                title=(single_line(&found.nodes.join(", "), 200)) { (found.badge) }
            " "
        }
    }
}

fn sparks(report: &SessionReport) -> Markup {
    let mut measured: Vec<_> = report.trends.iter().filter(|(_, values)| values.len() > 1).collect();
    measured.sort_by_key(|(name, _)| *name != "tests");
    html! {
        @if let Some((name, values)) = measured.first() { (sparkline(values, &single_line(&trend::format_trend(name, values), 120))) }
    }
}

/// The last decision and its reason; for a stopped session, what stopped it.
fn last_decision(decision: &Decision, head: &SessionRow) -> Markup {
    let trip = decision.trips.iter().max_by_key(|trip| trip.severity);
    let trip = trip.filter(|_| decision.decision > Verdict::Allow);
    let stopped = head.summary.stopped_by.as_deref().and_then(|why| why.split_once(": "));
    let why = trip.map(|trip| (trip.reason.as_str(), trip.message.as_str())).or(stopped);
    html! {
        span class=(format!("verdict {}", decision.decision.as_str())) { (decision.decision.as_str()) }
        @if let Some((reason, message)) = why {
            " " span.soft.untrusted.why title=(single_line(&sentence(message), 400)) { (single_line(reason, 60)) }
        }
    }
}

/// A status badge: color, shape and text.
pub(super) fn status_badge(activity: &SessionActivity) -> Markup {
    let class = match activity.status {
        SessionStatus::AwaitingAnswer => SessionStatus::AwaitingConfirmation.as_str(),
        status => status.as_str(),
    };
    html! {
        span class=(format!("state {class}")) {
            svg viewBox="0 0 12 12" aria-hidden="true" { (shape(class)) }
            (badge_label(activity))
        }
    }
}

/// The text of a status badge: `Idle 13 min`, `Lost`, `Awaiting approval`.
fn badge_label(activity: &SessionActivity) -> String {
    let label = match activity.idle_ms {
        Some(ms) if ms < 60 * 60_000 => format!("idle {} min", ms / 60_000),
        Some(ms) if ms < 24 * 60 * 60_000 => format!("idle {} h", ms / (60 * 60_000)),
        Some(ms) => format!("idle {} d", ms / (24 * 60 * 60_000)),
        None => activity.label(),
    };
    let mut chars = label.chars();
    let first: String = chars.next().map(|c| c.to_uppercase().collect()).unwrap_or_default();
    format!("{first}{}", chars.as_str())
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

/// A status as shown in the filter.
fn status_label(status: SessionStatus) -> String {
    badge_label(&SessionActivity { status, is_held: false, idle_ms: None, question: None })
}

//! Inbox page: sessions that need a person, oldest first, with the reason, the evidence and the possible actions.

use super::forms::{self, ActionNotice};
use super::layout::{NavSection, PageLayout, render_page};
use super::links;
use super::pending_action::{PendingAction, PendingActionKind};
use super::security_headers::PageError;
use super::session::plan_steps;
use super::text::{single_line, timestamp};
use crate::api_error::ApiError;
use crate::app_state::{AppState, SharedState};
use crate::auth::Principal;
use axum::extract::{Extension, Query, State};
use flyball_store::{SessionFilter, SessionRow};
use flyball_view::SessionStatus;
use flyball_view::explanations::{actions, sentence};
use flyball_view::formatting::{plural, relative_time, utc_time};
use maud::{Markup, html};
use serde::Deserialize;

/// Maximum number of waiting sessions counted.
const MAX_COUNTED: usize = 10_000;
/// Number of sessions per page.
const PAGE_SIZE: usize = 25;

/// Query of the page.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct InboxPageQuery {
    page: Option<String>,
    /// Only sessions after this cursor: `TIME:SESSION`, encoded.
    after: Option<String>,
    #[serde(flatten)]
    notice: ActionNotice,
}

/// Names of the waiting sessions, least recently changed first.
///
/// # Errors
/// If they cannot be read.
pub(super) fn waiting_sessions(app: &AppState, principal: &Principal) -> Result<Vec<String>, ApiError> {
    Ok(waiting_since(app, principal)?.into_iter().map(|(_, session)| session).collect())
}

/// The waiting sessions with the time of their last change, oldest first.
fn waiting_since(app: &AppState, principal: &Principal) -> Result<Vec<(u64, String)>, ApiError> {
    let store = app.store();
    let mut all: Vec<(u64, String)> = Vec::new();
    for which in [SessionFilter::Blocked, SessionFilter::Waiting] {
        let heads = store.list_sessions(which, MAX_COUNTED)?;
        all.extend(heads.into_iter().map(|SessionRow { session, updated, .. }| (updated, session)));
    }
    all.extend(app.dashboard_counters.asking_sessions(store)?);
    all.sort();
    all.dedup();
    all.retain(|(_, session)| principal.check_session(session).is_ok());
    Ok(all)
}

/// Renders the page.
pub(super) async fn show(
    State(app): State<SharedState>,
    Extension(principal): Extension<Principal>,
    Query(asked): Query<InboxPageQuery>,
) -> Result<Markup, PageError> {
    let (who, number) = (principal.clone(), asked.page.as_deref().and_then(|page| page.parse().ok()));
    let number: usize = number.unwrap_or(1).max(1);
    let after = asked.after.as_deref().and_then(cursor);
    let (count, from, next, found) = app
        .run_blocking(move |app| {
            let all = waiting_since(app, &who)?;
            // The next link is a cursor, so that no session is skipped when others are answered in between.
            let from = match &after {
                Some(after) => all.partition_point(|each| each <= after),
                None => (number - 1).saturating_mul(PAGE_SIZE).min(all.len()),
            };
            let shown = all.iter().skip(from).take(PAGE_SIZE);
            let next = shown
                .clone()
                .next_back()
                .filter(|_| from + PAGE_SIZE < all.len())
                .map(|(at, name)| format!("{at}:{name}"));
            let needs: Vec<PendingAction> =
                shown.filter_map(|(_, name)| PendingAction::load(app, name).ok()).collect();
            Ok::<_, ApiError>((all.len(), from, next, needs))
        })
        .await?;
    let found_count = found.len();
    let mut needs = Vec::new();
    for need in found {
        needs.push(need.with_ticket(&app, &principal).await);
    }
    needs.sort_by_key(|need| need.since);
    let now = app.now();
    let mut cards = Vec::new();
    for need in &needs {
        cards.push(card(need, &principal, now)?);
    }
    let body = html! {
        div.heading {
            h1 { "Inbox" }
            p #count .soft aria-live="polite" data-live { (count_text(count)) }
        }
        div #inbox .cards data-live data-keyed { @for card in &cards { (card) } }
        (cursor_pager(from, found_count, count, next.as_deref()))
    };
    let frame = PageLayout {
        title: "Inbox",
        section: NavSection::Inbox,
        principal: Some(&principal),
        waiting: Some(count),
        notice: asked.notice.notice(),
        alarm: Some(app.warning_banner()),
    };
    Ok(render_page(&frame, body))
}

fn count_text(count: usize) -> String {
    match count {
        0 => "Nothing needs your attention.".to_owned(),
        1 => "1 session needs your attention.".to_owned(),
        count => format!("{count} sessions need your attention, oldest first."),
    }
}

/// Parses a cursor: time of the last change, and name.
fn cursor(text: &str) -> Option<(u64, String)> {
    let (at, name) = text.split_once(':')?;
    Some((at.parse().ok()?, name.to_owned()))
}

/// Links to the first page and the next one.
fn cursor_pager(from: usize, shown: usize, count: usize, next: Option<&str>) -> Markup {
    html! {
        @if from > 0 || next.is_some() {
            nav.pager aria-label="More" {
                @if from > 0 { a.button href="/" { "First" } }
                span.soft { (from + 1) " to " (from + shown) " of " (count) }
                @if let Some(next) = next { a.button href=(format!("/?after={}", links::encoded(next))) { "Next" } }
            }
        }
    }
}

/// Links to the previous and next page.
pub(super) fn pager(to: &str, number: usize, count: usize) -> Markup {
    let mark = if to.contains('?') { '&' } else { '?' };
    let pages = count.div_ceil(PAGE_SIZE);
    html! {
        @if pages > 1 {
            nav.pager aria-label="More" {
                @if number > 1 { a.button href=(format!("{to}{mark}page={}", number - 1)) { "Previous" } }
                span.soft { "Page " (number) " of " (pages) }
                @if number < pages { a.button href=(format!("{to}{mark}page={}", number + 1)) { "Next" } }
            }
        }
    }
}

/// The card of a waiting session.
fn card(need: &PendingAction, principal: &Principal, now: u64) -> Result<Markup, ApiError> {
    let id = links::dom_id(&need.session);
    Ok(html! {
        article class=(format!("card need {}", color_class(need))) #{"need-" (id)} data-item tabindex="-1" aria-labelledby=(format!("title-{id}")) {
            header {
                h2 #{"title-" (id)} {
                    a.untrusted data-open href=(links::session_path(&need.session)) { (single_line(&need.session, 80)) }
                }
                (super::session_list::status_badge(&need.activity))
                time.soft title=(utc_time(need.since)) { (relative_time(need.since, now)) }
            }
            p.headline.untrusted { (need.sentence()) }
            (reason_section(need, now))
            (forms::action_form(need, principal, "inbox")?)
        }
    })
}

/// The CSS class that sets the card's color.
pub(super) fn color_class(need: &PendingAction) -> &'static str {
    match need.kind {
        PendingActionKind::Question { .. } => SessionStatus::AwaitingConfirmation.as_str(),
        _ => need.activity.status.as_str(),
    }
}

/// The reason why the session is waiting, with a short form of the evidence.
pub(super) fn reason_section(need: &PendingAction, now: u64) -> Markup {
    html! {
        @match &need.kind {
            PendingActionKind::Held { guard, stops, message, trip, lines, released } => {
                @let text = single_line(&sentence(message), 400);
                @if text != need.sentence() { p.soft.untrusted { (text) } }
                @for stop in stops.iter().map(|stop| single_line(&sentence(stop), 400)).filter(|stop| *stop != text) {
                    p.untrusted { (stop) }
                }
                @if !lines.is_empty() {
                    ul.events {
                        @for event in lines {
                            li {
                                span.seq { (event.seq) }
                                code.untrusted { (single_line(&event.text, 200)) }
                                @if let Some(result) = &event.result { span.result.untrusted { "→ " (single_line(result, 200)) } }
                            }
                        }
                    }
                }
                p.soft {
                    "Guard " span.untrusted { (single_line(guard, 60)) }
                    @if let Some(trip) = trip {
                        ": count " (trip.count)
                        @if trip.limit > 0 { ", limit " (trip.limit) }
                    }
                    @if released.0 > 0 { ". Released " (released.0) " of " (released.1) " times" }
                    "."
                    @if let Some(action) = trip.as_ref().and_then(|trip| actions(trip, &need.session).into_iter().next()) {
                        " Suggested: " (action.text)
                        @if let Some(command) = &action.command { ": " code.untrusted { (single_line(command, 300)) } }
                    }
                }
            }
            PendingActionKind::Plan { plan, ticket } => {
                (plan_steps(plan))
                p.soft {
                    (plural(plan.steps.len() as u64, "step"))
                    @if let Some(by) = &plan.requester { ". Requested by " span.untrusted { (single_line(by, 60)) } }
                    @if let Some(until) = plan.expires_at { ". Expires " (timestamp(until)) " (" (relative_time(until, now)) ")" }
                    "."
                }
                @if let Err(why) = ticket { p.wrong.untrusted { "Cannot be approved here: " (why) "." } }
            }
            PendingActionKind::Question { .. } => { p.soft { "The session continues with your answer." } }
            PendingActionKind::Nothing => {}
        }
    }
}

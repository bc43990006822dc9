//! What waits for a person, oldest first: why, since when, what it rests on, and what they can do about it.

use super::forms::{self, Did};
use super::gate::Trouble;
use super::links;
use super::need::{Need, What};
use super::session::plan_steps;
use super::shell::{Frame, Place, page};
use super::text::line;
use crate::office::{Office, Shared};
use crate::problem::Problem;
use crate::who::Principal;
use axum::extract::{Extension, Query, State};
use flyball_journal::{Head, Which};
use flyball_view::SessionStatus;
use flyball_view::meaning::{actions, sentence};
use flyball_view::words::{ago, moment, plural};
use maud::{Markup, html};
use serde::Deserialize;

/// How many that wait are counted.
const COUNTED: usize = 10_000;
/// How many are shown on a page.
const SHOWN: usize = 25;

/// What the page is asked with.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Asked {
    page: Option<String>,
    /// Only those after this one: `TIME:SESSION`, encoded.
    after: Option<String>,
    #[serde(flatten)]
    did: Did,
}

/// The names of the sessions that wait, the one that changed longest ago first.
///
/// # Errors
/// If they cannot be read.
pub(super) fn waiting(office: &Office, principal: &Principal) -> Result<Vec<String>, Problem> {
    Ok(waiting_since(office, principal)?.into_iter().map(|(_, session)| session).collect())
}

/// The sessions that wait, with the time of their last change, oldest first.
fn waiting_since(office: &Office, principal: &Principal) -> Result<Vec<(u64, String)>, Problem> {
    let desk = office.desk();
    let mut all: Vec<(u64, String)> = Vec::new();
    for which in [Which::Blocked, Which::Waiting] {
        let heads = desk.heads(which, COUNTED)?;
        all.extend(heads.into_iter().map(|Head { session, updated, .. }| (updated, session)));
    }
    all.extend(office.figures.asking(desk)?);
    all.sort();
    all.dedup();
    all.retain(|(_, session)| principal.may_touch(session).is_ok());
    Ok(all)
}

/// The page.
pub(super) async fn show(
    State(office): State<Shared>,
    Extension(principal): Extension<Principal>,
    Query(asked): Query<Asked>,
) -> Result<Markup, Trouble> {
    let (who, number) = (principal.clone(), asked.page.as_deref().and_then(|page| page.parse().ok()));
    let number: usize = number.unwrap_or(1).max(1);
    let after = asked.after.as_deref().and_then(cursor);
    let (count, from, next, found) = office
        .look(move |office| {
            let all = waiting_since(office, &who)?;
            // A link to the next page names the last session of this one, so that nothing is skipped when sessions
            // are answered in between.
            let from = match &after {
                Some(after) => all.partition_point(|each| each <= after),
                None => (number - 1).saturating_mul(SHOWN).min(all.len()),
            };
            let shown = all.iter().skip(from).take(SHOWN);
            let next = shown
                .clone()
                .next_back()
                .filter(|_| from + SHOWN < all.len())
                .map(|(at, name)| format!("{at}:{name}"));
            let needs: Vec<Need> = shown.filter_map(|(_, name)| Need::of(office, name).ok()).collect();
            Ok::<_, Problem>((all.len(), from, next, needs))
        })
        .await?;
    let found_count = found.len();
    let mut needs = Vec::new();
    for need in found {
        needs.push(need.with_ticket(&office, &principal).await);
    }
    needs.sort_by_key(|need| need.since);
    let now = office.now();
    let mut cards = Vec::new();
    for need in &needs {
        cards.push(card(need, &principal, now)?);
    }
    let body = html! {
        div.heading {
            h1 { "Inbox" }
            p #count .soft aria-live="polite" data-live { (told(count)) }
        }
        div #inbox .cards data-live data-keyed { @for card in &cards { (card) } }
        (cursor_pager(from, found_count, count, next.as_deref()))
    };
    let frame = Frame {
        title: "Inbox",
        place: Place::Inbox,
        who: Some(&principal),
        waiting: Some(count),
        notice: asked.did.notice(),
        alarm: Some(office.alarm()),
    };
    Ok(page(&frame, body))
}

fn told(count: usize) -> String {
    match count {
        0 => "Nothing waits for a person.".to_owned(),
        1 => "1 session waits for a person.".to_owned(),
        count => format!("{count} sessions wait for a person, oldest first."),
    }
}

/// Where a page ended: the time of the last change, and the name.
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

/// Links to the pages before and after.
pub(super) fn pager(to: &str, number: usize, count: usize) -> Markup {
    let mark = if to.contains('?') { '&' } else { '?' };
    let pages = count.div_ceil(SHOWN);
    html! {
        @if pages > 1 {
            nav.pager aria-label="More" {
                @if number > 1 { a.button href=(format!("{to}{mark}page={}", number - 1)) { "Before" } }
                span.soft { "page " (number) " of " (pages) }
                @if number < pages { a.button href=(format!("{to}{mark}page={}", number + 1)) { "After" } }
            }
        }
    }
}

/// One that waits.
fn card(need: &Need, principal: &Principal, now: u64) -> Result<Markup, Problem> {
    let id = links::key(&need.session);
    Ok(html! {
        article class=(format!("card need {}", tone(need))) #{"need-" (id)} data-item tabindex="-1" aria-labelledby=(format!("title-{id}")) {
            header {
                h2 #{"title-" (id)} {
                    a.untrusted data-open href=(links::session(&need.session)) { (line(&need.session, 80)) }
                }
                (super::sessions::state(&need.activity))
                time.soft title=(moment(need.since)) { (ago(need.since, now)) }
            }
            p.headline.untrusted { (need.sentence()) }
            (reason(need, now))
            (forms::form(need, principal, "inbox")?)
        }
    })
}

/// The class that gives it its colour.
pub(super) fn tone(need: &Need) -> &'static str {
    match need.what {
        What::Question { .. } => SessionStatus::AwaitingConfirmation.as_str(),
        _ => need.activity.status.as_str(),
    }
}

/// What it waits for, and what it rests on in short.
pub(super) fn reason(need: &Need, now: u64) -> Markup {
    html! {
        @match &need.what {
            What::Held { guard, stops, message, trip, lines, released } => {
                @let told = line(&sentence(message), 400);
                @if told != need.sentence() { p.soft.untrusted { (told) } }
                @for stop in stops.iter().map(|stop| line(&sentence(stop), 400)).filter(|stop| *stop != told) {
                    p.untrusted { (stop) }
                }
                @if !lines.is_empty() {
                    ul.events {
                        @for event in lines {
                            li {
                                span.seq { (event.seq) }
                                code.untrusted { (line(&event.text, 200)) }
                                @if let Some(result) = &event.result { span.result.untrusted { "→ " (line(result, 200)) } }
                            }
                        }
                    }
                }
                p.soft {
                    "Guard " span.untrusted { (line(guard, 60)) }
                    @if let Some(trip) = trip {
                        ": counted " (trip.count)
                        @if trip.limit > 0 { ", allowed " (trip.limit) }
                    }
                    @if released.0 > 0 { ". Released " (released.0) " of " (released.1) " times" }
                    "."
                    @if let Some(action) = trip.as_ref().and_then(|trip| actions(trip, &need.session).into_iter().next()) {
                        " Suggested: " (action.text)
                        @if let Some(command) = &action.command { ": " code.untrusted { (line(command, 300)) } }
                    }
                }
            }
            What::Plan { plan, ticket } => {
                (plan_steps(plan))
                p.soft {
                    (plural(plan.steps.len() as u64, "step"))
                    @if let Some(by) = &plan.requester { ". Asked for by " span.untrusted { (line(by, 60)) } }
                    @if let Some(until) = plan.expires { ". A yes counts until " (moment(until)) " (" (ago(until, now)) ")" }
                    "."
                }
                @if let Err(why) = ticket { p.wrong.untrusted { "It cannot be approved here: " (why) "." } }
            }
            What::Question { .. } => { p.soft { "It listens, and goes on with the answer." } }
            What::Nothing => {}
        }
    }
}

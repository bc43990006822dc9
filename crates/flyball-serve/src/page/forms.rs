//! What a person does with a form: every act needs the word of their login, and goes the way of all acts.

use super::gate::Trouble;
use super::links;
use super::need::{Need, What};
use super::proof;
use super::text::line;
use crate::acts::{self, Act};
use crate::office::Shared;
use crate::problem::Problem;
use crate::who::{Principal, Via, check_form, login_cookie, random};
use axum::Form;
use axum::extract::rejection::FormRejection;
use axum::extract::{Extension, Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Redirect, Response};
use flyball::{Decision, Status, Verdict};
use flyball_view::meaning::meaning;
use maud::{Markup, html};
use serde::Deserialize;

/// How many more are let through by the button.
const MORE: u64 = 3;

/// What a form sends.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Sent {
    pub(super) word: String,
    /// The session, encoded, so that no browser changes a letter of it.
    pub(super) session: String,
    /// Makes a second click harmless.
    pub(super) key: String,
    pub(super) ticket: String,
    /// The guard that is released, encoded; as it was shown, so that a second click is the same act.
    pub(super) guard: String,
    pub(super) why: String,
    pub(super) text: String,
    /// Where the form was: `inbox`, or else the session's page.
    pub(super) back: String,
    /// The person's key, entered again.
    pub(super) secret: String,
}

/// What was done a moment ago, as an address carries it.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Did {
    did: Option<String>,
    r#in: Option<String>,
    reason: Option<String>,
    granted: Option<String>,
    budget: Option<String>,
}

/// A form as it was sent.
///
/// # Errors
/// If it is none.
pub(super) fn read<T>(sent: Result<Form<T>, FormRejection>) -> Result<T, Problem> {
    sent.map(|Form(sent)| sent).map_err(|_| {
        let what = "this is not a form of ours";
        Problem::new(StatusCode::BAD_REQUEST, "bad_form", what, "go back to the page and try again")
    })
}

/// Does what a form asks for.
pub(super) async fn act(
    State(office): State<Shared>,
    Extension(mut principal): Extension<Principal>,
    Path(what): Path<String>,
    headers: HeaderMap,
    sent: Result<Form<Sent>, FormRejection>,
) -> Result<Response, Trouble> {
    let sent = read(sent)?;
    check_form(&principal, &sent.word)?;
    let session = links::decoded(&sent.session).unwrap_or_default();
    let why = Some(sent.why.trim()).filter(|why| !flyball::is_blank(why));
    let act = match what.as_str() {
        "approve" => Act::Approve { ticket: sent.ticket.clone() },
        "deny" => Act::Deny,
        "release" => {
            let guard = guard(&sent).filter(|guard| guard != "human");
            Act::Release { guard, mode: "grant".to_owned(), n: Some(MORE) }
        }
        "lift" => Act::LiftStop,
        "stop" => Act::Stop,
        "say" => Act::Say { text: sent.text.trim().to_owned() },
        _ => {
            let what = "there is no such act";
            let advice = "go back to the page, load it again, and try again";
            return Err(Problem::new(StatusCode::NOT_FOUND, "no_such_path", what, advice).into());
        }
    };
    if act.needs_proof() && !proof::is_fresh(&principal) {
        let cookie = login_cookie(&headers).unwrap_or_default();
        if !proof::taken(&office, &mut principal, cookie, sent.secret.trim()).await? {
            return Ok(proof::ask(&principal, &what, &sent));
        }
    }
    office.tickets.used(&sent.ticket);
    let key = Some(sent.key.as_str()).filter(|key| !key.is_empty());
    let decision = acts::act(&office, &principal, &session, act, why, key).await?;
    Ok(Redirect::to(&back(&sent.back, &session, &outcome(&what, &decision))).into_response())
}

/// The guard that is released; without it, the one that holds the session.
fn guard(sent: &Sent) -> Option<String> {
    links::decoded(&sent.guard).filter(|guard| !guard.is_empty())
}

fn back(to: &str, session: &str, outcome: &str) -> String {
    match to {
        "inbox" => format!("/?{outcome}&in={}", links::encoded(session)),
        _ => links::session_with(session, outcome),
    }
}

/// What came of it, as an address carries it: words of ours, and the reason of a guard.
fn outcome(what: &str, decision: &Decision) -> String {
    let effect = |name: &str| decision.effects.iter().any(|effect| effect.effect == name);
    let held = matches!(decision.state, Status::Blocked | Status::Halted);
    let stopped = decision.trips.iter().any(|trip| trip.guard == "human");
    let did = match what {
        "approve" if effect("plan.approved") => "approved",
        "deny" if effect("plan.rejected") => "denied",
        "release" if stopped && decision.decision < Verdict::Block => "still_stopped",
        "release" if !held && effect("budget.raised") => return raised(decision),
        "release" if !held => "released",
        "lift" if !held => "lifted",
        "lift" if decision.decision < Verdict::Block => "still_held",
        "stop" => "stopped",
        "say" => "said",
        _ => "refused",
    };
    let reason = decision.trips.first().map(|trip| links::encoded(&trip.reason));
    match reason.filter(|_| did == "refused") {
        Some(reason) => format!("did={did}&reason={reason}"),
        None => format!("did={did}"),
    }
}

/// The budget that a release has raised: its name and by how much, as an address carries it.
fn raised(decision: &Decision) -> String {
    let found = decision.effects.iter().find(|effect| effect.effect == "budget.raised");
    let field = |name: &str| found.and_then(|effect| effect.fields.get(name));
    let granted = field("granted").and_then(serde_json::Value::as_u64).unwrap_or_default();
    let name = field("name").and_then(serde_json::Value::as_str).unwrap_or_default();
    format!("did=raised&granted={granted}&budget={}", links::encoded(name))
}

impl Did {
    /// What a release of a budget has granted, in its unit.
    fn granted(&self) -> Option<String> {
        flyball::granted_amount(self.budget.as_deref()?, self.granted.as_deref()?.parse().ok()?)
    }

    /// The notice for a page, if something was done.
    pub(super) fn notice(&self) -> Option<Markup> {
        let words = match self.did.as_deref()? {
            "approved" => "Approved. The plan runs once.",
            "denied" => "Denied. Nothing of the plan runs.",
            "released" => "Released: it may go on, within bounds.",
            "raised" => "Released: the session may continue.",
            "still_stopped" => {
                "Released. A person has stopped the session: it continues when the stop is lifted."
            }
            "lifted" => "The stop is lifted: it may go on.",
            "still_held" => "The stop is lifted. A guard still holds the session: release it to continue.",
            "stopped" => "Stopped, until a person lifts the stop.",
            "said" => "Said.",
            "refused" => "That was not accepted; it stands as it was.",
            _ => return None,
        };
        let why = self.reason.as_deref().and_then(meaning);
        Some(html! {
            (words)
            @if let Some(granted) = self.granted() { " Granted: " (granted) "." }
            @if let Some(why) = why { " " (why) }
            @if let Some(session) = &self.r#in {
                " " a.untrusted href=(links::session(session)) { (line(session, 60)) }
            }
        })
    }
}

/// The form of a need: one field for the reason, one button for each thing that can be done.
///
/// # Errors
/// If there is no randomness to be had.
pub(super) fn form(need: &Need, principal: &Principal, back: &str) -> Result<Markup, Problem> {
    let id = links::key(&need.session);
    let word = if let Via::Login { word, .. } = &principal.via { word.as_str() } else { "" };
    // Without the script each act proves itself.
    let secret =
        matches!(principal.via, Via::Login { scripted: false, .. }) && !matches!(need.what, What::Nothing);
    let key = format!("page-{}", random()?.get(..24).unwrap_or_default());
    Ok(html! {
        form.act method="post" action="/act/none" {
            // Enter in the field must not press the first button that comes along.
            button type="submit" disabled hidden aria-hidden="true" {}
            input type="hidden" name="word" value=(word);
            input type="hidden" name="session" value=(links::encoded(&need.session));
            input type="hidden" name="key" value=(key);
            input type="hidden" name="back" value=(back);
            @if secret { (proof::field(&id)) }
            (fields(need, &id))
        }
    })
}

fn fields(need: &Need, id: &str) -> Markup {
    let why = format!("why-{id}");
    html! {
        @match &need.what {
            What::Question { .. } => {
                label for=(format!("text-{id}")) { "Your answer" }
                input.reason #{"text-" (id)} type="text" name="text" maxlength="2000" required autocomplete="off";
                div.buttons {
                    button.main type="submit" formaction="/act/say" data-key="a" { "Answer" }
                }
            }
            What::Plan { ticket, .. } => {
                label for=(why) { "Reason" }
                input.reason #(why) type="text" name="why" maxlength="500" required autocomplete="off" placeholder="why you decide so";
                div.buttons {
                    @if let Ok(ticket) = ticket {
                        input type="hidden" name="ticket" value=(ticket);
                        button.main type="submit" formaction="/act/approve" formnovalidate data-key="a" { "Approve" }
                    }
                    button type="submit" formaction="/act/deny" formnovalidate data-key="d" { "Deny" }
                    button.grave type="submit" formaction="/act/stop" data-key="s" { "Stop" }
                }
            }
            What::Held { guard, stops, .. } => {
                input type="hidden" name="guard" value=(links::encoded(guard));
                label for=(why) { "Reason" }
                input.reason #(why) type="text" name="why" maxlength="500" required autocomplete="off" placeholder="why it may go on, or must not";
                div.buttons {
                    @if guard != "human" {
                        button.main type="submit" formaction="/act/release" data-key="r" {
                            @if guard == "budget" { "Raise the budget" } @else { "Release " (MORE) " more" }
                        }
                    }
                    @if !stops.is_empty() {
                        button.untrusted type="submit" formaction="/act/lift" data-key="l" { "Lift the stop (" (line(&stops.join("; "), 200)) ")" }
                    }
                    button.grave type="submit" formaction="/act/stop" data-key="s" { "Stop" }
                }
            }
            What::Nothing => {
                label for=(why) { "Reason" }
                input.reason #(why) type="text" name="why" maxlength="500" required autocomplete="off" placeholder="why it must stop";
                div.buttons { button.grave type="submit" formaction="/act/stop" data-key="s" { "Stop" } }
            }
        }
    }
}

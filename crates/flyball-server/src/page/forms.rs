//! Operator actions from forms. Every form needs the CSRF token of its login.

use super::links;
use super::pending_action::{PendingAction, PendingActionKind};
use super::proof;
use super::security_headers::PageError;
use super::text::single_line;
use crate::api_error::ApiError;
use crate::app_state::SharedState;
use crate::auth::{AuthMethod, Principal, check_csrf_token, login_cookie, random_token};
use crate::operator_actions::{self, OperatorAction};
use axum::Form;
use axum::extract::rejection::FormRejection;
use axum::extract::{Extension, Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Redirect, Response};
use flyball::{Decision, SessionPhase, Verdict};
use flyball_view::explanations::explain_reason;
use maud::{Markup, html};
use serde::Deserialize;

/// Number of attempts that the Release button grants.
const RELEASE_COUNT: u64 = 3;

/// Fields of an action form.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ActionForm {
    pub(super) csrf_token: String,
    /// The session name, encoded so that no browser normalizes it.
    pub(super) session: String,
    /// Idempotency key against double clicks.
    pub(super) key: String,
    pub(super) ticket: String,
    /// The released guard, encoded, as shown on the page, so that a second click is the same action.
    pub(super) guard: String,
    pub(super) why: String,
    pub(super) text: String,
    /// Page to return to: `inbox`, or else the session page.
    pub(super) back: String,
    /// The user's key, entered again.
    pub(super) secret: String,
}

/// The result of the last action, carried in the query string.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ActionNotice {
    did: Option<String>,
    r#in: Option<String>,
    reason: Option<String>,
    granted: Option<String>,
    budget: Option<String>,
}

/// Parses a submitted form.
///
/// # Errors
/// If it is malformed.
pub(super) fn parse_form<T>(sent: Result<Form<T>, FormRejection>) -> Result<T, ApiError> {
    sent.map(|Form(sent)| sent).map_err(|_| {
        let message = "the form is malformed";
        ApiError::new(StatusCode::BAD_REQUEST, "bad_form", message, "reload the page and try again")
    })
}

/// Handles an action form.
pub(super) async fn submit(
    State(app): State<SharedState>,
    Extension(mut principal): Extension<Principal>,
    Path(action): Path<String>,
    headers: HeaderMap,
    sent: Result<Form<ActionForm>, FormRejection>,
) -> Result<Response, PageError> {
    let sent = parse_form(sent)?;
    check_csrf_token(&principal, &sent.csrf_token)?;
    let session = links::decoded(&sent.session).unwrap_or_default();
    let why = Some(sent.why.trim()).filter(|why| !flyball::is_blank(why));
    let act = match action.as_str() {
        "approve" => OperatorAction::Approve { ticket: sent.ticket.clone() },
        "deny" => OperatorAction::Deny,
        "release" => {
            let guard = released_guard(&sent).filter(|guard| guard != "human");
            OperatorAction::Release { guard, mode: "grant".to_owned(), n: Some(RELEASE_COUNT) }
        }
        "lift" => OperatorAction::LiftStop,
        "stop" => OperatorAction::Stop,
        "say" => OperatorAction::Message { text: sent.text.trim().to_owned() },
        _ => {
            let message = "unknown action";
            let help = "reload the page and try again";
            return Err(ApiError::new(StatusCode::NOT_FOUND, "no_such_path", message, help).into());
        }
    };
    if act.needs_proof() && !proof::is_fresh(&principal) {
        let cookie = login_cookie(&headers).unwrap_or_default();
        if !proof::verify(&app, &mut principal, cookie, sent.secret.trim()).await? {
            return Ok(proof::proof_page(&principal, &action, &sent));
        }
    }
    app.tickets.forget(&sent.ticket);
    let key = Some(sent.key.as_str()).filter(|key| !key.is_empty());
    let decision = operator_actions::run_action(&app, &principal, &session, act, why, key).await?;
    Ok(Redirect::to(&return_path(&sent.back, &session, &outcome_query(&action, &decision))).into_response())
}

/// The guard to release; by default the one that holds the session.
fn released_guard(sent: &ActionForm) -> Option<String> {
    links::decoded(&sent.guard).filter(|guard| !guard.is_empty())
}

fn return_path(to: &str, session: &str, outcome: &str) -> String {
    match to {
        "inbox" => format!("/?{outcome}&in={}", links::encoded(session)),
        _ => links::session_path_with(session, outcome),
    }
}

/// The result of an action as a query string: fixed keywords and the guard's reason.
fn outcome_query(action: &str, decision: &Decision) -> String {
    let effect = |name: &str| decision.effects.iter().any(|effect| effect.effect == name);
    let held = matches!(decision.state, SessionPhase::Blocked | SessionPhase::Halted);
    let stopped = decision.trips.iter().any(|trip| trip.guard == "human");
    let did = match action {
        "approve" if effect("plan.approved") => "approved",
        "deny" if effect("plan.rejected") => "denied",
        "release" if stopped && decision.decision < Verdict::Block => "still_stopped",
        "release" if !held && effect("budget.raised") => return raised_budget_query(decision),
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

/// The budget that a release raised and its amount, as a query string.
fn raised_budget_query(decision: &Decision) -> String {
    let found = decision.effects.iter().find(|effect| effect.effect == "budget.raised");
    let field = |name: &str| found.and_then(|effect| effect.fields.get(name));
    let granted = field("granted").and_then(serde_json::Value::as_u64).unwrap_or_default();
    let name = field("name").and_then(serde_json::Value::as_str).unwrap_or_default();
    format!("did=raised&granted={granted}&budget={}", links::encoded(name))
}

impl ActionNotice {
    /// The amount that a budget release granted, with its unit.
    fn granted_text(&self) -> Option<String> {
        flyball::granted_amount(self.budget.as_deref()?, self.granted.as_deref()?.parse().ok()?)
    }

    /// The notice for a page, if there is a result to show.
    pub(super) fn notice(&self) -> Option<Markup> {
        let text = match self.did.as_deref()? {
            "approved" => "Approved. The plan can run once.",
            "denied" => "Denied. The plan will not run.",
            "released" => "Released. The session can continue within its limits.",
            "raised" => "Released. The session can continue.",
            "still_stopped" => {
                "Released. The session is still stopped by an operator; lift the stop to continue."
            }
            "lifted" => "Stop lifted. The session can continue.",
            "still_held" => "Stop lifted. A guard still holds the session; release it to continue.",
            "stopped" => "Stopped until an operator lifts the stop.",
            "said" => "Message sent.",
            "refused" => "Not accepted. The session is unchanged.",
            _ => return None,
        };
        let why = self.reason.as_deref().and_then(explain_reason);
        Some(html! {
            (text)
            @if let Some(granted) = self.granted_text() { " Granted: " (granted) "." }
            @if let Some(why) = why { " " (why) }
            @if let Some(session) = &self.r#in {
                " " a.untrusted href=(links::session_path(session)) { (single_line(session, 60)) }
            }
        })
    }
}

/// The form of a pending action: one reason field and a button per action.
///
/// # Errors
/// If no randomness is available.
pub(super) fn action_form(
    need: &PendingAction,
    principal: &Principal,
    back: &str,
) -> Result<Markup, ApiError> {
    let id = links::dom_id(&need.session);
    let csrf_token =
        if let AuthMethod::Login { csrf_token, .. } = &principal.via { csrf_token.as_str() } else { "" };
    // Without the script, each action needs the key.
    let secret = matches!(principal.via, AuthMethod::Login { scripted: false, .. })
        && !matches!(need.kind, PendingActionKind::Nothing);
    let key = format!("page-{}", random_token()?.get(..24).unwrap_or_default());
    Ok(html! {
        form.act method="post" action="/act/none" {
            // Pressing Enter in the field must not trigger the first button.
            button type="submit" disabled hidden aria-hidden="true" {}
            input type="hidden" name="csrf_token" value=(csrf_token);
            input type="hidden" name="session" value=(links::encoded(&need.session));
            input type="hidden" name="key" value=(key);
            input type="hidden" name="back" value=(back);
            @if secret { (proof::key_field(&id)) }
            (fields(need, &id))
        }
    })
}

fn fields(need: &PendingAction, id: &str) -> Markup {
    let why = format!("why-{id}");
    html! {
        @match &need.kind {
            PendingActionKind::Question { .. } => {
                label for=(format!("text-{id}")) { "Your answer" }
                input.reason #{"text-" (id)} type="text" name="text" maxlength="2000" required autocomplete="off";
                div.buttons {
                    button.main type="submit" formaction="/act/say" data-key="a" { "Answer" }
                }
            }
            PendingActionKind::Plan { ticket, .. } => {
                label for=(why) { "Reason" }
                input.reason #(why) type="text" name="why" maxlength="500" required autocomplete="off" placeholder="why you approve or deny it";
                div.buttons {
                    @if let Ok(ticket) = ticket {
                        input type="hidden" name="ticket" value=(ticket);
                        button.main type="submit" formaction="/act/approve" formnovalidate data-key="a" { "Approve" }
                    }
                    button type="submit" formaction="/act/deny" formnovalidate data-key="d" { "Deny" }
                    button.grave type="submit" formaction="/act/stop" data-key="s" { "Stop" }
                }
            }
            PendingActionKind::Held { guard, stops, .. } => {
                input type="hidden" name="guard" value=(links::encoded(guard));
                label for=(why) { "Reason" }
                input.reason #(why) type="text" name="why" maxlength="500" required autocomplete="off" placeholder="why it may continue or must stop";
                div.buttons {
                    @if guard != "human" {
                        button.main type="submit" formaction="/act/release" data-key="r" {
                            @if guard == "budget" { "Raise the budget" } @else { "Release " (RELEASE_COUNT) " more" }
                        }
                    }
                    @if !stops.is_empty() {
                        button.untrusted type="submit" formaction="/act/lift" data-key="l" { "Lift the stop (" (single_line(&stops.join("; "), 200)) ")" }
                    }
                    button.grave type="submit" formaction="/act/stop" data-key="s" { "Stop" }
                }
            }
            PendingActionKind::Nothing => {
                label for=(why) { "Reason" }
                input.reason #(why) type="text" name="why" maxlength="500" required autocomplete="off" placeholder="why it must stop";
                div.buttons { button.grave type="submit" formaction="/act/stop" data-key="s" { "Stop" } }
            }
        }
    }
}

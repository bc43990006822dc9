//! Proof of presence before actions that let an agent continue: the user enters their key again.
//!
//! A login with the page script counts as proof for a while. Without the script, each action needs the key, because
//! the cookie alone is enough to read the pages of such a login.

use super::forms::ActionForm;
use super::layout::{PageLayout, render_page};
use super::links;
use super::text::single_line;
use crate::api_error::ApiError;
use crate::app_state::SharedState;
use crate::auth::{AuthMethod, Principal};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use maud::{Markup, html};

/// Whether the user has proven their identity recently.
pub(super) fn is_fresh(principal: &Principal) -> bool {
    !matches!(principal.via, AuthMethod::Login { proven: false, .. })
}

/// Verifies a proof sent with an action.
///
/// # Errors
/// If it cannot be checked.
pub(super) async fn verify(
    app: &SharedState,
    principal: &mut Principal,
    cookie: String,
    secret: &str,
) -> Result<bool, ApiError> {
    if secret.is_empty() {
        return Ok(false);
    }
    let secret = secret.to_owned();
    let right = app.run_blocking(move |app| app.keys.prove(&cookie, &secret)).await?;
    if let AuthMethod::Login { proven, .. } = &mut principal.via {
        *proven = right;
    }
    Ok(right)
}

/// The input field for the key.
pub(super) fn key_field(id: &str) -> Markup {
    let id = format!("secret-{id}");
    html! {
        label for=(id) { "Your key" }
        input.secret #(id) type="password" name="secret" autocomplete="current-password" placeholder="flyball_operator_…";
    }
}

/// The page that asks for the key. It carries the submitted fields, so that the action runs once the key is correct.
pub(super) fn proof_page(principal: &Principal, action: &str, sent: &ActionForm) -> Response {
    let kept = [
        ("csrf_token", &sent.csrf_token),
        ("session", &sent.session),
        ("key", &sent.key),
        ("ticket", &sent.ticket),
        ("guard", &sent.guard),
        ("why", &sent.why),
        ("text", &sent.text),
        ("back", &sent.back),
    ];
    let (title, button) = match action {
        "approve" => ("Confirm the approval", "Approve"),
        "release" => ("Confirm the release", "Release"),
        _ => ("Confirm your answer", "Answer"),
    };
    let session = links::decoded(&sent.session).unwrap_or_default();
    let body = html! {
        section.card.login {
            h1 { (title) }
            p { "Session " span.untrusted { (single_line(&session, 120)) } ". Enter your key to confirm your identity." }
            @if !sent.secret.trim().is_empty() { p.wrong role="alert" { "This is not the key you logged in with." } }
            form method="post" action=(format!("/act/{action}")) {
                @for (name, value) in kept { input type="hidden" name=(name) value=(value); }
                (key_field("again"))
                button.main type="submit" { (button) }
            }
            p.soft {
                "Logged in with a one-time link? " a href="/login" { "Log in with a key" } ", or restart the server "
                "for a new link and paste the part after " code { "link=" } "."
            }
            p { a.button href="/" { "Back to the inbox" } }
        }
    };
    let frame = PageLayout { title, principal: Some(principal), ..PageLayout::default() };
    (StatusCode::FORBIDDEN, render_page(&frame, body)).into_response()
}

//! A fresh proof before an act that lets an agent continue: the person enters their key again.
//!
//! A login of the page script counts as proof for a while. Without the script each act needs the key, because the pages
//! of such a login can be read with the cookie alone.

use super::forms::Sent;
use super::links;
use super::shell::{Frame, page};
use super::text::line;
use crate::office::Shared;
use crate::problem::Problem;
use crate::who::{Principal, Via};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use maud::{Markup, html};

/// Whether the person behind a request has proven who they are a short while ago.
pub(super) fn is_fresh(principal: &Principal) -> bool {
    !matches!(principal.via, Via::Login { proven: false, .. })
}

/// Takes a proof that was sent along with an act.
///
/// # Errors
/// If it cannot be checked.
pub(super) async fn taken(
    office: &Shared,
    principal: &mut Principal,
    cookie: String,
    secret: &str,
) -> Result<bool, Problem> {
    if secret.is_empty() {
        return Ok(false);
    }
    let secret = secret.to_owned();
    let right = office.look(move |office| office.keys.prove(&cookie, &secret)).await?;
    if let Via::Login { proven, .. } = &mut principal.via {
        *proven = right;
    }
    Ok(right)
}

/// The field for the key.
pub(super) fn field(id: &str) -> Markup {
    let id = format!("secret-{id}");
    html! {
        label for=(id) { "Your key" }
        input.secret #(id) type="password" name="secret" autocomplete="current-password" placeholder="flyball_operator_…";
    }
}

/// The page that asks for the key, with everything that was sent, so that the act is done once the key is right.
pub(super) fn ask(principal: &Principal, what: &str, sent: &Sent) -> Response {
    let kept = [
        ("word", &sent.word),
        ("session", &sent.session),
        ("key", &sent.key),
        ("ticket", &sent.ticket),
        ("guard", &sent.guard),
        ("why", &sent.why),
        ("text", &sent.text),
        ("back", &sent.back),
    ];
    let (title, button) = match what {
        "approve" => ("Confirm the approval", "Approve"),
        "release" => ("Confirm the release", "Release"),
        _ => ("Confirm your answer", "Answer"),
    };
    let session = links::decoded(&sent.session).unwrap_or_default();
    let body = html! {
        section.card.login {
            h1 { (title) }
            p { "Session " span.untrusted { (line(&session, 120)) } ". Enter your key to confirm that it is you." }
            @if !sent.secret.trim().is_empty() { p.wrong role="alert" { "This is not the key of this login." } }
            form method="post" action=(format!("/act/{what}")) {
                @for (name, value) in kept { input type="hidden" name=(name) value=(value); }
                (field("again"))
                button.main type="submit" { (button) }
            }
            p.soft {
                "Logged in with a one-time link? " a href="/login" { "Log in with a key" } ", or start the server again "
                "for a new link and paste the part after " code { "link=" } "."
            }
            p { a.button href="/" { "Back to the inbox" } }
        }
    };
    let frame = Frame { title, who: Some(principal), ..Frame::default() };
    (StatusCode::FORBIDDEN, page(&frame, body)).into_response()
}

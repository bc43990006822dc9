//! Letting a browser in: with a key, or with the link of the first start.
//!
//! Looking at the link does not use it up, so that a program that looks at links ahead of a person does no harm: only
//! the button does.

use super::forms::{knows_the_word, read};
use super::gate::Trouble;
use super::links::own;
use super::shell::{Frame, page};
use super::text::line;
use crate::office::{Office, Shared};
use crate::problem::Problem;
use crate::who::{COOKIE, Principal, Role, Via, login_cookie};
use axum::Form;
use axum::extract::rejection::FormRejection;
use axum::extract::{Extension, Query, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Redirect, Response};
use maud::{Markup, html};
use serde::Deserialize;

/// What the page is asked with.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Asked {
    link: Option<String>,
    to: Option<String>,
}

/// What the form sends.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Sent {
    secret: String,
    to: Option<String>,
    word: String,
}

/// The page that asks for a key.
pub(super) async fn show(Query(asked): Query<Asked>) -> Response {
    form(StatusCode::OK, &asked, None)
}

fn form(status: StatusCode, asked: &Asked, wrong: Option<&str>) -> Response {
    let to = asked.to.as_deref().and_then(own);
    let body = html! {
        section.card.login {
            h1 { "Log in" }
            @if let Some(wrong) = wrong { p.wrong role="alert" { (wrong) } }
            @match &asked.link {
                Some(link) => { (with_link(link, to)) }
                None => { (with_key(to)) }
            }
            @if let Some(to) = to {
                p.soft { "Logged in already? " a href=(to) { "Go on to the page." } }
            }
        }
    };
    (status, page(&Frame { title: "Log in", ..Frame::default() }, body)).into_response()
}

fn with_link(link: &str, to: Option<&str>) -> Markup {
    html! {
        p { "This link lets one browser in, once." }
        form method="post" action="/login" {
            input type="hidden" name="secret" value=(line(link, 200));
            @if let Some(to) = to { input type="hidden" name="to" value=(to); }
            button.main type="submit" autofocus { "Log in with this link" }
        }
    }
}

fn with_key(to: Option<&str>) -> Markup {
    html! {
        form method="post" action="/login" {
            label for="secret" { "Your key" }
            input #secret type="password" name="secret" required autofocus autocomplete="current-password" placeholder="flyball_operator_…";
            @if let Some(to) = to { input type="hidden" name="to" value=(to); }
            button.main type="submit" { "Log in" }
        }
        p.soft { "No key yet? On the machine of the server: " code { "flyball token create NAME --role operator" } }
    }
}

/// Lets a browser in.
pub(super) async fn enter(
    State(office): State<Shared>,
    headers: HeaderMap,
    sent: Result<Form<Sent>, FormRejection>,
) -> Result<Response, Trouble> {
    let sent = read(sent)?;
    let secret = sent.secret.trim().to_owned();
    let cookie = office.look(move |office| person(office, &secret)).await?;
    let cookie = match cookie {
        Ok(cookie) => cookie,
        Err(wrong) => {
            let asked = Asked { link: None, to: sent.to };
            return Ok(form(StatusCode::UNAUTHORIZED, &asked, Some(wrong)));
        }
    };
    let to = sent.to.as_deref().and_then(own).unwrap_or("/");
    let origin = headers.get(header::ORIGIN).and_then(|origin| origin.to_str().ok());
    let secure = if origin.is_some_and(|origin| origin.starts_with("https://")) { "; Secure" } else { "" };
    let set = format!("{COOKIE}={cookie}; HttpOnly; SameSite=Strict; Path=/{secure}");
    Ok(([(header::SET_COOKIE, set)], Redirect::to(to)).into_response())
}

/// The cookie of a new login, or what is wrong with the key.
fn person(office: &Office, secret: &str) -> Result<Result<String, &'static str>, Problem> {
    let Some(cookie) = office.keys.log_in(secret)? else {
        return Ok(Err("This key or link is not known, was used before, or is too old."));
    };
    let role = office.keys.login(&cookie)?.map(|(key, _)| key.role);
    if role.is_none_or(|role| role < Role::Operator) {
        office.keys.log_out(&cookie)?;
        return Ok(Err("This is the key of an agent. The pages are for people."));
    }
    Ok(Ok(cookie))
}

/// Ends a login.
pub(super) async fn leave(
    State(office): State<Shared>,
    Extension(principal): Extension<Principal>,
    headers: HeaderMap,
    sent: Result<Form<Sent>, FormRejection>,
) -> Result<Response, Trouble> {
    let sent = read(sent)?;
    knows_the_word(&principal, &sent.word)?;
    if let (Via::Login { .. }, Some(cookie)) = (&principal.via, login_cookie(&headers)) {
        office.look(move |office| office.keys.log_out(&cookie)).await?;
    }
    let gone = format!("{COOKIE}=; HttpOnly; SameSite=Strict; Path=/; Max-Age=0");
    Ok(([(header::SET_COOKIE, gone)], Redirect::to("/login")).into_response())
}

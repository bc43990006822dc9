//! Letting a browser in: with a key, or with the link of the first start.
//!
//! Looking at the link does not use it up, so that a program that looks at links ahead of a person does no harm: only
//! the button does.

use super::forms::read;
use super::gate::Trouble;
use super::links::own;
use super::shell::{Frame, page};
use super::text::line;
use crate::office::{Office, Shared};
use crate::problem::Problem;
use crate::who::{NewLogin, Principal, Role, Via, check_form, cookie_name, login_cookie};
use axum::extract::rejection::FormRejection;
use axum::extract::{Extension, Query, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Redirect, Response};
use axum::{Form, Json};
use maud::{Markup, html};
use serde::Deserialize;
use serde_json::json;

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
    /// `1` if the page script sends the form: it keeps the CSRF token then.
    script: String,
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
    let scripted = sent.script == "1";
    let login = office.look(move |office| person(office, &secret, scripted)).await?;
    let login = match login {
        Ok(login) => login,
        Err(wrong) => {
            let asked = Asked { link: None, to: sent.to };
            return Ok(form(StatusCode::UNAUTHORIZED, &asked, Some(wrong)));
        }
    };
    let to = sent.to.as_deref().and_then(own).unwrap_or("/");
    let cookie = (header::SET_COOKIE, set_cookie(&office, &headers, &login.cookie, ""));
    if scripted {
        // The token is in the body, which only the page of this origin can read.
        return Ok(([cookie], Json(json!({"csrf_token": login.csrf_token, "to": to}))).into_response());
    }
    Ok(([cookie], Redirect::to(to)).into_response())
}

/// The login cookie as it is set. With TLS, also that of a proxy, it is bound to the exact host.
fn set_cookie(office: &Office, headers: &HeaderMap, value: &str, more: &str) -> String {
    let origin = headers.get(header::ORIGIN).and_then(|origin| origin.to_str().ok());
    let secure = office.tls || origin.is_some_and(|origin| origin.starts_with("https://"));
    let mark = if secure { "; Secure" } else { "" };
    format!("{}={value}; HttpOnly; SameSite=Strict; Path=/{more}{mark}", cookie_name(headers, secure))
}

/// A new login, or what is wrong with the key.
fn person(office: &Office, secret: &str, scripted: bool) -> Result<Result<NewLogin, &'static str>, Problem> {
    let Some(login) = office.keys.log_in(secret, scripted)? else {
        return Ok(Err("This key or link is not known, was used before, or is too old."));
    };
    let role = office.keys.login(&login.cookie)?.map(|login| login.key.role);
    if role.is_none_or(|role| role < Role::Operator) {
        office.keys.log_out(&login.cookie)?;
        return Ok(Err("This is the key of an agent. The pages are for people."));
    }
    Ok(Ok(login))
}

/// Ends a login.
pub(super) async fn leave(
    State(office): State<Shared>,
    Extension(principal): Extension<Principal>,
    headers: HeaderMap,
    sent: Result<Form<Sent>, FormRejection>,
) -> Result<Response, Trouble> {
    let sent = read(sent)?;
    check_form(&principal, &sent.word)?;
    if let (Via::Login { .. }, Some(cookie)) = (&principal.via, login_cookie(&headers)) {
        office.look(move |office| office.keys.log_out(&cookie)).await?;
    }
    let gone = set_cookie(&office, &headers, "", "; Max-Age=0");
    Ok(([(header::SET_COOKIE, gone)], Redirect::to("/login")).into_response())
}

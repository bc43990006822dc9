//! Browser login with a key or with the startup link.
//!
//! Loading the link does not use it up, so link previews and scanners do no harm: only submitting the form does.

use super::forms::parse_form;
use super::layout::{PageLayout, render_page};
use super::links::own_path;
use super::security_headers::PageError;
use super::text::single_line;
use crate::api_error::ApiError;
use crate::app_state::{AppState, SharedState};
use crate::auth::{AuthMethod, AuthRole, NewLogin, Principal, check_csrf_token, cookie_name, login_cookie};
use axum::extract::rejection::FormRejection;
use axum::extract::{Extension, Query, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Redirect, Response};
use axum::{Form, Json};
use maud::{Markup, html};
use serde::Deserialize;
use serde_json::json;

/// Query of the page.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct LoginPageQuery {
    link: Option<String>,
    to: Option<String>,
}

/// Fields of the form.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct LoginForm {
    secret: String,
    to: Option<String>,
    csrf_token: String,
    /// `1` if the page script submits the form; it then holds the CSRF token.
    script: String,
}

/// Renders the login page.
pub(super) async fn show(Query(asked): Query<LoginPageQuery>) -> Response {
    form(StatusCode::OK, &asked, None)
}

fn form(status: StatusCode, asked: &LoginPageQuery, wrong: Option<&str>) -> Response {
    let to = asked.to.as_deref().and_then(own_path);
    let body = html! {
        section.card.login {
            h1 { "Log in" }
            @if let Some(wrong) = wrong { p.wrong role="alert" { (wrong) } }
            @match &asked.link {
                Some(link) => { (with_link(link, to)) }
                None => { (with_key(to)) }
            }
            @if let Some(to) = to {
                p.soft { "Already logged in? " a href=(to) { "Continue to the page." } }
            }
        }
    };
    (status, render_page(&PageLayout { title: "Log in", ..PageLayout::default() }, body)).into_response()
}

fn with_link(link: &str, to: Option<&str>) -> Markup {
    html! {
        p { "This link logs in one browser, once." }
        form method="post" action="/login" {
            input type="hidden" name="secret" value=(single_line(link, 200));
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
        p.soft { "No key yet? On the server, run " code { "flyball token create NAME --role operator" } }
    }
}

/// Logs a browser in.
pub(super) async fn log_in(
    State(app): State<SharedState>,
    headers: HeaderMap,
    sent: Result<Form<LoginForm>, FormRejection>,
) -> Result<Response, PageError> {
    let sent = parse_form(sent)?;
    let secret = sent.secret.trim().to_owned();
    let scripted = sent.script == "1";
    let login = app.run_blocking(move |app| log_in_person(app, &secret, scripted)).await?;
    let login = match login {
        Ok(login) => login,
        Err(wrong) => {
            let asked = LoginPageQuery { link: None, to: sent.to };
            return Ok(form(StatusCode::UNAUTHORIZED, &asked, Some(wrong)));
        }
    };
    let to = sent.to.as_deref().and_then(own_path).unwrap_or("/");
    let cookie = (header::SET_COOKIE, set_cookie(&app, &headers, &login.cookie, ""));
    if scripted {
        // Only pages of this origin can read the token in the body.
        return Ok(([cookie], Json(json!({"csrf_token": login.csrf_token, "to": to}))).into_response());
    }
    Ok(([cookie], Redirect::to(to)).into_response())
}

/// The `Set-Cookie` header. With TLS, including a proxy's, the cookie is bound to the exact host.
fn set_cookie(app: &AppState, headers: &HeaderMap, value: &str, more: &str) -> String {
    let origin = headers.get(header::ORIGIN).and_then(|origin| origin.to_str().ok());
    let secure = app.tls || origin.is_some_and(|origin| origin.starts_with("https://"));
    let mark = if secure { "; Secure" } else { "" };
    format!("{}={value}; HttpOnly; SameSite=Strict; Path=/{more}{mark}", cookie_name(headers, secure))
}

/// Creates a login, or says why the key is not accepted.
fn log_in_person(
    app: &AppState,
    secret: &str,
    scripted: bool,
) -> Result<Result<NewLogin, &'static str>, ApiError> {
    let Some(login) = app.keys.log_in(secret, scripted)? else {
        return Ok(Err("This key or link is unknown, was already used, or has expired."));
    };
    let role = app.keys.login(&login.cookie)?.map(|login| login.key.role);
    if role.is_none_or(|role| role < AuthRole::Operator) {
        app.keys.log_out(&login.cookie)?;
        return Ok(Err("This is an agent's key. Log in with an operator's key."));
    }
    Ok(Ok(login))
}

/// Ends a login.
pub(super) async fn log_out(
    State(app): State<SharedState>,
    Extension(principal): Extension<Principal>,
    headers: HeaderMap,
    sent: Result<Form<LoginForm>, FormRejection>,
) -> Result<Response, PageError> {
    let sent = parse_form(sent)?;
    check_csrf_token(&principal, &sent.csrf_token)?;
    if let (AuthMethod::Login { .. }, Some(cookie)) = (&principal.via, login_cookie(&headers)) {
        app.run_blocking(move |app| app.keys.log_out(&cookie)).await?;
    }
    let expired = set_cookie(&app, &headers, "", "; Max-Age=0");
    Ok(([(header::SET_COOKIE, expired)], Redirect::to("/login")).into_response())
}

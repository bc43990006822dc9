//! Requests of browsers that are logged in: a cookie, and a CSRF token that the browser never sends by itself.
//!
//! Cookies ignore ports, so a browser hands the cookie to any server on another port of the same host, and treats its
//! pages as same-site. Invariant: the cookie alone neither reads nor does anything. The CSRF token is given out once,
//! when a person logs in, and is kept by the page script in the storage of the exact origin (scheme, host and port).
//! Every request of the script carries it in a header; forms carry it in a field; a page that is loaded without it is an
//! empty frame that the script fills. A login without the script can read pages, and each act needs the key.

use super::{Identity, Peer, Principal, Via, foreign};
use crate::office::Shared;
use crate::problem::Problem;
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method, StatusCode, header};

/// The header that carries the CSRF token.
pub(crate) const CSRF_HEADER: &str = "flyball-csrf";
/// The parameter of an address that a page vouches for, such as that of an image.
const SIGNED: &str = "signed";

/// Marks a request with a valid cookie and without the CSRF token.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CookieOnly;

/// The name of the login cookie. Cookies ignore ports, so the port is part of the name: two servers on one host do not
/// log each other's users out.
pub(crate) fn cookie_name(headers: &HeaderMap, secure: bool) -> String {
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let port = host.rsplit_once(':').map(|(_, port)| port);
    let port = port.filter(|port| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()));
    let port = port.map(|port| format!("_{port}")).unwrap_or_default();
    let prefix = if secure { "__Host-" } else { "" };
    format!("{prefix}flyball_login{port}")
}

/// The value of the login cookie.
pub(crate) fn login_cookie(headers: &HeaderMap) -> Option<String> {
    let value = |name: &str| {
        let all = headers.get_all(header::COOKIE).into_iter().filter_map(|value| value.to_str().ok());
        let mut pairs = all.flat_map(|value| value.split(';')).filter_map(|pair| pair.trim().split_once('='));
        pairs.find(|(found, _)| *found == name).map(|(_, value)| value.to_owned())
    };
    headers.get(header::COOKIE)?;
    value(&cookie_name(headers, true)).or_else(|| value(&cookie_name(headers, false)))
}

/// Whether a browser says that the request comes from a page of another origin, also one on another port.
pub(super) fn from_another_origin(headers: &HeaderMap) -> bool {
    let site = headers.get("sec-fetch-site").and_then(|site| site.to_str().ok());
    site.is_some_and(|site| !matches!(site, "same-origin" | "none"))
}

/// Whether the request opens a page, as a link does.
pub(super) fn opens_a_page(method: &Method, headers: &HeaderMap) -> bool {
    is_safe(method) && headers.get("sec-fetch-mode").is_some_and(|mode| mode == "navigate")
}

fn is_safe(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD)
}

/// Who a request with a login cookie is from.
///
/// # Errors
/// If it comes from another origin, or lacks the CSRF token where there is no page to show.
pub(super) async fn identify(
    office: &Shared,
    peer: Peer,
    request: &Parts,
    cookie: String,
) -> Result<Identity, Problem> {
    let safe = is_safe(&request.method);
    if !safe && request.headers.get(header::ORIGIN).is_none() {
        return Err(foreign("a browser names the page that a form comes from, and this request does not"));
    }
    if from_another_origin(&request.headers) {
        // A link on a page of somebody else: the person is asked to continue from a page of ours.
        return Ok(Identity::Unknown);
    }
    // A cookie that is void is as good as none: the page asks to log in again.
    let found = Box::pin(office.look(move |office| office.keys.login(&cookie))).await?;
    let Some(login) = found else { return Ok(Identity::Unknown) };
    let path = request.uri.path();
    let sent = request.headers.get(CSRF_HEADER).and_then(|token| token.to_str().ok());
    let token = sent.map(|sent| equal(sent, &login.csrf_token));
    let vouched = || signed_parameter(request).is_some_and(|sent| equal(sent, &mac(&login.csrf_token, path)));
    let enough = match token {
        Some(right) => right,
        None if is_api(path) => false,
        // A form brings the token in a field, which its handler checks.
        None => !safe || !login.scripted || vouched(),
    };
    if !enough {
        return if is_api(path) { Err(missing_token()) } else { Ok(Identity::CookieOnly) };
    }
    let proven = login.scripted && login.proof_age.is_some_and(|age| age <= office.proof_max_age);
    let via = Via::Login { word: login.csrf_token, scripted: login.scripted, proven };
    Ok(Identity::Known(login.key.into_principal(via, peer)))
}

/// Whether a path is answered for programs, and not with a page.
fn is_api(path: &str) -> bool {
    path.starts_with("/v1/") || path == "/metrics"
}

/// Adds a parameter to an address of ours, so that it can be loaded without a header, for example as an image. Only this
/// address, and only in this login.
pub(crate) fn signed(principal: &Principal, path: &str) -> String {
    match &principal.via {
        Via::Login { word, scripted: true, .. } => format!("{path}?{SIGNED}={}", mac(word, path)),
        _ => path.to_owned(),
    }
}

fn signed_parameter(request: &Parts) -> Option<&str> {
    let query = request.uri.query()?;
    query
        .split('&')
        .filter_map(|pair| pair.split_once('='))
        .find(|(name, _)| *name == SIGNED)
        .map(|(_, mac)| mac)
}

fn mac(token: &str, path: &str) -> String {
    let key = blake3::derive_key("flyball 2026 signed addresses of pages", token.as_bytes());
    blake3::keyed_hash(&key, path.as_bytes()).to_hex().to_string()
}

/// Compares secrets by their hashes, whose comparison takes the same time for all values.
fn equal(sent: &str, known: &str) -> bool {
    !known.is_empty() && blake3::hash(sent.as_bytes()) == blake3::hash(known.as_bytes())
}

/// Refuses a form without the CSRF token of the login.
///
/// # Errors
/// If the token is missing or wrong.
pub(crate) fn check_form(principal: &Principal, sent: &str) -> Result<(), Problem> {
    match &principal.via {
        Via::Login { word, .. } if equal(sent, word) => Ok(()),
        Via::Login { .. } => {
            let what = "the form does not come from a page of this login";
            let advice = "go back to the page, load it again, and try again";
            Err(Problem::new(StatusCode::FORBIDDEN, "form_refused", what, advice))
        }
        // A key is in no browser: nobody but its owner sends it.
        Via::Key | Via::Peer => Ok(()),
    }
}

/// Refuses an act that lets an agent continue, or changes who may do what, unless the person behind a login has entered
/// their key a short while ago. A request with a key proves itself.
///
/// # Errors
/// If there is no fresh proof.
pub(crate) fn check_proof(principal: &Principal) -> Result<(), Problem> {
    match &principal.via {
        Via::Login { proven: false, .. } => {
            let what = "this needs your key again: the last time you entered it is too long ago for this act";
            let advice = "enter your key, or log in again";
            Err(Problem::new(StatusCode::FORBIDDEN, "proof_required", what, advice))
        }
        Via::Login { .. } | Via::Key | Via::Peer => Ok(()),
    }
}

/// The cookie came without the CSRF token.
pub(super) fn missing_token() -> Problem {
    let what = "the request has the cookie of a login and not its CSRF token";
    let advice = "send the token of the login in the header Flyball-CSRF, or use a key";
    Problem::new(StatusCode::FORBIDDEN, "csrf_token_missing", what, advice)
}

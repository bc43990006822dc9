//! Requests of browsers that are logged in: a cookie, and a CSRF token that the browser never sends automatically.
//!
//! Cookies ignore ports, so a browser sends the cookie to any server on another port of the same host and treats its
//! pages as same-site. Invariant: the cookie alone can neither read nor change anything. The CSRF token is issued once,
//! at login, and is kept by the page script in the storage of the exact origin (scheme, host and port).
//! Every script request carries it in a header; forms carry it in a field; a page that is loaded without it is an
//! empty frame that the script fills. A login without the script can read pages, but every action needs the key.

use super::{AuthMethod, ClientPeer, Principal, RequestIdentity, foreign_origin};
use crate::api_error::ApiError;
use crate::app_state::SharedState;
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method, StatusCode, header};

/// The header that carries the CSRF token.
pub(crate) const CSRF_HEADER: &str = "flyball-csrf";
/// Query parameter that carries a signature of the path, for example in an image URL.
const SIGNATURE_PARAMETER: &str = "signed";

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

/// Whether the browser reports a request from another origin, including another port of the same host.
pub(super) fn is_cross_origin(headers: &HeaderMap) -> bool {
    let site = headers.get("sec-fetch-site").and_then(|site| site.to_str().ok());
    site.is_some_and(|site| !matches!(site, "same-origin" | "none"))
}

/// Whether the request is a top-level navigation, such as a followed link.
pub(super) fn is_navigation(method: &Method, headers: &HeaderMap) -> bool {
    is_safe(method) && headers.get("sec-fetch-mode").is_some_and(|mode| mode == "navigate")
}

fn is_safe(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD)
}

/// Identifies the caller of a request with a login cookie.
///
/// # Errors
/// If it comes from another origin, or an API request lacks the CSRF token.
pub(super) async fn identify_login(
    app: &SharedState,
    peer: ClientPeer,
    request: &Parts,
    cookie: String,
) -> Result<RequestIdentity, ApiError> {
    let safe = is_safe(&request.method);
    if !safe && request.headers.get(header::ORIGIN).is_none() {
        return Err(foreign_origin("the request has no Origin header, which browsers send with every form"));
    }
    if is_cross_origin(&request.headers) {
        // Navigation from another site: the user must continue from one of our pages.
        return Ok(RequestIdentity::Unknown);
    }
    // An invalid cookie counts as none: the page shows the login form.
    let found = Box::pin(app.run_blocking(move |app| app.keys.login(&cookie))).await?;
    let Some(login) = found else { return Ok(RequestIdentity::Unknown) };
    let path = request.uri.path();
    let sent = request.headers.get(CSRF_HEADER).and_then(|token| token.to_str().ok());
    let token = sent.map(|sent| secrets_equal(sent, &login.csrf_token));
    let vouched =
        || signed_parameter(request).is_some_and(|sent| secrets_equal(sent, &mac(&login.csrf_token, path)));
    let enough = match token {
        Some(right) => right,
        None if is_api(path) => false,
        // A form carries the token in a field, which its handler checks.
        None => !safe || !login.scripted || vouched(),
    };
    if !enough {
        return if is_api(path) { Err(missing_token()) } else { Ok(RequestIdentity::CookieOnly) };
    }
    let proven = login.scripted && login.proof_age.is_some_and(|age| age <= app.proof_max_age);
    let via = AuthMethod::Login { csrf_token: login.csrf_token, scripted: login.scripted, proven };
    Ok(RequestIdentity::Known(login.key.into_principal(via, peer)))
}

/// Whether a path belongs to the API rather than the dashboard.
fn is_api(path: &str) -> bool {
    path.starts_with("/v1/") || path == "/metrics"
}

/// Signs a path so that it can be loaded without a header, for example as an image. The signature is valid for this
/// path and login only.
pub(crate) fn signed_path(principal: &Principal, path: &str) -> String {
    match &principal.via {
        AuthMethod::Login { csrf_token, scripted: true, .. } => {
            format!("{path}?{SIGNATURE_PARAMETER}={}", mac(csrf_token, path))
        }
        _ => path.to_owned(),
    }
}

fn signed_parameter(request: &Parts) -> Option<&str> {
    let query = request.uri.query()?;
    query
        .split('&')
        .filter_map(|pair| pair.split_once('='))
        .find(|(name, _)| *name == SIGNATURE_PARAMETER)
        .map(|(_, mac)| mac)
}

fn mac(token: &str, path: &str) -> String {
    let key = blake3::derive_key("flyball 2026 signed addresses of pages", token.as_bytes());
    blake3::keyed_hash(&key, path.as_bytes()).to_hex().to_string()
}

/// Compares secrets by their hashes; comparing hashes takes constant time.
fn secrets_equal(sent: &str, known: &str) -> bool {
    !known.is_empty() && blake3::hash(sent.as_bytes()) == blake3::hash(known.as_bytes())
}

/// Rejects a form without the login's CSRF token.
///
/// # Errors
/// If the token is missing or wrong.
pub(crate) fn check_csrf_token(principal: &Principal, sent: &str) -> Result<(), ApiError> {
    match &principal.via {
        AuthMethod::Login { csrf_token, .. } if secrets_equal(sent, csrf_token) => Ok(()),
        AuthMethod::Login { .. } => {
            let message = "the form's CSRF token does not belong to this login";
            let help = "reload the page and try again";
            Err(ApiError::new(StatusCode::FORBIDDEN, "csrf_token_invalid", message, help))
        }
        // Browsers do not send keys automatically, so a request with a key cannot be forged.
        AuthMethod::Key | AuthMethod::Peer => Ok(()),
    }
}

/// Rejects actions that let an agent continue or change permissions, unless the user of a login entered their key
/// recently. A request with a key proves itself.
///
/// # Errors
/// If there is no recent proof.
pub(crate) fn check_proof(principal: &Principal) -> Result<(), ApiError> {
    match &principal.via {
        AuthMethod::Login { proven: false, .. } => {
            let message = "enter your key again: your last entry is too old for this action";
            let help = "enter your key, or log in again";
            Err(ApiError::new(StatusCode::FORBIDDEN, "proof_required", message, help))
        }
        AuthMethod::Login { .. } | AuthMethod::Key | AuthMethod::Peer => Ok(()),
    }
}

/// Error for a login cookie without its CSRF token.
pub(super) fn missing_token() -> ApiError {
    let message = "the request has a login cookie but no CSRF token";
    let help = "send the login's token in the Flyball-CSRF header, or use a key";
    ApiError::new(StatusCode::FORBIDDEN, "csrf_token_missing", message, help)
}

//! Security headers of every response, and the responses for users without access to a page.

use super::layout::{NavSection, PageLayout, render_page};
use super::links::encoded;
use crate::api_error::{ApiError, AttachedError};
use crate::auth::CookieOnly;
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Redirect, Response};
use maud::html;
use std::sync::LazyLock;

/// Only resources of this server may load or run; nothing inline; no framing.
const CSP: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
    connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'";

/// Tells the script that the page is empty because the CSRF token is missing or wrong.
const FRAME_HEADER: HeaderName = HeaderName::from_static("flyball-empty-frame");

/// Default headers of every response. Built once and copied for each response.
static SECURITY_HEADERS: LazyLock<HeaderMap> = LazyLock::new(|| {
    let all = [
        (header::CONTENT_SECURITY_POLICY, CSP),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        // With `no-referrer`, browsers would send `Origin: null` with our own forms.
        (header::REFERRER_POLICY, "same-origin"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
        (header::CACHE_CONTROL, "no-store"),
    ];
    all.into_iter().map(|(name, value)| (name, HeaderValue::from_static(value))).collect()
});

/// Adds the default headers; headers already set take precedence.
pub(crate) fn with_security_headers(mut response: Response) -> Response {
    let own = std::mem::replace(response.headers_mut(), SECURITY_HEADERS.clone());
    let headers = response.headers_mut();
    let mut last = None;
    for (name, value) in own {
        // The iterator names a header only with its first value.
        if let Some(name) = name {
            headers.insert(name.clone(), value);
            last = Some(name);
        } else if let Some(name) = &last {
            headers.append(name, value);
        }
    }
    response
}

/// The response to a request without access: a browser is redirected to the login page, a program gets the error.
pub(crate) fn refusal_response(problem: ApiError, request: &Request) -> Response {
    if !accepts_html(request) {
        return problem.into_response();
    }
    let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
    if is_read && request.extensions().get::<CookieOnly>().is_some() {
        return empty_frame();
    }
    if problem.status == StatusCode::UNAUTHORIZED && matches!(*request.method(), Method::GET | Method::HEAD) {
        let here = request.uri().path_and_query().map_or("/", |path| path.as_str());
        let to = if here == "/" { String::new() } else { format!("?to={}", encoded(here)) };
        return Redirect::to(&format!("/login{to}")).into_response();
    }
    error_page(&problem)
}

/// An empty page for a browser that sent only its cookie. The script loads the content with the CSRF token, which
/// exists only in the storage of this origin.
fn empty_frame() -> Response {
    let body = html! {
        section #opening .card {
            p { "Loading…" }
            noscript {
                p { "You logged in with JavaScript, which is now disabled. " a href="/login" { "Log in without it." } }
            }
        }
    };
    let mut response =
        render_page(&PageLayout { title: "Loading", ..PageLayout::default() }, body).into_response();
    response.headers_mut().insert(FRAME_HEADER, HeaderValue::from_static("1"));
    response
}

/// Whether the client accepts HTML.
pub(super) fn accepts_html(request: &Request) -> bool {
    let accept = request.headers().get(header::ACCEPT).and_then(|value| value.to_str().ok());
    accept.is_some_and(|value| value.contains("text/html"))
}

/// An error as a page.
pub(super) fn error_page(problem: &ApiError) -> Response {
    let body = html! {
        section.card.problem {
            h1 { "Request failed" }
            p.lead.untrusted { (problem.message) "." }
            p { "Next step: " span.untrusted { (problem.help) } "." }
            p.soft { "Error code: " code { (problem.code) } "." }
            p { a.button href="/" { "Back to the inbox" } }
        }
    };
    let frame = PageLayout { title: "Request failed", section: NavSection::None, ..PageLayout::default() };
    let mut response = (problem.status, render_page(&frame, body)).into_response();
    if problem.status == StatusCode::TOO_MANY_REQUESTS {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(problem.retry_after_s));
    }
    response.extensions_mut().insert(AttachedError(problem.clone()));
    response
}

/// An error of a page handler, rendered as a page.
pub(super) struct PageError(ApiError);

impl<P: Into<ApiError>> From<P> for PageError {
    fn from(problem: P) -> Self {
        PageError(problem.into())
    }
}

impl IntoResponse for PageError {
    fn into_response(self) -> Response {
        error_page(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn security_headers_do_not_override_own_headers() {
        let mut plain = Response::new(axum::body::Body::empty());
        plain.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("max-age=60"));
        for cookie in ["a=1", "b=2"] {
            plain.headers_mut().append(header::SET_COOKIE, HeaderValue::from_static(cookie));
        }
        plain.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain"));
        let response = with_security_headers(plain);
        let all = |name: HeaderName| -> Vec<&str> {
            response.headers().get_all(name).iter().filter_map(|value| value.to_str().ok()).collect()
        };
        assert_eq!(all(header::CACHE_CONTROL), ["max-age=60"]);
        assert_eq!(all(header::SET_COOKIE), ["a=1", "b=2"]);
        assert_eq!(all(header::CONTENT_TYPE), ["text/plain"]);
        assert_eq!(all(header::CONTENT_SECURITY_POLICY), [CSP]);
        assert_eq!(response.headers().len(), 10);
    }
}

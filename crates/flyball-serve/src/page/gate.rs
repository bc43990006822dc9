//! What every answer carries so that a browser trusts nothing but us, and what a person is told who may not pass.

use super::links::encoded;
use super::shell::{Frame, Place, page};
use crate::problem::{Problem, Told};
use crate::who::CookieOnly;
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Redirect, Response};
use maud::html;
use std::sync::LazyLock;

/// Only what comes from this server may run, look or be asked; nothing inline; nobody may frame us.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
    connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'";

/// Tells the script that a page has no contents because the CSRF token is missing or wrong.
const FRAME_HEADER: HeaderName = HeaderName::from_static("flyball-empty-frame");

/// What an answer carries that says nothing else. Made once: every answer begins with a copy of it.
static DRESS: LazyLock<HeaderMap> = LazyLock::new(|| {
    let all = [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        // With `no-referrer` a browser would not name our own page as the origin of a form.
        (header::REFERRER_POLICY, "same-origin"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
        (header::CACHE_CONTROL, "no-store"),
    ];
    all.into_iter().map(|(name, value)| (name, HeaderValue::from_static(value))).collect()
});

/// Adds the headers that are not there yet.
pub(crate) fn dressed(mut response: Response) -> Response {
    let own = std::mem::replace(response.headers_mut(), DRESS.clone());
    let headers = response.headers_mut();
    let mut last = None;
    for (name, value) in own {
        // A header with several values names itself once.
        if let Some(name) = name {
            headers.insert(name.clone(), value);
            last = Some(name);
        } else if let Some(name) = &last {
            headers.append(name, value);
        }
    }
    response
}

/// What somebody gets who may not see a page: a browser is sent to log in, a program gets the problem.
pub(crate) fn refused(problem: Problem, request: &Request) -> Response {
    if !from_a_browser(request) {
        return problem.into_response();
    }
    let look = matches!(*request.method(), Method::GET | Method::HEAD);
    if look && request.extensions().get::<CookieOnly>().is_some() {
        return empty_frame();
    }
    if problem.status == StatusCode::UNAUTHORIZED && matches!(*request.method(), Method::GET | Method::HEAD) {
        let here = request.uri().path_and_query().map_or("/", |place| place.as_str());
        let to = if here == "/" { String::new() } else { format!("?to={}", encoded(here)) };
        return Redirect::to(&format!("/login{to}")).into_response();
    }
    told(&problem)
}

/// A page without contents, for a browser that has sent its cookie and nothing else: the script loads the contents with
/// the CSRF token, which is only in the storage of this origin.
fn empty_frame() -> Response {
    let body = html! {
        section #opening .card {
            p { "Opening the page…" }
            noscript {
                p { "You have logged in with JavaScript, which is off now. " a href="/login" { "Log in without it." } }
            }
        }
    };
    let mut response = page(&Frame { title: "Opening", ..Frame::default() }, body).into_response();
    response.headers_mut().insert(FRAME_HEADER, HeaderValue::from_static("1"));
    response
}

/// Whether whoever asks wants to look at it.
pub(super) fn from_a_browser(request: &Request) -> bool {
    let accept = request.headers().get(header::ACCEPT).and_then(|value| value.to_str().ok());
    accept.is_some_and(|value| value.contains("text/html"))
}

/// A problem as a page.
pub(super) fn told(problem: &Problem) -> Response {
    let body = html! {
        section.card.problem {
            h1 { "That did not work" }
            p.lead.untrusted { (problem.what) "." }
            p { "What to do: " span.untrusted { (problem.advice) } "." }
            p.soft { "Code " code { (problem.code) } "." }
            p { a.button href="/" { "Back to the inbox" } }
        }
    };
    let frame = Frame { title: "That did not work", place: Place::None, ..Frame::default() };
    let mut response = (problem.status, page(&frame, body)).into_response();
    if problem.status == StatusCode::TOO_MANY_REQUESTS {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(problem.retry_after));
    }
    response.extensions_mut().insert(Told(problem.clone()));
    response
}

/// What a page answers: itself, or the problem as a page.
pub(super) struct Trouble(Problem);

impl<P: Into<Problem>> From<P> for Trouble {
    fn from(problem: P) -> Self {
        Trouble(problem.into())
    }
}

impl IntoResponse for Trouble {
    fn into_response(self) -> Response {
        told(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_keeps_what_it_says_itself_and_gets_the_rest() {
        let mut plain = Response::new(axum::body::Body::empty());
        plain.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("max-age=60"));
        for cookie in ["a=1", "b=2"] {
            plain.headers_mut().append(header::SET_COOKIE, HeaderValue::from_static(cookie));
        }
        plain.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain"));
        let response = dressed(plain);
        let all = |name: HeaderName| -> Vec<&str> {
            response.headers().get_all(name).iter().filter_map(|value| value.to_str().ok()).collect()
        };
        assert_eq!(all(header::CACHE_CONTROL), ["max-age=60"]);
        assert_eq!(all(header::SET_COOKIE), ["a=1", "b=2"]);
        assert_eq!(all(header::CONTENT_TYPE), ["text/plain"]);
        assert_eq!(all(header::CONTENT_SECURITY_POLICY), [POLICY]);
        assert_eq!(response.headers().len(), 10);
    }
}

//! What every answer carries so that a browser trusts nothing but us, and what a person is told who may not pass.

use super::links::encoded;
use super::shell::{Frame, Place, page};
use crate::problem::Problem;
use axum::extract::Request;
use axum::http::{HeaderName, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Redirect, Response};
use maud::html;

/// Only what comes from this server may run, look or be asked; nothing inline; nobody may frame us.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
    connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'";

/// Adds the headers that are not there yet.
pub(crate) fn dressed(mut response: Response) -> Response {
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
    response.headers_mut().reserve(all.len());
    for (name, value) in all {
        response.headers_mut().entry(name).or_insert(HeaderValue::from_static(value));
    }
    response
}

/// What somebody gets who may not see a page: a browser is sent to log in, a program gets the problem.
pub(crate) fn refused(problem: Problem, request: &Request) -> Response {
    if !from_a_browser(request) {
        return problem.into_response();
    }
    if problem.status == StatusCode::UNAUTHORIZED && matches!(*request.method(), Method::GET | Method::HEAD) {
        let here = request.uri().path_and_query().map_or("/", |place| place.as_str());
        let to = if here == "/" { String::new() } else { format!("?to={}", encoded(here)) };
        return Redirect::to(&format!("/login{to}")).into_response();
    }
    told(&problem)
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
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    }
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

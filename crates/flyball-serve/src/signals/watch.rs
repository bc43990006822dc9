//! Looks at every request on its way out: counts it, and writes a line about it. Never its body, its query or its key.

use super::meters::Asked;
use crate::office::Shared;
use crate::problem::Told;
use crate::who::Principal;
use axum::extract::{MatchedPath, Request, State};
use axum::middleware::Next;
use axum::response::Response;
use std::time::Instant;

/// Who a request came from, on the answer.
#[derive(Debug, Clone)]
struct By(String);

/// Notes on the answer who asked; stands behind the door, where that is known.
pub(crate) async fn name(request: Request, next: Next) -> Response {
    let by = request.extensions().get::<Principal>().map(|principal| By(principal.name.clone()));
    let mut response = next.run(request).await;
    if let Some(by) = by {
        response.extensions_mut().insert(by);
    }
    response
}

/// Counts and tells; stands before the door, so that those who are not let in are counted too.
pub(crate) async fn each(State(office): State<Shared>, request: Request, next: Next) -> Response {
    let began = Instant::now();
    let route = request.extensions().get::<MatchedPath>().map(|path| path.as_str().to_owned());
    let route = route.unwrap_or_else(|| "other".to_owned());
    let method = known(request.method().as_str());
    let response = next.run(request).await;
    let took = began.elapsed();
    let status = response.status().as_u16();
    let by = response.extensions().get::<By>().map(|by| by.0.as_str());
    let code = response.extensions().get::<Told>().map(|told| told.0.code.as_str());
    office.signals.log.request(method, &route, status, took, by, code);
    office.signals.meters.answered(Asked { route, method, status }, took);
    response
}

/// The methods that are told apart.
fn known(method: &str) -> &'static str {
    let all = ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"];
    all.into_iter().find(|known| *known == method).unwrap_or("other")
}

//! Looks at every request on its way out: counts it, and writes a line about it. Never its body, its query or its key.

use super::Signals;
use super::meters::Asked;
use crate::problem::Told;
use axum::extract::{MatchedPath, Request};
use axum::response::Response;
use std::time::Instant;

/// The pattern of a route.
enum Route {
    /// As the router has found it, if it has one.
    Found(Option<MatchedPath>),
    /// It is known beforehand.
    Known(&'static str),
}

/// A request that is not answered yet.
pub(crate) struct Asking {
    began: Instant,
    route: Route,
    method: &'static str,
}

impl Asking {
    /// What is remembered of a request.
    pub(crate) fn of(request: &Request) -> Self {
        let route = Route::Found(request.extensions().get::<MatchedPath>().cloned());
        Asking { began: Instant::now(), route, method: known(request.method().as_str()) }
    }

    /// The same, for a route that is known beforehand.
    pub(crate) fn at(route: &'static str, method: &'static str) -> Self {
        Asking { began: Instant::now(), route: Route::Known(route), method }
    }

    /// It was answered.
    pub(crate) fn answered(self, signals: &Signals, by: Option<&str>, response: &Response) {
        let (took, status) = (self.began.elapsed(), response.status().as_u16());
        let code = response.extensions().get::<Told>().map(|told| told.0.code.as_str());
        let route = match &self.route {
            Route::Found(path) => path.as_ref().map_or("other", MatchedPath::as_str),
            Route::Known(path) => path,
        };
        signals.log.request(self.method, route, status, took, by, code);
        signals.meters.answered(Asked { route: route.to_owned(), method: self.method, status }, took);
    }
}

/// The methods that are told apart.
fn known(method: &str) -> &'static str {
    let all = ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"];
    all.into_iter().find(|known| *known == method).unwrap_or("other")
}

//! Times every request, counts it, and logs it; never its body, query or key.

use super::Telemetry;
use super::server_metrics::RequestLabels;
use crate::api_error::AttachedError;
use axum::extract::{MatchedPath, Request};
use axum::response::Response;
use std::time::Instant;

/// The pattern of a route.
enum RoutePattern {
    /// As matched by the router, if any.
    Found(Option<MatchedPath>),
    /// Known in advance.
    Known(&'static str),
}

/// A request in progress.
pub(crate) struct RequestTimer {
    began: Instant,
    route: RoutePattern,
    method: &'static str,
}

impl RequestTimer {
    /// Starts timing a request.
    pub(crate) fn start(request: &Request) -> Self {
        let route = RoutePattern::Found(request.extensions().get::<MatchedPath>().cloned());
        RequestTimer { began: Instant::now(), route, method: known_method(request.method().as_str()) }
    }

    /// Starts timing a request on a known route.
    pub(crate) fn start_for(route: &'static str, method: &'static str) -> Self {
        RequestTimer { began: Instant::now(), route: RoutePattern::Known(route), method }
    }

    /// Records the response.
    pub(crate) fn finish(self, telemetry: &Telemetry, by: Option<&str>, response: &Response) {
        let (took, status) = (self.began.elapsed(), response.status().as_u16());
        let code = response.extensions().get::<AttachedError>().map(|error| error.0.code.as_str());
        let route = match &self.route {
            RoutePattern::Found(path) => path.as_ref().map_or("other", MatchedPath::as_str),
            RoutePattern::Known(path) => path,
        };
        telemetry.log.request(self.method, route, status, took, by, code);
        telemetry
            .metrics
            .record_request(RequestLabels { route: route.to_owned(), method: self.method, status }, took);
    }
}

/// The method, or `other` for unknown ones.
fn known_method(method: &str) -> &'static str {
    let all = ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"];
    all.into_iter().find(|known| *known == method).unwrap_or("other")
}

//! Routes and the role each one requires. The tests and the OpenAPI document are built from this table.

use crate::api;
use crate::api_error::ApiError;
use crate::app_state::SharedState;
use crate::auth::{self, AuthRole, ClientPeer, Principal, SessionScope};
use crate::http_server::InFlightGuard;
use crate::key_limiter::KeyLimiter;
use crate::openapi_document;
use crate::page;
use crate::telemetry::request_timer::RequestTimer;
use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::MethodRouter;
use std::sync::{Arc, LazyLock};
use tokio::sync::OwnedSemaphorePermit;
use tower::ServiceExt;
use utoipa::openapi::OpenApi;
use utoipa::openapi::path::{Operation, PathItem};
use utoipa::openapi::security::SecurityRequirement;
use utoipa_axum::router::{OpenApiRouter, UtoipaMethodRouter};

/// A route and its access rules.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct RouteInfo {
    /// The path, with parameters in braces.
    pub path: String,
    /// HTTP method.
    pub method: String,
    /// Minimum role; `None` is public.
    pub min_role: Option<AuthRole>,
    /// Whether it covers all sessions of the store, and so rejects keys limited to some sessions.
    pub store_wide: bool,
}

/// Access rules of a route.
#[derive(Debug, Clone, Copy)]
struct RoutePolicy {
    min_role: Option<AuthRole>,
    store_wide: bool,
    /// Accepts a signature instead of a key; the handler verifies it.
    accepts_signature: bool,
}

impl RoutePolicy {
    /// Rejects requests without access.
    fn check(self, request: &Request) -> Result<(), ApiError> {
        let Some(needs) = self.min_role else { return Ok(()) };
        let is_unauthenticated = request.extensions().get::<Principal>().is_none();
        if self.accepts_signature && is_unauthenticated && request.headers().contains_key(SIGNATURE_HEADER) {
            return Ok(());
        }
        auth::require_role(needs, request)?;
        match request.extensions().get::<Principal>().map(|principal| &principal.scope) {
            Some(SessionScope::Prefix(own)) if self.store_wide => {
                let message = format!(
                    "this route covers all sessions, but this key only covers those that start with '{own}'"
                );
                let help = "use a key created without --sessions";
                Err(ApiError::new(StatusCode::FORBIDDEN, "store_wide_key_required", message, help))
            }
            _ => Ok(()),
        }
    }
}

/// HSTS: browsers use TLS for this host name for 30 days.
const HSTS: HeaderValue = HeaderValue::from_static("max-age=2592000");

/// Header with the signature of a body.
pub(crate) const SIGNATURE_HEADER: &str = "x-hub-signature-256";

/// Path and access rules of the events route, which has a fast path.
const EVENTS_PATH: &str = "/v1/events";
const EVENTS_POLICY: RoutePolicy =
    RoutePolicy { min_role: Some(AuthRole::Agent), store_wide: false, accepts_signature: false };

/// The routes under construction.
pub(crate) struct RouterBuilder {
    router: OpenApiRouter<SharedState>,
    pages: Router<SharedState>,
    table: Vec<RouteInfo>,
}

impl RouterBuilder {
    /// Adds an API route, which is part of the OpenAPI document.
    pub(crate) fn api(self, needs: Option<AuthRole>, route: UtoipaMethodRouter<SharedState>) -> Self {
        self.add_route(RoutePolicy { min_role: needs, store_wide: false, accepts_signature: false }, route)
    }

    /// Like [`Self::api`], but a signed body is accepted instead of a key; the handler verifies the signature.
    pub(crate) fn signed(self, needs: Option<AuthRole>, route: UtoipaMethodRouter<SharedState>) -> Self {
        self.add_route(RoutePolicy { min_role: needs, store_wide: false, accepts_signature: true }, route)
    }

    /// Like [`Self::api`], for a route that covers all sessions.
    pub(crate) fn store_wide_api(
        self,
        needs: Option<AuthRole>,
        route: UtoipaMethodRouter<SharedState>,
    ) -> Self {
        self.add_route(RoutePolicy { min_role: needs, store_wide: true, accepts_signature: false }, route)
    }

    fn add_route(mut self, policy: RoutePolicy, route: UtoipaMethodRouter<SharedState>) -> Self {
        let RoutePolicy { min_role: needs, store_wide, .. } = policy;
        let (schemas, mut paths, methods) = route;
        for (path, item) in &mut paths.paths {
            for (method, operation) in operations(item) {
                self.table.push(RouteInfo {
                    path: path.clone(),
                    method: method.to_owned(),
                    min_role: needs,
                    store_wide,
                });
                operation.security =
                    Some(needs.map(|_| SecurityRequirement::new("key", [""; 0])).into_iter().collect());
                openapi_document::add_common_responses(operation, needs);
            }
        }
        self.router = self.router.routes((schemas, paths, with_policy(policy, methods)));
        self
    }

    /// Adds a page, which is part of the route table but not of the OpenAPI document.
    pub(crate) fn page(
        self,
        needs: Option<AuthRole>,
        path: &str,
        methods: &[&str],
        route: MethodRouter<SharedState>,
    ) -> Self {
        self.add_page(
            RoutePolicy { min_role: needs, store_wide: false, accepts_signature: false },
            path,
            methods,
            route,
        )
    }

    /// Like [`Self::page`], for a page that covers all sessions.
    pub(crate) fn store_wide_page(
        self,
        needs: Option<AuthRole>,
        path: &str,
        route: MethodRouter<SharedState>,
    ) -> Self {
        self.add_page(
            RoutePolicy { min_role: needs, store_wide: true, accepts_signature: false },
            path,
            &["GET"],
            route,
        )
    }

    fn add_page(
        mut self,
        policy: RoutePolicy,
        path: &str,
        methods: &[&str],
        route: MethodRouter<SharedState>,
    ) -> Self {
        let RoutePolicy { min_role: needs, store_wide, .. } = policy;
        let route_info = |method: &&str| RouteInfo {
            path: path.to_owned(),
            method: (*method).to_owned(),
            min_role: needs,
            store_wide,
        };
        self.table.extend(methods.iter().map(route_info));
        self.pages = self.pages.route(path, with_page_policy(policy, route));
        self
    }
}

fn with_policy(policy: RoutePolicy, route: MethodRouter<SharedState>) -> MethodRouter<SharedState> {
    if policy.min_role.is_none() {
        return route;
    }
    route.layer(from_fn(move |request: Request, next: Next| async move {
        if let Err(problem) = policy.check(&request) {
            return problem.into_response();
        }
        match acquire_read(&request).await {
            Ok(_held) => next.run(request).await,
            Err(problem) => problem.into_response(),
        }
    }))
}

/// Counts a read against the limit of its key. The future does not hold the request.
fn acquire_read(
    request: &Request,
) -> impl Future<Output = Result<Option<OwnedSemaphorePermit>, ApiError>> + Send + use<> {
    let known = request.extensions();
    let (principal, usage) = (known.get::<Principal>().cloned(), known.get::<Arc<KeyLimiter>>().cloned());
    // A live stream has a separate limit and acquires a permit for each chunk it reads.
    let is_counted = *request.method() == Method::GET && !request.uri().path().ends_with("/live");
    let counted = principal.zip(usage).filter(|_| is_counted);
    async move {
        match counted {
            Some((principal, usage)) => usage.acquire_read(&principal).await,
            None => Ok(None),
        }
    }
}

/// Applies the access rules to a page; refusals are rendered as pages.
fn with_page_policy(policy: RoutePolicy, route: MethodRouter<SharedState>) -> MethodRouter<SharedState> {
    if policy.min_role.is_none() {
        return route;
    }
    route.layer(from_fn(move |request: Request, next: Next| async move {
        match policy.check(&request) {
            Ok(()) => next.run(request).await,
            Err(problem) => page::refusal_response(problem, &request),
        }
    }))
}

fn operations(item: &mut PathItem) -> Vec<(&'static str, &mut Operation)> {
    let all = [
        ("GET", &mut item.get),
        ("POST", &mut item.post),
        ("PUT", &mut item.put),
        ("DELETE", &mut item.delete),
        ("PATCH", &mut item.patch),
    ];
    all.into_iter().filter_map(|(method, operation)| Some((method, operation.as_mut()?))).collect()
}

/// All routes.
fn build_routes() -> RouterBuilder {
    let empty = RouterBuilder { router: OpenApiRouter::new(), pages: Router::new(), table: Vec::new() };
    page::add_pages(api::add_routes(empty))
}

/// The HTTP service that handles every request.
pub(crate) struct HttpService {
    app: SharedState,
    router: Router,
}

impl HttpService {
    /// Builds the router.
    pub(crate) fn new(app: SharedState) -> Self {
        let RouterBuilder { router, pages, .. } = build_routes();
        let (api, _) = router.split_for_parts();
        let routed = |State(app): State<SharedState>, mut request: Request, next: Next| async move {
            request.extensions_mut().insert(Arc::clone(&app.key_limiter));
            let timer = RequestTimer::start(&request);
            handle_request(&app, timer, request, |request| next.run(request)).await
        };
        let router = api
            .merge(pages)
            .fallback(not_found)
            .method_not_allowed_fallback(method_not_allowed)
            .layer(from_fn_with_state(app.clone(), routed))
            .with_state(app.clone());
        HttpService { app, router }
    }

    /// Handles a request. Events arrive by the thousands per second, and routing costs as much as parsing them, so
    /// they bypass the router but pass the same checks.
    pub(crate) async fn handle(&self, request: Request) -> Response {
        if request.method() == Method::POST && request.uri().path() == EVENTS_PATH {
            let timer = RequestTimer::start_for(EVENTS_PATH, "POST");
            return handle_request(&self.app, timer, request, |request| self.fast_path(request)).await;
        }
        match Box::pin(self.router.clone().oneshot(request)).await {
            Ok(response) => response,
        }
    }

    /// Handles an event request without the router.
    async fn fast_path(&self, request: Request) -> Response {
        if let Err(problem) = EVENTS_POLICY.check(&request) {
            return problem.into_response();
        }
        let known = request.extensions();
        let (Some(principal), Some(peer)) =
            (known.get::<Principal>().cloned(), known.get::<ClientPeer>().copied())
        else {
            return ApiError::busy().into_response();
        };
        api::events::handle_events(&self.app, &principal, peer, None, request).await.into_response()
    }
}

/// Processing common to all requests: count, authenticate, handle, add headers, log. One layer, because each has a
/// cost.
async fn handle_request<F: Future<Output = Response>>(
    app: &SharedState,
    timer: RequestTimer,
    request: Request,
    next: impl FnOnce(Request) -> F,
) -> Response {
    let Some(guard) = InFlightGuard::start(Arc::clone(app)) else {
        return ApiError::stopping().into_response();
    };
    let strict = app.tls && has_dns_name(&request);
    let (by, response) = auth::authenticate(app, request, next).await;
    let mut response = page::with_security_headers(response);
    if strict {
        response.headers_mut().insert(header::STRICT_TRANSPORT_SECURITY, HSTS);
    }
    timer.finish(&app.telemetry, by.as_deref(), &response);
    drop(guard);
    response
}

/// Whether the `Host` is a DNS name rather than an IP address or `localhost`, where HSTS would affect other services
/// on other ports.
fn has_dns_name(request: &Request) -> bool {
    let host = request.headers().get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
    let own = name.eq_ignore_ascii_case("localhost") || name.starts_with('[');
    !own && !name.is_empty() && name.parse::<std::net::IpAddr>().is_err()
}

async fn not_found(request: Request) -> Response {
    if let Err(problem) = auth::require_role(AuthRole::Agent, &request) {
        return page::refusal_response(problem, &request);
    }
    let message = "there is nothing at this path";
    let help = "GET /v1/openapi.json lists all paths";
    page::refusal_response(ApiError::new(StatusCode::NOT_FOUND, "no_such_path", message, help), &request)
}

async fn method_not_allowed(request: Request) -> Response {
    if let Err(problem) = auth::require_role(AuthRole::Agent, &request) {
        return problem.into_response();
    }
    let message = format!("{} is not allowed here", request.method());
    ApiError::new(
        StatusCode::METHOD_NOT_ALLOWED,
        "no_such_method",
        message,
        "GET /v1/openapi.json lists all methods",
    )
    .into_response()
}

/// The table of all routes: path, method and role.
#[must_use]
pub fn route_table() -> Vec<RouteInfo> {
    let mut table = build_routes().table;
    table.sort();
    table
}

/// The OpenAPI 3.1 document of the API.
#[must_use]
pub fn openapi() -> OpenApi {
    let (_, document) = build_routes().router.split_for_parts();
    openapi_document::finish_document(document)
}

/// The OpenAPI document as text.
pub(crate) fn openapi_text() -> &'static str {
    static TEXT: LazyLock<String> = LazyLock::new(|| serde_json::to_string(&openapi()).unwrap_or_default());
    &TEXT
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fast_path_policy_matches_the_route_table() {
        let found =
            route_table().into_iter().find(|route| route.path == EVENTS_PATH && route.method == "POST");
        let RoutePolicy { min_role, store_wide, .. } = EVENTS_POLICY;
        assert_eq!(
            found,
            Some(RouteInfo { path: EVENTS_PATH.to_owned(), method: "POST".to_owned(), min_role, store_wide })
        );
    }
}

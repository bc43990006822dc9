//! The routes: each with the role that it needs, in one table that the tests and the document are made from.

use crate::api;
use crate::document;
use crate::office::Shared;
use crate::page;
use crate::problem::Problem;
use crate::serve::Inside;
use crate::signals::watch::Asking;
use crate::usage::Usage;
use crate::who::{self, Peer, Principal, Role, Scope};
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

/// A route and who may use it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Door {
    /// The path, with its variable parts in braces.
    pub path: String,
    /// `GET`, `POST` and so on.
    pub method: String,
    /// The least role; `None` is open to everybody.
    pub needs: Option<Role>,
    /// It tells of all sessions together, so it is shut for a key that is limited to some of them.
    pub whole: bool,
}

/// Whom a route lets in.
#[derive(Debug, Clone, Copy)]
struct Lock {
    needs: Option<Role>,
    whole: bool,
    /// A request without a key may bring a signature instead, which the handler checks.
    signed: bool,
}

impl Lock {
    /// Refuses whoever may not.
    fn check(self, request: &Request) -> Result<(), Problem> {
        let Some(needs) = self.needs else { return Ok(()) };
        let stranger = request.extensions().get::<Principal>().is_none();
        if self.signed && stranger && request.headers().contains_key(SIGNATURE) {
            return Ok(());
        }
        who::allow(needs, request)?;
        match request.extensions().get::<Principal>().map(|principal| &principal.scope) {
            Some(Scope::Prefix(own)) if self.whole => {
                let what =
                    format!("this is about all sessions, and this key is for those that begin with '{own}'");
                let advice = "use a key that is made without --sessions";
                Err(Problem::new(StatusCode::FORBIDDEN, "whole_store", what, advice))
            }
            _ => Ok(()),
        }
    }
}

/// Tells browsers to ask under this name only with TLS, for 30 days.
const STRICT: HeaderValue = HeaderValue::from_static("max-age=2592000");

/// The header with the signature of a body.
pub(crate) const SIGNATURE: &str = "x-hub-signature-256";

/// Where events are sent to, and whom that route lets in.
const EVENTS: &str = "/v1/events";
const TO_EVENTS: Lock = Lock { needs: Some(Role::Agent), whole: false, signed: false };

/// The routes while they are put together.
pub(crate) struct Doors {
    router: OpenApiRouter<Shared>,
    pages: Router<Shared>,
    table: Vec<Door>,
}

impl Doors {
    /// Adds a route of the interface: it stands in the document, with its role.
    pub(crate) fn api(self, needs: Option<Role>, route: UtoipaMethodRouter<Shared>) -> Self {
        self.add(Lock { needs, whole: false, signed: false }, route)
    }

    /// The same for one that whoever signs the body may use without a key; the handler checks the signature.
    pub(crate) fn signed(self, needs: Option<Role>, route: UtoipaMethodRouter<Shared>) -> Self {
        self.add(Lock { needs, whole: false, signed: true }, route)
    }

    /// The same for one that tells of all sessions together, or governs them.
    pub(crate) fn whole(self, needs: Option<Role>, route: UtoipaMethodRouter<Shared>) -> Self {
        self.add(Lock { needs, whole: true, signed: false }, route)
    }

    fn add(mut self, lock: Lock, route: UtoipaMethodRouter<Shared>) -> Self {
        let Lock { needs, whole, .. } = lock;
        let (schemas, mut paths, methods) = route;
        for (path, item) in &mut paths.paths {
            for (method, operation) in operations(item) {
                self.table.push(Door { path: path.clone(), method: method.to_owned(), needs, whole });
                operation.security =
                    Some(needs.map(|_| SecurityRequirement::new("key", [""; 0])).into_iter().collect());
                document::complete(operation, needs);
            }
        }
        self.router = self.router.routes((schemas, paths, guarded(lock, methods)));
        self
    }

    /// Adds a page for people: it stands in the table, and not in the document.
    pub(crate) fn page(
        self,
        needs: Option<Role>,
        path: &str,
        methods: &[&str],
        route: MethodRouter<Shared>,
    ) -> Self {
        self.add_page(Lock { needs, whole: false, signed: false }, path, methods, route)
    }

    /// The same for one that tells of all sessions together.
    pub(crate) fn whole_page(self, needs: Option<Role>, path: &str, route: MethodRouter<Shared>) -> Self {
        self.add_page(Lock { needs, whole: true, signed: false }, path, &["GET"], route)
    }

    fn add_page(mut self, lock: Lock, path: &str, methods: &[&str], route: MethodRouter<Shared>) -> Self {
        let Lock { needs, whole, .. } = lock;
        let door = |method: &&str| Door { path: path.to_owned(), method: (*method).to_owned(), needs, whole };
        self.table.extend(methods.iter().map(door));
        self.pages = self.pages.route(path, guarded_page(lock, route));
        self
    }
}

fn guarded(lock: Lock, route: MethodRouter<Shared>) -> MethodRouter<Shared> {
    if lock.needs.is_none() {
        return route;
    }
    route.layer(from_fn(move |request: Request, next: Next| async move {
        if let Err(problem) = lock.check(&request) {
            return problem.into_response();
        }
        match reads(&request).await {
            Ok(_held) => next.run(request).await,
            Err(problem) => problem.into_response(),
        }
    }))
}

/// Counts a request that reads the store against the limit of its key. The request itself is not kept meanwhile.
fn reads(
    request: &Request,
) -> impl Future<Output = Result<Option<OwnedSemaphorePermit>, Problem>> + Send + use<> {
    let known = request.extensions();
    let (principal, usage) = (known.get::<Principal>().cloned(), known.get::<Arc<Usage>>().cloned());
    // A live stream has a limit of its own, and takes turns with every portion that it reads.
    let is_counted = *request.method() == Method::GET && !request.uri().path().ends_with("/live");
    let counted = principal.zip(usage).filter(|_| is_counted);
    async move {
        match counted {
            Some((principal, usage)) => usage.read(&principal).await,
            None => Ok(None),
        }
    }
}

/// A page is guarded as well, and a browser is told so in a page.
fn guarded_page(lock: Lock, route: MethodRouter<Shared>) -> MethodRouter<Shared> {
    if lock.needs.is_none() {
        return route;
    }
    route.layer(from_fn(move |request: Request, next: Next| async move {
        match lock.check(&request) {
            Ok(()) => next.run(request).await,
            Err(problem) => page::refused(problem, &request),
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
fn all() -> Doors {
    let empty = Doors { router: OpenApiRouter::new(), pages: Router::new(), table: Vec::new() };
    page::add(api::add(empty))
}

/// Where every request comes in.
pub(crate) struct Entrance {
    office: Shared,
    router: Router,
}

impl Entrance {
    /// The entrance of an office.
    pub(crate) fn new(office: Shared) -> Self {
        let Doors { router, pages, .. } = all();
        let (api, _) = router.split_for_parts();
        let routed = |State(office): State<Shared>, mut request: Request, next: Next| async move {
            request.extensions_mut().insert(Arc::clone(&office.usage));
            let asked = Asking::of(&request);
            pass(&office, asked, request, |request| next.run(request)).await
        };
        let router = api
            .merge(pages)
            .fallback(nowhere)
            .method_not_allowed_fallback(not_so)
            .layer(from_fn_with_state(office.clone(), routed))
            .with_state(office.clone());
        Entrance { office, router }
    }

    /// Answers a request. Events come in thousands a second, and finding their route costs as much as reading them:
    /// they go straight to where the router would send them, through the same checks.
    pub(crate) async fn answer(&self, request: Request) -> Response {
        if request.method() == Method::POST && request.uri().path() == EVENTS {
            let asked = Asking::at(EVENTS, "POST");
            return pass(&self.office, asked, request, |request| self.straight(request)).await;
        }
        match Box::pin(self.router.clone().oneshot(request)).await {
            Ok(response) => response,
        }
    }

    /// To the events, as the router leads there.
    async fn straight(&self, request: Request) -> Response {
        if let Err(problem) = TO_EVENTS.check(&request) {
            return problem.into_response();
        }
        let known = request.extensions();
        let (Some(principal), Some(peer)) = (known.get::<Principal>().cloned(), known.get::<Peer>().copied())
        else {
            return Problem::busy().into_response();
        };
        api::events::take(&self.office, &principal, peer, None, request).await.into_response()
    }
}

/// The way of every request: counted, let in, answered, dressed, told. One layer, because each has its price.
async fn pass<F: Future<Output = Response>>(
    office: &Shared,
    asked: Asking,
    request: Request,
    next: impl FnOnce(Request) -> F,
) -> Response {
    let Some(inside) = Inside::enter(Arc::clone(office)) else { return Problem::stopping().into_response() };
    let strict = office.tls && has_a_name(&request);
    let (by, response) = who::let_in(office, request, next).await;
    let mut response = page::dressed(response);
    if strict {
        response.headers_mut().insert(header::STRICT_TRANSPORT_SECURITY, STRICT);
    }
    asked.answered(&office.signals, by.as_deref(), &response);
    drop(inside);
    response
}

/// Whether the server is asked under a name of its own, and not under an address or a name of this machine: what holds
/// for those holds for every port.
fn has_a_name(request: &Request) -> bool {
    let host = request.headers().get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
    let own = name.eq_ignore_ascii_case("localhost") || name.starts_with('[');
    !own && !name.is_empty() && name.parse::<std::net::IpAddr>().is_err()
}

async fn nowhere(request: Request) -> Response {
    if let Err(problem) = who::allow(Role::Agent, &request) {
        return page::refused(problem, &request);
    }
    let what = "there is nothing at this address";
    let advice = "GET /v1/openapi.json has all addresses";
    page::refused(Problem::new(StatusCode::NOT_FOUND, "no_such_path", what, advice), &request)
}

async fn not_so(request: Request) -> Response {
    if let Err(problem) = who::allow(Role::Agent, &request) {
        return problem.into_response();
    }
    let what = format!("{} is not possible here", request.method());
    Problem::new(
        StatusCode::METHOD_NOT_ALLOWED,
        "no_such_method",
        what,
        "GET /v1/openapi.json has all methods",
    )
    .into_response()
}

/// The table of all routes: path, method, and who may.
#[must_use]
pub fn doors() -> Vec<Door> {
    let mut table = all().table;
    table.sort();
    table
}

/// The document that describes the interface, as OpenAPI 3.1.
#[must_use]
pub fn openapi() -> OpenApi {
    let (_, document) = all().router.split_for_parts();
    document::whole(document)
}

/// The document as text.
pub(crate) fn openapi_text() -> &'static str {
    static TEXT: LazyLock<String> = LazyLock::new(|| serde_json::to_string(&openapi()).unwrap_or_default());
    &TEXT
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_straight_way_is_the_one_of_the_table() {
        let found = doors().into_iter().find(|door| door.path == EVENTS && door.method == "POST");
        let Lock { needs, whole, .. } = TO_EVENTS;
        assert_eq!(found, Some(Door { path: EVENTS.to_owned(), method: "POST".to_owned(), needs, whole }));
    }
}

//! Live events as a stream that a browser understands by itself (server-sent events).

use crate::live::{Filter, Listener, cursor};
use crate::office::Shared;
use crate::problem::{Problem, ProblemBody};
use crate::who::Principal;
use axum::body::Body;
use axum::extract::{Extension, Path, Query, State};
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use std::convert::Infallible;

/// Where to begin, and what is wanted.
#[derive(Debug, Default, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct Wanted {
    /// Begin after this place: the `id` of an event, or `0-0` for all that is kept. Without it: from now on. What a
    /// browser sends along when it comes back (`Last-Event-ID`) goes before it.
    after: Option<String>,
    /// Only this session.
    session: Option<String>,
}

/// Every event that is stored, with its decision, in order, whoever stores it.
#[utoipa::path(
    get, path = "/v1/live", tag = "live", params(Wanted),
    responses(
        (status = 200, description = "Events named `decision`: docs/signals.md", body = String, content_type = "text/event-stream"),
        (status = 422, description = "The place is none", body = ProblemBody),
    )
)]
pub(crate) async fn all(
    State(office): State<Shared>,
    Extension(principal): Extension<Principal>,
    Query(wanted): Query<Wanted>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    listen(office, principal, wanted, &headers).await
}

/// The events of one session, with their decisions, in order.
#[utoipa::path(
    get, path = "/v1/sessions/{session}/live", tag = "live",
    params(("session" = String, Path, description = "The name of the session"), Wanted),
    responses(
        (status = 200, description = "Events named `decision`: docs/signals.md", body = String, content_type = "text/event-stream"),
        (status = 403, description = "None of your sessions", body = ProblemBody),
        (status = 404, description = "There is no such session, or another key made it", body = ProblemBody),
        (status = 422, description = "The place is none", body = ProblemBody),
    )
)]
pub(crate) async fn of_session(
    State(office): State<Shared>,
    Extension(principal): Extension<Principal>,
    Path(session): Path<String>,
    Query(wanted): Query<Wanted>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    listen(office, principal, Wanted { session: Some(session), ..wanted }, &headers).await
}

async fn listen(
    office: Shared,
    principal: Principal,
    wanted: Wanted,
    headers: &HeaderMap,
) -> Result<Response, Problem> {
    let last = headers.get("last-event-id").map(|last| last.to_str().unwrap_or_default());
    let after = last.or(wanted.after.as_deref()).map(cursor).transpose()?;
    if let Some(session) = &wanted.session {
        office.may_see(&principal, session).await?;
    }
    let counted = office.usage.listen(&principal)?;
    let reads = office.usage.reads(&principal);
    let filter = Filter { session: wanted.session, who: principal };
    let listener = Listener::new(office, filter, after, reads).await?;
    let pieces = futures_util::stream::unfold((listener, counted), |(mut listener, counted)| async move {
        listener.next().await.map(|piece| (Ok::<_, Infallible>(piece), (listener, counted)))
    });
    let headers = [
        (header::CONTENT_TYPE, "text/event-stream"),
        (header::CACHE_CONTROL, "no-store"),
        // Tells a proxy in front of us to pass pieces on as they come.
        (header::HeaderName::from_static("x-accel-buffering"), "no"),
    ];
    Ok((headers, Body::from_stream(pieces)).into_response())
}

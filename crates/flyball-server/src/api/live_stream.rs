//! Live events as server-sent events.

use crate::api_error::{ApiError, ApiErrorBody};
use crate::app_state::SharedState;
use crate::auth::Principal;
use crate::live::{LiveFilter, LiveListener, parse_cursor};
use axum::body::Body;
use axum::extract::{Extension, Path, Query, State};
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use std::convert::Infallible;

/// Start position and filter.
#[derive(Debug, Default, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct LiveQuery {
    /// Start after this cursor: the `id` of an event, or `0-0` for everything retained. Without it, only new events
    /// are sent. A `Last-Event-ID` header, which browsers send on reconnect, takes precedence.
    after: Option<String>,
    /// Only this session.
    session: Option<String>,
}

/// Streams all stored events with their decisions, in order, including those stored by other processes.
#[utoipa::path(
    get, path = "/v1/live", tag = "live", params(LiveQuery),
    responses(
        (status = 200, description = "Events named `decision`: docs/signals.md", body = String, content_type = "text/event-stream"),
        (status = 422, description = "Invalid cursor", body = ApiErrorBody),
    )
)]
pub(crate) async fn live_events(
    State(app): State<SharedState>,
    Extension(principal): Extension<Principal>,
    Query(query): Query<LiveQuery>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    stream_events(app, principal, query, &headers).await
}

/// Streams the events of one session with their decisions, in order.
#[utoipa::path(
    get, path = "/v1/sessions/{session}/live", tag = "live",
    params(("session" = String, Path, description = "Session name"), LiveQuery),
    responses(
        (status = 200, description = "Events named `decision`: docs/signals.md", body = String, content_type = "text/event-stream"),
        (status = 403, description = "The key does not cover this session", body = ApiErrorBody),
        (status = 404, description = "The session does not exist, or belongs to another key", body = ApiErrorBody),
        (status = 422, description = "Invalid cursor", body = ApiErrorBody),
    )
)]
pub(crate) async fn session_live_events(
    State(app): State<SharedState>,
    Extension(principal): Extension<Principal>,
    Path(session): Path<String>,
    Query(query): Query<LiveQuery>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    stream_events(app, principal, LiveQuery { session: Some(session), ..query }, &headers).await
}

async fn stream_events(
    app: SharedState,
    principal: Principal,
    query: LiveQuery,
    headers: &HeaderMap,
) -> Result<Response, ApiError> {
    let last = headers.get("last-event-id").map(|last| last.to_str().unwrap_or_default());
    let after = last.or(query.after.as_deref()).map(parse_cursor).transpose()?;
    if let Some(session) = &query.session {
        app.require_visible(&principal, session).await?;
    }
    let counted = app.key_limiter.add_listener(&principal)?;
    let reads = app.key_limiter.reads(&principal);
    let filter = LiveFilter { session: query.session, principal };
    let listener = LiveListener::new(app, filter, after, reads).await?;
    let chunks = futures_util::stream::unfold((listener, counted), |(mut listener, counted)| async move {
        listener.next_chunk().await.map(|chunk| (Ok::<_, Infallible>(chunk), (listener, counted)))
    });
    let headers = [
        (header::CONTENT_TYPE, "text/event-stream"),
        (header::CACHE_CONTROL, "no-store"),
        // Disables response buffering in nginx and compatible proxies.
        (header::HeaderName::from_static("x-accel-buffering"), "no"),
    ];
    Ok((headers, Body::from_stream(chunks)).into_response())
}

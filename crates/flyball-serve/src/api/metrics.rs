//! What was counted: over all sessions of the store, and by this server.

use crate::office::Shared;
use crate::problem::Problem;
use crate::signals::{as_json, as_text};
use axum::Json;
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};

/// The counts in the text format of Prometheus.
#[utoipa::path(
    get, path = "/metrics", tag = "metrics",
    responses(
        (status = 200, description = "The text format of Prometheus: docs/signals.md", body = String, content_type = "text/plain"),
    )
)]
pub(crate) async fn text(State(office): State<Shared>) -> Result<Response, Problem> {
    let text = office.look(as_text).await?;
    Ok(([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text).into_response())
}

/// The counts as JSON.
#[utoipa::path(
    get, path = "/v1/metrics", tag = "metrics",
    responses(
        (status = 200, description = "The counts: docs/signals.md", body = serde_json::Value),
    )
)]
pub(crate) async fn json(State(office): State<Shared>) -> Result<Response, Problem> {
    Ok(Json(office.look(as_json).await?).into_response())
}

//! Metrics of the store's sessions and of this server.

use crate::api_error::ApiError;
use crate::app_state::SharedState;
use crate::telemetry::{as_json, as_text};
use axum::Json;
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};

/// Metrics in the Prometheus text format.
#[utoipa::path(
    get, path = "/metrics", tag = "metrics",
    responses(
        (status = 200, description = "Prometheus text format: docs/signals.md", body = String, content_type = "text/plain"),
    )
)]
pub(crate) async fn metrics_text(State(app): State<SharedState>) -> Result<Response, ApiError> {
    let text = app.run_blocking(as_text).await?;
    Ok(([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text).into_response())
}

/// Metrics as JSON.
#[utoipa::path(
    get, path = "/v1/metrics", tag = "metrics",
    responses(
        (status = 200, description = "The metrics: docs/signals.md", body = serde_json::Value),
    )
)]
pub(crate) async fn metrics_json(State(app): State<SharedState>) -> Result<Response, ApiError> {
    Ok(Json(app.run_blocking(as_json).await?).into_response())
}

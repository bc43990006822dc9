//! Liveness and readiness probes.

use crate::app_state::SharedState;
use crate::telemetry::readiness;
use axum::extract::State;
use axum::http::StatusCode;

/// Liveness probe. It does not check the store; `/readyz` does.
#[utoipa::path(get, path = "/healthz", tag = "health", responses((status = 200, description = "The server is running", body = String, content_type = "text/plain")))]
pub(crate) async fn healthz() -> &'static str {
    "ok\n"
}

/// Readiness probe: a value was written to the store and read back within the last second.
#[utoipa::path(get, path = "/readyz", tag = "health", responses(
    (status = 200, description = "Ready", body = String, content_type = "text/plain"),
    (status = 503, description = "Not ready, with an error code", body = String, content_type = "text/plain"),
))]
pub(crate) async fn readyz(State(app): State<SharedState>) -> (StatusCode, String) {
    match readiness::check(&app).await {
        Ok(()) => (StatusCode::OK, "ready\n".to_owned()),
        Err(code) => (StatusCode::SERVICE_UNAVAILABLE, format!("not ready: {code}\n")),
    }
}

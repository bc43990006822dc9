//! Whether the server is there, and whether it can do its work.

use crate::office::Shared;
use crate::signals::health;
use axum::extract::State;
use axum::http::StatusCode;

/// The server is there. Says nothing about the store: `/readyz` does.
#[utoipa::path(get, path = "/healthz", tag = "health", responses((status = 200, description = "The server is there", body = String, content_type = "text/plain")))]
pub(crate) async fn healthz() -> &'static str {
    "ok\n"
}

/// Whether the server can do its work: something was written to the store and read back within the last second.
#[utoipa::path(get, path = "/readyz", tag = "health", responses(
    (status = 200, description = "Ready", body = String, content_type = "text/plain"),
    (status = 503, description = "Not ready, with a code", body = String, content_type = "text/plain"),
))]
pub(crate) async fn readyz(State(office): State<Shared>) -> (StatusCode, String) {
    match health::check(&office).await {
        Ok(()) => (StatusCode::OK, "ready\n".to_owned()),
        Err(code) => (StatusCode::SERVICE_UNAVAILABLE, format!("not ready: {code}\n")),
    }
}

//! Whether the server is there, and whether it can do its work.

/// The server is there. Says nothing about the store: `/readyz` does.
#[utoipa::path(get, path = "/healthz", tag = "health", responses((status = 200, description = "The server is there", body = String, content_type = "text/plain")))]
pub(crate) async fn healthz() -> &'static str {
    "ok\n"
}

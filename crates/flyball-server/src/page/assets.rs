//! Static assets, compiled into the binary.

use crate::api_error::ApiError;
use crate::auth::digest;
use axum::extract::Path;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};

/// Name, type and contents.
const ASSETS: [(&str, &str, &str); 3] = [
    ("style.css", "text/css; charset=utf-8", include_str!("assets/style.css")),
    ("app.js", "text/javascript; charset=utf-8", include_str!("assets/app.js")),
    ("mark.svg", "image/svg+xml", include_str!("assets/mark.svg")),
];

/// Serves an asset, or status 304 if the browser has the current version.
pub(super) async fn serve(Path(name): Path<String>, headers: HeaderMap) -> Result<Response, ApiError> {
    let Some((_, kind, text)) = ASSETS.iter().find(|(known, _, _)| *known == name) else {
        let message = "there is no page at this address";
        return Err(ApiError::new(
            StatusCode::NOT_FOUND,
            "no_such_path",
            message,
            "go to / for the dashboard",
        ));
    };
    let tag = format!("\"{}\"", digest(text).get(..16).unwrap_or_default());
    let kept =
        [(header::CACHE_CONTROL, "public, max-age=0, must-revalidate".to_owned()), (header::ETAG, tag)];
    let known =
        headers.get(header::IF_NONE_MATCH).is_some_and(|known| known.as_bytes() == kept[1].1.as_bytes());
    if known {
        return Ok((StatusCode::NOT_MODIFIED, kept).into_response());
    }
    Ok((kept, [(header::CONTENT_TYPE, *kind)], *text).into_response())
}

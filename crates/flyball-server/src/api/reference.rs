//! The OpenAPI document and a page for every error code.

use super::extract::PathName;
use crate::api_error::ApiError;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};

/// The table of error codes and their meanings.
const ERRORS: &str = include_str!("../../../../docs/errors.md");

/// Returns the OpenAPI 3.1 document of this API.
#[utoipa::path(get, path = "/v1/openapi.json", tag = "about",
    responses((status = 200, description = "The OpenAPI document", body = Object)))]
pub(crate) async fn openapi() -> Response {
    ([(header::CONTENT_TYPE, "application/json")], crate::routes::openapi_text()).into_response()
}

/// Explains an error code.
#[utoipa::path(get, path = "/errors/{code}", tag = "about",
    params(("code" = String, Path, description = "Error code", min_length = 1, max_length = 64)),
    responses((status = 200, description = "The explanation", body = String, content_type = "text/plain")))]
pub(crate) async fn error_page(PathName(code): PathName) -> Result<Response, ApiError> {
    let Some(means) = code_description(&code) else {
        let message = "no error has this code";
        return Err(ApiError::new(
            StatusCode::NOT_FOUND,
            "no_such_path",
            message,
            "docs/errors.md lists all codes",
        ));
    };
    let text = format!("{code}\n\n{means}\n");
    let kind =
        [(header::CONTENT_TYPE, "text/plain; charset=utf-8"), (header::X_CONTENT_TYPE_OPTIONS, "nosniff")];
    Ok((kind, text).into_response())
}

/// The row of an error code in the table.
fn code_description(code: &str) -> Option<String> {
    let name = format!("`{code}`");
    let rows = ERRORS.lines().filter_map(|row| row.strip_prefix("| ")?.strip_suffix(" |")?.split_once(" | "));
    let mut rows = rows.filter(|(codes, _)| codes.split(", ").any(|other| other == name));
    rows.next().map(|(_, means)| means.replace(" | ", "\n"))
}

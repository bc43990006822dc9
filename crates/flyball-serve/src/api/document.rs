//! The document of the interface, and a page for every code of an error.

use super::ask::Name;
use crate::problem::Problem;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};

/// The codes and what they mean, as people read them.
const ERRORS: &str = include_str!("../../../../docs/errors.md");

/// The document that describes this interface, as OpenAPI 3.1.
#[utoipa::path(get, path = "/v1/openapi.json", tag = "about",
    responses((status = 200, description = "The document", body = Object)))]
pub(crate) async fn openapi() -> Response {
    ([(header::CONTENT_TYPE, "application/json")], crate::doors::openapi_text()).into_response()
}

/// What a code of an error means.
#[utoipa::path(get, path = "/errors/{code}", tag = "about",
    params(("code" = String, Path, description = "The code", min_length = 1, max_length = 64)),
    responses((status = 200, description = "What it means", body = String, content_type = "text/plain")))]
pub(crate) async fn error(Name(code): Name) -> Result<Response, Problem> {
    let Some(means) = meaning(&code) else {
        let what = "there is no error with this code";
        return Err(Problem::new(
            StatusCode::NOT_FOUND,
            "no_such_path",
            what,
            "docs/errors.md has all codes",
        ));
    };
    let text = format!("{code}\n\n{means}\n");
    let kind =
        [(header::CONTENT_TYPE, "text/plain; charset=utf-8"), (header::X_CONTENT_TYPE_OPTIONS, "nosniff")];
    Ok((kind, text).into_response())
}

/// What the table of codes says about one.
fn meaning(code: &str) -> Option<String> {
    let name = format!("`{code}`");
    let rows = ERRORS.lines().filter_map(|row| row.strip_prefix("| ")?.strip_suffix(" |")?.split_once(" | "));
    let mut rows = rows.filter(|(codes, _)| codes.split(", ").any(|other| other == name));
    rows.next().map(|(_, means)| means.replace(" | ", "\n"))
}

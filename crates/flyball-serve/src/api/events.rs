//! Events in, decisions out.

use crate::office::Shared;
use crate::problem::{Problem, ProblemBody};
use crate::who::Principal;
use axum::extract::{Extension, State};
use axum::http::header;
use axum::response::{IntoResponse, Response};

/// Decides upon one event.
#[utoipa::path(
    post, path = "/v1/events", tag = "events",
    request_body(content = serde_json::Value, description = "An event: docs/events.md"),
    responses(
        (status = 200, description = "The decision, which is on the disk", body = serde_json::Value),
        (status = 422, description = "The event is wrong", body = ProblemBody),
        (status = 429, description = "Too much to do", body = ProblemBody),
    )
)]
pub(crate) async fn submit(
    State(office): State<Shared>,
    Extension(principal): Extension<Principal>,
    body: String,
) -> Result<Response, Problem> {
    let event = office.read(&body, &principal.name)?;
    principal.may_touch(&event.event.session)?;
    let decision = office.intake.submit_one(event).await?;
    Ok(([(header::CONTENT_TYPE, "application/json")], decision.to_json()).into_response())
}

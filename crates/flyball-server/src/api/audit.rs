//! `GET /v1/audit`: reads the audit log.

use super::extract::{QueryParams, bad_request};
use crate::api_error::ApiError;
use crate::app_state::{AppState, SharedState};
use crate::audit_log::{AUDIT_NAMESPACE, AuditEntry};
use axum::Json;
use axum::extract::State;
use flyball_store::StoreError;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// Default and maximum page size.
const DEFAULT_PAGE: u64 = 100;
const MAX_PAGE: u64 = 1_000;

/// Query of the audit log.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct AuditQuery {
    /// Cursor: the `next` of the previous page. A time in milliseconds since 1970, zero-padded to 16 digits, also
    /// works.
    #[param(max_length = 64)]
    after: Option<String>,
    /// Page size: 100 by default, at most 1000.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u64>,
}

/// A page of the audit log.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct AuditPage {
    /// The entries, oldest first.
    entries: Vec<AuditEntry>,
    /// Cursor for the next page, as `after`; usable later too. Null if the page is empty.
    next: Option<String>,
}

/// Reads the audit log: operator actions, key changes, logins and refused requests, oldest first, kept for 400 days.
#[utoipa::path(get, path = "/v1/audit", tag = "audit", params(AuditQuery),
    responses((status = 200, description = "A page of entries", body = AuditPage)))]
pub(crate) async fn read(
    State(app): State<SharedState>,
    QueryParams(AuditQuery { after, limit }): QueryParams<AuditQuery>,
) -> Result<Json<AuditPage>, ApiError> {
    let limit = limit.unwrap_or(DEFAULT_PAGE);
    if !(1..=MAX_PAGE).contains(&limit) {
        return Err(bad_request("`limit` must be between 1 and 1000"));
    }
    if after.as_ref().is_some_and(|after| after.len() > 64 || after.contains('\0')) {
        return Err(bad_request("`after` must be the `next` of a page"));
    }
    let limit = usize::try_from(limit).unwrap_or_default();
    let read = move |app: &AppState| {
        let notes = app.store().kv_list(AUDIT_NAMESPACE, &after.unwrap_or_default(), limit)?;
        let next = notes.last().map(|note| note.key.clone());
        let entry = |text: &str| {
            serde_json::from_str(text)
                .map_err(|error| StoreError::corrupt(format!("cannot parse an audit log entry: {error}")))
        };
        let entries = notes.iter().map(|note| entry(&note.value)).collect::<Result<_, _>>()?;
        Ok::<_, StoreError>(AuditPage { entries, next })
    };
    app.run_blocking(read).await.map(Json)
}

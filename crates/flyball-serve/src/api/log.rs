//! The audit log, as it is read.

use super::ask::{Query, bad_request};
use crate::audit::{Entry, SHELF};
use crate::office::{Office, Shared};
use crate::problem::Problem;
use axum::Json;
use axum::extract::State;
use flyball_journal::StoreError;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// How many entries are told at once, if nothing is said, and at most.
const PAGE: u64 = 100;
const LARGEST_PAGE: u64 = 1_000;

/// Which entries are wanted.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Wanted {
    /// Where the page before ended: its `next`. A moment in milliseconds since 1970, with zeros in front to 16 digits,
    /// does as well.
    #[param(max_length = 64)]
    after: Option<String>,
    /// How many at once: 100 if nothing is said, at most 1000.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u64>,
}

/// Some entries of the audit log.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct AuditPage {
    /// The entries, oldest first.
    entries: Vec<Entry>,
    /// What to send as `after` to read on, now or later; nothing if there was none.
    next: Option<String>,
}

/// What people did, which keys were made, who logged in and who was refused; oldest first, kept for 400 days.
#[utoipa::path(get, path = "/v1/audit", tag = "audit", params(Wanted),
    responses((status = 200, description = "Some entries", body = AuditPage)))]
pub(crate) async fn read(
    State(office): State<Shared>,
    Query(Wanted { after, limit }): Query<Wanted>,
) -> Result<Json<AuditPage>, Problem> {
    let limit = limit.unwrap_or(PAGE);
    if !(1..=LARGEST_PAGE).contains(&limit) {
        return Err(bad_request("`limit` is a number from 1 to 1000"));
    }
    if after.as_ref().is_some_and(|after| after.len() > 64 || after.contains('\0')) {
        return Err(bad_request("`after` is not the `next` of a page"));
    }
    let limit = usize::try_from(limit).unwrap_or_default();
    let read = move |office: &Office| {
        let notes = office.desk().notes(SHELF, &after.unwrap_or_default(), limit)?;
        let next = notes.last().map(|note| note.key.clone());
        let entry = |text: &str| {
            serde_json::from_str(text).map_err(|error| {
                StoreError::corrupt(format!("an entry of the audit log cannot be read: {error}"))
            })
        };
        let entries = notes.iter().map(|note| entry(&note.text)).collect::<Result<_, _>>()?;
        Ok::<_, StoreError>(AuditPage { entries, next })
    };
    office.look(read).await.map(Json)
}

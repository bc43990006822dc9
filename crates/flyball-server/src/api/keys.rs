//! API keys: create, list and revoke, for admins.

use super::extract::{JsonBody, PathName, bad_request};
use crate::api_error::ApiError;
use crate::app_state::{AppState, SharedState};
use crate::audit_log::AuditEntry;
use crate::auth::{ApiKey, ApiKeyRequest, AuthRole, NewApiKey, Principal, check_proof};
use axum::Json;
use axum::extract::{Extension, State};
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Maximum length of a key name, in characters.
const MAX_NAME_CHARS: usize = 64;

/// Maximum lifetime of a key, in milliseconds: 100 years.
const MAX_TTL_MS: u64 = 3_155_760_000_000;

/// A key in the list.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct KeyListItem {
    /// Short id, used to revoke the key.
    id: String,
    /// The key.
    #[serde(flatten)]
    key: ApiKey,
}

/// The list of keys.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct KeyList {
    /// The valid keys, without their secrets.
    keys: Vec<KeyListItem>,
}

/// Lists the valid keys, without their secrets.
#[utoipa::path(get, path = "/v1/keys", tag = "keys",
    responses((status = 200, description = "The keys", body = KeyList)))]
pub(crate) async fn list(State(app): State<SharedState>) -> Result<Json<KeyList>, ApiError> {
    let keys = app.run_blocking(|app| app.keys.list()).await?;
    Ok(Json(KeyList { keys: keys.into_iter().map(|(id, key)| KeyListItem { id, key }).collect() }))
}

/// The key to create.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CreateKeyBody {
    /// Owner of the key; recorded with every action taken with it.
    #[schema(min_length = 1, max_length = 64, pattern = "^[A-Za-z0-9_.:@-]+$")]
    name: String,
    /// Role of the key.
    role: AuthRole,
    /// Limits the key to sessions whose names start with this prefix.
    #[schema(min_length = 1, max_length = 512)]
    sessions: Option<String>,
    /// Gives access to all sessions. Without this and `sessions`, an agent or host key can access only the sessions
    /// it created.
    #[serde(default)]
    all_sessions: bool,
    /// Lifetime in milliseconds; without it, the key is valid until it is revoked.
    #[schema(minimum = 1, maximum = 3_155_760_000_000_i64)]
    expires_in_ms: Option<u64>,
}

/// Creates a key. The secret is only returned in this response.
#[utoipa::path(post, path = "/v1/keys", tag = "keys",
    request_body(content = CreateKeyBody, example = json!({"name": "build-bot", "role": "agent", "sessions": "build/"})),
    responses((status = 201, description = "The key", body = NewApiKey)))]
pub(crate) async fn create(
    State(app): State<SharedState>,
    Extension(principal): Extension<Principal>,
    JsonBody(CreateKeyBody { name, role, sessions, all_sessions, expires_in_ms }): JsonBody<CreateKeyBody>,
) -> Result<(StatusCode, Json<NewApiKey>), ApiError> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_.:@-".contains(c);
    if name.is_empty() || name.len() > MAX_NAME_CHARS || !name.chars().all(plain) || name.starts_with("uid:")
    {
        let message = "`name` must be 1 to 64 letters, digits or _ . : @ - and must not start with uid:";
        return Err(bad_request(message));
    }
    if sessions.as_ref().is_some_and(|own| own.is_empty() || own.len() > flyball::limits::NAME_BYTES) {
        return Err(bad_request("`sessions` is empty or too long; omit it, or send `all_sessions`"));
    }
    if sessions.is_some() && all_sessions {
        return Err(bad_request("`sessions` and `all_sessions` cannot be combined"));
    }
    if expires_in_ms.is_some_and(|ms| !(1..=MAX_TTL_MS).contains(&ms)) {
        let message =
            "`expires_in_ms` must be between 1 ms and 100 years; omit it for a key that does not expire";
        return Err(bad_request(message));
    }
    check_proof(&principal)?;
    let by = AuditEntry::by(&principal);
    let made = move |app: &AppState| {
        let wanted = ApiKeyRequest { name: &name, role, sessions, all_sessions, ttl_ms: expires_in_ms };
        app.keys.create_as(&by, wanted)
    };
    Ok((StatusCode::CREATED, Json(app.run_blocking(made).await?)))
}

/// Revokes a key and the logins made with it. Every server applies it within two seconds.
#[utoipa::path(delete, path = "/v1/keys/{id}", tag = "keys",
    params(("id" = String, Path, description = "Id of the key, as listed", min_length = 1, max_length = 64)),
    responses((status = 200, description = "The revoked key", body = ApiKey)))]
pub(crate) async fn revoke(
    State(app): State<SharedState>,
    Extension(principal): Extension<Principal>,
    PathName(id): PathName,
) -> Result<Json<ApiKey>, ApiError> {
    check_proof(&principal)?;
    let by = AuditEntry::by(&principal);
    let revoked = app.run_blocking(move |app| app.keys.revoke_as(&by, &id)).await?;
    revoked.map(Json).ok_or_else(|| {
        let message = "there is no key with this id";
        ApiError::new(StatusCode::NOT_FOUND, "no_such_key", message, "GET /v1/keys lists the ids")
    })
}

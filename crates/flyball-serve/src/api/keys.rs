//! Keys: made, listed and taken back by an admin.

use super::ask::{Ask, Name, bad_request};
use crate::audit::Entry;
use crate::office::{Office, Shared};
use crate::problem::Problem;
use crate::who::{Key, KeyRequest, NewKey, Principal, Role, check_proof};
use axum::Json;
use axum::extract::{Extension, State};
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The longest name of a key, in characters.
const NAME: usize = 64;

/// The longest time that a key may be made for, in milliseconds: 100 years.
const LONGEST_MS: u64 = 3_155_760_000_000;

/// A key in a list.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct KeyLine {
    /// The short name under which it can be taken back.
    id: String,
    /// The key.
    #[serde(flatten)]
    key: Key,
}

/// All keys.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct KeyList {
    /// The keys that are valid, without their secrets.
    keys: Vec<KeyLine>,
}

/// The keys that are valid, without their secrets.
#[utoipa::path(get, path = "/v1/keys", tag = "keys",
    responses((status = 200, description = "The keys", body = KeyList)))]
pub(crate) async fn list(State(office): State<Shared>) -> Result<Json<KeyList>, Problem> {
    let keys = office.look(|office| office.keys.list()).await?;
    Ok(Json(KeyList { keys: keys.into_iter().map(|(id, key)| KeyLine { id, key }).collect() }))
}

/// A key to make.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct KeyBody {
    /// Whose it is; recorded with everything that is done with it.
    #[schema(min_length = 1, max_length = 64, pattern = "^[A-Za-z0-9_.:@-]+$")]
    name: String,
    /// What it is good for.
    role: Role,
    /// Only sessions whose names begin with this.
    #[schema(min_length = 1, max_length = 512)]
    sessions: Option<String>,
    /// All sessions. Without it and without `sessions` a key of an agent or a host has those that it made itself.
    #[serde(default)]
    all_sessions: bool,
    /// How long it is good for, in milliseconds; without it, until it is taken back.
    #[schema(minimum = 1, maximum = 3_155_760_000_000_i64)]
    expires_in_ms: Option<u64>,
}

/// Makes a key; its secret is in this answer, and never seen again.
#[utoipa::path(post, path = "/v1/keys", tag = "keys",
    request_body(content = KeyBody, example = json!({"name": "build-bot", "role": "agent", "sessions": "build/"})),
    responses((status = 201, description = "The key", body = NewKey)))]
pub(crate) async fn create(
    State(office): State<Shared>,
    Extension(principal): Extension<Principal>,
    Ask(KeyBody { name, role, sessions, all_sessions, expires_in_ms }): Ask<KeyBody>,
) -> Result<(StatusCode, Json<NewKey>), Problem> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_.:@-".contains(c);
    if name.is_empty() || name.len() > NAME || !name.chars().all(plain) || name.starts_with("uid:") {
        let what = "`name` is 1 to 64 letters, digits or _ . : @ -, and does not begin with uid:";
        return Err(bad_request(what));
    }
    if sessions.as_ref().is_some_and(|own| own.is_empty() || own.len() > flyball::limits::NAME_BYTES) {
        return Err(bad_request("`sessions` is empty or too long; leave it out, or send `all_sessions`"));
    }
    if sessions.is_some() && all_sessions {
        return Err(bad_request(
            "`sessions` limits the key, and `all_sessions` does not; send one of the two",
        ));
    }
    if expires_in_ms.is_some_and(|ms| !(1..=LONGEST_MS).contains(&ms)) {
        let what = "`expires_in_ms` is from 1 to 100 years; leave it out for a key without an end";
        return Err(bad_request(what));
    }
    check_proof(&principal)?;
    let by = Entry::by(&principal);
    let made = move |office: &Office| {
        let wanted = KeyRequest { name: &name, role, sessions, all_sessions, ttl_ms: expires_in_ms };
        office.keys.create_as(&by, wanted)
    };
    Ok((StatusCode::CREATED, Json(office.look(made).await?)))
}

/// Takes a key back, and with it the logins that were made with it. Every server knows within two seconds.
#[utoipa::path(delete, path = "/v1/keys/{id}", tag = "keys",
    params(("id" = String, Path, description = "Its id, as the list shows it", min_length = 1, max_length = 64)),
    responses((status = 200, description = "The key that is no longer valid", body = Key)))]
pub(crate) async fn revoke(
    State(office): State<Shared>,
    Extension(principal): Extension<Principal>,
    Name(id): Name,
) -> Result<Json<Key>, Problem> {
    check_proof(&principal)?;
    let by = Entry::by(&principal);
    let taken = office.look(move |office| office.keys.revoke_as(&by, &id)).await?;
    taken.map(Json).ok_or_else(|| {
        let what = "there is no key with this id";
        Problem::new(StatusCode::NOT_FOUND, "no_such_key", what, "GET /v1/keys has the ids")
    })
}

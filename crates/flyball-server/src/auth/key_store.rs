//! API keys, shown once and stored as digests; and browser logins, which are derived from a key and expire.

use super::{AuthMethod, AuthRole, ClientPeer, Principal, SessionScope};
use crate::audit_log::{self, AuditEntry};
use flyball_store::{AdminStore, KvEntry, Precondition, StoreError, StoreErrorKind};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Prefix of every key, recognizable for people and secret scanners.
pub(crate) const PREFIX: &str = "flyball_";
/// Lifetime of a login, in milliseconds.
const LOGIN_TTL_MS: u64 = 12 * 60 * 60 * 1000;
/// Lifetime of a login link, in milliseconds.
const LINK_TTL_MS: u64 = 10 * 60 * 1000;
/// How long a found key is cached. A revoked key can be used for this long.
const CACHE_TTL: Duration = Duration::from_secs(2);
/// Maximum number of cached keys.
const MAX_CACHED_KEYS: usize = 4_096;
/// Namespaces of keys, logins and links.
const KEYS_NAMESPACE: &str = "keys";
const LOGINS_NAMESPACE: &str = "logins";
const LINKS_NAMESPACE: &str = "links";

/// A stored key, without its secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ApiKey {
    /// Owner of the key; recorded with every action taken with it.
    pub name: String,
    /// Role of the key.
    pub role: AuthRole,
    /// Limits the key to sessions whose names start with this prefix.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sessions: Option<String>,
    /// Gives access to all sessions. Without this and `sessions`, an agent or host key can access only the sessions
    /// it created.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub all_sessions: bool,
    /// Creation time, in milliseconds since 1970.
    pub created: u64,
    /// Expiration time, in milliseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<u64>,
}

/// A key to create.
#[derive(Debug, Clone)]
pub struct ApiKeyRequest<'a> {
    /// Owner of the key.
    pub name: &'a str,
    /// Role of the key.
    pub role: AuthRole,
    /// Limits the key to sessions whose names start with this prefix.
    pub sessions: Option<String>,
    /// Gives access to all sessions, including those of other keys.
    pub all_sessions: bool,
    /// Lifetime in milliseconds.
    pub ttl_ms: Option<u64>,
}

/// A new key. Its secret is never returned again.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct NewApiKey {
    /// The secret, sent as `Authorization: Bearer …`.
    pub secret: String,
    /// Short id, used to revoke the key.
    pub id: String,
    /// The key.
    #[serde(flatten)]
    pub key: ApiKey,
}

impl ApiKey {
    pub(crate) fn into_principal(self, via: AuthMethod, peer: ClientPeer) -> Principal {
        let scope = match self.sessions {
            Some(prefix) => SessionScope::Prefix(prefix),
            None if self.role < AuthRole::Channel && !self.all_sessions => SessionScope::Own,
            None => SessionScope::All,
        };
        Principal { name: self.name, role: self.role, scope, via, from: peer }
    }
}

/// A stored login.
#[derive(Debug, Serialize, Deserialize)]
struct LoginRecord {
    key: ApiKey,
    #[serde(rename = "word")]
    csrf_token: String,
    /// Digest of the key used to log in; the login ends when the key is revoked. `None` for a login by link.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(rename = "of")]
    key_digest: Option<String>,
    /// The page script holds the CSRF token, so the cookie alone grants no access.
    #[serde(default)]
    scripted: bool,
    /// When the user last entered their key, in milliseconds since 1970 by the store's clock.
    #[serde(default)]
    #[serde(rename = "proved")]
    proved_at: u64,
}

/// A new login.
#[derive(Debug)]
pub(crate) struct NewLogin {
    /// Value of the cookie.
    pub(crate) cookie: String,
    /// The CSRF token, which is never in a cookie.
    pub(crate) csrf_token: String,
}

/// A valid login, looked up by its cookie.
#[derive(Debug)]
pub(crate) struct BrowserLogin {
    /// The key used to log in.
    pub(crate) key: ApiKey,
    /// The CSRF token.
    pub(crate) csrf_token: String,
    /// The page script holds the CSRF token, so the cookie alone grants no access.
    pub(crate) scripted: bool,
    /// Time since the user entered their key; `None` if the clock went backwards.
    pub(crate) proof_age: Option<Duration>,
}

/// API keys and logins of a store.
pub struct ApiKeyStore {
    store: Arc<dyn AdminStore>,
    cache: Mutex<BTreeMap<String, (ApiKey, Instant)>>,
}

impl std::fmt::Debug for ApiKeyStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ApiKeyStore").finish_non_exhaustive()
    }
}

impl ApiKeyStore {
    /// Opens the key store.
    #[must_use]
    pub fn new(store: Arc<dyn AdminStore>) -> Self {
        ApiKeyStore { store, cache: Mutex::default() }
    }

    /// Creates a key.
    ///
    /// # Errors
    /// If it cannot be stored, or no randomness is available.
    pub fn create(
        &self,
        name: &str,
        role: AuthRole,
        sessions: Option<String>,
        ttl_ms: Option<u64>,
    ) -> Result<NewApiKey, StoreError> {
        self.create_requested(ApiKeyRequest { name, role, sessions, all_sessions: false, ttl_ms })
    }

    /// Creates a key with all options.
    ///
    /// # Errors
    /// As [`ApiKeyStore::create`].
    pub fn create_requested(&self, wanted: ApiKeyRequest<'_>) -> Result<NewApiKey, StoreError> {
        self.create_as(&command_line_entry(), wanted)
    }

    /// Creates a key on behalf of a caller. The audit entry is written before the key becomes valid.
    ///
    /// # Errors
    /// As [`ApiKeyStore::create`].
    pub(crate) fn create_as(
        &self,
        by: &AuditEntry,
        wanted: ApiKeyRequest<'_>,
    ) -> Result<NewApiKey, StoreError> {
        let ApiKeyRequest { name, role, sessions, all_sessions, ttl_ms } = wanted;
        let created = self.store.now()?;
        let expires = ttl_ms.map(|ttl| created.saturating_add(ttl));
        let key = ApiKey { name: name.to_owned(), role, sessions, all_sessions, created, expires };
        let secret = format!("{PREFIX}{}_{}", role.as_str(), random_token()?);
        let digest = digest(&secret);
        let note = kv_entry(KEYS_NAMESPACE, &digest, &key, expires)?;
        let told = format!("{} ({}, {name})", key_id(&digest), role.as_str());
        audit_log::append(self.store.as_ref(), by.clone().action("key.created").detail(&told))?;
        if !self.store.kv_put(&note, Precondition::Absent)? {
            return Err(StoreError::new(StoreErrorKind::Io, "a key with this secret is there already"));
        }
        Ok(NewApiKey { secret, id: key_id(&digest), key })
    }

    /// All valid keys with their ids.
    ///
    /// # Errors
    /// If they cannot be read.
    pub fn list(&self) -> Result<Vec<(String, ApiKey)>, StoreError> {
        let mut all = Vec::new();
        let mut after = String::new();
        loop {
            let some = self.store.kv_list(KEYS_NAMESPACE, &after, 500)?;
            let Some(last) = some.last() else { break };
            after.clone_from(&last.key);
            for note in &some {
                all.push((key_id(&note.key), parse_entry(note)?));
            }
        }
        Ok(all)
    }

    /// Revokes a key by its id, and the logins made with it. `None` if the id is unknown.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn revoke(&self, id: &str) -> Result<Option<ApiKey>, StoreError> {
        self.revoke_as(&command_line_entry(), id)
    }

    /// Revokes a key on behalf of a caller and writes an audit entry.
    ///
    /// # Errors
    /// As [`ApiKeyStore::revoke`].
    pub(crate) fn revoke_as(&self, by: &AuditEntry, id: &str) -> Result<Option<ApiKey>, StoreError> {
        let mut after = String::new();
        loop {
            let some = self.store.kv_list(KEYS_NAMESPACE, &after, 500)?;
            let Some(last) = some.last() else { return Ok(None) };
            after.clone_from(&last.key);
            if let Some(found) = some.iter().find(|note| key_id(&note.key) == id) {
                let taken = self.store.kv_take(KEYS_NAMESPACE, &found.key)?;
                self.lock().clear();
                let key = taken.as_ref().map(parse_entry::<ApiKey>).transpose()?;
                if let Some(key) = &key {
                    let detail = format!("{id} ({}, {})", key.role.as_str(), key.name);
                    audit_log::append(self.store.as_ref(), by.clone().action("key.revoked").detail(&detail))?;
                }
                return Ok(key);
            }
        }
    }

    /// Finds the key with this secret.
    ///
    /// # Errors
    /// If it cannot be read.
    pub(crate) fn find(&self, secret: &str) -> Result<Option<ApiKey>, StoreError> {
        if !secret.starts_with(PREFIX) {
            return Ok(None);
        }
        // The lookup compares digests, so its timing reveals nothing about the secret.
        self.find_or_load(KEYS_NAMESPACE, &digest(secret), parse_entry::<ApiKey>)
    }

    /// The key with this secret, if it is cached; does not access the store.
    pub(crate) fn cached_lookup(&self, secret: &str) -> Option<ApiKey> {
        let known = self.lock();
        known.get(&digest(secret)).filter(|(_, at)| at.elapsed() < CACHE_TTL).map(|(key, _)| key.clone())
    }

    /// The login that belongs to a cookie.
    ///
    /// # Errors
    /// If it cannot be read.
    pub(crate) fn login(&self, cookie: &str) -> Result<Option<BrowserLogin>, StoreError> {
        let Some(note) = self.store.kv_get(LOGINS_NAMESPACE, &digest(cookie))? else { return Ok(None) };
        let LoginRecord { key, csrf_token, key_digest: of, scripted, proved_at: proved } =
            parse_entry(&note)?;
        // A login is valid only as long as its key.
        let ended = match &of {
            Some(of) => self.find_or_load(KEYS_NAMESPACE, of, parse_entry::<ApiKey>)?.is_none(),
            None => false,
        };
        if ended {
            return Ok(None);
        }
        let proof_age = self.store.now()?.checked_sub(proved).map(Duration::from_millis);
        Ok(Some(BrowserLogin { key, csrf_token, scripted, proof_age }))
    }

    /// Records that the user of a login has just entered their key. For a login by link, another link with the same
    /// name counts. Returns whether the secret was correct.
    ///
    /// # Errors
    /// If it cannot be read or written.
    pub(crate) fn prove(&self, cookie: &str, secret: &str) -> Result<bool, StoreError> {
        let Some(mut note) = self.store.kv_get(LOGINS_NAMESPACE, &digest(cookie))? else { return Ok(false) };
        let mut login: LoginRecord = parse_entry(&note)?;
        let right = match &login.key_digest {
            Some(of) => digest(secret) == *of && self.store.kv_get(KEYS_NAMESPACE, of)?.is_some(),
            None => match self.store.kv_take(LINKS_NAMESPACE, &digest(secret))? {
                Some(link) => parse_entry::<ApiKey>(&link)?.name == login.key.name,
                None => false,
            },
        };
        if right {
            login.proved_at = self.store.now()?;
            note.value = to_json(&login)?;
            self.store.kv_put(&note, Precondition::Any)?;
        }
        let entry =
            AuditEntry { actor: login.key.name.clone(), role: Some(login.key.role), ..AuditEntry::default() };
        let outcome = if right { "right" } else { "wrong" };
        audit_log::append(self.store.as_ref(), entry.action("proof").detail(outcome))?;
        Ok(right)
    }

    /// Logs a browser in with a key or a one-time link. `None` if the secret is neither. `scripted`: the page script
    /// holds the CSRF token.
    ///
    /// # Errors
    /// If the login cannot be stored.
    pub(crate) fn log_in(&self, secret: &str, scripted: bool) -> Result<Option<NewLogin>, StoreError> {
        let (key, of) = match self.find(secret)? {
            Some(key) => (key, Some(digest(secret))),
            None => match self.store.kv_take(LINKS_NAMESPACE, &digest(secret))? {
                Some(note) => (parse_entry(&note)?, None),
                None => return Ok(None),
            },
        };
        let how = if of.is_some() { "with a key" } else { "with the startup link" };
        let entry = AuditEntry { actor: key.name.clone(), role: Some(key.role), ..AuditEntry::default() };
        audit_log::append(self.store.as_ref(), entry.action("login").detail(how))?;
        let (cookie, csrf_token) = (random_token()?, random_token()?);
        let now = self.store.now()?;
        let until = now.saturating_add(LOGIN_TTL_MS);
        let until = Some(key.expires.map_or(until, |ends| ends.min(until)));
        let login =
            LoginRecord { key, csrf_token: csrf_token.clone(), key_digest: of, scripted, proved_at: now };
        self.store
            .kv_put(&kv_entry(LOGINS_NAMESPACE, &digest(&cookie), &login, until)?, Precondition::Absent)?;
        Ok(Some(NewLogin { cookie, csrf_token }))
    }

    /// Ends a login.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(crate) fn log_out(&self, cookie: &str) -> Result<(), StoreError> {
        self.store.kv_take(LOGINS_NAMESPACE, &digest(cookie)).map(|_| ())
    }

    /// Creates a one-time login token for an operator of this name.
    ///
    /// # Errors
    /// If it cannot be stored.
    pub fn create_login_link(&self, name: &str) -> Result<String, StoreError> {
        let now = self.store.now()?;
        let key = ApiKey {
            name: name.to_owned(),
            role: AuthRole::Operator,
            sessions: None,
            all_sessions: false,
            created: now,
            expires: None,
        };
        let token = random_token()?;
        let until = Some(now.saturating_add(LINK_TTL_MS));
        self.store.kv_put(&kv_entry(LINKS_NAMESPACE, &digest(&token), &key, until)?, Precondition::Absent)?;
        Ok(token)
    }

    /// The cached key, or the one in the store.
    fn find_or_load(
        &self,
        shelf: &str,
        digest: &str,
        read: impl FnOnce(&KvEntry) -> Result<ApiKey, StoreError>,
    ) -> Result<Option<ApiKey>, StoreError> {
        if let Some((key, at)) = self.lock().get(digest)
            && at.elapsed() < CACHE_TTL
        {
            return Ok(Some(key.clone()));
        }
        let found = self.store.kv_get(shelf, digest)?.as_ref().map(read).transpose()?;
        let mut known = self.lock();
        known.remove(digest);
        if let Some(key) = &found {
            if known.len() >= MAX_CACHED_KEYS {
                known.clear();
            }
            known.insert(digest.to_owned(), (key.clone(), Instant::now()));
        }
        Ok(found)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, (ApiKey, Instant)>> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Audit entry for keys created on the command line by anyone with write access to the store.
fn command_line_entry() -> AuditEntry {
    let who = "flyball token".to_owned();
    AuditEntry { actor: who, from: "command line".to_owned(), ..AuditEntry::default() }
}

fn kv_entry(
    shelf: &str,
    key: &str,
    value: &impl Serialize,
    until: Option<u64>,
) -> Result<KvEntry, StoreError> {
    Ok(KvEntry {
        namespace: shelf.to_owned(),
        key: key.to_owned(),
        value: to_json(value)?,
        expires_at: until,
    })
}

fn to_json(value: &impl Serialize) -> Result<String, StoreError> {
    serde_json::to_string(value).map_err(|error| StoreError::new(StoreErrorKind::Io, error.to_string()))
}

fn parse_entry<T: for<'a> Deserialize<'a>>(note: &KvEntry) -> Result<T, StoreError> {
    let damaged =
        |error| StoreError::corrupt(format!("a note of '{}' cannot be read: {error}", note.namespace));
    serde_json::from_str(&note.value).map_err(damaged)
}

/// A random 256-bit token.
pub(crate) fn random_token() -> Result<String, StoreError> {
    let mut bytes = [0_u8; 32];
    getrandom::fill(&mut bytes)
        .map_err(|error| StoreError::new(StoreErrorKind::Io, format!("no randomness available: {error}")))?;
    Ok(blake3::Hash::from_bytes(bytes).to_hex().to_string())
}

/// Digest under which a secret is stored.
pub(crate) fn digest(secret: &str) -> String {
    blake3::hash(secret.as_bytes()).to_hex().to_string()
}

fn key_id(digest: &str) -> String {
    digest.get(..12).unwrap_or(digest).to_owned()
}

#[cfg(test)]
#[path = "key_store_tests.rs"]
mod tests;

//! Keys: made once, shown once, kept only as a digest; and logins, which are keys that a browser holds for a while.

use super::{Peer, Principal, Role, Scope, Via};
use crate::audit::{self, Entry};
use flyball_journal::{Desk, If, Note, StoreError, Trouble};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// What every key begins with, so that people and scanners know it when they see it.
pub(crate) const PREFIX: &str = "flyball_";
/// How long a login holds, in milliseconds.
const LOGIN_MS: u64 = 12 * 60 * 60 * 1000;
/// How long the link of a first start holds, in milliseconds.
const LINK_MS: u64 = 10 * 60 * 1000;
/// How long a key that was found is believed without asking the store again. Taking a key back takes as long.
const BELIEVED: Duration = Duration::from_secs(2);
/// How many keys are remembered.
const REMEMBERED: usize = 4_096;
/// Where keys, logins and links are kept.
const KEYS: &str = "keys";
const LOGINS: &str = "logins";
const LINKS: &str = "links";

/// A key as it is kept: not the secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Key {
    /// Whose it is; recorded with everything that is done with it.
    pub name: String,
    /// What it is good for.
    pub role: Role,
    /// Only sessions whose names begin with this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sessions: Option<String>,
    /// All sessions. Without it and without `sessions` a key of an agent or a host has those that it made itself.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub all_sessions: bool,
    /// When it was made, in milliseconds since 1970.
    pub created: u64,
    /// When it ends, in milliseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<u64>,
}

/// A key to make.
#[derive(Debug, Clone)]
pub struct KeyRequest<'a> {
    /// Whose it is.
    pub name: &'a str,
    /// What it is good for.
    pub role: Role,
    /// Only sessions whose names begin with this.
    pub sessions: Option<String>,
    /// All sessions, also those that other keys made.
    pub all_sessions: bool,
    /// How long it is good for, in milliseconds.
    pub ttl_ms: Option<u64>,
}

/// A key that was just made: the only time that its secret is seen.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct NewKey {
    /// What is sent as `Authorization: Bearer …`.
    pub secret: String,
    /// The short name under which it can be taken back.
    pub id: String,
    /// The key.
    #[serde(flatten)]
    pub key: Key,
}

impl Key {
    pub(crate) fn into_principal(self, via: Via, peer: Peer) -> Principal {
        let scope = match self.sessions {
            Some(prefix) => Scope::Prefix(prefix),
            None if self.role < Role::Channel && !self.all_sessions => Scope::Own,
            None => Scope::All,
        };
        Principal { name: self.name, role: self.role, scope, via, from: peer }
    }
}

/// A login as it is kept.
#[derive(Debug, Serialize, Deserialize)]
struct Login {
    key: Key,
    word: String,
    /// The digest of the key that it was made with: it ends when the key is taken back. A link has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    of: Option<String>,
    /// The page script keeps the CSRF token, so the cookie alone opens nothing.
    #[serde(default)]
    scripted: bool,
    /// When the person last entered their key, in milliseconds since 1970 by the store's clock.
    #[serde(default)]
    proved: u64,
}

/// A login that was just made.
#[derive(Debug)]
pub(crate) struct NewLogin {
    /// The value of the cookie.
    pub(crate) cookie: String,
    /// The CSRF token, which is never in a cookie.
    pub(crate) csrf_token: String,
}

/// A login that is valid, as the cookie finds it.
#[derive(Debug)]
pub(crate) struct BrowserLogin {
    /// The key it was made with.
    pub(crate) key: Key,
    /// The CSRF token.
    pub(crate) csrf_token: String,
    /// The page script keeps the CSRF token, so the cookie alone opens nothing.
    pub(crate) scripted: bool,
    /// How long ago the person entered their key; `None` if the clock went backwards since.
    pub(crate) proof_age: Option<Duration>,
}

/// The keys of a store.
pub struct Keys {
    desk: Arc<dyn Desk>,
    found: Mutex<BTreeMap<String, (Key, Instant)>>,
}

impl std::fmt::Debug for Keys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Keys").finish_non_exhaustive()
    }
}

impl Keys {
    /// The keys of a store.
    #[must_use]
    pub fn new(desk: Arc<dyn Desk>) -> Self {
        Keys { desk, found: Mutex::default() }
    }

    /// Makes a key.
    ///
    /// # Errors
    /// If it cannot be kept, or there is no randomness to be had.
    pub fn create(
        &self,
        name: &str,
        role: Role,
        sessions: Option<String>,
        ttl_ms: Option<u64>,
    ) -> Result<NewKey, StoreError> {
        self.create_requested(KeyRequest { name, role, sessions, all_sessions: false, ttl_ms })
    }

    /// Makes a key with everything that can be said about it.
    ///
    /// # Errors
    /// As [`Keys::create`].
    pub fn create_requested(&self, wanted: KeyRequest<'_>) -> Result<NewKey, StoreError> {
        self.create_as(&terminal(), wanted)
    }

    /// Makes a key in somebody's name: it is noted who did, before it is good for anything.
    ///
    /// # Errors
    /// As [`Keys::create`].
    pub(crate) fn create_as(&self, by: &Entry, wanted: KeyRequest<'_>) -> Result<NewKey, StoreError> {
        let KeyRequest { name, role, sessions, all_sessions, ttl_ms } = wanted;
        let created = self.desk.now()?;
        let expires = ttl_ms.map(|ttl| created.saturating_add(ttl));
        let key = Key { name: name.to_owned(), role, sessions, all_sessions, created, expires };
        let secret = format!("{PREFIX}{}_{}", role.as_str(), random()?);
        let digest = digest(&secret);
        let note = note(KEYS, &digest, &key, expires)?;
        let told = format!("{} ({}, {name})", short(&digest), role.as_str());
        audit::put(self.desk.as_ref(), by.clone().doing("key.created").about(&told))?;
        if !self.desk.put(&note, If::New)? {
            return Err(StoreError::new(Trouble::Io, "a key with this secret is there already"));
        }
        Ok(NewKey { secret, id: short(&digest), key })
    }

    /// All keys that are valid, with their short names.
    ///
    /// # Errors
    /// If they cannot be read.
    pub fn list(&self) -> Result<Vec<(String, Key)>, StoreError> {
        let mut all = Vec::new();
        let mut after = String::new();
        loop {
            let some = self.desk.notes(KEYS, &after, 500)?;
            let Some(last) = some.last() else { break };
            after.clone_from(&last.key);
            for note in &some {
                all.push((short(&note.key), read(note)?));
            }
        }
        Ok(all)
    }

    /// Takes a key back by its short name, and with it the logins that were made with it. `None` if there is none.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn revoke(&self, id: &str) -> Result<Option<Key>, StoreError> {
        self.revoke_as(&terminal(), id)
    }

    /// Takes a key back in somebody's name: it is noted who did.
    ///
    /// # Errors
    /// As [`Keys::revoke`].
    pub(crate) fn revoke_as(&self, by: &Entry, id: &str) -> Result<Option<Key>, StoreError> {
        let mut after = String::new();
        loop {
            let some = self.desk.notes(KEYS, &after, 500)?;
            let Some(last) = some.last() else { return Ok(None) };
            after.clone_from(&last.key);
            if let Some(found) = some.iter().find(|note| short(&note.key) == id) {
                let taken = self.desk.take(KEYS, &found.key)?;
                self.lock().clear();
                let key = taken.as_ref().map(read::<Key>).transpose()?;
                if let Some(key) = &key {
                    let told = format!("{id} ({}, {})", key.role.as_str(), key.name);
                    audit::put(self.desk.as_ref(), by.clone().doing("key.revoked").about(&told))?;
                }
                return Ok(key);
            }
        }
    }

    /// The key with a secret.
    ///
    /// # Errors
    /// If it cannot be read.
    pub(crate) fn find(&self, secret: &str) -> Result<Option<Key>, StoreError> {
        if !secret.starts_with(PREFIX) {
            return Ok(None);
        }
        // The digest is what is looked up and compared, so the time that it takes says nothing about the secret.
        self.believed(KEYS, &digest(secret), read::<Key>)
    }

    /// The key with a secret, if it was found a moment ago: nobody has to wait for the store.
    pub(crate) fn believes(&self, secret: &str) -> Option<Key> {
        let known = self.lock();
        known.get(&digest(secret)).filter(|(_, at)| at.elapsed() < BELIEVED).map(|(key, _)| key.clone())
    }

    /// The login that a cookie stands for.
    ///
    /// # Errors
    /// If it cannot be read.
    pub(crate) fn login(&self, cookie: &str) -> Result<Option<BrowserLogin>, StoreError> {
        let Some(note) = self.desk.note(LOGINS, &digest(cookie))? else { return Ok(None) };
        let Login { key, word, of, scripted, proved } = read(&note)?;
        // A login is worth no more than the key that it was made with.
        let ended = match &of {
            Some(of) => self.believed(KEYS, of, read::<Key>)?.is_none(),
            None => false,
        };
        if ended {
            return Ok(None);
        }
        let proof_age = self.desk.now()?.checked_sub(proved).map(Duration::from_millis);
        Ok(Some(BrowserLogin { key, csrf_token: word, scripted, proof_age }))
    }

    /// Records that the person behind a login has just entered their key. A login that was made with a link takes
    /// another link of the same name. Gives whether the secret was right.
    ///
    /// # Errors
    /// If it cannot be read or written.
    pub(crate) fn prove(&self, cookie: &str, secret: &str) -> Result<bool, StoreError> {
        let Some(mut note) = self.desk.note(LOGINS, &digest(cookie))? else { return Ok(false) };
        let mut login: Login = read(&note)?;
        let right = match &login.of {
            Some(of) => digest(secret) == *of && self.desk.note(KEYS, of)?.is_some(),
            None => match self.desk.take(LINKS, &digest(secret))? {
                Some(link) => read::<Key>(&link)?.name == login.key.name,
                None => false,
            },
        };
        if right {
            login.proved = self.desk.now()?;
            note.text = written(&login)?;
            self.desk.put(&note, If::Any)?;
        }
        let entry = Entry { who: login.key.name.clone(), role: Some(login.key.role), ..Entry::default() };
        let outcome = if right { "right" } else { "wrong" };
        audit::put(self.desk.as_ref(), entry.doing("proof").about(outcome))?;
        Ok(right)
    }

    /// Logs a browser in with a key, or with a one-time link. `None` if neither is known. `scripted`: the page script
    /// keeps the CSRF token.
    ///
    /// # Errors
    /// If it cannot be kept.
    pub(crate) fn log_in(&self, secret: &str, scripted: bool) -> Result<Option<NewLogin>, StoreError> {
        let (key, of) = match self.find(secret)? {
            Some(key) => (key, Some(digest(secret))),
            None => match self.desk.take(LINKS, &digest(secret))? {
                Some(note) => (read(&note)?, None),
                None => return Ok(None),
            },
        };
        let how = if of.is_some() { "with a key" } else { "with the link of the start" };
        let entry = Entry { who: key.name.clone(), role: Some(key.role), ..Entry::default() };
        audit::put(self.desk.as_ref(), entry.doing("login").about(how))?;
        let (cookie, csrf_token) = (random()?, random()?);
        let now = self.desk.now()?;
        let until = now.saturating_add(LOGIN_MS);
        let until = Some(key.expires.map_or(until, |ends| ends.min(until)));
        let login = Login { key, word: csrf_token.clone(), of, scripted, proved: now };
        self.desk.put(&note(LOGINS, &digest(&cookie), &login, until)?, If::New)?;
        Ok(Some(NewLogin { cookie, csrf_token }))
    }

    /// Ends a login.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(crate) fn log_out(&self, cookie: &str) -> Result<(), StoreError> {
        self.desk.take(LOGINS, &digest(cookie)).map(|_| ())
    }

    /// A word that lets one browser in, once, as an operator of this name.
    ///
    /// # Errors
    /// If it cannot be kept.
    pub fn link(&self, name: &str) -> Result<String, StoreError> {
        let now = self.desk.now()?;
        let key = Key {
            name: name.to_owned(),
            role: Role::Operator,
            sessions: None,
            all_sessions: false,
            created: now,
            expires: None,
        };
        let word = random()?;
        let until = Some(now.saturating_add(LINK_MS));
        self.desk.put(&note(LINKS, &digest(&word), &key, until)?, If::New)?;
        Ok(word)
    }

    /// What was found a moment ago, else what the store says.
    fn believed(
        &self,
        shelf: &str,
        digest: &str,
        read: impl FnOnce(&Note) -> Result<Key, StoreError>,
    ) -> Result<Option<Key>, StoreError> {
        if let Some((key, at)) = self.lock().get(digest)
            && at.elapsed() < BELIEVED
        {
            return Ok(Some(key.clone()));
        }
        let found = self.desk.note(shelf, digest)?.as_ref().map(read).transpose()?;
        let mut known = self.lock();
        known.remove(digest);
        if let Some(key) = &found {
            if known.len() >= REMEMBERED {
                known.clear();
            }
            known.insert(digest.to_owned(), (key.clone(), Instant::now()));
        }
        Ok(found)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, (Key, Instant)>> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Who makes keys without the server: whoever can write to the store.
fn terminal() -> Entry {
    let who = "flyball token".to_owned();
    Entry { who, from: "command line".to_owned(), ..Entry::default() }
}

fn note(shelf: &str, key: &str, value: &impl Serialize, until: Option<u64>) -> Result<Note, StoreError> {
    Ok(Note { shelf: shelf.to_owned(), key: key.to_owned(), text: written(value)?, until })
}

fn written(value: &impl Serialize) -> Result<String, StoreError> {
    serde_json::to_string(value).map_err(|error| StoreError::new(Trouble::Io, error.to_string()))
}

fn read<T: for<'a> Deserialize<'a>>(note: &Note) -> Result<T, StoreError> {
    let damaged = |error| StoreError::corrupt(format!("a note of '{}' cannot be read: {error}", note.shelf));
    serde_json::from_str(&note.text).map_err(damaged)
}

/// 256 bits that nobody can guess.
pub(crate) fn random() -> Result<String, StoreError> {
    let mut bytes = [0_u8; 32];
    getrandom::fill(&mut bytes)
        .map_err(|error| StoreError::new(Trouble::Io, format!("no randomness: {error}")))?;
    Ok(blake3::Hash::from_bytes(bytes).to_hex().to_string())
}

/// What is kept of a secret.
pub(crate) fn digest(secret: &str) -> String {
    blake3::hash(secret.as_bytes()).to_hex().to_string()
}

fn short(digest: &str) -> String {
    digest.get(..12).unwrap_or(digest).to_owned()
}

#[cfg(test)]
#[path = "keys_tests.rs"]
mod tests;

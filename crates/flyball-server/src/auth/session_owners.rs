//! Session ownership: a session belongs to the key that created it. Keys of agents and hosts can access only their
//! own sessions unless they were created with a wider scope.

use super::{ApiKeyStore, AuthRole, digest};
use flyball_store::{AdminStore, KvEntry, Precondition, SessionFilter, StoreError, StoreErrorKind};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Namespace of the owners.
const OWNERS_NAMESPACE: &str = "owners";
/// Maximum number of cached owners. An owner never changes, so an entry is never stale.
const MAX_CACHED_OWNERS: usize = 65_536;
/// Number of owners read at once.
const PAGE_OWNERS: usize = 500;

/// The sessions that a principal may access.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SessionScope {
    /// All sessions.
    All,
    /// Sessions whose names start with this prefix.
    Prefix(String),
    /// Sessions created with the principal's own key.
    Own,
}

/// A stored owner. Its key is a digest of the session name, which may contain any character.
#[derive(Debug, Serialize, Deserialize)]
struct SessionOwnerRecord {
    session: String,
    key: String,
}

/// Deletes the owners of pruned sessions and returns their number.
///
/// # Errors
/// If the store cannot be read or written.
pub fn prune_owners(store: &dyn AdminStore) -> Result<u64, StoreError> {
    let heads = store.list_sessions(SessionFilter::All, usize::MAX)?;
    let there: BTreeSet<String> = heads.into_iter().map(|head| head.session).collect();
    let (mut after, mut deleted) = (String::new(), 0);
    loop {
        let some = store.kv_list(OWNERS_NAMESPACE, &after, PAGE_OWNERS)?;
        let Some(last) = some.last() else { return Ok(deleted) };
        after.clone_from(&last.key);
        for note in &some {
            let owner = serde_json::from_str::<SessionOwnerRecord>(&note.value);
            if owner.is_ok_and(|owner| !there.contains(&owner.session))
                && store.kv_take(OWNERS_NAMESPACE, &note.key)?.is_some()
            {
                deleted += 1;
            }
        }
    }
}

/// Owners of sessions, with a cache.
pub(crate) struct SessionOwners {
    store: Arc<dyn AdminStore>,
    keys: ApiKeyStore,
    cached: Mutex<BTreeMap<String, String>>,
}

impl SessionOwners {
    /// Opens the owners of a store's sessions.
    pub(crate) fn new(store: Arc<dyn AdminStore>) -> Self {
        let keys = ApiKeyStore::new(Arc::clone(&store));
        SessionOwners { store, keys, cached: Mutex::default() }
    }

    /// Whether a key owns a session, if the cache knows.
    pub(crate) fn cached(&self, session: &str, key: &str) -> Option<bool> {
        self.lock().get(session).map(|owner| owner == key)
    }

    /// The key that owns a session, if any.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub(crate) fn owner_of(&self, session: &str) -> Result<Option<String>, StoreError> {
        let cached = self.lock().get(session).cloned();
        if cached.is_some() {
            return Ok(cached);
        }
        let owner = match self.stored_owner(session)? {
            Some(owner) => Some(owner),
            None => match self.first_sender(session)? {
                Some(name) if self.begins_for_others(&name)? => None,
                other => other,
            },
        };
        if let Some(owner) = &owner {
            self.remember(session, owner);
        }
        Ok(owner)
    }

    /// Whether a key owns a session. A session that is new, or that an operator or channel started for an agent,
    /// becomes the key's; if several keys race, exactly one gets it.
    ///
    /// # Errors
    /// If the store cannot be read or written.
    pub(crate) fn claim(&self, session: &str, key: &str) -> Result<bool, StoreError> {
        if let Some(owner) = self.owner_of(session)? {
            return Ok(owner == key);
        }
        // A session created without a key, by a hook or a run on this machine, has no owner.
        if self.store.load(session)?.is_some() && self.first_sender(session)?.is_none() {
            return Ok(false);
        }
        let owner = SessionOwnerRecord { session: session.to_owned(), key: key.to_owned() };
        let text = serde_json::to_string(&owner)
            .map_err(|error| StoreError::new(StoreErrorKind::Io, error.to_string()))?;
        let note = KvEntry {
            namespace: OWNERS_NAMESPACE.to_owned(),
            key: digest(session),
            value: text,
            expires_at: None,
        };
        if self.store.kv_put(&note, Precondition::Absent)? {
            self.remember(session, key);
            return Ok(true);
        }
        Ok(self.owner_of(session)?.is_some_and(|owner| owner == key))
    }

    fn stored_owner(&self, session: &str) -> Result<Option<String>, StoreError> {
        let Some(note) = self.store.kv_get(OWNERS_NAMESPACE, &digest(session))? else { return Ok(None) };
        let read = serde_json::from_str::<SessionOwnerRecord>(&note.value);
        let owner = read.map_err(|error| {
            StoreError::corrupt(format!("the owner of a session cannot be read: {error}"))
        })?;
        Ok((owner.session == session).then_some(owner.key))
    }

    /// The key that sent the first event, for sessions older than the owner records.
    fn first_sender(&self, session: &str) -> Result<Option<String>, StoreError> {
        let Some(first) = self.store.records(session, 1, 1)?.pop() else { return Ok(None) };
        let event: Option<Value> = serde_json::from_str(&first.text).ok();
        Ok(event.and_then(|event| event.get("principal")?.as_str().map(str::to_owned)))
    }

    /// Whether a name belongs only to operator or channel keys. These see every session in their scope, so a session
    /// they start belongs to the agent that works in it.
    fn begins_for_others(&self, name: &str) -> Result<bool, StoreError> {
        let keys = self.keys.list()?;
        let mut roles = keys.iter().filter(|(_, key)| key.name == name).map(|(_, key)| key.role).peekable();
        Ok(roles.peek().is_some() && roles.all(|role| role >= AuthRole::Channel))
    }

    fn remember(&self, session: &str, owner: &str) {
        let mut cached = self.lock();
        if cached.len() >= MAX_CACHED_OWNERS {
            cached.clear();
        }
        cached.insert(session.to_owned(), owner.to_owned());
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, String>> {
        self.cached.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

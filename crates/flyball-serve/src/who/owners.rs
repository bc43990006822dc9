//! Who owns a session: the key that made it. Keys of agents and hosts see and write to their own sessions only, unless
//! they were made for more.

use super::{Keys, Role, digest};
use flyball_journal::{Desk, If, Note, StoreError, Trouble, Which};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Where owners are kept.
const OWNERS: &str = "owners";
/// How many owners are cached. An owner never changes, so an entry is never stale.
const CACHED: usize = 65_536;
/// How many owners are read at once.
const PAGE: usize = 500;

/// The sessions that a principal may see and write to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Scope {
    /// All of them.
    All,
    /// Those whose names begin with this.
    Prefix(String),
    /// Those that its own key has made.
    Own,
}

/// An owner as it is kept. The key of the note is a digest of the session's name, which may hold any character.
#[derive(Debug, Serialize, Deserialize)]
struct Owner {
    session: String,
    key: String,
}

/// Forgets the owners of sessions that were pruned. Gives how many there were.
///
/// # Errors
/// If the store cannot be read or written.
pub fn prune_owners(desk: &dyn Desk) -> Result<u64, StoreError> {
    let heads = desk.heads(Which::All, usize::MAX)?;
    let there: BTreeSet<String> = heads.into_iter().map(|head| head.session).collect();
    let (mut after, mut forgotten) = (String::new(), 0);
    loop {
        let some = desk.notes(OWNERS, &after, PAGE)?;
        let Some(last) = some.last() else { return Ok(forgotten) };
        after.clone_from(&last.key);
        for note in &some {
            let owner = serde_json::from_str::<Owner>(&note.text);
            if owner.is_ok_and(|owner| !there.contains(&owner.session))
                && desk.take(OWNERS, &note.key)?.is_some()
            {
                forgotten += 1;
            }
        }
    }
}

/// The owners of sessions.
pub(crate) struct Owners {
    desk: Arc<dyn Desk>,
    keys: Keys,
    cached: Mutex<BTreeMap<String, String>>,
}

impl Owners {
    /// The owners of a store's sessions.
    pub(crate) fn new(desk: Arc<dyn Desk>) -> Self {
        let keys = Keys::new(Arc::clone(&desk));
        Owners { desk, keys, cached: Mutex::default() }
    }

    /// Whether a key owns a session, if that is known without asking the store.
    pub(crate) fn cached(&self, session: &str, key: &str) -> Option<bool> {
        self.lock().get(session).map(|owner| owner == key)
    }

    /// The key that owns a session, if one does.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub(crate) fn of(&self, session: &str) -> Result<Option<String>, StoreError> {
        let cached = self.lock().get(session).cloned();
        if cached.is_some() {
            return Ok(cached);
        }
        let owner = match self.noted(session)? {
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

    /// Whether a key owns a session. A session that is new, or that a person or a channel has started for an agent,
    /// becomes the key's; of several keys exactly one gets it.
    ///
    /// # Errors
    /// If the store cannot be read or written.
    pub(crate) fn claim(&self, session: &str, key: &str) -> Result<bool, StoreError> {
        if let Some(owner) = self.of(session)? {
            return Ok(owner == key);
        }
        // A session that was made without a key, by a hook or a run on this machine, belongs to none.
        if self.desk.load(session)?.is_some() && self.first_sender(session)?.is_none() {
            return Ok(false);
        }
        let owner = Owner { session: session.to_owned(), key: key.to_owned() };
        let text =
            serde_json::to_string(&owner).map_err(|error| StoreError::new(Trouble::Io, error.to_string()))?;
        let note = Note { shelf: OWNERS.to_owned(), key: digest(session), text, until: None };
        if self.desk.put(&note, If::New)? {
            self.remember(session, key);
            return Ok(true);
        }
        Ok(self.of(session)?.is_some_and(|owner| owner == key))
    }

    fn noted(&self, session: &str) -> Result<Option<String>, StoreError> {
        let Some(note) = self.desk.note(OWNERS, &digest(session))? else { return Ok(None) };
        let read = serde_json::from_str::<Owner>(&note.text);
        let owner = read.map_err(|error| {
            StoreError::corrupt(format!("the owner of a session cannot be read: {error}"))
        })?;
        Ok((owner.session == session).then_some(owner.key))
    }

    /// The key that sent the first event: sessions that were made before owners were kept have no note.
    fn first_sender(&self, session: &str) -> Result<Option<String>, StoreError> {
        let Some(first) = self.desk.records(session, 1, 1)?.pop() else { return Ok(None) };
        let event: Option<Value> = serde_json::from_str(&first.text).ok();
        Ok(event.and_then(|event| event.get("principal")?.as_str().map(str::to_owned)))
    }

    /// Whether a name is that of a person's or a channel's key, and of no agent's: those see every session in their scope,
    /// so a session that they begin is for the agent that works in it.
    fn begins_for_others(&self, name: &str) -> Result<bool, StoreError> {
        let keys = self.keys.list()?;
        let mut roles = keys.iter().filter(|(_, key)| key.name == name).map(|(_, key)| key.role).peekable();
        Ok(roles.peek().is_some() && roles.all(|role| role >= Role::Channel))
    }

    fn remember(&self, session: &str, owner: &str) {
        let mut cached = self.lock();
        if cached.len() >= CACHED {
            cached.clear();
        }
        cached.insert(session.to_owned(), owner.to_owned());
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, String>> {
        self.cached.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

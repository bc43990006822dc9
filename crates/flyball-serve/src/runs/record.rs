//! What is known of a run that was started through a server: from which workflow, by whom, and how it went last.

use flyball_journal::{Desk, If, Note, StoreError, Trouble};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;
use utoipa::ToSchema;

/// Where they are kept.
const SHELF: &str = "runs";
/// Where the keys are kept that make a repetition harmless, and for how long.
const KEYS: &str = "run-keys";
const KEYS_MS: u64 = 24 * 60 * 60 * 1000;

/// A run that was started through a server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Record {
    /// The session.
    pub(crate) session: String,
    /// The name of the workflow.
    pub(crate) workflow: String,
    /// What was set for this run.
    #[serde(default)]
    pub(crate) set: BTreeMap<String, String>,
    /// Who started it.
    pub(crate) by: String,
    /// When, in milliseconds of store time.
    pub(crate) started: u64,
    /// The digest of the key that it was asked for with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) key: Option<String>,
    /// How it went the last time that a worker had it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) last: Option<Last>,
}

/// How a worker's work at a run ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct Last {
    /// The exit code of `flyball run` or `flyball resume`; none if a signal ended it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) exit: Option<i32>,
    /// When, in milliseconds of store time.
    pub(crate) at: u64,
    /// What it complained about.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) said: String,
}

/// What a key that makes a repetition harmless stands for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Asked {
    /// The session that it was answered with.
    pub(super) session: String,
    /// The digest of what was asked.
    pub(super) body: String,
}

/// The records of a store.
pub(crate) struct Records {
    desk: Arc<dyn Desk>,
}

impl Records {
    pub(super) fn new(desk: Arc<dyn Desk>) -> Self {
        Records { desk }
    }

    /// Keeps a new one. `false` if there is one of this session.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(super) fn begin(&self, record: &Record) -> Result<bool, StoreError> {
        self.desk.put(&note(SHELF, &record.session, record, None)?, If::New)
    }

    /// The record of a session.
    ///
    /// # Errors
    /// If it cannot be read.
    pub(crate) fn find(&self, session: &str) -> Result<Option<Record>, StoreError> {
        self.desk.note(SHELF, session)?.as_ref().map(read).transpose()
    }

    /// The records of sessions whose names come after this one.
    ///
    /// # Errors
    /// If they cannot be read.
    pub(super) fn list(&self, after: &str, limit: usize) -> Result<Vec<Record>, StoreError> {
        self.desk.notes(SHELF, after, limit)?.iter().map(read).collect()
    }

    /// Notes how it went. A run that was not started through a server has no record, and gets none.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(super) fn went(&self, session: &str, last: Last) -> Result<(), StoreError> {
        let Some(record) = self.find(session)? else { return Ok(()) };
        let record = Record { last: Some(last), ..record };
        self.desk.put(&note(SHELF, session, &record, None)?, If::Any).map(|_| ())
    }

    /// What a key was answered with; it is answered with this from now on, if it is new.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(super) fn once(&self, key: &str, asked: Asked) -> Result<Asked, StoreError> {
        loop {
            let until = Some(self.desk.now()?.saturating_add(KEYS_MS));
            if self.desk.put(&note(KEYS, key, &asked, until)?, If::New)? {
                return Ok(asked);
            }
            // One that has just become void is not there, and may be put.
            if let Some(there) = self.desk.note(KEYS, key)? {
                return read(&there);
            }
        }
    }

    /// The store's own clock.
    ///
    /// # Errors
    /// If it cannot be asked.
    pub(super) fn now(&self) -> Result<u64, StoreError> {
        self.desk.now()
    }
}

fn note(shelf: &str, key: &str, what: &impl Serialize, until: Option<u64>) -> Result<Note, StoreError> {
    let text =
        serde_json::to_string(what).map_err(|error| StoreError::new(Trouble::Io, error.to_string()))?;
    Ok(Note { shelf: shelf.to_owned(), key: key.to_owned(), text, until })
}

fn read<T: for<'a> Deserialize<'a>>(note: &Note) -> Result<T, StoreError> {
    let damaged = |error| StoreError::corrupt(format!("a note of '{}' cannot be read: {error}", note.shelf));
    serde_json::from_str(&note.text).map_err(damaged)
}

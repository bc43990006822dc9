//! Records of runs started through a server: workflow, starter and last result.

use flyball_store::{AdminStore, KvEntry, Precondition, StoreError, StoreErrorKind};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;
use utoipa::ToSchema;

/// Namespace of the records.
const RUNS_NAMESPACE: &str = "runs";
/// Namespace and lifetime of the idempotency keys.
const KEYS_NAMESPACE: &str = "run-keys";
const KEY_TTL_MS: u64 = 24 * 60 * 60 * 1000;

/// A run started through a server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RunRecord {
    /// The session.
    pub(crate) session: String,
    /// Name of the workflow.
    pub(crate) workflow: String,
    /// Policy values set for this run.
    #[serde(default)]
    pub(crate) set: BTreeMap<String, String>,
    /// Who started it.
    pub(crate) by: String,
    /// Start time, in milliseconds of store time.
    pub(crate) started: u64,
    /// Digest of the idempotency key of the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) key: Option<String>,
    /// Result of the last execution by a worker.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) last: Option<LastRunResult>,
}

/// Result of one execution by a worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct LastRunResult {
    /// Exit code of `flyball run` or `flyball resume`; null if a signal ended it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) exit: Option<i32>,
    /// Time, in milliseconds of store time.
    pub(crate) at: u64,
    /// The end of its stderr, if it failed.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[serde(rename = "said")]
    pub(crate) stderr: String,
}

/// The run that an idempotency key belongs to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct IdempotentRun {
    /// Session of the run.
    pub(super) session: String,
    /// Digest of the request body.
    #[serde(rename = "body")]
    pub(super) body_digest: String,
}

/// The run records of a store.
pub(crate) struct RunRecords {
    store: Arc<dyn AdminStore>,
}

impl RunRecords {
    pub(super) fn new(store: Arc<dyn AdminStore>) -> Self {
        RunRecords { store }
    }

    /// Inserts a record. `false` if the session already has one.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(super) fn insert(&self, record: &RunRecord) -> Result<bool, StoreError> {
        self.store.kv_put(&kv_entry(RUNS_NAMESPACE, &record.session, record, None)?, Precondition::Absent)
    }

    /// The record of a session.
    ///
    /// # Errors
    /// If it cannot be read.
    pub(crate) fn find(&self, session: &str) -> Result<Option<RunRecord>, StoreError> {
        self.store.kv_get(RUNS_NAMESPACE, session)?.as_ref().map(parse_entry).transpose()
    }

    /// The records after a session name, in order.
    ///
    /// # Errors
    /// If they cannot be read.
    pub(super) fn list(&self, after: &str, limit: usize) -> Result<Vec<RunRecord>, StoreError> {
        self.store.kv_list(RUNS_NAMESPACE, after, limit)?.iter().map(parse_entry).collect()
    }

    /// Stores the last result. A run that was not started through a server has no record and gets none.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(super) fn set_last_result(&self, session: &str, last: LastRunResult) -> Result<(), StoreError> {
        let Some(record) = self.find(session)? else { return Ok(()) };
        let record = RunRecord { last: Some(last), ..record };
        self.store.kv_put(&kv_entry(RUNS_NAMESPACE, session, &record, None)?, Precondition::Any).map(|_| ())
    }

    /// Binds a key to a run, or returns the run it is already bound to.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(super) fn claim_key(&self, key: &str, asked: IdempotentRun) -> Result<IdempotentRun, StoreError> {
        loop {
            let until = Some(self.store.now()?.saturating_add(KEY_TTL_MS));
            if self.store.kv_put(&kv_entry(KEYS_NAMESPACE, key, &asked, until)?, Precondition::Absent)? {
                return Ok(asked);
            }
            // One that has just become void is not there, and may be put.
            if let Some(there) = self.store.kv_get(KEYS_NAMESPACE, key)? {
                return parse_entry(&there);
            }
        }
    }

    /// The store's clock.
    ///
    /// # Errors
    /// If the store fails.
    pub(super) fn now(&self) -> Result<u64, StoreError> {
        self.store.now()
    }
}

fn kv_entry(
    shelf: &str,
    key: &str,
    value: &impl Serialize,
    until: Option<u64>,
) -> Result<KvEntry, StoreError> {
    let text = serde_json::to_string(value)
        .map_err(|error| StoreError::new(StoreErrorKind::Io, error.to_string()))?;
    Ok(KvEntry { namespace: shelf.to_owned(), key: key.to_owned(), value: text, expires_at: until })
}

fn parse_entry<T: for<'a> Deserialize<'a>>(note: &KvEntry) -> Result<T, StoreError> {
    let damaged =
        |error| StoreError::corrupt(format!("a note of '{}' cannot be read: {error}", note.namespace));
    serde_json::from_str(&note.value).map_err(damaged)
}

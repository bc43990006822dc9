//! Key-value store for small shared entries: API keys, tickets, jobs for workers.
//!
//! An entry has a namespace, a key and a value. Writes take a precondition on the existing entry, and only one caller
//! can take an entry. This is enough for single-use tokens and for work queues.

use crate::event_store::StoreResult;

/// A key-value entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KvEntry {
    /// The kind of entry, for example `keys` or `tickets`.
    pub namespace: String,
    /// The key, unique in its namespace.
    pub key: String,
    /// The value.
    pub value: String,
    /// Expiry, in milliseconds of store time. An expired entry is treated as absent.
    pub expires_at: Option<u64>,
}

/// Precondition of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Precondition<'a> {
    /// None: an existing entry is replaced.
    Any,
    /// There is no entry.
    Absent,
    /// The entry has this value.
    Equals(&'a str),
}

/// A key-value store.
pub trait KvStore {
    /// Writes an entry. Returns `false` and changes nothing if the precondition does not hold.
    ///
    /// # Errors
    /// If it cannot be written.
    fn kv_put(&self, entry: &KvEntry, only_if: Precondition<'_>) -> StoreResult<bool>;

    /// Reads an unexpired entry.
    ///
    /// # Errors
    /// If it cannot be read.
    fn kv_get(&self, namespace: &str, key: &str) -> StoreResult<Option<KvEntry>>;

    /// Up to `limit` entries of a namespace with keys after `after`, in key order.
    ///
    /// # Errors
    /// If they cannot be read.
    fn kv_list(&self, namespace: &str, after: &str, limit: usize) -> StoreResult<Vec<KvEntry>>;

    /// Deletes and returns an entry. Of several concurrent callers, exactly one gets it.
    ///
    /// # Errors
    /// If it cannot be written.
    fn kv_take(&self, namespace: &str, key: &str) -> StoreResult<Option<KvEntry>>;

    /// Deletes expired entries. Returns their number.
    ///
    /// # Errors
    /// If it cannot be written.
    fn kv_delete_expired(&self) -> StoreResult<u64>;
}

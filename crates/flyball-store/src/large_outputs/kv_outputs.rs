//! Large outputs in the store itself, shared by several servers: chunks, and a header that names the session.

use super::session_dir::session_dir_name;
use super::{CleanupSummary, MIN_ORPHAN_AGE, OutputRef};
use crate::error::StoreError;
use crate::event_store::AdminStore;
use crate::kv_store::{KvEntry, Precondition};
use serde::{Deserialize, Serialize};
use std::io;
use std::sync::{Arc, Weak};

/// Namespace of the headers, then that of the chunks.
const HEADS_NAMESPACE: &str = "outputs";
const CHUNKS_NAMESPACE: &str = "output-pieces";
/// Chunk size in bytes. A chunk may be a few bytes shorter, because it ends at a character boundary.
const CHUNK_BYTES: usize = 256 * 1024;
/// Maximum bytes of large outputs per session in a shared store.
const MAX_SESSION_BYTES: u64 = 64 * 1024 * 1024;
/// Entries read per page.
const PAGE_SIZE: usize = 256;

/// Large outputs of a store. Holds the store weakly: the recorder keeps it open.
pub(super) struct KvOutputs {
    store: Weak<dyn AdminStore>,
    address: String,
}

/// Metadata of an output.
#[derive(Serialize, Deserialize)]
struct KvOutputHeader {
    session: String,
    bytes: u64,
    #[serde(rename = "pieces")]
    chunks: usize,
}

impl KvOutputs {
    pub(super) fn new(store: &Arc<dyn AdminStore>) -> Self {
        KvOutputs { store: Arc::downgrade(store), address: store.address() }
    }

    pub(super) fn address(&self) -> &str {
        &self.address
    }

    fn store(&self) -> io::Result<Arc<dyn AdminStore>> {
        self.store.upgrade().ok_or_else(|| io::Error::other("the store is closed"))
    }

    pub(super) fn write(&self, session: &str, reference: &OutputRef, text: &str) -> Result<(), String> {
        self.write_chunks(session, reference, text).map_err(|error| error.to_string())
    }

    fn write_chunks(&self, session: &str, reference: &OutputRef, text: &str) -> io::Result<()> {
        let store = self.store()?;
        let key = reference.to_string();
        let age = u64::try_from(MIN_ORPHAN_AGE.as_millis()).unwrap_or(u64::MAX);
        let until = Some(store.now().map_err(store_error)?.saturating_add(age));
        let used: u64 =
            self.headers(store.as_ref(), &reference.session)?.iter().map(|(_, head)| head.bytes).sum();
        if used.saturating_add(text.len() as u64) > MAX_SESSION_BYTES {
            return Err(io::Error::other(format!(
                "the session reached its limit of {MAX_SESSION_BYTES} bytes for large outputs in the store"
            )));
        }
        let pieces = split_chunks(text);
        for (at, piece) in pieces.iter().enumerate() {
            // JSON, because a database may reject characters that a text may contain.
            let text = serde_json::to_string(piece)?;
            let note = KvEntry {
                namespace: CHUNKS_NAMESPACE.to_owned(),
                key: chunk_key(&key, at),
                value: text,
                expires_at: until,
            };
            store.kv_put(&note, Precondition::Any).map_err(store_error)?;
        }
        // Written last: a reader that finds the header also finds all chunks.
        let head =
            KvOutputHeader { session: session.to_owned(), bytes: text.len() as u64, chunks: pieces.len() };
        let text = serde_json::to_string(&head)?;
        let note = KvEntry { namespace: HEADS_NAMESPACE.to_owned(), key, value: text, expires_at: until };
        store.kv_put(&note, Precondition::Any).map(drop).map_err(store_error)
    }

    fn header(&self, store: &dyn AdminStore, reference: &OutputRef) -> io::Result<Option<KvOutputHeader>> {
        let note = store.kv_get(HEADS_NAMESPACE, &reference.to_string()).map_err(store_error)?;
        Ok(note.and_then(|note| serde_json::from_str(&note.value).ok()))
    }

    pub(super) fn session_of(&self, reference: &OutputRef) -> io::Result<Option<String>> {
        Ok(self.header(self.store()?.as_ref(), reference)?.map(|head| head.session))
    }

    pub(super) fn read(&self, reference: &OutputRef) -> io::Result<Option<String>> {
        let store = self.store()?;
        let Some(head) = self.header(store.as_ref(), reference)? else { return Ok(None) };
        let mut text = String::with_capacity(usize::try_from(head.bytes).unwrap_or(0));
        for at in 0..head.chunks {
            let piece = store
                .kv_get(CHUNKS_NAMESPACE, &chunk_key(&reference.to_string(), at))
                .map_err(store_error)?;
            let Some(piece) = piece else { return Ok(None) };
            text.push_str(&serde_json::from_str::<String>(&piece.value)?);
        }
        Ok(Some(text))
    }

    pub(super) fn remove(&self, reference: &OutputRef) -> io::Result<()> {
        let store = self.store()?;
        match self.header(store.as_ref(), reference)? {
            Some(head) => remove_chunks(store.as_ref(), &reference.to_string(), head.chunks),
            None => Ok(()),
        }
    }

    pub(super) fn end_session(&self, session: &str) -> io::Result<()> {
        let store = self.store()?;
        for (key, head) in self.headers(store.as_ref(), &session_dir_name(session))? {
            remove_chunks(store.as_ref(), &key, head.chunks)?;
        }
        Ok(())
    }

    pub(super) fn remove_orphans(&self) -> io::Result<CleanupSummary> {
        let removed = self.store()?.kv_delete_expired().map_err(store_error)?;
        Ok(CleanupSummary { removed, ..CleanupSummary::default() })
    }

    /// All outputs of a session. Their keys start with its directory name.
    fn headers(&self, store: &dyn AdminStore, session: &str) -> io::Result<Vec<(String, KvOutputHeader)>> {
        let mut found = Vec::new();
        let mut after = session.to_owned();
        loop {
            let notes = store.kv_list(HEADS_NAMESPACE, &after, PAGE_SIZE).map_err(store_error)?;
            let full = notes.len() == PAGE_SIZE;
            for note in notes {
                if !note.key.starts_with(session) {
                    return Ok(found);
                }
                after.clone_from(&note.key);
                found.extend(serde_json::from_str(&note.value).ok().map(|head| (note.key, head)));
            }
            if !full {
                return Ok(found);
            }
        }
    }
}

fn chunk_key(key: &str, at: usize) -> String {
    format!("{key}/{at:06}")
}

fn remove_chunks(store: &dyn AdminStore, key: &str, pieces: usize) -> io::Result<()> {
    store.kv_take(HEADS_NAMESPACE, key).map_err(store_error)?;
    for at in 0..pieces {
        store.kv_take(CHUNKS_NAMESPACE, &chunk_key(key, at)).map_err(store_error)?;
    }
    Ok(())
}

/// Splits a text into chunks at character boundaries.
fn split_chunks(text: &str) -> Vec<&str> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let mut end = rest.len().min(CHUNK_BYTES);
        while !rest.is_char_boundary(end) {
            end -= 1;
        }
        let (piece, after) = rest.split_at(end);
        pieces.push(piece);
        rest = after;
    }
    pieces
}

fn store_error(error: StoreError) -> io::Error {
    io::Error::other(error.message)
}

//! Large outputs in the store itself: in pieces, behind a note that says whose they are. Several servers share them.

use super::folder::session_name;
use super::{ORPHAN_AGE, OutputRef, Swept};
use crate::error::StoreError;
use crate::journal::Desk;
use crate::shelf::{If, Note};
use serde::{Deserialize, Serialize};
use std::io;
use std::sync::{Arc, Weak};

/// The shelf with a note for each output, and the one with their pieces.
const HEADS: &str = "outputs";
const PIECES: &str = "output-pieces";
/// The length of a piece in bytes; one may be a few bytes shorter, because it ends between two characters.
const PIECE: usize = 256 * 1024;
/// How many bytes of large outputs one session may have in a store that others share.
const SESSION_BYTES: u64 = 64 * 1024 * 1024;
/// How many notes are looked at at a time.
const AT_ONCE: usize = 256;

/// The large outputs of a store. The store holds whoever records into it, so that it is not held in turn.
pub(super) struct Shelved {
    store: Weak<dyn Desk>,
    address: String,
}

/// What is known of an output.
#[derive(Serialize, Deserialize)]
struct OutputHead {
    session: String,
    bytes: u64,
    pieces: usize,
}

impl Shelved {
    pub(super) fn new(store: &Arc<dyn Desk>) -> Self {
        Shelved { store: Arc::downgrade(store), address: store.address() }
    }

    pub(super) fn address(&self) -> &str {
        &self.address
    }

    fn store(&self) -> io::Result<Arc<dyn Desk>> {
        self.store.upgrade().ok_or_else(|| io::Error::other("the store is closed"))
    }

    pub(super) fn write(&self, session: &str, reference: &OutputRef, text: &str) -> Result<(), String> {
        self.put(session, reference, text).map_err(|error| error.to_string())
    }

    fn put(&self, session: &str, reference: &OutputRef, text: &str) -> io::Result<()> {
        let store = self.store()?;
        let key = reference.to_string();
        let age = u64::try_from(ORPHAN_AGE.as_millis()).unwrap_or(u64::MAX);
        let until = Some(store.now().map_err(refused)?.saturating_add(age));
        let used: u64 =
            self.heads(store.as_ref(), &reference.session)?.iter().map(|(_, head)| head.bytes).sum();
        if used.saturating_add(text.len() as u64) > SESSION_BYTES {
            return Err(io::Error::other(format!(
                "the session has used up its {SESSION_BYTES} bytes for large outputs in the store"
            )));
        }
        let pieces = pieces(text);
        for (at, piece) in pieces.iter().enumerate() {
            // As JSON: a database may refuse a character that a text may have.
            let text = serde_json::to_string(piece)?;
            let note = Note { shelf: PIECES.to_owned(), key: piece_key(&key, at), text, until };
            store.put(&note, If::Any).map_err(refused)?;
        }
        // Last: whoever finds this finds all pieces.
        let head = OutputHead { session: session.to_owned(), bytes: text.len() as u64, pieces: pieces.len() };
        let text = serde_json::to_string(&head)?;
        let note = Note { shelf: HEADS.to_owned(), key, text, until };
        store.put(&note, If::Any).map(drop).map_err(refused)
    }

    fn head(&self, store: &dyn Desk, reference: &OutputRef) -> io::Result<Option<OutputHead>> {
        let note = store.note(HEADS, &reference.to_string()).map_err(refused)?;
        Ok(note.and_then(|note| serde_json::from_str(&note.text).ok()))
    }

    pub(super) fn session_of(&self, reference: &OutputRef) -> io::Result<Option<String>> {
        Ok(self.head(self.store()?.as_ref(), reference)?.map(|head| head.session))
    }

    pub(super) fn read(&self, reference: &OutputRef) -> io::Result<Option<String>> {
        let store = self.store()?;
        let Some(head) = self.head(store.as_ref(), reference)? else { return Ok(None) };
        let mut text = String::with_capacity(usize::try_from(head.bytes).unwrap_or(0));
        for at in 0..head.pieces {
            let piece = store.note(PIECES, &piece_key(&reference.to_string(), at)).map_err(refused)?;
            let Some(piece) = piece else { return Ok(None) };
            text.push_str(&serde_json::from_str::<String>(&piece.text)?);
        }
        Ok(Some(text))
    }

    pub(super) fn remove(&self, reference: &OutputRef) -> io::Result<()> {
        let store = self.store()?;
        match self.head(store.as_ref(), reference)? {
            Some(head) => take(store.as_ref(), &reference.to_string(), head.pieces),
            None => Ok(()),
        }
    }

    pub(super) fn end_session(&self, session: &str) -> io::Result<()> {
        let store = self.store()?;
        for (key, head) in self.heads(store.as_ref(), &session_name(session))? {
            take(store.as_ref(), &key, head.pieces)?;
        }
        Ok(())
    }

    pub(super) fn sweep(&self) -> io::Result<Swept> {
        let removed = self.store()?.sweep().map_err(refused)?;
        Ok(Swept { removed, ..Swept::default() })
    }

    /// All outputs of a session: its name is the beginning of their keys.
    fn heads(&self, store: &dyn Desk, session: &str) -> io::Result<Vec<(String, OutputHead)>> {
        let mut found = Vec::new();
        let mut after = session.to_owned();
        loop {
            let notes = store.notes(HEADS, &after, AT_ONCE).map_err(refused)?;
            let full = notes.len() == AT_ONCE;
            for note in notes {
                if !note.key.starts_with(session) {
                    return Ok(found);
                }
                after.clone_from(&note.key);
                found.extend(serde_json::from_str(&note.text).ok().map(|head| (note.key, head)));
            }
            if !full {
                return Ok(found);
            }
        }
    }
}

fn piece_key(key: &str, at: usize) -> String {
    format!("{key}/{at:06}")
}

fn take(store: &dyn Desk, key: &str, pieces: usize) -> io::Result<()> {
    store.take(HEADS, key).map_err(refused)?;
    for at in 0..pieces {
        store.take(PIECES, &piece_key(key, at)).map_err(refused)?;
    }
    Ok(())
}

/// A text in pieces that end between characters.
fn pieces(text: &str) -> Vec<&str> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let mut end = rest.len().min(PIECE);
        while !rest.is_char_boundary(end) {
            end -= 1;
        }
        let (piece, after) = rest.split_at(end);
        pieces.push(piece);
        rest = after;
    }
    pieces
}

fn refused(error: StoreError) -> io::Error {
    io::Error::other(error.what)
}

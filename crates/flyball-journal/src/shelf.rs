//! Small notes that everybody on a store shares: keys of people and agents, tickets, orders for workers.
//!
//! A note has a shelf, a key and a text. It is put with a condition on what was there before, and taken by exactly one;
//! that is enough for things that are used once, and for work that is done by one.

use crate::journal::Result;

/// A note.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// What it is about: `keys`, `tickets`, `orders`.
    pub shelf: String,
    /// Its name on the shelf.
    pub key: String,
    /// What it says.
    pub text: String,
    /// When it is void, in milliseconds of store time; from then on it is as if it were not there.
    pub until: Option<u64>,
}

/// What must be there for a note to be put.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum If<'a> {
    /// Whatever is there is replaced.
    Any,
    /// Nothing must be there.
    New,
    /// A note with this text must be there.
    Was(&'a str),
}

/// A store of notes.
pub trait Shelf {
    /// Puts a note. `false` if the condition does not hold; nothing is changed then.
    ///
    /// # Errors
    /// If it cannot be written.
    fn put(&self, note: &Note, only_if: If<'_>) -> Result<bool>;

    /// A note that is there and not void.
    ///
    /// # Errors
    /// If it cannot be read.
    fn note(&self, shelf: &str, key: &str) -> Result<Option<Note>>;

    /// The notes of a shelf whose keys come after `after`, in the order of their keys, at most `limit`.
    ///
    /// # Errors
    /// If they cannot be read.
    fn notes(&self, shelf: &str, after: &str, limit: usize) -> Result<Vec<Note>>;

    /// Takes a note away; of all who try, exactly one gets it.
    ///
    /// # Errors
    /// If it cannot be written.
    fn take(&self, shelf: &str, key: &str) -> Result<Option<Note>>;

    /// Throws away what is void. Gives how many notes that were.
    ///
    /// # Errors
    /// If it cannot be written.
    fn sweep(&self) -> Result<u64>;
}

//! The contract between the recorder and an engine: what a store must do, and in which words.
//!
//! An engine stores what it is given and refuses what is stale; it decides nothing. Every engine passes the same
//! conformance suite (`tests/conformance.rs`).

use crate::error::{StoreError, Trouble};
use crate::record::{Change, Head, Loaded, Record, Which};
use crate::shelf::Shelf;
use crate::store_info::{Backup, StoreIdentity};
use flyball::{Status, Verdict};
use std::path::Path;

/// What an engine answers.
pub type Result<T> = std::result::Result<T, StoreError>;

/// Changes that are made together or not at all: a session, and the sessions above it that it draws on.
#[derive(Debug, Clone, PartialEq)]
pub struct Unit {
    /// The changes; the session that the events belong to comes first.
    pub changes: Vec<Change>,
}

/// What became of a unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Appended {
    /// It is stored and will survive a power loss.
    Done,
    /// The session has moved on since it was loaded: load it again.
    Stale,
    /// A newer worker holds the session: stop.
    Fenced,
}

/// What an id was answered with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answered {
    /// The number of the event.
    pub seq: u64,
    /// The fingerprint of the body that came with the id.
    pub body: u64,
    /// The decision.
    pub verdict: Verdict,
    /// The session's state after it.
    pub status: Status,
    /// The whole decision as JSON, unless it was pruned.
    pub decision: Option<String>,
}

/// The rows that a person may take away by hand: the plan that waits, and the label that calls a person.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Handles {
    /// The checksum of the confirmation row as it is now, computed from its columns; `None` if there is no row.
    pub pending: Option<u64>,
    /// Whether the label is there.
    pub label: bool,
}

/// A place in the order of all events of the store.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cursor {
    /// The transaction, for engines in which commits do not follow the order of their numbers.
    pub transaction: u64,
    /// The number of the event in the whole store.
    pub position: u64,
}

/// One event of the whole store, for subscribers.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// Where it stands; read on from here.
    pub cursor: Cursor,
    /// Its session.
    pub session: String,
    /// The event and its decision.
    pub record: Record,
}

/// That an event of the store is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sighting {
    /// Where it stands; read on from here.
    pub cursor: Cursor,
    /// Its session.
    pub session: String,
    /// Its number in the session.
    pub seq: u64,
}

/// The right to work on a session for a while. Appends carry its epoch; an older epoch is refused by the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    /// The session.
    pub session: String,
    /// Who holds it.
    pub holder: String,
    /// Grows with every new holder.
    pub epoch: u64,
}

/// An effect that waits to be performed, or was.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Errand {
    /// The key that makes a repetition harmless: session, event, effect and sink.
    pub key: String,
    /// The session.
    pub session: String,
    /// The name of the effect.
    pub effect: String,
    /// Which sink of the policy takes it: the number in `journal.deliver`.
    pub sink: String,
    /// What is handed over, as JSON.
    pub payload: String,
    /// Where it stands.
    pub state: ErrandState,
    /// How often it was tried before; counted when it is claimed, so that one that ends its courier is given up too.
    pub attempts: u32,
    /// When it may be tried next, in milliseconds of store time.
    pub due: u64,
    /// What went wrong the last time.
    pub error: Option<String>,
}

/// Where an errand stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrandState {
    /// It waits for its time.
    Waiting,
    /// It was performed.
    Done,
    /// It was given up; a person may try it again.
    Dead,
}

impl ErrandState {
    /// The word as it is stored and printed.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            ErrandState::Waiting => "waiting",
            ErrandState::Done => "done",
            ErrandState::Dead => "dead",
        }
    }

    /// Reads the word back.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        [ErrandState::Waiting, ErrandState::Done, ErrandState::Dead]
            .into_iter()
            .find(|state| state.as_str() == word)
    }
}

/// How an errand went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Settled {
    /// It was performed.
    Done,
    /// It failed; try again after so many milliseconds of store time.
    Again {
        /// What went wrong.
        error: String,
        /// The wait.
        after_ms: u64,
    },
    /// It is given up.
    Dead {
        /// What went wrong.
        error: String,
    },
}

/// Anything whose end is the end of a turn.
trait Held {}
impl<T> Held for T {}

/// Holds the store for one writer as long as it lives, in engines where only one can write at a time.
#[must_use = "the turn ends when this is dropped"]
pub struct Turn<'a> {
    #[allow(dead_code, reason = "held until the end of the turn, never read")]
    held: Option<Box<dyn Held + 'a>>,
}

impl<'a> Turn<'a> {
    /// A turn in an engine that needs none.
    pub const fn free() -> Self {
        Turn { held: None }
    }

    /// A turn that lasts until `held` is dropped.
    pub fn holding<T: 'a>(held: T) -> Self {
        Turn { held: Some(Box::new(held)) }
    }
}

/// A store of sessions: what the recorder and the workers need.
pub trait Journal: Send + Sync {
    /// What it is, without secrets: `sqlite:PATH`, `postgres://HOST/DATABASE`, `memory:`.
    fn address(&self) -> String;

    /// Whether commits come one after the other anyway, so that it pays to gather events for the next one.
    fn has_one_writer(&self) -> bool {
        false
    }

    /// Waits for the turn to write, in engines where only one can write at a time. Fair: nobody overtakes for ever.
    ///
    /// # Errors
    /// If the turn does not come in time.
    fn turn(&self) -> Result<Turn<'_>>;

    /// A session as it was stored last: head, snapshot and the events after it. `None` if there is no such session.
    ///
    /// # Errors
    /// If it cannot be read, or its rows are damaged.
    fn load(&self, session: &str) -> Result<Option<Loaded>>;

    /// Stores units in one transaction. Each is stored whole if none of its sessions has moved since it was loaded,
    /// else not at all; one stale unit does not keep the others back.
    ///
    /// # Errors
    /// If nothing was stored, or with [`crate::Trouble::Unknown`] if that is not known.
    fn append(&self, units: &[Unit]) -> Result<Vec<Appended>>;

    /// As [`Journal::append`], for one of many writers in this process: calls `free` as soon as the next one may write,
    /// which may be long before this one is on the disk. It still comes back only when it is.
    ///
    /// # Errors
    /// As [`Journal::append`].
    fn append_in_line(&self, units: &[Unit], free: &mut dyn FnMut()) -> Result<Vec<Appended>> {
        let done = self.append(units);
        free();
        done
    }

    /// What an event id was answered with, however long ago.
    ///
    /// # Errors
    /// If it cannot be read, or the rows around it are damaged.
    fn find(&self, session: &str, id: &str) -> Result<Option<Answered>>;

    /// As [`Journal::find`], but only among the events that the last snapshot covers: the recorder knows the ids of the
    /// events after it from the session itself.
    ///
    /// # Errors
    /// As [`Journal::find`].
    fn find_covered(&self, session: &str, id: &str) -> Result<Option<Answered>> {
        self.find(session, id)
    }

    /// The events of a session with numbers `from..=to`, oldest first; pruned ones are left out.
    ///
    /// # Errors
    /// If they cannot be read, or are damaged.
    fn records(&self, session: &str, from: u64, to: u64) -> Result<Vec<Record>>;

    /// The rows of a session that a person may have taken away.
    ///
    /// # Errors
    /// If they cannot be read.
    fn handles(&self, session: &str) -> Result<Handles>;

    /// Keeps the text of a policy under its digest, so that a session can be worked out again under it.
    ///
    /// # Errors
    /// If it cannot be written.
    fn keep_policy(&self, digest: &str, text: &str) -> Result<()>;

    /// The text of a policy.
    ///
    /// # Errors
    /// If it cannot be read.
    fn policy(&self, digest: &str) -> Result<Option<String>>;

    /// The events of all sessions after a place, at most `limit`, in an order in which none is ever missed.
    ///
    /// # Errors
    /// If they cannot be read.
    fn since(&self, after: Cursor, limit: usize) -> Result<Vec<Entry>>;

    /// As [`Journal::since`], but only which events there are: for somebody who has most of them in memory. They are
    /// committed; a power loss may still take the last of them back.
    ///
    /// # Errors
    /// As [`Journal::since`].
    fn sightings(&self, after: Cursor, limit: usize) -> Result<Vec<Sighting>> {
        let entries = self.since(after, limit)?.into_iter();
        Ok(entries
            .map(|Entry { cursor, session, record }| Sighting { cursor, session, seq: record.seq })
            .collect())
    }

    /// The place of the newest event that [`Journal::since`] would give: whoever reads on from here gets what comes
    /// from now on. Engines know a shorter way than to read everything.
    ///
    /// # Errors
    /// If it cannot be read.
    fn newest(&self) -> Result<Cursor> {
        let mut newest = Cursor::default();
        while let Some(last) = self.since(newest, 1_000)?.last() {
            newest = last.cursor;
        }
        Ok(newest)
    }

    /// Takes a session for `ttl_ms` of store time; makes it if there is none. `None` if somebody else holds it.
    ///
    /// # Errors
    /// If it cannot be written.
    fn lease(&self, session: &str, holder: &str, ttl_ms: u64) -> Result<Option<Lease>>;

    /// Holds a lease for another `ttl_ms` from now. `false` if it is lost.
    ///
    /// # Errors
    /// If it cannot be written.
    fn renew(&self, lease: &Lease, ttl_ms: u64) -> Result<bool>;

    /// Gives a lease back, if it is still held.
    ///
    /// # Errors
    /// If it cannot be written.
    fn free(&self, lease: &Lease) -> Result<()>;

    /// Takes errands whose time has come; nobody else gets them for `hold_ms` of store time.
    ///
    /// # Errors
    /// If it cannot be written.
    fn claim(&self, limit: usize, hold_ms: u64) -> Result<Vec<Errand>>;

    /// Says how an errand went. Settling twice is harmless; what is done stays done.
    ///
    /// # Errors
    /// If it cannot be written.
    fn settle(&self, key: &str, how: &Settled) -> Result<()>;

    /// The store's own clock, in milliseconds since 1970.
    ///
    /// # Errors
    /// If it cannot be asked.
    fn now(&self) -> Result<u64>;

    /// Makes sure that what was read is on the disk, before somebody is told that it is. A writer that died between
    /// writing and syncing leaves a commit that can be read, but that a power loss would still take.
    ///
    /// # Errors
    /// If it cannot be synced.
    fn harden(&self) -> Result<()> {
        Ok(())
    }

    /// Brings everything into the main file of the store, in engines that have one: a plain copy of it is a backup then.
    /// For a process that ends; others may go on using the store.
    ///
    /// # Errors
    /// If it cannot be written.
    fn checkpoint(&self) -> Result<()> {
        Ok(())
    }
}

/// What was taken away, or would be.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
pub struct Pruned {
    /// Sessions that had ended, with everything of theirs.
    pub sessions: u64,
    /// Old events of sessions that live on; their counters and ids stay.
    pub events: u64,
    /// Errands that are done.
    pub errands: u64,
}

/// The confirmation row of a session: seed 001's columns, and ours beside them.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct PendingRow {
    /// The session.
    pub session_id: String,
    /// The plan as JSON: `[{"tool":…,"args":…}]`.
    pub pending_plan: String,
    /// The question that was put.
    pub confirmation_question: String,
    /// Who asked for it; only they may say yes.
    pub requester: Option<String>,
    /// The digest that an approval is bound to.
    pub digest: String,
    /// `awaiting`.
    pub status: String,
    /// When the question was put: `2025-10-11 12:40:00`, UTC.
    pub created_at: String,
    /// When a yes comes too late.
    pub expires_at: Option<String>,
    /// When the row was written.
    pub updated_at: String,
}

/// What a person at the desk needs besides: looking around and cleaning up.
pub trait Desk: Journal + Shelf {
    /// The heads of sessions, the one that changed last first.
    ///
    /// # Errors
    /// If they cannot be read, or are damaged.
    fn heads(&self, which: Which, limit: usize) -> Result<Vec<Head>>;

    /// The leases that have not expired.
    ///
    /// # Errors
    /// If they cannot be read.
    fn leases(&self) -> Result<Vec<Lease>>;

    /// The plan that waits in a session, as it is stored.
    ///
    /// # Errors
    /// If it cannot be read.
    fn pending(&self, session: &str) -> Result<Option<PendingRow>>;

    /// Errands in a state, oldest first.
    ///
    /// # Errors
    /// If they cannot be read.
    fn errands(&self, state: ErrandState, limit: usize) -> Result<Vec<Errand>>;

    /// How many errands are in a state.
    ///
    /// # Errors
    /// If they cannot be counted.
    fn errand_count(&self, state: ErrandState) -> Result<u64> {
        Ok(self.errands(state, usize::MAX)?.len() as u64)
    }

    /// Lets a dead errand wait for its next try. `false` if there is no such dead errand.
    ///
    /// # Errors
    /// If it cannot be written.
    fn retry(&self, key: &str) -> Result<bool>;

    /// Takes away what is older than `before` (event time, in milliseconds): sessions that have ended, events that
    /// a snapshot covers, errands that are done. Never a counter of a session that lives.
    ///
    /// # Errors
    /// If it cannot be written; nothing is taken away then.
    fn prune(&self, before: u64, dry_run: bool) -> Result<Pruned>;

    /// Reads everything and returns what is damaged, one line each; empty if all is well. Calls `progress` with the
    /// number of events read so far.
    ///
    /// # Errors
    /// If it cannot be read at all.
    fn verify(&self, progress: &mut dyn FnMut(u64)) -> Result<Vec<String>>;

    /// The engine and its version, for a person: `SQLite 3.54.1, schema 2`.
    ///
    /// # Errors
    /// If it cannot be asked.
    fn engine(&self) -> Result<String>;

    /// What tells this store from others; `None` for engines that do not live in a file. Brings the mark up to date.
    ///
    /// # Errors
    /// If the store is not the one that was opened.
    fn identity(&self) -> Result<Option<StoreIdentity>> {
        Ok(None)
    }

    /// Writes a consistent copy of the store to a file, while others go on writing to the store, and verifies it. A file
    /// that is there already is replaced only with `replace`.
    ///
    /// # Errors
    /// If it cannot be written, or this engine has other tools for it.
    fn backup(&self, to: &Path, replace: bool) -> Result<Backup> {
        let _ = (to, replace);
        let what = format!("{}: this store has no file to copy", self.address());
        let help = "for PostgreSQL use its own tools: `pg_dump --format=custom --file=FILE DATABASE` and `pg_restore`";
        Err(StoreError::new(Trouble::BadAddress, what).with_help(help))
    }
}

//! The engine for many machines: PostgreSQL, at least version 13.
//!
//! A session is a row that a writer must find where it left it; the server refuses everybody else, in the statement
//! itself. Callers are plain threads: each waits for its own answer, and the server groups their commits.

mod address;
pub(crate) use address::shown_address;
mod append;
mod link;
mod load;
mod notes;
mod people;
mod rows;
mod schema;
mod trouble;
mod verify;
mod work;
mod writes;

use crate::journal::{
    Answered, Appended, Cursor, Desk, Entry, Errand, ErrandState, Handles, Journal, Lease, PendingRow,
    Pruned, Result, Settled, Sighting, Turn, Unit,
};
use crate::probe::Probe;
use crate::record::{Head, Loaded, Record, Which};
use crate::shelf::{If, Note, Shelf};
use link::Link;

/// How many connections are kept at most, unless somebody says otherwise.
const CONNECTIONS: usize = 16;

/// How the engine is opened.
#[derive(Debug, Clone)]
pub struct PostgresOptions {
    /// How many connections are kept at most.
    pub connections: usize,
    /// Who is told of the places where a crash is interesting.
    pub probe: Probe,
}

impl Default for PostgresOptions {
    fn default() -> Self {
        PostgresOptions { connections: CONNECTIONS, probe: Probe::default() }
    }
}

/// A store in PostgreSQL.
pub struct Postgres {
    link: Link,
}

impl Postgres {
    /// Opens the store at `postgres://USER@HOST/DATABASE`, and makes its tables if they are not there.
    ///
    /// # Errors
    /// If the address cannot be understood, the server cannot be reached, or a newer Flyball made the tables.
    pub fn open(address: &str) -> Result<Self> {
        Self::open_with(address, PostgresOptions::default())
    }

    /// As [`Postgres::open`], in another way than the usual.
    ///
    /// # Errors
    /// As [`Postgres::open`].
    pub fn open_with(address: &str, options: PostgresOptions) -> Result<Self> {
        let link = Link::new(address, options)?;
        schema::migrate(&link)?;
        Ok(Postgres { link })
    }
}

/// Why the connection to a server on another machine is not protected against impostors and listeners, if it is not.
pub(crate) fn transport_weakness(address: &str) -> Option<&'static str> {
    address::parse(address).ok()?.weakness()
}

impl std::fmt::Debug for Postgres {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Postgres").field(&self.link.shown()).finish()
    }
}

impl Journal for Postgres {
    fn address(&self) -> String {
        self.link.shown().to_owned()
    }

    /// The server groups commits by itself, but one transaction for many events is cheaper still.
    fn has_one_writer(&self) -> bool {
        true
    }

    fn turn(&self) -> Result<Turn<'_>> {
        Ok(Turn::free())
    }

    fn load(&self, session: &str) -> Result<Option<Loaded>> {
        load::load(&self.link, session)
    }

    fn append(&self, units: &[Unit]) -> Result<Vec<Appended>> {
        append::append(&self.link, units)
    }

    fn find(&self, session: &str, id: &str) -> Result<Option<Answered>> {
        load::find(&self.link, session, id)
    }

    fn records(&self, session: &str, from: u64, to: u64) -> Result<Vec<Record>> {
        load::between(&self.link, session, from, to)
    }

    fn handles(&self, session: &str) -> Result<Handles> {
        load::handles(&self.link, session)
    }

    fn keep_policy(&self, digest: &str, text: &str) -> Result<()> {
        load::keep_policy(&self.link, digest, text)
    }

    fn policy(&self, digest: &str) -> Result<Option<String>> {
        load::policy(&self.link, digest)
    }

    fn since(&self, after: Cursor, limit: usize) -> Result<Vec<Entry>> {
        work::since(&self.link, after, limit)
    }

    fn sightings(&self, after: Cursor, limit: usize) -> Result<Vec<Sighting>> {
        work::sightings(&self.link, after, limit)
    }

    fn newest(&self) -> Result<Cursor> {
        work::newest(&self.link)
    }

    fn lease(&self, session: &str, holder: &str, ttl_ms: u64) -> Result<Option<Lease>> {
        work::lease(&self.link, session, holder, ttl_ms)
    }

    fn renew(&self, lease: &Lease, ttl_ms: u64) -> Result<bool> {
        work::renew(&self.link, lease, ttl_ms)
    }

    fn free(&self, lease: &Lease) -> Result<()> {
        work::free(&self.link, lease)
    }

    fn claim(&self, limit: usize, hold_ms: u64) -> Result<Vec<Errand>> {
        work::claim(&self.link, limit, hold_ms)
    }

    fn settle(&self, key: &str, how: &Settled) -> Result<()> {
        work::settle(&self.link, key, how)
    }

    fn now(&self) -> Result<u64> {
        work::now(&self.link)
    }
}

impl Desk for Postgres {
    fn leases(&self) -> Result<Vec<Lease>> {
        work::leases(&self.link)
    }

    fn heads(&self, which: Which, limit: usize) -> Result<Vec<Head>> {
        people::heads(&self.link, which, limit)
    }

    fn pending(&self, session: &str) -> Result<Option<PendingRow>> {
        people::pending(&self.link, session)
    }

    fn errands(&self, state: ErrandState, limit: usize) -> Result<Vec<Errand>> {
        people::errands(&self.link, state, limit)
    }

    fn errand_count(&self, state: ErrandState) -> Result<u64> {
        people::errand_count(&self.link, state)
    }

    fn retry(&self, key: &str) -> Result<bool> {
        people::retry(&self.link, key)
    }

    fn prune(&self, before: u64, dry_run: bool) -> Result<Pruned> {
        people::prune(&self.link, before, dry_run)
    }

    fn verify(&self, progress: &mut dyn FnMut(u64)) -> Result<Vec<String>> {
        verify::verify(&self.link, progress)
    }

    fn engine(&self) -> Result<String> {
        self.link.read(async |client| schema::engine(client).await)
    }
}

impl Shelf for Postgres {
    fn put(&self, note: &Note, only_if: If<'_>) -> Result<bool> {
        notes::put(&self.link, note, only_if)
    }

    fn note(&self, shelf: &str, key: &str) -> Result<Option<Note>> {
        notes::find(&self.link, shelf, key)
    }

    fn notes(&self, shelf: &str, after: &str, limit: usize) -> Result<Vec<Note>> {
        notes::list(&self.link, shelf, after, limit)
    }

    fn take(&self, shelf: &str, key: &str) -> Result<Option<Note>> {
        notes::take(&self.link, shelf, key)
    }

    fn sweep(&self) -> Result<u64> {
        notes::sweep(&self.link)
    }
}

//! Keeping the high-water mark of a store up to date, at little cost: when a session begins or ceases to be held for a
//! person, and otherwise at most every ten seconds.

use super::append;
use super::log::Log;
use super::rows::read;
use crate::journal::Unit;
use crate::marks::{Mark, NAMED, Place};
use crate::record::Glance;
use flyball::Status;
use rusqlite::Connection;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The longest time between two marks while events are stored.
const EVERY: Duration = Duration::from_secs(10);
/// The shortest time between two marks, whatever happens.
const AT_LEAST: Duration = Duration::from_secs(1);
/// Commits after which a process brings the mark up to date when it ends.
const MANY: u32 = 16;
/// How many sessions are looked at, the newest first.
const SESSIONS: i64 = 1_000;

/// The mark of an open store.
#[derive(Debug)]
pub(super) struct Keeper {
    place: Place,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    mark: Option<Mark>,
    /// When this process wrote it last.
    written: Option<Instant>,
    /// Commits since then.
    commits: u32,
    /// Something has changed that belongs into the mark at once, and it was too early for that.
    behind: bool,
    /// Why it cannot be written.
    problem: Option<String>,
}

fn is_held(glance: &Glance) -> bool {
    matches!(glance.status, Status::Blocked | Status::Halted | Status::AwaitingConfirmation)
        || glance.stopped_by.is_some()
}

impl Keeper {
    /// Keeps a mark, as it was read when the store was opened.
    pub(super) fn new(place: Place, mark: Option<Mark>) -> Self {
        Keeper { place, state: Mutex::new(State { mark, ..State::default() }) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the mark must be written after these units.
    pub(super) fn is_due(&self, units: &[Unit], position: i64, log: &Log) -> bool {
        let mut state = self.state();
        if state.problem.is_some() {
            return false;
        }
        state.commits = state.commits.saturating_add(1);
        let Some(mark) = state.mark.as_ref().filter(|mark| mark.position > 0) else { return true };
        let mut changes =
            units.iter().flat_map(|unit| &unit.changes).filter(|change| change.seldom || change.new);
        let held =
            changes.any(|change| is_held(&change.head.glance) != mark.names.contains(&change.head.session));
        let age = match state.written {
            Some(written) => Some(written.elapsed()),
            // The log was written just now: its time is the time.
            None => log.modified().and_then(|now| self.place.age(now)),
        };
        let due = age.is_none_or(|age| age >= if held { AT_LEAST } else { EVERY });
        let due = due || (held && state.written.is_none());
        state.behind |= held && !due;
        due && position > 0
    }

    /// Whether the mark must be written before the process ends.
    pub(super) fn is_behind(&self) -> bool {
        let state = self.state();
        state.problem.is_none() && (state.behind || state.commits >= MANY)
    }

    /// Writes the mark.
    pub(super) fn write(&self, sql: &Connection, id: &str) {
        let mut state = self.state();
        let Ok(mut mark) = summary(sql, id) else { return };
        match self.place.read() {
            // Another process may know of later events.
            Some(other) if other.store == mark.store => mark.position = mark.position.max(other.position),
            Some(_) => {}
            None => self.place.clean_up(),
        }
        match self.place.write(&mark) {
            Ok(()) => {
                *state = State { mark: Some(mark), written: Some(Instant::now()), ..State::default() };
            }
            Err(error) => state.problem = Some(self.cannot(&error)),
        }
    }

    fn cannot(&self, error: &std::io::Error) -> String {
        format!("{}: {error}", self.place.file().display())
    }

    /// The mark as it is on the disk now.
    ///
    /// # Errors
    /// If it could not be written, with the reason.
    pub(super) fn status(&self) -> Result<Option<Mark>, String> {
        match &self.state().problem {
            Some(problem) => Err(problem.clone()),
            None => Ok(self.place.read()),
        }
    }
}

/// What the store says of itself now.
fn summary(sql: &Connection, id: &str) -> rusqlite::Result<Mark> {
    let position = read(append::newest(sql)?);
    let mut mark = Mark { store: id.to_owned(), position, ..Mark::default() };
    let newest =
        "SELECT session, status, stopped_by IS NOT NULL FROM flyball_sessions ORDER BY no DESC LIMIT ?1";
    let mut statement = sql.prepare_cached(newest)?;
    let mut rows = statement.query([SESSIONS])?;
    while let Some(row) = rows.next()? {
        let status = row.get_ref(1)?.as_str().unwrap_or_default().to_owned();
        let held = matches!(status.as_str(), "blocked" | "halted" | "awaiting_confirmation") || row.get(2)?;
        if held {
            mark.held += 1;
            if mark.names.len() < NAMED {
                mark.names.push(row.get(0)?);
            }
        }
        mark.open += u64::from(held || status != "ended");
    }
    Ok(mark)
}

//! Updates a store's high-water mark at low cost: with the first event, when a session starts or stops being held, and
//! otherwise at most every ten seconds.

use super::append;
use super::rows::to_u64;
use super::wal::WalSync;
use crate::event_store::AppendUnit;
use crate::high_water_mark::{HighWaterMark, HighWaterMarkFile, MAX_NAMED_SESSIONS};
use crate::record::SessionSummary;
use flyball::SessionPhase;
use rusqlite::Connection;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Maximum time between two writes while events are stored.
const MAX_WRITE_INTERVAL: Duration = Duration::from_secs(10);
/// Minimum time between two writes.
const MIN_WRITE_INTERVAL: Duration = Duration::from_secs(1);
/// Commits after which a process writes the mark when it exits.
const COMMITS_BEFORE_FINAL_WRITE: u32 = 16;
/// Maximum number of sessions to read, newest first.
const MAX_SESSIONS_READ: i64 = 1_000;

/// Writer of an open store's mark.
#[derive(Debug)]
pub(super) struct MarkWriter {
    file: HighWaterMarkFile,
    state: Mutex<MarkWriterState>,
}

#[derive(Debug, Default)]
struct MarkWriterState {
    mark: Option<HighWaterMark>,
    /// When this process last wrote it.
    written: Option<Instant>,
    /// Commits since then.
    commits: u32,
    /// Whether an urgent change is waiting for the minimum interval.
    is_stale: bool,
    /// Why it cannot be written.
    problem: Option<String>,
}

fn needs_operator(summary: &SessionSummary) -> bool {
    matches!(
        summary.status,
        SessionPhase::Blocked | SessionPhase::Halted | SessionPhase::AwaitingConfirmation
    ) || summary.stopped_by.is_some()
}

impl MarkWriter {
    /// Starts with the mark that was read when the store was opened.
    pub(super) fn new(file: HighWaterMarkFile, mark: Option<HighWaterMark>) -> Self {
        MarkWriter { file, state: Mutex::new(MarkWriterState { mark, ..MarkWriterState::default() }) }
    }

    fn state(&self) -> MutexGuard<'_, MarkWriterState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the mark must be written after these units.
    pub(super) fn is_due(&self, units: &[AppendUnit], position: i64, log: &WalSync) -> bool {
        let mut state = self.state();
        if state.problem.is_some() {
            return false;
        }
        state.commits = state.commits.saturating_add(1);
        let Some(mark) = state.mark.as_ref().filter(|mark| mark.position > 0) else { return true };
        let mut changes = units
            .iter()
            .flat_map(|unit| &unit.changes)
            .filter(|change| change.metadata_changed || change.new);
        let held = changes
            .any(|change| needs_operator(&change.head.summary) != mark.names.contains(&change.head.session));
        let age = match state.written {
            Some(written) => Some(written.elapsed()),
            // The log was just written, so its modification time is the current time.
            None => log.modified().and_then(|now| self.file.age(now)),
        };
        let due = age.is_none_or(|age| age >= if held { MIN_WRITE_INTERVAL } else { MAX_WRITE_INTERVAL });
        let due = due || (held && state.written.is_none());
        state.is_stale |= held && !due;
        due && position > 0
    }

    /// Whether the mark must be written before the process exits.
    pub(super) fn is_stale(&self) -> bool {
        let state = self.state();
        state.problem.is_none() && (state.is_stale || state.commits >= COMMITS_BEFORE_FINAL_WRITE)
    }

    /// Writes the mark.
    pub(super) fn write(&self, sql: &Connection, id: &str) {
        let mut state = self.state();
        let Ok(mut mark) = current_mark(sql, id) else { return };
        match self.file.read() {
            // Another process may know later events.
            Some(other) if other.store == mark.store => mark.position = mark.position.max(other.position),
            Some(_) => {}
            None => self.file.remove_stale_siblings(),
        }
        match self.file.write(&mark) {
            Ok(()) => {
                *state = MarkWriterState {
                    mark: Some(mark),
                    written: Some(Instant::now()),
                    ..MarkWriterState::default()
                };
            }
            Err(error) => state.problem = Some(self.write_error(&error)),
        }
    }

    fn write_error(&self, error: &std::io::Error) -> String {
        format!("{}: {error}", self.file.file().display())
    }

    /// The mark as it is on disk.
    ///
    /// # Errors
    /// If it could not be written, with the reason.
    pub(super) fn status(&self) -> Result<Option<HighWaterMark>, String> {
        match &self.state().problem {
            Some(problem) => Err(problem.clone()),
            None => Ok(self.file.read()),
        }
    }
}

/// The mark for the current contents of the store.
fn current_mark(sql: &Connection, id: &str) -> rusqlite::Result<HighWaterMark> {
    let position = to_u64(append::latest_position(sql)?);
    let mut mark = HighWaterMark { store: id.to_owned(), position, ..HighWaterMark::default() };
    let newest =
        "SELECT session, status, stopped_by IS NOT NULL FROM flyball_sessions ORDER BY no DESC LIMIT ?1";
    let mut statement = sql.prepare_cached(newest)?;
    let mut rows = statement.query([MAX_SESSIONS_READ])?;
    while let Some(row) = rows.next()? {
        let status = row.get_ref(1)?.as_str().unwrap_or_default().to_owned();
        let held = matches!(status.as_str(), "blocked" | "halted" | "awaiting_confirmation") || row.get(2)?;
        if held {
            mark.held += 1;
            if mark.names.len() < MAX_NAMED_SESSIONS {
                mark.names.push(row.get(0)?);
            }
        }
        mark.open += u64::from(held || status != "ended");
    }
    Ok(mark)
}

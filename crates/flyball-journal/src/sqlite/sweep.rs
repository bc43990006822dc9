//! Copying the write-ahead log back into the file, beside whoever writes.
//!
//! A process that writes much has most of it copied by a second thread with a connection of its own. The writer then
//! copies the little that came in the meantime, so that the log can begin anew. A process that writes little copies
//! everything itself: it may end before a second thread does.

use super::log::Log;
use super::{is_io, reader};
use rusqlite::Connection;
use rusqlite::hooks::Wal;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Pages of the log after which it is copied back into the file.
const PAGES: u32 = 4_000;
/// Pages of the log after which writers wait for the second thread.
const MOST_PAGES: u32 = 64_000;
/// Commits after which a process is one that writes much.
const MUCH: u32 = 256;

/// Who copies, and how far it is.
#[derive(Debug)]
pub(super) struct Sweep {
    path: PathBuf,
    log: Arc<Log>,
    /// A second thread may help. Without, for tests that must notice what is lost: it syncs more than they want.
    helped: bool,
    state: Mutex<State>,
    /// Told when the second thread has done its part.
    done: Condvar,
    /// The second thread's, once it was needed.
    connection: Mutex<Option<Connection>>,
}

#[derive(Debug)]
struct State {
    commits: u32,
    stage: Stage,
    /// Pages of the log at which something is done next.
    next: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Nothing is to be done.
    Rest,
    /// The second thread copies.
    Beside,
    /// It has copied all that was there when it began.
    Swept,
}

impl Sweep {
    /// Has the log of a database copied from now on, after commits of a connection.
    pub(super) fn watch(
        connection: &mut Connection,
        path: PathBuf,
        log: Arc<Log>,
        helped: bool,
    ) -> rusqlite::Result<()> {
        let sweep = Arc::new(Sweep {
            path,
            log,
            helped,
            state: Mutex::new(State { commits: 0, stage: Stage::Rest, next: PAGES }),
            done: Condvar::new(),
            connection: Mutex::default(),
        });
        connection.wal_hook(Some(move |wal: &mut Wal, pages| {
            sweep.committed(wal, u32::try_from(pages).unwrap_or(0));
            Ok(())
        }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// After a commit with which the log has so many pages.
    fn committed(self: &Arc<Self>, wal: &mut Wal, pages: u32) {
        let mut state = self.state();
        state.commits = state.commits.saturating_add(1);
        if pages < PAGES {
            // It has begun anew.
            state.next = PAGES;
        }
        while state.stage == Stage::Beside && pages >= MOST_PAGES {
            state = self.done.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        match state.stage {
            Stage::Rest if pages >= state.next => {
                if self.helped && state.commits >= MUCH && self.begin() {
                    state.stage = Stage::Beside;
                    return;
                }
            }
            Stage::Swept => {}
            Stage::Rest | Stage::Beside => return,
        }
        state.stage = Stage::Rest;
        // If somebody reads for long, the log cannot begin anew yet.
        state.next = pages.saturating_add(PAGES);
        drop(state);
        self.look_at(wal.checkpoint());
    }

    /// Starts the second thread; says whether it is there.
    fn begin(self: &Arc<Self>) -> bool {
        let sweep = Arc::clone(self);
        let thread = std::thread::Builder::new().name("flyball-sweep".to_owned());
        thread
            .spawn(move || {
                sweep.look_at(sweep.copy());
                sweep.state().stage = Stage::Swept;
                sweep.done.notify_all();
            })
            .is_ok()
    }

    /// The second thread's part.
    fn copy(&self) -> rusqlite::Result<()> {
        let mut kept = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
        let connection = match kept.take() {
            Some(connection) => connection,
            None => reader::beside(&self.path)?,
        };
        kept.insert(connection).query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()))
    }

    /// What could not be copied is still in the log, and is copied another time. But if the disk has failed, nobody
    /// knows what of the log is on it.
    fn look_at(&self, copied: rusqlite::Result<()>) {
        if copied.is_err_and(|error| is_io(&error)) {
            self.log.fail();
        }
    }
}

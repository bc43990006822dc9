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
        Sweep::new(path, log, helped).attach(connection)
    }

    fn new(path: PathBuf, log: Arc<Log>, helped: bool) -> Arc<Self> {
        Arc::new(Sweep {
            path,
            log,
            helped,
            state: Mutex::new(State { commits: 0, stage: Stage::Rest, next: PAGES }),
            done: Condvar::new(),
            connection: Mutex::default(),
        })
    }

    fn attach(self: Arc<Self>, connection: &mut Connection) -> rusqlite::Result<()> {
        connection.wal_hook(Some(move |wal: &mut Wal, pages| {
            let pages = u32::try_from(pages).unwrap_or(0);
            self.log.committed(pages);
            self.committed(wal, pages);
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
                // The second time what came during the first, so that little is left for the writer.
                sweep.look_at(sweep.copy());
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Commits with about twenty pages each, so many that the log would be many times as long as it may get.
    const COMMITS: u32 = 1_600;

    /// Commits to a new file; gives the sweep and how long the log has become, in pages.
    fn filled(name: &str, helped: bool) -> (Arc<Sweep>, u64) {
        let folder = std::env::temp_dir().join(format!("flyball-sweep-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("store.db");
        let mut connection = Connection::open(&path).unwrap();
        connection.query_row("PRAGMA journal_mode=WAL", [], |_| Ok(())).unwrap();
        connection.execute_batch("PRAGMA synchronous=OFF; CREATE TABLE t (n INTEGER, b BLOB)").unwrap();
        let sweep = Sweep::new(path.clone(), Arc::new(Log::beside(&path)), helped);
        Arc::clone(&sweep).attach(&mut connection).unwrap();
        for n in 0..COMMITS {
            connection.execute("INSERT INTO t VALUES (?1, zeroblob(80000))", [n]).unwrap();
        }
        let pages = std::fs::metadata(folder.join("store.db-wal")).unwrap().len() / 4_096;
        drop(connection);
        let again = Connection::open(&path).unwrap();
        let there: u32 = again.query_row("SELECT count(DISTINCT n) FROM t", [], |row| row.get(0)).unwrap();
        let whole: String = again.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
        assert_eq!((there, whole.as_str()), (COMMITS, "ok"));
        std::fs::remove_dir_all(folder).unwrap();
        (sweep, pages)
    }

    #[test]
    fn whoever_writes_much_is_helped_and_the_log_stays_short() {
        let (sweep, pages) = filled("much", true);
        assert!(sweep.connection.lock().unwrap().is_some(), "the second thread has worked");
        assert!(pages < u64::from(MOST_PAGES) + 1_000 && pages < u64::from(COMMITS) * 20, "{pages}");
        assert!(sweep.log.whole().is_ok());
    }

    #[test]
    fn without_help_the_writer_does_it_alone() {
        let (sweep, pages) = filled("alone", false);
        assert!(sweep.connection.lock().unwrap().is_none());
        assert!(pages < u64::from(PAGES) * 2, "{pages}");
    }
}

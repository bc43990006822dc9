//! Checkpoints: copies the write-ahead log back into the database file while writers continue.
//!
//! In a process with many writes, a background thread with a separate connection copies most of the log. The writer
//! then copies the small remainder, so that the log can restart. A process with few writes copies everything itself,
//! because it may exit before a background thread finishes.

use super::wal::WalSync;
use super::{is_io, reader};
use rusqlite::Connection;
use rusqlite::hooks::Wal;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Log size in pages that triggers a checkpoint.
const CHECKPOINT_PAGES: u32 = 4_000;
/// Log size in pages at which writers wait for the background thread.
const MAX_WAL_PAGES: u32 = 64_000;
/// Commits after which a process uses a background thread.
const BACKGROUND_AFTER_COMMITS: u32 = 256;

/// Checkpoint state of one database.
#[derive(Debug)]
pub(super) struct Checkpointer {
    path: PathBuf,
    wal: Arc<WalSync>,
    /// Whether a background thread may be used. Disabled in tests that must detect data loss, because its syncs would
    /// hide it.
    use_background_thread: bool,
    state: Mutex<CheckpointState>,
    /// Signaled when the background thread is done.
    done: Condvar,
    /// Connection of the background thread, opened on first use.
    connection: Mutex<Option<Connection>>,
}

#[derive(Debug)]
struct CheckpointState {
    commits: u32,
    stage: CheckpointStage,
    /// Log size in pages of the next action.
    next_at_pages: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CheckpointStage {
    /// Nothing to do.
    Idle,
    /// The background thread is copying.
    Background,
    /// The background thread has copied everything that was in the log when it started.
    BackgroundDone,
}

impl Checkpointer {
    /// Installs a hook that checkpoints the log after commits of a connection.
    pub(super) fn install(
        connection: &mut Connection,
        path: PathBuf,
        log: Arc<WalSync>,
        helped: bool,
    ) -> rusqlite::Result<()> {
        Checkpointer::new(path, log, helped).install_hook(connection)
    }

    fn new(path: PathBuf, log: Arc<WalSync>, helped: bool) -> Arc<Self> {
        Arc::new(Checkpointer {
            path,
            wal: log,
            use_background_thread: helped,
            state: Mutex::new(CheckpointState {
                commits: 0,
                stage: CheckpointStage::Idle,
                next_at_pages: CHECKPOINT_PAGES,
            }),
            done: Condvar::new(),
            connection: Mutex::default(),
        })
    }

    fn install_hook(self: Arc<Self>, connection: &mut Connection) -> rusqlite::Result<()> {
        connection.wal_hook(Some(move |wal: &mut Wal, pages| {
            let pages = u32::try_from(pages).unwrap_or(0);
            self.wal.set_frames(pages);
            self.after_commit(wal, pages);
            Ok(())
        }))
    }

    fn state(&self) -> MutexGuard<'_, CheckpointState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Called after a commit, with the size of the log in pages.
    fn after_commit(self: &Arc<Self>, wal: &mut Wal, pages: u32) {
        let mut state = self.state();
        state.commits = state.commits.saturating_add(1);
        if pages < CHECKPOINT_PAGES {
            // The log has restarted.
            state.next_at_pages = CHECKPOINT_PAGES;
        }
        while state.stage == CheckpointStage::Background && pages >= MAX_WAL_PAGES {
            state = self.done.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        match state.stage {
            CheckpointStage::Idle if pages >= state.next_at_pages => {
                if self.use_background_thread
                    && state.commits >= BACKGROUND_AFTER_COMMITS
                    && self.spawn_background()
                {
                    state.stage = CheckpointStage::Background;
                    return;
                }
            }
            CheckpointStage::BackgroundDone => {}
            CheckpointStage::Idle | CheckpointStage::Background => return,
        }
        state.stage = CheckpointStage::Idle;
        // A long-running reader may prevent the log from restarting.
        state.next_at_pages = pages.saturating_add(CHECKPOINT_PAGES);
        drop(state);
        self.check_result(wal.checkpoint());
    }

    /// Starts the background thread; returns whether it is running.
    fn spawn_background(self: &Arc<Self>) -> bool {
        let checkpointer = Arc::clone(self);
        let thread = std::thread::Builder::new().name("flyball-checkpoint".to_owned());
        thread
            .spawn(move || {
                // The second pass copies what arrived during the first, so that little is left for the writer.
                checkpointer.check_result(checkpointer.checkpoint_passive());
                checkpointer.check_result(checkpointer.checkpoint_passive());
                checkpointer.state().stage = CheckpointStage::BackgroundDone;
                checkpointer.done.notify_all();
            })
            .is_ok()
    }

    /// Checkpoint on the background thread.
    fn checkpoint_passive(&self) -> rusqlite::Result<()> {
        let mut kept = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
        let connection = match kept.take() {
            Some(connection) => connection,
            None => reader::open_second_connection(&self.path)?,
        };
        kept.insert(connection).query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()))
    }

    /// Pages that could not be copied are still in the log and are copied later. But after a disk error, it is
    /// unknown what part of the log is on disk.
    fn check_result(&self, copied: rusqlite::Result<()>) {
        if copied.is_err_and(|error| is_io(&error)) {
            self.wal.mark_failed();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Number of commits of about twenty pages each: enough for many times the maximum log size.
    const COMMITS: u32 = 1_600;

    /// Commits to a new file; returns the checkpointer and the resulting log size in pages.
    fn fill_store(name: &str, helped: bool) -> (Arc<Checkpointer>, u64) {
        let folder = std::env::temp_dir().join(format!("flyball-checkpoint-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("store.db");
        let mut connection = Connection::open(&path).unwrap();
        connection.query_row("PRAGMA journal_mode=WAL", [], |_| Ok(())).unwrap();
        connection.execute_batch("PRAGMA synchronous=OFF; CREATE TABLE t (n INTEGER, b BLOB)").unwrap();
        let checkpointer = Checkpointer::new(path.clone(), Arc::new(WalSync::for_database(&path)), helped);
        Arc::clone(&checkpointer).install_hook(&mut connection).unwrap();
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
        (checkpointer, pages)
    }

    #[test]
    fn heavy_writer_gets_background_checkpoints_and_a_short_wal() {
        let (checkpointer, pages) = fill_store("much", true);
        assert!(checkpointer.connection.lock().unwrap().is_some(), "the background thread has run");
        assert!(pages < u64::from(MAX_WAL_PAGES) + 1_000 && pages < u64::from(COMMITS) * 20, "{pages}");
        assert!(checkpointer.wal.check_not_failed().is_ok());
    }

    #[test]
    fn writer_checkpoints_alone_without_a_background_thread() {
        let (checkpointer, pages) = fill_store("alone", false);
        assert!(checkpointer.connection.lock().unwrap().is_none());
        assert!(pages < u64::from(CHECKPOINT_PAGES) * 2, "{pages}");
    }
}

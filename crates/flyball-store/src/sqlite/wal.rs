//! Write-ahead log sync: tracks which writes would survive a power loss.
//!
//! With many writing threads, commit and sync are separate steps: while one thread waits for the disk the next one
//! commits, and one sync covers all commits before it.

use crate::error::{StoreError, StoreErrorKind};
use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The log of a store. Each write has a mark, a number; once a mark is synced, so are all earlier ones.
#[derive(Debug)]
pub(super) struct WalSync {
    path: PathBuf,
    /// The newest mark. The first one covers writes of other processes before we opened the store.
    last_write: AtomicU64,
    synced: Mutex<SyncedState>,
    /// Frames in the log after the writer's last commit; 0 once it was taken.
    frames: AtomicU32,
    /// Whether a sync failed: the page cache can no longer be trusted.
    failed: AtomicBool,
}

#[derive(Debug, Default)]
struct SyncedState {
    /// Newest mark that is on disk.
    synced_through: u64,
    /// The log file, once we have synced it. It is never replaced while the store is open.
    file: Option<File>,
}

impl WalSync {
    /// The log of a database.
    pub(super) fn for_database(database: &Path) -> Self {
        let mut path = database.as_os_str().to_owned();
        path.push("-wal");
        WalSync {
            path: path.into(),
            last_write: AtomicU64::new(1),
            synced: Mutex::default(),
            frames: AtomicU32::new(0),
            failed: AtomicBool::new(false),
        }
    }

    fn lock(&self) -> MutexGuard<'_, SyncedState> {
        self.synced.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the log exists.
    pub(super) fn exists(&self) -> bool {
        self.path.exists()
    }

    /// When the log was last written.
    pub(super) fn modified(&self) -> Option<std::time::SystemTime> {
        std::fs::metadata(&self.path).and_then(|log| log.modified()).ok()
    }

    /// Records the number of frames in the log after a commit.
    pub(super) fn set_frames(&self, frames: u32) {
        self.frames.store(frames, Ordering::Release);
    }

    /// Takes the number of frames in the log after the last commit.
    pub(super) fn take_frames(&self) -> u32 {
        self.frames.swap(0, Ordering::AcqRel)
    }

    /// Fails if a sync has failed.
    pub(super) fn check_not_failed(&self) -> Result<(), StoreError> {
        if !self.failed.load(Ordering::Acquire) {
            return Ok(());
        }
        let what = format!("{}: a write could not be synced; restart to recover", self.path.display());
        Err(StoreError::new(StoreErrorKind::Io, what))
    }

    /// Records a failed sync.
    pub(super) fn mark_failed(&self) {
        self.failed.store(true, Ordering::Release);
    }

    /// The newest mark.
    pub(super) fn last_write(&self) -> u64 {
        self.last_write.load(Ordering::Acquire)
    }

    /// Records an unsynced write; returns its mark.
    pub(super) fn note_write(&self) -> u64 {
        self.last_write.fetch_add(1, Ordering::AcqRel) + 1
    }

    /// Records a write that SQLite has synced; returns its mark.
    pub(super) fn note_synced_write(&self) -> u64 {
        let mut disk = self.lock();
        disk.synced_through = self.note_write();
        disk.synced_through
    }

    /// Waits until a mark is on disk.
    pub(super) fn sync_through(&self, mark: u64) -> Result<(), StoreError> {
        self.sync_through_pipelined(mark, &mut || ())
    }

    /// Waits until a mark is on disk; calls `next` when our sync starts. The next writer would have to wait for the
    /// disk anyway, so more events can gather meanwhile.
    pub(super) fn sync_through_pipelined(&self, mark: u64, next: &mut dyn FnMut()) -> Result<(), StoreError> {
        let mut disk = self.lock();
        next();
        if disk.synced_through >= mark {
            return Ok(());
        }
        self.check_not_failed().map_err(StoreError::with_unknown_outcome)?;
        let newest = self.last_write();
        self.sync_file(&mut disk).map_err(|error| {
            self.mark_failed();
            let what = format!("{}: cannot sync: {error}", self.path.display());
            StoreError::new(StoreErrorKind::Io, what).with_unknown_outcome()
        })?;
        disk.synced_through = newest;
        Ok(())
    }

    fn sync_file(&self, disk: &mut SyncedState) -> std::io::Result<()> {
        if disk.file.is_none() {
            match File::open(&self.path) {
                Ok(file) => disk.file = Some(file),
                // Everything was copied into the database file and synced there.
                Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        disk.file.as_ref().map_or(Ok(()), File::sync_data)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn test_dir(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("flyball-log-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        folder
    }

    #[test]
    fn one_sync_covers_all_earlier_writes() {
        let folder = test_dir("serves");
        let database = folder.join("store.db");
        let log = WalSync::for_database(&database);
        std::fs::write(folder.join("store.db-wal"), "pages").unwrap();
        let (first, second) = (log.note_write(), log.note_write());
        log.sync_through(second).unwrap();
        assert_eq!(log.lock().synced_through, second);
        assert!(first < second && log.sync_through(first).is_ok());
        assert_eq!(log.note_synced_write(), log.lock().synced_through);
        assert!(log.note_write() > log.lock().synced_through);
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn nothing_is_reported_synced_after_a_failed_sync() {
        let folder = test_dir("failed");
        // It can be opened but not synced.
        std::os::unix::fs::symlink("/dev/null", folder.join("store.db-wal")).unwrap();
        let log = WalSync::for_database(&folder.join("store.db"));
        let before = log.note_synced_write();
        let mark = log.note_write();
        assert!(log.check_not_failed().is_ok());
        assert!(log.sync_through(mark).is_err_and(|error| error.outcome_unknown));
        assert!(log.check_not_failed().is_err());
        assert!(log.sync_through(mark).is_err_and(|error| error.outcome_unknown));
        assert!(log.sync_through(before).is_ok());
        std::fs::remove_dir_all(folder).unwrap();
    }
}

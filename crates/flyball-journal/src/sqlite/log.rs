//! The write-ahead log and the disk: who has written, and how much of it would survive a power loss.
//!
//! When many threads write, a commit and its sync are two steps: while one waits for the disk the next one commits, and
//! one sync serves all who have committed before it began.

use crate::error::{StoreError, Trouble};
use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The log of a store. Marks count what was written; all marks up to one are on the disk.
#[derive(Debug)]
pub(super) struct Log {
    path: PathBuf,
    /// The newest mark. The first is what others may have left there before we came.
    newest: AtomicU64,
    disk: Mutex<Disk>,
    /// The frames in the log after the last commit of the writer; 0 if that was asked for since.
    frames: AtomicU32,
    /// A sync has failed: what the system has in memory can no longer be trusted.
    broken: AtomicBool,
}

#[derive(Debug, Default)]
struct Disk {
    /// The newest mark that is on the disk.
    reached: u64,
    /// The log, once we have synced it ourselves. It is never replaced while the store is open.
    file: Option<File>,
}

impl Log {
    /// The log of a database.
    pub(super) fn beside(database: &Path) -> Self {
        let mut path = database.as_os_str().to_owned();
        path.push("-wal");
        Log {
            path: path.into(),
            newest: AtomicU64::new(1),
            disk: Mutex::default(),
            frames: AtomicU32::new(0),
            broken: AtomicBool::new(false),
        }
    }

    fn disk(&self) -> MutexGuard<'_, Disk> {
        self.disk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether there is a log.
    pub(super) fn is_there(&self) -> bool {
        self.path.exists()
    }

    /// When the log was written to last.
    pub(super) fn modified(&self) -> Option<std::time::SystemTime> {
        std::fs::metadata(&self.path).and_then(|log| log.modified()).ok()
    }

    /// The writer has committed, and the log has this many frames now.
    pub(super) fn committed(&self, frames: u32) {
        self.frames.store(frames, Ordering::Release);
    }

    /// The frames in the log after the last commit, once.
    pub(super) fn take_frames(&self) -> u32 {
        self.frames.swap(0, Ordering::AcqRel)
    }

    /// An error if a sync has failed.
    pub(super) fn whole(&self) -> Result<(), StoreError> {
        if !self.broken.load(Ordering::Acquire) {
            return Ok(());
        }
        let what = format!("{}: a write could not be synced; start again to recover", self.path.display());
        Err(StoreError::new(Trouble::Io, what))
    }

    /// A sync has failed.
    pub(super) fn fail(&self) {
        self.broken.store(true, Ordering::Release);
    }

    /// The newest mark.
    pub(super) fn mark(&self) -> u64 {
        self.newest.load(Ordering::Acquire)
    }

    /// Something was written, and not synced; its mark.
    pub(super) fn written(&self) -> u64 {
        self.newest.fetch_add(1, Ordering::AcqRel) + 1
    }

    /// Something was written and synced, by SQLite itself; its mark.
    pub(super) fn synced(&self) -> u64 {
        let mut disk = self.disk();
        disk.reached = self.written();
        disk.reached
    }

    /// Waits until a mark is on the disk.
    pub(super) fn reach(&self, mark: u64) -> Result<(), StoreError> {
        self.reach_in_line(mark, &mut || ())
    }

    /// Waits until a mark is on the disk; calls `next` when the disk is ours. Whoever writes next would wait for it too:
    /// meanwhile more can gather.
    pub(super) fn reach_in_line(&self, mark: u64, next: &mut dyn FnMut()) -> Result<(), StoreError> {
        let mut disk = self.disk();
        next();
        if disk.reached >= mark {
            return Ok(());
        }
        self.whole().map_err(StoreError::unsure)?;
        let newest = self.mark();
        self.sync(&mut disk).map_err(|error| {
            self.fail();
            let what = format!("{}: it cannot be synced: {error}", self.path.display());
            StoreError::new(Trouble::Io, what).unsure()
        })?;
        disk.reached = newest;
        Ok(())
    }

    fn sync(&self, disk: &mut Disk) -> std::io::Result<()> {
        if disk.file.is_none() {
            match File::open(&self.path) {
                Ok(file) => disk.file = Some(file),
                // Everything has been copied into the database file, and that was synced.
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

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("flyball-log-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        folder
    }

    #[test]
    fn one_sync_serves_all_that_was_written_before_it() {
        let folder = folder("serves");
        let database = folder.join("store.db");
        let log = Log::beside(&database);
        std::fs::write(folder.join("store.db-wal"), "pages").unwrap();
        let (first, second) = (log.written(), log.written());
        log.reach(second).unwrap();
        assert_eq!(log.disk().reached, second);
        assert!(first < second && log.reach(first).is_ok());
        assert_eq!(log.synced(), log.disk().reached);
        assert!(log.written() > log.disk().reached);
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn after_a_sync_that_failed_nothing_is_said_to_be_on_the_disk() {
        let folder = folder("failed");
        // It can be opened, and not synced.
        std::os::unix::fs::symlink("/dev/null", folder.join("store.db-wal")).unwrap();
        let log = Log::beside(&folder.join("store.db"));
        let before = log.synced();
        let mark = log.written();
        assert!(log.whole().is_ok());
        assert!(log.reach(mark).is_err_and(|error| error.unsure));
        assert!(log.whole().is_err());
        assert!(log.reach(mark).is_err_and(|error| error.unsure));
        assert!(log.reach(before).is_ok());
        std::fs::remove_dir_all(folder).unwrap();
    }
}

//! Write lock: processes that share one file write one after the other, in order of arrival.
//!
//! Two lock files form a turnstile. A writer waits for the first lock, then for the second, and releases the first
//! once it has the second. So a process that has just written queues behind all waiting ones. The operating system
//! releases the locks when a process dies for any reason.

use super::BUSY_TIMEOUT;
use crate::error::{StoreError, StoreErrorKind};
use std::fs::{File, OpenOptions, TryLockError};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError, mpsc};
use std::thread::ThreadId;

/// The two lock files of a store.
#[derive(Debug)]
pub(super) struct WriteLock {
    queue_path: PathBuf,
    lock_path: PathBuf,
    /// The thread of this process that holds the lock.
    holder: Mutex<Option<ThreadId>>,
    /// Threads of this process first compete for this mutex, then one of them for the files.
    files: Mutex<LockFiles>,
}

/// The lock files, kept open while this process does not hold them.
#[derive(Debug, Default)]
struct LockFiles {
    queue: Option<File>,
    lock: Option<File>,
}

/// Holds the write lock until it is dropped.
#[derive(Debug)]
pub(super) struct WriteLockGuard<'a> {
    lock: &'a WriteLock,
    /// `None` if the same thread already holds the lock.
    files: Option<MutexGuard<'a, LockFiles>>,
}

impl WriteLock {
    /// The lock files beside a database.
    pub(super) fn for_database(database: &Path) -> Self {
        let named = |ending: &str| {
            let mut name = database.as_os_str().to_owned();
            name.push(ending);
            PathBuf::from(name)
        };
        WriteLock {
            queue_path: named("-queue"),
            lock_path: named("-turn"),
            holder: Mutex::new(None),
            files: Mutex::default(),
        }
    }

    /// Waits for the lock.
    pub(super) fn acquire(&self) -> Result<WriteLockGuard<'_>, StoreError> {
        let own = Some(std::thread::current().id());
        if *self.holder() == own {
            // Reentrant: this thread already holds the lock.
            return Ok(WriteLockGuard { lock: self, files: None });
        }
        let mut inside = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        let waiting = self.lock_file(&self.queue_path, inside.queue.take())?;
        inside.lock = Some(self.lock_file(&self.lock_path, inside.lock.take())?);
        inside.queue = unlock_keep_open(waiting);
        *self.holder() = own;
        Ok(WriteLockGuard { lock: self, files: Some(inside) })
    }

    fn holder(&self) -> MutexGuard<'_, Option<ThreadId>> {
        self.holder.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks a file, which may already be open.
    fn lock_file(&self, path: &Path, open: Option<File>) -> Result<File, StoreError> {
        let wrong = |error: std::io::Error| {
            let kind = match error.kind() {
                std::io::ErrorKind::PermissionDenied => StoreErrorKind::PermissionDenied,
                std::io::ErrorKind::ReadOnlyFilesystem => StoreErrorKind::ReadOnly,
                std::io::ErrorKind::StorageFull => StoreErrorKind::DiskFull,
                std::io::ErrorKind::NotFound => StoreErrorKind::NotFound,
                _ => StoreErrorKind::Io,
            };
            StoreError::new(kind, format!("{}: {error}", path.display()))
        };
        let file = match open {
            Some(file) => file,
            None => OpenOptions::new()
                .create(true)
                .truncate(false)
                .write(true)
                .mode(0o600)
                .open(path)
                .map_err(wrong)?,
        };
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) => {}
            Err(TryLockError::Error(error)) => return Err(wrong(error)),
        }
        // Blocking in the kernel's queue keeps the order. A helper thread does it, so that the wait can time out.
        let (give, take) = mpsc::channel();
        std::thread::spawn(move || {
            let locked = file.lock();
            // If the caller gave up, the file is dropped here, which releases the lock.
            let _ = give.send(locked.map(|()| file));
        });
        match take.recv_timeout(BUSY_TIMEOUT) {
            Ok(Ok(file)) => Ok(file),
            Ok(Err(error)) => Err(wrong(error)),
            Err(_) => {
                let what = format!(
                    "{}: another process has held the lock for {} s",
                    path.display(),
                    BUSY_TIMEOUT.as_secs()
                );
                Err(StoreError::new(StoreErrorKind::Busy, what))
            }
        }
    }
}

/// Releases a lock but keeps the file open. A file that cannot be unlocked is closed, which releases the lock.
fn unlock_keep_open(file: File) -> Option<File> {
    file.unlock().is_ok().then_some(file)
}

impl Drop for WriteLockGuard<'_> {
    fn drop(&mut self) {
        // Clear the holder before unlocking: the next holder sets its own id, which we must not overwrite.
        if let Some(inside) = &mut self.files {
            *self.lock.holder() = None;
            inside.lock = inside.lock.take().and_then(unlock_keep_open);
        }
    }
}

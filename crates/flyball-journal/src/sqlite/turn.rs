//! Taking turns: processes that share one file write one after the other, in the order they came.
//!
//! Two lock files make a turnstile. Who wants to write waits at the first; who has passed it waits for the second,
//! and lets the next one to the first. Somebody who has just written therefore stands behind all who wait. The
//! system gives the locks back when a process dies, however it dies.

use super::PATIENCE;
use crate::error::{StoreError, Trouble};
use std::fs::{File, OpenOptions, TryLockError};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError, mpsc};
use std::thread::ThreadId;

/// The two lock files of a store.
#[derive(Debug)]
pub(super) struct Turns {
    waiting: PathBuf,
    writing: PathBuf,
    /// The thread whose turn it is, in this process.
    holder: Mutex<Option<ThreadId>>,
    /// Threads of this process sort it out among themselves before they go to the files.
    inside: Mutex<Files>,
}

/// The lock files while nobody of this process holds them, open since the last turn.
#[derive(Debug, Default)]
struct Files {
    waiting: Option<File>,
    writing: Option<File>,
}

/// A turn; it ends when it is dropped.
#[derive(Debug)]
pub(super) struct Held<'a> {
    turns: &'a Turns,
    /// None if a turn of the same thread is around this one.
    inside: Option<MutexGuard<'a, Files>>,
}

impl Turns {
    /// The lock files beside a database.
    pub(super) fn beside(database: &Path) -> Self {
        let named = |ending: &str| {
            let mut name = database.as_os_str().to_owned();
            name.push(ending);
            PathBuf::from(name)
        };
        Turns {
            waiting: named("-queue"),
            writing: named("-turn"),
            holder: Mutex::new(None),
            inside: Mutex::default(),
        }
    }

    /// Waits for the turn.
    pub(super) fn take(&self) -> Result<Held<'_>, StoreError> {
        let own = Some(std::thread::current().id());
        if *self.holder() == own {
            // This thread writes several times in one turn.
            return Ok(Held { turns: self, inside: None });
        }
        let mut inside = self.inside.lock().unwrap_or_else(PoisonError::into_inner);
        let waiting = self.lock(&self.waiting, inside.waiting.take())?;
        inside.writing = Some(self.lock(&self.writing, inside.writing.take())?);
        inside.waiting = unlocked(waiting);
        *self.holder() = own;
        Ok(Held { turns: self, inside: Some(inside) })
    }

    fn holder(&self) -> MutexGuard<'_, Option<ThreadId>> {
        self.holder.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks a file, which may be open already.
    fn lock(&self, path: &Path, open: Option<File>) -> Result<File, StoreError> {
        let wrong = |error: std::io::Error| {
            let kind = match error.kind() {
                std::io::ErrorKind::PermissionDenied => Trouble::Forbidden,
                std::io::ErrorKind::ReadOnlyFilesystem => Trouble::ReadOnly,
                std::io::ErrorKind::StorageFull => Trouble::Full,
                std::io::ErrorKind::NotFound => Trouble::Missing,
                _ => Trouble::Io,
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
        // Waiting in the system's own queue keeps the order; a thread does it, so that there is an end to waiting.
        let (give, take) = mpsc::channel();
        std::thread::spawn(move || {
            let locked = file.lock();
            // If nobody waits any more, the file is dropped here, and the lock with it.
            let _ = give.send(locked.map(|()| file));
        });
        match take.recv_timeout(PATIENCE) {
            Ok(Ok(file)) => Ok(file),
            Ok(Err(error)) => Err(wrong(error)),
            Err(_) => {
                let what = format!("{}: somebody has held it for {} s", path.display(), PATIENCE.as_secs());
                Err(StoreError::new(Trouble::Busy, what))
            }
        }
    }
}

/// Gives a lock back and keeps the file open. One that cannot be unlocked is closed, and the lock goes with it.
fn unlocked(file: File) -> Option<File> {
    file.unlock().is_ok().then_some(file)
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        // First the name, then the lock: whoever gets the turn next enters its own name, and that must not be wiped
        // out by us.
        if let Some(inside) = &mut self.inside {
            *self.turns.holder() = None;
            inside.writing = inside.writing.take().and_then(unlocked);
        }
    }
}

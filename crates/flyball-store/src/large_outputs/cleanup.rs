//! Orphan cleanup: removes the directories of sessions that disappeared without a `session.ended` event.

use super::session_dir::{is_hash_name, list_files, open_base, open_dir_at};
use rustix::fs::{FlockOperation, Stat};
use rustix::io::Errno;
use std::io::{ErrorKind, Result};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Age after which an unlocked directory is an orphan.
pub const MIN_ORPHAN_AGE: Duration = Duration::from_secs(24 * 60 * 60);

/// Counts of a cleanup.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CleanupSummary {
    /// Directories removed.
    pub removed: u64,
    /// Directories that are too recent, or locked by a live session.
    pub kept: u64,
    /// Orphans that could not be removed.
    pub failed: u64,
}

/// Removes session directories under `base` that are unlocked and unchanged for `older_than`. Does not follow links,
/// and ignores anything that does not look like a session directory. Usually called at session start, with
/// [`MIN_ORPHAN_AGE`].
///
/// # Errors
/// If the base cannot be read. A missing base is not an error.
pub fn remove_orphans(base: &Path, now: SystemTime, older_than: Duration) -> Result<CleanupSummary> {
    let mut summary = CleanupSummary::default();
    let fd = match open_base(base) {
        Ok(fd) => fd,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(summary),
        Err(error) => return Err(error),
    };
    for (name, _) in list_files(&fd)? {
        if !is_hash_name(&name) {
            continue;
        }
        // A link or a file with such a name is not ours.
        let Ok(folder) = open_dir_at(fd.as_fd(), &name) else { continue };
        if !is_orphan(&folder, now, older_than) {
            summary.kept += 1;
        } else if std::fs::remove_dir_all(base.join(&name)).is_ok() {
            summary.removed += 1;
        } else {
            summary.failed += 1;
        }
    }
    Ok(summary)
}

/// Whether it is old and unlocked. Takes the lock, which is held as long as the directory stays open.
fn is_orphan(folder: &OwnedFd, now: SystemTime, older_than: Duration) -> bool {
    let (Ok(own), Ok(inside)) = (rustix::fs::fstat(folder), list_files(folder)) else { return false };
    let newest = inside.iter().map(|(_, stat)| modified_at(stat)).chain([modified_at(&own)]).max();
    // A time in the future has no age.
    let age = newest.and_then(|newest| now.duration_since(newest).ok());
    if age.is_none_or(|age| age < older_than) {
        return false;
    }
    rustix::fs::flock(folder, FlockOperation::NonBlockingLockExclusive) != Err(Errno::WOULDBLOCK)
}

fn modified_at(stat: &Stat) -> SystemTime {
    let seconds = Duration::from_secs(u64::try_from(stat.st_mtime).unwrap_or(0));
    UNIX_EPOCH.checked_add(seconds).unwrap_or(UNIX_EPOCH)
}

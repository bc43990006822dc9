//! Removes the folders of sessions that are gone: they ended without a goodbye, and nobody will come for the files.

use super::folder::{files, is_session_name, open_base, open_folder};
use rustix::fs::{FlockOperation, Stat};
use rustix::io::Errno;
use std::io::{ErrorKind, Result};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// From this age on a folder that nobody holds is an orphan.
pub const ORPHAN_AGE: Duration = Duration::from_secs(24 * 60 * 60);

/// What a sweep has done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Swept {
    /// Folders that were removed.
    pub removed: u64,
    /// Folders that are too young, or held by a session that is alive.
    pub kept: u64,
    /// Folders that should have been removed but could not be.
    pub failed: u64,
}

/// Removes the session folders below `base` in which nothing has changed for `older_than` and which no session
/// holds. Links are not followed, and what does not look like a session's folder is left alone. Usually done when a
/// session starts, with [`ORPHAN_AGE`].
///
/// # Errors
/// If the base cannot be read. A base that does not exist is swept clean.
pub fn sweep(base: &Path, now: SystemTime, older_than: Duration) -> Result<Swept> {
    let mut swept = Swept::default();
    let fd = match open_base(base) {
        Ok(fd) => fd,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(swept),
        Err(error) => return Err(error),
    };
    for (name, _) in files(&fd)? {
        if !is_session_name(&name) {
            continue;
        }
        // A link or a file of that name is none of ours.
        let Ok(folder) = open_folder(fd.as_fd(), &name) else { continue };
        if !is_orphan(&folder, now, older_than) {
            swept.kept += 1;
        } else if std::fs::remove_dir_all(base.join(&name)).is_ok() {
            swept.removed += 1;
        } else {
            swept.failed += 1;
        }
    }
    Ok(swept)
}

/// Whether nobody has touched it for long, and nobody holds it. The lock stays with the open folder.
fn is_orphan(folder: &OwnedFd, now: SystemTime, older_than: Duration) -> bool {
    let (Ok(own), Ok(inside)) = (rustix::fs::fstat(folder), files(folder)) else { return false };
    let newest = inside.iter().map(|(_, stat)| changed(stat)).chain([changed(&own)]).max();
    // A time in the future is no age at all.
    let age = newest.and_then(|newest| now.duration_since(newest).ok());
    if age.is_none_or(|age| age < older_than) {
        return false;
    }
    rustix::fs::flock(folder, FlockOperation::NonBlockingLockExclusive) != Err(Errno::WOULDBLOCK)
}

fn changed(stat: &Stat) -> SystemTime {
    let seconds = Duration::from_secs(u64::try_from(stat.st_mtime).unwrap_or(0));
    UNIX_EPOCH.checked_add(seconds).unwrap_or(UNIX_EPOCH)
}

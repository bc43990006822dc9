//! Replaces a file atomically: readers see the old or the new content, never a mix.

use super::tool_error::ToolError;
use super::workspace::{WorkspacePath, is_same_file};
use rustix::fs::{AtFlags, FileType, FlockOperation, Mode, OFlags, Stat};
use std::fs::File;
use std::io::{self, Write};

/// Creates a new file; fails if it exists.
const CREATE_FILE_FLAGS: OFlags =
    OFlags::WRONLY.union(OFlags::CREATE).union(OFlags::EXCL).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
/// Maximum size of a written or edited file.
pub(super) const MAX_FILE_BYTES: usize = 32 * 1024 * 1024;

/// Writes a file, with the permissions (and, if allowed, the owner) of the file it replaces.
///
/// Fails without a change if the file is no longer the one that was resolved.
pub(super) fn replace_file(path: &WorkspacePath, content: &[u8]) -> Result<(), ToolError> {
    let shown = path.display();
    if content.len() > MAX_FILE_BYTES {
        let what = format!("'{shown}' would have {} bytes, more than {MAX_FILE_BYTES}", content.len());
        return Err(ToolError::new(
            "file_too_large",
            what,
            "write it in parts, or with a program in the shell",
        ));
    }
    match path.file_type() {
        None | Some(FileType::RegularFile) => {}
        Some(_) => {
            let what = format!("'{shown}' is not a regular file");
            return Err(ToolError::new("not_a_file", what, "use the path of a file"));
        }
    }
    let mode = path.stat.as_ref().map(|stat| Mode::from_raw_mode(stat.st_mode));
    if mode.is_some_and(|mode| !mode.intersects(Mode::WUSR | Mode::WGRP | Mode::WOTH)) {
        let what = format!("'{shown}' is read-only");
        return Err(ToolError::new(
            "read_only",
            what,
            "do not change it, or make it writable first (chmod u+w)",
        ));
    }
    let failed = |error: io::Error| ToolError::io(&shown, &error);
    let temporary = super::temp_files::temp_name().map_err(failed)?;
    let filled = write_temp_file(path, &temporary, content, mode).map_err(failed);
    let done = filled.and_then(|file| check_unchanged(path).map(|()| file)).and_then(|_held| {
        rustix::fs::renameat(&path.parent, &temporary, &path.parent, &path.name)
            .map_err(|errno| failed(errno.into()))
    });
    if done.is_err() {
        let _ = rustix::fs::unlinkat(&path.parent, &temporary, AtFlags::empty());
    }
    done
}

/// Writes the content to a new file in the same folder and syncs it. The lock on the returned file keeps the cleanup
/// from removing it.
fn write_temp_file(
    path: &WorkspacePath,
    temporary: &str,
    content: &[u8],
    mode: Option<Mode>,
) -> io::Result<File> {
    // The umask applies to a new file; a replaced one never gets more permissions than before.
    let initial_mode = mode.unwrap_or(Mode::from_raw_mode(0o666)) & Mode::from_raw_mode(0o777);
    let mut file = File::from(rustix::fs::openat(&path.parent, temporary, CREATE_FILE_FLAGS, initial_mode)?);
    // Without lock support, a leftover file simply stays.
    let _ = rustix::fs::flock(&file, FlockOperation::LockExclusive);
    file.write_all(content)?;
    if let (Some(mode), Some(old)) = (mode, &path.stat) {
        let new = rustix::fs::fstat(&file)?;
        if (new.st_uid, new.st_gid) != (old.st_uid, old.st_gid) {
            let owner = rustix::process::Uid::from_raw(old.st_uid);
            let group = rustix::process::Gid::from_raw(old.st_gid);
            // Only root can keep the original owner; otherwise the writer becomes the owner.
            let _ = rustix::fs::fchown(&file, Some(owner), Some(group));
        }
        rustix::fs::fchmod(&file, mode)?;
    }
    file.sync_data()?;
    Ok(file)
}

/// Checks that the file is still the one that was resolved, so that concurrent changes are not overwritten. A short
/// race before the rename remains.
fn check_unchanged(path: &WorkspacePath) -> Result<(), ToolError> {
    let now = rustix::fs::statat(&path.parent, &path.name, AtFlags::SYMLINK_NOFOLLOW).ok();
    let still = match (&path.stat, &now) {
        (None, None) => true,
        (Some(then), Some(now)) => is_same_file(then, now) && change_stamp(then) == change_stamp(now),
        _ => false,
    };
    if still {
        return Ok(());
    }
    let what = format!("'{}' was changed in the meantime", path.display());
    Err(ToolError::new("file_changed", what, "read it again first"))
}

fn change_stamp(stat: &Stat) -> (i64, i64, i64) {
    #[allow(clippy::useless_conversion, reason = "the width of the fields differs between systems")]
    (i64::from(stat.st_size), i64::from(stat.st_mtime), i64::try_from(stat.st_mtime_nsec).unwrap_or(0))
}

#[cfg(test)]
#[path = "write_tests.rs"]
mod tests;

//! Replaces a file as a whole: anyone who reads it sees the old content or the new one, never a part.

use super::error::ToolError;
use super::place::{Spot, same};
use rustix::fs::{AtFlags, FileType, FlockOperation, Mode, OFlags, Stat};
use std::fs::File;
use std::io::{self, Write};

/// A new file, and nothing that was there before.
const NEW_FILE: OFlags =
    OFlags::WRONLY.union(OFlags::CREATE).union(OFlags::EXCL).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
/// The most bytes that are written or edited at once.
pub(super) const FILE_BYTES: usize = 32 * 1024 * 1024;

/// Puts a content in a place, with the permissions (and, if we may, the owner) of what was there.
///
/// If what is there is not any more what the spot has seen, nothing is changed.
pub(super) fn replace(spot: &Spot, content: &[u8]) -> Result<(), ToolError> {
    let shown = spot.shown();
    if content.len() > FILE_BYTES {
        let what = format!("'{shown}' would have {} bytes, more than {FILE_BYTES}", content.len());
        return Err(ToolError::new(
            "file_too_large",
            what,
            "write it in parts, or with a program through the shell",
        ));
    }
    match spot.kind() {
        None | Some(FileType::RegularFile) => {}
        Some(_) => {
            let what = format!("'{shown}' is a folder or no regular file");
            return Err(ToolError::new("not_a_file", what, "name a file"));
        }
    }
    let mode = spot.found.as_ref().map(|stat| Mode::from_raw_mode(stat.st_mode));
    if mode.is_some_and(|mode| !mode.intersects(Mode::WUSR | Mode::WGRP | Mode::WOTH)) {
        let what = format!("'{shown}' is read-only");
        return Err(ToolError::new("read_only", what, "leave it, or make it writable first (chmod u+w)"));
    }
    let failed = |error: io::Error| ToolError::io(&shown, &error);
    let temporary = super::leftover::temporary().map_err(failed)?;
    let filled = fill(spot, &temporary, content, mode).map_err(failed);
    let done = filled.and_then(|file| unchanged(spot).map(|()| file)).and_then(|_held| {
        rustix::fs::renameat(&spot.folder, &temporary, &spot.folder, &spot.name)
            .map_err(|errno| failed(errno.into()))
    });
    if done.is_err() {
        let _ = rustix::fs::unlinkat(&spot.folder, &temporary, AtFlags::empty());
    }
    done
}

/// Writes the content to a new file beside the place, to the disk. As long as the file is held, nobody takes it for one
/// that was left behind.
fn fill(spot: &Spot, temporary: &str, content: &[u8], mode: Option<Mode>) -> io::Result<File> {
    // A new file gets what the umask leaves of this; a replaced one is never more open than it was.
    let at_first = mode.unwrap_or(Mode::from_raw_mode(0o666)) & Mode::from_raw_mode(0o777);
    let mut file = File::from(rustix::fs::openat(&spot.folder, temporary, NEW_FILE, at_first)?);
    // Where files cannot be locked, one that is left behind stays.
    let _ = rustix::fs::flock(&file, FlockOperation::LockExclusive);
    file.write_all(content)?;
    if let (Some(mode), Some(old)) = (mode, &spot.found) {
        let new = rustix::fs::fstat(&file)?;
        if (new.st_uid, new.st_gid) != (old.st_uid, old.st_gid) {
            let owner = rustix::process::Uid::from_raw(old.st_uid);
            let group = rustix::process::Gid::from_raw(old.st_gid);
            // Only root may give files away; everybody else becomes the owner of what he writes.
            let _ = rustix::fs::fchown(&file, Some(owner), Some(group));
        }
        rustix::fs::fchmod(&file, mode)?;
    }
    file.sync_data()?;
    Ok(file)
}

/// Whether the place still holds what was seen there: a change of somebody else is not overwritten unseen. Between
/// this look and the renaming a moment is left.
fn unchanged(spot: &Spot) -> Result<(), ToolError> {
    let now = rustix::fs::statat(&spot.folder, &spot.name, AtFlags::SYMLINK_NOFOLLOW).ok();
    let still = match (&spot.found, &now) {
        (None, None) => true,
        (Some(then), Some(now)) => same(then, now) && stamp(then) == stamp(now),
        _ => false,
    };
    if still {
        return Ok(());
    }
    let what = format!("'{}' was changed by somebody else in the meantime", spot.shown());
    Err(ToolError::new("changed_meanwhile", what, "read it again, then decide"))
}

fn stamp(stat: &Stat) -> (i64, i64, i64) {
    #[allow(clippy::useless_conversion, reason = "the width of the fields differs between systems")]
    (i64::from(stat.st_size), i64::from(stat.st_mtime), i64::try_from(stat.st_mtime_nsec).unwrap_or(0))
}

#[cfg(test)]
#[path = "write_tests.rs"]
mod tests;

//! The store's location on disk: created on first use, and private to the user.

use crate::error::{StoreError, StoreErrorKind};
use std::fs::DirBuilder;
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::Path;

/// Makes sure that the location exists and the file is writable. Returns the device and inode of the file, if it
/// exists.
pub(super) fn prepare(path: &Path, make_folder: bool) -> Result<Option<(u64, u64)>, StoreError> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    if make_folder {
        create_private_dir(folder)?;
    }
    if !folder.is_dir() {
        let what = format!("{}: no such folder", folder.display());
        return Err(StoreError::new(StoreErrorKind::NotFound, what));
    }
    let found = match std::fs::metadata(path) {
        Ok(found) => found,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            if path.is_symlink() {
                // Another user may have placed it there.
                let what = format!("{}: it is a dangling link", path.display());
                return Err(StoreError::new(StoreErrorKind::PermissionDenied, what));
            }
            return Ok(None);
        }
        Err(error) => return Err(io_error(path, &error)),
    };
    if found.is_dir() {
        return Err(StoreError::new(
            StoreErrorKind::NotADatabase,
            format!("{}: this is a folder", path.display()),
        ));
    }
    if found.permissions().readonly() {
        return Err(StoreError::new(
            StoreErrorKind::ReadOnly,
            format!("{}: it is read-only", path.display()),
        ));
    }
    Ok(Some((found.dev(), found.ino())))
}

/// The project's store directory: private, and ignored by Git.
fn create_private_dir(folder: &Path) -> Result<(), StoreError> {
    match DirBuilder::new().recursive(false).mode(0o700).create(folder) {
        Ok(()) => {
            let ignore = folder.join(".gitignore");
            let text = "# Flyball's store: private, do not commit.\n*\n";
            return std::fs::write(&ignore, text).map_err(|error| io_error(&ignore, &error));
        }
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
        Err(error) => return Err(io_error(folder, &error)),
    }
    let found = std::fs::symlink_metadata(folder).map_err(|error| io_error(folder, &error))?;
    let refuse = |why: &str| {
        Err(StoreError::new(StoreErrorKind::PermissionDenied, format!("{}: {why}", folder.display())))
    };
    if found.is_symlink() {
        return refuse("it is a link");
    }
    let own = std::fs::metadata("/proc/self").map(|me| me.uid()).ok();
    if own.is_some_and(|own| own != found.uid()) {
        return refuse("it belongs to another user");
    }
    if found.mode() & 0o022 != 0 {
        return refuse("other users may write to it");
    }
    Ok(())
}

pub(super) fn io_error(path: &Path, error: &std::io::Error) -> StoreError {
    let kind = match error.kind() {
        ErrorKind::NotFound => StoreErrorKind::NotFound,
        ErrorKind::PermissionDenied | ErrorKind::AlreadyExists => StoreErrorKind::PermissionDenied,
        ErrorKind::ReadOnlyFilesystem => StoreErrorKind::ReadOnly,
        ErrorKind::StorageFull => StoreErrorKind::DiskFull,
        _ => StoreErrorKind::Io,
    };
    StoreError::new(kind, format!("{}: {error}", path.display()))
}

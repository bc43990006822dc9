//! The store's place on the disk: made on first use, and private to the user.

use crate::error::{StoreError, Trouble};
use std::fs::DirBuilder;
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::Path;

/// Makes sure that the store has a place, and that its file may be written. Gives the inode of the file, if it is there.
pub(super) fn prepare(path: &Path, make_folder: bool) -> Result<Option<(u64, u64)>, StoreError> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    if make_folder {
        own_folder(folder)?;
    }
    if !folder.is_dir() {
        let what = format!("{}: there is no such folder", folder.display());
        return Err(StoreError::new(Trouble::Missing, what));
    }
    let found = match std::fs::metadata(path) {
        Ok(found) => found,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            if path.is_symlink() {
                // Somebody else may have put it there.
                let what = format!("{}: it is a link that leads nowhere", path.display());
                return Err(StoreError::new(Trouble::Forbidden, what));
            }
            return Ok(None);
        }
        Err(error) => return Err(wrong(path, &error)),
    };
    if found.is_dir() {
        return Err(StoreError::new(Trouble::NotADatabase, format!("{}: this is a folder", path.display())));
    }
    if found.permissions().readonly() {
        return Err(StoreError::new(Trouble::ReadOnly, format!("{}: it is read-only", path.display())));
    }
    Ok(Some((found.dev(), found.ino())))
}

/// The project's own folder: ours alone, and never committed.
fn own_folder(folder: &Path) -> Result<(), StoreError> {
    match DirBuilder::new().recursive(false).mode(0o700).create(folder) {
        Ok(()) => {
            let ignore = folder.join(".gitignore");
            let text = "# Flyball's store: private, and nothing for a repository.\n*\n";
            return std::fs::write(&ignore, text).map_err(|error| wrong(&ignore, &error));
        }
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
        Err(error) => return Err(wrong(folder, &error)),
    }
    let found = std::fs::symlink_metadata(folder).map_err(|error| wrong(folder, &error))?;
    let refuse = |why: &str| Err(StoreError::new(Trouble::Forbidden, format!("{}: {why}", folder.display())));
    if found.is_symlink() {
        return refuse("it is a link to another place");
    }
    let own = std::fs::metadata("/proc/self").map(|me| me.uid()).ok();
    if own.is_some_and(|own| own != found.uid()) {
        return refuse("it belongs to somebody else");
    }
    if found.mode() & 0o022 != 0 {
        return refuse("others may write to it");
    }
    Ok(())
}

pub(super) fn wrong(path: &Path, error: &std::io::Error) -> StoreError {
    let kind = match error.kind() {
        ErrorKind::NotFound => Trouble::Missing,
        ErrorKind::PermissionDenied | ErrorKind::AlreadyExists => Trouble::Forbidden,
        ErrorKind::ReadOnlyFilesystem => Trouble::ReadOnly,
        ErrorKind::StorageFull => Trouble::Full,
        _ => Trouble::Io,
    };
    StoreError::new(kind, format!("{}: {error}", path.display()))
}

//! Reads and replaces settings files: symbolic links and file modes are preserved, and changes are atomic.

use crate::error::CliError;
use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

/// Maximum size of a settings file.
const MAX_SETTINGS_BYTES: u64 = 16 * 1024 * 1024;

fn file_error(path: &Path, what: impl Into<String>, help: &str) -> CliError {
    CliError::new("hook_file", path.display().to_string(), what, help)
}

/// The actual file: follows symbolic links.
pub(super) fn resolve_link(path: &Path) -> Result<PathBuf, CliError> {
    match fs::symlink_metadata(path) {
        Ok(meta) if meta.file_type().is_symlink() => path.canonicalize().map_err(|error| {
            file_error(
                path,
                format!("this is a dangling symbolic link: {error}"),
                "remove the link, or create its target",
            )
        }),
        _ => Ok(path.to_path_buf()),
    }
}

/// The text of a file; `None` if it does not exist.
pub(super) fn read(path: &Path) -> Result<Option<String>, CliError> {
    let path = resolve_link(path)?;
    let meta = match fs::metadata(&path) {
        Ok(meta) => meta,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(file_error(&path, error.to_string(), "check its permissions")),
    };
    if !meta.is_file() || meta.len() > MAX_SETTINGS_BYTES {
        return Err(file_error(&path, "this is not a regular file, or it is too large", "check the path"));
    }
    let bytes =
        fs::read(&path).map_err(|error| file_error(&path, error.to_string(), "check its permissions"))?;
    String::from_utf8(bytes).map(Some).map_err(|_| {
        file_error(&path, "this is not UTF-8, so nothing was written", "write the file as UTF-8")
    })
}

/// Replaces or creates a file atomically: readers see either the old text or the new one.
pub(super) fn replace_atomically(path: &Path, text: &str) -> Result<(), CliError> {
    let path = resolve_link(path)?;
    let wrong = |error: std::io::Error| {
        file_error(
            &path,
            format!("cannot be written: {error}; nothing was changed"),
            "check the folder's permissions",
        )
    };
    let folder = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder).map_err(wrong)?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let beside = folder.join(format!(".{name}.flyball-{}", std::process::id()));
    let written = (|| {
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).open(&beside)?;
        if let Ok(meta) = fs::metadata(&path) {
            file.set_permissions(meta.permissions())?;
        }
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&beside, &path)
    })();
    written.map_err(|error| {
        // Do not leave the temporary file behind.
        let _ = fs::remove_file(&beside);
        wrong(error)
    })
}

/// Removes a file.
pub(super) fn remove(path: &Path) -> Result<(), CliError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(file_error(path, error.to_string(), "check the folder's permissions"))
        }
        _ => Ok(()),
    }
}

/// The path of a file's backup.
pub(super) fn backup_path(path: &Path) -> Result<PathBuf, CliError> {
    let path = resolve_link(path)?;
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(".before-flyball");
    Ok(path.with_file_name(name))
}

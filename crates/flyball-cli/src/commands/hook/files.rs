//! Reading and replacing settings files: a link is followed and stays, the mode stays, the change comes all at once.

use crate::fail::Failure;
use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

/// The largest settings file that is touched.
const FILE_BYTES: u64 = 16 * 1024 * 1024;

fn failure(path: &Path, what: impl Into<String>, advice: &str) -> Failure {
    Failure::new("hook_file", path.display().to_string(), what, advice)
}

/// The file that is really meant: a link is followed to what it points at.
pub(super) fn target(path: &Path) -> Result<PathBuf, Failure> {
    match fs::symlink_metadata(path) {
        Ok(meta) if meta.file_type().is_symlink() => path.canonicalize().map_err(|error| {
            failure(
                path,
                format!("this is a link that leads nowhere: {error}"),
                "remove the link, or make its target",
            )
        }),
        _ => Ok(path.to_path_buf()),
    }
}

/// The text of a file; `None` if there is none.
pub(super) fn read(path: &Path) -> Result<Option<String>, Failure> {
    let path = target(path)?;
    let meta = match fs::metadata(&path) {
        Ok(meta) => meta,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failure(&path, error.to_string(), "check who may read it")),
    };
    if !meta.is_file() || meta.len() > FILE_BYTES {
        return Err(failure(&path, "this is not a file, or a very large one", "look at what it is"));
    }
    let bytes =
        fs::read(&path).map_err(|error| failure(&path, error.to_string(), "check who may read it"))?;
    String::from_utf8(bytes)
        .map(Some)
        .map_err(|_| failure(&path, "this is not UTF-8, so nothing was written", "write the file as UTF-8"))
}

/// Replaces a file, or makes it, at once: whoever reads it meanwhile sees the old text or the new one.
pub(super) fn replace(path: &Path, text: &str) -> Result<(), Failure> {
    let path = target(path)?;
    let wrong = |error: std::io::Error| {
        failure(
            &path,
            format!("cannot be written: {error}; nothing was changed"),
            "check who may write there",
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
        // What was begun is not left lying about.
        let _ = fs::remove_file(&beside);
        wrong(error)
    })
}

/// Takes a file away.
pub(super) fn remove(path: &Path) -> Result<(), Failure> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(failure(path, error.to_string(), "check who may write there"))
        }
        _ => Ok(()),
    }
}

/// Where the copy of a file is kept.
pub(super) fn backup(path: &Path) -> Result<PathBuf, Failure> {
    let path = target(path)?;
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(".before-flyball");
    Ok(path.with_file_name(name))
}

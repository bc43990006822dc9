//! Files that the audit writes: whole or not at all, and never over somebody's work.

use crate::fail::Failure;
use std::fs;
use std::io::{Read, Write};
use std::path::Path;

/// How a page begins.
const PAGE: &[u8] = b"<!DOCTYPE html>";

/// Writes a page. An older page of this name gives way; anything else only with `force`, lest a transcript that was
/// named by mistake is lost.
pub(super) fn write_page(path: &Path, text: &str, force: bool) -> Result<(), Failure> {
    let special = path.metadata().is_ok_and(|meta| !meta.is_file());
    let mut start = [0; PAGE.len()];
    let mut begins = || fs::File::open(path).and_then(|mut file| file.read_exact(&mut start));
    let page = !special && begins().is_ok() && start == PAGE;
    write(path, text, force || page || special)
}

/// Writes a file. Without `over`, one that is there is left as it is, and that is a failure.
pub(super) fn write(path: &Path, text: &str, over: bool) -> Result<(), Failure> {
    let name = path.display().to_string();
    let cannot = |error: std::io::Error| {
        Failure::new(
            "cannot_write",
            name.clone(),
            error.to_string(),
            "name a file in a folder that can be written",
        )
    };
    let special = path.metadata().is_ok_and(|meta| !meta.is_file());
    if over && special {
        // Somebody wants it on a pipe or a terminal.
        return fs::write(path, text).map_err(cannot);
    }
    if over {
        // Beside it first, then in its place: a reader never sees half a page.
        let mut beside = path.as_os_str().to_owned();
        beside.push(format!(".{}.tmp", std::process::id()));
        let written = fs::write(&beside, text).and_then(|()| fs::rename(&beside, path));
        return written.map_err(|error| {
            let _ = fs::remove_file(&beside);
            cannot(error)
        });
    }
    let mut file = match fs::File::create_new(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
            let what = "there is a file of this name already";
            return Err(Failure::new("file_exists", name, what, "name another one, or add --force"));
        }
        Err(error) => return Err(cannot(error)),
    };
    file.write_all(text.as_bytes()).map_err(|error| {
        let _ = fs::remove_file(path);
        cannot(error)
    })
}

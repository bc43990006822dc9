//! Writing files: completely or not at all, and over existing files only on request.

use crate::error::CliError;
use std::fs;
use std::io::{Read, Write};
use std::path::Path;

/// First bytes of an HTML report.
const HTML_PREFIX: &[u8] = b"<!DOCTYPE html>";

/// Writes a page. An older page of this name gives way; anything else only with `force`, lest a transcript that was
/// named by mistake is lost.
pub(crate) fn write_page(path: &Path, text: &str, force: bool) -> Result<(), CliError> {
    let special = path.metadata().is_ok_and(|meta| !meta.is_file());
    let mut start = [0; HTML_PREFIX.len()];
    let mut begins = || fs::File::open(path).and_then(|mut file| file.read_exact(&mut start));
    let page = !special && begins().is_ok() && start == HTML_PREFIX;
    write_file(path, text, force || page || special)
}

/// Writes a file. Without `over`, one that is there is left as it is, and that is a failure.
pub(crate) fn write_file(path: &Path, text: &str, over: bool) -> Result<(), CliError> {
    let name = path.display().to_string();
    let cannot = |error: std::io::Error| {
        CliError::new("cannot_write", name.clone(), error.to_string(), "name a file in a writable folder")
    };
    let special = path.metadata().is_ok_and(|meta| !meta.is_file());
    if over && special {
        // A pipe or terminal cannot be replaced, only written to.
        return fs::write(path, text).map_err(cannot);
    }
    if over {
        // Write a temporary file and rename it: a reader never sees half a page.
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
            let what = "the file already exists";
            return Err(CliError::new("file_exists", name, what, "name another file, or add --force"));
        }
        Err(error) => return Err(cannot(error)),
    };
    file.write_all(text.as_bytes()).map_err(|error| {
        let _ = fs::remove_file(path);
        cannot(error)
    })
}

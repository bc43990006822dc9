//! Temporary files for atomic replacement. A process killed while it replaces a file leaves one behind; it is removed
//! when the run resumes.

use rustix::fs::{FlockOperation, flock};
use std::fs::File;
use std::io;
use std::path::Path;

const TEMP_PREFIX: &str = ".flyball-";
const TEMP_SUFFIX: &str = ".tmp";
/// Number of hex digits between prefix and suffix.
const TEMP_DIGITS: usize = 32;
/// Folders that tools do not write to.
const SKIPPED_DIRS: [&str; 4] = [".git", ".flyball", "target", "node_modules"];

/// Name of a temporary file in the folder of the file that it replaces.
pub(super) fn temp_name() -> io::Result<String> {
    Ok(format!("{TEMP_PREFIX}{}{TEMP_SUFFIX}", flyball_store::random_name()?))
}

fn is_temp_name(name: &str) -> bool {
    let digits =
        name.strip_prefix(TEMP_PREFIX).and_then(|rest| rest.strip_suffix(TEMP_SUFFIX)).unwrap_or_default();
    digits.len() == TEMP_DIGITS && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Removes temporary files below a folder whose writers are gone; a file being written is locked.
pub(crate) fn remove_stale_temp_files(folder: &Path) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let (name, path) = (entry.file_name(), entry.path());
        let Ok(kind) = entry.file_type() else { continue };
        if kind.is_dir() && !SKIPPED_DIRS.iter().any(|skipped| name == *skipped) {
            remove_stale_temp_files(&path);
        } else if kind.is_file()
            && name.to_str().is_some_and(is_temp_name)
            && let Ok(file) = File::open(&path)
            && flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok()
        {
            // A leftover file is harmless.
            let _ = std::fs::remove_file(&path);
        }
    }
}

#[cfg(test)]
#[path = "temp_files_tests.rs"]
mod tests;

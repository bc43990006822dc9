//! Half-written files: a process that is killed while it replaces a file leaves a temporary one behind, which is found
//! and removed when the work is taken up again.

use rustix::fs::{FlockOperation, flock};
use std::fs::File;
use std::io;
use std::path::Path;

const BEGIN: &str = ".flyball-";
const END: &str = ".tmp";
/// The digits between the two.
const DIGITS: usize = 32;
/// Folders in which nobody writes by hand.
const SKIPPED: [&str; 4] = [".git", ".flyball", "target", "node_modules"];

/// A name for a temporary file, in the folder of the file that it becomes.
pub(super) fn temporary() -> io::Result<String> {
    Ok(format!("{BEGIN}{}{END}", flyball_journal::random_name()?))
}

fn is_temporary(name: &str) -> bool {
    let digits = name.strip_prefix(BEGIN).and_then(|rest| rest.strip_suffix(END)).unwrap_or_default();
    digits.len() == DIGITS && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Removes temporary files below a folder whose writers are gone: one that is being written is locked.
pub(crate) fn remove_half_written(folder: &Path) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let (name, path) = (entry.file_name(), entry.path());
        let Ok(kind) = entry.file_type() else { continue };
        if kind.is_dir() && !SKIPPED.iter().any(|skipped| name == *skipped) {
            remove_half_written(&path);
        } else if kind.is_file()
            && name.to_str().is_some_and(is_temporary)
            && let Ok(file) = File::open(&path)
            && flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok()
        {
            // If it cannot be removed it does no harm but that it is there.
            let _ = std::fs::remove_file(&path);
        }
    }
}

#[cfg(test)]
#[path = "leftover_tests.rs"]
mod tests;

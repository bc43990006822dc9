//! Temporary folder for the results and settings of one gate run.

use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Counter for unique folder names.
static NEXT: AtomicU64 = AtomicU64::new(0);

/// A private folder that is removed with its contents on drop.
#[derive(Debug)]
pub(crate) struct ScratchDir(PathBuf);

impl ScratchDir {
    /// Creates a new folder.
    pub(crate) fn new() -> io::Result<Self> {
        loop {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let path = std::env::temp_dir().join(format!("flyball-gates-{}-{number}", std::process::id()));
            // Never reuse an existing folder, which may belong to someone else.
            match fs::DirBuilder::new().mode(0o700).create(&path) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                made => return made.map(|()| ScratchDir(path)),
            }
        }
    }

    /// Path of the folder.
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for ScratchDir {
    fn drop(&mut self) {
        // A failed cleanup is harmless; the system cleans its temporary folder.
        let _ = fs::remove_dir_all(&self.0);
    }
}

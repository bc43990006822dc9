//! A folder of one run's own: results and settings of the tools, gone when the run is over.

use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Numbers the folders of this process.
static NEXT: AtomicU64 = AtomicU64::new(0);

/// A folder that only this user can look into. It is removed with everything in it when dropped.
#[derive(Debug)]
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    /// Makes a folder that was not there before.
    pub(crate) fn new() -> io::Result<Self> {
        loop {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let path = std::env::temp_dir().join(format!("flyball-gates-{}-{number}", std::process::id()));
            // Made, never taken over: a folder that somebody else has put there is left alone.
            match fs::DirBuilder::new().mode(0o700).create(&path) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                made => return made.map(|()| Scratch(path)),
            }
        }
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // A file that cannot be removed is not worth a panic; the system clears its folder for temporary files.
        let _ = fs::remove_dir_all(&self.0);
    }
}

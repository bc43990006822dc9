//! The library that stands between a child process and its files: built with the system's compiler when it is needed.

use crate::kit::Fallible;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What it is made of.
const SOURCE: &str = include_str!("disk.c");

/// The library, ready to be preloaded.
#[derive(Debug, Clone)]
pub(crate) struct Disk(PathBuf);

impl Disk {
    /// Builds it in a folder.
    pub(crate) fn build(folder: &Path) -> Fallible<Self> {
        let (source, library) = (folder.join("disk.c"), folder.join("disk.so"));
        std::fs::write(&source, SOURCE).map_err(|error| format!("{}: {error}", source.display()))?;
        let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".to_owned());
        let built = Command::new(&compiler)
            .args(["-shared", "-fPIC", "-O1", "-o"])
            .arg(&library)
            .arg(&source)
            .args(["-ldl", "-pthread"])
            .output()
            .map_err(|error| format!("`{compiler}` is needed, for example: apt-get install gcc ({error})"))?;
        if built.status.success() {
            return Ok(Disk(library));
        }
        Err(String::from_utf8_lossy(&built.stderr).into_owned())
    }

    fn preload(&self) -> (&'static str, String) {
        ("LD_PRELOAD", self.0.display().to_string())
    }

    /// Ends the child before the `count`-th operation of a kind. The folder is the one its store is in.
    pub(crate) fn kill_at(&self, folder: &Path, kind: &str, count: u64) -> Vec<(&'static str, String)> {
        vec![
            self.preload(),
            ("TORTURE_FOLDER", folder.display().to_string()),
            ("TORTURE_KILL", format!("{kind}:{count}")),
        ]
    }

    /// Writes down what happens to the files of a folder.
    pub(crate) fn traced(&self, folder: &Path, trace: &Path) -> Vec<(&'static str, String)> {
        vec![
            self.preload(),
            ("TORTURE_FOLDER", folder.display().to_string()),
            ("TORTURE_TRACE", trace.display().to_string()),
        ]
    }

    /// Lets operations fail: `count` of a kind, from the `first` on, with an error number.
    pub(crate) fn failing(
        &self,
        folder: &Path,
        kind: &str,
        (first, count): (u64, u64),
        error: u64,
    ) -> Vec<(&'static str, String)> {
        vec![
            self.preload(),
            ("TORTURE_FOLDER", folder.display().to_string()),
            ("TORTURE_FAULT", format!("{kind}:{first}:{count}:{error}")),
        ]
    }
}

//! The preloaded library between a child process and its files, built with the system's compiler on demand.

use crate::harness::TortureResult;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Its source code.
const SOURCE: &str = include_str!("disk_shim.c");

/// The built library.
#[derive(Debug, Clone)]
pub(crate) struct DiskShim(PathBuf);

impl DiskShim {
    /// Builds it in a directory.
    pub(crate) fn build(folder: &Path) -> TortureResult<Self> {
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
            return Ok(DiskShim(library));
        }
        Err(String::from_utf8_lossy(&built.stderr).into_owned())
    }

    fn preload_env(&self) -> (&'static str, String) {
        ("LD_PRELOAD", self.0.display().to_string())
    }

    /// Kills the child before the `count`-th operation of a kind on the store in `folder`.
    pub(crate) fn env_kill_at(&self, folder: &Path, kind: &str, count: u64) -> Vec<(&'static str, String)> {
        vec![
            self.preload_env(),
            ("TORTURE_FOLDER", folder.display().to_string()),
            ("TORTURE_KILL", format!("{kind}:{count}")),
        ]
    }

    /// Records the operations on the files of a directory.
    pub(crate) fn env_trace(&self, folder: &Path, trace: &Path) -> Vec<(&'static str, String)> {
        vec![
            self.preload_env(),
            ("TORTURE_FOLDER", folder.display().to_string()),
            ("TORTURE_TRACE", trace.display().to_string()),
        ]
    }

    /// Makes `count` operations of a kind fail, starting with the `first`, with an error number.
    pub(crate) fn env_fail(
        &self,
        folder: &Path,
        kind: &str,
        (first, count): (u64, u64),
        error: u64,
    ) -> Vec<(&'static str, String)> {
        vec![
            self.preload_env(),
            ("TORTURE_FOLDER", folder.display().to_string()),
            ("TORTURE_FAULT", format!("{kind}:{first}:{count}:{error}")),
        ]
    }
}

//! Probes a folder for files and working tools.

use crate::process::{self, CancelToken, ProcessSpec};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Timeout for a version check.
const VERSION_TIMEOUT: Duration = Duration::from_secs(30);
/// Limits of the file search.
const MAX_DEPTH: usize = 6;
const MAX_ENTRIES: usize = 20_000;

/// Whether a folder contains installed or generated files.
pub(super) fn is_vendored_dir(name: &str) -> bool {
    name.starts_with('.')
        || matches!(
            name,
            "node_modules" | "target" | "venv" | "env" | "vendor" | "dist" | "build" | "__pycache__"
        )
}

/// A folder that may be a project.
pub(super) struct ProjectProbe {
    dir: PathBuf,
}

impl ProjectProbe {
    pub(super) fn new(dir: PathBuf) -> Self {
        ProjectProbe { dir }
    }

    /// Whether any of these files exists.
    pub(super) fn has(&self, names: &[&str]) -> bool {
        names.iter().any(|name| self.dir.join(name).exists())
    }

    /// Text of a file.
    pub(super) fn read(&self, name: &str) -> Option<String> {
        fs::read_to_string(self.dir.join(name)).ok()
    }

    /// Whether a file or folder of this name exists here or in a parent.
    pub(super) fn has_above(&self, name: &str) -> bool {
        let dir = self.dir.canonicalize().unwrap_or_else(|_| self.dir.clone());
        dir.ancestors().any(|dir| dir.join(name).exists())
    }

    /// Whether a command succeeds within the timeout.
    pub(super) fn works(&self, argv: &[&str]) -> bool {
        self.output_of(argv).is_some()
    }

    /// Output of a command, if it succeeds.
    pub(super) fn output_of(&self, argv: &[&str]) -> Option<String> {
        let mut job = ProcessSpec::new(argv.iter().copied(), &self.dir);
        job.deadline = Some(VERSION_TIMEOUT);
        let ran = process::run(&job, &CancelToken::new(), &mut |_, _| {}).ok()?;
        ran.ok().then(|| ran.stdout_text())
    }

    /// Whether a file with a matching name exists, within the depth limit and outside vendored folders.
    pub(super) fn any_file(&self, is_it: &dyn Fn(&str) -> bool) -> bool {
        let mut left = MAX_ENTRIES;
        search(&self.dir, MAX_DEPTH, &mut left, is_it)
    }
}

fn search(dir: &Path, depth: usize, left: &mut usize, is_it: &dyn Fn(&str) -> bool) -> bool {
    let Ok(entries) = fs::read_dir(dir) else { return false };
    for entry in entries.flatten() {
        if *left == 0 {
            return false;
        }
        *left -= 1;
        let name = entry.file_name().to_string_lossy().into_owned();
        match entry.file_type() {
            Ok(kind) if kind.is_file() && is_it(&name) => return true,
            Ok(kind)
                if kind.is_dir()
                    && depth > 0
                    && !is_vendored_dir(&name)
                    && search(&entry.path(), depth - 1, left, is_it) =>
            {
                return true;
            }
            _ => {}
        }
    }
    false
}

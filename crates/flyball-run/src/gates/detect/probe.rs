//! Looks at a folder and asks tools whether they are there.

use crate::process::{self, Cancel, Job};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long a tool may take to tell its version.
const PATIENCE: Duration = Duration::from_secs(30);
/// How many folders deep, and how many entries, are looked at for a kind of file.
const DEPTH: usize = 6;
const ENTRIES: usize = 20_000;

/// Whether a folder holds what was installed or built, not what was written.
pub(super) fn is_foreign(name: &str) -> bool {
    name.starts_with('.')
        || matches!(
            name,
            "node_modules" | "target" | "venv" | "env" | "vendor" | "dist" | "build" | "__pycache__"
        )
}

/// One folder that may be a project.
pub(super) struct Probe {
    dir: PathBuf,
}

impl Probe {
    pub(super) fn new(dir: PathBuf) -> Self {
        Probe { dir }
    }

    /// Whether one of these files is there.
    pub(super) fn has(&self, names: &[&str]) -> bool {
        names.iter().any(|name| self.dir.join(name).exists())
    }

    /// The text of a file.
    pub(super) fn read(&self, name: &str) -> Option<String> {
        fs::read_to_string(self.dir.join(name)).ok()
    }

    /// Whether a file or folder of this name is here or above.
    pub(super) fn has_above(&self, name: &str) -> bool {
        let dir = self.dir.canonicalize().unwrap_or_else(|_| self.dir.clone());
        dir.ancestors().any(|dir| dir.join(name).exists())
    }

    /// Whether a command works: it starts, ends in time, and ends with 0.
    pub(super) fn works(&self, argv: &[&str]) -> bool {
        self.ask(argv).is_some()
    }

    /// What a command prints, if it works.
    pub(super) fn ask(&self, argv: &[&str]) -> Option<String> {
        let mut job = Job::new(argv.iter().copied(), &self.dir);
        job.deadline = Some(PATIENCE);
        let ran = process::run(&job, &Cancel::new(), &mut |_, _| {}).ok()?;
        ran.ok().then(|| ran.stdout_text())
    }

    /// Whether there is a file whose name the test says yes to, not too deep and not in a foreign folder.
    pub(super) fn any_file(&self, is_it: &dyn Fn(&str) -> bool) -> bool {
        let mut left = ENTRIES;
        search(&self.dir, DEPTH, &mut left, is_it)
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
                    && !is_foreign(&name)
                    && search(&entry.path(), depth - 1, left, is_it) =>
            {
                return true;
            }
            _ => {}
        }
    }
    false
}

//! The files of the repository, except those in `.gitignore`.

use std::path::{Path, PathBuf};

/// Built, downloaded or generated paths that are never committed.
const IGNORED: [&str; 8] = [
    ".git",
    "target",
    ".flyball",
    "__pycache__",
    "fuzz/target",
    "fuzz/corpus",
    "fuzz/artifacts",
    "fuzz/Cargo.lock",
];

/// One file of the repository.
pub(crate) struct RepoFile {
    /// Its path relative to the root, with slashes.
    pub(crate) path: String,
    pub(crate) bytes: usize,
    /// Its text; empty if it is not text.
    pub(crate) text: String,
}

impl RepoFile {
    pub(crate) fn has_ending(&self, ending: &str) -> bool {
        self.path.rsplit_once('.').is_some_and(|(_, own)| own == ending)
    }

    /// Whether it contains only tests.
    pub(crate) fn is_test(&self) -> bool {
        self.path.ends_with("_tests.rs") || self.path.contains("/tests/")
    }
}

/// The root of the repository.
pub(crate) fn repo_root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask is in a folder").to_path_buf()
}

/// The text of a file that must exist.
pub(crate) fn read_file(path: &str) -> String {
    std::fs::read_to_string(repo_root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// All files, sorted by path.
pub(crate) fn all_files() -> Vec<RepoFile> {
    let mut found = Vec::new();
    walk(&repo_root(), "", &mut found);
    found.sort_by(|a, b| a.path.cmp(&b.path));
    assert!(found.len() > 50, "only {} files found: is this the repository?", found.len());
    found
}

fn walk(folder: &Path, prefix: &str, found: &mut Vec<RepoFile>) {
    for entry in std::fs::read_dir(folder).expect("a readable folder").flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = if prefix.is_empty() { name.clone() } else { format!("{prefix}/{name}") };
        if IGNORED.contains(&name.as_str())
            || IGNORED.contains(&path.as_str())
            || name.starts_with("callgrind.out.")
        {
            continue;
        }
        let kind = entry.file_type().expect("a file has a type");
        if kind.is_dir() {
            walk(&entry.path(), &path, found);
        } else if kind.is_file() {
            // A file may vanish while another test runs.
            let Ok(bytes) = std::fs::read(entry.path()) else { continue };
            let text = String::from_utf8(bytes.clone()).unwrap_or_default();
            found.push(RepoFile { path, bytes: bytes.len(), text });
        }
    }
}

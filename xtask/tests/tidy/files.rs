//! The files of the repository: everything but what `.gitignore` names.

use std::path::{Path, PathBuf};

/// What is built, downloaded or found, and never committed.
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

/// One file.
pub(crate) struct File {
    /// Its path from the root, with slashes.
    pub(crate) path: String,
    pub(crate) bytes: usize,
    /// Its text; empty if it is not text.
    pub(crate) text: String,
}

impl File {
    pub(crate) fn has_ending(&self, ending: &str) -> bool {
        self.path.rsplit_once('.').is_some_and(|(_, own)| own == ending)
    }

    /// Whether it holds nothing but tests.
    pub(crate) fn is_test(&self) -> bool {
        self.path.ends_with("_tests.rs") || self.path.contains("/tests/")
    }
}

/// The root of the repository.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask is in a folder").to_path_buf()
}

/// The text of a file that must be there.
pub(crate) fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// All files, sorted by path.
pub(crate) fn all() -> Vec<File> {
    let mut found = Vec::new();
    walk(&root(), "", &mut found);
    found.sort_by(|a, b| a.path.cmp(&b.path));
    assert!(found.len() > 50, "only {} files found: is this the repository?", found.len());
    found
}

fn walk(folder: &Path, prefix: &str, found: &mut Vec<File>) {
    for entry in std::fs::read_dir(folder).expect("a folder can be read").flatten() {
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
            found.push(File { path, bytes: bytes.len(), text });
        }
    }
}

//! High-water marks: facts about a store that are kept outside its own files.
//!
//! A store cannot detect that it was deleted, replaced, or rolled back to an older copy. So a small file in the
//! user's state directory records which store was at a path, how many events it had at least, and which sessions were
//! held. Later processes check the mark before they decide anything.

use crate::error::{StoreError, StoreErrorKind};
use serde::{Deserialize, Serialize};
use std::fs::{DirBuilder, Metadata, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// How many held sessions a mark names.
pub(crate) const MAX_NAMED_SESSIONS: usize = 5;
/// Maximum number of characters shown of a name.
const MAX_NAME_CHARS: usize = 64;
/// How many mark files one cleanup examines.
const MAX_CLEANUP_FILES: usize = 256;
/// Maximum size of a mark file.
const MAX_MARK_BYTES: u64 = 16 * 1024;

/// The directory that contains the marks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HighWaterMarks {
    dir: PathBuf,
}

/// Facts about a store that are kept outside its own files.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HighWaterMark {
    /// Random id of the store.
    pub store: String,
    /// Path of the store.
    pub path: String,
    /// Inode and birth time of the directory that the store belongs to.
    pub(crate) folder: (u64, u64),
    /// Highest position of an acknowledged event when the mark was last written.
    pub position: u64,
    /// Sessions that had not ended.
    pub open: u64,
    /// Sessions held for an operator: halted, blocked, stopped, or awaiting approval.
    pub held: u64,
    /// Names of some held sessions.
    pub names: Vec<String>,
}

/// The mark file of one store.
#[derive(Debug, Clone)]
pub(crate) struct HighWaterMarkFile {
    file: PathBuf,
    path: PathBuf,
    dir_identity: (u64, u64),
}

impl HighWaterMarks {
    /// This user's marks: under `XDG_STATE_HOME`, or `.local/state` in the home directory. `None` if neither is set.
    #[must_use]
    pub fn for_user() -> Option<Self> {
        let set = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let state = set("XDG_STATE_HOME").or_else(|| Some(set("HOME")?.join(".local").join("state")))?;
        Some(HighWaterMarks::in_dir(state.join("flyball").join("stores")))
    }

    /// Marks in the given directory.
    #[must_use]
    pub fn in_dir(folder: impl Into<PathBuf>) -> Self {
        HighWaterMarks { dir: folder.into() }
    }

    /// The directory.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The mark of the store at a path. `own_folder`: the directory was created for the store. `None` if the
    /// directory that it belongs to does not exist.
    pub(crate) fn for_store(&self, path: &Path, own_folder: bool) -> Option<HighWaterMarkFile> {
        let path = std::path::absolute(path).ok()?;
        let parent = path.parent()?;
        let anchor = if own_folder { parent.parent().unwrap_or(parent) } else { parent };
        let anchor = anchor.canonicalize().ok()?;
        let folder = dir_identity(&std::fs::metadata(&anchor).ok()?);
        let mut whole = anchor;
        if own_folder {
            whole.push(parent.file_name()?);
        }
        whole.push(path.file_name()?);
        let name = blake3::hash(whole.as_os_str().as_encoded_bytes()).to_hex();
        let file = self.dir.join(format!("{}.json", name.as_str().get(..32)?));
        Some(HighWaterMarkFile { file, path: whole, dir_identity: folder })
    }

    /// Removes marks of directories that no longer exist. A directory created there later is a different one.
    fn remove_stale(&self) {
        let Ok(entries) = std::fs::read_dir(&self.dir) else { return };
        for entry in entries.flatten().take(MAX_CLEANUP_FILES) {
            let Some(mark) = read_mark(&entry.path()) else { continue };
            let path = Path::new(&mark.path);
            let mut folders = path.ancestors().skip(1).take(2);
            let known = |folder: &Path| {
                std::fs::metadata(folder).is_ok_and(|meta| dir_identity(&meta) == mark.folder)
            };
            if !folders.any(known) {
                let _ = std::fs::remove_file(entry.path());
            }
        }
    }
}

/// Distinguishes a directory from a later one with the same name.
fn dir_identity(meta: &Metadata) -> (u64, u64) {
    let born = meta.created().ok().and_then(|born| born.duration_since(UNIX_EPOCH).ok());
    (meta.ino(), born.map_or(0, |born| u64::try_from(born.as_nanos()).unwrap_or(0)))
}

fn read_mark(file: &Path) -> Option<HighWaterMark> {
    if std::fs::metadata(file).ok()?.len() > MAX_MARK_BYTES {
        return None;
    }
    serde_json::from_slice(&std::fs::read(file).ok()?).ok()
}

impl HighWaterMarkFile {
    /// Reads the mark, if it belongs to this directory.
    pub(crate) fn read(&self) -> Option<HighWaterMark> {
        read_mark(&self.file).filter(|mark| mark.folder == self.dir_identity)
    }

    /// Age of the mark at `now`; `None` if there is none.
    pub(crate) fn age(&self, now: SystemTime) -> Option<Duration> {
        let written = std::fs::metadata(&self.file).and_then(|meta| meta.modified()).ok()?;
        Some(now.duration_since(written).unwrap_or_default())
    }

    /// Writes the mark without a sync: after a power loss an older one may remain, which only claims less.
    pub(crate) fn write(&self, mark: &HighWaterMark) -> std::io::Result<()> {
        let mark = HighWaterMark {
            path: self.path.display().to_string(),
            folder: self.dir_identity,
            ..mark.clone()
        };
        let folder = self.file.parent().unwrap_or(Path::new("."));
        if !folder.is_dir() {
            DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        }
        let temporary = self.file.with_extension(format!("{}.new", std::process::id()));
        let mut file =
            OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&temporary)?;
        let written = file.write_all(serde_json::to_string(&mark)?.as_bytes());
        let placed = written.and_then(|()| std::fs::rename(&temporary, &self.file));
        placed.inspect_err(|_| drop(std::fs::remove_file(&temporary)))
    }

    /// Path of the mark file.
    pub(crate) fn file(&self) -> &Path {
        &self.file
    }

    /// Removes the mark, which accepts the store that is at the path now.
    pub(crate) fn remove(&self) -> std::io::Result<()> {
        match std::fs::remove_file(&self.file) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// Removes marks of directories that no longer exist.
    pub(crate) fn remove_stale_siblings(&self) {
        if let Some(folder) = self.file.parent() {
            HighWaterMarks::in_dir(folder).remove_stale();
        }
    }

    /// Checks the mark against a missing file, or one that is not a store.
    pub(crate) fn check_absent(&self, mark: &HighWaterMark, what: &str) -> Result<(), StoreError> {
        // If every session had ended, the store governed nothing.
        if mark.position == 0 || mark.open == 0 {
            return Ok(());
        }
        Err(self.replaced_error(format!("{what}: {}", mark.describe())))
    }

    /// Checks the mark against the store at its path.
    pub(crate) fn check(&self, mark: &HighWaterMark, id: &str, position: u64) -> Result<(), StoreError> {
        if id != mark.store {
            return self.check_absent(mark, "the store was replaced by another one");
        }
        if position < mark.position {
            let what = "the store was rolled back to an older copy";
            return Err(self.replaced_error(format!(
                "{what}; it has events up to {position}, but had at least {}",
                mark.position
            )));
        }
        Ok(())
    }

    fn replaced_error(&self, what: String) -> StoreError {
        let own = self.path.ends_with(".flyball/flyball.db");
        let flag = if own { String::new() } else { format!(" --store sqlite:{}", self.path.display()) };
        let what = format!("{}: {what}", self.path.display());
        StoreError::new(StoreErrorKind::Replaced, what).with_help(format!(
            "put the file back, or run `flyball restore FILE{flag}`; to accept the current store, an operator runs `flyball doctor --accept{flag}`"
        ))
    }
}

impl HighWaterMark {
    /// Names of held sessions, safe to show to an agent and on a terminal.
    fn printable_names(&self) -> Vec<String> {
        let plain = |c: char| if c.is_ascii_alphanumeric() || "_-.:/@".contains(c) { c } else { '?' };
        self.names.iter().map(|name| name.chars().take(MAX_NAME_CHARS).map(plain).collect()).collect()
    }

    /// Describes the contents of the store.
    fn describe(&self) -> String {
        let plural = |count: u64, what: &str| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
        let held = match (self.held, self.names.is_empty()) {
            (0, _) => String::new(),
            (held, true) => format!(", {held} of them held for an operator"),
            (held, false) => {
                format!(", {held} of them held for an operator ({})", self.printable_names().join(", "))
            }
        };
        format!("it had {} and {}{held}", plural(self.position, "event"), plural(self.open, "open session"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark_file(name: &str) -> (PathBuf, HighWaterMarkFile) {
        let folder = std::env::temp_dir().join(format!("flyball-marks-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(folder.join("project")).unwrap();
        let marks = HighWaterMarks::in_dir(folder.join("marks"));
        let mark_file = marks.for_store(&folder.join("project/.flyball/flyball.db"), true).unwrap();
        (folder, mark_file)
    }

    fn mark() -> HighWaterMark {
        HighWaterMark {
            store: "a".to_owned(),
            position: 7,
            open: 2,
            held: 1,
            names: vec!["s".to_owned()],
            ..HighWaterMark::default()
        }
    }

    #[test]
    fn removed_replaced_and_older_stores_are_refused() {
        let (folder, mark_file) = mark_file("refused");
        assert!(mark_file.read().is_none());
        mark_file.write(&mark()).unwrap();
        let known = mark_file.read().unwrap();
        assert!(mark_file.check(&known, "a", 7).is_ok() && mark_file.check(&known, "a", 9).is_ok());
        for refused in [
            mark_file.check_absent(&known, "gone"),
            mark_file.check(&known, "b", 99),
            mark_file.check(&known, "a", 6),
        ] {
            let error = refused.unwrap_err();
            assert_eq!(error.kind, StoreErrorKind::Replaced);
            assert!(error.help().contains("flyball doctor --accept`"), "{error:?}");
        }
        let over = HighWaterMark { open: 0, ..known };
        assert!(mark_file.check_absent(&over, "gone").is_ok(), "every session had ended");
        mark_file.remove().unwrap();
        mark_file.remove().unwrap();
        assert!(mark_file.read().is_none());
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn recreated_directory_does_not_match_its_old_mark() {
        let (folder, mark_file) = mark_file("again");
        mark_file.write(&mark()).unwrap();
        std::fs::rename(folder.join("project"), folder.join("old")).unwrap();
        std::fs::create_dir_all(folder.join("project")).unwrap();
        let again = HighWaterMarks::in_dir(folder.join("marks"))
            .for_store(&folder.join("project/.flyball/flyball.db"), true)
            .unwrap();
        assert_eq!(again.file, mark_file.file);
        assert!(again.read().is_none(), "a new folder has no mark");
        again.remove_stale_siblings();
        assert!(!again.file.exists(), "a stale mark is removed");
        std::fs::remove_dir_all(folder).unwrap();
    }
}

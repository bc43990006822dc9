//! High-water marks: what is known of a store outside of its own files.
//!
//! A store that was deleted, replaced by another one or by an older copy of itself cannot know it. A small file in the
//! user's state folder says which store was at a path, how many events it had at least, and which sessions were held. A
//! later process compares before it decides anything.

use crate::error::{StoreError, Trouble};
use serde::{Deserialize, Serialize};
use std::fs::{DirBuilder, Metadata, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// How many held sessions are named in a mark.
pub(crate) const NAMED: usize = 5;
/// How much of a name is shown.
const NAME_CHARS: usize = 64;
/// How many marks are looked at when outdated ones are removed.
const LOOKED_AT: usize = 256;
/// The largest file that is read as a mark.
const MARK_BYTES: u64 = 16 * 1024;

/// The folder in which marks are kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Marks {
    folder: PathBuf,
}

/// What is known of a store outside of its own files.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mark {
    /// The random id of the store.
    pub store: String,
    /// Where it is.
    pub path: String,
    /// The folder that the store belongs to: its inode and its time of birth.
    pub(crate) folder: (u64, u64),
    /// The highest position of an acknowledged event, as of the last time that the mark was written.
    pub position: u64,
    /// Sessions that were not over.
    pub open: u64,
    /// Sessions that waited for a person: halted, blocked, stopped, or with a plan to confirm.
    pub held: u64,
    /// The names of some of them.
    pub names: Vec<String>,
}

/// The mark of one store.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    file: PathBuf,
    path: PathBuf,
    folder: (u64, u64),
}

impl Marks {
    /// The marks of this user: below `XDG_STATE_HOME`, or `.local/state` in the home folder. `None` if there is neither.
    #[must_use]
    pub fn of_user() -> Option<Self> {
        let set = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let state = set("XDG_STATE_HOME").or_else(|| Some(set("HOME")?.join(".local").join("state")))?;
        Some(Marks::at(state.join("flyball").join("stores")))
    }

    /// Marks in a folder.
    #[must_use]
    pub fn at(folder: impl Into<PathBuf>) -> Self {
        Marks { folder: folder.into() }
    }

    /// The folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The mark of the store at a path. `own_folder`: the folder of the file is the store's own, and is made with it.
    /// `None` if the folder that it belongs to is not there.
    pub(crate) fn of(&self, path: &Path, own_folder: bool) -> Option<Place> {
        let path = std::path::absolute(path).ok()?;
        let parent = path.parent()?;
        let anchor = if own_folder { parent.parent().unwrap_or(parent) } else { parent };
        let anchor = anchor.canonicalize().ok()?;
        let folder = birth(&std::fs::metadata(&anchor).ok()?);
        let mut whole = anchor;
        if own_folder {
            whole.push(parent.file_name()?);
        }
        whole.push(path.file_name()?);
        let name = blake3::hash(whole.as_os_str().as_encoded_bytes()).to_hex();
        let file = self.folder.join(format!("{}.json", name.as_str().get(..32)?));
        Some(Place { file, path: whole, folder })
    }

    /// Removes marks of folders that are gone. They protect nothing: whatever is there one day is another folder.
    fn clean_up(&self) {
        let Ok(entries) = std::fs::read_dir(&self.folder) else { return };
        for entry in entries.flatten().take(LOOKED_AT) {
            let Some(mark) = read(&entry.path()) else { continue };
            let path = Path::new(&mark.path);
            let mut folders = path.ancestors().skip(1).take(2);
            let known =
                |folder: &Path| std::fs::metadata(folder).is_ok_and(|meta| birth(&meta) == mark.folder);
            if !folders.any(known) {
                let _ = std::fs::remove_file(entry.path());
            }
        }
    }
}

/// A folder of the same name that was made later is another folder.
fn birth(meta: &Metadata) -> (u64, u64) {
    let born = meta.created().ok().and_then(|born| born.duration_since(UNIX_EPOCH).ok());
    (meta.ino(), born.map_or(0, |born| u64::try_from(born.as_nanos()).unwrap_or(0)))
}

fn read(file: &Path) -> Option<Mark> {
    if std::fs::metadata(file).ok()?.len() > MARK_BYTES {
        return None;
    }
    serde_json::from_slice(&std::fs::read(file).ok()?).ok()
}

impl Place {
    /// The mark, if there is one of this folder.
    pub(crate) fn read(&self) -> Option<Mark> {
        read(&self.file).filter(|mark| mark.folder == self.folder)
    }

    /// How old the mark is at a moment; `None` if there is none.
    pub(crate) fn age(&self, now: SystemTime) -> Option<Duration> {
        let written = std::fs::metadata(&self.file).and_then(|meta| meta.modified()).ok()?;
        Some(now.duration_since(written).unwrap_or_default())
    }

    /// Writes the mark. It is not synced: after a power loss an older one may be there, which claims less.
    pub(crate) fn write(&self, mark: &Mark) -> std::io::Result<()> {
        let mark = Mark { path: self.path.display().to_string(), folder: self.folder, ..mark.clone() };
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

    /// The file of the mark.
    pub(crate) fn file(&self) -> &Path {
        &self.file
    }

    /// Removes the mark: whatever is at the path now is accepted.
    pub(crate) fn forget(&self) -> std::io::Result<()> {
        match std::fs::remove_file(&self.file) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// Removes marks that protect nothing any more.
    pub(crate) fn clean_up(&self) {
        if let Some(folder) = self.file.parent() {
            Marks::at(folder).clean_up();
        }
    }

    /// Compares the mark with a file that holds no store, or none at all.
    pub(crate) fn check_absent(&self, mark: &Mark, what: &str) -> Result<(), StoreError> {
        // A store in which every session was over governed nothing any more.
        if mark.position == 0 || mark.open == 0 {
            return Ok(());
        }
        Err(self.refused(format!("{what}: {}", mark.contents())))
    }

    /// Compares the mark with the store at its path.
    pub(crate) fn check(&self, mark: &Mark, id: &str, position: u64) -> Result<(), StoreError> {
        if id != mark.store {
            return self.check_absent(mark, "another store is in place of the one that was here");
        }
        if position < mark.position {
            let what = "the store is older than it was: an old copy was put back";
            return Err(self.refused(format!(
                "{what}; it has events up to {position}, and had {} at least",
                mark.position
            )));
        }
        Ok(())
    }

    fn refused(&self, what: String) -> StoreError {
        let own = self.path.ends_with(".flyball/flyball.db");
        let flag = if own { String::new() } else { format!(" --store sqlite:{}", self.path.display()) };
        let what = format!("{}: {what}", self.path.display());
        StoreError::new(Trouble::Replaced, what).with_help(format!(
            "put the file back, or run `flyball restore FILE{flag}`; a person accepts what is there now with `flyball doctor --accept{flag}`"
        ))
    }
}

impl Mark {
    /// The names of held sessions, as they may be shown to an agent and on a terminal.
    fn shown(&self) -> Vec<String> {
        let plain = |c: char| if c.is_ascii_alphanumeric() || "_-.:/@".contains(c) { c } else { '?' };
        self.names.iter().map(|name| name.chars().take(NAME_CHARS).map(plain).collect()).collect()
    }

    /// The contents of the store in words.
    fn contents(&self) -> String {
        let plural = |count: u64, what: &str| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
        let held = match (self.held, self.names.is_empty()) {
            (0, _) => String::new(),
            (held, true) => format!(", {held} of them held for a person"),
            (held, false) => format!(", {held} of them held for a person ({})", self.shown().join(", ")),
        };
        format!("it had {} and {}{held}", plural(self.position, "event"), plural(self.open, "open session"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(name: &str) -> (PathBuf, Place) {
        let folder = std::env::temp_dir().join(format!("flyball-marks-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(folder.join("project")).unwrap();
        let marks = Marks::at(folder.join("marks"));
        let place = marks.of(&folder.join("project/.flyball/flyball.db"), true).unwrap();
        (folder, place)
    }

    fn mark() -> Mark {
        Mark {
            store: "a".to_owned(),
            position: 7,
            open: 2,
            held: 1,
            names: vec!["s".to_owned()],
            ..Mark::default()
        }
    }

    #[test]
    fn removed_replaced_and_older_stores_are_refused() {
        let (folder, place) = place("refused");
        assert!(place.read().is_none());
        place.write(&mark()).unwrap();
        let known = place.read().unwrap();
        assert!(place.check(&known, "a", 7).is_ok() && place.check(&known, "a", 9).is_ok());
        for refused in
            [place.check_absent(&known, "gone"), place.check(&known, "b", 99), place.check(&known, "a", 6)]
        {
            let error = refused.unwrap_err();
            assert_eq!(error.trouble, Trouble::Replaced);
            assert!(error.advice().contains("flyball doctor --accept`"), "{error:?}");
        }
        let over = Mark { open: 0, ..known };
        assert!(place.check_absent(&over, "gone").is_ok(), "nothing was governed any more");
        place.forget().unwrap();
        place.forget().unwrap();
        assert!(place.read().is_none());
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_folder_that_was_made_again_is_another_folder() {
        let (folder, place) = place("again");
        place.write(&mark()).unwrap();
        std::fs::rename(folder.join("project"), folder.join("old")).unwrap();
        std::fs::create_dir_all(folder.join("project")).unwrap();
        let again =
            Marks::at(folder.join("marks")).of(&folder.join("project/.flyball/flyball.db"), true).unwrap();
        assert_eq!(again.file, place.file);
        assert!(again.read().is_none(), "a new folder has no mark");
        again.clean_up();
        assert!(!again.file.exists(), "a mark that protects nothing is removed");
        std::fs::remove_dir_all(folder).unwrap();
    }
}

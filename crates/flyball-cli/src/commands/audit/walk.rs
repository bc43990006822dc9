//! Which files there are: named ones and those in folders, each once, whatever links lead to it.

use crate::fail::Failure;
use flyball_adapt::audit::Unread;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Error;
use std::path::{Path, PathBuf};

/// One file that is to be looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Found {
    /// As it was named, or found below a folder that was named.
    pub(super) path: PathBuf,
    pub(super) bytes: u64,
}

/// All files, in the order of their real places; and the folders that could not be looked into.
#[derive(Debug, Default)]
pub(super) struct Walked {
    pub(super) files: Vec<Found>,
    pub(super) closed: Vec<Unread>,
}

/// A folder that is still to be looked into: where it really is, and how it is called.
type Ahead = (PathBuf, PathBuf);

#[derive(Default)]
struct Walk {
    /// By the real place, so that a file that is reached twice is read once.
    files: BTreeMap<PathBuf, Found>,
    folders: BTreeSet<PathBuf>,
    ahead: Vec<Ahead>,
    closed: Vec<Unread>,
}

/// Finds the files under these paths. A path that was named and is not there is a failure; one that is found on the
/// way and cannot be read is not.
pub(super) fn walk(paths: &[PathBuf]) -> Result<Walked, Failure> {
    let mut walk = Walk::default();
    for path in paths {
        let cannot = |error: Error| {
            Failure::new("cannot_read", path.display().to_string(), error.to_string(), "check the path")
        };
        let real = path.canonicalize().map_err(cannot)?;
        let meta = real.metadata().map_err(cannot)?;
        if meta.is_dir() {
            walk.folder(real, path.clone());
        } else if meta.is_file() {
            walk.file(real, path.clone(), meta.len());
        } else {
            return Err(cannot(Error::other("this is neither a file nor a folder")));
        }
    }
    while let Some((real, shown)) = walk.ahead.pop() {
        if let Err(error) = walk.look(&real, &shown) {
            walk.closed.push(unread(&shown, &error));
        }
    }
    Ok(Walked { files: walk.files.into_values().collect(), closed: walk.closed })
}

impl Walk {
    fn folder(&mut self, real: PathBuf, shown: PathBuf) {
        if self.folders.insert(real.clone()) {
            self.ahead.push((real, shown));
        }
    }

    fn file(&mut self, real: PathBuf, path: PathBuf, bytes: u64) {
        // Of several names the first in the alphabet is shown, whichever was come to first.
        let known = self.files.entry(real).or_insert_with(|| Found { path: path.clone(), bytes });
        if path < known.path {
            known.path = path;
        }
    }

    /// Looks into one folder. What is neither a file nor a folder (a pipe, a socket, a link to nothing) is passed by.
    fn look(&mut self, real: &Path, shown: &Path) -> Result<(), Error> {
        for entry in fs::read_dir(real)? {
            let entry = entry?;
            let (place, name) = (real.join(entry.file_name()), shown.join(entry.file_name()));
            let kind = entry.file_type()?;
            if kind.is_symlink() {
                let Ok(target) = place.canonicalize() else { continue };
                let Ok(meta) = target.metadata() else { continue };
                if meta.is_dir() {
                    self.folder(target, name);
                } else if meta.is_file() {
                    self.file(target, name, meta.len());
                }
            } else if kind.is_dir() {
                self.folder(place, name);
            } else if kind.is_file() {
                let bytes = entry.metadata().map_or(0, |meta| meta.len());
                self.file(place, name, bytes);
            }
        }
        Ok(())
    }
}

/// A file or folder that cannot be read, as it is told in the report.
pub(super) fn unread(path: &Path, error: &Error) -> Unread {
    Unread { place: path.display().to_string(), code: "cannot_read".to_owned(), what: error.to_string() }
}

//! Finds transcript files: named files and those in folders, each once even if several links lead to it.

use crate::error::CliError;
use flyball_integrations::audit::UnreadableFile;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Error;
use std::path::{Path, PathBuf};

/// One transcript file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TranscriptFile {
    /// The path as named, or as found below a named folder.
    pub(super) path: PathBuf,
    pub(super) bytes: u64,
}

/// All files in the order of their canonical paths, and the folders that could not be read.
#[derive(Debug, Default)]
pub(super) struct WalkResult {
    pub(super) files: Vec<TranscriptFile>,
    pub(super) unreadable: Vec<UnreadableFile>,
}

/// A folder still to be read: its canonical path and its displayed path.
type PendingDir = (PathBuf, PathBuf);

#[derive(Default)]
struct FileWalk {
    /// By canonical path, so that a file reached twice is read once.
    files: BTreeMap<PathBuf, TranscriptFile>,
    folders: BTreeSet<PathBuf>,
    pending: Vec<PendingDir>,
    unreadable: Vec<UnreadableFile>,
}

/// Finds the files under these paths. A named path that does not exist is an error; an unreadable one found below is
/// only reported.
pub(super) fn find_transcripts(paths: &[PathBuf]) -> Result<WalkResult, CliError> {
    let mut walk = FileWalk::default();
    for path in paths {
        let cannot = |error: Error| {
            CliError::new("cannot_read", path.display().to_string(), error.to_string(), "check the path")
        };
        let real = path.canonicalize().map_err(cannot)?;
        let meta = real.metadata().map_err(cannot)?;
        if meta.is_dir() {
            walk.push_dir(real, path.clone());
        } else if meta.is_file() {
            walk.push_file(real, path.clone(), meta.len());
        } else {
            return Err(cannot(Error::other("this is neither a file nor a folder")));
        }
    }
    while let Some((real, shown)) = walk.pending.pop() {
        if let Err(error) = walk.read_dir(&real, &shown) {
            walk.unreadable.push(unreadable(&shown, &error));
        }
    }
    Ok(WalkResult { files: walk.files.into_values().collect(), unreadable: walk.unreadable })
}

impl FileWalk {
    fn push_dir(&mut self, real: PathBuf, shown: PathBuf) {
        if self.folders.insert(real.clone()) {
            self.pending.push((real, shown));
        }
    }

    fn push_file(&mut self, real: PathBuf, path: PathBuf, bytes: u64) {
        // If a file has several names, show the alphabetically first, independent of the walk order.
        let known = self.files.entry(real).or_insert_with(|| TranscriptFile { path: path.clone(), bytes });
        if path < known.path {
            known.path = path;
        }
    }

    /// Reads one folder. Skips entries that are neither files nor folders (pipes, sockets, dangling links).
    fn read_dir(&mut self, real: &Path, shown: &Path) -> Result<(), Error> {
        for entry in fs::read_dir(real)? {
            let entry = entry?;
            let (place, name) = (real.join(entry.file_name()), shown.join(entry.file_name()));
            let kind = entry.file_type()?;
            if kind.is_symlink() {
                let Ok(target) = place.canonicalize() else { continue };
                let Ok(meta) = target.metadata() else { continue };
                if meta.is_dir() {
                    self.push_dir(target, name);
                } else if meta.is_file() {
                    self.push_file(target, name, meta.len());
                }
            } else if kind.is_dir() {
                self.push_dir(place, name);
            } else if kind.is_file() {
                let bytes = entry.metadata().map_or(0, |meta| meta.len());
                self.push_file(place, name, bytes);
            }
        }
        Ok(())
    }
}

/// A report entry for an unreadable file or folder.
pub(super) fn unreadable(path: &Path, error: &Error) -> UnreadableFile {
    UnreadableFile {
        location: path.display().to_string(),
        code: "cannot_read".to_owned(),
        message: error.to_string(),
    }
}

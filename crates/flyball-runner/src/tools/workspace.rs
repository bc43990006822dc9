//! Resolves paths and confines them to the workspace.
//!
//! A path is resolved one component at a time from the open workspace folder, and every folder in between is held open.
//! Links are read here and resolved like other components, so one that leads out is detected at that step.
//!
//! Guaranteed: a file that is opened, created or replaced was inside the workspace when it was reached, even if links
//! are created concurrently. A name that becomes a link between the check and the open is rejected.
//!
//! Not guaranteed: a process that moves a whole folder out of the workspace while it is held takes the file with it. A
//! hard link or mount inside the workspace counts as part of it, wherever its content is from. The shell and command
//! tools run with all permissions of the user; only their working directory is the workspace.

use super::tool_error::ToolError;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};

/// Maximum number of links in a path.
const MAX_LINKS: usize = 32;
/// Maximum number of components in a path.
const MAX_PATH_PARTS: usize = 256;
/// Opens a folder without following a link.
pub(super) const OPEN_DIR_FLAGS: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
/// Opens a file without following a link or blocking on a pipe.
pub(super) const OPEN_FILE_FLAGS: OFlags =
    OFlags::RDONLY.union(OFlags::NOFOLLOW).union(OFlags::NONBLOCK).union(OFlags::CLOEXEC);

/// The folder that an agent works in.
#[derive(Debug)]
pub(super) struct WorkspaceRoot {
    /// Canonical path.
    root: PathBuf,
    /// Absolute form of the configured path, which a model may have seen.
    configured_path: PathBuf,
    /// Protected folders inside, such as the store's.
    protected_dirs: Vec<PathBuf>,
}

/// A resolved location in the workspace: a name in an open folder.
#[derive(Debug)]
pub(super) struct WorkspacePath {
    pub(super) parent: OwnedFd,
    pub(super) name: OsString,
    /// Path relative to the root, without links, for messages.
    pub(super) path: PathBuf,
    /// Metadata; `None` if nothing exists there.
    pub(super) stat: Option<Stat>,
}

impl WorkspacePath {
    /// File type, if something exists there.
    pub(super) fn file_type(&self) -> Option<FileType> {
        self.stat.as_ref().map(|stat| FileType::from_raw_mode(stat.st_mode))
    }

    /// Path for messages.
    pub(super) fn display(&self) -> String {
        let shown = self.path.display().to_string();
        if shown.is_empty() { ".".to_owned() } else { shown }
    }

    /// Opens the existing file.
    pub(super) fn open(&self) -> Result<File, ToolError> {
        let shown = self.display();
        match self.file_type() {
            None => return Err(ToolError::io(&shown, &Errno::NOENT.into())),
            Some(FileType::RegularFile) => {}
            Some(_) => return Err(not_a_file(&shown)),
        }
        let fd = rustix::fs::openat(&self.parent, &self.name, OPEN_FILE_FLAGS, Mode::empty());
        let file = File::from(fd.map_err(|errno| replaced_during_open(errno, &shown))?);
        // It may have been replaced between the check and the open.
        let is_file = file.metadata().map_err(|error| ToolError::io(&shown, &error))?.is_file();
        if is_file { Ok(file) } else { Err(not_a_file(&shown)) }
    }
}

impl WorkspaceRoot {
    /// Opens a workspace with its protected folders.
    pub(super) fn new(folder: &Path, protected_dirs: Vec<PathBuf>) -> Result<Self, ToolError> {
        let bad_workspace = |error: std::io::Error| {
            let what = format!("cannot use workspace '{}': {error}", folder.display());
            ToolError::new("bad_workspace", what, "create the folder, or use another one")
        };
        let configured_path = std::path::absolute(folder).map_err(bad_workspace)?;
        let root = folder.canonicalize().map_err(bad_workspace)?;
        if !root.is_dir() {
            return Err(bad_workspace(std::io::ErrorKind::NotADirectory.into()));
        }
        Ok(WorkspaceRoot { root, configured_path, protected_dirs })
    }

    /// Canonical path.
    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// Whether a folder is protected.
    pub(super) fn is_protected(&self, stat: &Stat) -> bool {
        self.protected_dirs
            .iter()
            .filter_map(|path| rustix::fs::stat(path).ok())
            .any(|protected| is_same_file(&protected, stat))
    }

    /// Resolves a path named by a model. With `make`, creates missing folders.
    pub(super) fn resolve(&self, path: &str, make: bool) -> Result<WorkspacePath, ToolError> {
        let names = self.path_parts(path)?;
        let shown = |error: &std::io::Error| ToolError::io(path, error);
        let root = rustix::fs::open(&self.root, OPEN_DIR_FLAGS, Mode::empty())
            .map_err(|errno| shown(&errno.into()))?;
        let mut walker = PathWalker { workspace: self, requested: path, open_dirs: Vec::new(), root };
        walker.resolve(names, make)
    }

    /// Components of a path, if it stays inside lexically.
    fn path_parts(&self, path: &str) -> Result<Vec<OsString>, ToolError> {
        let bad = |why: &str| {
            ToolError::new("bad_path", format!("the path '{path}' {why}"), "use the path of a file")
        };
        if path.is_empty() {
            return Err(bad("is empty"));
        }
        if path.contains('\0') {
            return Err(bad("contains a NUL character"));
        }
        let written = Path::new(path);
        let inside = if written.is_absolute() { self.strip_root(written) } else { Some(written) };
        let mut names = Vec::new();
        for part in inside.ok_or_else(|| outside_workspace(path))?.components() {
            match part {
                Component::Normal(name) => names.push(name.to_owned()),
                Component::CurDir => {}
                Component::ParentDir | Component::RootDir | Component::Prefix(_) => {
                    return Err(outside_workspace(path));
                }
            }
        }
        if names.len() > MAX_PATH_PARTS { Err(bad("has too many parts")) } else { Ok(names) }
    }

    /// Makes an absolute path relative to the root, if it starts with it.
    fn strip_root<'p>(&self, path: &'p Path) -> Option<&'p Path> {
        path.strip_prefix(&self.root).or_else(|_| path.strip_prefix(&self.configured_path)).ok()
    }
}

/// Resolution of one path.
struct PathWalker<'a> {
    workspace: &'a WorkspaceRoot,
    requested: &'a str,
    root: OwnedFd,
    /// Open folders below the root, with their names.
    open_dirs: Vec<(OsString, OwnedFd)>,
}

impl PathWalker<'_> {
    fn current_dir(&self) -> &OwnedFd {
        self.open_dirs.last().map_or(&self.root, |(_, folder)| folder)
    }

    fn resolve(&mut self, names: Vec<OsString>, make: bool) -> Result<WorkspacePath, ToolError> {
        let mut links = 0;
        let mut remaining: Vec<OsString> = names.into_iter().rev().collect();
        while let Some(name) = remaining.pop() {
            if name == *".." {
                if self.open_dirs.pop().is_none() {
                    return Err(outside_workspace(self.requested));
                }
                continue;
            }
            let found = self.stat_entry(&name)?;
            let kind = found.as_ref().map(|stat| FileType::from_raw_mode(stat.st_mode));
            if kind == Some(FileType::Symlink) {
                links += 1;
                self.follow_link(&name, links, &mut remaining)?;
            } else if remaining.is_empty() && kind != Some(FileType::Directory) {
                return self.finish(name, found);
            } else {
                self.enter_dir(name, kind, make)?;
            }
        }
        // The path ends in a folder.
        let name = OsString::from(".");
        let found = rustix::fs::fstat(self.current_dir()).map_err(|errno| self.io_error(errno))?;
        self.finish(name, Some(found))
    }

    fn stat_entry(&self, name: &OsStr) -> Result<Option<Stat>, ToolError> {
        match rustix::fs::statat(self.current_dir(), name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(stat)),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(self.io_error(errno)),
        }
    }

    /// Prepends the target of a link to the remaining components.
    fn follow_link(
        &mut self,
        name: &OsStr,
        links: usize,
        remaining: &mut Vec<OsString>,
    ) -> Result<(), ToolError> {
        let target = rustix::fs::readlinkat(self.current_dir(), name, Vec::new())
            .map_err(|errno| self.io_error(errno))?;
        let target = PathBuf::from(OsString::from_vec(target.into_bytes()));
        let mut rest = target.as_path();
        if target.is_absolute() {
            rest = self.workspace.strip_root(&target).ok_or_else(|| outside_workspace(self.requested))?;
            self.open_dirs.clear();
        }
        for part in rest.components().rev() {
            match part {
                Component::Normal(name) => remaining.push(name.to_owned()),
                Component::ParentDir => remaining.push("..".into()),
                Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
            }
        }
        if links > MAX_LINKS || remaining.len() > MAX_PATH_PARTS {
            let what = format!("the path '{}' contains too many links", self.requested);
            return Err(ToolError::new("bad_path", what, "use a path without links"));
        }
        Ok(())
    }

    /// Enters a folder; creates it if it is missing and `make` is set.
    fn enter_dir(&mut self, name: OsString, kind: Option<FileType>, make: bool) -> Result<(), ToolError> {
        match kind {
            None if make => {
                match rustix::fs::mkdirat(self.current_dir(), &name, Mode::from_raw_mode(0o777)) {
                    Ok(()) | Err(Errno::EXIST) => {}
                    Err(errno) => return Err(self.io_error(errno)),
                }
            }
            None => return Err(self.io_error(Errno::NOENT)),
            Some(FileType::Directory) => {}
            Some(_) => return Err(self.io_error(Errno::NOTDIR)),
        }
        let folder = rustix::fs::openat(self.current_dir(), &name, OPEN_DIR_FLAGS, Mode::empty());
        let folder = folder.map_err(|errno| replaced_during_open(errno, self.requested))?;
        let stat = rustix::fs::fstat(&folder).map_err(|errno| self.io_error(errno))?;
        if self.workspace.is_protected(&stat) {
            let what = format!("'{}' belongs to the runner, not to the workspace", self.requested);
            return Err(ToolError::new("outside_workspace", what, "do not use it"));
        }
        self.open_dirs.push((name, folder));
        Ok(())
    }

    fn finish(&mut self, name: OsString, found: Option<Stat>) -> Result<WorkspacePath, ToolError> {
        let mut path: PathBuf = self.open_dirs.iter().map(|(name, _)| name).collect();
        if name != *"." {
            path.push(&name);
        }
        let folder =
            rustix::io::fcntl_dupfd_cloexec(self.current_dir(), 0).map_err(|errno| self.io_error(errno))?;
        Ok(WorkspacePath { parent: folder, name, path, stat: found })
    }

    fn io_error(&self, errno: Errno) -> ToolError {
        ToolError::io(self.requested, &errno.into())
    }
}

/// Whether two metadata records refer to the same file.
pub(super) fn is_same_file(one: &Stat, other: &Stat) -> bool {
    one.st_dev == other.st_dev && one.st_ino == other.st_ino
}

fn outside_workspace(path: &str) -> ToolError {
    let what = format!("the path '{path}' is outside the workspace");
    ToolError::new("outside_workspace", what, "use a path inside the workspace, without '..'")
}

fn not_a_file(path: &str) -> ToolError {
    ToolError::new("not_a_file", format!("'{path}' is not a regular file"), "use the path of a file")
}

/// Error for a path that was replaced during the open.
fn replaced_during_open(errno: Errno, path: &str) -> ToolError {
    match errno {
        Errno::LOOP | Errno::NOTDIR => {
            let what = format!("'{path}' was replaced while it was being opened");
            ToolError::new("file_changed", what, "retry")
        }
        _ => ToolError::io(path, &errno.into()),
    }
}

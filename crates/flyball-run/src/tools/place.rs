//! Where a path leads, and that it does not lead out of the workspace.
//!
//! A path is walked one name at a time, from the open folder of the workspace downwards, and every folder on the way
//! is held open. Links are read here and walked like the rest, so one that leads out is noticed at the step at which
//! it does.
//!
//! Promised: what is opened, made or replaced was below the workspace when it was reached, also if somebody puts links
//! into the way at the same time; a name that turns into a link between the look and the opening is refused.
//!
//! Not promised: somebody who moves a whole folder out of the workspace while it is held takes the file with it; a
//! hard link or a mount inside the workspace is a part of it, wherever its content came from; and the shell and the
//! command tools run with all rights of the user: only their starting folder is the workspace.

use super::error::ToolError;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};

/// The most links on one way.
const LINKS: usize = 32;
/// The most names in one path.
const NAMES: usize = 256;
/// Opens a folder itself, not what a link leads to.
pub(super) const FOLDER: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
/// Opens a file itself; a pipe in its place does not hold us up.
pub(super) const FILE: OFlags =
    OFlags::RDONLY.union(OFlags::NOFOLLOW).union(OFlags::NONBLOCK).union(OFlags::CLOEXEC);

/// The folder that an agent works in.
#[derive(Debug)]
pub(super) struct Workspace {
    /// Without links.
    root: PathBuf,
    /// As the operator wrote it, made absolute; a model may have seen it so.
    written: PathBuf,
    /// Folders inside that are nobody's business, for example the journal's.
    closed: Vec<PathBuf>,
}

/// A place in the workspace: a name in an open folder.
#[derive(Debug)]
pub(super) struct Spot {
    pub(super) folder: OwnedFd,
    pub(super) name: OsString,
    /// The way from the root, without links, for messages.
    pub(super) path: PathBuf,
    /// What is there; `None` = nothing.
    pub(super) found: Option<Stat>,
}

impl Spot {
    /// What kind of thing is there.
    pub(super) fn kind(&self) -> Option<FileType> {
        self.found.as_ref().map(|stat| FileType::from_raw_mode(stat.st_mode))
    }

    /// The path for messages.
    pub(super) fn shown(&self) -> String {
        let shown = self.path.display().to_string();
        if shown.is_empty() { ".".to_owned() } else { shown }
    }

    /// Opens the file that is there.
    pub(super) fn open(&self) -> Result<File, ToolError> {
        let shown = self.shown();
        match self.kind() {
            None => return Err(ToolError::io(&shown, &Errno::NOENT.into())),
            Some(FileType::RegularFile) => {}
            Some(_) => return Err(not_a_file(&shown)),
        }
        let fd = rustix::fs::openat(&self.folder, &self.name, FILE, Mode::empty());
        let file = File::from(fd.map_err(|errno| moved(errno, &shown))?);
        // It may have been replaced by something else between the look and the opening.
        let is_file = file.metadata().map_err(|error| ToolError::io(&shown, &error))?.is_file();
        if is_file { Ok(file) } else { Err(not_a_file(&shown)) }
    }
}

impl Workspace {
    /// The workspace at this folder, without what is closed.
    pub(super) fn new(folder: &Path, closed: Vec<PathBuf>) -> Result<Self, ToolError> {
        let trouble = |error: std::io::Error| {
            let what = format!("the workspace '{}' cannot be used: {error}", folder.display());
            ToolError::new("bad_workspace", what, "make the folder, or name another one")
        };
        let written = std::path::absolute(folder).map_err(trouble)?;
        let root = folder.canonicalize().map_err(trouble)?;
        if !root.is_dir() {
            return Err(trouble(std::io::ErrorKind::NotADirectory.into()));
        }
        Ok(Workspace { root, written, closed })
    }

    /// Its folder, without links.
    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// Whether it is one of the folders that are closed.
    pub(super) fn is_closed(&self, stat: &Stat) -> bool {
        self.closed.iter().filter_map(|path| rustix::fs::stat(path).ok()).any(|closed| same(&closed, stat))
    }

    /// Finds a place that a model has named. With `make`, missing folders on the way are made.
    pub(super) fn find(&self, path: &str, make: bool) -> Result<Spot, ToolError> {
        let names = self.names(path)?;
        let shown = |error: &std::io::Error| ToolError::io(path, error);
        let root =
            rustix::fs::open(&self.root, FOLDER, Mode::empty()).map_err(|errno| shown(&errno.into()))?;
        let mut walk = Walk { workspace: self, asked: path, way: Vec::new(), root };
        walk.go(names, make)
    }

    /// The names that a path is made of, if it stays inside as it is written.
    fn names(&self, path: &str) -> Result<Vec<OsString>, ToolError> {
        let bad = |why: &str| {
            ToolError::new("bad_path", format!("the path '{path}' {why}"), "name a file by its path")
        };
        if path.is_empty() {
            return Err(bad("is empty"));
        }
        if path.contains('\0') {
            return Err(bad("holds a NUL character"));
        }
        let written = Path::new(path);
        let inside = if written.is_absolute() { self.inside(written) } else { Some(written) };
        let mut names = Vec::new();
        for part in inside.ok_or_else(|| outside(path))?.components() {
            match part {
                Component::Normal(name) => names.push(name.to_owned()),
                Component::CurDir => {}
                Component::ParentDir | Component::RootDir | Component::Prefix(_) => {
                    return Err(outside(path));
                }
            }
        }
        if names.len() > NAMES { Err(bad("has too many parts")) } else { Ok(names) }
    }

    /// An absolute path as one relative to the root, if it begins with it.
    fn inside<'p>(&self, path: &'p Path) -> Option<&'p Path> {
        path.strip_prefix(&self.root).or_else(|_| path.strip_prefix(&self.written)).ok()
    }
}

/// A way through the workspace.
struct Walk<'a> {
    workspace: &'a Workspace,
    asked: &'a str,
    root: OwnedFd,
    /// The open folders below the root, with their names.
    way: Vec<(OsString, OwnedFd)>,
}

impl Walk<'_> {
    fn here(&self) -> &OwnedFd {
        self.way.last().map_or(&self.root, |(_, folder)| folder)
    }

    fn go(&mut self, names: Vec<OsString>, make: bool) -> Result<Spot, ToolError> {
        let mut links = 0;
        let mut ahead: Vec<OsString> = names.into_iter().rev().collect();
        while let Some(name) = ahead.pop() {
            if name == *".." {
                if self.way.pop().is_none() {
                    return Err(outside(self.asked));
                }
                continue;
            }
            let found = self.look(&name)?;
            let kind = found.as_ref().map(|stat| FileType::from_raw_mode(stat.st_mode));
            if kind == Some(FileType::Symlink) {
                links += 1;
                self.follow(&name, links, &mut ahead)?;
            } else if ahead.is_empty() && kind != Some(FileType::Directory) {
                return self.arrive(name, found);
            } else {
                self.enter(name, kind, make)?;
            }
        }
        // The way has ended in a folder.
        let name = OsString::from(".");
        let found = rustix::fs::fstat(self.here()).map_err(|errno| self.trouble(errno))?;
        self.arrive(name, Some(found))
    }

    fn look(&self, name: &OsStr) -> Result<Option<Stat>, ToolError> {
        match rustix::fs::statat(self.here(), name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(stat)),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(self.trouble(errno)),
        }
    }

    /// Puts what a link says in front of the way.
    fn follow(&mut self, name: &OsStr, links: usize, ahead: &mut Vec<OsString>) -> Result<(), ToolError> {
        let target =
            rustix::fs::readlinkat(self.here(), name, Vec::new()).map_err(|errno| self.trouble(errno))?;
        let target = PathBuf::from(OsString::from_vec(target.into_bytes()));
        let mut rest = target.as_path();
        if target.is_absolute() {
            rest = self.workspace.inside(&target).ok_or_else(|| outside(self.asked))?;
            self.way.clear();
        }
        for part in rest.components().rev() {
            match part {
                Component::Normal(name) => ahead.push(name.to_owned()),
                Component::ParentDir => ahead.push("..".into()),
                Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
            }
        }
        if links > LINKS || ahead.len() > NAMES {
            let what = format!("the path '{}' leads through too many links", self.asked);
            return Err(ToolError::new("bad_path", what, "name the file without links"));
        }
        Ok(())
    }

    /// Goes down into a folder, which is made if it is missing and that is wanted.
    fn enter(&mut self, name: OsString, kind: Option<FileType>, make: bool) -> Result<(), ToolError> {
        match kind {
            None if make => match rustix::fs::mkdirat(self.here(), &name, Mode::from_raw_mode(0o777)) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(errno) => return Err(self.trouble(errno)),
            },
            None => return Err(self.trouble(Errno::NOENT)),
            Some(FileType::Directory) => {}
            Some(_) => return Err(self.trouble(Errno::NOTDIR)),
        }
        let folder = rustix::fs::openat(self.here(), &name, FOLDER, Mode::empty());
        let folder = folder.map_err(|errno| moved(errno, self.asked))?;
        let stat = rustix::fs::fstat(&folder).map_err(|errno| self.trouble(errno))?;
        if self.workspace.is_closed(&stat) {
            let what = format!("'{}' belongs to the runner, not to the workspace", self.asked);
            return Err(ToolError::new("outside_workspace", what, "leave it alone"));
        }
        self.way.push((name, folder));
        Ok(())
    }

    fn arrive(&mut self, name: OsString, found: Option<Stat>) -> Result<Spot, ToolError> {
        let mut path: PathBuf = self.way.iter().map(|(name, _)| name).collect();
        if name != *"." {
            path.push(&name);
        }
        let folder = rustix::io::fcntl_dupfd_cloexec(self.here(), 0).map_err(|errno| self.trouble(errno))?;
        Ok(Spot { folder, name, path, found })
    }

    fn trouble(&self, errno: Errno) -> ToolError {
        ToolError::io(self.asked, &errno.into())
    }
}

/// Whether two looks have seen the same thing, whatever it is called.
pub(super) fn same(one: &Stat, other: &Stat) -> bool {
    one.st_dev == other.st_dev && one.st_ino == other.st_ino
}

fn outside(path: &str) -> ToolError {
    let what = format!("the path '{path}' leads out of the workspace");
    ToolError::new("outside_workspace", what, "name a file below the workspace, without '..'")
}

fn not_a_file(path: &str) -> ToolError {
    ToolError::new("not_a_file", format!("'{path}' is a folder or no regular file"), "name a file")
}

/// A link or another thing has taken the place of what was there a moment ago.
fn moved(errno: Errno, path: &str) -> ToolError {
    match errno {
        Errno::LOOP | Errno::NOTDIR => {
            let what = format!("'{path}' was replaced while it was looked at");
            ToolError::new("changed_meanwhile", what, "look at it again")
        }
        _ => ToolError::io(path, &errno.into()),
    }
}

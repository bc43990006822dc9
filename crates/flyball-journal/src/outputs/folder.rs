//! A session's private folder on the disk, held open, so that no link put in its place later is ever followed.

use rustix::fs::{AtFlags, Dir, FileType, FlockOperation, Mode, OFlags, Stat};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::fs::{DirBuilder, File};
use std::io::{Error, ErrorKind, Read, Result, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

/// Hexadecimal digits in the name of a folder or a file.
const DIGITS: usize = 32;
/// How files end.
const SUFFIX: &str = ".txt";
/// How files end that are being written.
const HALF: &str = ".half";
/// The file with the name of the session, and the most that is read of it.
const SESSION: &str = "session";
const SESSION_BYTES: u64 = 4096;
/// Open a folder itself, not what a link leads to.
const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
/// A new file, and nothing that was there before.
const NEW_FILE: OFlags =
    OFlags::WRONLY.union(OFlags::CREATE).union(OFlags::EXCL).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
/// An existing file itself; a pipe put in its place does not hold us up.
const OLD_FILE: OFlags =
    OFlags::RDONLY.union(OFlags::NOFOLLOW).union(OFlags::NONBLOCK).union(OFlags::CLOEXEC);

/// An open session folder. As long as it is held, a sweep leaves it alone.
#[derive(Debug)]
pub(super) struct Folder {
    fd: OwnedFd,
    /// Bytes in its files.
    pub(super) used: u64,
}

impl Folder {
    /// Writes an output to the disk, and gives the name of its file. The name follows from the content, so that the same
    /// output is stored once; it appears under it only when it is whole.
    pub(super) fn write(&mut self, session: &str, bytes: &[u8]) -> Result<String> {
        let name = file_name(&content_name(bytes));
        if self
            .read(OsStr::new(&name))
            .and_then(|file| file.metadata())
            .is_ok_and(|found| found.len() == bytes.len() as u64)
        {
            return Ok(name);
        }
        self.write_whole(&name, bytes)?;
        if let Err(error) = self.name_session(session) {
            let _ = rustix::fs::unlinkat(&self.fd, &name, AtFlags::empty());
            return Err(error);
        }
        self.used = self.used.saturating_add(bytes.len() as u64);
        Ok(name)
    }

    /// Writes a file under another name and renames it. One that was not written whole is removed.
    fn write_whole(&self, name: &str, bytes: &[u8]) -> Result<()> {
        let half = format!("{}{HALF}", random_name()?);
        let mut file = File::from(rustix::fs::openat(&self.fd, &half, NEW_FILE, Mode::RUSR | Mode::WUSR)?);
        let written = file.write_all(bytes).and_then(|()| file.sync_data());
        let renamed = written.and_then(|()| Ok(rustix::fs::renameat(&self.fd, &half, &self.fd, name)?));
        renamed.inspect_err(|_| {
            let _ = rustix::fs::unlinkat(&self.fd, &half, AtFlags::empty());
        })
    }

    /// Notes whose folder this is, for whoever has only a reference.
    fn name_session(&self, session: &str) -> Result<()> {
        match self.read(OsStr::new(SESSION)) {
            Ok(_) => Ok(()),
            Err(_) => self.write_whole(SESSION, session.as_bytes()),
        }
    }

    /// The session that the folder belongs to, if that was noted and fits the folder's name.
    pub(super) fn session(&self, folder: &str) -> Option<String> {
        let mut name = String::new();
        self.read(OsStr::new(SESSION)).ok()?.take(SESSION_BYTES).read_to_string(&mut name).ok()?;
        (session_name(&name) == folder).then_some(name)
    }

    /// Removes one of its files; says whether another one is left.
    pub(super) fn remove(&self, name: &str) -> Result<bool> {
        rustix::fs::unlinkat(&self.fd, name, AtFlags::empty())?;
        Ok(files(&self.fd)?.iter().any(|(name, _)| is_file_name(name)))
    }

    /// Opens one of its files.
    pub(super) fn read(&self, name: &OsStr) -> Result<File> {
        let file = File::from(rustix::fs::openat(&self.fd, name, OLD_FILE, Mode::empty())?);
        if file.metadata()?.is_file() { Ok(file) } else { Err(ErrorKind::InvalidInput.into()) }
    }

    /// Whether the folder that we hold is still the one at this path.
    pub(super) fn is_there(&self, path: &Path) -> bool {
        match (rustix::fs::fstat(&self.fd), rustix::fs::lstat(path)) {
            (Ok(held), Ok(found)) => (held.st_dev, held.st_ino) == (found.st_dev, found.st_ino),
            _ => false,
        }
    }
}

/// The name of a session's folder: a hash, so that no session can choose a place, and so that it is found again.
pub(super) fn session_name(session: &str) -> String {
    blake3::hash(session.as_bytes()).to_hex().chars().take(DIGITS).collect()
}

/// The name of a content.
pub(super) fn content_name(bytes: &[u8]) -> String {
    blake3::hash(bytes).to_hex().chars().take(DIGITS).collect()
}

/// The name of the file of an output.
pub(super) fn file_name(content: &str) -> String {
    format!("{content}{SUFFIX}")
}

/// A random name that nobody has had before.
///
/// # Errors
/// If the system has no random numbers.
pub fn random_name() -> Result<String> {
    let mut bytes = [0_u8; DIGITS / 2];
    ring::rand::SecureRandom::fill(&ring::rand::SystemRandom::new(), &mut bytes)
        .map_err(|_| Error::other("the system has no random numbers"))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Whether a name is one of a session's folder.
pub(super) fn is_session_name(name: &str) -> bool {
    name.len() == DIGITS && name.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// Whether a name is one of a file in it.
pub(super) fn is_file_name(name: &str) -> bool {
    name.strip_suffix(SUFFIX).is_some_and(is_session_name)
}

/// Opens the session's folder, if there is one.
pub(super) fn find(base: &Path, session: &str) -> Result<Option<Folder>> {
    match open_base(base).and_then(|base| open_session(base.as_fd(), session)) {
        Ok(folder) => Ok(Some(folder)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Opens the session's folder; makes it, and the base, if they are missing.
pub(super) fn make(base: &Path, session: &str) -> Result<Folder> {
    DirBuilder::new().recursive(true).mode(0o700).create(base)?;
    let fd = open_base(base)?;
    // A sweep may remove the folder between our making and our holding it, if it is old and empty; once is enough,
    // because the one that we make is new.
    for _ in 0..2 {
        match rustix::fs::mkdirat(&fd, session, Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
        let folder = open_session(fd.as_fd(), session)?;
        if folder.is_there(&base.join(session)) {
            return Ok(folder);
        }
    }
    Err(Error::other("the folder is removed again and again by somebody else"))
}

/// Opens the base. It must be ours, and nobody else may put anything into it.
pub(super) fn open_base(base: &Path) -> Result<OwnedFd> {
    let fd = rustix::fs::open(base, FOLDER, Mode::empty()).map_err(|errno| not_a_folder(errno, base))?;
    private(&rustix::fs::fstat(&fd)?, Mode::WGRP | Mode::WOTH, &base.display().to_string())?;
    Ok(fd)
}

/// Opens a session's folder below the base and holds it. Nobody else may even look into it.
fn open_session(base: std::os::fd::BorrowedFd<'_>, session: &str) -> Result<Folder> {
    let fd = open_folder(base, session)?;
    private(&rustix::fs::fstat(&fd)?, Mode::RWXG | Mode::RWXO, session)?;
    // Where folders cannot be locked (some network disks) only the age protects it from a sweep.
    let _ = rustix::fs::flock(&fd, FlockOperation::NonBlockingLockShared);
    let used = files(&fd)?.iter().fold(0_u64, |sum, (_, stat)| sum.saturating_add(size(stat)));
    Ok(Folder { fd, used })
}

/// Opens a folder below another one; a link is not followed.
pub(super) fn open_folder(base: std::os::fd::BorrowedFd<'_>, name: &str) -> Result<OwnedFd> {
    rustix::fs::openat(base, name, FOLDER, Mode::empty())
        .map_err(|errno| not_a_folder(errno, Path::new(name)))
}

/// The files in a folder, with what is known of them; links are not followed.
pub(super) fn files(fd: &OwnedFd) -> Result<Vec<(String, Stat)>> {
    let mut found = Vec::new();
    for entry in Dir::read_from(fd)? {
        let entry = entry?;
        let Ok(name) = entry.file_name().to_str() else { continue };
        if matches!(name, "." | "..") {
            continue;
        }
        if let Ok(stat) = rustix::fs::statat(fd, name, AtFlags::SYMLINK_NOFOLLOW) {
            found.push((name.to_owned(), stat));
        }
    }
    Ok(found)
}

fn size(stat: &Stat) -> u64 {
    let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
    if is_file { u64::try_from(stat.st_size).unwrap_or(0) } else { 0 }
}

/// Refuses a folder that is not ours, or that gives others one of these rights.
fn private(stat: &Stat, rights: Mode, shown: &str) -> Result<()> {
    let refuse = |why: &str| Err(Error::new(ErrorKind::PermissionDenied, format!("{shown}: {why}")));
    if stat.st_uid != rustix::process::geteuid().as_raw() {
        return refuse("the folder belongs to somebody else");
    }
    if Mode::from_raw_mode(stat.st_mode).intersects(rights) {
        return refuse("the folder is open to others");
    }
    Ok(())
}

fn not_a_folder(errno: Errno, path: &Path) -> Error {
    let error = Error::from(errno);
    match errno {
        Errno::LOOP | Errno::NOTDIR => {
            Error::new(error.kind(), format!("{}: it is a link or no folder", path.display()))
        }
        _ => error,
    }
}

//! A session's private directory, held open so that a link put in its place later is never followed.

use rustix::fs::{AtFlags, Dir, FileType, FlockOperation, Mode, OFlags, Stat};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::fs::{DirBuilder, File};
use std::io::{Error, ErrorKind, Read, Result, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

/// Hexadecimal digits in the name of a directory or file.
const NAME_HEX_DIGITS: usize = 32;
/// Suffix of output files.
const FILE_SUFFIX: &str = ".txt";
/// Suffix of files that are being written.
const PARTIAL_SUFFIX: &str = ".half";
/// File that contains the session's name, and the maximum size read from it.
const SESSION_NAME_FILE: &str = "session";
const MAX_SESSION_NAME_BYTES: u64 = 4096;
/// Open the directory itself; do not follow a link.
const OPEN_DIR_FLAGS: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
/// Create a new file; fail if one exists.
const CREATE_FILE_FLAGS: OFlags =
    OFlags::WRONLY.union(OFlags::CREATE).union(OFlags::EXCL).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
/// Open the file itself; do not block on a pipe put in its place.
const OPEN_FILE_FLAGS: OFlags =
    OFlags::RDONLY.union(OFlags::NOFOLLOW).union(OFlags::NONBLOCK).union(OFlags::CLOEXEC);

/// An open session directory. Orphan cleanup skips it while it is held.
#[derive(Debug)]
pub(super) struct SessionDir {
    fd: OwnedFd,
    /// Total size of its files.
    pub(super) used_bytes: u64,
}

impl SessionDir {
    /// Writes an output and returns its file name. The name is derived from the content, so that the same output is
    /// stored once; the file gets this name only when it is complete.
    pub(super) fn write_output(&mut self, session: &str, bytes: &[u8]) -> Result<String> {
        let name = file_name(&content_name(bytes));
        if self
            .open_file(OsStr::new(&name))
            .and_then(|file| file.metadata())
            .is_ok_and(|found| found.len() == bytes.len() as u64)
        {
            return Ok(name);
        }
        self.write_atomically(&name, bytes)?;
        if let Err(error) = self.write_session_name(session) {
            let _ = rustix::fs::unlinkat(&self.fd, &name, AtFlags::empty());
            return Err(error);
        }
        self.used_bytes = self.used_bytes.saturating_add(bytes.len() as u64);
        Ok(name)
    }

    /// Writes a temporary file and renames it. Removes it if the write fails.
    fn write_atomically(&self, name: &str, bytes: &[u8]) -> Result<()> {
        let half = format!("{}{PARTIAL_SUFFIX}", random_name()?);
        let mut file =
            File::from(rustix::fs::openat(&self.fd, &half, CREATE_FILE_FLAGS, Mode::RUSR | Mode::WUSR)?);
        let written = file.write_all(bytes).and_then(|()| file.sync_data());
        let renamed = written.and_then(|()| Ok(rustix::fs::renameat(&self.fd, &half, &self.fd, name)?));
        renamed.inspect_err(|_| {
            let _ = rustix::fs::unlinkat(&self.fd, &half, AtFlags::empty());
        })
    }

    /// Records the session's name, for readers that only have a reference.
    fn write_session_name(&self, session: &str) -> Result<()> {
        match self.open_file(OsStr::new(SESSION_NAME_FILE)) {
            Ok(_) => Ok(()),
            Err(_) => self.write_atomically(SESSION_NAME_FILE, session.as_bytes()),
        }
    }

    /// The session that the directory belongs to, if it is recorded and matches the directory's name.
    pub(super) fn read_session_name(&self, folder: &str) -> Option<String> {
        let mut name = String::new();
        self.open_file(OsStr::new(SESSION_NAME_FILE))
            .ok()?
            .take(MAX_SESSION_NAME_BYTES)
            .read_to_string(&mut name)
            .ok()?;
        (session_dir_name(&name) == folder).then_some(name)
    }

    /// Removes a file; returns whether another one is left.
    pub(super) fn remove_file(&self, name: &str) -> Result<bool> {
        rustix::fs::unlinkat(&self.fd, name, AtFlags::empty())?;
        Ok(list_files(&self.fd)?.iter().any(|(name, _)| is_file_name(name)))
    }

    /// Opens a file in the directory.
    pub(super) fn open_file(&self, name: &OsStr) -> Result<File> {
        let file = File::from(rustix::fs::openat(&self.fd, name, OPEN_FILE_FLAGS, Mode::empty())?);
        if file.metadata()?.is_file() { Ok(file) } else { Err(ErrorKind::InvalidInput.into()) }
    }

    /// Whether the open directory is still the one at this path.
    pub(super) fn is_still_at(&self, path: &Path) -> bool {
        match (rustix::fs::fstat(&self.fd), rustix::fs::lstat(path)) {
            (Ok(held), Ok(found)) => (held.st_dev, held.st_ino) == (found.st_dev, found.st_ino),
            _ => false,
        }
    }
}

/// Name of a session's directory: a hash, so that a session cannot choose its location and can find it again.
pub(super) fn session_dir_name(session: &str) -> String {
    blake3::hash(session.as_bytes()).to_hex().chars().take(NAME_HEX_DIGITS).collect()
}

/// Name derived from content.
pub(super) fn content_name(bytes: &[u8]) -> String {
    blake3::hash(bytes).to_hex().chars().take(NAME_HEX_DIGITS).collect()
}

/// File name of an output.
pub(super) fn file_name(content: &str) -> String {
    format!("{content}{FILE_SUFFIX}")
}

/// A unique random name.
///
/// # Errors
/// If the system has no random numbers.
pub fn random_name() -> Result<String> {
    let mut bytes = [0_u8; NAME_HEX_DIGITS / 2];
    ring::rand::SecureRandom::fill(&ring::rand::SystemRandom::new(), &mut bytes)
        .map_err(|_| Error::other("the system provides no random numbers"))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Whether a name is that of a session directory.
pub(super) fn is_hash_name(name: &str) -> bool {
    name.len() == NAME_HEX_DIGITS && name.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// Whether a name is that of an output file.
pub(super) fn is_file_name(name: &str) -> bool {
    name.strip_suffix(FILE_SUFFIX).is_some_and(is_hash_name)
}

/// Opens the session's directory, if it exists.
pub(super) fn open_existing(base: &Path, session: &str) -> Result<Option<SessionDir>> {
    match open_base(base).and_then(|base| open_session_dir(base.as_fd(), session)) {
        Ok(folder) => Ok(Some(folder)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Opens the session's directory; creates it and the base if they are missing.
pub(super) fn open_or_create(base: &Path, session: &str) -> Result<SessionDir> {
    DirBuilder::new().recursive(true).mode(0o700).create(base)?;
    let fd = open_base(base)?;
    // Orphan cleanup may remove an old empty directory between creating and locking it. One retry is enough, because
    // the directory that we create is new.
    for _ in 0..2 {
        match rustix::fs::mkdirat(&fd, session, Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
        let folder = open_session_dir(fd.as_fd(), session)?;
        if folder.is_still_at(&base.join(session)) {
            return Ok(folder);
        }
    }
    Err(Error::other("another process keeps removing the folder"))
}

/// Opens the base. It must belong to this user, and others must not be able to write to it.
pub(super) fn open_base(base: &Path) -> Result<OwnedFd> {
    let fd =
        rustix::fs::open(base, OPEN_DIR_FLAGS, Mode::empty()).map_err(|errno| open_dir_error(errno, base))?;
    check_private(&rustix::fs::fstat(&fd)?, Mode::WGRP | Mode::WOTH, &base.display().to_string())?;
    Ok(fd)
}

/// Opens and locks a session's directory under the base. Other users must have no access to it.
fn open_session_dir(base: std::os::fd::BorrowedFd<'_>, session: &str) -> Result<SessionDir> {
    let fd = open_dir_at(base, session)?;
    check_private(&rustix::fs::fstat(&fd)?, Mode::RWXG | Mode::RWXO, session)?;
    // Some network file systems cannot lock directories. There, only its age protects it from cleanup.
    let _ = rustix::fs::flock(&fd, FlockOperation::NonBlockingLockShared);
    let used = list_files(&fd)?.iter().fold(0_u64, |sum, (_, stat)| sum.saturating_add(file_size(stat)));
    Ok(SessionDir { fd, used_bytes: used })
}

/// Opens a subdirectory without following a link.
pub(super) fn open_dir_at(base: std::os::fd::BorrowedFd<'_>, name: &str) -> Result<OwnedFd> {
    rustix::fs::openat(base, name, OPEN_DIR_FLAGS, Mode::empty())
        .map_err(|errno| open_dir_error(errno, Path::new(name)))
}

/// Lists the files in a directory with their metadata, without following links.
pub(super) fn list_files(fd: &OwnedFd) -> Result<Vec<(String, Stat)>> {
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

fn file_size(stat: &Stat) -> u64 {
    let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
    if is_file { u64::try_from(stat.st_size).unwrap_or(0) } else { 0 }
}

/// Rejects a directory of another user, or one that grants others any of `rights`.
fn check_private(stat: &Stat, rights: Mode, shown: &str) -> Result<()> {
    let refuse = |why: &str| Err(Error::new(ErrorKind::PermissionDenied, format!("{shown}: {why}")));
    if stat.st_uid != rustix::process::geteuid().as_raw() {
        return refuse("the folder belongs to another user");
    }
    if Mode::from_raw_mode(stat.st_mode).intersects(rights) {
        return refuse("other users have access to the folder");
    }
    Ok(())
}

fn open_dir_error(errno: Errno, path: &Path) -> Error {
    let error = Error::from(errno);
    match errno {
        Errno::LOOP | Errno::NOTDIR => {
            Error::new(error.kind(), format!("{}: it is a link or not a folder", path.display()))
        }
        _ => error,
    }
}

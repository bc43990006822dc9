//! File identity: whether the files of an open store are still the ones that were opened.
//!
//! SQLite keeps its files open. If they are deleted, replaced or truncated, it would continue to write to files that
//! no process will find again. So each commit is checked before it is acknowledged: the inodes of the three files,
//! the size of the database, the id in its first pages, and the frames of the commit in the write-ahead log.

use super::reader;
use crate::error::{StoreError, StoreErrorKind};
use rusqlite::OptionalExtension;
use std::fs::{File, Metadata};
use std::io::ErrorKind;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

/// Length of the log header, and of each frame header.
const WAL_HEADER_BYTES: u64 = 32;
const FRAME_HEADER_BYTES: u64 = 24;
/// Magic number of a log without its last bit, which is the byte order of the checksums.
const WAL_MAGIC: u32 = 0x377f_0682;
/// Attempts to read the database file while it is being written, and the delay between them.
const MAX_READ_ATTEMPTS: u32 = 5;
const READ_RETRY_DELAY: Duration = Duration::from_millis(10);

/// The files of a store as they were when it was opened.
#[derive(Debug)]
pub(super) struct OpenFileIdentity {
    path: PathBuf,
    wal: PathBuf,
    shm: PathBuf,
    /// Random id of the store.
    id: String,
    files: Mutex<OpenFiles>,
    /// Set once the files changed. The store is not used after that.
    lost: OnceLock<StoreError>,
}

/// Device and inode.
type FileId = (u64, u64);

#[derive(Debug)]
struct OpenFiles {
    database: FileId,
    wal: FileId,
    /// The shared memory file; `None` on file systems where SQLite needs none.
    shm: Option<FileId>,
    /// Largest size of the database file so far. It never shrinks while it is open.
    size: u64,
    /// Last modification time of the database file.
    mtime: (i64, i64),
    /// Whether the id was read from the database file itself, not only through the log.
    id_in_file: bool,
    wal_file: File,
    /// The log after our last commit.
    last_commit: Option<WalFrames>,
}

/// The frames of the log since it last restarted.
#[derive(Debug, Clone, Copy)]
struct WalFrames {
    salts: [u8; 8],
    count: u64,
    page: u64,
}

impl WalFrames {
    fn bytes(self) -> u64 {
        WAL_HEADER_BYTES + self.count * (FRAME_HEADER_BYTES + self.page)
    }
}

/// Log size before a commit.
#[derive(Debug, Clone, Copy)]
pub(super) struct WalSizeBefore(u64);

fn file_id(meta: &Metadata) -> FileId {
    (meta.dev(), meta.ino())
}

fn with_suffix(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

impl OpenFileIdentity {
    /// Captures the files of a store that was just opened. `before` is the file that the path named before that.
    pub(super) fn capture(path: &Path, id: String, before: FileId) -> Result<Self, StoreError> {
        let (wal, shm) = (with_suffix(path, "-wal"), with_suffix(path, "-shm"));
        let wrong = |error: std::io::Error| {
            StoreError::new(StoreErrorKind::Io, format!("{}: {error}", path.display()))
        };
        let database = std::fs::metadata(path).map_err(wrong)?;
        let log = File::open(&wal).map_err(wrong)?;
        let files = OpenFiles {
            database: file_id(&database),
            wal: file_id(&log.metadata().map_err(wrong)?),
            shm: std::fs::metadata(&shm).ok().map(|meta| file_id(&meta)),
            size: database.len(),
            mtime: (database.mtime(), database.mtime_nsec()),
            id_in_file: false,
            wal_file: log,
            last_commit: None,
        };
        let same = files.database == before;
        let identity = OpenFileIdentity {
            path: path.to_path_buf(),
            wal,
            shm,
            id,
            files: Mutex::new(files),
            lost: OnceLock::new(),
        };
        if same { Ok(identity) } else { Err(identity.mark_lost(path, "was replaced")) }
    }

    /// Random id of the store.
    pub(super) fn id(&self) -> &str {
        &self.id
    }

    fn lock(&self) -> MutexGuard<'_, OpenFiles> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records and returns the error after which the store is no longer used.
    fn mark_lost(&self, file: &Path, what: &str) -> StoreError {
        let what = format!("{} {what} while the store was in use", file.display());
        self.lost.get_or_init(|| StoreError::new(StoreErrorKind::Replaced, what)).clone()
    }

    /// Fails if the files were found to be changed before.
    pub(super) fn check_not_lost(&self) -> Result<(), StoreError> {
        self.lost.get().map_or(Ok(()), |error| Err(error.clone()))
    }

    /// Checks the files before a read.
    pub(super) fn check(&self) -> Result<(), StoreError> {
        self.check_not_lost()?;
        self.check_files(&mut self.lock()).map(|_| ())
    }

    /// Whether only a commit can show that the log is complete: the log differs from our last commit, possibly
    /// because another process copied it into the database file and restarted it.
    pub(super) fn needs_probe_commit(&self) -> Result<bool, StoreError> {
        self.check_not_lost()?;
        let mut files = self.lock();
        let size = self.check_files(&mut files)?;
        let Some(last) = files.last_commit else { return Ok(false) };
        Ok(size < last.bytes()
            || read_wal_header(&files.wal_file).is_none_or(|(salts, _)| salts != last.salts))
    }

    /// Explains why SQLite cannot read its files, if they were tampered with.
    pub(super) fn explain_failure(&self) -> Option<StoreError> {
        match self.needs_probe_commit() {
            Ok(true) => Some(self.mark_lost(&self.wal, "was truncated or overwritten")),
            Ok(false) => None,
            Err(error) => Some(error).filter(|error| error.kind == StoreErrorKind::Replaced),
        }
    }

    /// Checks the files at the start of a write transaction.
    pub(super) fn before_commit(&self) -> Result<WalSizeBefore, StoreError> {
        self.check_not_lost()?;
        let mut files = self.lock();
        let size = self.check_files(&mut files)?;
        if let Some(last) = files.last_commit
            && size < last.bytes()
            && read_wal_header(&files.wal_file).is_some_and(|(salts, _)| salts == last.salts)
        {
            return Err(self.mark_lost(&self.wal, "was truncated"));
        }
        Ok(WalSizeBefore(size))
    }

    /// Checks that a commit is where a later process will find it. `frames` is the number of frames in the log after
    /// it; 0 if nothing was written.
    pub(super) fn after_commit(
        &self,
        WalSizeBefore(size): WalSizeBefore,
        frames: u32,
    ) -> Result<(), StoreError> {
        let mut files = self.lock();
        self.check_files(&mut files)?;
        if frames == 0 {
            return Ok(());
        }
        let count = u64::from(frames);
        let Some((salts, page)) = read_wal_header(&files.wal_file) else {
            return Err(self.mark_lost(&self.wal, "was truncated"));
        };
        let now = WalFrames { salts, count, page };
        let frame = |number: u64| {
            let mut bytes = [0_u8; FRAME_HEADER_BYTES as usize];
            let at = WAL_HEADER_BYTES + number * (FRAME_HEADER_BYTES + page);
            files.wal_file.read_exact_at(&mut bytes, at).is_ok() && bytes.get(8..16) == Some(salts.as_slice())
        };
        // The last frame of the commit, and the first one after the previous content: there is no hole in between.
        let there_before = size.saturating_sub(WAL_HEADER_BYTES) / (FRAME_HEADER_BYTES + page);
        if !frame(count - 1) || (there_before < count && !frame(there_before)) {
            return Err(self.mark_lost(&self.wal, "was truncated or overwritten"));
        }
        files.last_commit = Some(now);
        Ok(())
    }

    /// Checks all files; returns the size of the log.
    fn check_files(&self, files: &mut OpenFiles) -> Result<u64, StoreError> {
        let database = self.expect_file(&self.path, files.database)?;
        if database.len() < files.size {
            return Err(self.mark_lost(&self.path, "was truncated"));
        }
        files.size = database.len();
        let changed = (database.mtime(), database.mtime_nsec());
        if changed != files.mtime {
            self.verify_id(files)?;
            files.mtime = changed;
        }
        let wal = self.expect_file(&self.wal, files.wal)?;
        if let Some(shm) = files.shm {
            self.expect_file(&self.shm, shm)?;
        }
        Ok(wal.len())
    }

    fn expect_file(&self, path: &Path, expected: FileId) -> Result<Metadata, StoreError> {
        match std::fs::metadata(path) {
            Ok(found) if file_id(&found) == expected => Ok(found),
            Ok(_) => Err(self.mark_lost(path, "was replaced")),
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
                Err(self.mark_lost(path, "was deleted"))
            }
            Err(error) => Err(StoreError::new(StoreErrorKind::Io, format!("{}: {error}", path.display()))),
        }
    }

    /// The database file was modified, by a checkpoint or by an overwrite in place. Reads the id from the file
    /// itself, without the log.
    fn verify_id(&self, files: &mut OpenFiles) -> Result<(), StoreError> {
        for attempt in 0..MAX_READ_ATTEMPTS {
            match reader::open_without_wal(&self.path)
                .and_then(|sql| super::schema::store_id(&sql).optional())
            {
                Ok(Some(Some(id))) if id == self.id => {
                    files.id_in_file = true;
                    return Ok(());
                }
                Ok(Some(Some(_))) => {
                    return Err(self.mark_lost(&self.path, "was overwritten with another store"));
                }
                // A store of an older version, whose id is only in the log until the next checkpoint.
                _ if !files.id_in_file => return Ok(()),
                // A checkpoint may be writing these pages right now.
                _ if attempt + 1 < MAX_READ_ATTEMPTS => std::thread::park_timeout(READ_RETRY_DELAY),
                _ => break,
            }
        }
        Err(self.mark_lost(&self.path, "was overwritten"))
    }
}

/// Salts of the current log and its page size; `None` if it is empty or not a log.
fn read_wal_header(log: &File) -> Option<([u8; 8], u64)> {
    let mut bytes = [0_u8; WAL_HEADER_BYTES as usize];
    log.read_exact_at(&mut bytes, 0).ok()?;
    let word = |at: usize| Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    if word(0)? & !1 != WAL_MAGIC {
        return None;
    }
    Some((bytes.get(16..24)?.try_into().ok()?, u64::from(word(8)?)))
}

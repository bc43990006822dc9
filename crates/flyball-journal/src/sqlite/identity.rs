//! Whether the files of an open store are still the ones that were opened.
//!
//! SQLite keeps its files open. If they are deleted, replaced or truncated meanwhile, it goes on writing to files that
//! nobody will find again. Each commit is therefore checked before it is acknowledged: the inodes of the three files, the
//! size of the database, the identity in its first pages, and the frames of the commit itself in the write-ahead log.

use super::reader;
use crate::error::{StoreError, Trouble};
use rusqlite::OptionalExtension;
use std::fs::{File, Metadata};
use std::io::ErrorKind;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

/// The length of the header of the log, and of the header of each frame in it.
const LOG_HEADER: u64 = 32;
const FRAME_HEADER: u64 = 24;
/// The first bytes of a log, without the last bit, which tells the byte order of its checksums.
const LOG_MAGIC: u32 = 0x377f_0682;
/// How often the database file is read again while something seems to be writing to it, and the pause between.
const READS: u32 = 5;
const PAUSE: Duration = Duration::from_millis(10);

/// The files of an open store, as they were when it was opened.
#[derive(Debug)]
pub(super) struct Identity {
    path: PathBuf,
    wal: PathBuf,
    shm: PathBuf,
    /// The random id of the store.
    id: String,
    files: Mutex<Files>,
    /// What happened to the files. The store is not used any more then.
    lost: OnceLock<StoreError>,
}

/// An inode.
type FileId = (u64, u64);

#[derive(Debug)]
struct Files {
    database: FileId,
    wal: FileId,
    /// The shared memory file; none on a filesystem where SQLite needs none.
    shm: Option<FileId>,
    /// The largest size of the database file so far. It never shrinks while it is open.
    size: u64,
    /// When the database file changed last, in nanoseconds.
    changed: (i64, i64),
    /// The id was seen in the database file itself, and not only through the log.
    id_in_file: bool,
    log: File,
    /// The log after our last commit.
    last: Option<Frames>,
}

/// The frames of the log in its present lap.
#[derive(Debug, Clone, Copy)]
struct Frames {
    salts: [u8; 8],
    count: u64,
    page: u64,
}

impl Frames {
    fn bytes(self) -> u64 {
        LOG_HEADER + self.count * (FRAME_HEADER + self.page)
    }
}

/// The size of the log before a commit.
#[derive(Debug, Clone, Copy)]
pub(super) struct Before(u64);

fn file_id(meta: &Metadata) -> FileId {
    (meta.dev(), meta.ino())
}

fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

impl Identity {
    /// Remembers the files of a store that was just opened. `before` is the inode that the path led to before that.
    pub(super) fn of(path: &Path, id: String, before: FileId) -> Result<Self, StoreError> {
        let (wal, shm) = (beside(path, "-wal"), beside(path, "-shm"));
        let wrong =
            |error: std::io::Error| StoreError::new(Trouble::Io, format!("{}: {error}", path.display()));
        let database = std::fs::metadata(path).map_err(wrong)?;
        let log = File::open(&wal).map_err(wrong)?;
        let files = Files {
            database: file_id(&database),
            wal: file_id(&log.metadata().map_err(wrong)?),
            shm: std::fs::metadata(&shm).ok().map(|meta| file_id(&meta)),
            size: database.len(),
            changed: (database.mtime(), database.mtime_nsec()),
            id_in_file: false,
            log,
            last: None,
        };
        let same = files.database == before;
        let identity = Identity {
            path: path.to_path_buf(),
            wal,
            shm,
            id,
            files: Mutex::new(files),
            lost: OnceLock::new(),
        };
        if same { Ok(identity) } else { Err(identity.lose(path, "was replaced")) }
    }

    /// The random id of the store.
    pub(super) fn id(&self) -> &str {
        &self.id
    }

    fn files(&self) -> MutexGuard<'_, Files> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The error after which the store is not used any more.
    fn lose(&self, file: &Path, what: &str) -> StoreError {
        let what = format!("{} {what} while the store was in use", file.display());
        self.lost.get_or_init(|| StoreError::new(Trouble::Replaced, what)).clone()
    }

    /// An error if the files were found to be gone before.
    pub(super) fn intact(&self) -> Result<(), StoreError> {
        self.lost.get().map_or(Ok(()), |error| Err(error.clone()))
    }

    /// Checks the files, for what is only read.
    pub(super) fn check(&self) -> Result<(), StoreError> {
        self.intact()?;
        self.look(&mut self.files()).map(|_| ())
    }

    /// Whether only a commit can tell if the log is complete: it is not as our last commit left it, which may be because
    /// another process has copied it into the database file and begun it anew.
    pub(super) fn is_uncertain(&self) -> Result<bool, StoreError> {
        self.intact()?;
        let mut files = self.files();
        let size = self.look(&mut files)?;
        let Some(last) = files.last else { return Ok(false) };
        Ok(size < last.bytes() || header(&files.log).is_none_or(|(salts, _)| salts != last.salts))
    }

    /// The reason why SQLite cannot read its files, if something was done to them.
    pub(super) fn explain(&self) -> Option<StoreError> {
        match self.is_uncertain() {
            Ok(true) => Some(self.lose(&self.wal, "was truncated or overwritten")),
            Ok(false) => None,
            Err(error) => Some(error).filter(|error| error.trouble == Trouble::Replaced),
        }
    }

    /// Checks the files in a transaction that may write, before it does.
    pub(super) fn before(&self) -> Result<Before, StoreError> {
        self.intact()?;
        let mut files = self.files();
        let size = self.look(&mut files)?;
        if let Some(last) = files.last
            && size < last.bytes()
            && header(&files.log).is_some_and(|(salts, _)| salts == last.salts)
        {
            return Err(self.lose(&self.wal, "was truncated"));
        }
        Ok(Before(size))
    }

    /// Checks that a commit is where a later process will find it. `frames` is the number of frames in the log after it;
    /// 0 if nothing was written.
    pub(super) fn after(&self, Before(size): Before, frames: u32) -> Result<(), StoreError> {
        let mut files = self.files();
        self.look(&mut files)?;
        if frames == 0 {
            return Ok(());
        }
        let count = u64::from(frames);
        let Some((salts, page)) = header(&files.log) else {
            return Err(self.lose(&self.wal, "was truncated"));
        };
        let now = Frames { salts, count, page };
        let frame = |number: u64| {
            let mut bytes = [0_u8; FRAME_HEADER as usize];
            let at = LOG_HEADER + number * (FRAME_HEADER + page);
            files.log.read_exact_at(&mut bytes, at).is_ok() && bytes.get(8..16) == Some(salts.as_slice())
        };
        // The last frame of the commit, and the first one behind what was there before: no hole in between.
        let there_before = size.saturating_sub(LOG_HEADER) / (FRAME_HEADER + page);
        if !frame(count - 1) || (there_before < count && !frame(there_before)) {
            return Err(self.lose(&self.wal, "was truncated or overwritten"));
        }
        files.last = Some(now);
        Ok(())
    }

    /// Looks at all files; gives the size of the log.
    fn look(&self, files: &mut Files) -> Result<u64, StoreError> {
        let database = self.find(&self.path, files.database)?;
        if database.len() < files.size {
            return Err(self.lose(&self.path, "was truncated"));
        }
        files.size = database.len();
        let changed = (database.mtime(), database.mtime_nsec());
        if changed != files.changed {
            self.read_id(files)?;
            files.changed = changed;
        }
        let wal = self.find(&self.wal, files.wal)?;
        if let Some(shm) = files.shm {
            self.find(&self.shm, shm)?;
        }
        Ok(wal.len())
    }

    fn find(&self, path: &Path, expected: FileId) -> Result<Metadata, StoreError> {
        match std::fs::metadata(path) {
            Ok(found) if file_id(&found) == expected => Ok(found),
            Ok(_) => Err(self.lose(path, "was replaced")),
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
                Err(self.lose(path, "was deleted"))
            }
            Err(error) => Err(StoreError::new(Trouble::Io, format!("{}: {error}", path.display()))),
        }
    }

    /// The database file was written to: by a checkpoint, or by something that overwrites it in place. The id is read from
    /// the file itself, past the log.
    fn read_id(&self, files: &mut Files) -> Result<(), StoreError> {
        for attempt in 0..READS {
            match reader::past_the_log(&self.path).and_then(|sql| super::schema::store_id(&sql).optional()) {
                Ok(Some(Some(id))) if id == self.id => {
                    files.id_in_file = true;
                    return Ok(());
                }
                Ok(Some(Some(_))) => return Err(self.lose(&self.path, "was overwritten with another store")),
                // A store of an older version, whose id is only in the log until the next checkpoint.
                _ if !files.id_in_file => return Ok(()),
                // A checkpoint may be copying these pages at the moment.
                _ if attempt + 1 < READS => std::thread::park_timeout(PAUSE),
                _ => break,
            }
        }
        Err(self.lose(&self.path, "was overwritten"))
    }
}

/// The salts of the log's present lap and its page size; none if it is empty or no log.
fn header(log: &File) -> Option<([u8; 8], u64)> {
    let mut bytes = [0_u8; LOG_HEADER as usize];
    log.read_exact_at(&mut bytes, 0).ok()?;
    let word = |at: usize| Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    if word(0)? & !1 != LOG_MAGIC {
        return None;
    }
    Some((bytes.get(16..24)?.try_into().ok()?, u64::from(word(8)?)))
}

//! Who runs a session: a lease in the store, and a lock on a file beside it that its process takes with it when it dies.
//!
//! The lease keeps machines apart and runs out slowly. The lock tells at once whether a process of this machine is gone,
//! so that a run that was killed can be taken up again without a wait.

use super::book::Book;
use super::leftover;
use crate::fail::Failure;
use flyball_journal::{Address, Desk, HolderIsGone, Lease};
use rustix::fs::{FlockOperation, flock};
use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, Write};
use std::path::Path;
use std::time::{Duration, Instant};

/// How long a run's claim on its session holds without being renewed.
const LEASE: Duration = Duration::from_secs(30);
/// How long the lock of a process that is gone may outlive it, and how often it is looked at.
const MOMENT: Duration = Duration::from_secs(2);
const TICK: Duration = Duration::from_millis(10);
/// The file, in the folder of the run.
const FILE: &str = "holder";

/// A session that nobody else runs.
pub(super) struct Claim {
    lease: Lease,
    /// Programs of a run that was cut off, and were still running.
    pub(super) ended: usize,
    _lock: File,
}

impl Claim {
    /// Claims a session for `holder`, a name that no other run has. Nothing for a book that keeps nothing.
    ///
    /// # Errors
    /// `run_elsewhere` if somebody runs it.
    pub(super) fn take(
        book: &Book,
        files: &Path,
        session: &str,
        holder: &str,
    ) -> Result<Option<Self>, Failure> {
        let Some(recorder) = book.recorder() else { return Ok(None) };
        let elsewhere = || {
            Failure::new(
                "run_elsewhere",
                format!("session '{session}' is being run by another process"),
                "watch it with `flyball status`, or wait until that process is gone",
            )
        };
        let wrong = |error: std::io::Error| {
            let what = format!("the folder of the run cannot be used: {error}");
            Failure::new("run_files", what, "check that the folder of the store can be written")
                .at(files.display().to_string())
        };
        std::fs::create_dir_all(files).map_err(wrong)?;
        let path = files.join(FILE);
        let open = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path);
        let mut lock = open.map_err(wrong)?;
        if !locked(&lock) {
            return Err(elsewhere());
        }
        // Whoever stands in the file is gone, or the lock would be theirs.
        let gone = names(&mut lock).map_err(wrong)?;
        let own = Name { holder: holder.to_owned(), sid: leftover::own_sid() };
        // Our name stands there before the lease does: if we die in between, the next one knows all who held it.
        write(&mut lock, gone.iter().chain([&own])).map_err(wrong)?;
        let journal = recorder.journal();
        let lease = take_over(journal.as_ref(), session, holder, &gone)?.ok_or_else(elsewhere)?;
        write(&mut lock, [&own].into_iter()).map_err(wrong)?;
        recorder.hold(&lease);
        let sids: Vec<i32> = gone.iter().map(|name| name.sid).collect();
        let ended = leftover::end(files, &sids);
        Ok(Some(Claim { lease, ended, _lock: lock }))
    }

    /// The lease, for whoever renews it.
    pub(super) fn lease(&self) -> Lease {
        self.lease.clone()
    }

    /// Says that a claim still stands.
    pub(super) fn renew(book: &Book, lease: &Lease) -> bool {
        let renewed = |journal: &dyn Desk| journal.renew(lease, millis()).unwrap_or(false);
        book.recorder().is_none_or(|recorder| renewed(recorder.journal().as_ref()))
    }

    /// Gives the claim back.
    pub(super) fn free(self, book: &Book) {
        if let Some(recorder) = book.recorder() {
            recorder.let_go(&self.lease.session);
            // If it cannot be given back it runs out by itself.
            let _ = recorder.journal().free(&self.lease);
        }
    }
}

/// Tells whether the process that holds a session's lease is known to be gone, by session and holder: it ran on this
/// machine, and nobody has its lock file open any more.
pub fn holder_is_gone(journal: &dyn Desk) -> HolderIsGone {
    let address = std::env::current_dir().ok().and_then(|here| Address::read(&journal.address(), &here).ok());
    Box::new(move |session: &str, holder: &str| {
        let file = address.as_ref().and_then(|address| address.run_folder(session).ok());
        let file = file.and_then(|folder| File::open(folder.join(FILE)).ok());
        file.is_some_and(|mut file| {
            // A shared lock for a moment: a run that starts right now waits longer than that for its own.
            let is_free = flock(&file, FlockOperation::NonBlockingLockShared).is_ok();
            is_free && names(&mut file).is_ok_and(|names| names.iter().any(|name| name.holder == holder))
        })
    })
}

/// Takes the lock. A program that a killed run was just about to start holds it for a moment longer.
fn locked(file: &File) -> bool {
    let until = Instant::now() + MOMENT;
    loop {
        if flock(file, FlockOperation::NonBlockingLockExclusive).is_ok() {
            return true;
        }
        if Instant::now() >= until {
            return false;
        }
        std::thread::park_timeout(TICK);
    }
}

fn millis() -> u64 {
    u64::try_from(LEASE.as_millis()).unwrap_or(u64::MAX)
}

/// A lease of our own: a free one, or that of a process that is gone.
fn take_over(
    journal: &dyn Desk,
    session: &str,
    holder: &str,
    gone: &[Name],
) -> Result<Option<Lease>, Failure> {
    if let Some(lease) = journal.lease(session, holder, millis())? {
        return Ok(Some(lease));
    }
    for name in gone {
        // Given only if it is theirs. Then it is freed, so that ours is of a new epoch.
        if let Some(theirs) = journal.lease(session, &name.holder, millis())? {
            journal.free(&theirs)?;
            return Ok(journal.lease(session, holder, millis())?);
        }
    }
    Ok(None)
}

/// A run that held the session, and the session of the system that its programs are in.
struct Name {
    holder: String,
    sid: i32,
}

fn names(file: &mut File) -> std::io::Result<Vec<Name>> {
    let mut text = String::new();
    file.rewind()?;
    file.read_to_string(&mut text)?;
    let read = |line: &str| {
        let (sid, holder) = line.split_once(' ')?;
        Some(Name { holder: holder.to_owned(), sid: sid.parse().ok()? })
    };
    Ok(text.lines().filter_map(read).collect())
}

fn write<'a>(file: &mut File, names: impl Iterator<Item = &'a Name>) -> std::io::Result<()> {
    let lines: String = names.map(|name| format!("{} {}\n", name.sid, name.holder)).collect();
    file.rewind()?;
    file.write_all(lines.as_bytes())?;
    file.set_len(lines.len() as u64)?;
    file.sync_data()
}

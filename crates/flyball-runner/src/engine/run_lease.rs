//! Exclusive ownership of a session: a lease in the store, plus a file lock that the system releases when the process
//! dies.
//!
//! The lease works across machines and expires slowly. The lock shows immediately whether a process on this machine is
//! gone, so that a killed run can be resumed without waiting.

use super::event_sink::EventSink;
use super::orphans;
use crate::run_error::RunError;
use flyball_store::{AdminStore, HolderIsGone, Lease, StoreAddress};
use rustix::fs::{FlockOperation, flock};
use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, Write};
use std::path::Path;
use std::time::{Duration, Instant};

/// Lifetime of a lease without renewal.
const LEASE_TTL: Duration = Duration::from_secs(30);
/// How long the lock of a dead process may outlive it, and how often to check.
const LOCK_TIMEOUT: Duration = Duration::from_secs(2);
const LOCK_POLL_INTERVAL: Duration = Duration::from_millis(10);
/// Lock file in the run directory.
const HOLDER_FILE: &str = "holder";

/// Exclusive ownership of a session.
pub(super) struct RunLease {
    lease: Lease,
    /// Number of programs of an interrupted run that were still running.
    pub(super) orphans_killed: usize,
    _lock: File,
}

impl RunLease {
    /// Acquires the lease of a session for `holder`, a unique name. `None` for an ephemeral sink.
    ///
    /// # Errors
    /// `run_locked` if another process runs the session.
    pub(super) fn acquire(
        sink: &EventSink,
        run_dir: &Path,
        session: &str,
        holder: &str,
    ) -> Result<Option<Self>, RunError> {
        let Some(recorder) = sink.recorder() else { return Ok(None) };
        let locked = || {
            RunError::new(
                "run_locked",
                format!("session '{session}' is being run by another process"),
                "watch it with `flyball status`, or wait until that process exits",
            )
        };
        let wrong = |error: std::io::Error| {
            let what = format!("cannot use the run directory: {error}");
            RunError::new("run_directory", what, "check that the store folder is writable")
                .at(run_dir.display().to_string())
        };
        std::fs::create_dir_all(run_dir).map_err(wrong)?;
        let path = run_dir.join(HOLDER_FILE);
        let open = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path);
        let mut lock = open.map_err(wrong)?;
        if !acquire_file_lock(&lock) {
            return Err(locked());
        }
        // We hold the lock, so the holders named in the file are gone.
        let gone = read_holders(&mut lock).map_err(wrong)?;
        let own = LeaseHolder { holder: holder.to_owned(), sid: orphans::own_sid() };
        // Write our name before acquiring the lease: if we die in between, the next process knows all possible holders.
        write_holders(&mut lock, gone.iter().chain([&own])).map_err(wrong)?;
        let journal = recorder.store();
        let lease = acquire_or_take_over(journal.as_ref(), session, holder, &gone)?.ok_or_else(locked)?;
        write_holders(&mut lock, [&own].into_iter()).map_err(wrong)?;
        recorder.hold_lease(&lease);
        let sids: Vec<i32> = gone.iter().map(|name| name.sid).collect();
        let ended = orphans::kill_orphans(run_dir, &sids);
        Ok(Some(RunLease { lease, orphans_killed: ended, _lock: lock }))
    }

    /// The lease, for renewal.
    pub(super) fn lease(&self) -> Lease {
        self.lease.clone()
    }

    /// Renews a lease; false if it was lost.
    pub(super) fn renew(sink: &EventSink, lease: &Lease) -> bool {
        let renewed = |journal: &dyn AdminStore| journal.renew_lease(lease, lease_ttl_ms()).unwrap_or(false);
        sink.recorder().is_none_or(|recorder| renewed(recorder.store().as_ref()))
    }

    /// Releases the lease.
    pub(super) fn release(self, sink: &EventSink) {
        if let Some(recorder) = sink.recorder() {
            recorder.drop_lease(&self.lease.session);
            // A lease that cannot be released expires.
            let _ = recorder.store().release_lease(&self.lease);
        }
    }
}

/// Returns a predicate over session and holder: whether the process that holds a session's lease is known to be gone.
/// It is if it ran on this machine and its lock file is unlocked.
pub fn holder_is_gone(journal: &dyn AdminStore) -> HolderIsGone {
    let address =
        std::env::current_dir().ok().and_then(|here| StoreAddress::parse(&journal.address(), &here).ok());
    Box::new(move |session: &str, holder: &str| {
        let file = address.as_ref().and_then(|address| address.run_folder(session).ok());
        let file = file.and_then(|folder| File::open(folder.join(HOLDER_FILE)).ok());
        file.is_some_and(|mut file| {
            // The shared lock is brief; a run that starts right now waits longer for its exclusive lock.
            let is_free = flock(&file, FlockOperation::NonBlockingLockShared).is_ok();
            is_free
                && read_holders(&mut file).is_ok_and(|names| names.iter().any(|name| name.holder == holder))
        })
    })
}

/// Acquires the file lock. A child process that a killed run was just spawning may hold it a moment longer.
fn acquire_file_lock(file: &File) -> bool {
    let until = Instant::now() + LOCK_TIMEOUT;
    loop {
        if flock(file, FlockOperation::NonBlockingLockExclusive).is_ok() {
            return true;
        }
        if Instant::now() >= until {
            return false;
        }
        std::thread::park_timeout(LOCK_POLL_INTERVAL);
    }
}

fn lease_ttl_ms() -> u64 {
    u64::try_from(LEASE_TTL.as_millis()).unwrap_or(u64::MAX)
}

/// Acquires a free lease, or the lease of a process that is gone.
fn acquire_or_take_over(
    journal: &dyn AdminStore,
    session: &str,
    holder: &str,
    gone: &[LeaseHolder],
) -> Result<Option<Lease>, RunError> {
    if let Some(lease) = journal.lease(session, holder, lease_ttl_ms())? {
        return Ok(Some(lease));
    }
    for name in gone {
        // This succeeds only if the lease is theirs. Release it first, so that ours gets a new epoch.
        if let Some(theirs) = journal.lease(session, &name.holder, lease_ttl_ms())? {
            journal.release_lease(&theirs)?;
            return Ok(journal.lease(session, holder, lease_ttl_ms())?);
        }
    }
    Ok(None)
}

/// A run that held the session, and the process session of its programs.
struct LeaseHolder {
    holder: String,
    sid: i32,
}

fn read_holders(file: &mut File) -> std::io::Result<Vec<LeaseHolder>> {
    let mut text = String::new();
    file.rewind()?;
    file.read_to_string(&mut text)?;
    let read = |line: &str| {
        let (sid, holder) = line.split_once(' ')?;
        Some(LeaseHolder { holder: holder.to_owned(), sid: sid.parse().ok()? })
    };
    Ok(text.lines().filter_map(read).collect())
}

fn write_holders<'a>(file: &mut File, names: impl Iterator<Item = &'a LeaseHolder>) -> std::io::Result<()> {
    let lines: String = names.map(|name| format!("{} {}\n", name.sid, name.holder)).collect();
    file.rewind()?;
    file.write_all(lines.as_bytes())?;
    file.set_len(lines.len() as u64)?;
    file.sync_data()
}

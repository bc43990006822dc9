//! Workflow runs on the server: a request enqueues a job, and any server of the store runs it.
//!
//! A job is an entry in the store (`job.rs`). A worker (`worker.rs`) leases it, renews the lease, and runs the
//! workflow in a separate process of the same program (`run_process.rs`), so that a crashing run does not take down
//! the server. If the server dies, the lease expires and another server continues: a run is durable, and the
//! session's own lease ensures that one process runs it at a time.

pub(crate) mod handlers;
mod job;
mod record;
mod registry;
mod run_process;
mod worker;

use flyball::Verdict;
use flyball_store::{AdminStore, StoreError};
use job::{InterruptedStep, JobQueue};
use record::RunRecords;
use registry::WorkflowRegistry;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

pub(crate) use worker::RunWorkers;

/// Worker settings from the command line.
#[derive(Debug, Clone, Default)]
pub struct WorkerConfig {
    /// Folder of the workflows that can be run; without one there are none.
    pub folder: Option<PathBuf>,
    /// Number of concurrent runs on this server.
    pub workers: usize,
    /// The program that runs workflows: this executable.
    pub program: PathBuf,
    /// Additional arguments: the store and the policy.
    pub args: Vec<OsString>,
    /// Environment variables with secrets, which must not appear in process lists.
    pub env: Vec<(OsString, OsString)>,
}

/// Enqueues a run that was started through a server, after an operator acted on it outside the server; any server of
/// the store continues it. `false` if no server started it.
///
/// # Errors
/// If the store fails.
pub fn enqueue_resume(store: &Arc<dyn AdminStore>, session: &str, by: &str) -> Result<bool, StoreError> {
    let Some(run) = flyball_view::run_status::run_of(store.as_ref(), session)? else { return Ok(false) };
    if RunRecords::new(Arc::clone(store)).find(&run.session)?.is_none() {
        return Ok(false);
    }
    JobQueue::new(Arc::clone(store)).enqueue(&run.session, by, None)?;
    Ok(true)
}

/// The runs of a store.
pub(crate) struct RunService {
    config: WorkerConfig,
    pub(crate) registry: WorkflowRegistry,
    pub(crate) jobs: JobQueue,
    pub(crate) records: RunRecords,
    store: Arc<dyn AdminStore>,
    wakeup: Wakeup,
}

impl RunService {
    pub(crate) fn new(config: WorkerConfig, store: &Arc<dyn AdminStore>) -> Self {
        RunService {
            registry: WorkflowRegistry::new(config.folder.as_deref()),
            jobs: JobQueue::new(Arc::clone(store)),
            records: RunRecords::new(Arc::clone(store)),
            store: Arc::clone(store),
            wakeup: Wakeup::default(),
            config,
        }
    }

    /// Enqueues a job for a session and wakes the workers.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(crate) fn enqueue(
        &self,
        session: &str,
        by: &str,
        interrupted: Option<InterruptedStep>,
    ) -> Result<(), StoreError> {
        self.jobs.enqueue(session, by, interrupted)?;
        self.wakeup.notify();
        Ok(())
    }

    /// Continues a run of this server after an operator or channel event in its session.
    pub(crate) fn on_person_event(&self, session: &str, kind: &str, verdict: Verdict, by: &str) {
        let resumes =
            matches!(kind, "human.released" | "confirmation.answered" | "user.message" | "person.message");
        if !resumes || verdict >= Verdict::Block {
            return;
        }
        // The event itself is recorded. If the job cannot be written, the run can be resumed manually.
        let _ = self.server_run(session).map(|run| run.map(|run| self.enqueue(&run, by, None)));
    }

    /// The run that a session belongs to, if a server started it or its workflow is registered here.
    ///
    /// # Errors
    /// If it cannot be read.
    pub(crate) fn server_run(&self, session: &str) -> Result<Option<String>, StoreError> {
        let run = flyball_view::run_status::run_of(self.store.as_ref(), session)?;
        let Some(run) = run else { return Ok(None) };
        let known = self.registry.contains(&run.file) || self.records.find(&run.session)?.is_some();
        Ok(known.then_some(run.session))
    }
}

/// Wakes the workers when there is a job, and at shutdown.
#[derive(Debug, Default)]
struct Wakeup {
    /// Number of notifications.
    count: Mutex<u64>,
    changed: Condvar,
    closed: AtomicBool,
}

impl Wakeup {
    fn notify(&self) {
        let mut count = self.count.lock().unwrap_or_else(PoisonError::into_inner);
        *count = count.wrapping_add(1);
        drop(count);
        self.changed.notify_all();
    }

    /// Shuts down the workers.
    fn close(&self) {
        self.closed.store(true, Ordering::Relaxed);
        self.notify();
    }

    fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }

    /// Waits for a notification after `seen`, but at most `most`: notifications of other servers are not received.
    fn wait(&self, seen: &mut u64, most: Duration) {
        let count = self.count.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.changed.wait_timeout_while(count, most, |count| *count == *seen);
        *seen = *waited.unwrap_or_else(PoisonError::into_inner).0;
    }
}

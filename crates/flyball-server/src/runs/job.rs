//! Job queue: one entry per session to run, leased by one worker at a time.
//!
//! Every change is a compare-and-swap on the entry's text, so exactly one of several contenders succeeds. A request
//! that arrives while a worker runs the job is not lost: the job is marked and runs once more.

use flyball_store::{AdminStore, KvEntry, Precondition, StoreError, StoreErrorKind};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use utoipa::ToSchema;

/// Namespace of the jobs.
const KV_NAMESPACE: &str = "orders";
/// Lease duration without renewal, in milliseconds of store time.
pub(super) const LEASE_MS: u64 = 6_000;
/// Number of jobs read at once.
const PAGE_JOBS: usize = 100;
/// Maximum number of compare-and-swap attempts.
const MAX_ATTEMPTS: usize = 50;

/// How to handle an interrupted step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum InterruptedStep {
    /// Run it again, although its progress is unknown.
    Rerun,
    /// Treat it as failed and continue.
    Skip,
}

/// A request to run or resume a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RunJob {
    /// The session.
    pub(crate) session: String,
    /// Who requested it.
    pub(crate) by: String,
    /// When it was enqueued, in milliseconds of store time.
    #[serde(rename = "placed")]
    pub(crate) enqueued_at: u64,
    /// How to handle an interrupted step; by default a person is asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(rename = "cut_off")]
    pub(crate) interrupted: Option<InterruptedStep>,
    /// The worker that holds the lease.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) holder: Option<String>,
    /// Incremented by every lease.
    pub(crate) epoch: u64,
    /// When it can be leased, in milliseconds of store time.
    #[serde(rename = "free_at")]
    pub(crate) available_at: u64,
    /// Enqueued again since it was leased.
    #[serde(default)]
    #[serde(rename = "again")]
    pub(crate) rerun_requested: bool,
    /// How often its process was ended by a signal.
    #[serde(default)]
    pub(crate) crashes: u32,
}

/// A leased job and its stored text.
#[derive(Debug)]
pub(super) struct LeasedJob {
    pub(super) job: RunJob,
    text: String,
}

/// The job queue of a store.
pub(crate) struct JobQueue {
    store: Arc<dyn AdminStore>,
}

impl JobQueue {
    pub(super) fn new(store: Arc<dyn AdminStore>) -> Self {
        JobQueue { store }
    }

    /// Enqueues a job, or marks the existing one.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(super) fn enqueue(
        &self,
        session: &str,
        by: &str,
        interrupted: Option<InterruptedStep>,
    ) -> Result<(), StoreError> {
        for _ in 0..MAX_ATTEMPTS {
            let now = self.store.now()?;
            let there = self.store.kv_get(KV_NAMESPACE, session)?;
            let mut job = match &there {
                Some(note) => parse_job(note)?,
                None => RunJob {
                    session: session.to_owned(),
                    by: by.to_owned(),
                    enqueued_at: now,
                    interrupted,
                    holder: None,
                    epoch: 0,
                    available_at: 0,
                    rerun_requested: false,
                    crashes: 0,
                },
            };
            let only_if = match &there {
                None => Precondition::Absent,
                Some(note) => {
                    (job.interrupted, job.crashes) = (interrupted.or(job.interrupted), 0);
                    if job.holder.is_some() {
                        job.rerun_requested = true;
                    } else {
                        job.available_at = 0;
                    }
                    Precondition::Equals(&note.value)
                }
            };
            if self.store.kv_put(&kv_entry(&job, None)?, only_if)? {
                return Ok(());
            }
        }
        Err(contention_error())
    }

    /// The job of a session.
    ///
    /// # Errors
    /// If it cannot be read.
    pub(crate) fn find(&self, session: &str) -> Result<Option<RunJob>, StoreError> {
        self.store.kv_get(KV_NAMESPACE, session)?.as_ref().map(parse_job).transpose()
    }

    /// Leases an available job that this worker can run.
    ///
    /// # Errors
    /// If the store fails.
    pub(super) fn lease(
        &self,
        holder: &str,
        can: impl Fn(&RunJob) -> Result<bool, StoreError>,
    ) -> Result<Option<LeasedJob>, StoreError> {
        let mut after = String::new();
        loop {
            let page = self.store.kv_list(KV_NAMESPACE, &after, PAGE_JOBS)?;
            let Some(last) = page.last() else { return Ok(None) };
            after.clone_from(&last.key);
            let now = self.store.now()?;
            for found in &page {
                let mut job = parse_job(found)?;
                if job.available_at > now || !can(&job)? {
                    continue;
                }
                job.holder = Some(holder.to_owned());
                job.epoch += 1;
                job.available_at = now.saturating_add(LEASE_MS);
                job.rerun_requested = false;
                let new = kv_entry(&job, None)?;
                if self.store.kv_put(&new, Precondition::Equals(&found.value))? {
                    return Ok(Some(LeasedJob { job, text: new.value }));
                }
            }
        }
    }

    /// Renews a lease. `false` if another worker holds it now.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(super) fn renew(&self, leased: &mut LeasedJob) -> Result<bool, StoreError> {
        let available_at = self.store.now()?.saturating_add(LEASE_MS);
        self.update(leased, |job| {
            job.available_at = available_at;
            None
        })
    }

    /// Returns a job to the queue, available after a delay.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(super) fn release(
        &self,
        leased: &mut LeasedJob,
        wait_ms: u64,
        crashes: u32,
    ) -> Result<bool, StoreError> {
        let available_at = self.store.now()?.saturating_add(wait_ms);
        self.update(leased, |job| {
            (job.holder, job.available_at, job.rerun_requested, job.crashes) =
                (None, available_at, false, crashes);
            None
        })
    }

    /// Removes a finished job, unless it was enqueued again meanwhile; then it is available immediately.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(super) fn complete(&self, leased: &mut LeasedJob) -> Result<bool, StoreError> {
        self.update(leased, |job| {
            // The choice about an interrupted step applied to that step only.
            (job.holder, job.available_at, job.interrupted) = (None, 0, None);
            // An entry that expired at time 0 is deleted, but only if it is unchanged.
            if std::mem::take(&mut job.rerun_requested) { None } else { Some(0) }
        })
    }

    /// Changes a leased job, retrying when others have marked it meanwhile.
    fn update(
        &self,
        leased: &mut LeasedJob,
        change: impl Fn(&mut RunJob) -> Option<u64>,
    ) -> Result<bool, StoreError> {
        for _ in 0..MAX_ATTEMPTS {
            let mut job = leased.job.clone();
            let until = change(&mut job);
            let new = kv_entry(&job, until)?;
            if self.store.kv_put(&new, Precondition::Equals(&leased.text))? {
                *leased = LeasedJob { job, text: new.value };
                return Ok(true);
            }
            let Some(there) = self.store.kv_get(KV_NAMESPACE, &leased.job.session)? else { return Ok(false) };
            let now = parse_job(&there)?;
            if (now.epoch, &now.holder) != (leased.job.epoch, &leased.job.holder) {
                return Ok(false);
            }
            *leased = LeasedJob { job: now, text: there.value };
        }
        Err(contention_error())
    }
}

fn contention_error() -> StoreError {
    StoreError::new(StoreErrorKind::Busy, "too many concurrent changes of this job")
}

fn kv_entry(job: &RunJob, until: Option<u64>) -> Result<KvEntry, StoreError> {
    let text =
        serde_json::to_string(job).map_err(|error| StoreError::new(StoreErrorKind::Io, error.to_string()))?;
    Ok(KvEntry {
        namespace: KV_NAMESPACE.to_owned(),
        key: job.session.clone(),
        value: text,
        expires_at: until,
    })
}

fn parse_job(note: &KvEntry) -> Result<RunJob, StoreError> {
    let damaged = |error| StoreError::corrupt(format!("an order cannot be read: {error}"));
    serde_json::from_str(&note.value).map_err(damaged)
}

#[cfg(test)]
#[path = "job_tests.rs"]
mod tests;

//! Event ingest: an async submit queue in front of the recorder, and notifications about commits.

use crate::api_error::ApiError;
use crate::telemetry::Telemetry;
use crate::telemetry::recent_decisions::RecentDecisions;
use flyball_store::{
    BoxedSubmission, RecordResult, Recorder, SubmitError, SubmitQueue, SubmitQueueOptions, WriterThreads,
};
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::watch;

/// Maximum number of batches in the pipeline: one is evaluated, one is written, and one waits for fsync.
const MAX_COMMIT_GROUPS: usize = 3;

/// The submit queue with its telemetry.
#[derive(Debug)]
pub(crate) struct EventIngest {
    queue: SubmitQueue,
    telemetry: Arc<Telemetry>,
    /// Incremented on every commit, so that readers look for new events.
    commits: Arc<watch::Sender<u64>>,
    recent: Arc<RecentDecisions>,
}

impl From<SubmitError> for ApiError {
    fn from(error: SubmitError) -> Self {
        match error {
            SubmitError::Full => ApiError::busy(),
            SubmitError::Closed => ApiError::stopping(),
        }
    }
}

impl EventIngest {
    /// Opens a queue with this capacity in front of a recorder.
    pub(crate) fn open(
        recorder: &Arc<Recorder>,
        capacity: usize,
        telemetry: Arc<Telemetry>,
    ) -> (Self, WriterThreads) {
        let commits = Arc::new(watch::Sender::new(0));
        let recent = Arc::new(RecentDecisions::default());
        let (notify, put) = (Arc::clone(&commits), Arc::clone(&recent));
        let (queue, writers) = SubmitQueue::open_with_observer(
            recorder,
            SubmitQueueOptions { capacity, pipeline_depth: commit_groups() },
            move |decided| {
                put.put(decided.map(|(event, decision)| (event, decision.clone())));
                notify.send_modify(|count: &mut u64| *count = count.wrapping_add(1));
            },
        );
        (EventIngest { queue, telemetry, commits, recent }, writers)
    }

    /// Notifies readers of a commit that bypassed the queue.
    pub(crate) fn notify_commit(&self) {
        self.commits.send_modify(|count| *count = count.wrapping_add(1));
    }

    /// A receiver that changes on every commit of this process; commits of other processes are not seen.
    pub(crate) fn subscribe(&self) -> watch::Receiver<u64> {
        self.commits.subscribe()
    }

    /// The most recent decisions.
    pub(crate) fn recent(&self) -> &RecentDecisions {
        &self.recent
    }

    /// Number of queued events.
    pub(crate) fn queued(&self) -> usize {
        self.queue.queued()
    }

    /// Capacity of the queue.
    pub(crate) fn capacity(&self) -> usize {
        self.queue.capacity()
    }

    /// Rejects a request before its events are parsed if the queue is full: under overload, rejecting must be cheap.
    ///
    /// # Errors
    /// If the queue is full.
    pub(crate) fn check_capacity(&self) -> Result<(), ApiError> {
        if self.queue.has_capacity() { Ok(()) } else { Err(ApiError::busy()) }
    }

    /// Submits events in order. Every returned decision is durable.
    ///
    /// # Errors
    /// If the queue has no capacity for them; then none is accepted.
    pub(crate) async fn submit(&self, events: Vec<BoxedSubmission>) -> Result<Vec<RecordResult>, ApiError> {
        let began = Instant::now();
        let answers = self.queue.submit(events).await?;
        self.telemetry.record_decisions(began.elapsed(), &answers);
        Ok(answers)
    }

    /// Submits one event.
    ///
    /// # Errors
    /// If it is rejected.
    pub(crate) async fn submit_one(&self, event: BoxedSubmission) -> Result<flyball::Decision, ApiError> {
        let began = Instant::now();
        let answer = self.queue.submit_one(event).await?;
        self.telemetry.record_decisions(began.elapsed(), std::slice::from_ref(&answer));
        answer.map_err(ApiError::from)
    }
}

/// Number of batches in the pipeline. With few processors, request handlers need them more.
fn commit_groups() -> usize {
    let others = std::thread::available_parallelism().map_or(1, |all| all.get() - 1);
    others.clamp(1, MAX_COMMIT_GROUPS)
}

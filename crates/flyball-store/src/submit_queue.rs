//! Async submit queue in front of a recorder: callers wait without blocking a thread, and dedicated writer threads
//! group-commit their events.
//!
//! The queue is bounded. When it is full, submissions are rejected at once instead of waiting indefinitely. Accepted
//! events are always answered.

use crate::recorder::{BATCH_WINDOW, MIN_BATCH_EVENTS, RecordError, RecordResult, Recorder};
use crate::submission::BoxedSubmission;
use flyball::Decision;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};

/// Maximum number of events per commit.
const MAX_BATCH_EVENTS: usize = 256;
/// Writer threads for engines with concurrent writers.
const WRITER_THREADS: usize = 8;

/// Options of the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SubmitQueueOptions {
    /// Maximum number of queued events.
    pub capacity: usize,
    /// Number of batches in progress at a time, for engines with one writer; each has a thread. With two, one batch
    /// is decided while the other is written. With one, commits are fewer and larger, which leaves more CPU time to
    /// other work.
    pub pipeline_depth: usize,
}

impl Default for SubmitQueueOptions {
    fn default() -> Self {
        SubmitQueueOptions { capacity: 1024, pipeline_depth: 2 }
    }
}

/// Why events were rejected. None of them was accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SubmitError {
    /// The queue is full; retry shortly.
    Full,
    /// The queue is closed.
    Closed,
}

impl fmt::Display for SubmitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SubmitError::Full => "too many events are waiting for the store; retry shortly",
            SubmitError::Closed => "shutting down: no more events are accepted; retry after the restart",
        })
    }
}

impl std::error::Error for SubmitError {}

/// Callback with accepted events and their decisions, called before the submitters get their answers.
type DecisionObserver = dyn Fn(&mut dyn Iterator<Item = (BoxedSubmission, &Decision)>) + Send + Sync;

/// Events of one caller, and the channel for the answers.
struct QueuedRequest {
    events: Vec<BoxedSubmission>,
    reply: oneshot::Sender<Vec<RecordResult>>,
    /// Their share of the queue's capacity.
    permits: OwnedSemaphorePermit,
}

/// The queue. Dropping it closes it; [`WriterThreads::join_timeout`] waits for the queued events.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use flyball::{PolicySource, Preset};
/// use flyball_store::{MemoryStore, Recorder, RecorderOptions, Submission, SubmitQueue, SubmitQueueOptions};
/// use std::sync::Arc;
///
/// let source = PolicySource::preset(Preset::Agent);
/// let recorder = Arc::new(Recorder::new(Arc::new(MemoryStore::default()), source, RecorderOptions::default()));
/// let (queue, writers) = SubmitQueue::open(&recorder, SubmitQueueOptions::default());
/// let event = Submission::parse(r#"{"type":"session.started","session":"s"}"#, Some(0))?;
/// let asked = async { queue.submit_one(event.into()).await };
/// # let runtime = tokio::runtime::Builder::new_current_thread().build()?;
/// # let answer = runtime.block_on(asked)?;
/// assert_eq!(answer.map(|decision| decision.seq), Ok(1));
/// drop(queue);
/// writers.join_timeout(std::time::Duration::from_secs(5));
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct SubmitQueue {
    sender: mpsc::UnboundedSender<QueuedRequest>,
    capacity: QueueCapacity,
}

/// Capacity accounting of the queue.
#[derive(Debug, Clone)]
struct QueueCapacity {
    permits: Arc<Semaphore>,
    total: usize,
}

impl QueueCapacity {
    fn used(&self) -> usize {
        self.total.saturating_sub(self.permits.available_permits())
    }
}

/// The writer threads. They exit when the queue is closed and empty.
#[derive(Debug)]
pub struct WriterThreads(Vec<JoinHandle<()>>);

impl WriterThreads {
    /// Waits until every accepted event is answered, or the timeout expires.
    pub fn join_timeout(self, timeout: Duration) {
        let until = Instant::now() + timeout;
        while self.0.iter().any(|thread| !thread.is_finished()) && Instant::now() < until {
            std::thread::park_timeout(Duration::from_millis(2));
        }
    }
}

impl SubmitQueue {
    /// Opens a queue in front of a recorder.
    #[must_use]
    pub fn open(recorder: &Arc<Recorder>, options: SubmitQueueOptions) -> (Self, WriterThreads) {
        SubmitQueue::open_with_observer(recorder, options, |_| ())
    }

    /// Like [`SubmitQueue::open`], with a callback that sees decisions before the submitters do.
    #[must_use]
    pub fn open_with_observer(
        recorder: &Arc<Recorder>,
        options: SubmitQueueOptions,
        observer: impl Fn(&mut dyn Iterator<Item = (BoxedSubmission, &Decision)>) + Send + Sync + 'static,
    ) -> (Self, WriterThreads) {
        let (sender, receiver) = mpsc::unbounded_channel();
        let permits =
            QueueCapacity { permits: Arc::new(Semaphore::new(options.capacity)), total: options.capacity };
        let groups = recorder.store().prefers_batching().then_some(options.pipeline_depth.max(1));
        let context = Arc::new(WriterContext {
            recorder: Arc::clone(recorder),
            receiver: Mutex::new(receiver),
            capacity: permits.clone(),
            pipeline_depth: groups,
            observer: Box::new(observer),
        });
        let threads = (0..groups.unwrap_or(WRITER_THREADS)).map(|_| {
            let context = Arc::clone(&context);
            std::thread::spawn(move || context.run())
        });
        let committers = WriterThreads(threads.collect());
        (SubmitQueue { sender, capacity: permits }, committers)
    }

    /// Number of queued events.
    #[must_use]
    pub fn queued(&self) -> usize {
        self.capacity.used()
    }

    /// Maximum number of queued events.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.capacity.total
    }

    /// Whether there is any capacity. Under overload, rejecting a request before parsing its events is cheap.
    #[must_use]
    pub fn has_capacity(&self) -> bool {
        self.capacity.permits.available_permits() > 0
    }

    /// Decides events, in order. When an answer is a decision, both are on disk.
    ///
    /// # Errors
    /// If they were not accepted.
    pub async fn submit(&self, events: Vec<BoxedSubmission>) -> Result<Vec<RecordResult>, SubmitError> {
        let asked = events.len();
        let count = u32::try_from(asked).map_err(|_| SubmitError::Full)?;
        let permits = Arc::clone(&self.capacity.permits)
            .try_acquire_many_owned(count)
            .map_err(|_| SubmitError::Full)?;
        let (answers, answered) = oneshot::channel();
        self.sender
            .send(QueuedRequest { events, reply: answers, permits })
            .map_err(|_| SubmitError::Closed)?;
        // The sender is dropped without an answer only if its thread panicked.
        Ok(answered.await.unwrap_or_else(|_| vec![Err(RecordError::writer_lost()); asked]))
    }

    /// Decides one event.
    ///
    /// # Errors
    /// If it was not accepted.
    pub async fn submit_one(&self, event: BoxedSubmission) -> Result<RecordResult, SubmitError> {
        Ok(self.submit(vec![event]).await?.pop().unwrap_or_else(|| Err(RecordError::writer_lost())))
    }
}

/// State shared by the writer threads.
struct WriterContext {
    recorder: Arc<Recorder>,
    receiver: Mutex<mpsc::UnboundedReceiver<QueuedRequest>>,
    capacity: QueueCapacity,
    /// Number of batches in progress, if commits are serialized.
    pipeline_depth: Option<usize>,
    observer: Box<DecisionObserver>,
}

impl WriterContext {
    /// Commits batches until the queue is closed.
    fn run(&self) {
        while let Some(mut group) = self.next_batch() {
            let counts: Vec<usize> = group.iter().map(|waiting| waiting.events.len()).collect();
            let events = group.iter_mut().flat_map(|waiting| std::mem::take(&mut waiting.events)).collect();
            let (answers, events): (Vec<_>, Vec<_>) =
                self.recorder.submit_and_return(events).into_iter().unzip();
            let decided = answers.iter().zip(events);
            (self.observer)(&mut decided.filter_map(|(answer, event)| Some((event?, answer.as_ref().ok()?))));
            let mut answers = answers.into_iter();
            for (QueuedRequest { reply: caller, permits, .. }, count) in group.into_iter().zip(counts) {
                let own = answers.by_ref().take(count).collect();
                // Release capacity first: a caller that resubmits immediately must find it free.
                drop(permits);
                // If the caller is gone, a retry gets the answer from the store.
                let _ = caller.send(own);
            }
        }
    }

    /// The next batch; `None` if the queue is closed and empty.
    fn next_batch(&self) -> Option<Vec<QueuedRequest>> {
        let mut line = self.receiver.lock().unwrap_or_else(PoisonError::into_inner);
        let first = line.blocking_recv()?;
        let began = Instant::now();
        let mut count = first.events.len();
        let mut group = vec![first];
        loop {
            let share = self.target_batch_size();
            while count < share.max(MIN_BATCH_EVENTS)
                && let Ok(next) = line.try_recv()
            {
                count += next.events.len();
                group.push(next);
            }
            if count >= share || self.pipeline_depth.is_none() || began.elapsed() > BATCH_WINDOW {
                return Some(group);
            }
            std::thread::yield_now();
        }
    }

    /// Preferred batch size. With serialized commits, each batch gets its share of the queued events, because a small
    /// batch costs almost as much as a large one.
    fn target_batch_size(&self) -> usize {
        self.pipeline_depth
            .map_or(MAX_BATCH_EVENTS, |groups| self.capacity.used().div_ceil(groups).min(MAX_BATCH_EVENTS))
    }
}

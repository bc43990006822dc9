//! Where events wait for the store: a bounded line, and threads that commit for everybody who waits.
//!
//! Whoever finds the line full is refused at once and told when to come again: a caller that waits for ever helps
//! nobody. What was let in is always answered.

#![allow(clippy::vec_box, reason = "events come and go in the boxes that the recorder hands on")]

use crate::problem::Problem;
use crate::signals::Signals;
use crate::signals::recent::Recent;
use flyball_journal::{Answer, Incoming, Recorder};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot, watch};

/// How many events are committed together at most.
const TOGETHER: usize = 256;
/// How many threads commit, where more than one may write at a time.
const COMMITTERS: usize = 8;
/// How many where only one may, at most: one group is decided upon, one is written, and one waits for the disk.
const IN_TURN: usize = 3;

/// Events of one request, and who waits for the answers.
struct Waiting {
    events: Vec<Box<Incoming>>,
    answers: oneshot::Sender<Vec<Answer>>,
    /// Their places in the line.
    places: OwnedSemaphorePermit,
}

/// The line.
#[derive(Debug)]
pub(crate) struct Intake {
    line: mpsc::UnboundedSender<Waiting>,
    places: Arc<Semaphore>,
    length: usize,
    signals: Arc<Signals>,
    /// Grows with every commit, so that others may look for what is new.
    stirred: Arc<watch::Sender<u64>>,
    recent: Arc<Recent>,
}

/// The threads that commit; they end when the line is closed and empty.
#[derive(Debug)]
pub(crate) struct Committers(Vec<JoinHandle<()>>);

impl Committers {
    /// Waits until everything that was let in is answered, but not for a store that never answers.
    pub(crate) fn finish(self, most: Duration) {
        let until = Instant::now() + most;
        while self.0.iter().any(|thread| !thread.is_finished()) && Instant::now() < until {
            std::thread::park_timeout(Duration::from_millis(2));
        }
    }
}

impl Intake {
    /// A line with so many places, in front of a recorder.
    pub(crate) fn open(recorder: &Arc<Recorder>, length: usize, signals: Arc<Signals>) -> (Self, Committers) {
        let (line, waiting) = mpsc::unbounded_channel();
        let waiting = Arc::new(tokio::sync::Mutex::new(waiting));
        let stirred = Arc::new(watch::Sender::new(0));
        let count = if recorder.journal().has_one_writer() { in_turn() } else { COMMITTERS };
        let recent = Arc::new(Recent::default());
        let threads = (0..count).map(|_| {
            let (recorder, waiting) = (Arc::clone(recorder), Arc::clone(&waiting));
            let (stirred, recent) = (Arc::clone(&stirred), Arc::clone(&recent));
            std::thread::spawn(move || commit(&recorder, &waiting, &stirred, &recent))
        });
        let committers = Committers(threads.collect());
        let intake =
            Intake { line, places: Arc::new(Semaphore::new(length)), length, signals, stirred, recent };
        (intake, committers)
    }

    /// Something was committed past the line.
    pub(crate) fn stir(&self) {
        self.stirred.send_modify(|count| *count = count.wrapping_add(1));
    }

    /// Whether something was committed since somebody looked; other processes are not noticed.
    pub(crate) fn watch(&self) -> watch::Receiver<u64> {
        self.stirred.subscribe()
    }

    /// What was decided here a moment ago.
    pub(crate) fn recent(&self) -> &Recent {
        &self.recent
    }

    /// How many events wait at the moment.
    pub(crate) fn waiting(&self) -> usize {
        self.length.saturating_sub(self.places.available_permits())
    }

    /// How many may wait.
    pub(crate) fn length(&self) -> usize {
        self.length
    }

    /// Refuses somebody before their events are read, if there is no room anyway: under overload refusing must cost little.
    ///
    /// # Errors
    /// If the line is full.
    pub(crate) fn has_room(&self) -> Result<(), Problem> {
        if self.places.available_permits() == 0 { Err(Problem::busy()) } else { Ok(()) }
    }

    /// Decides upon events, in order. When an answer is a decision, it is on the disk.
    ///
    /// # Errors
    /// If there is no room for them; none was taken then.
    pub(crate) async fn submit(&self, events: Vec<Box<Incoming>>) -> Result<Vec<Answer>, Problem> {
        let count = u32::try_from(events.len()).map_err(|_| Problem::busy())?;
        let places = Arc::clone(&self.places).try_acquire_many_owned(count).map_err(|_| Problem::busy())?;
        let began = std::time::Instant::now();
        let (answers, answered) = oneshot::channel();
        self.line.send(Waiting { events, answers, places }).map_err(|_| Problem::stopping())?;
        // The sender is dropped without an answer only if its thread has panicked.
        let answers = answered.await.map_err(|_| {
            use flyball_journal::{StoreError, Trouble};
            StoreError::new(Trouble::Unknown, "the writer of this event was lost")
        })?;
        self.signals.decided(began.elapsed(), &answers);
        Ok(answers)
    }

    /// Decides upon one event.
    ///
    /// # Errors
    /// If it was not taken.
    pub(crate) async fn submit_one(&self, event: Box<Incoming>) -> Result<flyball::Decision, Problem> {
        let answer = self.submit(vec![event]).await?.pop();
        answer.ok_or_else(Problem::busy)?.map_err(Problem::from)
    }
}

/// How many commit where only one may write. Where there are few processors those who ask need them, and more threads
/// would only make smaller groups.
fn in_turn() -> usize {
    let others = std::thread::available_parallelism().map_or(1, |all| all.get() - 1);
    others.clamp(1, IN_TURN)
}

/// Commits for everybody who waits, until the line is closed.
fn commit(
    recorder: &Recorder,
    line: &tokio::sync::Mutex<mpsc::UnboundedReceiver<Waiting>>,
    stirred: &watch::Sender<u64>,
    recent: &Recent,
) {
    loop {
        let mut group = Vec::new();
        {
            let mut line = line.blocking_lock();
            let Some(first) = line.blocking_recv() else { return };
            let mut count = first.events.len();
            group.push(first);
            while count < TOGETHER
                && let Ok(next) = line.try_recv()
            {
                count += next.events.len();
                group.push(next);
            }
        }
        let counts: Vec<usize> = group.iter().map(|waiting| waiting.events.len()).collect();
        let events = group.iter_mut().flat_map(|waiting| std::mem::take(&mut waiting.events)).collect();
        let (answers, events): (Vec<_>, Vec<_>) = recorder.submit_and_return(events).into_iter().unzip();
        let decided = answers.iter().zip(events).filter_map(|(answer, incoming)| {
            let (decision, incoming) = (answer.as_ref().ok()?, incoming?);
            Some((incoming, decision.clone()))
        });
        recent.put(decided);
        let mut answers = answers.into_iter();
        for (Waiting { answers: caller, places, .. }, count) in group.into_iter().zip(counts) {
            let own = answers.by_ref().take(count).collect();
            // First: whoever is answered and comes again at once must find their old places free.
            drop(places);
            // A caller that went away is answered by the store when it comes again.
            let _ = caller.send(own);
        }
        stirred.send_modify(|count| *count = count.wrapping_add(1));
    }
}

//! A line in front of a recorder, for those who must not block: whoever asks waits without a thread, and threads of the
//! line's own commit for everybody who waits.
//!
//! The line has an end. Whoever finds it full is refused at once: a caller that waits for ever helps nobody. What was
//! let in is always answered.

use crate::incoming::Parcel;
use crate::recorder::{Answer, FEW, GATHER, Recorder, Refusal};
use flyball::Decision;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};

/// How many events are committed together at most.
const TOGETHER: usize = 256;
/// How many threads commit, where more than one may write at a time.
const COMMITTERS: usize = 8;

/// How a line works.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LineOptions {
    /// How many events may wait.
    pub places: usize,
    /// Into how many groups those who wait are divided, where one group is written after the other. With two, the one is
    /// decided upon while the other is written; with one, there are fewer and larger commits, which leaves the
    /// processors to others. Each has a thread.
    pub groups: usize,
}

impl Default for LineOptions {
    fn default() -> Self {
        LineOptions { places: 1024, groups: 2 }
    }
}

/// Why events were not taken. None of them was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turned {
    /// There is no room for them; come again in a moment.
    Full,
    /// The line is closed.
    Closed,
}

impl fmt::Display for Turned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Turned::Full => "too many events wait for the store; send this again in a moment",
            Turned::Closed => "events are not taken any more; send this again when it has started anew",
        })
    }
}

impl std::error::Error for Turned {}

/// Told of what was decided, before those who asked are: the events that were taken, with their decisions.
type Witness = dyn Fn(&mut dyn Iterator<Item = (Parcel, &Decision)>) + Send + Sync;

/// Events of one caller, and the caller.
struct Waiting {
    events: Vec<Parcel>,
    answers: oneshot::Sender<Vec<Answer>>,
    /// Their places in the line.
    places: OwnedSemaphorePermit,
}

/// The line. It is closed by dropping it; [`Committers::finish`] waits for those who are in it.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use flyball::{PolicySource, Preset};
/// use flyball_journal::{Incoming, Line, LineOptions, Memory, Recorder, RecorderOptions};
/// use std::sync::Arc;
///
/// let source = PolicySource::preset(Preset::Agent);
/// let recorder = Arc::new(Recorder::new(Arc::new(Memory::default()), source, RecorderOptions::default()));
/// let (line, committers) = Line::open(&recorder, LineOptions::default());
/// let event = Incoming::read(r#"{"type":"session.started","session":"s"}"#, Some(0))?;
/// let asked = async { line.submit_one(event.into()).await };
/// # let runtime = tokio::runtime::Builder::new_current_thread().build()?;
/// # let answer = runtime.block_on(asked)?;
/// assert_eq!(answer.map(|decision| decision.seq), Ok(1));
/// drop(line);
/// committers.finish(std::time::Duration::from_secs(5));
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Line {
    waiting: mpsc::UnboundedSender<Waiting>,
    places: Places,
}

/// The places in the line.
#[derive(Debug, Clone)]
struct Places {
    free: Arc<Semaphore>,
    length: usize,
}

impl Places {
    fn taken(&self) -> usize {
        self.length.saturating_sub(self.free.available_permits())
    }
}

/// The threads that commit; they end when the line is closed and empty.
#[derive(Debug)]
pub struct Committers(Vec<JoinHandle<()>>);

impl Committers {
    /// Waits until everything that was let in is answered, but not for a store that never answers.
    pub fn finish(self, most: Duration) {
        let until = Instant::now() + most;
        while self.0.iter().any(|thread| !thread.is_finished()) && Instant::now() < until {
            std::thread::park_timeout(Duration::from_millis(2));
        }
    }
}

impl Line {
    /// A line in front of a recorder.
    #[must_use]
    pub fn open(recorder: &Arc<Recorder>, options: LineOptions) -> (Self, Committers) {
        Line::witnessed(recorder, options, |_| ())
    }

    /// The same with somebody who is told of what was decided, before those who asked are.
    #[must_use]
    pub fn witnessed(
        recorder: &Arc<Recorder>,
        options: LineOptions,
        witness: impl Fn(&mut dyn Iterator<Item = (Parcel, &Decision)>) + Send + Sync + 'static,
    ) -> (Self, Committers) {
        let (sender, receiver) = mpsc::unbounded_channel();
        let places = Places { free: Arc::new(Semaphore::new(options.places)), length: options.places };
        let groups = recorder.journal().has_one_writer().then_some(options.groups.max(1));
        let office = Arc::new(Office {
            recorder: Arc::clone(recorder),
            line: Mutex::new(receiver),
            places: places.clone(),
            groups,
            witness: Box::new(witness),
        });
        let threads = (0..groups.unwrap_or(COMMITTERS)).map(|_| {
            let office = Arc::clone(&office);
            std::thread::spawn(move || office.commit())
        });
        let committers = Committers(threads.collect());
        (Line { waiting: sender, places }, committers)
    }

    /// How many events wait at the moment.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.places.taken()
    }

    /// How many may wait.
    #[must_use]
    pub fn length(&self) -> usize {
        self.places.length
    }

    /// Whether there is any room: under overload, refusing somebody before their events are read costs little.
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.places.free.available_permits() > 0
    }

    /// Decides upon events, in order. When an answer is a decision, both are on the disk.
    ///
    /// # Errors
    /// If they were not taken.
    pub async fn submit(&self, events: Vec<Parcel>) -> Result<Vec<Answer>, Turned> {
        let asked = events.len();
        let count = u32::try_from(asked).map_err(|_| Turned::Full)?;
        let places = Arc::clone(&self.places.free).try_acquire_many_owned(count).map_err(|_| Turned::Full)?;
        let (answers, answered) = oneshot::channel();
        self.waiting.send(Waiting { events, answers, places }).map_err(|_| Turned::Closed)?;
        // The sender is dropped without an answer only if its thread has panicked.
        Ok(answered.await.unwrap_or_else(|_| vec![Err(Refusal::lost()); asked]))
    }

    /// Decides upon one event.
    ///
    /// # Errors
    /// If it was not taken.
    pub async fn submit_one(&self, event: Parcel) -> Result<Answer, Turned> {
        Ok(self.submit(vec![event]).await?.pop().unwrap_or_else(|| Err(Refusal::lost())))
    }
}

/// What the threads that commit share.
struct Office {
    recorder: Arc<Recorder>,
    line: Mutex<mpsc::UnboundedReceiver<Waiting>>,
    places: Places,
    /// How many groups there are, if one is written after the other.
    groups: Option<usize>,
    witness: Box<Witness>,
}

impl Office {
    /// Commits for everybody who waits, until the line is closed.
    fn commit(&self) {
        while let Some(mut group) = self.next() {
            let counts: Vec<usize> = group.iter().map(|waiting| waiting.events.len()).collect();
            let events = group.iter_mut().flat_map(|waiting| std::mem::take(&mut waiting.events)).collect();
            let (answers, events): (Vec<_>, Vec<_>) =
                self.recorder.submit_and_return(events).into_iter().unzip();
            let decided = answers.iter().zip(events);
            (self.witness)(&mut decided.filter_map(|(answer, event)| Some((event?, answer.as_ref().ok()?))));
            let mut answers = answers.into_iter();
            for (Waiting { answers: caller, places, .. }, count) in group.into_iter().zip(counts) {
                let own = answers.by_ref().take(count).collect();
                // First: whoever is answered and comes again at once must find their old places free.
                drop(places);
                // A caller that went away is answered by the store when it comes again.
                let _ = caller.send(own);
            }
        }
    }

    /// Those who are to be served together; none if the line is closed and empty.
    fn next(&self) -> Option<Vec<Waiting>> {
        let mut line = self.line.lock().unwrap_or_else(PoisonError::into_inner);
        let first = line.blocking_recv()?;
        let began = Instant::now();
        let mut count = first.events.len();
        let mut group = vec![first];
        loop {
            let share = self.share();
            while count < share.max(FEW)
                && let Ok(next) = line.try_recv()
            {
                count += next.events.len();
                group.push(next);
            }
            if count >= share || self.groups.is_none() || began.elapsed() > GATHER {
                return Some(group);
            }
            std::thread::yield_now();
        }
    }

    /// How many are a good group. Where groups take turns, each gets its share of those who are in the line: a group for
    /// few costs nearly as much as one for many.
    fn share(&self) -> usize {
        self.groups.map_or(TOGETHER, |groups| self.places.taken().div_ceil(groups).min(TOGETHER))
    }
}

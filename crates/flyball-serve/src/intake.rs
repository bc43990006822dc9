//! Where events come in: a line in front of the recorder, and what the rest of the server hears of it.

use crate::problem::Problem;
use crate::signals::Signals;
use crate::signals::recent::Recent;
use flyball_journal::{Answer, Committers, Line, LineOptions, Parcel, Recorder, Turned};
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::watch;

/// The most groups of events under way: one is decided upon, one is written, and one waits for the disk.
const GROUPS: usize = 3;

/// The line.
#[derive(Debug)]
pub(crate) struct Intake {
    line: Line,
    signals: Arc<Signals>,
    /// Grows with every commit, so that others may look for what is new.
    stirred: Arc<watch::Sender<u64>>,
    recent: Arc<Recent>,
}

impl From<Turned> for Problem {
    fn from(turned: Turned) -> Self {
        match turned {
            Turned::Full => Problem::busy(),
            Turned::Closed => Problem::stopping(),
        }
    }
}

impl Intake {
    /// A line with so many places, in front of a recorder.
    pub(crate) fn open(recorder: &Arc<Recorder>, places: usize, signals: Arc<Signals>) -> (Self, Committers) {
        let stirred = Arc::new(watch::Sender::new(0));
        let recent = Arc::new(Recent::default());
        let (stir, put) = (Arc::clone(&stirred), Arc::clone(&recent));
        let (line, committers) =
            Line::witnessed(recorder, LineOptions { places, groups: groups() }, move |decided| {
                put.put(decided.map(|(event, decision)| (event, decision.clone())));
                stir.send_modify(|count: &mut u64| *count = count.wrapping_add(1));
            });
        (Intake { line, signals, stirred, recent }, committers)
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
        self.line.waiting()
    }

    /// How many may wait.
    pub(crate) fn length(&self) -> usize {
        self.line.length()
    }

    /// Refuses somebody before their events are read, if there is no room anyway: under overload refusing must cost little.
    ///
    /// # Errors
    /// If the line is full.
    pub(crate) fn has_room(&self) -> Result<(), Problem> {
        if self.line.has_room() { Ok(()) } else { Err(Problem::busy()) }
    }

    /// Decides upon events, in order. When an answer is a decision, it is on the disk.
    ///
    /// # Errors
    /// If there is no room for them; none was taken then.
    pub(crate) async fn submit(&self, events: Vec<Parcel>) -> Result<Vec<Answer>, Problem> {
        let began = Instant::now();
        let answers = self.line.submit(events).await?;
        self.signals.decided(began.elapsed(), &answers);
        Ok(answers)
    }

    /// Decides upon one event.
    ///
    /// # Errors
    /// If it was not taken.
    pub(crate) async fn submit_one(&self, event: Parcel) -> Result<flyball::Decision, Problem> {
        let began = Instant::now();
        let answer = self.line.submit_one(event).await?;
        self.signals.decided(began.elapsed(), std::slice::from_ref(&answer));
        answer.map_err(Problem::from)
    }
}

/// How many groups of events are under way at a time. Where there are few processors those who ask need them.
fn groups() -> usize {
    let others = std::thread::available_parallelism().map_or(1, |all| all.get() - 1);
    others.clamp(1, GROUPS)
}

//! The engine: a run from its first event to its end, a halt, or a question to a person.

mod book;
mod claim;
mod fork;
mod lane;
mod leftover;
mod person_messages;
mod signals;
mod stall;
mod stop;
mod turn;
mod vars;
mod walk;
mod world;

pub use book::{Book, Clock, Past};
pub use claim::holder_is_gone;
pub use lane::{Asker, Lane, Watcher};
pub use leftover::RUN;
pub(crate) use person_messages::{PersonMessage, record_delivered};
pub use stop::{Outcome, Status, Stop};
pub(crate) use turn::Turn;
pub use vars::Vars;
pub(crate) use walk::usage;
pub use world::{CutOff, Environment, Surroundings, World};

use crate::fail::Failure;
use crate::workflow::{DONE, Plan};
use claim::Claim;
use flyball::{Event, Kind};
use flyball_journal::Lease;
use serde_json::json;
use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;
use walk::{Arrival, Walk};

/// How often a run says that it is still there.
const HEARTBEAT: Duration = Duration::from_secs(10);

/// How a run ended.
#[derive(Debug, Clone, PartialEq)]
pub enum End {
    /// At `done`.
    Done,
    /// At `failed`.
    Failed,
    /// Before its end.
    Stopped(Stop),
}

/// A run.
pub struct Run {
    world: Arc<World>,
    session: String,
}

impl Run {
    /// Prepares a run of a plan, new or taken up again, in a session.
    ///
    /// # Errors
    /// If something that the plan needs cannot be had.
    pub fn new(plan: Plan, session: &str, around: Surroundings) -> Result<Self, Failure> {
        let world = Arc::new(World::new(plan, session, around)?);
        Ok(Run { world, session: session.to_owned() })
    }

    /// Walks, from the beginning or from where it was. `holder` is a name that no other run has, or ever had.
    ///
    /// # Errors
    /// If the session is run by somebody else, or its history cannot be read.
    pub fn go(&self, holder: &str) -> Result<End, Failure> {
        let claim = Claim::take(&self.world.book, &self.world.files, &self.session, holder)?;
        if let Some(ended) = claim.as_ref().map(|claim| claim.ended).filter(|ended| *ended > 0) {
            let words = format!("{ended} of its programs were still at work, and were ended");
            self.world.watcher.note(&words);
        }
        let heart = claim.as_ref().map(|claim| Heart::start(&self.world, claim.lease()));
        let end = self.walk();
        drop(heart);
        if let Some(claim) = claim {
            claim.free(&self.world.book);
        }
        end
    }

    fn walk(&self) -> Result<End, Failure> {
        let lane = Lane::open(&self.world.book, &self.world.watcher, &self.session)?;
        if lane.was_taken_up() {
            crate::tools::remove_half_written(&self.world.workspace);
        }
        let plan = &self.world.plan;
        let mut vars = Vars::default();
        plan.vars.iter().for_each(|(name, value)| vars.set(name.clone(), value.clone()));
        vars.set("goal", json!(plan.goal));
        vars.set("session", json!(self.session));
        vars.set("workspace", json!(self.world.workspace.display().to_string()));
        let mut walk = Walk::new(&self.world, lane, vars);
        let arrival = walk.begin().and_then(|()| walk.walk(&plan.start, None));
        let ended = arrival.and_then(|arrival| walk.end(arrival.outcome()).map(|()| arrival));
        let end = match ended {
            Ok(Arrival::End(name)) if name == DONE => End::Done,
            Ok(_) => End::Failed,
            Err(stop) => match walk.lane.settle() {
                Ok(()) => End::Stopped(stop),
                Err(other) => End::Stopped(other),
            },
        };
        if matches!(end, End::Done | End::Failed) {
            // What cannot be removed is swept away later.
            let _ = self.world.outputs.end_session();
        }
        match end {
            End::Stopped(Stop::Failed(failure)) => Err(failure),
            end => Ok(end),
        }
    }
}

impl Walk {
    /// The last event of a session.
    fn end(&mut self, outcome: &str) -> Result<(), Stop> {
        let kind = Kind::SessionEnded { outcome: Some(outcome.to_owned()) };
        self.lane.record(Event::new("", kind)).map(drop)
    }

    /// The first event of a session.
    fn begin(&mut self) -> Result<(), Stop> {
        let plan = &self.world.plan;
        let kind = Kind::SessionStarted {
            policy: None,
            workflow: Some(plan.graph.clone()),
            parent: None,
            labels: plan.labels.clone(),
            goal: plan.goal.clone(),
            reopen: false,
        };
        let mut event = Event::new("", kind);
        event.extra.insert("name".to_owned(), json!(plan.name));
        if let Some(file) = &self.world.origin {
            event.extra.insert("file".to_owned(), json!(file.display().to_string()));
        }
        self.tell(event).map(drop)
    }
}

/// Says from time to time that the run is still there; stops it when the session was taken over.
struct Heart {
    stop: mpsc::Sender<()>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Heart {
    fn start(world: &Arc<World>, lease: Lease) -> Self {
        let (stop, stopped) = mpsc::channel::<()>();
        let world = Arc::clone(world);
        let thread = std::thread::spawn(move || {
            while let Err(mpsc::RecvTimeoutError::Timeout) = stopped.recv_timeout(HEARTBEAT) {
                if !Claim::renew(&world.book, &lease) {
                    world.watcher.note("the session was taken over by another process");
                    world.cancel.cancel();
                    return;
                }
            }
        });
        Heart { stop, thread: Some(thread) }
    }
}

impl Drop for Heart {
    fn drop(&mut self) {
        let _ = self.stop.send(());
        if let Some(thread) = self.thread.take() {
            // A heart that has failed has nothing more to say.
            let _ = thread.join();
        }
    }
}

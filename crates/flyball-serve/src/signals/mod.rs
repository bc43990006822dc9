//! What the server tells about itself: counts, lines of a log, whether it can do its work, and that it is about to stop.

mod couriers;
pub(crate) mod health;
pub(crate) mod log;
mod meters;
mod page;
pub(crate) mod recent;
pub(crate) mod tally;
pub(crate) mod watch;

pub(crate) use couriers::deliver;
pub(crate) use meters::Count;
pub(crate) use page::{as_json, as_text};

use flyball_journal::Answer;
use health::Ready;
use log::Log;
use meters::Meters;
use std::time::Duration;
use tokio::sync::watch as flag;

/// Everything that is told, in one place.
#[derive(Debug)]
pub(crate) struct Signals {
    pub(crate) meters: Meters,
    pub(crate) log: Log,
    pub(crate) ready: Ready,
    closing: flag::Sender<bool>,
}

impl Signals {
    pub(crate) fn new(log: Log) -> Self {
        Signals { meters: Meters::default(), log, ready: Ready::default(), closing: flag::Sender::new(false) }
    }

    /// The server is about to stop: whoever listens is let go.
    pub(crate) fn close(&self) {
        self.closing.send_replace(true);
    }

    /// Tells when the server is about to stop.
    pub(crate) fn closing(&self) -> flag::Receiver<bool> {
        self.closing.subscribe()
    }

    /// Events were answered.
    pub(crate) fn decided(&self, took: Duration, answers: &[Answer]) {
        self.meters.decisions.take(took);
        for answer in answers {
            match answer {
                Ok(decision) => self.log.trips(decision),
                Err(flyball_journal::Refusal::Store(error)) => {
                    self.log.trouble("store", error.trouble.as_str(), &error.what);
                }
                Err(flyball_journal::Refusal::Event(_)) => {}
            }
        }
    }
}

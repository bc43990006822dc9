//! One turn of a node: what it tells the programs it starts, how much time it has, and what becomes of a step that a
//! budget cuts short.

use super::leftover::RUN;
use super::stop::Stop;
use super::walk::Walk;
use crate::workflow::{Node, OnInterrupt};
use flyball::{Event, Kind, Verdict};
use serde_json::Value;
use std::cell::OnceCell;
use std::time::{Duration, Instant};

/// One visit of a node that is under way.
pub(crate) struct Turn<'a> {
    pub(crate) walk: &'a mut Walk,
    pub(crate) node: &'a Node,
    /// When it must be over; found out when the turn is live.
    pub(super) limit: OnceCell<Option<TimeLimit>>,
    /// How long a person was waited for while it went on: that is nobody's time at work.
    pub(crate) waited: Duration,
}

/// When a turn must be over.
#[derive(Debug, Clone, Copy)]
pub(super) struct TimeLimit {
    pub(super) until: Instant,
    /// A budget says so, and not the node itself.
    pub(super) by_budget: bool,
}

impl<'a> Turn<'a> {
    pub(super) fn new(walk: &'a mut Walk, node: &'a Node) -> Self {
        Turn { walk, node, limit: OnceCell::new(), waited: Duration::ZERO }
    }
}

impl Turn<'_> {
    /// Which turn of its node this is, counted from 1.
    pub(crate) fn number(&self) -> u64 {
        self.walk.turns.get(&self.node.name).copied().unwrap_or(1)
    }

    /// Which visit of its node this is, counted from 1.
    pub(crate) fn visit(&self) -> u64 {
        self.walk.visits.get(&self.node.name).copied().unwrap_or(1)
    }

    /// What programs that are started in it are told about it.
    pub(crate) fn about(&self) -> Vec<(String, String)> {
        let about = [
            (RUN, self.walk.world.files.display().to_string()),
            ("FLYBALL_SESSION", self.walk.lane.session().to_owned()),
            ("FLYBALL_NODE", self.node.name.clone()),
            ("FLYBALL_VISIT", self.visit().to_string()),
            ("FLYBALL_TURN", self.number().to_string()),
        ];
        let word = |name: &str, variable| {
            let text = self.walk.vars.get(name).and_then(Value::as_str);
            text.map(|text| (variable, text.to_owned()))
        };
        let told = [word("advice", "FLYBALL_ADVICE"), word("stall", "FLYBALL_STALL")];
        let about =
            about.into_iter().chain(told.into_iter().flatten()).map(|(name, value)| (name.to_owned(), value));
        self.walk.world.passed(&[]).into_iter().chain(about).collect()
    }

    fn limit(&self) -> Option<TimeLimit> {
        *self.limit.get_or_init(|| self.walk.time_limit(self.node))
    }

    /// What is left of its time.
    pub(crate) fn left(&self) -> Option<Duration> {
        self.limit().map(|limit| limit.until.saturating_duration_since(Instant::now()))
    }

    /// A person was waited for; what has to be over by a certain time has that much longer.
    pub(crate) fn waited(&mut self, time: Duration) {
        self.waited += time;
        if let Some(Some(limit)) = self.limit.get_mut() {
            limit.until = limit.until.checked_add(time).unwrap_or(limit.until);
        }
    }

    /// Whether a budget of time is used up, so that a step that has just failed was cut short by it.
    pub(crate) fn is_out_of_budget(&self) -> bool {
        self.limit().is_some_and(|limit| limit.by_budget && Instant::now() >= limit.until)
    }

    /// Whether the history says that a budget cut the step short that comes next.
    pub(crate) fn was_interrupted(&self) -> bool {
        self.walk.lane.next_name() == Some("turn.interrupted")
    }

    /// A budget has cut a step short: it has neither failed nor succeeded. Comes back when the step is to be repeated.
    ///
    /// # Errors
    /// The halt by the budget, until a person releases it. [`Stop::Skipped`] if the workflow continues without the step.
    pub(crate) fn interrupted(&mut self, step: &str) -> Result<(), Stop> {
        let step = Some(step.to_owned());
        let event = self.event(Kind::TurnInterrupted { step: step.clone() });
        let live = self.walk.lane.is_live();
        let past = self.walk.tell(event)?;
        let skips = match self.walk.lane.next_name() {
            Some(next) => next != "turn.resumed",
            None => self.node.common.on_interrupt == Some(OnInterrupt::Skip),
        };
        if skips {
            return Err(Stop::Skipped);
        }
        let event = self.event(Kind::TurnResumed { step });
        self.walk.tell(event)?;
        // The governor has the last word about its budgets: if it knows of none that is used up, none is enforced here.
        let halted = past.decision.decision == Verdict::Halt;
        self.limit = if live && !halted { OnceCell::from(None) } else { OnceCell::new() };
        Ok(())
    }

    /// An event of this node.
    pub(crate) fn event(&self, kind: Kind) -> Event {
        Event::new("", kind).node(self.node.name.clone())
    }
}

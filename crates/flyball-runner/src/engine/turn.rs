//! One turn of a node: environment of its programs, and its time limit.

use super::event_sink::RecordedEvent;
use super::executor::WorkflowExecutor;
use super::orphans::RUN_DIR_VAR;
use super::outcome::RunStop;
use super::replay_log::ReplayLog;
use crate::workflow::Node;
use crate::workflow::spec::WorkflowDuration;
use flyball::{Event, EventKind};
use serde_json::Value;
use std::cell::OnceCell;
use std::time::{Duration, Instant};

/// A turn in progress.
pub(crate) struct Turn<'a> {
    pub(crate) walk: &'a mut WorkflowExecutor,
    pub(crate) node: &'a Node,
    /// Time limit; computed when the turn is live.
    pub(super) limit: OnceCell<Option<TimeLimit>>,
    /// Time spent waiting for a person, which does not count as working time.
    pub(crate) waited: Duration,
}

/// Time limit of a turn.
#[derive(Debug, Clone, Copy)]
pub(super) struct TimeLimit {
    pub(super) until: Instant,
    /// Whether a budget set the limit, not the node.
    pub(super) by_budget: bool,
}

impl<'a> Turn<'a> {
    pub(super) fn new(walk: &'a mut WorkflowExecutor, node: &'a Node) -> Self {
        Turn { walk, node, limit: OnceCell::new(), waited: Duration::ZERO }
    }
}

impl Turn<'_> {
    /// Turn number of its node, starting at 1.
    pub(crate) fn number(&self) -> u64 {
        self.walk.turns.get(&self.node.name).copied().unwrap_or(1)
    }

    /// Visit number of its node, starting at 1.
    pub(crate) fn visit(&self) -> u64 {
        self.walk.visits.get(&self.node.name).copied().unwrap_or(1)
    }

    /// Environment variables that describe this turn to its programs.
    pub(crate) fn about(&self) -> Vec<(String, String)> {
        let about = [
            (RUN_DIR_VAR, self.walk.context.run_dir.display().to_string()),
            ("FLYBALL_SESSION", self.walk.log.session().to_owned()),
            ("FLYBALL_NODE", self.node.name.clone()),
            ("FLYBALL_VISIT", self.visit().to_string()),
            ("FLYBALL_TURN", self.number().to_string()),
        ];
        let var = |name: &str, variable| {
            let text = self.walk.vars.get(name).and_then(Value::as_str);
            text.map(|text| (variable, text.to_owned()))
        };
        let texts = [var("advice", "FLYBALL_ADVICE"), var("stall", "FLYBALL_STALL")];
        let about = about
            .into_iter()
            .chain(texts.into_iter().flatten())
            .map(|(name, value)| (name.to_owned(), value));
        self.walk.context.passed_env(&[]).into_iter().chain(about).collect()
    }

    /// Time limit: the earlier of the node's deadline and the remaining time budget.
    fn limit(&self) -> Option<TimeLimit> {
        *self.limit.get_or_init(|| {
            let deadline = self.node.common.deadline.as_ref();
            let deadline = deadline.and_then(WorkflowDuration::millis).map(Duration::from_millis);
            // If the store cannot be read, the next event reports it; until then there is no limit.
            let sink = &self.walk.context.sink;
            let left = sink.time_left(self.walk.log.session(), &self.node.name).unwrap_or_default();
            let by_budget = left.is_some_and(|left| deadline.is_none_or(|deadline| left <= deadline));
            let time = [deadline, left].into_iter().flatten().min()?;
            Some(TimeLimit { until: Instant::now().checked_add(time)?, by_budget })
        })
    }

    /// Remaining time.
    pub(crate) fn left(&self) -> Option<Duration> {
        self.limit().map(|limit| limit.until.saturating_duration_since(Instant::now()))
    }

    /// Extends the time limit by the time spent waiting for a person.
    pub(crate) fn waited(&mut self, time: Duration) {
        self.waited += time;
        if let Some(Some(limit)) = self.limit.get_mut() {
            limit.until = limit.until.checked_add(time).unwrap_or(limit.until);
        }
    }

    /// Whether a time budget is used up, which means that it interrupted the step that just failed.
    pub(crate) fn is_out_of_budget(&self) -> bool {
        self.limit().is_some_and(|limit| limit.by_budget && Instant::now() >= limit.until)
    }

    /// Records an event of this node without an effect.
    ///
    /// # Errors
    /// If it cannot be stored, or the session is stopped.
    pub(crate) fn record(&mut self, kind: EventKind) -> Result<RecordedEvent, RunStop> {
        let event = self.event(kind);
        self.walk.record_event(event)
    }

    /// Requests permission for this node. Returns a denial that leaves the session running.
    ///
    /// # Errors
    /// If it cannot be stored, or the session is stopped.
    pub(crate) fn request(&mut self, kind: EventKind) -> Result<RecordedEvent, RunStop> {
        let event = self.event(kind);
        self.walk.request(&event, ReplayLog::record)
    }

    /// Event of this node.
    pub(crate) fn event(&self, kind: EventKind) -> Event {
        Event::new("", kind).node(self.node.name.clone())
    }
}

//! One turn of a node: environment of its programs, time limit, and handling of an interruption by a budget.

use super::executor::WorkflowExecutor;
use super::orphans::RUN_DIR_VAR;
use super::outcome::RunStop;
use crate::workflow::{Node, OnInterrupt};
use flyball::{Event, EventKind, Verdict};
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

    fn limit(&self) -> Option<TimeLimit> {
        *self.limit.get_or_init(|| self.walk.time_limit(self.node))
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

    /// Whether the history says that a budget interrupted the next step.
    pub(crate) fn was_interrupted(&self) -> bool {
        self.walk.log.next_event_type() == Some("turn.interrupted")
    }

    /// Records that a budget interrupted a step, which neither failed nor succeeded. Returns when the step should be
    /// repeated.
    ///
    /// # Errors
    /// The halt by the budget, until a person releases it. [`RunStop::Skipped`] if the workflow continues without the
    /// step.
    pub(crate) fn interrupted(&mut self, step: &str) -> Result<(), RunStop> {
        let step = Some(step.to_owned());
        let event = self.event(EventKind::TurnInterrupted { step: step.clone() });
        let live = self.walk.log.is_live();
        let past = self.walk.record_event(event)?;
        let skips = match self.walk.log.next_event_type() {
            Some(next) => next != "turn.resumed",
            None => self.node.common.on_interrupt == Some(OnInterrupt::Skip),
        };
        if skips {
            return Err(RunStop::Skipped);
        }
        let event = self.event(EventKind::TurnResumed { step });
        self.walk.record_event(event)?;
        // The governor decides about budgets: if none is used up according to it, none is enforced here.
        let halted = past.decision.decision == Verdict::Halt;
        self.limit = if live && !halted { OnceCell::from(None) } else { OnceCell::new() };
        Ok(())
    }

    /// Event of this node.
    pub(crate) fn event(&self, kind: EventKind) -> Event {
        Event::new("", kind).node(self.node.name.clone())
    }
}

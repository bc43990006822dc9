//! Durable steps: effects that run once, and the events that hold their results.
//!
//! A node describes an effect and the event that records its result. While the history lasts, that event is the result
//! and the effect does not run; after it, the effect runs and its event is stored. Only the engine knows which of the
//! two happens, so a node reads the same in a new and in a resumed run.

use super::event_sink::RecordedEvent;
use super::executor::WorkflowExecutor;
use super::outcome::RunStop;
use super::run_context::InterruptedStepPolicy;
use super::turn::Turn;
use crate::workflow::OnInterrupt;
use flyball::{Event, EventKind, Verdict};
use std::cell::OnceCell;

/// A step of a node with a side effect.
pub(crate) struct Step<'s> {
    /// Kind, as recorded if a budget interrupts it.
    pub(crate) kind: &'static str,
    /// Type of the event that holds the result; `None` if the end of the turn holds it.
    pub(crate) result: Option<&'static str>,
    /// Type of the events that the effect records before its result.
    pub(crate) report: Option<&'static str>,
    /// For an effect that must not run twice unnoticed; others run again after a crash.
    pub(crate) once: Option<RunOnce<'s>>,
}

/// An effect to which the policy for interrupted steps applies.
pub(crate) struct RunOnce<'s> {
    /// The tool, if it is a tool call.
    pub(crate) tool: Option<&'s str>,
    /// Whether it may run again without asking.
    pub(crate) may_rerun: bool,
}

/// End of an effect. The effect yields an event; the step returns it as recorded.
pub(crate) enum Effect<T = Event> {
    /// Its result.
    Result(T),
    /// It ended without a result; the following event of the node says how.
    NoResult,
    /// A time budget interrupted it: neither a result nor a failure.
    OutOfBudget,
}

/// Remains of an attempt that a crash interrupted.
#[derive(Default)]
pub(crate) struct CrashedAttempt {
    /// Number of its reports that are stored.
    pub(crate) reports: u32,
    /// Handling of its unknown outcome; `None` if there is none.
    pub(crate) recovery: Option<Recovery>,
}

/// Handling of a step with an unknown outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Recovery {
    /// Run the effect again.
    Repeat,
    /// Do not run it again; it counts as failed.
    GiveUp,
}

/// Output of a step that is given up.
pub(crate) const GIVEN_UP: &str = "interrupted, and treated as failed";

impl WorkflowExecutor {
    /// Records the event of a node that `effect` yields, and stops if the session must not continue.
    ///
    /// # Errors
    /// If it cannot be stored, the history has another event, or the session is stopped.
    pub(super) fn step(
        &mut self,
        node: &str,
        event_type: &str,
        effect: impl FnOnce(&Self) -> Event,
    ) -> Result<RecordedEvent, RunStop> {
        let event = self.log.is_live().then(|| effect(self));
        self.step_if(node, &[event_type], event)?.ok_or_else(|| self.log.diverged(event_type))
    }

    /// Records an event of a node, if there is one now. During replay the history decides: it has an event of one of
    /// these types at this point, or there was none.
    ///
    /// # Errors
    /// If it cannot be stored, or the session is stopped.
    pub(crate) fn step_if(
        &mut self,
        node: &str,
        event_types: &[&str],
        event: Option<Event>,
    ) -> Result<Option<RecordedEvent>, RunStop> {
        let is_expected =
            |event: &Event| event_types.contains(&event.kind.name()) && event.node.as_deref() == Some(node);
        let past = match (self.log.replay(is_expected), event) {
            (None, Some(event)) if self.log.is_live() => Some(self.log.record(event)?),
            (past, _) => past,
        };
        past.iter().try_for_each(|past| self.continue_after(past))?;
        Ok(past)
    }
}

impl Turn<'_> {
    /// Runs a step until no budget interrupts it. Returns its recorded result, if it has one.
    ///
    /// # Errors
    /// Those of the effect; a stop of the session; [`RunStop::Skipped`] or [`RunStop::StepOutcomeUnknown`] for an
    /// interrupted step.
    pub(crate) fn step(
        &mut self,
        step: &Step<'_>,
        mut effect: impl FnMut(&mut Self, &CrashedAttempt) -> Result<Effect, RunStop>,
    ) -> Result<Option<RecordedEvent>, RunStop> {
        loop {
            match self.attempt(step, &mut effect)? {
                Effect::Result(past) => return Ok(Some(past)),
                Effect::NoResult => return Ok(None),
                Effect::OutOfBudget => {}
            }
        }
    }

    /// Like [`Turn::step`], but returns after an interruption by a budget, so that the request can be repeated first.
    ///
    /// # Errors
    /// As [`Turn::step`].
    pub(crate) fn attempt(
        &mut self,
        step: &Step<'_>,
        effect: impl FnOnce(&mut Self, &CrashedAttempt) -> Result<Effect, RunStop>,
    ) -> Result<Effect<RecordedEvent>, RunStop> {
        let node = &self.node.name;
        let mut crashed = CrashedAttempt::default();
        while self.walk.step_if(node, step.report.as_slice(), None)?.is_some() {
            crashed.reports += 1;
        }
        if let Some(past) = self.walk.step_if(node, &["turn.interrupted"], None)? {
            self.resume_step(step.kind, &past, false)?;
            return Ok(Effect::OutOfBudget);
        }
        if let Some(past) = self.walk.step_if(node, step.result.as_slice(), None)? {
            return Ok(Effect::Result(past));
        }
        if !self.walk.log.is_live() {
            return Ok(Effect::NoResult);
        }
        crashed.recovery = self.recovery(step)?;
        match effect(self, &crashed)? {
            Effect::Result(event) => self.walk.record_event(event).map(Effect::Result),
            Effect::NoResult => Ok(Effect::NoResult),
            Effect::OutOfBudget => {
                let past = self.record(EventKind::TurnInterrupted { step: Some(step.kind.to_owned()) })?;
                self.resume_step(step.kind, &past, true)?;
                Ok(Effect::OutOfBudget)
            }
        }
    }

    /// Continues after a budget interrupted a step, once the session may work again.
    fn resume_step(&mut self, kind: &str, past: &RecordedEvent, live: bool) -> Result<(), RunStop> {
        let skips = self.node.common.on_interrupt == Some(OnInterrupt::Skip);
        let resumed = self.event(EventKind::TurnResumed { step: Some(kind.to_owned()) });
        if self.walk.step_if(&self.node.name, &["turn.resumed"], (!skips).then_some(resumed))?.is_none() {
            return Err(RunStop::Skipped);
        }
        // The governor decides about budgets: if none is used up according to it, none is enforced here.
        let halted = past.decision.decision == Verdict::Halt;
        self.limit = if live && !halted { OnceCell::from(None) } else { OnceCell::new() };
        Ok(())
    }

    /// Handling of a step that was running when the process died.
    fn recovery(&self, step: &Step<'_>) -> Result<Option<Recovery>, RunStop> {
        let Some(once) = step.once.as_ref().filter(|_| self.walk.log.was_interrupted()) else {
            return Ok(None);
        };
        let node = &self.node.name;
        let (what, name) = match once.tool {
            Some(tool) => (format!("a call to '{tool}'"), format!("{node}: {tool}")),
            None => (format!("'{node}'"), node.clone()),
        };
        self.walk.context.listener.on_note(&format!("{what} was running when the run was interrupted"));
        match (self.walk.context.on_interrupted_step, self.node.common.on_interrupt) {
            (InterruptedStepPolicy::Rerun, _) | (_, Some(OnInterrupt::Repeat)) => Ok(Some(Recovery::Repeat)),
            (_, Some(OnInterrupt::Skip)) => Err(RunStop::Skipped),
            _ if once.may_rerun => Ok(Some(Recovery::Repeat)),
            (InterruptedStepPolicy::Skip, _) => Ok(Some(Recovery::GiveUp)),
            (InterruptedStepPolicy::Ask, _) => Err(RunStop::StepOutcomeUnknown { step: name }),
        }
    }
}

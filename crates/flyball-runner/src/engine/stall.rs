//! Automatic handling of a stalled loop (`on_stall`) before a person is needed.

use super::executor::WorkflowExecutor;
use super::outcome::RunStop;
use super::person_messages::PersonMessage;
use flyball::policy::OnStallAction;
use flyball::{BudgetReport, Decision, Event, EventKind, SessionPhase, SessionReport, Trip, TripSeverity};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;

impl WorkflowExecutor {
    /// Applies the policy's `on_stall` action to a stalled loop. Actions without a person apply only once per session.
    pub(super) fn handle_stall(&mut self, stop: RunStop) -> Result<(), RunStop> {
        let RunStop::Halted(decision) = &stop else { return Err(stop) };
        let Some(trip) = stall_trip(decision).cloned() else { return Err(stop) };
        let first = !std::mem::replace(&mut self.stall_handled, true);
        let on_stall = self.context.sink.policy().on_stall;
        match on_stall {
            OnStallAction::RetryWithNewProvider if first && self.switch_to_fallback_provider() => {
                self.release(&trip, "retry_with_new_provider")
            }
            OnStallAction::SpawnReviewer if first && self.context.plan.reviewer.is_some() => {
                // A child of a halted session cannot work, so release first.
                self.release(&trip, "spawn_reviewer")?;
                self.call_reviewer(decision)
            }
            OnStallAction::SwitchToInteractive if self.ask_for_advice(&trip, decision)? => {
                self.release(&trip, "switch_to_interactive")
            }
            _ => Err(stop),
        }
    }

    fn switch_to_fallback_provider(&mut self) -> bool {
        let Some(fallback) = self.context.plan.fallback_provider.clone() else { return false };
        self.context.listener.on_note(&format!("the loop has stalled; switching to provider '{fallback}'"));
        self.provider_override = Some(fallback);
        true
    }

    /// Runs the reviewer node in a child session. Templates read its output as `{{NAME.output}}`.
    fn call_reviewer(&mut self, decision: &Decision) -> Result<(), RunStop> {
        let context = Arc::clone(&self.context);
        let reviewer = context.plan.reviewer.as_ref().and_then(|name| context.plan.nodes.get(name));
        let Some(reviewer) = reviewer else { return Ok(()) };
        context.listener.on_note(&format!("the loop has stalled; running reviewer '{}'", reviewer.name));
        let mut review = self.child_executor("reviewer")?;
        review.last_stall = Some(Box::new(decision.clone()));
        review.briefed_by = Some(self.log.session().to_owned());
        let outcome = review.visit_node(reviewer)?;
        review.record_session_end(outcome.status.as_str())?;
        self.vars.record_outcome(&reviewer.name, &outcome);
        // The reviewer drew on this session's budget, so the speculative copy is stale.
        self.log.reset_speculation();
        Ok(())
    }

    /// Asks a person at the terminal, or takes an answer sent earlier. The next prompt contains it; templates read it
    /// as `{{advice}}`.
    fn ask_for_advice(&mut self, trip: &Trip, decision: &Decision) -> Result<bool, RunStop> {
        let asker = Arc::clone(&self.context.human_input);
        let question = format!("The loop has stalled: {}. What should be done differently?", trip.message);
        match self.log.next_human_input(&question, Some(decision), asker.as_ref()) {
            Ok(past) => {
                if let Some(message) = PersonMessage::from_event(&past) {
                    self.log.messages.add(message);
                }
                let (EventKind::UserMessage { text, .. } | EventKind::PersonMessage { text, .. }) =
                    past.event.kind
                else {
                    return Ok(false);
                };
                self.vars.set("advice", json!(text));
                Ok(true)
            }
            Err(RunStop::AwaitingInput(_)) => Ok(false),
            Err(stop) => Err(stop),
        }
    }

    /// Briefing for an agent after a stall: the finding, its evidence, and the remaining budgets. `None` if there was
    /// no stall since the last prompt, or during replay.
    pub(crate) fn stall_briefing(&self) -> Result<Option<String>, RunStop> {
        let Some(decision) = self.last_stall.as_deref().filter(|_| self.log.is_live()) else {
            return Ok(None);
        };
        let Some(trip) = stall_trip(decision) else { return Ok(None) };
        let report = match &self.briefed_by {
            Some(session) => self.context.sink.session_report(session)?,
            None => self.log.report()?,
        };
        Ok(Some(briefing_text(decision, trip, report.as_ref())))
    }

    /// Releases the stall on behalf of the policy, with the same bounds as a person's release.
    fn release(&mut self, trip: &Trip, by: &str) -> Result<(), RunStop> {
        let kind = EventKind::HumanReleased {
            guard: Some(trip.guard.clone()),
            trip: None,
            mode: flyball::ReleaseMode::default(),
            n: None,
            by: Some(format!("policy: on_stall {by}")),
            why: Some("automatic release by the policy's on_stall action".to_owned()),
        };
        let past = self.log.record(Event::new("", kind))?;
        // A stop by a person is not the policy's to lift.
        if past.decision.state == SessionPhase::Halted && !self.log.released_since() {
            return Err(RunStop::Halted(Box::new(past.decision)));
        }
        Ok(())
    }
}

/// Whether a decision halts the session because of a stalled loop.
pub(super) fn is_stall(decision: &Decision) -> bool {
    decision.state == SessionPhase::Halted && stall_trip(decision).is_some()
}

/// The stall trip, if nothing else halted the session; otherwise this would extend a budget.
fn stall_trip(decision: &Decision) -> Option<&Trip> {
    let mut halts = decision.trips.iter().filter(|trip| trip.severity == TripSeverity::Halt);
    let is_stall = |trip: &&Trip| ["stall", "oscillation"].contains(&trip.guard.as_str());
    let first = halts.next().filter(is_stall)?;
    halts.all(|trip| is_stall(&trip)).then_some(first)
}

/// Text of a briefing, built only from fixed templates and names.
fn briefing_text(decision: &Decision, trip: &Trip, report: Option<&SessionReport>) -> String {
    let mut lines = vec![format!("The loop stalled: {}.", trip.message)];
    let halted = decision.effects.iter().find(|effect| effect.effect == "loop.halted");
    let evidence = halted.and_then(|effect| effect.fields.get("evidence")).unwrap_or(&Value::Null);
    let list = |key: &str| evidence.get(key).and_then(Value::as_array).filter(|list| !list.is_empty());
    if let Some(names) = list("failingTests") {
        let names: Vec<&str> = names.iter().filter_map(Value::as_str).collect();
        lines.push(format!("- still failing: {}", names.join(", ")));
    }
    let trends = evidence.get("trends").and_then(Value::as_object);
    for (signal, values) in trends.into_iter().flatten() {
        let values: Vec<String> = values.as_array().into_iter().flatten().map(Value::to_string).collect();
        lines.push(format!("- {signal}: {}", values.join(" → ")));
    }
    for (key, what) in
        [("outputHashes", "outputs"), ("diffHashes", "diff states"), ("failingSignatures", "failing sets")]
    {
        if let Some(hashes) = list(key) {
            let distinct: BTreeSet<&str> = hashes.iter().filter_map(Value::as_str).collect();
            lines.push(format!("- {} distinct among the last {} {what}", distinct.len(), hashes.len()));
        }
    }
    if let Some(trail) = list("transitionTrail") {
        let trail: Vec<&str> = trail.iter().filter_map(Value::as_str).collect();
        lines.push(format!("- path so far: {}", trail.join(" → ")));
    }
    let budgets: Vec<String> =
        report.into_iter().flat_map(|report| &report.budgets).map(BudgetReport::remaining_text).collect();
    if !budgets.is_empty() {
        lines.push(format!("Remaining budgets: {}.", budgets.join("; ")));
    }
    lines.push("Try a different approach.".to_owned());
    lines.join("\n")
}

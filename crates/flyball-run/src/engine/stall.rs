//! A loop that has stalled: what the policy's `on_stall` does about it before a person is needed.

use super::person_messages::PersonMessage;
use super::stop::Stop;
use super::walk::Walk;
use flyball::policy::OnStall;
use flyball::{BudgetReport, Decision, Event, Kind, Report, Severity, Status, Trip};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;

impl Walk {
    /// If a loop has stalled, does about it what the policy says; then the walk may go on. Nobody but a person may do
    /// so twice.
    pub(super) fn handle(&mut self, stop: Stop) -> Result<(), Stop> {
        let Stop::Halted(decision) = &stop else { return Err(stop) };
        let Some(trip) = stalled(decision).cloned() else { return Err(stop) };
        let first = !std::mem::replace(&mut self.stalls_handled, true);
        let on_stall = self.world.book.policy().on_stall;
        match on_stall {
            OnStall::RetryWithNewProvider if first && self.change_provider() => {
                self.release(&trip, "retry_with_new_provider")
            }
            OnStall::SpawnReviewer if first && self.world.plan.reviewer.is_some() => {
                // Below a session that is halted nobody works, so it is released first.
                self.release(&trip, "spawn_reviewer")?;
                self.call_reviewer(decision)
            }
            OnStall::SwitchToInteractive if self.ask_for_advice(&trip, decision)? => {
                self.release(&trip, "switch_to_interactive")
            }
            _ => Err(stop),
        }
    }

    fn change_provider(&mut self) -> bool {
        let Some(fallback) = self.world.plan.fallback_provider.clone() else { return false };
        self.world.watcher.note(&format!("the loop has stalled; '{fallback}' takes over"));
        self.provider = Some(fallback);
        true
    }

    /// Lets the reviewer's node look, in a session of its own; templates have its words as `{{NAME.output}}`.
    fn call_reviewer(&mut self, decision: &Decision) -> Result<(), Stop> {
        let world = Arc::clone(&self.world);
        let reviewer = world.plan.reviewer.as_ref().and_then(|name| world.plan.nodes.get(name));
        let Some(reviewer) = reviewer else { return Ok(()) };
        world.watcher.note(&format!("the loop has stalled; '{}' looks at it", reviewer.name));
        let mut review = self.child("reviewer")?;
        review.stalled = Some(Box::new(decision.clone()));
        review.briefed_by = Some(self.lane.session().to_owned());
        let outcome = review.visit(reviewer)?;
        review.end(outcome.status.as_str())?;
        self.vars.visited(&reviewer.name, &outcome);
        // It has drawn on the budget of this session.
        self.lane.look_again();
        Ok(())
    }

    /// Asks a person at the terminal, or takes what one has sent since. The next prompt contains the answer; templates
    /// have it as `{{advice}}`.
    fn ask_for_advice(&mut self, trip: &Trip, decision: &Decision) -> Result<bool, Stop> {
        let asker = Arc::clone(&self.world.asker);
        let question = format!("The loop has stalled: {}. What should be done differently?", trip.message);
        match self.lane.listen(&question, Some(decision), asker.as_ref()) {
            Ok(past) => {
                if let Some(message) = PersonMessage::of(&past) {
                    self.lane.messages.add(message);
                }
                let (Kind::UserMessage { text, .. } | Kind::PersonMessage { text, .. }) = past.event.kind
                else {
                    return Ok(false);
                };
                self.vars.set("advice", json!(text));
                Ok(true)
            }
            Err(Stop::Asks(_)) => Ok(false),
            Err(stop) => Err(stop),
        }
    }

    /// What an agent is told after a stall: what was found, on what evidence, and what is left of the budgets. Nothing
    /// if there was none since the last prompt, or the prompt lies in the past.
    pub(crate) fn stall_briefing(&self) -> Result<Option<String>, Stop> {
        let Some(decision) = self.stalled.as_deref().filter(|_| self.lane.is_live()) else { return Ok(None) };
        let Some(trip) = stalled(decision) else { return Ok(None) };
        let report = match &self.briefed_by {
            Some(session) => self.world.book.report(session)?,
            None => self.lane.report()?,
        };
        Ok(Some(briefing(decision, trip, report.as_ref())))
    }

    /// What the policy does in a person's place, bounded as a person's release is, and recorded as its own.
    fn release(&mut self, trip: &Trip, by: &str) -> Result<(), Stop> {
        let kind = Kind::HumanReleased {
            guard: Some(trip.guard.clone()),
            trip: None,
            mode: flyball::ReleaseMode::default(),
            n: None,
            by: Some(format!("policy: on_stall {by}")),
            why: Some("the policy says what to do when a loop stalls".to_owned()),
        };
        let past = self.lane.record(Event::new("", kind))?;
        // A person may have stopped the session as well: that is not the policy's to lift.
        if past.decision.state == Status::Halted && !self.lane.released_since() {
            return Err(Stop::Halted(Box::new(past.decision)));
        }
        Ok(())
    }
}

/// Whether a decision halts the session because a loop has stalled.
pub(super) fn is_stall(decision: &Decision) -> bool {
    decision.state == Status::Halted && stalled(decision).is_some()
}

/// The trip of a loop that has stalled, if nothing else halted it: a budget is not extended by the back door.
fn stalled(decision: &Decision) -> Option<&Trip> {
    let mut halts = decision.trips.iter().filter(|trip| trip.severity == Severity::Halt);
    let is_stall = |trip: &&Trip| ["stall", "oscillation"].contains(&trip.guard.as_str());
    let first = halts.next().filter(is_stall)?;
    halts.all(|trip| is_stall(&trip)).then_some(first)
}

/// The words of a briefing, from fixed templates and names only.
fn briefing(decision: &Decision, trip: &Trip, report: Option<&Report>) -> String {
    let mut lines = vec![format!("The loop had stalled: {}.", trip.message)];
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
    for (key, what) in [
        ("outputHashes", "outputs"),
        ("diffHashes", "states of the diff"),
        ("failingSignatures", "failing sets"),
    ] {
        if let Some(hashes) = list(key) {
            let different: BTreeSet<&str> = hashes.iter().filter_map(Value::as_str).collect();
            lines.push(format!("- {} different among the last {} {what}", different.len(), hashes.len()));
        }
    }
    if let Some(trail) = list("transitionTrail") {
        let trail: Vec<&str> = trail.iter().filter_map(Value::as_str).collect();
        lines.push(format!("- the way so far: {}", trail.join(" → ")));
    }
    let budgets: Vec<String> =
        report.into_iter().flat_map(|report| &report.budgets).map(BudgetReport::left).collect();
    if !budgets.is_empty() {
        lines.push(format!("Left of the budgets: {}.", budgets.join("; ")));
    }
    lines.push("Do something else than before.".to_owned());
    lines.join("\n")
}

//! Turns trips into a decision: consumes releases, sets latches, and combines effects and feedback.

use crate::decision::{Decision, Effect, SessionPhase, Trip, TripSeverity, Verdict};
use crate::event::{Event, EventKind};
use crate::guards::{ExhaustedBudget, TripBuilder, Trips};
use crate::limits::{FEEDBACK_CHARS, MAX_EXHAUSTED_BUDGETS};
use crate::output::{LargeOutput, OutputLimits};
use crate::person_message::PersonState;
use crate::policy::Policy;
use crate::rules_version::RulesVersion;
use crate::state::{Latch, SessionState};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// Allows acts that a release granted, and turns a trip into a halt when no release is left.
pub(crate) fn apply_releases(
    policy: &Policy,
    rules: RulesVersion,
    credits: &mut BTreeMap<String, u64>,
    releases: &BTreeMap<String, u64>,
    person: &PersonState,
    trips: &mut Trips,
) {
    if credits.is_empty() && releases.is_empty() {
        return;
    }
    let mut drawn: Vec<String> = Vec::new();
    for draft in &mut trips.list {
        if draft.trip.severity < TripSeverity::Block {
            continue;
        }
        let guard = &draft.trip.guard;
        if let Some(left) = credits.get_mut(guard).filter(|left| **left > 0) {
            if !drawn.contains(guard) {
                *left -= 1;
                drawn.push(guard.clone());
            }
            draft.trip.severity = TripSeverity::Warn;
            let by = if person.policy_releases.contains(guard) { "the policy" } else { "a person" };
            let more = rules.wording(format!(", {left} more"), format!("; {left} more allowed"));
            draft.trip.message = format!("{} (released by {by}{more})", draft.trip.message);
            draft.feedback = None;
        } else if releases.get(guard).is_some_and(|used| *used >= policy.releases.ceiling) {
            draft.trip.severity = TripSeverity::Halt;
        }
    }
    credits.retain(|_, left| *left > 0);
}

/// Builds the decision and sets the latches.
pub(crate) fn finalize(policy: &Policy, state: &mut SessionState, event: &Event, trips: Trips) -> Decision {
    let verdict = trips.verdict();
    let mut effects: Vec<(&str, BTreeMap<String, Value>)> = trips.effects;
    let refusals = trips.list.iter().filter(|draft| draft.trip.severity >= TripSeverity::Block);
    effects.extend(refusals.filter_map(|draft| draft.refusal.clone()));
    let already = state.halted.is_some();
    match verdict {
        Verdict::Warn => state.totals.warnings = state.totals.warnings.saturating_add(1),
        Verdict::Block => state.totals.blocks = state.totals.blocks.saturating_add(1),
        Verdict::Halt => state.totals.halts = state.totals.halts.saturating_add(1),
        Verdict::Allow => {}
    }
    let halting = trips.list.iter().find(|draft| draft.trip.severity == TripSeverity::Halt);
    let is_stop = matches!(event.kind, EventKind::HumanStopped { .. }) && state.rules > RulesVersion::V1;
    // The stop itself is already listed.
    let already = already || state.stops.len() > usize::from(is_stop);
    if let Some(draft) = halting.filter(|draft| !already && !is_parent_halt(draft)) {
        if !is_stop {
            state.halted = Some(latch_from(draft, state.seq));
            state.exhausted_budgets = exhausted_budgets(state.rules, &trips.list);
        }
        effects.push(("loop.halted", loop_halted_fields(policy, state, draft)));
        if policy.notify {
            effects.push(("notify", BTreeMap::from([("text".to_owned(), json!(draft.trip.message))])));
        }
    }
    let called =
        trips.list.iter().find(|draft| draft.escalates && draft.trip.severity >= TripSeverity::Block);
    if let Some(draft) = called {
        state.blocked.get_or_insert_with(|| latch_from(draft, state.seq));
        if policy.escalate && !state.labeled {
            state.labeled = true;
            effects.push((
                "label.added",
                BTreeMap::from([("label".to_owned(), json!(policy.hitl_label(state.rules)))]),
            ));
        }
    }
    let feedback = combine_feedback(&trips.list, trips.note.as_deref());
    let retry_after_ms = trips.list.iter().filter_map(|draft| draft.retry_after_ms).max();
    let seq = state.seq;
    let effects = effects.into_iter().enumerate().map(|(at, (effect, fields))| Effect {
        effect: effect.to_owned(),
        key: format!("{}/{seq}/{at}", event.session),
        fields,
    });
    Decision {
        session: event.session.clone(),
        seq,
        decision: verdict,
        state: state.status(),
        effects: effects.collect(),
        feedback,
        retry_after_ms,
        trips: trips.list.into_iter().map(into_trip).collect(),
        output: large_output(policy, event),
    }
}

/// Budgets exhausted at a halt. A release raises all of them; otherwise the next step would stop at the second one.
fn exhausted_budgets(rules: RulesVersion, drafts: &[TripBuilder]) -> Vec<ExhaustedBudget> {
    if rules == RulesVersion::V1 {
        return Vec::new();
    }
    let halts = drafts.iter().filter(|draft| draft.trip.severity == TripSeverity::Halt);
    halts.filter_map(|draft| ExhaustedBudget::from_trip(&draft.trip)).take(MAX_EXHAUSTED_BUDGETS).collect()
}

/// Replacement text for an output that is too large.
fn large_output(policy: &Policy, event: &Event) -> Option<Box<LargeOutput>> {
    let EventKind::OutputReceived { tool, text, output, .. } = &event.kind else { return None };
    let guards = policy.guards_for_output(tool.as_deref(), event.node.as_deref());
    let limits = OutputLimits::from(&guards.large_response);
    LargeOutput::from_text(text.as_deref().unwrap_or_default(), output.as_ref(), limits).map(Box::new)
}

/// The decision for a redelivered request after the session was halted or stopped. Nothing is recorded.
pub(crate) fn halt_decision(state: &SessionState, draft: TripBuilder, known: Decision) -> Decision {
    Decision {
        decision: Verdict::Halt,
        state: state.status(),
        feedback: draft.feedback.clone(),
        trips: vec![into_trip(draft)],
        effects: Vec::new(),
        ..known
    }
}

/// Whether the halt comes from an ancestor. It is reported here, but released in the ancestor.
fn is_parent_halt(draft: &TripBuilder) -> bool {
    draft.trip.scope.contains_key("session") && draft.trip.reason == "user_stop"
}

fn into_trip(draft: TripBuilder) -> Trip {
    let mut trip = draft.trip;
    trip.halt_reason = (trip.severity == TripSeverity::Halt).then_some(draft.halt_reason);
    trip
}

fn latch_from(draft: &TripBuilder, seq: u64) -> Latch {
    let trip = &draft.trip;
    Latch {
        guard: trip.guard.clone(),
        reason: trip.reason.clone(),
        halt_reason: draft.halt_reason,
        message: crate::bounded_map::truncate_bytes(&trip.message, 400).to_owned(),
        seq,
        budget: ExhaustedBudget::from_trip(trip),
    }
}

/// The fields of `loop.halted`.
fn loop_halted_fields(policy: &Policy, state: &SessionState, draft: &TripBuilder) -> BTreeMap<String, Value> {
    let trip = &draft.trip;
    let mut fields = BTreeMap::new();
    match trip.scope.get("loop").map(String::as_str).or_else(|| state.position.innermost_loop()) {
        Some(id) => fields.insert("cycleId".to_owned(), json!(id)),
        None => fields.insert("scope".to_owned(), json!(trip.scope)),
    };
    fields.insert("haltReason".to_owned(), json!(draft.halt_reason.as_str()));
    fields.insert("reason".to_owned(), json!(trip.reason));
    if state.rules > RulesVersion::V1 {
        fields.insert("guard".to_owned(), json!(trip.guard));
    }
    let evidence = if state.rules == RulesVersion::V1 { evidence_v1 } else { halt_evidence };
    fields.insert("evidence".to_owned(), evidence(policy, state, trip));
    fields.insert("suggestedActions".to_owned(), json!(trip.suggested_actions));
    if let Some(budget) = &trip.budget {
        fields.insert("budget".to_owned(), json!(budget));
    }
    fields
}

/// Evidence of every halt, including budget halts: hashes of the most recent diffs, failing sets and node outputs, the
/// measured values, and the trail of visited nodes. `fingerprints` are those that the guard compared.
fn halt_evidence(policy: &Policy, state: &SessionState, trip: &Trip) -> Value {
    let mut map = Map::new();
    map.insert("events".to_owned(), json!(trip.evidence.events));
    map.insert("diffHashes".to_owned(), json!(state.work.diffs()));
    map.insert("failingSignatures".to_owned(), json!(state.work.failing()));
    map.insert("outputHashes".to_owned(), json!(state.work.outputs()));
    map.insert("transitionTrail".to_owned(), json!(state.position.trail(policy.shown_history(state.rules))));
    let failing = state.work.failing_names();
    let trends = trends(state);
    for (key, value, is_there) in [
        ("failingTests", json!(failing), !failing.is_empty()),
        ("fingerprints", json!(trip.evidence.fingerprints), !trip.evidence.fingerprints.is_empty()),
        ("trends", json!(trends), !trends.is_empty()),
    ] {
        if is_there {
            map.insert(key.to_owned(), value);
        }
    }
    Value::Object(map)
}

/// [`halt_evidence`] under version 1 of the rules.
fn evidence_v1(policy: &Policy, state: &SessionState, trip: &Trip) -> Value {
    let mut evidence = json!({
        "events": trip.evidence.events,
        "outputHashes": trip.evidence.fingerprints,
        "transitionTrail": state.position.trail(policy.shown_history(state.rules)),
    });
    if let Some(map) = evidence.as_object_mut() {
        let hashes = state.guards.stall.recent_hashes("diff");
        if !hashes.is_empty() {
            map.insert("diffHashes".to_owned(), json!(hashes));
        }
        if !trip.evidence.names.is_empty() {
            map.insert("failingTests".to_owned(), json!(trip.evidence.names));
        }
        let trends = trends(state);
        if !trends.is_empty() {
            map.insert("trends".to_owned(), json!(trends));
        }
    }
    evidence
}

/// Measured values by signal.
fn trends(state: &SessionState) -> BTreeMap<&str, &[i64]> {
    state.guards.stall.trends().filter(|(_, trend)| !trend.is_empty()).collect()
}

/// Feedback of the most severe trips, truncated to the maximum length.
fn combine_feedback(drafts: &[TripBuilder], note: Option<&str>) -> Option<String> {
    let gravest = drafts.iter().map(|draft| draft.trip.severity).max()?;
    if gravest < TripSeverity::Warn {
        return None;
    }
    let mut text = String::new();
    let templates = drafts.iter().filter(|draft| draft.trip.severity == gravest);
    for part in templates.filter_map(|draft| draft.feedback.as_deref()).chain(note) {
        if !text.is_empty() {
            text.push(' ');
        }
        text.push_str(part);
    }
    let short: String = text.chars().take(FEEDBACK_CHARS).collect();
    (!short.is_empty()).then_some(short)
}

/// Whether a session in this phase awaits a person.
#[must_use]
pub fn waits_for_person(state: SessionPhase) -> bool {
    matches!(state, SessionPhase::AwaitingConfirmation | SessionPhase::Blocked | SessionPhase::Halted)
}

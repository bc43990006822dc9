//! From trips to the decision: releases used up, latches set, effects and feedback put together.

use crate::decision::{Decision, Effect, Severity, Status, Trip, Verdict};
use crate::event::{Event, Kind};
use crate::guards::{Draft, Tripped, Trips};
use crate::limits::{FEEDBACK_CHARS, SPENT_BUDGETS};
use crate::output::{Output, OutputLimits};
use crate::person::Person;
use crate::policy::Policy;
use crate::rules_version::RulesVersion;
use crate::state::{Latch, State};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// Lets an act through that a person has granted, and turns a trip into a halt when no release is left.
pub(crate) fn settle(
    policy: &Policy,
    credits: &mut BTreeMap<String, u64>,
    releases: &BTreeMap<String, u64>,
    person: &Person,
    trips: &mut Trips,
) {
    if credits.is_empty() && releases.is_empty() {
        return;
    }
    let mut drawn: Vec<String> = Vec::new();
    for draft in &mut trips.list {
        if draft.trip.severity < Severity::Block {
            continue;
        }
        let guard = &draft.trip.guard;
        if let Some(left) = credits.get_mut(guard).filter(|left| **left > 0) {
            if !drawn.contains(guard) {
                *left -= 1;
                drawn.push(guard.clone());
            }
            draft.trip.severity = Severity::Warn;
            let by = if person.policy_releases.contains(guard) { "the policy" } else { "a person" };
            draft.trip.message = format!("{} (released by {by}, {left} more)", draft.trip.message);
            draft.feedback = None;
        } else if releases.get(guard).is_some_and(|used| *used >= policy.releases.ceiling) {
            draft.trip.severity = Severity::Halt;
        }
    }
    credits.retain(|_, left| *left > 0);
}

/// Makes the decision and sets what it latches.
pub(crate) fn conclude(policy: &Policy, state: &mut State, event: &Event, trips: Trips) -> Decision {
    let verdict = trips.verdict();
    let mut effects: Vec<(&str, BTreeMap<String, Value>)> = trips.effects;
    let refusals = trips.list.iter().filter(|draft| draft.trip.severity >= Severity::Block);
    effects.extend(refusals.filter_map(|draft| draft.refusal.clone()));
    let already = state.halted.is_some();
    match verdict {
        Verdict::Warn => state.totals.warnings = state.totals.warnings.saturating_add(1),
        Verdict::Block => state.totals.blocks = state.totals.blocks.saturating_add(1),
        Verdict::Halt => state.totals.halts = state.totals.halts.saturating_add(1),
        Verdict::Allow => {}
    }
    let halting = trips.list.iter().find(|draft| draft.trip.severity == Severity::Halt);
    let is_stop = matches!(event.kind, Kind::HumanStopped { .. }) && state.rules > RulesVersion::V1;
    // The stop itself is listed by now.
    let already = already || state.stops.len() > usize::from(is_stop);
    if let Some(draft) = halting.filter(|draft| !already && !standing_above(draft)) {
        if !is_stop {
            state.halted = Some(latch(draft, state.seq));
            state.spent_budgets = spent_budgets(state.rules, &trips.list);
        }
        effects.push(("loop.halted", halted_fields(policy, state, draft)));
        if policy.notify {
            effects.push(("notify", BTreeMap::from([("text".to_owned(), json!(draft.trip.message))])));
        }
    }
    let called = trips.list.iter().find(|draft| draft.escalates && draft.trip.severity >= Severity::Block);
    if let Some(draft) = called {
        state.blocked.get_or_insert_with(|| latch(draft, state.seq));
        if policy.escalate && !state.labelled {
            state.labelled = true;
            effects.push((
                "label.added",
                BTreeMap::from([("label".to_owned(), json!(policy.hitl_label(state.rules)))]),
            ));
        }
    }
    let feedback = feedback(&trips.list, trips.note.as_deref());
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
        trips: trips.list.into_iter().map(finish).collect(),
        output: large_output(policy, event),
    }
}

/// The budgets that are used up at a halt: a release raises all of them, or the next step would stop at the second one.
fn spent_budgets(rules: RulesVersion, drafts: &[Draft]) -> Vec<Tripped> {
    if rules == RulesVersion::V1 {
        return Vec::new();
    }
    let halts = drafts.iter().filter(|draft| draft.trip.severity == Severity::Halt);
    halts.filter_map(|draft| Tripped::of(&draft.trip)).take(SPENT_BUDGETS).collect()
}

/// What to hand to the model instead of an output that is too large.
fn large_output(policy: &Policy, event: &Event) -> Option<Box<Output>> {
    let Kind::OutputReceived { tool, text, output, .. } = &event.kind else { return None };
    let guards = policy.guards_for_output(tool.as_deref(), event.node.as_deref());
    let limits = OutputLimits::from(&guards.large_response);
    Output::of(text.as_deref().unwrap_or_default(), output.as_ref(), limits).map(Box::new)
}

/// The answer to a permission that is asked for again after the session was halted or stopped. Nothing is recorded.
pub(crate) fn halted_since(state: &State, draft: Draft, known: Decision) -> Decision {
    Decision {
        decision: Verdict::Halt,
        state: state.status(),
        feedback: draft.feedback.clone(),
        trips: vec![finish(draft)],
        effects: Vec::new(),
        ..known
    }
}

/// A parent's halt is answered, but it is the parent's to release.
fn standing_above(draft: &Draft) -> bool {
    draft.trip.scope.contains_key("session") && draft.trip.reason == "user_stop"
}

fn finish(draft: Draft) -> Trip {
    let mut trip = draft.trip;
    trip.halt_reason = (trip.severity == Severity::Halt).then_some(draft.halt_reason);
    trip
}

fn latch(draft: &Draft, seq: u64) -> Latch {
    let trip = &draft.trip;
    Latch {
        guard: trip.guard.clone(),
        reason: trip.reason.clone(),
        halt_reason: draft.halt_reason,
        message: crate::window::cut(&trip.message, 400).to_owned(),
        seq,
        budget: Tripped::of(trip),
    }
}

/// The fields of `loop.halted`.
fn halted_fields(policy: &Policy, state: &State, draft: &Draft) -> BTreeMap<String, Value> {
    let trip = &draft.trip;
    let mut fields = BTreeMap::new();
    match trip.scope.get("loop").map(String::as_str).or_else(|| state.flow.loop_here()) {
        Some(id) => fields.insert("cycleId".to_owned(), json!(id)),
        None => fields.insert("scope".to_owned(), json!(trip.scope)),
    };
    fields.insert("haltReason".to_owned(), json!(draft.halt_reason.as_str()));
    fields.insert("reason".to_owned(), json!(trip.reason));
    if state.rules > RulesVersion::V1 {
        fields.insert("guard".to_owned(), json!(trip.guard));
    }
    let evidence = if state.rules == RulesVersion::V1 { first_evidence } else { evidence };
    fields.insert("evidence".to_owned(), evidence(policy, state, trip));
    fields.insert("suggestedActions".to_owned(), json!(trip.suggested_actions));
    if let Some(budget) = &trip.budget {
        fields.insert("budget".to_owned(), json!(budget));
    }
    fields
}

/// What every halt rests on, also that of a budget: the last diffs, failing sets and outputs of nodes as hashes, what
/// was measured, and the way through the nodes. `fingerprints` are those that the guard itself compared.
fn evidence(policy: &Policy, state: &State, trip: &Trip) -> Value {
    let mut map = Map::new();
    map.insert("events".to_owned(), json!(trip.evidence.events));
    map.insert("diffHashes".to_owned(), json!(state.work.diffs()));
    map.insert("failingSignatures".to_owned(), json!(state.work.failing()));
    map.insert("outputHashes".to_owned(), json!(state.work.outputs()));
    map.insert("transitionTrail".to_owned(), json!(state.flow.trail(policy.shown_history(state.rules))));
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

/// The same under version 1 of the rules.
fn first_evidence(policy: &Policy, state: &State, trip: &Trip) -> Value {
    let mut evidence = json!({
        "events": trip.evidence.events,
        "outputHashes": trip.evidence.fingerprints,
        "transitionTrail": state.flow.trail(policy.shown_history(state.rules)),
    });
    if let Some(map) = evidence.as_object_mut() {
        let hashes = state.watch.stall.hashes("diff");
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

/// What was measured, by signal.
fn trends(state: &State) -> BTreeMap<&str, &[i64]> {
    state.watch.stall.trends().filter(|(_, trend)| !trend.is_empty()).collect()
}

/// The templates of the gravest trips, within the bound.
fn feedback(drafts: &[Draft], note: Option<&str>) -> Option<String> {
    let gravest = drafts.iter().map(|draft| draft.trip.severity).max()?;
    if gravest < Severity::Warn {
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

/// Whether a decision leaves the session waiting for a person.
#[must_use]
pub fn waits(state: Status) -> bool {
    matches!(state, Status::AwaitingConfirmation | Status::Blocked | Status::Halted)
}

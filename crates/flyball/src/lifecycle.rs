//! Session lifecycle: start, stop, release and end.

use crate::bounded_map::truncate_bytes;
use crate::decision::{Decision, HaltReason, TripSeverity, Verdict};
use crate::error::{Error, ErrorCode};
use crate::event::{Event, EventKind, MessageOrigin, ReleaseMode, canonical_json};
use crate::finalize;
use crate::graph::Workflow;
use crate::guards::{Ancestors, GuardStates, TripBuilder, Trips};
use crate::limits::{IDLE_RESTARTS, INLINE_POLICY_BYTES, NAME_BYTES, OPERATOR_STOPS, RELEASED_GUARDS};
use crate::policy::{GuardMode, Policy};
use crate::rules_version::RulesVersion;
use crate::state::{HumanStop, Latch, SessionState};
use serde_json::Value;

/// Prefix of the author of a release made by the policy itself, for example on a stall.
const POLICY_RELEASE_PREFIX: &str = "policy:";
/// Guard name with which a release lifts a person's stop.
pub(crate) const STOP_GUARD: &str = "human";

/// Validates the content of an event before anything is counted.
pub(crate) fn validate_event(event: &Event) -> Result<(), Error> {
    match &event.kind {
        EventKind::SessionStarted { policy, workflow, .. } => {
            if let Some(workflow) = workflow {
                workflow.validate().map_err(|error| {
                    Error::new(
                        ErrorCode::BadWorkflow,
                        format!("{} ({})", error.message(), error.code()),
                        error.help(),
                    )
                })?;
            }
            if policy.as_ref().is_some_and(|policy| canonical_json(policy).len() > INLINE_POLICY_BYTES) {
                return Err(Error::new(
                    ErrorCode::BadPolicy,
                    format!("the policy inside the event has more than {INLINE_POLICY_BYTES} bytes"),
                    "put it into a policy file and pass it with --policy",
                ));
            }
        }
        EventKind::HumanReleased { guard: Some(guard), .. }
            if !GuardStates::NAMES.contains(&guard.as_str()) && guard != "human" =>
        {
            let near = crate::suggest::closest(guard, GuardStates::NAMES.iter().copied());
            return Err(Error::new(
                ErrorCode::WrongType,
                format!("`{}` is not a guard", truncate_bytes(guard, 60)),
                near.map_or_else(
                    || format!("the guards are {}", GuardStates::NAMES.join(", ")),
                    |near| format!("did you mean `{near}`?"),
                ),
            ));
        }
        _ => {}
    }
    Ok(())
}

/// Whether the time before this event was idle: the session awaited a person, or the sender reports it (`idle: true`,
/// when a run is resumed).
///
/// An agent controls when its session ends and starts. Under version 2 of the rules, a session that keeps working after
/// its end consumes time, and only the first restarts count as idle.
pub(crate) fn was_idle(state: &SessionState, event: &Event) -> bool {
    if event.extra.get("idle") == Some(&Value::Bool(true)) {
        return true;
    }
    let restarts = matches!(event.kind, EventKind::SessionStarted { .. });
    if state.rules == RulesVersion::V1 {
        return state.ended || is_human_input(event);
    }
    if restarts { state.person.restarts < IDLE_RESTARTS } else { is_human_input(event) }
}

fn is_human_input(event: &Event) -> bool {
    matches!(
        event.kind,
        EventKind::UserMessage { origin: MessageOrigin::Human, .. }
            | EventKind::ConfirmationAnswered { .. }
            | EventKind::HumanReleased { .. }
            | EventKind::HumanStopped { .. }
            | EventKind::SessionStarted { .. }
    )
}

/// The halt that applies to a request of a session that is stopped or halted, or that has a halted ancestor.
pub(crate) fn active_halt(state: &SessionState, event: &Event, ancestors: &Ancestors) -> Option<TripBuilder> {
    if !event.kind.needs_decision() || matches!(event.kind, EventKind::HumanStopped { .. }) {
        return None;
    }
    if let Some(stop) = state.stops.first() {
        let draft = TripBuilder::new("human", "user_stop", TripSeverity::Halt, stop.message())
            .events(vec![stop.seq])
            .halt_reason(HaltReason::UserStop)
            .actions(&["lift_stop"])
            .feedback("A person stopped the session. Stop here.");
        return Some(draft);
    }
    if let Some(latch) = &state.halted {
        let draft = TripBuilder::new(&latch.guard, &latch.reason, TripSeverity::Halt, latch.message.clone())
            .events(vec![latch.seq])
            .halt_reason(latch.halt_reason)
            .actions(&["release", "stop"])
            .feedback("The session is halted until a person releases it. Stop here.");
        return Some(draft);
    }
    let above = ancestors.nearest_first.iter().find(|above| above.halted)?;
    let message = state.rules.wording(
        format!("the session '{}' above this one is halted", above.session),
        format!("the ancestor session '{}' is halted", above.session),
    );
    Some(
        TripBuilder::new("budget", "user_stop", TripSeverity::Halt, message)
            .scope("session", &above.session)
            .halt_reason(HaltReason::UserStop)
            .actions(&["release"])
            .feedback("The session that started this one is halted. Stop here."),
    )
}

/// Whether a denied request is evaluated again when redelivered, because a person approved or released something since.
/// A denied request never ran, so nothing can happen twice; allowed requests keep their decision.
pub(crate) fn should_reevaluate(state: &SessionState, event: &Event, known: &Decision) -> bool {
    state.rules > RulesVersion::V1
        && event.kind.is_request()
        && known.decision >= Verdict::Block
        && known.seq < state.person.last_lift_seq
}

/// The decision for a redelivered event: the earlier one, unless that allowed a request and the session was halted or
/// stopped since.
pub(crate) fn refresh_cached_decision(
    state: &SessionState,
    event: &Event,
    family: &Ancestors,
    known: Decision,
) -> Decision {
    if state.rules == RulesVersion::V1 || known.decision >= Verdict::Block {
        return known;
    }
    match active_halt(state, event, family) {
        Some(draft) => finalize::halt_decision(state, draft, known),
        None => known,
    }
}

/// Applies start, stop, release and end events to the session.
pub(crate) fn apply(policy: &Policy, state: &mut SessionState, event: &Event, trips: &mut Trips) {
    match &event.kind {
        EventKind::SessionStarted { policy: inline, workflow, parent, reopen, .. } => {
            state.ended = false;
            // A session must not change its parent: it could escape one that is halted or out of budget.
            let stays = state.rules > RulesVersion::V1 && state.parent.is_some();
            let parent = parent.as_deref().filter(|_| !stays);
            start(state, inline.as_ref(), workflow.as_ref(), parent);
            if *reopen {
                state.guards.reset(None);
                state.position.reset();
            }
        }
        EventKind::SessionEnded { .. } => state.ended = true,
        EventKind::UserMessage { .. } => state.totals.messages = state.totals.messages.saturating_add(1),
        EventKind::HumanStopped { by, why } => {
            let why = why.as_deref().map(|why| truncate_bytes(why, 200)).unwrap_or("no reason given");
            let by = by.as_deref().map_or("a person", |by| truncate_bytes(by, 60));
            let stop = HumanStop { by: by.to_owned(), why: why.to_owned(), seq: state.seq };
            let lifted_by = if state.rules == RulesVersion::V1 { "release" } else { "lift_stop" };
            let draft = TripBuilder::new("human", "user_stop", TripSeverity::Halt, stop.message())
                .events(vec![state.seq])
                .halt_reason(HaltReason::UserStop)
                .actions(&[lifted_by])
                .feedback("A person stopped the session.");
            trips.add(GuardMode::Staged, draft);
            if state.rules > RulesVersion::V1 && state.stops.len() < OPERATOR_STOPS {
                state.stops.push(stop);
            }
        }
        EventKind::PolicyChanged { waiting, .. } if !waiting.is_empty() => {
            let keys =
                waiting.iter().take(5).map(|key| truncate_bytes(key, 60)).collect::<Vec<_>>().join(", ");
            let message = format!(
                "a newer policy would loosen {} ({keys}); a person must accept it",
                count_values(waiting.len())
            );
            let draft = TripBuilder::new("policy", "policy_waits", TripSeverity::Warn, message)
                .events(vec![state.seq])
                .actions(&["accept_policy"]);
            trips.add(GuardMode::Staged, draft);
        }
        EventKind::HumanReleased { guard, trip, mode, n, by, why } => {
            let named = guard.as_deref().or_else(|| trip_guard(trip.as_ref()));
            if state.rules > RulesVersion::V1 && named == Some(STOP_GUARD) {
                lift_stops(state, by.as_deref(), why.as_deref(), trips);
            } else {
                let by_policy = by.as_deref().is_some_and(|by| by.starts_with(POLICY_RELEASE_PREFIX));
                let label_removed = event.extra.get("label").and_then(Value::as_str) == Some("removed");
                release(policy, state, named, (*mode, *n, by_policy), label_removed, trips);
                warn_still_stopped(state, trips);
            }
        }
        _ => {}
    }
}

fn count_values(count: usize) -> String {
    if count == 1 { "1 value".to_owned() } else { format!("{count} values") }
}

fn start(
    state: &mut SessionState,
    policy: Option<&Value>,
    workflow: Option<&Workflow>,
    parent: Option<&str>,
) {
    if let Some(policy) = policy {
        state.policy = Some(canonical_json(policy));
    }
    if let Some(workflow) = workflow {
        state.position.set_workflow(workflow, state.rules);
    }
    if let Some(parent) = parent.filter(|parent| parent.len() <= NAME_BYTES) {
        state.parent = Some(parent.to_owned());
    }
}

fn trip_guard(trip: Option<&Value>) -> Option<&str> {
    let trip = trip?;
    trip.as_str().or_else(|| trip.get("guard").and_then(Value::as_str))
}

/// Lifts the stops by people. The decision names their authors and reasons.
fn lift_stops(state: &mut SessionState, by: Option<&str>, why: Option<&str>, trips: &mut Trips) {
    let by = truncate_bytes(by.unwrap_or("a person"), 60);
    let why = truncate_bytes(why.unwrap_or("no reason given"), 200);
    for stop in std::mem::take(&mut state.stops) {
        let text = format!("{by} lifted the stop by {} ({}): {why}", stop.by, stop.why);
        trips.add_effect("say", "text", text);
    }
}

/// Warns, after the release of a guard, that a person's stop is still active.
fn warn_still_stopped(state: &SessionState, trips: &mut Trips) {
    let Some(stop) = state.stops.first() else { return };
    let message = format!("the session is still {}", stop.message());
    let draft = TripBuilder::new(STOP_GUARD, "user_stop", TripSeverity::Warn, message)
        .events(vec![stop.seq])
        .actions(&["lift_stop"]);
    trips.add(GuardMode::Staged, draft);
}

/// Applies a release: bounded, counted, and without effect once the ceiling is reached.
fn release(
    policy: &Policy,
    state: &mut SessionState,
    named: Option<&str>,
    (mode, n, by_policy): (ReleaseMode, Option<u64>, bool),
    label_removed: bool,
    trips: &mut Trips,
) {
    let latched = state.halted.as_ref().or(state.blocked.as_ref());
    let Some(guard) = named.map(str::to_owned).or_else(|| latched.map(|latch| latch.guard.clone())) else {
        return;
    };
    let used = state.releases.get(&guard).copied().unwrap_or(0);
    if used >= policy.releases.ceiling {
        let message = format!("'{guard}' was released {used} times, as often as the policy allows");
        let draft = TripBuilder::new("release", "release_refused", TripSeverity::Block, message)
            .scope("guard", &guard)
            .count(used, policy.releases.ceiling)
            .events(vec![state.seq])
            .actions(&["raise_releases_ceiling_in_the_policy_file", "stop"]);
        trips.add(GuardMode::Staged, draft);
        if label_removed && state.labeled && state.rules > RulesVersion::V1 {
            // The label was removed externally, but the session is still held, so the label is added again.
            trips.add_effect("label.added", "label", policy.hitl_label(state.rules));
        }
        return;
    }
    if state.releases.contains_key(&guard) || state.releases.len() < RELEASED_GUARDS {
        state.releases.insert(guard.clone(), used + 1);
    }
    let n = n.unwrap_or(policy.releases.grant).clamp(1, 1000);
    let budget = latched.filter(|latch| latch.guard == guard).and_then(|latch| latch.budget.clone());
    let spent = std::mem::take(&mut state.exhausted_budgets);
    let grants = state.rules > RulesVersion::V1 && mode != ReleaseMode::Keep;
    if let Some(tripped) = budget.as_ref().filter(|_| grants) {
        let spent = if spent.is_empty() { vec![tripped.clone()] } else { spent };
        for tripped in &spent {
            let granted = state.guards.budget.grant(policy, tripped, n, mode == ReleaseMode::Reset);
            trips.effects.push(("budget.raised", granted.fields()));
        }
        lift_hold(policy, state, &guard, trips);
        return;
    }
    match (mode, &budget) {
        (ReleaseMode::Grant, Some(tripped)) => state.guards.budget.raise(tripped, n, false),
        // A release lifts a person's stop but never grants acts in advance: the next stop also stops.
        (ReleaseMode::Grant, None) if guard == "human" => {}
        // Plans run only with an approval: a release ends the block but allows no step of a plan.
        (ReleaseMode::Grant, None) if guard == "confirmation" => state.guards.reset(Some(&guard)),
        (ReleaseMode::Grant, None) => {
            state.grants.insert(guard.clone(), n);
            state.person.record_grant(&guard, by_policy && state.rules > RulesVersion::V1);
        }
        // Usage is kept; the limit is raised by the same amount.
        (ReleaseMode::Reset, Some(tripped)) => state.guards.budget.raise(tripped, n, true),
        (ReleaseMode::Reset, None) => {
            state.guards.reset(Some(&guard));
            if guard == "budget" {
                state.position.reset();
            }
        }
        (ReleaseMode::Keep, _) => {}
    }
    lift_hold(policy, state, &guard, trips);
}

/// Lifts the halt or block of a guard.
fn lift_hold(policy: &Policy, state: &mut SessionState, guard: &str, trips: &mut Trips) {
    let lifts = |latch: &Option<Latch>| latch.as_ref().is_some_and(|latch| latch.guard == guard);
    if lifts(&state.halted) {
        state.halted = None;
    }
    if lifts(&state.blocked) {
        state.blocked = None;
        if state.labeled {
            state.labeled = false;
            trips.add_effect("label.removed", "label", policy.hitl_label(state.rules));
        }
    }
}

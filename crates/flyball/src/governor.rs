//! The governor: applies an event to the guards; the strictest trip wins.
//!
//! `step` is pure: the same policy, state and event give the same decision and the same new state on every machine. It
//! has no clock (time comes with the event), does no I/O and performs no effects; it returns the effects to perform.

use crate::bounded_map::truncate_bytes;
use crate::call_ledger::EventFacts;
use crate::decision::{Decision, TripSeverity, Verdict};
use crate::error::Error;
use crate::event::{Event, EventKind, call_identity};
use crate::finalize;
use crate::fingerprint::Fingerprint;
use crate::guards::{Ancestors, GuardContext, GuardStates, Trips, list_names, open_destinations};
use crate::lifecycle;
use crate::limits::SHOWN_NAME_BYTES;
use crate::observation::Observation;
use crate::person_message;
use crate::policy::{GuardPolicies, Policy, ToolPolicy};
use crate::rules_version::RulesVersion;
use crate::state::SessionState;

/// Minimum backward jump that counts as a clock reset. Smaller jumps are reordering by concurrent processes.
const CLOCK_STEP_MS: u64 = 5_000;

/// Applies one event to a session's state and returns the decision.
///
/// # Errors
/// If the event's id was used before with a different body, or its content is invalid. The state is unchanged on error.
pub fn step(
    policy: &Policy,
    state: &mut SessionState,
    event: &Event,
    ancestors: &Ancestors,
) -> Result<Decision, Error> {
    let reading = person_message::interpret(policy, state, event);
    let event = reading.as_ref().map_or(event, |reading| &reading.event);
    let key = idempotency_key(event);
    if let Some((key, body)) = key
        && let Some(known) = state.decision_cache.find(key, body, &event.session)?
        && !lifecycle::should_reevaluate(state, event, &known)
    {
        return Ok(lifecycle::refresh_cached_decision(state, event, ancestors, known));
    }
    if state.rules == RulesVersion::V1
        && let Some(known) = redelivered_call(state, event)?
    {
        return Ok(known);
    }
    lifecycle::validate_event(event)?;
    if state.seq == 0 {
        state.rules = policy.rules_version;
    }
    let elapsed = advance_clock(state, event);
    let facts = state.calls.derive_facts(event, policy, state.seq, state.rules);
    let seen = Observation::from_event(event, state.rules);
    state.position.add_usage(elapsed, &event.usage);
    let mut trips = Trips::default();
    let was_halted = state.is_halted();
    let refused = match lifecycle::active_halt(state, event, ancestors) {
        Some(answer) => {
            trips.list.push(answer);
            event.kind.is_request()
        }
        None => {
            if let Some(reading) = &reading {
                reading.add_reading_effect(policy, &mut trips);
            }
            evaluate_guards(policy, state, event, (&facts, &seen), ancestors, &mut trips)
        }
    };
    if state.rules > RulesVersion::V1 {
        if let Some(reading) = &reading {
            reading.add_next_effect(state, &mut trips);
        }
        person_message::record(state, event, refused, &trips);
        state.work.record(event, &seen);
    }
    let is_release = matches!(event.kind, EventKind::HumanReleased { .. });
    if was_halted && state.is_halted() && !event.kind.needs_decision() && !is_release {
        // Facts that arrive while the session is halted are recorded but do not trip again.
        trips.list.clear();
    }
    state.tool_usage.record(event, &facts, refused, state.seq);
    if let (EventKind::ToolRequested { .. }, Some(call)) = (&event.kind, &facts.call) {
        state.calls.record_request(event, call, refused);
    }
    let decision = finalize::finalize(policy, state, event, trips);
    let call_key = call_idempotency_key(event, &facts).filter(|_| state.rules == RulesVersion::V1);
    for (key, body) in key.into_iter().chain(call_key) {
        state.decision_cache.insert(key, body, &decision);
    }
    Ok(decision)
}

/// Passes a request or a fact to the guards. Returns whether the request was denied.
fn evaluate_guards(
    policy: &Policy,
    state: &mut SessionState,
    event: &Event,
    (facts, seen): (&EventFacts, &Observation),
    ancestors: &Ancestors,
    trips: &mut Trips,
) -> bool {
    lifecycle::apply(policy, state, event, trips);
    if facts.from_human {
        state.guards.on_user_input();
    }
    if state.rules > RulesVersion::V1 {
        state.position.record_start(event);
    }
    let counters = (!policy.rules.is_empty()).then(|| state.counters_at(event.node.as_deref()));
    let SessionState { guards, position, grants, releases, person, .. } = state;
    let cx = GuardContext {
        policy,
        limits: guards_for_event(policy, event, facts, state.rules),
        event,
        facts,
        observation: seen,
        position,
        ancestors,
        seq: state.seq,
        now: state.now,
        has_time: state.started.is_some(),
        active_ms: state.active_ms,
        wall_ms: state.now.saturating_sub(state.started.unwrap_or(state.now)),
        rules: state.rules,
        counters: counters.as_ref(),
    };
    if event.kind.is_request() {
        guards.check(&cx, trips);
        finalize::apply_releases(policy, cx.rules, grants, releases, person, trips);
        if trips.verdict() >= Verdict::Block {
            if cx.rules > RulesVersion::V1 {
                suggest_destinations(guards, &cx, trips);
            }
            guards.on_denied(&cx, trips);
            return true;
        }
        guards.record(&cx, trips);
    } else {
        guards.record(&cx, trips);
        finalize::apply_releases(policy, cx.rules, grants, releases, person, trips);
    }
    position.apply(event, policy.kept_history(state.rules));
    if facts.result.as_ref().is_some_and(|result| result.failed && !result.ignored) {
        state.totals.errors = state.totals.errors.saturating_add(1);
    }
    false
}

/// Adds the alternatives to the feedback of a denied transition: destinations that are declared and that no guard
/// currently denies.
fn suggest_destinations(guards: &GuardStates, cx: &GuardContext<'_>, trips: &mut Trips) {
    let EventKind::TransitionRequested { from, to, .. } = &cx.event.kind else { return };
    let others: Vec<&str> =
        open_destinations(cx, from).into_iter().filter(|other| *other != to.as_str()).collect();
    let open: Vec<&str> = others
        .iter()
        .copied()
        .filter(|other| {
            let kind =
                EventKind::TransitionRequested { from: from.clone(), to: (*other).to_owned(), edge: None };
            let event = Event { kind, ..cx.event.clone() };
            let mut asked = Trips::default();
            let limits = guards_for_event(cx.policy, &event, cx.facts, cx.rules);
            guards.check(&GuardContext { event: &event, limits, ..*cx }, &mut asked);
            asked.verdict() < Verdict::Block
        })
        .collect();
    if others.is_empty() {
        return;
    }
    let names = list_names(cx, &open);
    let offer = if open.is_empty() {
        format!("No other destination of '{}' is open.", cx.safe_name(from))
    } else {
        format!("Open from '{}': {names}.", cx.safe_name(from))
    };
    for draft in trips.list.iter_mut().filter(|draft| draft.trip.severity >= TripSeverity::Block) {
        if draft.trip.evidence.names.is_empty() {
            draft.trip.evidence.names =
                open.iter().map(|name| truncate_bytes(name, SHOWN_NAME_BYTES).to_owned()).collect();
        }
    }
    trips.note = Some(offer);
}

/// The guard limits for an event: those of its tool if the policy has any, else of its edge, else of its node. Under
/// version 1 of the rules, a tool that only declares its effect hides the values of the node.
fn guards_for_event<'a>(
    policy: &'a Policy,
    event: &Event,
    facts: &EventFacts,
    rules: RulesVersion,
) -> &'a GuardPolicies {
    let tool = match &event.kind {
        EventKind::ToolRequested { tool, .. } => Some(tool.as_str()),
        _ => facts.call.as_ref().map(|call| call.tool.as_str()),
    };
    let counts = |own: &&ToolPolicy| own.has_own_guards || rules == RulesVersion::V1;
    if let Some(own) = tool.and_then(|tool| policy.tool(tool)).filter(counts) {
        return &own.guards;
    }
    if let EventKind::TransitionRequested { from, to, .. } = &event.kind {
        return policy.guards_for_edge(from, to);
    }
    event.node.as_deref().map_or(&policy.guards, |node| policy.guards_for_node(node))
}

/// Advances the session clock and the active time; returns the elapsed active time.
fn advance_clock(state: &mut SessionState, event: &Event) -> u64 {
    state.seq += 1;
    let at = match (event.at, state.started) {
        (Some(at), Some(_)) => at,
        (None, _) => state.now,
        (Some(at), None) => {
            // The first event with a timestamp starts the clock.
            state.started = Some(at);
            state.now = at;
            if state.rules >= RulesVersion::V2 {
                take_suspended_ms(state, event);
            }
            return 0;
        }
    };
    let steady = state.rules >= RulesVersion::V2 && event.at.is_some();
    let at = if steady { monotonic_time(state, at) } else { at };
    let gap = at.saturating_sub(state.now);
    state.now = state.now.max(at);
    let gap = if state.rules >= RulesVersion::V2 {
        gap.saturating_sub(take_suspended_ms(state, event))
    } else {
        gap
    };
    // A session that awaits a person may still be active, and that time counts. Only a halt stops the clock.
    let is_active = !state.is_halted() && !lifecycle::was_idle(state, event);
    let elapsed = if is_active { gap } else { 0 };
    state.active_ms = state.active_ms.saturating_add(elapsed);
    elapsed
}

/// The session time of an event. If the clock was set back, session time continues with the differences between events.
/// Otherwise an open breaker would stay open until the clock caught up.
fn monotonic_time(state: &mut SessionState, at: u64) -> u64 {
    // Not set back, or back to normal: a single wrong timestamp changes nothing.
    if at.saturating_add(CLOCK_STEP_MS) >= state.now {
        state.clock_offset_ms = 0;
        return at;
    }
    let steady = at.saturating_add(state.clock_offset_ms);
    if state.now.saturating_sub(steady) > CLOCK_STEP_MS {
        state.clock_offset_ms = state.now - at;
    }
    steady.max(state.now)
}

/// Suspend time since the previous event. Events carry the total since boot.
fn take_suspended_ms(state: &mut SessionState, event: &Event) -> u64 {
    let Some(total) = event.extra.get("suspended_ms").and_then(serde_json::Value::as_u64) else { return 0 };
    let before = std::mem::replace(&mut state.suspended_ms, total);
    total.saturating_sub(before)
}

fn idempotency_key(event: &Event) -> Option<(Fingerprint, Fingerprint)> {
    event.id.as_ref().map(|id| (Fingerprint::of_text(&id.id), id.body))
}

/// Identifies an open call by its call id, independent of the event id.
fn call_idempotency_key(event: &Event, facts: &EventFacts) -> Option<(Fingerprint, Fingerprint)> {
    let EventKind::ToolRequested { call: Some(call), .. } = &event.kind else { return None };
    facts.call.as_ref().map(|facts| (open_call_key(call), facts.call))
}

fn open_call_key(call: &str) -> Fingerprint {
    Fingerprint::of_text("call").combine(Fingerprint::of_text(call))
}

/// The earlier decision for an identical request of a call that is still open; nothing is counted. Under version 2 of
/// the rules only the event id marks a redelivery, because the agent chooses call ids.
fn redelivered_call(state: &SessionState, event: &Event) -> Result<Option<Decision>, Error> {
    let EventKind::ToolRequested { call: Some(call), tool, args } = &event.kind else { return Ok(None) };
    match state.calls.open_call_fingerprint(call) {
        Some(open) if open == call_identity(tool, args).call => {
            state.decision_cache.find(open_call_key(call), open, &event.session)
        }
        _ => Ok(None),
    }
}

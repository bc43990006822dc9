//! The data path in one screen: fold an event through the guards, the strictest trip wins.
//!
//! `step` is pure: the same policy, state and event give the same decision and the same new state, on every machine.
//! It has no clock (time comes with the event), does no I/O and performs no effect; it returns what is to be done.

use crate::decision::{Decision, Severity, Verdict};
use crate::error::Error;
use crate::event::{Event, Kind, identity};
use crate::fingerprint::Fingerprint;
use crate::guards::{Cx, Family, Trips, Watch, destinations, listed};
use crate::ledger::Facts;
use crate::lifecycle;
use crate::limits::SHOWN_NAME_BYTES;
use crate::observation::Observation;
use crate::person;
use crate::policy::{Guards, Policy, ToolPolicy};
use crate::rules_version::RulesVersion;
use crate::state::State;
use crate::verdict;
use crate::window::cut;

/// How far a clock must go back to count as set back. Less is disorder: processes that report side by side.
const CLOCK_STEP_MS: u64 = 5_000;

/// Folds one event into a session's state and answers it.
///
/// # Errors
/// If the event's id was used before with another body, or what it carries cannot be used. The state is then as it
/// was.
pub fn step(policy: &Policy, state: &mut State, event: &Event, family: &Family) -> Result<Decision, Error> {
    let reading = person::reading(policy, state, event);
    let event = reading.as_ref().map_or(event, |reading| &reading.event);
    let key = answer_key(event);
    if let Some((key, body)) = key
        && let Some(known) = state.answers.find(key, body, &event.session)?
        && !lifecycle::is_judged_anew(state, event, &known)
    {
        return Ok(lifecycle::current_answer(state, event, family, known));
    }
    if state.rules == RulesVersion::V1
        && let Some(known) = redelivered(state, event)?
    {
        return Ok(known);
    }
    lifecycle::accept(event)?;
    if state.seq == 0 {
        state.rules = policy.rules_version;
    }
    let elapsed = advance(state, event);
    let facts = state.ledger.facts(event, policy, state.seq, state.rules);
    let seen = Observation::of(event, state.rules);
    state.flow.spend(elapsed, &event.usage);
    let mut trips = Trips::default();
    let was_halted = state.is_halted();
    let refused = match lifecycle::standing(state, event, family) {
        Some(answer) => {
            trips.list.push(answer);
            event.kind.is_act()
        }
        None => {
            if let Some(reading) = &reading {
                reading.tell(policy, &mut trips);
            }
            judge(policy, state, event, (&facts, &seen), family, &mut trips)
        }
    };
    if state.rules > RulesVersion::V1 {
        if let Some(reading) = &reading {
            reading.tell_next(state, &mut trips);
        }
        person::note(state, event, refused, &trips);
        state.work.note(event, &seen);
    }
    let is_release = matches!(event.kind, Kind::HumanReleased { .. });
    if was_halted && state.is_halted() && !event.kind.asks() && !is_release {
        // Facts that arrive while the session is halted are recorded; they are nobody's new offence.
        trips.list.clear();
    }
    state.tally.note(event, &facts, refused, state.seq);
    if let (Kind::ToolRequested { .. }, Some(call)) = (&event.kind, &facts.call) {
        state.ledger.enter(event, call, refused);
    }
    let decision = verdict::conclude(policy, state, event, trips);
    let call_key = call_answer_key(event, &facts).filter(|_| state.rules == RulesVersion::V1);
    for (key, body) in key.into_iter().chain(call_key) {
        state.answers.put(key, body, &decision);
    }
    Ok(decision)
}

/// Puts an act to the guards, or tells them a fact. Says whether the act was refused.
fn judge(
    policy: &Policy,
    state: &mut State,
    event: &Event,
    (facts, seen): (&Facts, &Observation),
    family: &Family,
    trips: &mut Trips,
) -> bool {
    lifecycle::apply(policy, state, event, trips);
    if facts.human {
        state.watch.fresh();
    }
    if state.rules > RulesVersion::V1 {
        state.flow.note_start(event);
    }
    let counters = (!policy.rules.is_empty()).then(|| state.counters_at(event.node.as_deref()));
    let State { watch, flow, credits, releases, person, .. } = state;
    let cx = Cx {
        policy,
        limits: limits_for(policy, event, facts, state.rules),
        event,
        facts,
        seen,
        flow,
        family,
        seq: state.seq,
        now: state.now,
        timed: state.started.is_some(),
        active_ms: state.active_ms,
        wall_ms: state.now.saturating_sub(state.started.unwrap_or(state.now)),
        rules: state.rules,
        counters: counters.as_ref(),
    };
    if event.kind.is_act() {
        watch.ask(&cx, trips);
        verdict::settle(policy, credits, releases, person, trips);
        if trips.verdict() >= Verdict::Block {
            if cx.rules > RulesVersion::V1 {
                offer_destinations(watch, &cx, trips);
            }
            watch.refused(&cx, trips);
            return true;
        }
        watch.tell(&cx, trips);
    } else {
        watch.tell(&cx, trips);
        verdict::settle(policy, credits, releases, person, trips);
    }
    flow.apply(event, policy.kept_history(state.rules));
    if facts.result.as_ref().is_some_and(|result| result.failed && !result.ignored) {
        state.totals.errors = state.totals.errors.saturating_add(1);
    }
    false
}

/// Names the other destinations to whoever asked for a transition that is refused: those that are declared, and that no
/// guard refuses at the moment.
fn offer_destinations(watch: &Watch, cx: &Cx<'_>, trips: &mut Trips) {
    let Kind::TransitionRequested { from, to, .. } = &cx.event.kind else { return };
    let others: Vec<&str> =
        destinations(cx, from).into_iter().filter(|other| *other != to.as_str()).collect();
    let open: Vec<&str> = others
        .iter()
        .copied()
        .filter(|other| {
            let kind = Kind::TransitionRequested { from: from.clone(), to: (*other).to_owned(), edge: None };
            let event = Event { kind, ..cx.event.clone() };
            let mut asked = Trips::default();
            let limits = limits_for(cx.policy, &event, cx.facts, cx.rules);
            watch.ask(&Cx { event: &event, limits, ..*cx }, &mut asked);
            asked.verdict() < Verdict::Block
        })
        .collect();
    if others.is_empty() {
        return;
    }
    let names = listed(cx, &open);
    let offer = if open.is_empty() {
        format!("No other destination of '{}' is open.", cx.label(from))
    } else {
        format!("Open from '{}': {names}.", cx.label(from))
    };
    for draft in trips.list.iter_mut().filter(|draft| draft.trip.severity >= Severity::Block) {
        if draft.trip.evidence.names.is_empty() {
            draft.trip.evidence.names =
                open.iter().map(|name| cut(name, SHOWN_NAME_BYTES).to_owned()).collect();
        }
    }
    trips.note = Some(offer);
}

/// The guards' limits for what the event is about: its tool if the policy has limits for it, else its edge, else its node.
/// Under version 1 of the rules, a tool that only declares its effect hides the values of the node.
fn limits_for<'a>(policy: &'a Policy, event: &Event, facts: &Facts, rules: RulesVersion) -> &'a Guards {
    let tool = match &event.kind {
        Kind::ToolRequested { tool, .. } => Some(tool.as_str()),
        _ => facts.call.as_ref().map(|call| call.tool.as_str()),
    };
    let counts = |own: &&ToolPolicy| own.has_own_guards || rules == RulesVersion::V1;
    if let Some(own) = tool.and_then(|tool| policy.tool(tool)).filter(counts) {
        return &own.guards;
    }
    if let Kind::TransitionRequested { from, to, .. } = &event.kind {
        return policy.guards_for_edge(from, to);
    }
    event.node.as_deref().map_or(&policy.guards, |node| policy.guards_for_node(node))
}

/// Moves the session's clock and counts time at work; says how much of it passed.
fn advance(state: &mut State, event: &Event) -> u64 {
    state.seq += 1;
    let at = match (event.at, state.started) {
        (Some(at), Some(_)) => at,
        (None, _) => state.now,
        (Some(at), None) => {
            // The first event with a time starts the clock; what came before it took no time.
            state.started = Some(at);
            state.now = at;
            if state.rules >= RulesVersion::V2 {
                suspended(state, event);
            }
            return 0;
        }
    };
    let steady = state.rules >= RulesVersion::V2 && event.at.is_some();
    let at = if steady { steady_time(state, at) } else { at };
    let gap = at.saturating_sub(state.now);
    state.now = state.now.max(at);
    let gap = if state.rules >= RulesVersion::V2 { gap.saturating_sub(suspended(state, event)) } else { gap };
    // A session that waits for a person may still work; what it does then counts. Only a halt stops the clock.
    let at_work = !state.is_halted() && !lifecycle::was_idle(state, event);
    let elapsed = if at_work { gap } else { 0 };
    state.active_ms = state.active_ms.saturating_add(elapsed);
    elapsed
}

/// The session's time of an event. A clock that was set back must not stop the session's time, or an open breaker would
/// stay open until the clock has caught up: from the step on, time goes on by the differences between events.
fn steady_time(state: &mut State, at: u64) -> u64 {
    // Not set back, or as before again: one wrong time among right ones moves nothing.
    if at.saturating_add(CLOCK_STEP_MS) >= state.now {
        state.behind_ms = 0;
        return at;
    }
    let steady = at.saturating_add(state.behind_ms);
    if state.now.saturating_sub(steady) > CLOCK_STEP_MS {
        state.behind_ms = state.now - at;
    }
    steady.max(state.now)
}

/// How long the machine was suspended since the event before. Events carry the total since the machine was started.
fn suspended(state: &mut State, event: &Event) -> u64 {
    let Some(total) = event.extra.get("suspended_ms").and_then(serde_json::Value::as_u64) else { return 0 };
    let before = std::mem::replace(&mut state.suspended_ms, total);
    total.saturating_sub(before)
}

fn answer_key(event: &Event) -> Option<(Fingerprint, Fingerprint)> {
    event.id.as_ref().map(|id| (Fingerprint::of_text(&id.id), id.body))
}

/// A call is known by its call id while it is open, whatever the id of the event.
fn call_answer_key(event: &Event, facts: &Facts) -> Option<(Fingerprint, Fingerprint)> {
    let Kind::ToolRequested { call: Some(call), .. } = &event.kind else { return None };
    facts.call.as_ref().map(|facts| (open_call_key(call), facts.call))
}

fn open_call_key(call: &str) -> Fingerprint {
    Fingerprint::of_text("call").with(Fingerprint::of_text(call))
}

/// A call that is still open is asked for once more, word for word: the same answer, and nothing is counted. Under
/// version 2 of the rules only an event's id makes it a redelivery: a call id is the agent's to choose.
fn redelivered(state: &State, event: &Event) -> Result<Option<Decision>, Error> {
    let Kind::ToolRequested { call: Some(call), tool, args } = &event.kind else { return Ok(None) };
    match state.ledger.open_call(call) {
        Some(open) if open == identity(tool, args).call => {
            state.answers.find(open_call_key(call), open, &event.session)
        }
        _ => Ok(None),
    }
}

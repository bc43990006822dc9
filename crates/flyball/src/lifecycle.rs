//! What begins, stops, releases and ends a session.

use crate::decision::{Decision, HaltReason, Severity, Verdict};
use crate::error::{Code, Error};
use crate::event::{Event, Kind, Origin, ReleaseMode, canonical_json};
use crate::graph::Workflow;
use crate::guards::{Draft, Family, Trips, Watch};
use crate::limits::{IDLE_RESTARTS, INLINE_POLICY_BYTES, NAME_BYTES, RELEASED_GUARDS, STOPS};
use crate::policy::{Mode, Policy};
use crate::rules_version::RulesVersion;
use crate::state::{Latch, State, Stop};
use crate::verdict;
use crate::window::cut;
use serde_json::Value;

/// How the author of a release begins that the policy makes by itself, for example on a stall.
const POLICY_RELEASES: &str = "policy:";
/// The name under which a release lifts a person's stop.
pub(crate) const STOP_GUARD: &str = "human";

/// Checks what an event carries before anything is counted.
pub(crate) fn accept(event: &Event) -> Result<(), Error> {
    match &event.kind {
        Kind::SessionStarted { policy, workflow, .. } => {
            if let Some(workflow) = workflow {
                workflow.validate().map_err(|error| {
                    Error::new(
                        Code::BadWorkflow,
                        format!("{} ({})", error.what(), error.code()),
                        error.what_to_do(),
                    )
                })?;
            }
            if policy.as_ref().is_some_and(|policy| canonical_json(policy).len() > INLINE_POLICY_BYTES) {
                return Err(Error::new(
                    Code::BadPolicy,
                    format!("the policy inside the event has more than {INLINE_POLICY_BYTES} bytes"),
                    "put it into a policy file and pass it with --policy",
                ));
            }
        }
        Kind::HumanReleased { guard: Some(guard), .. }
            if !Watch::NAMES.contains(&guard.as_str()) && guard != "human" =>
        {
            let near = crate::suggest::closest(guard, Watch::NAMES.iter().copied());
            return Err(Error::new(
                Code::WrongType,
                format!("`{}` is not a guard", cut(guard, 60)),
                near.map_or_else(
                    || format!("the guards are {}", Watch::NAMES.join(", ")),
                    |near| format!("did you mean `{near}`?"),
                ),
            ));
        }
        _ => {}
    }
    Ok(())
}

/// Whether nobody worked in the time before this event: a person was waited for, or the sender says so (`idle: true`,
/// when a run is taken up again).
///
/// An agent decides by itself when its session ends and starts. Under version 2 of the rules a session that works on
/// after its end uses up time, and only the first restarts leave time out.
pub(crate) fn was_idle(state: &State, event: &Event) -> bool {
    if event.extra.get("idle") == Some(&Value::Bool(true)) {
        return true;
    }
    let restarts = matches!(event.kind, Kind::SessionStarted { .. });
    if state.rules == RulesVersion::V1 {
        return state.ended || waited_for_a_person(event);
    }
    if restarts { state.person.restarts < IDLE_RESTARTS } else { waited_for_a_person(event) }
}

fn waited_for_a_person(event: &Event) -> bool {
    matches!(
        event.kind,
        Kind::UserMessage { origin: Origin::Human, .. }
            | Kind::ConfirmationAnswered { .. }
            | Kind::HumanReleased { .. }
            | Kind::HumanStopped { .. }
            | Kind::SessionStarted { .. }
    )
}

/// The answer to an event of a session that is halted, or whose parents are: what asks is answered `halt`.
pub(crate) fn standing(state: &State, event: &Event, family: &Family) -> Option<Draft> {
    if !event.kind.asks() || matches!(event.kind, Kind::HumanStopped { .. }) {
        return None;
    }
    if let Some(stop) = state.stops.first() {
        let draft = Draft::new("human", "user_stop", Severity::Halt, stop.message())
            .events(vec![stop.seq])
            .halts_as(HaltReason::UserStop)
            .actions(&["lift_stop"])
            .feedback("A person stopped the session. Stop here.");
        return Some(draft);
    }
    if let Some(latch) = &state.halted {
        let draft = Draft::new(&latch.guard, &latch.reason, Severity::Halt, latch.message.clone())
            .events(vec![latch.seq])
            .halts_as(latch.halt_reason)
            .actions(&["release", "stop"])
            .feedback("The session is halted until a person releases it. Stop here.");
        return Some(draft);
    }
    let above = family.ancestors.iter().find(|above| above.halted)?;
    let message = format!("the session '{}' above this one is halted", above.session);
    Some(
        Draft::new("budget", "user_stop", Severity::Halt, message)
            .scope("session", &above.session)
            .halts_as(HaltReason::UserStop)
            .actions(&["release"])
            .feedback("The session that started this one is halted. Stop here."),
    )
}

/// Whether an act that was refused is judged anew when it is sent again: a person has approved or released something
/// since. A refusal is no act, so nothing happens twice by that; what was permitted stays answered as it was.
pub(crate) fn is_judged_anew(state: &State, event: &Event, known: &Decision) -> bool {
    state.rules > RulesVersion::V1
        && event.kind.is_act()
        && known.decision >= Verdict::Block
        && known.seq < state.person.lifted
}

/// What a redelivered event is answered with: the same as before, unless that was a permission and the session has been
/// halted or stopped since.
pub(crate) fn current_answer(state: &State, event: &Event, family: &Family, known: Decision) -> Decision {
    if state.rules == RulesVersion::V1 || known.decision >= Verdict::Block {
        return known;
    }
    match standing(state, event, family) {
        Some(draft) => verdict::halted_since(state, draft, known),
        None => known,
    }
}

/// Begins, stops, releases or ends the session, if the event says so.
pub(crate) fn apply(policy: &Policy, state: &mut State, event: &Event, trips: &mut Trips) {
    match &event.kind {
        Kind::SessionStarted { policy: inline, workflow, parent, reopen, .. } => {
            state.ended = false;
            // A session that could choose another parent would leave one that is halted or has spent its budget.
            let stays = state.rules > RulesVersion::V1 && state.parent.is_some();
            let parent = parent.as_deref().filter(|_| !stays);
            begin(state, inline.as_ref(), workflow.as_ref(), parent);
            if *reopen {
                state.watch.reset(None);
                state.flow.reset();
            }
        }
        Kind::SessionEnded { .. } => state.ended = true,
        Kind::UserMessage { .. } => state.totals.messages = state.totals.messages.saturating_add(1),
        Kind::HumanStopped { by, why } => {
            let why = why.as_deref().map(|why| cut(why, 200)).unwrap_or("no reason given");
            let by = by.as_deref().map_or("a person", |by| cut(by, 60));
            let stop = Stop { by: by.to_owned(), why: why.to_owned(), seq: state.seq };
            let lifted_by = if state.rules == RulesVersion::V1 { "release" } else { "lift_stop" };
            let draft = Draft::new("human", "user_stop", Severity::Halt, stop.message())
                .events(vec![state.seq])
                .halts_as(HaltReason::UserStop)
                .actions(&[lifted_by])
                .feedback("A person stopped the session.");
            trips.add(Mode::Staged, draft);
            if state.rules > RulesVersion::V1 && state.stops.len() < STOPS {
                state.stops.push(stop);
            }
        }
        Kind::PolicyChanged { waiting, .. } if !waiting.is_empty() => {
            let keys = waiting.iter().take(5).map(|key| cut(key, 60)).collect::<Vec<_>>().join(", ");
            let message = format!(
                "a newer policy would loosen {} ({keys}); a person must accept it",
                values(waiting.len())
            );
            let draft = Draft::new("policy", "policy_waits", Severity::Warn, message)
                .events(vec![state.seq])
                .actions(&["accept_policy"]);
            trips.add(Mode::Staged, draft);
        }
        Kind::HumanReleased { guard, trip, mode, n, by, why } => {
            let named = guard.as_deref().or_else(|| trip_guard(trip.as_ref()));
            if state.rules > RulesVersion::V1 && named == Some(STOP_GUARD) {
                lift_stops(state, by.as_deref(), why.as_deref(), trips);
            } else {
                let by_policy = by.as_deref().is_some_and(|by| by.starts_with(POLICY_RELEASES));
                let label_removed = event.extra.get("label").and_then(Value::as_str) == Some("removed");
                release(policy, state, named, (*mode, *n, by_policy), label_removed, trips);
                still_stopped(state, trips);
            }
        }
        _ => {}
    }
}

fn values(count: usize) -> String {
    if count == 1 { "1 value".to_owned() } else { format!("{count} values") }
}

fn begin(state: &mut State, policy: Option<&Value>, workflow: Option<&Workflow>, parent: Option<&str>) {
    if let Some(policy) = policy {
        state.policy = Some(canonical_json(policy));
    }
    if let Some(workflow) = workflow {
        state.flow.set_workflow(workflow, state.rules);
    }
    if let Some(parent) = parent.filter(|parent| parent.len() <= NAME_BYTES) {
        state.parent = Some(parent.to_owned());
    }
}

fn trip_guard(trip: Option<&Value>) -> Option<&str> {
    let trip = trip?;
    trip.as_str().or_else(|| trip.get("guard").and_then(Value::as_str))
}

/// Lifts the stops by people. The decision names who stopped the session and why.
fn lift_stops(state: &mut State, by: Option<&str>, why: Option<&str>, trips: &mut Trips) {
    let by = cut(by.unwrap_or("a person"), 60);
    let why = cut(why.unwrap_or("no reason given"), 200);
    for stop in std::mem::take(&mut state.stops) {
        let text = format!("{by} lifted the stop by {} ({}): {why}", stop.by, stop.why);
        trips.effect("say", "text", text);
    }
}

/// Warns whoever released a guard that a person's stop still holds.
fn still_stopped(state: &State, trips: &mut Trips) {
    let Some(stop) = state.stops.first() else { return };
    let message = format!("the session is still {}", stop.message());
    let draft = Draft::new(STOP_GUARD, "user_stop", Severity::Warn, message)
        .events(vec![stop.seq])
        .actions(&["lift_stop"]);
    trips.add(Mode::Staged, draft);
}

/// A person's release: bounded, counted, and without effect once the ceiling is reached.
fn release(
    policy: &Policy,
    state: &mut State,
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
        let draft = Draft::new("release", "release_refused", Severity::Block, message)
            .scope("guard", &guard)
            .count(used, policy.releases.ceiling)
            .events(vec![state.seq])
            .actions(&["raise_releases_ceiling_in_the_policy_file", "stop"]);
        trips.add(Mode::Staged, draft);
        if label_removed && state.labelled && state.rules > RulesVersion::V1 {
            // It was taken off outside, and the session is held all the same: whoever looks there must see it.
            trips.effect("label.added", "label", policy.hitl_label(state.rules));
        }
        return;
    }
    if state.releases.contains_key(&guard) || state.releases.len() < RELEASED_GUARDS {
        state.releases.insert(guard.clone(), used + 1);
    }
    let n = n.unwrap_or(policy.releases.grant).clamp(1, 1000);
    let budget = latched.filter(|latch| latch.guard == guard).and_then(|latch| latch.budget.clone());
    let spent = std::mem::take(&mut state.spent_budgets);
    let grants = state.rules > RulesVersion::V1 && mode != ReleaseMode::Keep;
    if let Some(tripped) = budget.as_ref().filter(|_| grants) {
        let spent = if spent.is_empty() { vec![tripped.clone()] } else { spent };
        for tripped in &spent {
            let granted = state.watch.budget.grant(policy, tripped, n, mode == ReleaseMode::Reset);
            trips.effects.push(("budget.raised", granted.fields()));
        }
        lift(policy, state, &guard, trips);
        return;
    }
    match (mode, &budget) {
        (ReleaseMode::Grant, Some(tripped)) => state.watch.budget.raise(tripped, n, false),
        // A person's stop is lifted, never granted in advance: the next one stops as well.
        (ReleaseMode::Grant, None) if guard == "human" => {}
        // What needs a yes runs on a yes alone: a release ends the stop and lets no step of a plan through.
        (ReleaseMode::Grant, None) if guard == "confirmation" => state.watch.reset(Some(&guard)),
        (ReleaseMode::Grant, None) => {
            state.credits.insert(guard.clone(), n);
            state.person.granted(&guard, by_policy && state.rules > RulesVersion::V1);
        }
        // What was used stays used; the same amount may be used again.
        (ReleaseMode::Reset, Some(tripped)) => state.watch.budget.raise(tripped, n, true),
        (ReleaseMode::Reset, None) => {
            state.watch.reset(Some(&guard));
            if guard == "budget" {
                state.flow.reset();
            }
        }
        (ReleaseMode::Keep, _) => {}
    }
    lift(policy, state, &guard, trips);
}

/// Lifts what a guard holds the session with.
fn lift(policy: &Policy, state: &mut State, guard: &str, trips: &mut Trips) {
    let lifts = |latch: &Option<Latch>| latch.as_ref().is_some_and(|latch| latch.guard == guard);
    if lifts(&state.halted) {
        state.halted = None;
    }
    if lifts(&state.blocked) {
        state.blocked = None;
        if state.labelled {
            state.labelled = false;
            trips.effect("label.removed", "label", policy.hitl_label(state.rules));
        }
    }
}

//! The commands that a person can run next for a session.

use crate::PlanView;
use crate::formatting::typed;
use crate::run_status::{run_of, unanswered_question};
use flyball::{SessionPhase, SessionState};
use flyball_store::{AdminStore, StoreError};

/// The commands to suggest, most likely first. Only runs need `flyball resume`; other agents continue on their own
/// events.
///
/// # Errors
/// If it cannot be read.
pub fn next_commands(
    store: &dyn AdminStore,
    session: &str,
    state: &SessionState,
    plan: Option<&PlanView>,
) -> Result<Vec<String>, StoreError> {
    let name = typed(session);
    let resume = run_of(store, session)?.map(|run| format!("flyball resume {}", typed(&run.session)));
    let explain = format!("flyball explain {name}");
    Ok(match state.status() {
        SessionPhase::AwaitingConfirmation => approval_commands(&name, plan, store.now()?),
        SessionPhase::Blocked | SessionPhase::Halted => {
            release_commands(&name, state).chain(resume).chain([explain]).collect()
        }
        SessionPhase::Running => {
            let asks = unanswered_question(store, session, state.seq())?;
            let first = asks.map(|_| format!("flyball send {name} \"…\"")).or(resume);
            let others = [explain, format!("flyball stop {name} --why \"…\"")];
            first.into_iter().chain(others).collect()
        }
        // A hold outlives the end of a session: it still applies when the session is resumed.
        SessionPhase::Ended => release_commands(&name, state).chain([explain]).collect(),
    })
}

/// The release commands that the session needs: one for the guard that holds it, one for an operator's stop.
fn release_commands(name: &str, state: &SessionState) -> impl Iterator<Item = String> {
    let guard = state.guard_hold().map(|hold| hold.guard);
    let stop = state.operator_stops().next().map(|_| "human");
    let guards = [guard, stop].into_iter().flatten().map(typed);
    guards
        .map(|guard| format!("flyball release {name} --guard {guard} --why \"…\""))
        .collect::<Vec<_>>()
        .into_iter()
}

/// The commands that answer a pending plan. An expired or modified plan can only be denied.
fn approval_commands(name: &str, plan: Option<&PlanView>, now: u64) -> Vec<String> {
    let by = plan.and_then(|plan| plan.requester.as_deref());
    let by = by.map_or_else(String::new, |by| format!(" --by {}", typed(by)));
    if plan.is_some_and(|plan| plan.is_expired(now) || plan.tampered.is_some()) {
        return vec![format!("flyball deny {name}{by}")];
    }
    vec![format!("flyball approve {name}{by}"), format!("flyball deny {name}{by}")]
}

//! The command that a person types next in a session.

use crate::Plan;
use crate::whereabouts::{question, run_of};
use crate::words::typed;
use flyball::{State, Status};
use flyball_journal::{Desk, StoreError};

/// What to type next, the likeliest first. A run is told to go on; others go on by themselves.
///
/// # Errors
/// If it cannot be read.
pub fn next(
    desk: &dyn Desk,
    session: &str,
    state: &State,
    plan: Option<&Plan>,
) -> Result<Vec<String>, StoreError> {
    let name = typed(session);
    let resume = run_of(desk, session)?.map(|run| format!("flyball resume {}", typed(&run.session)));
    let explain = format!("flyball explain {name}");
    Ok(match state.status() {
        Status::AwaitingConfirmation => answers(&name, plan, desk.now()?),
        Status::Blocked | Status::Halted => releases(&name, state).chain(resume).chain([explain]).collect(),
        Status::Running => {
            let asks = question(desk, session, state.seq())?;
            let first = asks.map(|_| format!("flyball send {name} \"…\"")).or(resume);
            let others = [explain, format!("flyball stop {name} --why \"…\"")];
            first.into_iter().chain(others).collect()
        }
        // A halt outlives the end of the session: it holds when the session is resumed.
        Status::Ended => releases(&name, state).chain([explain]).collect(),
    })
}

/// The releases that the session needs: one for the guard that holds it, one for a person's stop.
fn releases(name: &str, state: &State) -> impl Iterator<Item = String> {
    let guard = state.guard_hold().map(|hold| hold.guard);
    let stop = state.operator_stops().next().map(|_| "human");
    let guards = [guard, stop].into_iter().flatten().map(typed);
    guards
        .map(|guard| format!("flyball release {name} --guard {guard} --why \"…\""))
        .collect::<Vec<_>>()
        .into_iter()
}

/// How the plan that waits can be answered.
fn answers(name: &str, plan: Option<&Plan>, now: u64) -> Vec<String> {
    let by = plan.and_then(|plan| plan.requester.as_deref());
    let by = by.map_or_else(String::new, |by| format!(" --by {}", typed(by)));
    if plan.is_some_and(|plan| plan.late(now) || plan.tampered.is_some()) {
        return vec![format!("flyball deny {name}{by}")];
    }
    vec![format!("flyball approve {name}{by}"), format!("flyball deny {name}{by}")]
}

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
    Ok(match state.status() {
        Status::AwaitingConfirmation => answers(&name, plan, desk.now()?),
        Status::Blocked | Status::Halted => {
            let guard = state.standing().stopped_by.map(|(guard, _)| format!(" --guard {}", typed(guard)));
            let release = format!("flyball release {name}{} --why \"…\"", guard.unwrap_or_default());
            let explain = format!("flyball explain {name}");
            [Some(release), resume, Some(explain)].into_iter().flatten().collect()
        }
        Status::Running => {
            let asks = question(desk, session, state.seq())?;
            let first = asks.map(|_| format!("flyball send {name} \"…\"")).or(resume);
            let others = [format!("flyball explain {name}"), format!("flyball stop {name} --why \"…\"")];
            first.into_iter().chain(others).collect()
        }
        Status::Ended => vec![format!("flyball explain {name}")],
    })
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

//! The interface for programs: one file a subject, under `/v1`.

mod events;
mod export;
mod health;
mod live;
mod metrics;

use crate::doors::Doors;
use crate::who::Role;
use utoipa_axum::routes;

/// Adds all routes of the interface.
pub(crate) fn add(doors: Doors) -> Doors {
    let doors = doors.api(None, routes!(health::healthz)).api(Some(Role::Agent), routes!(events::submit));
    signals(doors)
}

/// What the server tells: live events, counts, whether it can do its work, sessions to take away.
fn signals(doors: Doors) -> Doors {
    doors
        .api(None, routes!(health::readyz))
        .api(Some(Role::Agent), routes!(live::all))
        .api(Some(Role::Agent), routes!(live::of_session))
        .api(Some(Role::Agent), routes!(metrics::text))
        .api(Some(Role::Agent), routes!(metrics::json))
        .api(Some(Role::Agent), routes!(export::session))
}

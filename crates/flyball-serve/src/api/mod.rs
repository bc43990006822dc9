//! The interface for programs: one file a subject, under `/v1`.

mod events;
mod health;

use crate::doors::Doors;
use crate::who::Role;
use utoipa_axum::routes;

/// Adds all routes of the interface.
pub(crate) fn add(doors: Doors) -> Doors {
    doors.api(None, routes!(health::healthz)).api(Some(Role::Agent), routes!(events::submit))
}

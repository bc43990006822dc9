//! The interface for programs: one file a subject, under `/v1`.

mod ask;
mod document;
pub(crate) mod events;
mod export;
mod health;
mod history;
mod keys;
mod labels;
mod live;
mod log;
mod metrics;
mod outputs;
mod people;
mod policies;
mod schema;
mod sessions;

pub(crate) use ask::{Ask, Maybe};

use crate::doors::Doors;
use crate::runs::web as runs;
use crate::who::Role;
use utoipa_axum::routes;

/// Adds all routes of the interface.
pub(crate) fn add(doors: Doors) -> Doors {
    let (agent, operator, admin) = (Some(Role::Agent), Some(Role::Operator), Some(Role::Admin));
    let doors = doors
        .api(None, routes!(health::healthz))
        .api(None, routes!(document::error))
        .api(agent, routes!(document::openapi))
        .api(agent, routes!(events::submit))
        .api(agent, routes!(events::submit_to))
        .api(Some(Role::Channel), routes!(events::message))
        .api(agent, routes!(sessions::one))
        .api(agent, routes!(history::trips))
        .api(agent, routes!(outputs::read))
        .api(operator, routes!(sessions::list))
        .api(operator, routes!(history::events))
        .api(operator, routes!(history::evidence_of))
        .api(operator, routes!(history::graph))
        .signed(operator, routes!(labels::report))
        .api(operator, routes!(people::inbox))
        .api(operator, routes!(people::confirmation))
        .api(operator, routes!(people::releases))
        .api(operator, routes!(people::stop))
        .api(operator, routes!(policies::check))
        .api(operator, routes!(policies::effective))
        .whole(operator, routes!(log::read))
        .whole(admin, routes!(keys::list))
        .whole(admin, routes!(keys::create))
        .whole(admin, routes!(keys::revoke));
    runs(signals(doors))
}

/// What the server tells: live events, counts, whether it can do its work, sessions to take away.
fn signals(doors: Doors) -> Doors {
    doors
        .api(None, routes!(health::readyz))
        .api(Some(Role::Agent), routes!(live::all))
        .api(Some(Role::Agent), routes!(live::of_session))
        .whole(Some(Role::Agent), routes!(metrics::text))
        .whole(Some(Role::Agent), routes!(metrics::json))
        .api(Some(Role::Agent), routes!(export::session))
}

/// Workflows: what may be run, and what runs.
fn runs(doors: Doors) -> Doors {
    doors
        .api(Some(Role::Agent), routes!(runs::workflows))
        .api(Some(Role::Agent), routes!(runs::list))
        .api(Some(Role::Operator), routes!(runs::start))
        .api(Some(Role::Operator), routes!(runs::resume))
}

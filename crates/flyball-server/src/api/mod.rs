//! The HTTP API under `/v1`, one file per resource.

mod audit;
pub(crate) mod events;
mod export;
mod extract;
mod history;
mod keys;
mod labels;
mod live_stream;
mod metrics;
mod operators;
mod outputs;
mod policies;
mod probes;
mod reference;
mod schema;
mod sessions;

pub(crate) use extract::{JsonBody, OptionalJsonBody};

use crate::auth::AuthRole;
use crate::routes::RouterBuilder;
use crate::runs::handlers as runs;
use utoipa_axum::routes;

/// Adds all API routes.
pub(crate) fn add_routes(router: RouterBuilder) -> RouterBuilder {
    let (agent, operator, admin) = (Some(AuthRole::Agent), Some(AuthRole::Operator), Some(AuthRole::Admin));
    let router = router
        .api(None, routes!(probes::healthz))
        .api(None, routes!(reference::error_page))
        .api(agent, routes!(reference::openapi))
        .api(agent, routes!(events::submit))
        .api(agent, routes!(events::submit_to))
        .api(Some(AuthRole::Channel), routes!(events::post_person_message))
        .api(agent, routes!(sessions::get_session))
        .api(agent, routes!(history::trips))
        .api(agent, routes!(outputs::get_output))
        .api(operator, routes!(sessions::list))
        .api(operator, routes!(history::events))
        .api(operator, routes!(history::evidence_of))
        .api(operator, routes!(history::graph))
        .signed(operator, routes!(labels::post_label_webhook))
        .api(operator, routes!(operators::inbox))
        .api(operator, routes!(operators::confirmation))
        .api(operator, routes!(operators::releases))
        .api(operator, routes!(operators::stop))
        .api(operator, routes!(policies::check))
        .api(operator, routes!(policies::effective))
        .store_wide_api(operator, routes!(audit::read))
        .store_wide_api(admin, routes!(keys::list))
        .store_wide_api(admin, routes!(keys::create))
        .store_wide_api(admin, routes!(keys::revoke));
    add_run_routes(add_telemetry_routes(router))
}

/// Routes for live events, metrics, readiness and export.
fn add_telemetry_routes(router: RouterBuilder) -> RouterBuilder {
    router
        .api(None, routes!(probes::readyz))
        .api(Some(AuthRole::Agent), routes!(live_stream::live_events))
        .api(Some(AuthRole::Agent), routes!(live_stream::session_live_events))
        .store_wide_api(Some(AuthRole::Agent), routes!(metrics::metrics_text))
        .store_wide_api(Some(AuthRole::Agent), routes!(metrics::metrics_json))
        .api(Some(AuthRole::Agent), routes!(export::session))
}

/// Routes for workflows and runs.
fn add_run_routes(router: RouterBuilder) -> RouterBuilder {
    router
        .api(Some(AuthRole::Agent), routes!(runs::workflows))
        .api(Some(AuthRole::Agent), routes!(runs::list))
        .api(Some(AuthRole::Operator), routes!(runs::start))
        .api(Some(AuthRole::Operator), routes!(runs::resume))
}

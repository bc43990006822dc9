//! Operator dashboard: inbox, sessions, one session with its evidence, and health.
//!
//! Every page is rendered on the server and works without the script. Session content only appears in text nodes and
//! attribute values, which `maud` escapes; nothing is inline, so the content security policy needs no exceptions.

mod assets;
mod charts;
mod dashboard_counters;
mod forms;
mod health;
mod inbox;
mod layout;
mod links;
mod login;
mod pending_action;
mod proof;
mod security_headers;
mod session;
mod session_list;
mod text;
mod ticket_cache;

pub(crate) use dashboard_counters::DashboardCounters;
pub(crate) use security_headers::{refusal_response, with_security_headers};
pub(crate) use ticket_cache::TicketCache;

use crate::auth::AuthRole;
use crate::routes::RouterBuilder;
use axum::routing::{get, post};

/// Adds all pages.
pub(crate) fn add_pages(router: RouterBuilder) -> RouterBuilder {
    let operator = Some(AuthRole::Operator);
    router
        .page(None, "/login", &["GET", "POST"], get(login::show).post(login::log_in))
        .page(None, "/assets/{name}", &["GET"], get(assets::serve))
        .page(operator, "/logout", &["POST"], post(login::log_out))
        .page(operator, "/", &["GET"], get(inbox::show))
        .page(operator, "/sessions", &["GET"], get(session_list::show))
        .page(operator, "/sessions/{session}", &["GET"], get(session::show))
        .page(operator, "/session", &["GET"], get(session::show_named))
        .page(operator, "/sessions/{session}/graph.svg", &["GET"], get(session::graph))
        .store_wide_page(operator, "/health", get(health::show))
        .page(operator, "/act/{what}", &["POST"], post(forms::submit))
}

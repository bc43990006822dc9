//! The pages for people: what waits for them, all sessions, one session with its evidence, and how the whole does.
//!
//! Every page is whole when it arrives and works without the script. Text of a session is only ever put into text
//! nodes and attribute values, which `maud` escapes; there is nothing inline that a policy of the browser would have to
//! allow.

mod assets;
mod charts;
mod figures;
mod forms;
mod gate;
mod health;
mod inbox;
mod links;
mod login;
mod need;
mod proof;
mod session;
mod sessions;
mod shell;
mod text;
mod tickets;

pub(crate) use figures::Figures;
pub(crate) use gate::{dressed, refused};
pub(crate) use tickets::Tickets;

use crate::doors::Doors;
use crate::who::Role;
use axum::routing::{get, post};

/// Adds all pages.
pub(crate) fn add(doors: Doors) -> Doors {
    let person = Some(Role::Operator);
    doors
        .page(None, "/login", &["GET", "POST"], get(login::show).post(login::enter))
        .page(None, "/assets/{name}", &["GET"], get(assets::serve))
        .page(person, "/logout", &["POST"], post(login::leave))
        .page(person, "/", &["GET"], get(inbox::show))
        .page(person, "/sessions", &["GET"], get(sessions::show))
        .page(person, "/sessions/{session}", &["GET"], get(session::show))
        .page(person, "/session", &["GET"], get(session::show_named))
        .page(person, "/sessions/{session}/graph.svg", &["GET"], get(session::graph))
        .whole_page(person, "/health", get(health::show))
        .page(person, "/act/{what}", &["POST"], post(forms::act))
}

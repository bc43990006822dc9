//! The server through its own program: keys, routes, events in, decisions out, and everybody who may not.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    reason = "in a test that is how a failure is told"
)]

#[path = "serve/api.rs"]
mod api;
#[path = "serve/approvals.rs"]
mod approvals;
#[path = "serve/asking.rs"]
mod asking;
#[path = "serve/attacks.rs"]
mod attacks;
#[path = "serve/bombs.rs"]
mod bombs;
#[path = "serve/claims.rs"]
mod claims;
#[path = "fleet/database.rs"]
mod database;
#[path = "signals/ear.rs"]
#[allow(dead_code, reason = "the tests of live events use the rest")]
mod ear;
#[path = "serve/kit.rs"]
mod kit;
#[path = "serve/labels.rs"]
mod labels;
#[path = "serve/limits.rs"]
mod limits;
#[path = "serve/outputs.rs"]
mod outputs;
#[path = "serve/roles.rs"]
mod roles;
#[path = "serve/session_status.rs"]
mod session_status;
#[path = "serve/tls.rs"]
mod tls;

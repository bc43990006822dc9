//! Many servers, workers and clients: runs through the server, two servers on one store, stopping, overload.
//!
//! The tests with two servers need PostgreSQL (`FLYBALL_TEST_POSTGRES`, set by `cargo xtask test`); without it they say so.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "in a test that is how a failure is told"
)]

#[path = "fleet/clients.rs"]
mod clients;
#[path = "fleet/database.rs"]
mod database;
#[path = "serve/kit.rs"]
mod kit;
#[path = "fleet/machines.rs"]
mod machines;
#[path = "fleet/overload.rs"]
mod overload;
#[path = "fleet/paths.rs"]
mod paths;
#[path = "fleet/runs.rs"]
mod runs;
#[path = "fleet/stopping.rs"]
mod stopping;

//! Several servers, workers and clients: runs through the server, two servers on one store, shutdown, overload.
//!
//! The tests with two servers need PostgreSQL (`FLYBALL_TEST_POSTGRES`, set by `cargo xtask test`); otherwise they
//! are skipped.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a failed unwrap or panic fails the test"
)]

#[path = "fleet/database.rs"]
mod database;
#[path = "fleet/event_client.rs"]
mod event_client;
#[path = "fleet/overload.rs"]
mod overload;
#[path = "fleet/path_traversal.rs"]
mod path_traversal;
#[path = "serve/server_harness.rs"]
mod server_harness;
#[path = "fleet/server_runs.rs"]
mod server_runs;
#[path = "fleet/shutdown.rs"]
mod shutdown;
#[path = "fleet/two_servers.rs"]
mod two_servers;

//! The server through the real binary: keys, routes, events, decisions and refusals.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    reason = "a failed unwrap or panic fails the test"
)]

#[path = "serve/api.rs"]
mod api;
#[path = "serve/approval_attacks.rs"]
mod approval_attacks;
#[path = "serve/approvals.rs"]
mod approvals;
#[path = "serve/client_requests.rs"]
mod client_requests;
#[path = "fleet/database.rs"]
mod database;
#[path = "serve/false_claims.rs"]
mod false_claims;
#[path = "serve/labels.rs"]
mod labels;
#[path = "serve/large_outputs.rs"]
mod large_outputs;
#[path = "serve/limits.rs"]
mod limits;
#[path = "serve/malicious_requests.rs"]
mod malicious_requests;
#[path = "serve/roles.rs"]
mod roles;
#[path = "serve/server_harness.rs"]
mod server_harness;
#[path = "serve/session_status.rs"]
mod session_status;
#[path = "signals/sse_client.rs"]
#[allow(dead_code, reason = "the live event tests use the rest")]
mod sse_client;
#[path = "serve/tls.rs"]
mod tls;

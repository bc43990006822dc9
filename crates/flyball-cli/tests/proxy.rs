//! End-to-end tests of the model proxy: the real binary between a real client and a real server.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a panic is how a test fails")]

#[path = "proxy/agent_loops.rs"]
mod agent_loops;
#[path = "proxy/approvals.rs"]
mod approvals;
#[path = "proxy/failures.rs"]
mod failures;
#[path = "proxy/passthrough.rs"]
mod passthrough;
#[path = "proxy/proxy_harness.rs"]
mod proxy_harness;
#[path = "proxy/proxy_sessions.rs"]
mod proxy_sessions;
#[path = "proxy/responses_api.rs"]
mod responses_api;

//! The model proxy from the outside: the real binary between a real client and a real server.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test stops at the first surprise"
)]

#[path = "proxy/agents.rs"]
mod agents;
#[path = "proxy/approvals.rs"]
mod approvals;
#[path = "proxy/bytes.rs"]
mod bytes;
#[path = "proxy/kit.rs"]
mod kit;
#[path = "proxy/responses.rs"]
mod responses;
#[path = "proxy/sessions.rs"]
mod sessions;
#[path = "proxy/troubles.rs"]
mod troubles;

//! End-to-end tests of the MCP proxy: the real binary between a client and a server built with the official library,
//! and between a raw client and server.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a panic is how a test fails")]

#[path = "mcp/http.rs"]
mod http;
#[path = "mcp/mcp_harness.rs"]
mod mcp_harness;
#[path = "mcp/passthrough.rs"]
mod passthrough;
#[path = "mcp/tool_calls.rs"]
mod tool_calls;

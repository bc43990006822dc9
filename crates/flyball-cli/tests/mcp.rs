//! The MCP proxy from the outside: the real binary between a client and a server that a library of the protocol's own
//! makes, and between a client and server of plain bytes.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test stops at the first surprise"
)]

#[path = "mcp/bytes.rs"]
mod bytes;
#[path = "mcp/http.rs"]
mod http;
#[path = "mcp/kit.rs"]
mod kit;
#[path = "mcp/tools.rs"]
mod tools;

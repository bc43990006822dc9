//! One table of scenarios, carried by every path that an agent can reach Flyball on: the pipe, the store engines, HTTP, the
//! hook, the MCP proxy, the model proxy, the runner and `replay`. Each path must decide, effect and store the same.
//!
//! The scenarios are `fixtures/conformance/*.json`; `docs/conformance.md` shows them with the paths that carry them. How to
//! add one: CONTRIBUTING.md. The contract of the store engines has a suite of its own: `flyball-journal/tests/conformance.rs`.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "in a test that is how a failure is told"
)]

#[path = "conformance/compare.rs"]
mod compare;
#[path = "conformance/coverage.rs"]
mod coverage;
#[path = "fleet/database.rs"]
mod database;
#[path = "conformance/hook.rs"]
mod hook;
#[path = "conformance/http.rs"]
mod http;
#[path = "cli/kit.rs"]
#[allow(dead_code, reason = "the kit of the command-line tests; this suite needs a part of it")]
mod kit;
#[path = "conformance/mcp.rs"]
mod mcp;
#[path = "conformance/operator.rs"]
mod operator;
#[path = "conformance/page.rs"]
mod page;
#[path = "conformance/pipe.rs"]
mod pipe;
#[path = "conformance/proxy.rs"]
mod proxy;
#[path = "conformance/rows.rs"]
mod rows;
#[path = "conformance/runner.rs"]
mod runner;
#[path = "serve/kit.rs"]
#[allow(dead_code, reason = "the kit of the server tests; this suite needs a part of it")]
mod server;
#[path = "conformance/table.rs"]
mod table;
#[path = "hooks/voice.rs"]
#[allow(dead_code, reason = "the payloads of all hosts; this suite speaks for one")]
mod voice;

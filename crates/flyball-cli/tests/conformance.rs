//! Runs one table of scenarios on every path by which an agent can reach Flyball: the pipe, the store engines, HTTP,
//! the hook, the MCP proxy, the model proxy, the runner and `replay`. All paths must produce the same decisions,
//! effects and stored rows.
//!
//! The scenarios are in `fixtures/conformance/*.json`; `docs/conformance.md` lists them with the paths that support
//! them. CONTRIBUTING.md explains how to add one. The store engines have a separate suite:
//! `flyball-store/tests/conformance.rs`.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "tests may panic"
)]

#[path = "cli/command_harness.rs"]
#[allow(dead_code, reason = "shared harness of the command-line tests; this suite uses part of it")]
mod command_harness;
#[path = "conformance/compare.rs"]
mod compare;
#[path = "conformance/coverage.rs"]
mod coverage;
#[path = "fleet/database.rs"]
mod database;
#[path = "conformance/docs_page.rs"]
mod docs_page;
#[path = "conformance/hook.rs"]
mod hook;
#[path = "hooks/host_payloads.rs"]
#[allow(dead_code, reason = "payloads of all hosts; this suite uses one")]
mod host_payloads;
#[path = "conformance/http.rs"]
mod http;
#[path = "conformance/mcp.rs"]
mod mcp;
#[path = "conformance/operator.rs"]
mod operator;
#[path = "conformance/pipe.rs"]
mod pipe;
#[path = "conformance/proxy.rs"]
mod proxy;
#[path = "conformance/runner.rs"]
mod runner;
#[path = "conformance/scenario_table.rs"]
mod scenario_table;
#[path = "serve/server_harness.rs"]
#[allow(dead_code, reason = "shared harness of the server tests; this suite uses part of it")]
mod server_harness;
#[path = "conformance/store_rows.rs"]
mod store_rows;

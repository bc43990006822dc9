//! Tools in real workspaces: behavior, errors and confinement.

#![allow(clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

#[path = "tools/command_tools.rs"]
mod command_tools;
#[path = "tools/confinement.rs"]
mod confinement;
#[path = "tools/files.rs"]
mod files;
#[path = "tools/harness.rs"]
mod harness;
#[path = "tools/large_outputs.rs"]
mod large_outputs;
#[path = "tools/risks.rs"]
mod risks;
#[path = "tools/search.rs"]
mod search;
#[path = "tools/shell.rs"]
mod shell;

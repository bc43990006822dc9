//! The tools in real workspaces: what they do, what they refuse, and that they never leave the workspace.

#![allow(clippy::expect_used, clippy::panic, reason = "a failure is told by a panic")]

#[path = "tools/confined.rs"]
mod confined;
#[path = "tools/declared.rs"]
mod declared;
#[path = "tools/files.rs"]
mod files;
#[path = "tools/kit.rs"]
mod kit;
#[path = "tools/large.rs"]
mod large;
#[path = "tools/risks.rs"]
mod risks;
#[path = "tools/search.rs"]
mod search;
#[path = "tools/shell.rs"]
mod shell;

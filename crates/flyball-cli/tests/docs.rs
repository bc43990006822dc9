//! Checks the documentation against the real program: commands and flags named on pages exist, tutorial pages run as
//! written and print what they show, and generated pages and pictures are current.
//!
//! `FLYBALL_BLESS=1 cargo test -p flyball-cli --test docs` regenerates the shown outputs, `docs/reference/cli.md` and
//! the recording in `docs/images`.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "tests may panic"
)]

#[path = "docs/blocks.rs"]
mod blocks;
#[path = "docs/cli_reference.rs"]
mod cli_reference;
#[path = "docs/command_names.rs"]
mod command_names;
#[path = "docs/guard_table.rs"]
mod guard_table;
#[path = "cli/command_harness.rs"]
#[allow(dead_code, reason = "shared with the command-line tests")]
mod kit;
#[path = "docs/page_runner.rs"]
mod page_runner;
#[path = "docs/policy_reference.rs"]
mod policy_reference;
#[path = "cli/pty.rs"]
#[allow(dead_code, reason = "shared with the command-line tests")]
mod pty;
#[path = "docs/recording.rs"]
mod recording;
#[path = "docs/terminal_svg.rs"]
mod terminal_svg;

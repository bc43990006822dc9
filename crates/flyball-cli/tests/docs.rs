//! The documentation against the real program: the commands and flags that pages name exist, the pages that teach run as
//! written and print what they show, and the generated pages and pictures are current.
//!
//! `FLYBALL_BLESS=1 cargo test -p flyball-cli --test docs` writes the shown outputs, `docs/reference/cli.md` and the
//! recording in `docs/images` again.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test stops at the first surprise"
)]

#[path = "docs/blocks.rs"]
mod blocks;
#[path = "docs/cli_reference.rs"]
mod cli_reference;
#[path = "docs/command_names.rs"]
mod command_names;
#[path = "cli/kit.rs"]
#[allow(dead_code, reason = "shared with the tests of the command line")]
mod kit;
#[path = "docs/page_runner.rs"]
mod page_runner;
#[path = "docs/policy_reference.rs"]
mod policy_reference;
#[path = "cli/pty.rs"]
#[allow(dead_code, reason = "shared with the tests of the command line")]
mod pty;
#[path = "docs/recording.rs"]
mod recording;
#[path = "docs/terminal_svg.rs"]
mod terminal_svg;

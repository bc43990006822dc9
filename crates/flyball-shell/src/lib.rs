//! Shell commands: parsed with a bash grammar and checked against an allowlist of read-only programs.
//!
//! [`check_read_only`] answers one question: is this command known to change nothing? Commands that the grammar
//! rejects, that depend on values known only at run time, or that use a program or option not on the list count as
//! having an effect. The hook uses the answer when Flyball itself fails (`on_error: reads`); the runner uses the same
//! parser and tables to rate the risk of a tool call.
//!
//! The machine's configuration is trusted: aliases and functions of the user's shell, `git config`, `PATH`. Changes
//! that the command itself makes to it (assignments, `export`, `alias`, functions, `git -c`) count as effects.

mod cloud;
mod filters;
mod find;
mod git;
mod launch;
mod options;
mod programs;
mod read_only;
mod syntax;
mod system;
mod word;

pub use find::{FindUse, fd_launch, find_use};
pub use launch::{Launch, launch};
pub use programs::{is_system_program, program_is_read_only};
pub use read_only::{NotReadOnly, check_argv_read_only, check_read_only};
pub use syntax::{Assignment, Redirect, RedirectKind, ShellScript, SimpleCommand, parse};
pub use word::ShellWord;

//! Shell commands: parsed with a bash grammar, and checked against a list of what is known to be read-only.
//!
//! [`check_read_only`] answers one question: is this command known to change nothing? It is an allow-list. Whatever the
//! grammar rejects, whatever depends on values that exist only at run time, and every program or option that is not
//! listed counts as an effect. The hook uses the answer when Flyball itself fails (`on_error: reads`), the runner uses
//! the same parser and tables to rate the risk of a tool call.
//!
//! The configuration of the machine is trusted: aliases and functions of the user's shell, `git config`, `PATH`. What
//! the command itself changes of it (assignments, `export`, `alias`, functions, `git -c`) is an effect.

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
pub use syntax::{Assignment, Redirect, RedirectKind, Script, SimpleCommand, parse};
pub use word::Word;

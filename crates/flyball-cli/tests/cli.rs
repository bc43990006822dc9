//! The command line from the outside: the real binary, as a user starts it.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test stops at the first surprise"
)]

#[path = "cli/approvals.rs"]
mod approvals;
#[path = "cli/backpressure.rs"]
mod backpressure;
#[path = "cli/backup.rs"]
mod backup;
#[path = "cli/bad_input.rs"]
mod bad_input;
#[path = "cli/bad_store.rs"]
mod bad_store;
#[path = "cli/bad_workflow.rs"]
mod bad_workflow;
#[path = "cli/budgets.rs"]
mod budgets;
#[path = "cli/clock.rs"]
mod clock;
#[path = "cli/commands.rs"]
mod commands;
#[path = "cli/counts.rs"]
mod counts;
#[path = "cli/declared.rs"]
mod declared;
#[path = "cli/formats.rs"]
mod formats;
#[path = "cli/identity.rs"]
mod identity;
#[path = "cli/kit.rs"]
mod kit;
#[path = "cli/operators.rs"]
mod operators;
#[path = "cli/outputs.rs"]
mod outputs;
#[path = "cli/people.rs"]
mod people;
#[path = "cli/pty.rs"]
mod pty;
#[path = "cli/runs.rs"]
mod runs;
#[path = "cli/secrets.rs"]
mod secrets;
#[path = "cli/shipped.rs"]
mod shipped;
#[path = "cli/speaking.rs"]
mod speaking;
#[path = "cli/store.rs"]
mod store;
#[path = "cli/terminal.rs"]
mod terminal;
#[path = "cli/top.rs"]
mod top;
#[path = "cli/trust.rs"]
mod trust;
#[path = "cli/upgrade.rs"]
mod upgrade;

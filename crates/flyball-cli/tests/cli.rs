//! End-to-end tests of the command line: the real binary, as a user runs it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a panic is how a test fails")]

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
#[path = "cli/caller_check.rs"]
mod caller_check;
#[path = "cli/clock.rs"]
mod clock;
#[path = "cli/closed_pipes.rs"]
mod closed_pipes;
#[path = "cli/command_harness.rs"]
mod command_harness;
#[path = "cli/commands.rs"]
mod commands;
#[path = "cli/declared_workflow.rs"]
mod declared_workflow;
#[path = "cli/durable_sessions.rs"]
mod durable_sessions;
#[path = "cli/large_outputs.rs"]
mod large_outputs;
#[path = "cli/metrics_and_activity.rs"]
mod metrics_and_activity;
#[path = "cli/operator_commands.rs"]
mod operator_commands;
#[path = "cli/pty.rs"]
mod pty;
#[path = "cli/recorded_histories.rs"]
mod recorded_histories;
#[path = "cli/releases.rs"]
mod releases;
#[path = "cli/run_output.rs"]
mod run_output;
#[path = "cli/secrets.rs"]
mod secrets;
#[path = "cli/setup_commands.rs"]
mod setup_commands;
#[path = "cli/store_identity.rs"]
mod store_identity;
#[path = "cli/terminal.rs"]
mod terminal;
#[path = "cli/top.rs"]
mod top;
#[path = "cli/transcript_formats.rs"]
mod transcript_formats;
#[path = "cli/trust.rs"]
mod trust;
#[path = "cli/units_and_times.rs"]
mod units_and_times;
#[path = "cli/upgrade.rs"]
mod upgrade;

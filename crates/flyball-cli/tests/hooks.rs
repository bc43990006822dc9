//! End-to-end tests of hooks: real settings files, and a scripted host that runs the commands in them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a panic is how a test fails")]

#[path = "cli/command_harness.rs"]
#[allow(dead_code, reason = "shared harness; this binary uses a part of it")]
mod command_harness;
#[path = "hooks/destructive_tools.rs"]
mod destructive_tools;
#[path = "hooks/failures.rs"]
mod failures;
#[path = "hooks/forged_prompts.rs"]
mod forged_prompts;
#[path = "hooks/golden_tables.rs"]
mod golden_tables;
#[path = "hooks/hook_coverage.rs"]
mod hook_coverage;
#[path = "hooks/hook_sessions.rs"]
mod hook_sessions;
#[path = "hooks/host_payloads.rs"]
mod host_payloads;
#[path = "hooks/install.rs"]
mod install;
#[path = "hooks/opencode_plugin.rs"]
mod opencode_plugin;
#[path = "hooks/project_trust.rs"]
mod project_trust;
#[path = "hooks/read_only.rs"]
mod read_only;
#[path = "hooks/recorded_histories.rs"]
mod recorded_histories;
#[path = "hooks/scripted_host.rs"]
mod scripted_host;
#[path = "hooks/tell.rs"]
mod tell;
#[path = "hooks/tell_command.rs"]
mod tell_command;

//! Every accepted setting has an effect: each command-line flag, policy key, environment variable and workflow key is
//! changed, and a decision, an effect or an output must change with it. The settings are taken from the program itself;
//! a setting without a proof fails, and so does a proof for an unknown setting.
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
#[allow(dead_code, reason = "notation of the conformance table; this suite uses part of it")]
mod compare;
#[path = "wired/difference.rs"]
mod difference;
#[path = "wired/environment.rs"]
mod environment;
#[path = "wired/flags.rs"]
mod flags;
#[path = "wired/labels.rs"]
mod labels;
#[path = "wired/policy_keys.rs"]
mod policy_keys;
#[path = "signals/receivers.rs"]
#[allow(dead_code, reason = "the delivery tests use the rest")]
mod receivers;
#[path = "conformance/scenario_table.rs"]
#[allow(dead_code, reason = "steps of the conformance table; this suite uses part of them")]
mod scenario_table;
#[path = "wired/schema_keys.rs"]
mod schema_keys;
#[path = "serve/server_harness.rs"]
#[allow(dead_code, reason = "shared harness of the server tests; this suite uses part of it")]
mod server_harness;
#[path = "wired/storage_keys.rs"]
mod storage_keys;
#[path = "wired/workflow.rs"]
mod workflow;

/// The part of the live-event tests that the receivers need.
mod sse_client {
    /// Long enough that only a hang reaches it.
    pub(crate) const RECEIVE_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(60);
}

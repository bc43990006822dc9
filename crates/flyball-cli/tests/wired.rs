//! Every accepted setting has an effect: each flag of the command line, policy key, environment variable and workflow key is
//! changed, and a decision, an effect or an output changes with it. What can be set is taken from the program itself; a
//! setting without a proof fails, and so does a proof for a setting that does not exist.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "in a test that is how a failure is told"
)]

#[path = "conformance/compare.rs"]
#[allow(dead_code, reason = "the words of the conformance table; this suite needs a part of them")]
mod compare;
#[path = "wired/difference.rs"]
mod difference;
#[path = "wired/environment.rs"]
mod environment;
#[path = "wired/flags.rs"]
mod flags;
#[path = "wired/journal.rs"]
mod journal;
#[path = "cli/kit.rs"]
#[allow(dead_code, reason = "the kit of the command-line tests; this suite needs a part of it")]
mod kit;
#[path = "wired/labels.rs"]
mod labels;
#[path = "wired/policy.rs"]
mod policy;
#[path = "signals/receivers.rs"]
#[allow(dead_code, reason = "the tests of deliveries use the rest")]
mod receivers;
#[path = "wired/schema.rs"]
mod schema;
#[path = "serve/kit.rs"]
#[allow(dead_code, reason = "the kit of the server tests; this suite needs a part of it")]
mod server;
#[path = "conformance/table.rs"]
#[allow(dead_code, reason = "the steps of the conformance table; this suite needs a part of them")]
mod table;
#[path = "wired/workflow.rs"]
mod workflow;

/// What the receivers need of the tests of live events.
mod ear {
    /// Long enough that nothing but a hang reaches it.
    pub(crate) const PATIENCE: std::time::Duration = std::time::Duration::from_secs(60);
}

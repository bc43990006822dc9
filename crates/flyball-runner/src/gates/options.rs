//! Options for running gates.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Result of a gate that failed and then passed on a rerun.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FlakyPolicy {
    /// Passed, with a warning that names the tests.
    #[default]
    Warn,
    /// Failed.
    Fail,
}

/// Options for running a set of gates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GateOptions {
    /// Whether to rerun a gate whose tests failed once, to distinguish flaky from broken tests.
    pub rerun: bool,
    /// Result of a gate that passed only on the rerun.
    pub flaky: FlakyPolicy,
    /// Whether the first failure skips all later gates. Otherwise all run, so that all failures are reported at once.
    pub cascade: bool,
    /// Gates or checks that the agent asks to skip. Only those with `may_skip` are skipped.
    pub skip_requests: Vec<String>,
    /// Maximum number of bytes read from each output stream and from a results file.
    pub max_output_bytes: usize,
}

impl Default for GateOptions {
    fn default() -> Self {
        GateOptions {
            rerun: true,
            flaky: FlakyPolicy::Warn,
            cascade: false,
            skip_requests: Vec::new(),
            max_output_bytes: 64 * 1024 * 1024,
        }
    }
}

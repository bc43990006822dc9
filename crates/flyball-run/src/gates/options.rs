//! How a set of gates is run.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a gate counts as that failed and then passed when it was run again.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Flaky {
    /// As passed, with a warning that names the tests.
    #[default]
    Warn,
    /// As failed.
    Fail,
}

/// How a set of gates is run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Whether a gate whose tests failed is run once more, to tell a flaky test from a broken one.
    pub rerun: bool,
    /// What a gate counts as that passed only then.
    pub flaky: Flaky,
    /// Whether the first failure skips all gates after it. Otherwise all run, so that everything is told at once.
    pub cascade: bool,
    /// Gates or checks that the one whose work is checked asks to leave out. Only those that `may_skip` are.
    pub asked_to_skip: Vec<String>,
    /// How many bytes of each output stream and of a results file are read.
    pub keep: usize,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            rerun: true,
            flaky: Flaky::Warn,
            cascade: false,
            asked_to_skip: Vec::new(),
            keep: 64 * 1024 * 1024,
        }
    }
}

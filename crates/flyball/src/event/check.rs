//! The checks of a quality gate, as carried by a `gate.checked` event.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The kind of a quality gate's check.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CheckKind {
    /// A build or type check.
    Build,
    /// A test run.
    Tests,
    /// A linter.
    Lint,
    /// Anything else; passes if the command exits with 0.
    #[default]
    Custom,
}

impl CheckKind {
    /// The name of the kind, which is also the default name of its check.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            CheckKind::Build => "build",
            CheckKind::Tests => "tests",
            CheckKind::Lint => "lint",
            CheckKind::Custom => "custom",
        }
    }

    /// The kind implied by the name of a check.
    #[must_use]
    pub fn of_name(name: &str) -> Self {
        match name {
            "build" | "compile" | "types" | "typecheck" => CheckKind::Build,
            "tests" | "test" | "unit" | "integration" => CheckKind::Tests,
            "lint" | "format" | "fmt" => CheckKind::Lint,
            _ => CheckKind::Custom,
        }
    }
}

/// One check of a quality gate.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Check {
    /// The name: `tests`, `lint`, `build`, or a checklist item.
    pub name: String,
    /// The kind: `tests`, `lint`, `build` or `custom`; derived from the name if missing. A client may name a tool
    /// instead; its raw output is then parsed on receipt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Whether it passed.
    #[serde(default)]
    pub passed: bool,
    /// Whether it did not run.
    #[serde(default)]
    pub skipped: bool,
    /// Why it did not run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skip_reason: Option<String>,
    /// Its output.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub output: String,
    /// How long it took, in milliseconds.
    #[serde(default)]
    pub duration_ms: u64,
    /// The individual failures found in the output.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub details: Vec<String>,
}

impl Check {
    /// The kind of this check.
    #[must_use]
    pub fn kind(&self) -> CheckKind {
        let written = self.kind.as_deref().and_then(|kind| match kind {
            "build" => Some(CheckKind::Build),
            "tests" => Some(CheckKind::Tests),
            "lint" => Some(CheckKind::Lint),
            _ => None,
        });
        written.unwrap_or_else(|| CheckKind::of_name(&self.name))
    }
}

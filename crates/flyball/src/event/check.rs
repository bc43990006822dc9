//! The checks of a quality gate, as a `gate.checked` event carries them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a check of a quality gate looks at.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CheckKind {
    /// Whether it compiles, or its types are right.
    Build,
    /// Whether its tests pass.
    Tests,
    /// Whether a linter is content.
    Lint,
    /// Anything else: passes if the command ends with 0.
    #[default]
    Custom,
}

impl CheckKind {
    /// The kind's name, which is also that of the check a gate of this kind counts towards by default.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            CheckKind::Build => "build",
            CheckKind::Tests => "tests",
            CheckKind::Lint => "lint",
            CheckKind::Custom => "custom",
        }
    }

    /// The kind of a check that says nothing but its name.
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
    /// The name: `tests`, `lint`, `build`, or an item of a checklist.
    pub name: String,
    /// What it looks at: `tests`, `lint`, `build` or `custom`; by its name if it is not said. A client may name the tool
    /// instead, whose raw output is then parsed on its way in.
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
    /// What it printed.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub output: String,
    /// How long it took.
    #[serde(default)]
    pub duration_ms: u64,
    /// The single failures that were found in the output.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub details: Vec<String>,
}

impl Check {
    /// What it looks at.
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

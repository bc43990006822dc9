//! Gate settings of a workflow file.
//!
//! [`GatesConfig`] is converted to [`QualityGate`]s and [`GateOptions`]. A listed gate overrides the settings of a
//! detected gate of the same name, or is a new one.

use super::detect::detect;
use super::gate::{QualityGate, RESULTS_PLACEHOLDER, ResultsLocation};
use super::gate_error::GateError;
use super::options::{FlakyPolicy, GateOptions};
use super::order::validate;
use flyball::units::{parse_duration_ms, written_duration};
use flyball_checks::{CheckKind, ResultsFormat};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

/// The `gates:` section of a workflow file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct GatesConfig {
    /// Whether to detect gates from the workspace. Default: true if no gate with a command is listed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detect: Option<bool>,
    /// Additional gates, or overrides of detected ones.
    pub gates: Vec<GateConfig>,
    /// Whether to rerun a gate whose tests failed once. Default: true.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rerun: Option<bool>,
    /// Result of a gate that passed only on the rerun: `warn` (default) or `fail`.
    pub flaky: FlakyPolicy,
    /// Whether the first failure skips all later gates. Default: false, so that all failures are reported at once.
    pub cascade: bool,
}

/// A gate of a workflow file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GateConfig {
    /// Gate name.
    pub name: String,
    /// Kind: `build`, `tests`, `lint` or `custom`. Default: by its name, otherwise `custom`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<CheckKind>,
    /// Check that it counts toward. Default: its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub check: Option<String>,
    /// The command and its arguments. `{results}` is replaced by the file to write results to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub argv: Option<Vec<String>>,
    /// Checklist file to check instead of running a command: every `- [ ]` item is a failed check. With `may_skip`, an
    /// item may be waived: `- [~] item: reason`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checklist: Option<PathBuf>,
    /// Working directory inside the workspace. Default: the workspace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dir: Option<PathBuf>,
    /// Additional environment variables.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// Maximum duration: `90s`, `10m`, `4h` or milliseconds. Default: 5m, 2m for a linter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<GateDuration>,
    /// Format of its results. Default: detected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub format: Option<ResultsFormat>,
    /// File that the tool writes its results to, relative to `dir`, for tools with a fixed path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub results: Option<PathBuf>,
    /// Gates that must not have failed for this one to run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub needs: Option<Vec<String>>,
    /// Why it is disabled, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skip: Option<String>,
    /// Whether the agent may ask to skip it. Default: false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub may_skip: Option<bool>,
    /// Whether it must run: if skipped, it counts as failed. Default: false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub required: Option<bool>,
}

impl GatesConfig {
    /// Gates for a workspace: detected ones with overrides, plus additional ones.
    ///
    /// # Errors
    /// As [`validate`], and `gate_outside_workspace` for a path outside the workspace.
    pub fn gates(&self, workspace: &Path) -> Result<Vec<QualityGate>, GateError> {
        let mut gates = if self.detects() { detect(workspace) } else { Vec::new() };
        for written in &self.gates {
            match gates.iter_mut().find(|gate| gate.name == written.name) {
                Some(gate) => written.apply_to(gate)?,
                None => {
                    let mut gate = QualityGate::new(&*written.name, written.kind(), &[]);
                    gate.check.clone_from(&written.name);
                    written.apply_to(&mut gate)?;
                    gates.push(gate);
                }
            }
        }
        validate(&gates)?;
        Ok(gates)
    }

    /// Whether gates are detected from the workspace.
    #[must_use]
    pub fn detects(&self) -> bool {
        self.detect.unwrap_or_else(|| !self.gates.iter().any(|gate| gate.argv.is_some()))
    }

    /// Whether a gate or check of this name may exist; detected gates are known only in the workspace.
    #[must_use]
    pub fn may_contain(&self, name: &str) -> bool {
        self.detects()
            || self.gates.iter().any(|gate| gate.name == name || gate.check.as_deref() == Some(name))
    }

    /// Options for running them.
    #[must_use]
    pub fn options(&self) -> GateOptions {
        GateOptions {
            rerun: self.rerun.unwrap_or(true),
            flaky: self.flaky,
            cascade: self.cascade,
            ..GateOptions::default()
        }
    }
}

impl GateConfig {
    fn kind(&self) -> CheckKind {
        self.kind.unwrap_or_else(|| CheckKind::of_name(&self.name))
    }

    fn apply_to(&self, gate: &mut QualityGate) -> Result<(), GateError> {
        if let Some(kind) = self.kind {
            gate.kind = kind;
        }
        if let Some(argv) = &self.argv {
            gate.argv.clone_from(argv);
            // A custom command invalidates the detected result settings.
            (gate.format, gate.results) = (ResultsFormat::Auto, ResultsLocation::Stdout);
            gate.scratch_files.clear();
            gate.skip = None;
            if argv.iter().any(|part| part.contains(RESULTS_PLACEHOLDER))
                || self.env.values().any(|v| v.contains(RESULTS_PLACEHOLDER))
            {
                gate.results = ResultsLocation::Scratch("results".to_owned());
            }
        }
        for path in [&self.dir, &self.results, &self.checklist].into_iter().flatten() {
            check_inside_workspace(&self.name, path)?;
        }
        if self.checklist.is_some() {
            gate.checklist.clone_from(&self.checklist);
        }
        if let Some(file) = &self.results {
            gate.results = ResultsLocation::File(file.clone());
        }
        fn set<T: Clone>(slot: &mut T, value: Option<&T>) {
            if let Some(value) = value {
                slot.clone_from(value);
            }
        }
        set(&mut gate.check, self.check.as_ref());
        set(&mut gate.dir, self.dir.as_ref());
        set(&mut gate.format, self.format.as_ref());
        set(&mut gate.needs, self.needs.as_ref());
        set(&mut gate.may_skip, self.may_skip.as_ref());
        set(&mut gate.required, self.required.as_ref());
        set(&mut gate.deadline, self.deadline.map(|span| span.0).as_ref());
        gate.env.extend(self.env.clone());
        if self.skip.is_some() {
            gate.skip.clone_from(&self.skip);
        }
        Ok(())
    }
}

/// Rejects paths outside the workspace.
fn check_inside_workspace(gate: &str, path: &Path) -> Result<(), GateError> {
    let stays = path.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
    if stays {
        return Ok(());
    }
    let what = format!("path '{}' of gate '{gate}' is outside the workspace", path.display());
    Err(GateError::new("gate_outside_workspace", what, "use a path relative to the workspace, without `..`"))
}

/// A duration: `90s`, `10m`, `4h`, `500ms`, or a number of milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GateDuration(pub Duration);

impl GateDuration {
    fn parse(text: &str) -> Option<Self> {
        let ms = parse_duration_ms(text).filter(|ms| *ms > 0)?;
        Some(GateDuration(Duration::from_millis(ms)))
    }
}

impl<'de> Deserialize<'de> for GateDuration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum RawGateDuration {
            Number(u64),
            Text(String),
        }
        let text = match RawGateDuration::deserialize(deserializer)? {
            RawGateDuration::Number(ms) => ms.to_string(),
            RawGateDuration::Text(text) => text,
        };
        let hint = "expected e.g. `90s`, `10m`, `4h` or a positive number of milliseconds";
        GateDuration::parse(&text)
            .ok_or_else(|| de::Error::custom(format!("invalid duration '{text}': {hint}")))
    }
}

impl JsonSchema for GateDuration {
    fn schema_name() -> Cow<'static, str> {
        "GateSpan".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A duration: `90s`, `10m`, `4h`, `500ms`, or a number of milliseconds.",
            "anyOf": [{"type": "integer", "minimum": 1}, {"type": "string"}],
        })
    }
}

impl Serialize for GateDuration {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let ms = u64::try_from(self.0.as_millis()).unwrap_or(u64::MAX);
        serializer.serialize_str(&written_duration(ms))
    }
}

#[cfg(test)]
#[path = "gates_config_tests.rs"]
mod tests;

//! Gates as a workflow file writes them.
//!
//! What was written ([`GatesConfig`]) -> what it means ([`Gate`], [`Options`]). A gate that is written replaces the
//! parts of a detected gate of the same name that it names, or is a new one.

use super::detect::detect;
use super::error::GateError;
use super::gate::{Gate, RESULTS, Results};
use super::options::{Flaky, Options};
use super::order::validate;
use flyball_checks::{CheckKind, Format};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

/// The `gates:` of a workflow file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct GatesConfig {
    /// Whether gates are detected from the workspace. Default: true if no gate with a command is listed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detect: Option<bool>,
    /// Gates beside those that are detected, or changes to them.
    pub gates: Vec<GateConfig>,
    /// Whether a gate whose tests failed is run once more. Default: true.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rerun: Option<bool>,
    /// What a gate counts as that passed only then: `warn` (default) or `fail`.
    pub flaky: Flaky,
    /// Whether the first failure skips all gates after it. Default: false, so that everything is told at once.
    pub cascade: bool,
}

/// One gate of a workflow file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GateConfig {
    /// Its name.
    pub name: String,
    /// `build`, `tests`, `lint` or `custom`. Default: by its name, otherwise `custom`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<CheckKind>,
    /// The check that it counts towards. Default: its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub check: Option<String>,
    /// The command and its arguments. `{results}` stands for a file that the tool is to write its results into.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub argv: Option<Vec<String>>,
    /// A checklist to look at instead of running a command: every `- [ ]` in this file is a check that fails. With
    /// `may_skip`, an item may be left open knowingly: `- [~] item: reason`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checklist: Option<PathBuf>,
    /// The folder to run in, inside the workspace. Default: the workspace itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dir: Option<PathBuf>,
    /// Variables on top of the environment.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// How long it may take: `90s`, `10m`, `4h` or milliseconds. Default: 5m, a linter 2m.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Span>,
    /// How its results are written. Default: found out from what it wrote.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub format: Option<Format>,
    /// The file that the tool writes its results into, seen from `dir`, for tools that cannot be told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub results: Option<PathBuf>,
    /// Gates that must not have failed for this one to run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub needs: Option<Vec<String>>,
    /// Why it is off, in words for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skip: Option<String>,
    /// Whether the one whose work is checked may ask to leave it out. Default: false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub may_skip: Option<bool>,
    /// Whether it must run: if it is skipped, it counts as failed. Default: false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub required: Option<bool>,
}

impl GatesConfig {
    /// The gates for a workspace: detected, changed and added.
    ///
    /// # Errors
    /// As [`validate`], and `gate_outside` for a folder or results file that is not inside the workspace.
    pub fn gates(&self, workspace: &Path) -> Result<Vec<Gate>, GateError> {
        let mut gates = if self.detects() { detect(workspace) } else { Vec::new() };
        for written in &self.gates {
            match gates.iter_mut().find(|gate| gate.name == written.name) {
                Some(gate) => written.change(gate)?,
                None => {
                    let mut gate = Gate::new(&*written.name, written.kind(), &[]);
                    gate.check.clone_from(&written.name);
                    written.change(&mut gate)?;
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

    /// Whether there may be a gate of this name or check; what is detected is known only in the workspace.
    #[must_use]
    pub fn may_have(&self, name: &str) -> bool {
        self.detects()
            || self.gates.iter().any(|gate| gate.name == name || gate.check.as_deref() == Some(name))
    }

    /// How they are run.
    #[must_use]
    pub fn options(&self) -> Options {
        Options {
            rerun: self.rerun.unwrap_or(true),
            flaky: self.flaky,
            cascade: self.cascade,
            ..Options::default()
        }
    }
}

impl GateConfig {
    fn kind(&self) -> CheckKind {
        self.kind.unwrap_or_else(|| CheckKind::of_name(&self.name))
    }

    fn change(&self, gate: &mut Gate) -> Result<(), GateError> {
        if let Some(kind) = self.kind {
            gate.kind = kind;
        }
        if let Some(argv) = &self.argv {
            gate.argv.clone_from(argv);
            // A command of one's own says nothing about the results of the detected one.
            (gate.format, gate.results) = (Format::Auto, Results::Stdout);
            gate.scratch_files.clear();
            gate.skip = None;
            if argv.iter().any(|part| part.contains(RESULTS))
                || self.env.values().any(|v| v.contains(RESULTS))
            {
                gate.results = Results::Scratch("results".to_owned());
            }
        }
        for path in [&self.dir, &self.results, &self.checklist].into_iter().flatten() {
            inside(&self.name, path)?;
        }
        if self.checklist.is_some() {
            gate.checklist.clone_from(&self.checklist);
        }
        if let Some(file) = &self.results {
            gate.results = Results::File(file.clone());
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

/// A gate works inside its workspace.
fn inside(gate: &str, path: &Path) -> Result<(), GateError> {
    let stays = path.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
    if stays {
        return Ok(());
    }
    let what = format!("gate '{gate}' names '{}', which is not inside the workspace", path.display());
    Err(GateError::new("gate_outside", what, "write it from the workspace's folder, without `..`"))
}

/// A length of time: `90s`, `10m`, `4h`, `500ms`, or a number of milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span(pub Duration);

impl Span {
    fn read(text: &str) -> Option<Self> {
        let text = text.trim();
        let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let number: u64 = text.get(..digits)?.parse().ok()?;
        let unit = match text.get(digits..)?.trim() {
            "" | "ms" => 1,
            "s" => 1_000,
            "m" => 60_000,
            "h" => 3_600_000,
            _ => return None,
        };
        number.checked_mul(unit).filter(|ms| *ms > 0).map(|ms| Span(Duration::from_millis(ms)))
    }
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Written {
            Number(u64),
            Text(String),
        }
        let text = match Written::deserialize(deserializer)? {
            Written::Number(ms) => ms.to_string(),
            Written::Text(text) => text,
        };
        let hint = "write it as `90s`, `10m`, `4h` or a number of milliseconds above 0";
        Span::read(&text).ok_or_else(|| de::Error::custom(format!("'{text}' is no length of time: {hint}")))
    }
}

impl JsonSchema for Span {
    fn schema_name() -> Cow<'static, str> {
        "GateSpan".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A length of time: `90s`, `10m`, `4h`, `500ms`, or a number of milliseconds.",
            "anyOf": [{"type": "integer", "minimum": 1}, {"type": "string"}],
        })
    }
}

impl Serialize for Span {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&span(self.0))
    }
}

/// A length of time as it is written in a workflow file.
pub(crate) fn span(time: Duration) -> String {
    let ms = time.as_millis();
    match ms {
        _ if ms >= 3_600_000 && ms.is_multiple_of(3_600_000) => format!("{}h", ms / 3_600_000),
        _ if ms >= 60_000 && ms.is_multiple_of(60_000) => format!("{}m", ms / 60_000),
        _ if ms >= 1_000 && ms.is_multiple_of(1_000) => format!("{}s", ms / 1_000),
        _ => format!("{ms}ms"),
    }
}

#[cfg(test)]
#[path = "config_tests.rs"]
mod tests;

//! A policy layer: the values of one file, the environment or the command line.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::{Map, Value};

use super::Preset;
use super::positions::KeyPositions;

/// The origin of a value.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ValueOrigin {
    /// The built-in default.
    Default,
    /// The preset, where it differs from the built-in default.
    Preset(Preset),
    /// A policy file.
    File {
        /// The file's name.
        name: String,
    },
    /// The policy sent with `session.started`.
    Inline,
    /// A workflow's `policy:`, or its nodes and edges.
    Workflow {
        /// The workflow's name.
        name: String,
    },
    /// An environment variable.
    Environment {
        /// The variable's name.
        variable: String,
    },
    /// `--set` on the command line.
    CommandLine,
}

impl fmt::Display for ValueOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ValueOrigin::Default => f.write_str("default"),
            ValueOrigin::Preset(preset) => write!(f, "preset {}", preset.as_str()),
            ValueOrigin::File { name } | ValueOrigin::Workflow { name } => f.write_str(name),
            ValueOrigin::Inline => f.write_str("session.started"),
            ValueOrigin::Environment { variable } => f.write_str(variable),
            ValueOrigin::CommandLine => f.write_str("--set"),
        }
    }
}

/// How much a layer may change the policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LayerTrust {
    /// Every value applies. For layers from the caller, the user or the organization.
    #[default]
    Full,
    /// Only values that make the policy stricter apply. For a project's own files, until the user trusts them.
    TightenOnly,
}

/// The values of one source as written, with the position of each key.
#[derive(Clone, Debug, PartialEq)]
pub struct PolicyLayer {
    /// The origin of the values.
    pub origin: ValueOrigin,
    /// The values as written.
    pub tree: Value,
    /// Line and column of each key; empty for a source without lines.
    pub positions: KeyPositions,
    /// In an environment layer, the variable that set each key.
    pub variables: BTreeMap<String, String>,
    /// How much the layer may change the policy.
    pub trust: LayerTrust,
}

impl PolicyLayer {
    /// Creates a layer from an existing tree, for example the `policy` of `session.started`.
    ///
    /// A string is the name of a preset. Any other value that is not a map is reported by [`super::resolve`].
    pub fn from_value(origin: ValueOrigin, tree: Value) -> PolicyLayer {
        let tree = match tree {
            Value::Null => Value::Object(Map::new()),
            Value::String(preset) => {
                Value::Object(Map::from_iter([("preset".to_owned(), Value::String(preset))]))
            }
            tree => tree,
        };
        PolicyLayer {
            origin,
            tree,
            positions: KeyPositions::default(),
            variables: BTreeMap::new(),
            trust: LayerTrust::Full,
        }
    }

    /// The part of a parsed file below `path` as a separate layer, including positions. A workflow's `policy:` becomes
    /// a layer this way. `None` if that part is missing.
    pub fn sublayer(&self, path: &[&str], origin: ValueOrigin) -> Option<PolicyLayer> {
        let mut tree = &self.tree;
        for part in path {
            tree = tree.get(part)?;
        }
        let path: Vec<String> = path.iter().map(|part| (*part).to_owned()).collect();
        let mut layer = PolicyLayer::from_value(origin, tree.clone());
        layer.positions = self.positions.subtree(&path);
        layer.trust = self.trust;
        Some(layer)
    }

    /// The same layer, restricted to tightening the policy.
    #[must_use]
    pub fn tighten_only(mut self) -> PolicyLayer {
        self.trust = LayerTrust::TightenOnly;
        self
    }

    /// The name of the source, for messages.
    pub(super) fn source_name(&self, path: &str) -> String {
        self.variable_for(path).map_or_else(|| self.origin.to_string(), str::to_owned)
    }

    /// The origin of one key.
    pub(super) fn origin_of(&self, path: &str) -> ValueOrigin {
        match self.variable_for(path) {
            Some(variable) => ValueOrigin::Environment { variable: variable.to_owned() },
            None => self.origin.clone(),
        }
    }

    /// The variable that set a key or something inside it.
    fn variable_for(&self, path: &str) -> Option<&str> {
        let inside =
            |key: &str| key.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
        let found = self.variables.iter().find(|(key, _)| inside(key));
        found.map(|(_, variable)| variable.as_str())
    }
}

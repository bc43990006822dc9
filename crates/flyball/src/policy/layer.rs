//! One source of policy values: a file, the environment, the command line.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::{Map, Value};

use super::Preset;
use super::places::Places;

/// Where a value came from.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    /// Built in.
    Default,
    /// The preset differs from the built-in value.
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

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Default => f.write_str("default"),
            Origin::Preset(preset) => write!(f, "preset {}", preset.as_str()),
            Origin::File { name } | Origin::Workflow { name } => f.write_str(name),
            Origin::Inline => f.write_str("session.started"),
            Origin::Environment { variable } => f.write_str(variable),
            Origin::CommandLine => f.write_str("--set"),
        }
    }
}

/// How far a layer may change the policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Trust {
    /// Every value counts: the caller's, the user's or the organization's own.
    #[default]
    Full,
    /// Only values that make the policy stricter count. What a project brings along, until the user trusts it.
    TightenOnly,
}

/// The values of one source, as written, with the place of each key.
#[derive(Clone, Debug, PartialEq)]
pub struct Layer {
    /// Where the values came from.
    pub origin: Origin,
    /// The values as written.
    pub tree: Value,
    /// Line and column of each key; empty for a source without lines.
    pub places: Places,
    /// In an environment layer, which variable wrote which key.
    pub variables: BTreeMap<String, String>,
    /// How far it may change the policy.
    pub trust: Trust,
}

impl Layer {
    /// A layer from a ready tree, for example the `policy` of `session.started`.
    ///
    /// A text is the name of a preset. Anything else than a map is reported by
    /// [`super::resolve`].
    pub fn from_value(origin: Origin, tree: Value) -> Layer {
        let tree = match tree {
            Value::Null => Value::Object(Map::new()),
            Value::String(preset) => {
                Value::Object(Map::from_iter([("preset".to_owned(), Value::String(preset))]))
            }
            tree => tree,
        };
        Layer { origin, tree, places: Places::default(), variables: BTreeMap::new(), trust: Trust::Full }
    }

    /// The part of a parsed file below `path` as a layer of its own, places included:
    /// how a workflow's `policy:` becomes a layer. `None` if there is nothing.
    pub fn below(&self, path: &[&str], origin: Origin) -> Option<Layer> {
        let mut tree = &self.tree;
        for part in path {
            tree = tree.get(part)?;
        }
        let path: Vec<String> = path.iter().map(|part| (*part).to_owned()).collect();
        let mut layer = Layer::from_value(origin, tree.clone());
        layer.places = self.places.below(&path);
        layer.trust = self.trust;
        Some(layer)
    }

    /// The same layer, under which the policy can only become stricter.
    #[must_use]
    pub fn tighten_only(mut self) -> Layer {
        self.trust = Trust::TightenOnly;
        self
    }

    /// The name for messages.
    pub(super) fn file(&self, path: &str) -> String {
        self.variable(path).map_or_else(|| self.origin.to_string(), str::to_owned)
    }

    /// The origin of one key.
    pub(super) fn origin_of(&self, path: &str) -> Origin {
        match self.variable(path) {
            Some(variable) => Origin::Environment { variable: variable.to_owned() },
            None => self.origin.clone(),
        }
    }

    /// The variable that wrote a key or something inside it.
    fn variable(&self, path: &str) -> Option<&str> {
        let inside =
            |key: &str| key.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
        let found = self.variables.iter().find(|(key, _)| inside(key));
        found.map(|(_, variable)| variable.as_str())
    }
}

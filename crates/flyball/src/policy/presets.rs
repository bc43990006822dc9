//! The seven presets: the values of a policy before any changes.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::rules_version::RulesVersion;

use super::settings::Settings;
use super::{
    Budgets, GuardMode, GuardPolicies, JournalPolicy, LabelPolicy, OnErrorAction, OnStallAction, Policy,
    ReleasePolicy, resolve,
};

/// Base values that the rest of the policy overrides.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "PresetValue")]
pub enum Preset {
    /// A graph of nodes under a runner: all guards on.
    #[default]
    Workflow,
    /// A standalone agent with tools: no node, visit, transition-count or message limits.
    Agent,
    /// A short workflow: 5 visits per node, 3 uses per edge.
    Simple,
    /// A long workflow: 15 visits per node, 8 uses per edge.
    Complex,
    /// Lower limits everywhere.
    Strict,
    /// The limits of `agent`; everything is reported and nothing is blocked.
    Observe,
    /// All guards off, except those that the policy configures.
    Off,
}

impl Preset {
    /// All presets, in the order of the documentation.
    pub const ALL: [Preset; 7] = [
        Preset::Workflow,
        Preset::Agent,
        Preset::Simple,
        Preset::Complex,
        Preset::Strict,
        Preset::Observe,
        Preset::Off,
    ];

    /// The preset with this name in a policy file.
    #[must_use]
    pub fn from_name(word: &str) -> Option<Preset> {
        Preset::ALL.into_iter().find(|preset| preset.as_str() == word)
    }

    /// The name of this preset in a policy file.
    pub fn as_str(self) -> &'static str {
        super::values::keyword_of(self)
    }

    /// The preset whose limits this one has: `observe` changes only the modes.
    pub(crate) fn limits(self) -> Preset {
        if self == Preset::Observe { Preset::Agent } else { self }
    }
}

impl Policy {
    /// The policy of a preset, before any changes.
    pub fn preset(preset: Preset) -> Policy {
        let mut policy = Policy {
            preset,
            budgets: Budgets::preset(preset),
            guards: GuardPolicies::preset(preset),
            nodes: BTreeMap::new(),
            edges: BTreeMap::new(),
            tools: BTreeMap::new(),
            on_stall: OnStallAction::default(),
            releases: ReleasePolicy::default(),
            labels: LabelPolicy::default(),
            escalate: true,
            notify: false,
            on_error: OnErrorAction::default(),
            journal: JournalPolicy::default(),
            rules: Vec::new(),
            rules_version: RulesVersion::LATEST,
            digest: String::new(),
        };
        if preset == Preset::Observe {
            policy.budgets.mode = GuardMode::Observe;
        }
        resolve::compute_digest(&mut policy);
        policy
    }
}

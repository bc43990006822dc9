//! What the operator wants: the text of a policy and what it means.
//!
//! Two stages. First text becomes a tree with the line and column of each key
//! ([`parse`], [`from_environment`], [`from_set`]). Then layers are merged leaf by leaf and
//! checked into one [`Policy`] of plain integers ([`resolve`]), and each value remembers
//! where it came from. Nothing here reads a file, the clock or the environment.

mod budgets;
mod canonical;
mod environment;
mod error;
mod fields;
mod fields_guards;
mod fields_sections;
mod fields_unknown;
mod file;
mod file_cycles;
mod file_guards;
mod file_journal;
mod file_seeds;
mod guards;
mod guards_work;
mod journal;
mod label_sync;
mod layer;
mod leaves;
mod lint;
mod parse;
mod parse_json;
mod parse_toml;
mod parse_yaml;
mod paths;
mod places;
mod presets;
mod resolve;
mod retired;
mod rule_check;
mod rule_list;
mod rule_values;
mod rules;
mod seeds;
mod targets;
mod tighten;
mod units;
mod values;
mod words;

use crate::limits::{HISTORY, TRAIL};
use crate::rules_version::RulesVersion;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use budgets::{Budgets, LoopBudget, MessageBudget, NodeBudget, SessionBudget, TurnBudget};
pub use environment::{from_environment, from_set};
pub use error::{Code, PolicyError, PolicyErrors};
pub use file::json_schema;
pub use guards::{
    Backoff, Confirmation, Cycle, DeclaredWorkflow, Denial, ErrorStreak, Gate, GateOrder, Guards, Language,
    LargeResponse, Limit, Mode, Monologue, NewRequest, Oscillation, Periods, Question, Recurrence,
    Repetition, Retry, RetryLimits, Stall, TransitionCycles, Transitions, Unverified, Validation, Visits,
};
pub use journal::{Delivery, JournalPolicy};
pub use label_sync::{LabelSync, OnLabelAdded};
pub use layer::{Layer, Origin, Trust};
pub use lint::{Severity, Warning, lint_graph};
pub use parse::{Format, MAX_DEPTH, MAX_ENTRIES, MAX_TEXT_BYTES, MAX_VALUES, parse};
pub use places::{Place, Places};
pub use presets::Preset;
pub(crate) use resolve::resolve_under;
pub use resolve::{EffectiveValue, Resolved, Written, resolve};
pub(crate) use retired::forget_without_effect;
pub use rule_check::RuleNames;
pub use rules::{Counters, Facts, MAX_MESSAGE_CHARS, MAX_RULE_CHARS, MAX_RULES, Rule, RuleError};
pub use targets::{Email, Target, Webhook, WebhookFormat};
pub use tighten::Ignored;
pub(crate) use tighten::{compare, overlay};

/// A resolved policy: every limit as a plain number, every override already merged.
///
/// Made by [`resolve`] or [`Policy::preset`]. Reading it costs a map lookup at most.
#[derive(Clone, Debug, PartialEq)]
pub struct Policy {
    /// The preset that the other values started from.
    pub preset: Preset,
    /// Limits on time, turns, tokens and cost.
    pub budgets: Budgets,
    /// The guards for everything that has no values of its own.
    pub guards: Guards,
    /// Nodes with values of their own.
    pub nodes: BTreeMap<String, NodePolicy>,
    /// Edges with values of their own: from, then to.
    pub edges: BTreeMap<String, BTreeMap<String, EdgePolicy>>,
    /// Tools with values of their own.
    pub tools: BTreeMap<String, ToolPolicy>,
    /// What happens when a loop makes no progress.
    pub on_stall: OnStall,
    /// How much a person's release gives, and how often.
    pub releases: Releases,
    /// How labels are named.
    pub labels: Labels,
    /// Whether a block is handed to a person with a label (`trigger_hitl`).
    pub escalate: bool,
    /// Whether a halt also emits the effect `notify`.
    pub notify: bool,
    /// What a hook answers when Flyball itself fails. No decision depends on it.
    pub on_error: OnError,
    /// What is kept of a session, for how long, and where its effects go. No decision depends on it.
    pub journal: JournalPolicy,
    /// Custom rules, in the order they are tried.
    pub rules: Vec<Rule>,
    /// The version of the decision rules that new sessions start under.
    pub rules_version: RulesVersion,
    /// Digest of everything that decides, 32 hexadecimal digits: equal policies, equal digests. The journal is left
    /// out, so that another retention does not make a stored session look like one of another policy.
    pub digest: String,
}

impl Policy {
    /// The label that calls a person when a session is blocked that is under this version of the rules.
    #[must_use]
    pub fn hitl_label(&self, rules: RulesVersion) -> String {
        // A session of version 1 under a policy of a later one keeps the name that its label had.
        let newer = rules == RulesVersion::V1 && self.rules_version > RulesVersion::V1;
        let as_before = newer && self.labels == Labels::default();
        let prefix = if as_before { Labels::LOOP_PREVENTION } else { &self.labels.prefix };
        format!("{prefix}hitl:loop-prevention")
    }

    /// How many transitions reports and evidence show.
    pub(crate) fn shown_history(&self, rules: RulesVersion) -> usize {
        self.guards.shown_history(rules)
    }

    /// How many transitions a session remembers by name: as many as are shown, and as the longest cycle has.
    pub(crate) fn kept_history(&self, rules: RulesVersion) -> usize {
        let edges = self.edges.values().flat_map(BTreeMap::values).map(|edge| &edge.guards);
        let needed = edges.chain([&self.guards]).map(|guards| guards.cycle.transitions.history_needed());
        let needed = usize::try_from(needed.max().unwrap_or(0)).unwrap_or(HISTORY);
        if rules == RulesVersion::V1 { TRAIL } else { needed.min(HISTORY) }
    }

    /// The guards that apply to a call of this tool.
    pub fn guards_for_tool(&self, tool: &str) -> &Guards {
        self.tools.get(tool).map_or(&self.guards, |t| &t.guards)
    }

    /// The guards that apply to acts of this node.
    pub fn guards_for_node(&self, node: &str) -> &Guards {
        self.nodes.get(node).map_or(&self.guards, |n| &n.guards)
    }

    /// The guards that apply to an output of this tool, or of this node.
    pub fn guards_for_output(&self, tool: Option<&str>, node: Option<&str>) -> &Guards {
        let of_tool = tool.and_then(|tool| self.tools.get(tool)).map(|tool| &tool.guards);
        of_tool.unwrap_or_else(|| node.map_or(&self.guards, |node| self.guards_for_node(node)))
    }

    /// The guards that apply to a transition along this edge.
    pub fn guards_for_edge(&self, from: &str, to: &str) -> &Guards {
        self.edge(from, to).map_or(&self.guards, |e| &e.guards)
    }

    /// The nodes that this one may lead to, if the policy says so.
    pub fn destinations_of(&self, node: &str) -> Option<&[String]> {
        self.nodes.get(node)?.allowed_destinations.as_deref()
    }

    /// The node's own values, if the policy names it.
    pub fn node(&self, name: &str) -> Option<&NodePolicy> {
        self.nodes.get(name)
    }

    /// The edge's own values, if the policy names it.
    pub fn edge(&self, from: &str, to: &str) -> Option<&EdgePolicy> {
        self.edges.get(from)?.get(to)
    }

    /// The tool's own values, if the policy names it.
    pub fn tool(&self, name: &str) -> Option<&ToolPolicy> {
        self.tools.get(name)
    }

    /// What a call of this tool does to the world, if the policy says so.
    pub fn effect_of(&self, tool: &str) -> Option<Effect> {
        self.tools.get(tool)?.effect
    }

    /// The budget of one node: its own where it has one, the common one otherwise.
    pub fn budget_for_node(&self, node: &str) -> &NodeBudget {
        self.nodes.get(node).map_or(&self.budgets.node, |n| &n.budget)
    }
}

impl Guards {
    /// How many transitions the evidence of these guards shows.
    pub(crate) fn shown_history(&self, rules: RulesVersion) -> usize {
        let shown = usize::try_from(self.cycle.transitions.max_history).unwrap_or(HISTORY);
        if rules == RulesVersion::V1 { TRAIL } else { shown.min(HISTORY) }
    }
}

/// Values of one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodePolicy {
    /// All guards, the common ones with this node's changes. `max_visits` is
    /// `guards.visits.limit`; `allow_cycles` has switched `guards.cycle` off.
    pub guards: Guards,
    /// The node's budget, the common one with this node's changes.
    pub budget: NodeBudget,
    /// Cycles through this node are intended.
    pub allow_cycles: bool,
    /// The only nodes that this one may lead to; `None` = the policy does not say.
    pub allowed_destinations: Option<Vec<String>>,
}

/// Values of one edge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EdgePolicy {
    /// All guards, the common ones with this edge's changes. `max_transitions` is
    /// `guards.transitions.limit`.
    pub guards: Guards,
}

/// Values of one tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolPolicy {
    /// What a call does to the world, if the policy says so.
    pub effect: Option<Effect>,
    /// All guards, the common ones with this tool's changes.
    pub guards: Guards,
    /// Whether the tool has changes of its own. One that only declares its effect leaves the node's values in force.
    pub has_own_guards: bool,
}

/// What a tool does to the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// Reads only.
    Read,
    /// Changes something.
    Write,
    /// Waits for something: the same call again is normal.
    Poll,
    /// Cannot be undone: needs a confirmation.
    Destructive,
}

/// What happens when a loop makes no progress.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnStall {
    /// The session waits.
    Pause,
    /// A person takes over.
    #[default]
    SwitchToInteractive,
    /// A reviewing node is started.
    SpawnReviewer,
    /// The turn is tried with another provider.
    RetryWithNewProvider,
}

/// What a hook answers when Flyball itself fails: no store, no time left, a broken policy, unreadable input.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnError {
    /// Every call runs.
    Allow,
    /// Calls that are known to be read-only run; every other call is refused.
    #[default]
    Reads,
    /// Every tool call is refused.
    Block,
}

/// How much a person's release gives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Releases {
    /// Acts that a `grant` allows when it names no number.
    pub grant: u64,
    /// Releases of one guard in one session; after that the next trip is a halt.
    pub ceiling: u64,
}

impl Default for Releases {
    fn default() -> Self {
        Releases { grant: 3, ceiling: 5 }
    }
}

/// How labels are named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Labels {
    /// What every label starts with: `flyball-` gives `flyball-hitl:loop-prevention`.
    pub prefix: String,
}

impl Labels {
    /// The prefix of a policy with `loop_prevention`, and of sessions under version 1 of the rules.
    pub(crate) const LOOP_PREVENTION: &'static str = "ashep-";
}

impl Default for Labels {
    fn default() -> Self {
        Labels { prefix: "flyball-".to_owned() }
    }
}

//! A workflow node: the keys common to all nodes, and its kind.

use super::spec::{
    AgentNode, CollectNode, CommandNode, ConfirmNode, DecideNode, GateNode, HumanNode, JoinNode, NextNodes,
    NodeRetry, RouteNode, SayNode, ToolNode, WorkflowDuration,
};
use super::{DONE, FAILED};
use crate::engine::NodeStatus;
use schemars::JsonSchema;
use serde::Deserialize;

/// The kind of a node, with its settings.
#[derive(Debug, Clone, PartialEq)]
pub enum NodeKind {
    /// Runs a program.
    Command(CommandNode),
    /// Runs a model with tools.
    Agent(AgentNode),
    /// Lets a model choose the next node.
    Decide(DecideNode),
    /// Runs quality gates.
    Gate(GateNode),
    /// Asks a person to approve a plan.
    Confirm(ConfirmNode),
    /// Collects slots from a person.
    Collect(Box<CollectNode>),
    /// Sends a message to the person.
    Say(SayNode),
    /// Calls a tool.
    Tool(ToolNode),
    /// Asks a person.
    Human(HumanNode),
    /// Joins parallel branches.
    Join(JoinNode),
    /// Chooses the next node by rules.
    Route(RouteNode),
}

impl NodeKind {
    /// Kind names, as written in the file.
    pub const KINDS: [&str; 11] =
        ["command", "agent", "decide", "gate", "confirm", "collect", "say", "tool", "human", "join", "route"];

    /// The kind's name.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            NodeKind::Command(_) => "command",
            NodeKind::Agent(_) => "agent",
            NodeKind::Decide(_) => "decide",
            NodeKind::Gate(_) => "gate",
            NodeKind::Confirm(_) => "confirm",
            NodeKind::Collect(_) => "collect",
            NodeKind::Say(_) => "say",
            NodeKind::Tool(_) => "tool",
            NodeKind::Human(_) => "human",
            NodeKind::Join(_) => "join",
            NodeKind::Route(_) => "route",
        }
    }

    /// Whether a visit is a turn: work that takes time and may fail.
    #[must_use]
    pub const fn takes_turns(&self) -> bool {
        !matches!(self, NodeKind::Route(_) | NodeKind::Say(_) | NodeKind::Join(_))
    }

    /// Default of `rerun`: whether an interrupted step may run again without asking.
    #[must_use]
    pub const fn may_rerun(&self) -> bool {
        !matches!(self, NodeKind::Command(_) | NodeKind::Tool(_))
    }

    /// Statuses that a visit can end with. Nodes that choose their target themselves list only the rest.
    #[must_use]
    pub fn possible_statuses(&self) -> Vec<NodeStatus> {
        use NodeStatus::{Failure, PartialSuccess, Success, Unclear};
        match self {
            NodeKind::Command(command) => {
                let partial = (!command.partial.is_empty()).then_some(PartialSuccess);
                let unclear = (!command.unclear.is_empty()).then_some(Unclear);
                [Success, Failure].into_iter().chain(partial).chain(unclear).collect()
            }
            NodeKind::Agent(_) | NodeKind::Confirm(_) => vec![Success, Failure, PartialSuccess, Unclear],
            NodeKind::Collect(_) => vec![Success, Failure, Unclear],
            NodeKind::Decide(_) => vec![Failure, Unclear],
            NodeKind::Gate(_) => vec![Success, Failure, Unclear],
            NodeKind::Tool(_) | NodeKind::Human(_) => vec![Success, Failure],
            NodeKind::Join(join) => {
                let late = join.timeout.is_some().then_some(PartialSuccess);
                [Success, Failure].into_iter().chain(late).collect()
            }
            NodeKind::Say(_) => vec![Success],
            NodeKind::Route(_) => Vec::new(),
        }
    }
}

/// Keys common to all nodes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NodeCommon {
    /// Next node for any outcome.
    pub next: Option<NextNodes>,
    /// Next node after a success.
    pub on_success: Option<NextNodes>,
    /// Next node after a failure.
    pub on_failure: Option<NextNodes>,
    /// Next node after a partial success.
    pub on_partial_success: Option<NextNodes>,
    /// Next node if the result is unclear.
    pub on_unclear: Option<NextNodes>,
    /// Next node if the governor denies the chosen transition and the session may continue.
    pub on_refused: Option<NextNodes>,
    /// Retries after a failure.
    pub retry: Option<NodeRetry>,
    /// Maximum duration of a turn.
    pub deadline: Option<WorkflowDuration>,
    /// Whether an interrupted step may run again.
    pub rerun: Option<bool>,
    /// How to resume after a budget interrupted a step: run it again (`repeat`, the default) or leave it out (`skip`)
    /// and continue as after a success. If set, it also applies to a step interrupted by a crash.
    pub on_interrupt: Option<OnInterrupt>,
}

/// Handling of an interrupted step.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnInterrupt {
    /// Run it again.
    #[default]
    Repeat,
    /// Leave it out.
    Skip,
}

impl NodeCommon {
    /// Key names, as written in the file.
    pub const KEYS: [&str; 10] = [
        "next",
        "on_success",
        "on_failure",
        "on_partial_success",
        "on_unclear",
        "on_refused",
        "retry",
        "deadline",
        "rerun",
        "on_interrupt",
    ];

    /// All edges, each with its key.
    pub fn edges(&self) -> impl Iterator<Item = (&'static str, &NextNodes)> {
        let all = [
            ("next", &self.next),
            ("on_success", &self.on_success),
            ("on_failure", &self.on_failure),
            ("on_partial_success", &self.on_partial_success),
            ("on_unclear", &self.on_unclear),
            ("on_refused", &self.on_refused),
        ];
        all.into_iter().filter_map(|(key, next)| Some((key, next.as_ref()?)))
    }
}

/// A node of a workflow.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// Unique name.
    pub name: String,
    /// Kind and settings.
    pub kind: NodeKind,
    /// Edges, retries and deadline.
    pub common: NodeCommon,
}

impl Node {
    /// All targets that the file names, including `done` and `failed`, without duplicates, in file order.
    #[must_use]
    pub fn targets(&self) -> Vec<String> {
        let mut all: Vec<String> = Vec::new();
        self.common.edges().flat_map(|(_, next)| next.names()).for_each(|name| push_unique(&mut all, name));
        match &self.kind {
            NodeKind::Decide(decide) => {
                decide.allowed_destinations.iter().for_each(|name| push_unique(&mut all, name))
            }
            NodeKind::Route(route) => {
                route.rules.iter().for_each(|rule| push_unique(&mut all, &rule.to));
                push_unique(&mut all, &route.otherwise);
            }
            _ => {}
        }
        all
    }

    /// All possible targets, including the defaults: `done` after a success, `failed` otherwise.
    #[must_use]
    pub fn possible_targets(&self) -> Vec<String> {
        let mut all = self.targets();
        for status in self.kind.possible_statuses() {
            self.next_for(status).names().into_iter().for_each(|name| push_unique(&mut all, name));
        }
        all
    }

    /// Target for an outcome.
    #[must_use]
    pub fn next_for(&self, status: NodeStatus) -> NextNodes {
        let common = &self.common;
        if status == NodeStatus::Skipped {
            // A skipped step continues as after a success, if the node can succeed.
            let may_succeed = self.kind.possible_statuses().contains(&NodeStatus::Success);
            return self.next_for(if may_succeed { NodeStatus::Success } else { NodeStatus::Unclear });
        }
        let explicit = match status {
            NodeStatus::Success | NodeStatus::Skipped => &common.on_success,
            NodeStatus::Failure => &common.on_failure,
            NodeStatus::PartialSuccess => &common.on_partial_success,
            NodeStatus::Unclear => &common.on_unclear,
        };
        // Without their own edge, partial success falls back to `on_success` and unclear to `on_failure`.
        let near = match status {
            NodeStatus::PartialSuccess => common.on_success.as_ref(),
            NodeStatus::Unclear => common.on_failure.as_ref(),
            NodeStatus::Success | NodeStatus::Failure | NodeStatus::Skipped => None,
        };
        let end = if status == NodeStatus::Success { DONE } else { FAILED };
        let found = explicit.as_ref().or(common.next.as_ref()).or(near);
        found.cloned().unwrap_or_else(|| NextNodes::One(end.to_owned()))
    }

    /// Whether an interrupted step may run again.
    #[must_use]
    pub fn may_rerun(&self) -> bool {
        self.common.rerun.unwrap_or_else(|| self.kind.may_rerun())
    }
}

fn push_unique(all: &mut Vec<String>, name: &str) {
    if !all.iter().any(|known| known == name) {
        all.push(name.to_owned());
    }
}

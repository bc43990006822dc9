//! Limits on time, turns, tokens and cost, for a session, a turn, a node, a loop and a message.

use super::guard_policies::{GuardMode, HOUR_MS, Limit, MINUTE_MS};

/// All budgets. A limit of `None` is off.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Budgets {
    /// Action when a budget is used up.
    pub mode: GuardMode,
    /// Percentage of a budget at which warnings start; `None` = no warning.
    pub warn_percent: Limit,
    /// Budget of the whole session.
    pub session: SessionBudget,
    /// Budget of one turn.
    pub turn: TurnBudget,
    /// Budget of one node without an override.
    pub node: NodeBudget,
    /// Budget of one loop of the workflow (`loop:` in the policy file).
    pub loops: LoopBudget,
    /// Budget of the work that one user message triggers.
    pub message: MessageBudget,
}

impl Default for Budgets {
    fn default() -> Self {
        Budgets {
            mode: GuardMode::Staged,
            warn_percent: Some(80),
            session: SessionBudget::default(),
            turn: TurnBudget::default(),
            node: NodeBudget::default(),
            loops: LoopBudget::default(),
            message: MessageBudget::default(),
        }
    }
}

/// The budget of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionBudget {
    /// Active time, not counting pauses and time spent waiting for a person.
    pub runtime_ms: Limit,
    /// Wall-clock time since the start, including pauses.
    pub wall_ms: Limit,
    /// Turns.
    pub turns: Limit,
    /// Model responses.
    pub iterations: Limit,
    /// Input and output tokens.
    pub tokens: Limit,
    /// Cost in millionths of a dollar.
    pub cost_micro_usd: Limit,
    /// Tool calls.
    pub tool_calls: Limit,
}

impl Default for SessionBudget {
    fn default() -> Self {
        SessionBudget {
            runtime_ms: Some(4 * HOUR_MS),
            wall_ms: None,
            turns: None,
            iterations: None,
            tokens: None,
            cost_micro_usd: None,
            tool_calls: None,
        }
    }
}

/// The budget of one turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TurnBudget {
    /// Maximum duration of a turn.
    pub timeout_ms: Limit,
    /// Tokens in one turn.
    pub tokens: Limit,
}

impl Default for TurnBudget {
    fn default() -> Self {
        TurnBudget { timeout_ms: Some(10 * MINUTE_MS), tokens: None }
    }
}

/// The budget of one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeBudget {
    /// Turns in one node.
    pub turns: Limit,
    /// Whether `turns` was set explicitly. If not, a node inside a loop may use max(`turns`, loop iterations + 1),
    /// because each iteration costs it a turn.
    pub turns_set: bool,
    /// Active time in one node.
    pub runtime_ms: Limit,
}

impl Default for NodeBudget {
    fn default() -> Self {
        NodeBudget { turns: Some(6), turns_set: false, runtime_ms: None }
    }
}

impl NodeBudget {
    /// Turns of a node inside a loop with this many iterations (`None` = no limit).
    pub fn turns_in_loop(&self, iterations: Limit) -> Limit {
        match (self.turns, iterations) {
            (Some(turns), _) if self.turns_set => Some(turns),
            (Some(turns), Some(iterations)) => Some(turns.max(iterations.saturating_add(1))),
            _ => None,
        }
    }
}

/// The budget of one loop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoopBudget {
    /// Complete iterations.
    pub iterations: Limit,
    /// Active time inside the loop.
    pub runtime_ms: Limit,
    /// Cost in millionths of a dollar.
    pub cost_micro_usd: Limit,
}

impl Default for LoopBudget {
    fn default() -> Self {
        LoopBudget { iterations: Some(8), runtime_ms: None, cost_micro_usd: None }
    }
}

/// The budget of the work that one user message triggers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessageBudget {
    /// Transitions until the next message.
    pub transitions: Limit,
    /// Tool calls until the next message.
    pub tool_calls: Limit,
}

impl Default for MessageBudget {
    fn default() -> Self {
        MessageBudget { transitions: Some(25), tool_calls: None }
    }
}

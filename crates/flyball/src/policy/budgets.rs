//! Limits on time, turns, tokens and cost, for a session, a turn, a node, a loop and a message.

use super::guards::{HOUR_MS, Limit, MINUTE_MS, Mode};

/// All budgets. A limit of `None` is off.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Budgets {
    /// What reaching a budget leads to.
    pub mode: Mode,
    /// From this share of a budget on the answer is `warn`; `None` = no warning.
    pub warn_percent: Limit,
    /// The whole session.
    pub session: SessionBudget,
    /// One turn.
    pub turn: TurnBudget,
    /// One node that has no budget of its own.
    pub node: NodeBudget,
    /// One loop of the workflow (`loop:` in the policy file).
    pub loops: LoopBudget,
    /// Everything that one user message sets off.
    pub message: MessageBudget,
}

impl Default for Budgets {
    fn default() -> Self {
        Budgets {
            mode: Mode::Staged,
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
    /// Active time: pauses and waiting for a person do not count.
    pub runtime_ms: Limit,
    /// Time since the start, pauses included.
    pub wall_ms: Limit,
    /// Turns.
    pub turns: Limit,
    /// Answers of the model.
    pub iterations: Limit,
    /// Tokens in and out.
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
    /// How long a turn may take.
    pub timeout_ms: Limit,
    /// Tokens of one turn.
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
    /// Turns of one node.
    pub turns: Limit,
    /// Whether the operator wrote `turns`. If not, a node inside a loop may use
    /// max(`turns`, loop iterations + 1), because each iteration costs it a turn.
    pub turns_set: bool,
    /// Active time of one node.
    pub runtime_ms: Limit,
}

impl Default for NodeBudget {
    fn default() -> Self {
        NodeBudget { turns: Some(6), turns_set: false, runtime_ms: None }
    }
}

impl NodeBudget {
    /// The turns of a node inside a loop with this many iterations (`None` = no limit).
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

/// The budget of what one user message sets off.
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

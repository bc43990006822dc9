//! Limits on time, turns, tokens and cost, for a session, a turn, a node, a loop and a message.

use super::guard_mode::{GuardMode, HOUR_MS, Limit, MINUTE_MS, widen_in_loop};
use super::settings::StricterDirection::Less;
use super::settings::{
    AMOUNT_RANGE, COUNT_RANGE, Cost, Count, Duration, HoldsInLoops, Nested, PERCENT_RANGE, Word, settings,
};

settings! {
    /// Limits on time, turns, tokens and cost. `off` means no limit.
    pub struct Budgets: "BudgetsFile" {
        /// Action when a budget is used up.
        mode: GuardMode = GuardMode::Staged => Word;
        /// Percentage of a budget at which warnings start.
        warn_percent: Limit = Some(80) => Count(PERCENT_RANGE, Less), in Strict => Some(80);
        /// Budget of the whole session.
        session: SessionBudget = SessionBudget::default() => Nested;
        /// Budget of one turn.
        turn: TurnBudget = TurnBudget::default() => Nested;
        /// Budget of one node.
        node: NodeBudget = NodeBudget::default() => Nested;
        /// Budget of one loop of the workflow.
        loops as "loop": LoopBudget = LoopBudget::default() => Nested;
        /// Budget of the work that one user message triggers.
        message: MessageBudget = MessageBudget::default() => Nested;
    }
}

settings! {
    /// The budget of a session.
    pub struct SessionBudget: "SessionFile" {
        /// Active time, not counting pauses and time spent waiting for a person.
        runtime_ms as "runtime": Limit = Some(4 * HOUR_MS) => Duration(Less), in Off => None;
        /// Wall-clock time since the start, including pauses.
        wall_ms as "wall": Limit = None => Duration(Less);
        /// Turns.
        turns: Limit = None => Count(COUNT_RANGE, Less);
        /// Model responses; tool calls of the next one are blocked.
        iterations: Limit = None => Count(COUNT_RANGE, Less);
        /// Input and output tokens.
        tokens: Limit = None => Count(AMOUNT_RANGE, Less);
        /// Cost.
        cost_micro_usd as "cost_usd": Limit = None => Cost(Less);
        /// Tool calls.
        tool_calls: Limit = None => Count(COUNT_RANGE, Less);
    }
}

settings! {
    /// The budget of one turn.
    pub struct TurnBudget: "TurnFile" {
        /// Maximum duration of a turn.
        timeout_ms as "timeout": Limit = Some(10 * MINUTE_MS) => Duration(Less), in Off => None;
        /// Tokens in one turn.
        tokens: Limit = None => Count(AMOUNT_RANGE, Less);
    }
}

settings! {
    /// The budget of one node.
    pub struct NodeBudget: "NodeBudgetFile" {
        /// Turns in one node. Default: 6; inside a loop at least iterations + 1, unless set explicitly.
        turns: Limit = Some(6) => Count(COUNT_RANGE, Less), in Agent => None, in Strict => Some(4), in Off => None;
        /// Whether the limit also applies inside loops that the workflow declares. If not, it is raised there to fit the
        /// loop budget. Default: true if the limit is set explicitly, otherwise false.
        turns_set as "holds_in_loops": bool = false => HoldsInLoops("turns");
        /// Active time in one node.
        runtime_ms as "runtime": Limit = None => Duration(Less);
    }
}

impl NodeBudget {
    /// Turns of a node inside a loop with this many iterations (`None` = no limit).
    pub fn turns_in_loop(&self, iterations: Limit) -> Limit {
        widen_in_loop(self.turns, self.turns_set, iterations.map(|iterations| iterations.saturating_add(1)))
    }
}

settings! {
    /// The budget of one loop.
    pub struct LoopBudget: "LoopFile" {
        /// Complete iterations.
        iterations: Limit = Some(8) => Count(COUNT_RANGE, Less), in Off => None;
        /// Active time inside the loop.
        runtime_ms as "runtime": Limit = None => Duration(Less);
        /// Cost.
        cost_micro_usd as "cost_usd": Limit = None => Cost(Less);
    }
}

settings! {
    /// The budget of the work that one user message triggers.
    pub struct MessageBudget: "MessageFile" {
        /// Transitions until the next message.
        transitions: Limit = Some(25) => Count(COUNT_RANGE, Less), in Agent => None, in Strict => Some(12), in Off => None;
        /// Tool calls until the next message.
        tool_calls: Limit = None => Count(COUNT_RANGE, Less);
    }
}

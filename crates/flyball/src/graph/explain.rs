//! Explains which limits determine a bound.

use super::reachability::{LimitKind, LimitedGraph};
use crate::units::exact_duration;

/// Describes the limits of a field.
pub(super) struct LimitExplainer<'a> {
    pub limited: &'a LimitedGraph,
}

impl LimitExplainer<'_> {
    /// A minimal set of limits that gives this value on its own.
    pub(super) fn binding_limits(
        &self,
        rules: &[LimitKind],
        value: u64,
        compute: impl Fn(&LimitedGraph) -> Option<u64>,
    ) -> Vec<LimitKind> {
        let mut field = self.limited.clone();
        let mut binding = Vec::new();
        for &rule in rules.iter().filter(|&&r| self.is_set(r)) {
            let without = field.without(rule);
            if compute(&without) == Some(value) {
                field = without;
            } else {
                binding.push(rule);
            }
        }
        binding.reverse();
        binding
    }

    fn is_set(&self, rule: LimitKind) -> bool {
        let field = self.limited;
        match rule {
            LimitKind::Cycle => field.cycle.is_some(),
            LimitKind::NodeTurns => field.turns.iter().any(Option::is_some),
            LimitKind::Visits => field.visits.iter().any(Option::is_some),
            LimitKind::LoopIterations => field.iterations.is_some() && !field.parents.is_empty(),
            LimitKind::Transitions => field.edges.iter().any(|a| a.limit.is_some()),
            LimitKind::LoopRuntime => field.loop_runtime.is_some(),
            LimitKind::NodeRuntime => field.node_runtime.is_some(),
            LimitKind::LoopCost => field.loop_cost.is_some(),
            LimitKind::SessionTurns => field.session_turns.is_some(),
            LimitKind::TotalTransitions => field.total_transitions.is_some(),
            LimitKind::MessageTransitions => field.message_transitions.is_some(),
            LimitKind::SessionCost => field.session_cost.is_some(),
        }
    }

    pub(super) fn describe_all(&self, rules: &[LimitKind]) -> String {
        let each: Vec<String> = rules.iter().map(|&r| self.describe(r)).collect();
        match each.as_slice() {
            [] => String::new(),
            [one] => one.clone(),
            [first @ .., last] => format!("{} and {last}", first.join(", ")),
        }
    }

    fn describe(&self, rule: LimitKind) -> String {
        let field = self.limited;
        let count = |limit: Option<u64>, what: &str| format!("{} {what}", limit.unwrap_or(0));
        let time = |limit: Option<u64>, what: &str| format!("{} {what}", exact_duration(limit.unwrap_or(0)));
        let money = |limit: Option<u64>, what: &str| format!("{} {what}", format_dollars(limit.unwrap_or(0)));
        match rule {
            LimitKind::Cycle => "the cycle rule".to_owned(),
            LimitKind::NodeTurns => match common_limit(&field.turns) {
                Some(turns) => format!("{turns} turns per node"),
                None => "the turn limits of the nodes".to_owned(),
            },
            LimitKind::Visits => match common_limit(&field.visits) {
                Some(visits) => format!("{visits} visits per node"),
                None => "the visit limits of the nodes".to_owned(),
            },
            LimitKind::Transitions => {
                let each: Vec<Option<u64>> = field.edges.iter().map(|a| a.limit).collect();
                match common_limit(&each) {
                    Some(most) => format!("{most} transitions per edge"),
                    None => "the transition limits of the edges".to_owned(),
                }
            }
            LimitKind::LoopIterations => count(field.iterations, "iterations per loop"),
            LimitKind::SessionTurns => count(field.session_turns, "turns per session"),
            LimitKind::TotalTransitions => count(field.total_transitions, "transitions per session"),
            LimitKind::MessageTransitions => count(field.message_transitions, "transitions per user message"),
            LimitKind::NodeRuntime => time(field.node_runtime, "of runtime per node"),
            LimitKind::LoopRuntime => time(field.loop_runtime, "of runtime per loop"),
            LimitKind::SessionCost => money(field.session_cost, "per session"),
            LimitKind::LoopCost => money(field.loop_cost, "per loop"),
        }
    }
}

/// The limit shared by all, if they are equal.
fn common_limit(limits: &[Option<u64>]) -> Option<u64> {
    let first = *limits.first()?;
    first.filter(|_| limits.iter().all(|&l| l == first))
}

/// Micro-dollars as dollars, exactly, with two digits or as many as it takes.
pub(super) fn format_dollars(micro: u64) -> String {
    let digits = format!("{:06}", micro % 1_000_000);
    let kept = digits.trim_end_matches('0').len().max(2);
    format!("${}.{}", micro / 1_000_000, digits.get(..kept).unwrap_or(&digits))
}

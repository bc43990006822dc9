//! Says in plain words which limits make a bound what it is.

use super::reach::{Field, Rule};

/// Names the limits of a field.
pub(super) struct Words<'a> {
    pub field: &'a Field,
}

impl Words<'_> {
    /// A smallest set of limits that alone gives this value.
    pub(super) fn binding(
        &self,
        rules: &[Rule],
        value: u64,
        compute: impl Fn(&Field) -> Option<u64>,
    ) -> Vec<Rule> {
        let mut field = self.field.clone();
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

    fn is_set(&self, rule: Rule) -> bool {
        let field = self.field;
        match rule {
            Rule::Cycle => field.cycle.is_some(),
            Rule::NodeTurns => field.turns.iter().any(Option::is_some),
            Rule::Visits => field.visits.iter().any(Option::is_some),
            Rule::LoopIterations => field.iterations.is_some() && !field.parents.is_empty(),
            Rule::Transitions => field.arcs.iter().any(|a| a.limit.is_some()),
            Rule::LoopRuntime => field.loop_runtime.is_some(),
            Rule::NodeRuntime => field.node_runtime.is_some(),
            Rule::LoopCost => field.loop_cost.is_some(),
            Rule::SessionTurns => field.session_turns.is_some(),
            Rule::TotalTransitions => field.total_transitions.is_some(),
            Rule::MessageTransitions => field.message_transitions.is_some(),
            Rule::SessionCost => field.session_cost.is_some(),
        }
    }

    pub(super) fn phrases(&self, rules: &[Rule]) -> String {
        let each: Vec<String> = rules.iter().map(|&r| self.phrase(r)).collect();
        match each.as_slice() {
            [] => String::new(),
            [one] => one.clone(),
            [first @ .., last] => format!("{} and {last}", first.join(", ")),
        }
    }

    fn phrase(&self, rule: Rule) -> String {
        let field = self.field;
        let count = |limit: Option<u64>, what: &str| format!("{} {what}", limit.unwrap_or(0));
        let time = |limit: Option<u64>, what: &str| format!("{} {what}", duration(limit.unwrap_or(0)));
        let money = |limit: Option<u64>, what: &str| format!("{} {what}", dollars(limit.unwrap_or(0)));
        match rule {
            Rule::Cycle => "the cycle rule".to_owned(),
            Rule::NodeTurns => match same(&field.turns) {
                Some(turns) => format!("{turns} turns a node"),
                None => "the turn limits of the nodes".to_owned(),
            },
            Rule::Visits => match same(&field.visits) {
                Some(visits) => format!("{visits} visits a node"),
                None => "the visit limits of the nodes".to_owned(),
            },
            Rule::Transitions => {
                let each: Vec<Option<u64>> = field.arcs.iter().map(|a| a.limit).collect();
                match same(&each) {
                    Some(most) => format!("{most} transitions an edge"),
                    None => "the transition limits of the edges".to_owned(),
                }
            }
            Rule::LoopIterations => count(field.iterations, "iterations a loop"),
            Rule::SessionTurns => count(field.session_turns, "turns a session"),
            Rule::TotalTransitions => count(field.total_transitions, "transitions a session"),
            Rule::MessageTransitions => count(field.message_transitions, "transitions for one user message"),
            Rule::NodeRuntime => time(field.node_runtime, "of runtime a node"),
            Rule::LoopRuntime => time(field.loop_runtime, "of runtime a loop"),
            Rule::SessionCost => money(field.session_cost, "a session"),
            Rule::LoopCost => money(field.loop_cost, "a loop"),
        }
    }
}

/// The limit that all share.
fn same(limits: &[Option<u64>]) -> Option<u64> {
    let first = *limits.first()?;
    first.filter(|_| limits.iter().all(|&l| l == first))
}

/// Milliseconds as people say them, exactly.
pub(super) fn duration(ms: u64) -> String {
    match ms {
        0 => "0 ms".to_owned(),
        _ if ms.is_multiple_of(3_600_000) => format!("{} h", ms / 3_600_000),
        _ if ms.is_multiple_of(60_000) => format!("{} min", ms / 60_000),
        _ if ms.is_multiple_of(1_000) => format!("{} s", ms / 1_000),
        _ => format!("{ms} ms"),
    }
}

/// Micro-dollars as dollars, exactly, with two digits or as many as it takes.
pub(super) fn dollars(micro: u64) -> String {
    let digits = format!("{:06}", micro % 1_000_000);
    let kept = digits.trim_end_matches('0').len().max(2);
    format!("${}.{}", micro / 1_000_000, digits.get(..kept).unwrap_or(&digits))
}

//! Worst-case length of a run: the maximum number of turns, transitions, milliseconds and micro-dollars before a limit
//! stops it without human intervention, or a path on which nothing does.
//!
//! Model of a run: it starts with a turn on an entry node, followed by any mix of retries (another turn on the same
//! node, which is a visit) and accepted transitions along edges, each followed by a turn. A denied request does not
//! count; if the turn after a transition is denied, the run is over. Only turns consume time and money, and those
//! limits are checked before a turn starts. The bounds hold for every such run; for graphs small enough for an
//! exhaustive search, turns and transitions are exact.

use serde::Serialize;

use super::explain::LimitExplainer;
use super::longest_walk::{find_unlimited_cycle, longest_walk};
use super::loops::find_loops;
use super::reachability::{LimitKind, LimitedGraph, Reachability, min_limit};
use super::walk_search::{SearchResult, search_walks};
use super::workflow_limits::WorkflowLimits;
use super::{Workflow, display_name};
use crate::units::exact_duration;

/// Maximum number of transitions in the exhaustive search, before the flow bound is used instead.
const SEARCH_BUDGET: u64 = 40_000;
/// Maximum length of a name in an explanation, in characters.
const MAX_SHOWN_NAME_CHARS: usize = 40;

/// Worst case of one quantity.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "bound")]
pub enum WorstCaseBound {
    /// No run takes more.
    AtMost {
        /// The bound.
        value: u64,
        /// The limits that determine it, as text.
        because: String,
    },
    /// Some run never ends.
    Unbounded {
        /// The missing limit, as text.
        because: String,
        /// Names of the nodes on the path; if the path ends in a cycle, the last name occurs twice. Empty if every path
        /// is an example.
        path: Vec<String>,
    },
}

impl WorstCaseBound {
    /// The bound, if there is one.
    pub fn value(&self) -> Option<u64> {
        match self {
            WorstCaseBound::AtMost { value, .. } => Some(*value),
            WorstCaseBound::Unbounded { .. } => None,
        }
    }
}

/// Worst case of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct WorstCaseBounds {
    /// Number of turns started.
    pub turns: WorstCaseBound,
    /// Number of transitions accepted.
    pub transitions: WorstCaseBound,
    /// Milliseconds spent in turns.
    pub runtime_ms: WorstCaseBound,
    /// Micro-dollars spent, excluding the turn that crosses the limit.
    pub cost_micro_usd: WorstCaseBound,
}

/// Worst case of a run through `workflow` under `limits`.
pub fn worst_case_bounds(workflow: &Workflow, limits: &WorkflowLimits) -> WorstCaseBounds {
    worst_case_bounds_with_budget(workflow, limits, SEARCH_BUDGET)
}

/// [`worst_case_bounds`] with a given search budget; 0 = flow bound only.
pub(super) fn worst_case_bounds_with_budget(
    workflow: &Workflow,
    limits: &WorkflowLimits,
    budget: u64,
) -> WorstCaseBounds {
    if let Err(error) = workflow.validate() {
        let because = format!("the workflow is invalid: {}", error.message());
        let path = Vec::new();
        let no = WorstCaseBound::Unbounded { because, path };
        return WorstCaseBounds {
            turns: no.clone(),
            transitions: no.clone(),
            runtime_ms: no.clone(),
            cost_micro_usd: no,
        };
    }
    let found = find_loops(workflow);
    let field = LimitedGraph::new(workflow, &found, limits);
    let worst = BoundsCalculator { reach: Reachability::new(&field), budget, limited: field };
    worst.compute()
}

/// Maximum transitions by flow and by the limits on the whole run.
fn transitions(limited: &LimitedGraph) -> Option<u64> {
    let by_graph = longest_walk(limited, &Reachability::new(limited)).ok();
    min_limit(by_graph, limited.step_limit())
}

/// Maximum turns by the limits of the nodes on the path and by the limits on the whole run.
fn turns(limited: &LimitedGraph) -> Option<u64> {
    let reach = Reachability::new(limited);
    let all = |nodes: &[usize]| sum(nodes.iter().map(|&n| limited.turns_on(n)));
    let chain = reach.heaviest_chain(limited, all).ok();
    min_limit(min_limit(chain, max_turns_by_steps(limited, &reach)), limited.session_turns)
}

/// Maximum turns within a number of transitions: they pass at most one node more, at worst those with the most turns.
fn max_turns_by_steps(limited: &LimitedGraph, reach: &Reachability) -> Option<u64> {
    let steps = usize::try_from(limited.step_limit()?).ok()?;
    let each: Option<Vec<u64>> = reach.nodes().map(|n| limited.turns_on(n)).collect();
    let mut each = each?;
    each.sort_unstable_by(|a, b| b.cmp(a));
    sum(each.into_iter().take(steps.saturating_add(1)).map(Some))
}

/// Maximum transitions and turns: by flow, and exact if the exhaustive search completes.
fn max_transitions_and_turns(limited: &LimitedGraph, budget: u64) -> (Option<u64>, Option<u64>) {
    let (transitions, turns) = (transitions(limited), turns(limited));
    let goal = transitions.map(|transitions| SearchResult { transitions, turns });
    let exact = search_walks(limited, &Reachability::new(limited), goal, budget);
    (
        min_limit(transitions, exact.map(|found| found.transitions)),
        min_limit(turns, exact.and_then(|found| found.turns)),
    )
}

/// Maximum milliseconds, given the maximum turns.
fn runtime(limited: &LimitedGraph, turns: Option<u64>) -> Option<u64> {
    let timeout = limited.turn_timeout?;
    // Time limits are checked before a turn, so the last turn may exceed them.
    let past = |limit: Option<u64>| limit.and_then(|ms| ms.checked_add(timeout));
    let node = |n: usize| {
        let by_turns = limited.turns_on(n).and_then(|turns| turns.checked_mul(timeout));
        min_limit(by_turns, past(limited.node_runtime))
    };
    let reach = Reachability::new(limited);
    let around = past(limited.loop_runtime);
    let weigh = |nodes: &[usize]| sum_nested_loops(limited, nodes, node, around);
    let chain = reach.heaviest_chain(limited, weigh).ok();
    let by_turns = turns.and_then(|turns| turns.checked_mul(timeout));
    min_limit(min_limit(chain, by_turns), past(limited.session_runtime))
}

/// Maximum micro-dollars, excluding the turn that crosses a limit.
fn cost(limited: &LimitedGraph) -> Option<u64> {
    let reach = Reachability::new(limited);
    let weigh = |nodes: &[usize]| sum_nested_loops(limited, nodes, |_| None, limited.loop_cost);
    min_limit(reach.heaviest_chain(limited, weigh).ok(), limited.session_cost)
}

/// Total weight of the nodes if each enclosing loop weighs at most `around`.
fn sum_nested_loops(
    limited: &LimitedGraph,
    nodes: &[usize],
    node: impl Fn(usize) -> Option<u64>,
    around: Option<u64>,
) -> Option<u64> {
    let mut open = Some(0);
    let mut inside: Vec<Option<u64>> = vec![Some(0); limited.parents.len()];
    for &n in nodes {
        let place = limited.innermost[n].map_or(&mut open, |l| &mut inside[l]);
        *place = sum([*place, node(n)]);
    }
    // Inner loops come after outer ones, so in reverse order each is complete when it is added.
    for number in (0..inside.len()).rev() {
        let own = min_limit(inside[number], around);
        let place = limited.parents[number].map_or(&mut open, |l| &mut inside[l]);
        *place = sum([*place, own]);
    }
    open
}

fn sum(values: impl IntoIterator<Item = Option<u64>>) -> Option<u64> {
    let mut sum = 0u64;
    for value in values {
        sum = sum.checked_add(value?)?;
    }
    Some(sum)
}

struct BoundsCalculator {
    limited: LimitedGraph,
    reach: Reachability,
    budget: u64,
}

impl BoundsCalculator {
    fn compute(&self) -> WorstCaseBounds {
        let (transitions, turns) = max_transitions_and_turns(&self.limited, self.budget);
        WorstCaseBounds {
            turns: self.turns(turns),
            transitions: self.transitions(transitions),
            runtime_ms: self.runtime(turns),
            cost_micro_usd: self.cost(),
        }
    }

    fn transitions(&self, most: Option<u64>) -> WorstCaseBound {
        const RULES: &[LimitKind] = &[
            LimitKind::Cycle,
            LimitKind::NodeTurns,
            LimitKind::Visits,
            LimitKind::LoopIterations,
            LimitKind::Transitions,
            LimitKind::SessionTurns,
            LimitKind::TotalTransitions,
            LimitKind::MessageTransitions,
        ];
        if let Some(value) = most {
            return self.at_most(value, RULES, |field| max_transitions_and_turns(field, self.budget).0);
        }
        let part = longest_walk(&self.limited, &self.reach).err();
        let nodes = part.and_then(|p| self.reach.components.get(p));
        let circle = nodes
            .and_then(|nodes| find_unlimited_cycle(&self.limited, &self.reach, nodes))
            .unwrap_or_default();
        let round: Vec<String> = circle.iter().map(|&n| self.name(n)).collect();
        let mut path = circle.first().map_or_else(Vec::new, |&n| self.reach.shortest_path(n));
        path.extend(circle.iter().skip(1));
        WorstCaseBound::Unbounded {
            because: format!("nothing limits the iterations of {}", round.join(" → ")),
            path: self.names(&path),
        }
    }

    fn turns(&self, most: Option<u64>) -> WorstCaseBound {
        const RULES: &[LimitKind] = &[
            LimitKind::Cycle,
            LimitKind::TotalTransitions,
            LimitKind::MessageTransitions,
            LimitKind::LoopIterations,
            LimitKind::Transitions,
            LimitKind::NodeTurns,
            LimitKind::Visits,
            LimitKind::SessionTurns,
        ];
        if let Some(value) = most {
            return self.at_most(value, RULES, |field| max_transitions_and_turns(field, self.budget).1);
        }
        let path = self.path_to_unlimited_node();
        let node = path.last().map_or_else(String::new, |&n| self.name(n));
        WorstCaseBound::Unbounded {
            because: format!("node '{node}' can be retried without limit"),
            path: self.names(&path),
        }
    }

    /// Path to the nearest node without a visit limit or a turn limit.
    fn path_to_unlimited_node(&self) -> Vec<usize> {
        let free = self.reach.nodes().filter(|&n| self.limited.turns_on(n).is_none());
        let nearest = free.min_by_key(|&n| (self.reach.distance[n], n));
        nearest.map_or_else(Vec::new, |n| self.reach.shortest_path(n))
    }

    fn runtime(&self, most_turns: Option<u64>) -> WorstCaseBound {
        if let Some(value) = runtime(&self.limited, most_turns) {
            return self.runtime_at_most(value, most_turns);
        }
        if self.limited.turn_timeout.is_none() {
            let start = self.reach.starts.first().copied();
            return WorstCaseBound::Unbounded {
                because: "no turn timeout is set, so one turn can run forever".to_owned(),
                path: self.names(&start.into_iter().collect::<Vec<_>>()),
            };
        }
        let path = self.path_to_unlimited_node();
        let node = path.last().map_or_else(String::new, |&n| self.name(n));
        WorstCaseBound::Unbounded {
            because: format!("node '{node}' can be retried without limit, and no runtime limit stops it"),
            path: self.names(&path),
        }
    }

    fn runtime_at_most(&self, value: u64, most_turns: Option<u64>) -> WorstCaseBound {
        let timeout = exact_duration(self.limited.turn_timeout.unwrap_or(0));
        let over = self.limited.session_runtime.map(|ms| {
            let timeout = self.limited.turn_timeout.unwrap_or(0);
            (ms, ms.checked_add(timeout))
        });
        if let Some((session, over)) = over
            && over == Some(value)
        {
            let session = exact_duration(session);
            let because = format!("{session} of session runtime, plus {timeout} for the turn in progress");
            return WorstCaseBound::AtMost { value, because };
        }
        let by_turns = most_turns.and_then(|t| t.checked_mul(self.limited.turn_timeout?));
        let because = if by_turns == Some(value) {
            format!("{} turns of at most {timeout}", most_turns.unwrap_or(0))
        } else {
            let rules =
                [LimitKind::NodeTurns, LimitKind::Visits, LimitKind::NodeRuntime, LimitKind::LoopRuntime];
            let binding = self.explainer().binding_limits(&rules, value, |f| runtime(f, most_turns));
            format!("{}, and {timeout} per turn", self.explainer().describe_all(&binding))
        };
        WorstCaseBound::AtMost { value, because }
    }

    fn cost(&self) -> WorstCaseBound {
        let Some(value) = cost(&self.limited) else {
            return WorstCaseBound::Unbounded {
                because: "no cost limit is set".to_owned(),
                path: Vec::new(),
            };
        };
        let binding =
            self.explainer().binding_limits(&[LimitKind::LoopCost, LimitKind::SessionCost], value, cost);
        let because = match binding.as_slice() {
            [] => "no turn can start".to_owned(),
            rules => format!("{}, plus the one turn that crosses it", self.explainer().describe_all(rules)),
        };
        WorstCaseBound::AtMost { value, because }
    }

    /// A bound with its explanation.
    fn at_most(
        &self,
        value: u64,
        rules: &[LimitKind],
        compute: impl Fn(&LimitedGraph) -> Option<u64>,
    ) -> WorstCaseBound {
        let words = self.explainer();
        let because = match words.binding_limits(rules, value, compute).as_slice() {
            [] => "no path through the graph is longer".to_owned(),
            binding => words.describe_all(binding),
        };
        WorstCaseBound::AtMost { value, because }
    }

    fn explainer(&self) -> LimitExplainer<'_> {
        LimitExplainer { limited: &self.limited }
    }

    fn name(&self, node: usize) -> String {
        let name = self.limited.names.get(node).map_or("", String::as_str);
        display_name(name, MAX_SHOWN_NAME_CHARS)
    }

    fn names(&self, nodes: &[usize]) -> Vec<String> {
        let names = nodes.iter().filter_map(|&n| self.limited.names.get(n));
        names.cloned().collect()
    }
}

#[cfg(test)]
#[path = "bounds_tests.rs"]
mod tests;

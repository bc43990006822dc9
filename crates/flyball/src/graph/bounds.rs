//! How long a run can last at worst: the most turns, transitions, milliseconds and
//! micro-dollars before a limit stops it when no person acts; or the way on which nothing
//! ever does.
//!
//! What a run is here: it starts with a turn on an entry node; then come, in any mix,
//! retries (another turn on the same node, which is a visit) and accepted transitions along
//! edges, each followed by a turn. A refused act does not count; when the turn after a
//! transition is refused, the run is over. Time and money are spent in turns only, and
//! their limits are asked before a turn starts. The bounds hold for every such run; for
//! graphs small enough to try every walk, turns and transitions are exact.

use serde::Serialize;

use super::explain::{Words, duration};
use super::limits::Limits;
use super::longest::{endless_circle, longest};
use super::loops::loops;
use super::reach::{Field, Reach, Rule, least};
use super::search::{Found, search};
use super::{Workflow, shown};

/// How many transitions the exhaustive search tries before it leaves the answer to the flow.
const SEARCH_BUDGET: u64 = 40_000;
/// How much of a name an explanation shows.
const SHOWN_NAME: usize = 40;

/// The worst case of one quantity.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "bound")]
pub enum Bound {
    /// No run takes more.
    AtMost {
        /// The bound.
        value: u64,
        /// The limits that make it so, in plain words.
        because: String,
    },
    /// Some run goes on for ever.
    Unbounded {
        /// What is missing, in plain words.
        because: String,
        /// The names of nodes on the way there; when the way ends in a circle, the last
        /// name stands in it twice. Empty when every way shows it.
        path: Vec<String>,
    },
}

impl Bound {
    /// The number, if there is one.
    pub fn value(&self) -> Option<u64> {
        match self {
            Bound::AtMost { value, .. } => Some(*value),
            Bound::Unbounded { .. } => None,
        }
    }
}

/// The worst case of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Bounds {
    /// Turns started.
    pub turns: Bound,
    /// Transitions accepted.
    pub transitions: Bound,
    /// Milliseconds spent in turns.
    pub runtime_ms: Bound,
    /// Micro-dollars spent, not counting what the one turn costs that crosses the limit.
    pub cost_micro_usd: Bound,
}

/// The worst case of a run through `workflow` under `limits`.
pub fn bounds(workflow: &Workflow, limits: &Limits) -> Bounds {
    bounds_with(workflow, limits, SEARCH_BUDGET)
}

/// The same with a search as long or short as wanted; 0 = by flow alone.
pub(super) fn bounds_with(workflow: &Workflow, limits: &Limits, budget: u64) -> Bounds {
    if let Err(error) = workflow.validate() {
        let because = format!("the workflow cannot be used: {}", error.what());
        let path = Vec::new();
        let no = Bound::Unbounded { because, path };
        return Bounds {
            turns: no.clone(),
            transitions: no.clone(),
            runtime_ms: no.clone(),
            cost_micro_usd: no,
        };
    }
    let found = loops(workflow);
    let field = Field::new(workflow, &found, limits);
    let worst = Worst { reach: Reach::new(&field), budget, field };
    worst.all()
}

/// Transitions by flow and by the limits on the whole run.
fn transitions(field: &Field) -> Option<u64> {
    let by_graph = longest(field, &Reach::new(field)).ok();
    least(by_graph, field.steps())
}

/// Turns by what each node on the way may have, and by the limits on the whole run.
fn turns(field: &Field) -> Option<u64> {
    let reach = Reach::new(field);
    let all = |nodes: &[usize]| sum(nodes.iter().map(|&n| field.turns_on(n)));
    let chain = reach.heaviest(field, all).ok();
    least(least(chain, few_nodes(field, &reach)), field.session_turns)
}

/// So many transitions pass at most one node more; those with the most turns, at worst.
fn few_nodes(field: &Field, reach: &Reach) -> Option<u64> {
    let steps = usize::try_from(field.steps()?).ok()?;
    let each: Option<Vec<u64>> = reach.nodes().map(|n| field.turns_on(n)).collect();
    let mut each = each?;
    each.sort_unstable_by(|a, b| b.cmp(a));
    sum(each.into_iter().take(steps.saturating_add(1)).map(Some))
}

/// The most transitions and turns: by the flow, and exactly where every walk can be tried.
fn both(field: &Field, budget: u64) -> (Option<u64>, Option<u64>) {
    let (transitions, turns) = (transitions(field), turns(field));
    let goal = transitions.map(|transitions| Found { transitions, turns });
    let exact = search(field, &Reach::new(field), goal, budget);
    (
        least(transitions, exact.map(|found| found.transitions)),
        least(turns, exact.and_then(|found| found.turns)),
    )
}

/// Milliseconds, given the most turns.
fn runtime(field: &Field, turns: Option<u64>) -> Option<u64> {
    let timeout = field.turn_timeout?;
    // A limit on time is asked before a turn, so the last turn may run past it.
    let past = |limit: Option<u64>| limit.and_then(|ms| ms.checked_add(timeout));
    let node = |n: usize| {
        let by_turns = field.turns_on(n).and_then(|turns| turns.checked_mul(timeout));
        least(by_turns, past(field.node_runtime))
    };
    let reach = Reach::new(field);
    let around = past(field.loop_runtime);
    let weigh = |nodes: &[usize]| nested(field, nodes, node, around);
    let chain = reach.heaviest(field, weigh).ok();
    let by_turns = turns.and_then(|turns| turns.checked_mul(timeout));
    least(least(chain, by_turns), past(field.session_runtime))
}

/// Micro-dollars, apart from the turn that crosses a limit.
fn cost(field: &Field) -> Option<u64> {
    let reach = Reach::new(field);
    let weigh = |nodes: &[usize]| nested(field, nodes, |_| None, field.loop_cost);
    least(reach.heaviest(field, weigh).ok(), field.session_cost)
}

/// What the nodes weigh together when each loop around them weighs at most `around`.
fn nested(
    field: &Field,
    nodes: &[usize],
    node: impl Fn(usize) -> Option<u64>,
    around: Option<u64>,
) -> Option<u64> {
    let mut open = Some(0);
    let mut inside: Vec<Option<u64>> = vec![Some(0); field.parents.len()];
    for &n in nodes {
        let place = field.innermost[n].map_or(&mut open, |l| &mut inside[l]);
        *place = sum([*place, node(n)]);
    }
    // Inner loops stand after outer ones, so from the end each is complete when it is added up.
    for number in (0..inside.len()).rev() {
        let own = least(inside[number], around);
        let place = field.parents[number].map_or(&mut open, |l| &mut inside[l]);
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

struct Worst {
    field: Field,
    reach: Reach,
    budget: u64,
}

impl Worst {
    fn all(&self) -> Bounds {
        let (transitions, turns) = both(&self.field, self.budget);
        Bounds {
            turns: self.turns(turns),
            transitions: self.transitions(transitions),
            runtime_ms: self.runtime(turns),
            cost_micro_usd: self.cost(),
        }
    }

    fn transitions(&self, most: Option<u64>) -> Bound {
        const RULES: &[Rule] = &[
            Rule::Cycle,
            Rule::NodeTurns,
            Rule::Visits,
            Rule::LoopIterations,
            Rule::Transitions,
            Rule::SessionTurns,
            Rule::TotalTransitions,
            Rule::MessageTransitions,
        ];
        if let Some(value) = most {
            return self.at_most(value, RULES, |field| both(field, self.budget).0);
        }
        let part = longest(&self.field, &self.reach).err();
        let nodes = part.and_then(|p| self.reach.parts.get(p));
        let circle =
            nodes.and_then(|nodes| endless_circle(&self.field, &self.reach, nodes)).unwrap_or_default();
        let round: Vec<String> = circle.iter().map(|&n| self.name(n)).collect();
        let mut path = circle.first().map_or_else(Vec::new, |&n| self.reach.way(n));
        path.extend(circle.iter().skip(1));
        Bound::Unbounded {
            because: format!("nothing limits how often {} can go round", round.join(" → ")),
            path: self.names(&path),
        }
    }

    fn turns(&self, most: Option<u64>) -> Bound {
        const RULES: &[Rule] = &[
            Rule::Cycle,
            Rule::TotalTransitions,
            Rule::MessageTransitions,
            Rule::LoopIterations,
            Rule::Transitions,
            Rule::NodeTurns,
            Rule::Visits,
            Rule::SessionTurns,
        ];
        if let Some(value) = most {
            return self.at_most(value, RULES, |field| both(field, self.budget).1);
        }
        let path = self.retried_for_ever();
        let node = path.last().map_or_else(String::new, |&n| self.name(n));
        Bound::Unbounded {
            because: format!("node '{node}' can be retried without limit"),
            path: self.names(&path),
        }
    }

    /// The way to the nearest node that has neither a visit limit nor a turn limit.
    fn retried_for_ever(&self) -> Vec<usize> {
        let free = self.reach.nodes().filter(|&n| self.field.turns_on(n).is_none());
        let nearest = free.min_by_key(|&n| (self.reach.distance[n], n));
        nearest.map_or_else(Vec::new, |n| self.reach.way(n))
    }

    fn runtime(&self, most_turns: Option<u64>) -> Bound {
        if let Some(value) = runtime(&self.field, most_turns) {
            return self.runtime_at_most(value, most_turns);
        }
        if self.field.turn_timeout.is_none() {
            let start = self.reach.starts.first().copied();
            return Bound::Unbounded {
                because: "no turn timeout is set, so one turn can run for ever".to_owned(),
                path: self.names(&start.into_iter().collect::<Vec<_>>()),
            };
        }
        let path = self.retried_for_ever();
        let node = path.last().map_or_else(String::new, |&n| self.name(n));
        Bound::Unbounded {
            because: format!("node '{node}' can be retried without limit, and no runtime limit stops it"),
            path: self.names(&path),
        }
    }

    fn runtime_at_most(&self, value: u64, most_turns: Option<u64>) -> Bound {
        let timeout = duration(self.field.turn_timeout.unwrap_or(0));
        let over = self.field.session_runtime.map(|ms| {
            let timeout = self.field.turn_timeout.unwrap_or(0);
            (ms, ms.checked_add(timeout))
        });
        if let Some((session, over)) = over
            && over == Some(value)
        {
            let session = duration(session);
            let because =
                format!("{session} of session runtime, and {timeout} of the turn that is then running");
            return Bound::AtMost { value, because };
        }
        let by_turns = most_turns.and_then(|t| t.checked_mul(self.field.turn_timeout?));
        let because = if by_turns == Some(value) {
            format!("{} turns of at most {timeout}", most_turns.unwrap_or(0))
        } else {
            let rules = [Rule::NodeTurns, Rule::Visits, Rule::NodeRuntime, Rule::LoopRuntime];
            let binding = self.words().binding(&rules, value, |f| runtime(f, most_turns));
            format!("{}, and {timeout} a turn", self.words().phrases(&binding))
        };
        Bound::AtMost { value, because }
    }

    fn cost(&self) -> Bound {
        let Some(value) = cost(&self.field) else {
            return Bound::Unbounded { because: "no cost limit is set".to_owned(), path: Vec::new() };
        };
        let binding = self.words().binding(&[Rule::LoopCost, Rule::SessionCost], value, cost);
        let because = match binding.as_slice() {
            [] => "no turn can start".to_owned(),
            rules => format!("{}, and the one turn that crosses it", self.words().phrases(rules)),
        };
        Bound::AtMost { value, because }
    }

    /// A bound with its reasons.
    fn at_most(&self, value: u64, rules: &[Rule], compute: impl Fn(&Field) -> Option<u64>) -> Bound {
        let words = self.words();
        let because = match words.binding(rules, value, compute).as_slice() {
            [] => "no way through the graph is longer".to_owned(),
            binding => words.phrases(binding),
        };
        Bound::AtMost { value, because }
    }

    fn words(&self) -> Words<'_> {
        Words { field: &self.field }
    }

    fn name(&self, node: usize) -> String {
        let name = self.field.names.get(node).map_or("", String::as_str);
        shown(name, SHOWN_NAME)
    }

    fn names(&self, nodes: &[usize]) -> Vec<String> {
        let names = nodes.iter().filter_map(|&n| self.field.names.get(n));
        names.cloned().collect()
    }
}

#[cfg(test)]
#[path = "bounds_tests.rs"]
mod tests;

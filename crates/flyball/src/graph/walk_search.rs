//! Exhaustive search over all walks of a small graph under all limits at once, so that the bounds of ordinary workflows
//! are exact. Gives up if the graph is too large.

use super::reachability::{LimitedGraph, Reachability, min_limit};
use super::workflow_limits::TrailStep;

/// The longest walk and the maximum number of turns, both exact.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SearchResult {
    pub transitions: u64,
    /// `None` = unlimited.
    pub turns: Option<u64>,
}

/// Represents unlimited turns: more than all limits of the largest graph together.
const UNLIMITED: u64 = u64::MAX >> 12;

/// Give up on walks longer than this.
const MAX_WALK_LENGTH: usize = 500;

/// Tries all walks, with at most `budget` transitions in total. `goal` is a known upper bound: the search stops when it
/// is reached. `None` = too many walks.
pub(super) fn search_walks(
    limited: &LimitedGraph,
    reach: &Reachability,
    goal: Option<SearchResult>,
    budget: u64,
) -> Option<SearchResult> {
    let turns_on = |n| min_limit(limited.turns_on(n), limited.session_turns);
    let mut walk = WalkSearch {
        limited,
        reach,
        weights: (0..limited.names.len()).map(|n| turns_on(n).unwrap_or(UNLIMITED)).collect(),
        entered: vec![0; limited.names.len()],
        arrivals: 0,
        taken: vec![0; limited.edges.len()],
        iterations: vec![0; limited.parents.len()],
        trail: Vec::new(),
        turns: 0,
        best: (0, 0),
        left: budget,
    };
    for &start in &reach.starts {
        walk.explore(start, goal.map(|g| (g.transitions, g.turns.unwrap_or(UNLIMITED))))?;
    }
    let (transitions, turns) = walk.best;
    Some(SearchResult { transitions, turns: Some(turns).filter(|&t| t < UNLIMITED) })
}

struct WalkSearch<'a> {
    limited: &'a LimitedGraph,
    reach: &'a Reachability,
    /// Maximum turns per node. A walk can use them all by retries on its last visit.
    weights: Vec<u64>,
    entered: Vec<u64>,
    /// Arrivals at nodes with turns: each took one, but the last may be denied.
    arrivals: u64,
    taken: Vec<u64>,
    iterations: Vec<u64>,
    trail: Vec<TrailStep>,
    turns: u64,
    /// Transitions and turns.
    best: (u64, u64),
    left: u64,
}

impl WalkSearch<'_> {
    fn explore(&mut self, start: usize, goal: Option<(u64, u64)>) -> Option<()> {
        self.enter(start);
        // For each transition taken: its position among the arcs, and the next one to try.
        let mut open: Vec<(Option<usize>, usize, usize)> = vec![(None, start, 0)];
        while let Some(&(by, node, next)) = open.last() {
            let candidate = self.reach.outgoing[node].get(next).copied();
            let Some(position) = candidate.filter(|_| self.may_continue(node)) else {
                self.leave(node, by);
                open.pop();
                continue;
            };
            if let Some(last) = open.last_mut() {
                last.2 += 1;
            }
            self.left = self.left.checked_sub(1)?;
            if self.trail.len() >= MAX_WALK_LENGTH {
                return None;
            }
            if self.try_edge(position) {
                let to = self.limited.edges[position].to;
                self.enter(to);
                if goal.is_some_and(|g| self.best == g) {
                    break;
                }
                open.push((Some(position), to, 0));
            }
        }
        // Only needed if the search stopped at the goal.
        while let Some((by, node, _)) = open.pop() {
            self.leave(node, by);
        }
        Some(())
    }

    fn enter(&mut self, node: usize) {
        self.entered[node] += 1;
        self.arrivals += u64::from(!self.limited.nodes_without_turns[node]);
        if self.entered[node] == 1 {
            self.turns = self.turns.saturating_add(self.weights[node]);
        }
        let turns = min_limit(Some(self.turns), self.limited.session_turns);
        self.best.1 = self.best.1.max(turns.unwrap_or(0));
        self.best.0 = self.best.0.max(self.trail.len() as u64);
    }

    fn leave(&mut self, node: usize, by: Option<usize>) {
        self.entered[node] -= 1;
        self.arrivals -= u64::from(!self.limited.nodes_without_turns[node]);
        if self.entered[node] == 0 {
            self.turns = self.turns.saturating_sub(self.weights[node]);
        }
        if let Some(position) = by {
            self.taken[position] -= 1;
            self.trail.pop();
            if let Some(closed) = self.limited.edges[position].anchor {
                self.iterations[closed] -= 1;
            }
        }
    }

    /// Whether the turn on this node was allowed and the run may take one more step.
    fn may_continue(&self, node: usize) -> bool {
        let turn_was_refused = self.limited.turns[node].is_some_and(|most| self.entered[node] > most);
        let session_over = self.limited.session_turns.is_some_and(|most| self.arrivals > most);
        let steps = self.trail.len() as u64;
        !turn_was_refused && !session_over && self.limited.transition_limit().is_none_or(|most| steps < most)
    }

    fn try_edge(&mut self, position: usize) -> bool {
        let arc = &self.limited.edges[position];
        let closed = arc.anchor.filter(|_| self.limited.iterations.is_some());
        self.trail.push((arc.from, arc.to));
        let refused = arc.limit.is_some_and(|most| self.taken[position] >= most)
            || self.limited.visits[arc.to].is_some_and(|most| self.entered[arc.to] >= most)
            || closed.is_some_and(|l| Some(self.iterations[l]) >= self.limited.iterations)
            || self.limited.cycle.as_ref().is_some_and(|rule| rule.refuses(&self.trail));
        if refused {
            self.trail.pop();
            return false;
        }
        self.taken[position] += 1;
        if let Some(l) = arc.anchor {
            self.iterations[l] += 1;
        }
        true
    }
}

//! Tries every walk through a small graph under all limits at once, so that the bounds of
//! ordinary workflows are exact. Gives up when the graph is too large for that.

use super::limits::Step;
use super::reach::{Field, Reach, least};

/// The longest walk and the most turns, both exact.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Found {
    pub transitions: u64,
    /// `None` = without limit.
    pub turns: Option<u64>,
}

/// Stands for turns without limit: more than all limits of the largest graph together.
const ENDLESS: u64 = u64::MAX >> 12;

/// A walk this long means that trying them all is hopeless.
const LONGEST_WALK: usize = 500;

/// Tries all walks, at most `budget` transitions in all. `goal` is known to be enough: when
/// it is reached, nothing better can come. `None` = too many walks.
pub(super) fn search(field: &Field, reach: &Reach, goal: Option<Found>, budget: u64) -> Option<Found> {
    let turns_on = |n| least(field.turns_on(n), field.session_turns);
    let mut walk = Walk {
        field,
        reach,
        weights: (0..field.names.len()).map(|n| turns_on(n).unwrap_or(ENDLESS)).collect(),
        entered: vec![0; field.names.len()],
        stood: 0,
        taken: vec![0; field.arcs.len()],
        rounds: vec![0; field.parents.len()],
        trail: Vec::new(),
        turns: 0,
        best: (0, 0),
        left: budget,
    };
    for &start in &reach.starts {
        walk.explore(start, goal.map(|g| (g.transitions, g.turns.unwrap_or(ENDLESS))))?;
    }
    let (transitions, turns) = walk.best;
    Some(Found { transitions, turns: Some(turns).filter(|&t| t < ENDLESS) })
}

struct Walk<'a> {
    field: &'a Field,
    reach: &'a Reach,
    /// Turns that each node can have at most. A walk can use them all up by retries, the
    /// last time it stands there.
    weights: Vec<u64>,
    entered: Vec<u64>,
    /// Arrivals at nodes that have turns: each took one, but the last may be refused.
    stood: u64,
    taken: Vec<u64>,
    rounds: Vec<u64>,
    trail: Vec<Step>,
    turns: u64,
    /// Transitions and turns.
    best: (u64, u64),
    left: u64,
}

impl Walk<'_> {
    fn explore(&mut self, start: usize, goal: Option<(u64, u64)>) -> Option<()> {
        self.enter(start);
        // For each transition taken: its position among the arcs, and the next one to try.
        let mut open: Vec<(Option<usize>, usize, usize)> = vec![(None, start, 0)];
        while let Some(&(by, node, next)) = open.last() {
            let candidate = self.reach.out[node].get(next).copied();
            let Some(position) = candidate.filter(|_| self.may_go_on(node)) else {
                self.leave(node, by);
                open.pop();
                continue;
            };
            if let Some(last) = open.last_mut() {
                last.2 += 1;
            }
            self.left = self.left.checked_sub(1)?;
            if self.trail.len() >= LONGEST_WALK {
                return None;
            }
            if self.take(position) {
                let to = self.field.arcs[position].to;
                self.enter(to);
                if goal.is_some_and(|g| self.best == g) {
                    break;
                }
                open.push((Some(position), to, 0));
            }
        }
        // Only a reached goal leaves something to undo.
        while let Some((by, node, _)) = open.pop() {
            self.leave(node, by);
        }
        Some(())
    }

    fn enter(&mut self, node: usize) {
        self.entered[node] += 1;
        self.stood += u64::from(!self.field.turnless[node]);
        if self.entered[node] == 1 {
            self.turns = self.turns.saturating_add(self.weights[node]);
        }
        let turns = least(Some(self.turns), self.field.session_turns);
        self.best.1 = self.best.1.max(turns.unwrap_or(0));
        self.best.0 = self.best.0.max(self.trail.len() as u64);
    }

    fn leave(&mut self, node: usize, by: Option<usize>) {
        self.entered[node] -= 1;
        self.stood -= u64::from(!self.field.turnless[node]);
        if self.entered[node] == 0 {
            self.turns = self.turns.saturating_sub(self.weights[node]);
        }
        if let Some(position) = by {
            self.taken[position] -= 1;
            self.trail.pop();
            if let Some(closed) = self.field.arcs[position].anchor {
                self.rounds[closed] -= 1;
            }
        }
    }

    /// The turn on this node was not refused, and the whole run may take one more step.
    fn may_go_on(&self, node: usize) -> bool {
        let turn_was_refused = self.field.turns[node].is_some_and(|most| self.entered[node] > most);
        let session_over = self.field.session_turns.is_some_and(|most| self.stood > most);
        let steps = self.trail.len() as u64;
        !turn_was_refused && !session_over && self.field.transitions().is_none_or(|most| steps < most)
    }

    fn take(&mut self, position: usize) -> bool {
        let arc = &self.field.arcs[position];
        let closed = arc.anchor.filter(|_| self.field.iterations.is_some());
        self.trail.push((arc.from, arc.to));
        let refused = arc.limit.is_some_and(|most| self.taken[position] >= most)
            || self.field.visits[arc.to].is_some_and(|most| self.entered[arc.to] >= most)
            || closed.is_some_and(|l| Some(self.rounds[l]) >= self.field.iterations)
            || self.field.cycle.as_ref().is_some_and(|rule| rule.refuses(&self.trail));
        if refused {
            self.trail.pop();
            return false;
        }
        self.taken[position] += 1;
        if let Some(l) = arc.anchor {
            self.rounds[l] += 1;
        }
        true
    }
}

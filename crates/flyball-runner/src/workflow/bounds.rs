//! Worst-case bounds of a run: the limits that the governor enforces on each of its sessions.
//!
//! A run has one main session and one session per parallel branch. A branch starts with a transition out of the fork
//! node, without a turn there, and ends at the join.

use super::{DONE, FAILED, WorkflowPlan, join_of};
use flyball::graph::{Workflow, WorkflowLimits, WorstCaseBound, WorstCaseBounds, worst_case_bounds};
use flyball::policy::Policy;
use std::collections::BTreeSet;

impl WorkflowPlan {
    /// Limits that a policy sets for the sessions of this plan. `route`, `join` and `say` nodes take no turns; neither
    /// do `done` and `failed`.
    #[must_use]
    pub fn limits(&self, policy: &Policy) -> WorkflowLimits {
        let mut limits = WorkflowLimits::from_policy(policy, &self.graph);
        let turnless =
            self.nodes.values().filter(|node| !node.kind.takes_turns()).map(|node| node.name.clone());
        limits.nodes_without_turns.extend(turnless.chain([DONE.to_owned(), FAILED.to_owned()]));
        limits
    }

    /// Worst-case bounds over all sessions, assuming that no person intervenes.
    #[must_use]
    pub fn bounds(&self, policy: &Policy) -> WorstCaseBounds {
        let limits = self.limits(policy);
        let mut worst = worst_case_bounds(&self.graph, &limits);
        for (fork, branches) in self.forks() {
            let mut limits = limits.clone();
            limits.nodes_without_turns.insert(fork.to_owned());
            let branch = worst_case_bounds(&self.branch_graph(fork, branches), &limits);
            let merge = |mine: &mut WorstCaseBound, other: WorstCaseBound| {
                *mine = worse_bound(mine.clone(), other, fork)
            };
            merge(&mut worst.turns, branch.turns);
            merge(&mut worst.transitions, branch.transitions);
            merge(&mut worst.runtime_ms, branch.runtime_ms);
            merge(&mut worst.cost_micro_usd, branch.cost_micro_usd);
        }
        worst
    }

    /// Nodes with parallel branches, each with its branches.
    fn forks(&self) -> impl Iterator<Item = (&str, Vec<&str>)> {
        self.nodes.values().flat_map(|node| {
            let ways = node.common.edges().map(|(_, next)| next.names());
            ways.filter(|branches| branches.len() > 1).map(|branches| (node.name.as_str(), branches))
        })
    }

    /// The part of the graph that a branch session can reach: from the fork to the join.
    fn branch_graph(&self, fork: &str, branches: Vec<&str>) -> Workflow {
        let join = join_of(&self.nodes, &branches);
        let mut names = vec![fork.to_owned()];
        let mut edges: Vec<(Option<String>, String, String)> =
            branches.iter().map(|to| (None, fork.to_owned(), (*to).to_owned())).collect();
        let mut seen: BTreeSet<String> = BTreeSet::new();
        let mut open: Vec<String> = branches.iter().rev().map(|name| (*name).to_owned()).collect();
        while let Some(name) = open.pop() {
            if !seen.insert(name.clone()) {
                continue;
            }
            names.push(name.clone());
            let inside = self.nodes.get(&name).filter(|_| join.as_ref() != Some(&name));
            for to in inside.into_iter().flat_map(|node| node.possible_targets()) {
                edges.push((None, name.clone(), to.clone()));
                open.push(to);
            }
        }
        Workflow { start: Some(fork.to_owned()), ..Workflow::new(names, edges, Vec::new()) }
    }
}

/// Returns the larger bound; a bound from a branch names the fork.
fn worse_bound(own: WorstCaseBound, branch: WorstCaseBound, fork: &str) -> WorstCaseBound {
    let of_branch = |because: String| format!("{because} (in a branch of '{fork}')");
    match (own, branch) {
        (WorstCaseBound::Unbounded { because, path }, _) => WorstCaseBound::Unbounded { because, path },
        (_, WorstCaseBound::Unbounded { because, path }) => {
            WorstCaseBound::Unbounded { because: of_branch(because), path }
        }
        (WorstCaseBound::AtMost { value, .. }, WorstCaseBound::AtMost { value: more, because })
            if more > value =>
        {
            WorstCaseBound::AtMost { value: more, because: of_branch(because) }
        }
        (own, _) => own,
    }
}

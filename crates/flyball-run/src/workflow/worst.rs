//! The worst case of a run: what the governor holds each of its sessions to.
//!
//! A run has a session of its own, and one for each branch that is walked beside others. A branch begins with a step out
//! of the node that branched, without a turn there, and ends at the join.

use super::{DONE, FAILED, Plan, join_of};
use flyball::graph::{Bound, Bounds, Limits, Workflow, bounds};
use flyball::policy::Policy;
use std::collections::BTreeSet;

impl Plan {
    /// What a policy holds its sessions to. Routers, joins and words for people have no turns, nor have the ends.
    #[must_use]
    pub fn limits(&self, policy: &Policy) -> Limits {
        let mut limits = Limits::of(policy, &self.graph);
        let turnless =
            self.nodes.values().filter(|node| !node.work.takes_turns()).map(|node| node.name.clone());
        limits.turnless.extend(turnless.chain([DONE.to_owned(), FAILED.to_owned()]));
        limits
    }

    /// The worst case of each of its sessions, while no person acts.
    #[must_use]
    pub fn bounds(&self, policy: &Policy) -> Bounds {
        let limits = self.limits(policy);
        let mut worst = bounds(&self.graph, &limits);
        for (fork, branches) in self.forks() {
            let mut limits = limits.clone();
            limits.turnless.insert(fork.to_owned());
            let branch = bounds(&self.branches(fork, branches), &limits);
            let beside = |mine: &mut Bound, other: Bound| *mine = worse(mine.clone(), other, fork);
            beside(&mut worst.turns, branch.turns);
            beside(&mut worst.transitions, branch.transitions);
            beside(&mut worst.runtime_ms, branch.runtime_ms);
            beside(&mut worst.cost_micro_usd, branch.cost_micro_usd);
        }
        worst
    }

    /// The nodes that lead to several at once, each with its branches.
    fn forks(&self) -> impl Iterator<Item = (&str, Vec<&str>)> {
        self.nodes.values().flat_map(|node| {
            let ways = node.common.ways().map(|(_, next)| next.names());
            ways.filter(|branches| branches.len() > 1).map(|branches| (node.name.as_str(), branches))
        })
    }

    /// What a session of a branch can walk on: from the node that branched to the join.
    fn branches(&self, fork: &str, branches: Vec<&str>) -> Workflow {
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
            for to in inside.into_iter().flat_map(|node| node.leads_to()) {
                edges.push((None, name.clone(), to.clone()));
                open.push(to);
            }
        }
        Workflow { start: Some(fork.to_owned()), ..Workflow::new(names, edges, Vec::new()) }
    }
}

/// The worse of two cases; that of a branch says whose branch it is.
fn worse(own: Bound, branch: Bound, fork: &str) -> Bound {
    let of_branch = |because: String| format!("{because} (in a branch of '{fork}')");
    match (own, branch) {
        (Bound::Unbounded { because, path }, _) => Bound::Unbounded { because, path },
        (_, Bound::Unbounded { because, path }) => Bound::Unbounded { because: of_branch(because), path },
        (Bound::AtMost { value, .. }, Bound::AtMost { value: more, because }) if more > value => {
            Bound::AtMost { value: more, because: of_branch(because) }
        }
        (own, _) => own,
    }
}

//! Parallel branches and their join.
//!
//! Each branch runs in its own child session, so that a halt stops only that branch. All branches draw on the same
//! budget. When enough have arrived, the rest are cancelled.

use super::executor::{Arrival, WorkflowExecutor, outcome_of_turn};
use super::outcome::{NodeOutcome, NodeStatus, RunStop};
use super::replay_log::ReplayLog;
use crate::process::CancelToken;
use crate::run_error::RunError;
use crate::workflow::spec::{JoinNode, JoinWait, WorkflowDuration};
use crate::workflow::{Node, NodeKind, join_of};
use flyball::{Event, EventKind, Verdict};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// How often a waiting join checks whether the run was cancelled.
const CANCEL_POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Result of a finished branch.
struct FinishedBranch {
    name: String,
    executor: WorkflowExecutor,
    result: Result<Arrival, RunStop>,
}

/// Branches that are still running.
struct RunningBranches {
    running: usize,
    cancels: Vec<CancelToken>,
    finished: mpsc::Receiver<FinishedBranch>,
}

/// Field of the transition to a join that records what the branches did.
pub(super) const JOINED_BRANCHES_FIELD: &str = "met";

/// Outcome of the branches of a join.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct JoinedBranches {
    /// All branches, in file order.
    all: Vec<String>,
    /// Branches that reached the join.
    arrived: Vec<String>,
    /// Whether the join timed out before all required branches arrived.
    #[serde(rename = "late")]
    timed_out: bool,
    /// Number of branches that the join required.
    #[serde(rename = "wanted")]
    required: usize,
    /// Visit number of the fork node; part of the child session names.
    visit: u64,
}

impl WorkflowExecutor {
    /// Runs branches in parallel until enough of them reach the join. Returns the join's name and the arrivals.
    pub(super) fn fork(
        &mut self,
        node: &Node,
        branches: &[String],
    ) -> Result<(String, JoinedBranches), RunStop> {
        let context = Arc::clone(&self.context);
        self.log.flush()?;
        let no_join = || {
            RunError::new(
                "workflow_no_join",
                "the branches have no common join",
                "connect them to one `join` node",
            )
        };
        let join = join_of(&context.plan.nodes, branches).ok_or_else(no_join)?;
        let Some(NodeKind::Join(spec)) = context.plan.nodes.get(&join).map(|node| &node.kind) else {
            return Err(no_join().into());
        };
        // On resume the history knows which branches arrived. The others were cancelled then and stay cancelled.
        let known: Option<JoinedBranches> = self
            .log
            .next_own()
            .and_then(|event| serde_json::from_value(event.extra.get(JOINED_BRANCHES_FIELD)?.clone()).ok());
        let arrived = |name: &&String| known.as_ref().is_none_or(|known| known.arrived.contains(name));
        let walked: Vec<&String> = branches.iter().filter(arrived).collect();
        let visit = self.visits.get(&node.name).copied().unwrap_or(1);
        let (give, take) = mpsc::channel();
        let mut under = RunningBranches { running: walked.len(), cancels: Vec::new(), finished: take };
        for name in walked {
            let mut child = self.child_executor(&format!("{name}.{visit}"))?;
            child.cancel = CancelToken::new();
            under.cancels.push(child.cancel.clone());
            let (give, name, join, from) = (give.clone(), name.clone(), join.clone(), node.name.clone());
            std::thread::spawn(move || {
                let how = child.enter_branch(&from, &name).and_then(|()| child.run_from(&name, Some(&join)));
                let how =
                    how.and_then(|arrival| child.record_session_end(arrival.outcome()).map(|()| arrival));
                // The receiver may be gone; the branch is finished either way.
                let _ = give.send(FinishedBranch { name, executor: child, result: how });
            });
        }
        drop(give);
        let gathered = match known {
            Some(met) => self.replay_branches(branches, met, under),
            None => self.wait_for_branches(spec, branches, visit, under),
        };
        // The branches drew on this session's budget, so the speculative copy is stale.
        self.log.reset_speculation();
        let met = gathered?;
        Ok((join, met))
    }

    /// First transition of a branch.
    fn enter_branch(&mut self, from: &str, to: &str) -> Result<(), RunStop> {
        let kind = EventKind::TransitionRequested { from: from.to_owned(), to: to.to_owned(), edge: None };
        let past = self.request(&Event::new("", kind), ReplayLog::record)?;
        if past.decision.decision >= Verdict::Block {
            return Err(RunStop::Blocked { decision: Box::new(past.decision), alternatives: Vec::new() });
        }
        Ok(())
    }

    /// Waits for as many branches as the join requires. A stopped branch stops the join; a failed branch is just
    /// finished.
    fn wait_for_branches(
        &mut self,
        spec: &JoinNode,
        branches: &[String],
        visit: u64,
        mut under: RunningBranches,
    ) -> Result<JoinedBranches, RunStop> {
        let all = branches.len();
        let wanted = match spec.wait {
            JoinWait::All => all,
            JoinWait::Any => 1,
            JoinWait::Quorum => usize::try_from(spec.count.unwrap_or(1)).unwrap_or(all).clamp(1, all),
        };
        let time = spec.timeout.as_ref().and_then(WorkflowDuration::millis);
        let until = time.map(|millis| Instant::now() + Duration::from_millis(millis));
        let mut came: Vec<FinishedBranch> = Vec::new();
        let mut stop: Option<RunStop> = None;
        let mut late = false;
        while under.running > 0 && came.len() < wanted && !late {
            late = until.is_some_and(|until| Instant::now() >= until);
            if self.cancel.is_cancelled() {
                break;
            }
            let Ok(one) = under.finished.recv_timeout(CANCEL_POLL_INTERVAL) else { continue };
            under.running -= 1;
            match one.result {
                Ok(Arrival::Join) => came.push(one),
                Ok(Arrival::End(_)) => {}
                Err(why) => {
                    stop.get_or_insert(why);
                }
            }
        }
        // No branch keeps working after its join has continued.
        under.cancels.iter().for_each(CancelToken::cancel);
        while under.running > 0 && under.finished.recv().is_ok() {
            under.running -= 1;
        }
        if self.cancel.is_cancelled() && came.len() < wanted {
            return Err(RunStop::Interrupted);
        }
        if let Some(stop) = stop.filter(|_| came.len() < wanted && !late) {
            return Err(stop);
        }
        let late = late && came.len() < wanted;
        let arrived = self.merge_branches(branches, came);
        Ok(JoinedBranches { all: branches.to_vec(), arrived, timed_out: late, required: wanted, visit })
    }

    /// Replays the branches that arrived before the interruption.
    fn replay_branches(
        &mut self,
        branches: &[String],
        met: JoinedBranches,
        under: RunningBranches,
    ) -> Result<JoinedBranches, RunStop> {
        let mut came: Vec<FinishedBranch> = Vec::new();
        while let Ok(one) = under.finished.recv() {
            match one.result {
                Err(stop) => return Err(stop),
                Ok(_) => came.push(one),
            }
        }
        self.merge_branches(branches, came);
        Ok(met)
    }

    /// Merges the results of the branches in file order, independent of arrival order.
    fn merge_branches(&mut self, branches: &[String], mut came: Vec<FinishedBranch>) -> Vec<String> {
        came.sort_by_key(|one| branches.iter().position(|name| *name == one.name));
        let before = self.vars.clone();
        for one in &came {
            self.vars.merge(&before, &one.executor.vars);
            self.log.messages.merge(&one.executor.log.messages);
            for (name, talk) in &one.executor.conversations {
                if self.conversations.get(name) != Some(talk) {
                    self.conversations.insert(name.clone(), talk.clone());
                }
            }
            merge_counts(&mut self.visits, &one.executor.visits);
            merge_counts(&mut self.turns, &one.executor.turns);
        }
        came.into_iter().map(|one| one.name).collect()
    }

    /// Executes the join node.
    pub(super) fn join(&mut self, node: &Node, met: &JoinedBranches) -> Result<NodeOutcome, RunStop> {
        *self.visits.entry(node.name.clone()).or_insert(0) += 1;
        let missing: BTreeSet<&String> = met.all.iter().filter(|name| !met.arrived.contains(name)).collect();
        let status = if met.timed_out {
            NodeStatus::PartialSuccess
        } else if met.arrived.len() < met.required {
            NodeStatus::Failure
        } else {
            NodeStatus::Success
        };
        let kind = EventKind::TurnFinished {
            output: Some(format!("{} of {} branches arrived", met.arrived.len(), met.all.len())),
            structured: Some(json!({"arrived": met.arrived, "missing": missing})),
            duration_ms: None,
        };
        let mut event = Event::new("", kind).node(node.name.clone());
        event.extra.insert("outcome".to_owned(), json!(status));
        let past = self.record_event(event)?;
        // The arrivals are stored now, so the missing branches can be closed for good.
        for name in missing {
            let session = self.child_session(&format!("{name}.{}", met.visit));
            ReplayLog::open(&self.context.sink, &self.context.listener, &session)?.close("abandoned")?;
        }
        Ok(outcome_of_turn(&past.event))
    }
}

/// Raises each count to the larger value.
fn merge_counts(counts: &mut BTreeMap<String, u64>, more: &BTreeMap<String, u64>) {
    for (name, count) in more {
        let own = counts.entry(name.clone()).or_insert(0);
        *own = (*own).max(*count);
    }
}

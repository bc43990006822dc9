//! Executes a plan in one session: runs nodes, measures progress, and requests transitions.

use super::event_sink::RecordedEvent;
use super::fork::{JOINED_BRANCHES_FIELD, JoinedBranches};
use super::outcome::{NodeOutcome, NodeStatus, RunStop};
use super::replay_log::{ReplayLog, must_stop};
use super::run_context::RunContext;
use super::stall::is_stall;
use super::turn::Turn;
use super::vars::TemplateVars;
use crate::nodes;
use crate::process::CancelToken;
use crate::run_error::RunError;
use crate::workflow::spec::{NextNodes, NodeRetry, RetryBackoff, WorkflowDuration};
use crate::workflow::{DONE, FAILED, Node, NodeKind};
use flyball::graph::Workflow;
use flyball::output::OutputLimits;
use flyball::{Decision, Event, EventKind, Usage, Verdict};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Default delays between attempts.
const DEFAULT_INITIAL_BACKOFF_MS: u64 = 5_000;
const DEFAULT_MAX_BACKOFF_MS: u64 = 300_000;

/// Where an execution arrived.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Arrival {
    /// `done` or `failed`.
    End(String),
    /// The join of a branch.
    Join,
}

impl Arrival {
    /// Session outcome for this arrival.
    pub(super) fn outcome(&self) -> &'static str {
        match self {
            Arrival::End(name) if name != DONE => "failure",
            Arrival::End(_) | Arrival::Join => "success",
        }
    }
}

/// Execution of a plan in one session.
pub(crate) struct WorkflowExecutor {
    pub(crate) context: Arc<RunContext>,
    pub(crate) log: ReplayLog,
    pub(crate) vars: TemplateVars,
    /// Number of visits per node.
    pub(crate) visits: BTreeMap<String, u64>,
    /// Number of turns started per node; a visit that is retried has several.
    pub(crate) turns: BTreeMap<String, u64>,
    /// Turns that the parent session had started before this session was created.
    parent_turns: BTreeMap<String, u64>,
    /// Conversations kept between visits, by node.
    pub(crate) conversations: BTreeMap<String, Vec<crate::provider::ChatMessage>>,
    /// Node visited last.
    pub(crate) previous_node: Option<String>,
    /// Failing tests reported by the last gate.
    pub(crate) failing_tests: Option<Vec<String>>,
    /// Provider that replaced the configured one.
    pub(crate) provider_override: Option<String>,
    /// Cancels this execution without affecting sibling branches.
    pub(crate) cancel: CancelToken,
    pub(super) stall_handled: bool,
    /// Released stall that no agent has been briefed about yet.
    pub(crate) last_stall: Option<Box<Decision>>,
    /// Session that stalled, if it is not this one.
    pub(super) briefed_by: Option<String>,
}

impl WorkflowExecutor {
    pub(super) fn new(context: &Arc<RunContext>, log: ReplayLog, vars: TemplateVars) -> Self {
        WorkflowExecutor {
            context: Arc::clone(context),
            log,
            vars,
            visits: BTreeMap::new(),
            turns: BTreeMap::new(),
            parent_turns: BTreeMap::new(),
            conversations: BTreeMap::new(),
            previous_node: None,
            failing_tests: None,
            provider_override: None,
            cancel: context.cancel.clone(),
            stall_handled: false,
            last_stall: None,
            briefed_by: None,
        }
    }

    /// Runs from a node to an end, or to the join of a branch.
    pub(super) fn run_from(&mut self, start: &str, join: Option<&str>) -> Result<Arrival, RunStop> {
        let context = Arc::clone(&self.context);
        let mut at = start.to_owned();
        // Branches that arrived at the current join.
        let mut met: Option<JoinedBranches> = None;
        loop {
            if [DONE, FAILED].contains(&at.as_str()) {
                return Ok(Arrival::End(at));
            }
            if join == Some(at.as_str()) {
                return Ok(Arrival::Join);
            }
            if self.cancel.is_cancelled() {
                return Err(RunStop::Interrupted);
            }
            let node = context.plan.nodes.get(&at).ok_or_else(|| unknown_node(&at))?;
            let outcome = match met.take() {
                Some(met) => self.join(node, &met)?,
                None => self.visit_node(node)?,
            };
            self.vars.record_outcome(&node.name, &outcome);
            if !matches!(node.kind, NodeKind::Route(_)) {
                self.previous_node = Some(node.name.clone());
            }
            self.measure_signals(node)?;
            at = match outcome.to.clone().map_or_else(|| node.next_for(outcome.status), NextNodes::One) {
                NextNodes::One(to) => self.transition(node, &to, None)?,
                NextNodes::Many(branches) => {
                    let (join, branches) = self.fork(node, &branches)?;
                    let to = self.transition(node, &join, Some(&branches))?;
                    met = (to == join).then_some(branches);
                    to
                }
            };
        }
    }

    /// Visits a node, with retries as configured.
    pub(super) fn visit_node(&mut self, node: &Node) -> Result<NodeOutcome, RunStop> {
        *self.visits.entry(node.name.clone()).or_insert(0) += 1;
        if !node.kind.takes_turns() {
            let mut turn = Turn::new(self, node);
            // Nodes without turns have no time limit.
            turn.limit = std::cell::OnceCell::from(None);
            return nodes::run(&mut turn);
        }
        let attempts = node.common.retry.as_ref().map_or(1, |retry| retry.attempts.max(1));
        let mut attempt = 1;
        loop {
            let outcome = self.run_turn(node)?;
            if outcome.status != NodeStatus::Failure || attempt >= attempts {
                return Ok(outcome);
            }
            if let Some(retry) = &node.common.retry {
                self.wait_before_retry(retry, attempt)?;
            }
            attempt += 1;
        }
    }

    /// Runs one turn of a node.
    fn run_turn(&mut self, node: &Node) -> Result<NodeOutcome, RunStop> {
        let started = Event::new("", EventKind::TurnStarted {}).node(node.name.clone());
        let past = self.request(&started, ReplayLog::record)?;
        if past.decision.decision >= Verdict::Block {
            let why = past.decision.feedback.clone().unwrap_or_default();
            return Ok(NodeOutcome::failed(why));
        }
        *self.turns.entry(node.name.clone()).or_insert(0) += 1;
        if let Some(text) = self.log.undelivered_text() {
            self.vars.set("advice", json!(text));
        }
        if let Some(text) = self.stall_briefing()? {
            self.vars.set("stall", json!(text));
        }
        let begun = Instant::now();
        let mut turn = Turn::new(self, node);
        let outcome = match nodes::run(&mut turn) {
            Err(RunStop::Skipped) => {
                NodeOutcome::skipped("a budget interrupted it, and the workflow continues without it")
            }
            other => other?,
        };
        let at_work = begun.elapsed().saturating_sub(turn.waited);
        let duration_ms = u64::try_from(at_work.as_millis()).unwrap_or(u64::MAX);
        let past = self.step(&node.name, "turn.finished", |executor| {
            let guards = executor.context.sink.policy().guards_for_node(&node.name);
            let limits = OutputLimits::from(&guards.large_response);
            let kind = EventKind::TurnFinished {
                output: Some(executor.context.outputs.save_if_over(outcome.output, &limits).text),
                structured: outcome.structured,
                duration_ms: Some(duration_ms),
            };
            let mut event = Event::new("", kind).node(node.name.clone());
            event.extra.insert("outcome".to_owned(), json!(outcome.status));
            event.extra.extend(outcome.to.map(|to| ("to".to_owned(), json!(to))));
            event
        })?;
        Ok(outcome_of_turn(&past.event))
    }

    /// Waits before the next attempt; does not wait during replay.
    fn wait_before_retry(&self, retry: &NodeRetry, attempt: u64) -> Result<(), RunStop> {
        if !self.log.is_live() {
            return Ok(());
        }
        let first =
            retry.initial.as_ref().and_then(WorkflowDuration::millis).unwrap_or(DEFAULT_INITIAL_BACKOFF_MS);
        let most = retry.max.as_ref().and_then(WorkflowDuration::millis).unwrap_or(DEFAULT_MAX_BACKOFF_MS);
        let millis = match retry.backoff {
            RetryBackoff::Fixed => first,
            RetryBackoff::Linear => first.saturating_mul(attempt),
            RetryBackoff::Exponential => first.saturating_mul(1_u64 << (attempt - 1).min(30)),
        };
        if self.cancel.wait_timeout(Duration::from_millis(millis.min(most))) {
            return Err(RunStop::Interrupted);
        }
        Ok(())
    }

    /// Requests a transition. If it is denied, follows `on_refused` or retries after a person intervened.
    fn transition(&mut self, node: &Node, to: &str, met: Option<&JoinedBranches>) -> Result<String, RunStop> {
        let asked = |to: &str| {
            let kind =
                EventKind::TransitionRequested { from: node.name.clone(), to: to.to_owned(), edge: None };
            Event::new("", kind)
        };
        let refused_by = |stop: RunStop| match stop {
            RunStop::Blocked { decision, .. } => {
                let alternatives = node.targets().into_iter().filter(|other| other != to).collect();
                RunStop::Blocked { decision, alternatives }
            }
            other => other,
        };
        let mut event = asked(to);
        // Record which branches arrived: it may differ the next time.
        event.extra.extend(met.map(|met| (JOINED_BRANCHES_FIELD.to_owned(), json!(met))));
        let mut refused: Vec<Value> =
            self.vars.get("refused").and_then(Value::as_array).cloned().unwrap_or_default();
        let other = loop {
            let past = self.request(&event, ReplayLog::speculate).map_err(refused_by)?;
            if past.decision.decision < Verdict::Block {
                if !refused.is_empty() {
                    self.vars.set("refused", json!([]));
                }
                return Ok(to.to_owned());
            }
            // Denied, but the session may continue: take `on_refused`, or retry if a person has intervened. A `decide`
            // node must see which targets are closed.
            refused.push(json!(to));
            self.vars.set("refused", Value::Array(refused.clone()));
            match &node.common.on_refused {
                Some(NextNodes::One(other)) => break other,
                _ if self.log.human_intervened() => {}
                _ => {
                    let alternatives = node.targets().into_iter().filter(|other| other != to).collect();
                    return Err(RunStop::Blocked { decision: Box::new(past.decision), alternatives });
                }
            }
        };
        let past = self.request(&asked(other), ReplayLog::record)?;
        if past.decision.decision >= Verdict::Block {
            return Err(RunStop::Blocked { decision: Box::new(past.decision), alternatives: Vec::new() });
        }
        Ok(other.clone())
    }

    /// Records something that happened, and stops if the session must not continue.
    ///
    /// # Errors
    /// If it cannot be stored, or the session is stopped.
    pub(crate) fn record_event(&mut self, event: Event) -> Result<RecordedEvent, RunStop> {
        let past = self.log.record(event)?;
        self.continue_after(&past)?;
        Ok(past)
    }

    /// Requests permission with [`ReplayLog::record`], or with [`ReplayLog::speculate`] if nothing happens before the next
    /// event. Returns a denial that leaves the session running; requests again after a release.
    ///
    /// # Errors
    /// If it cannot be stored, or the session is stopped.
    pub(crate) fn request(
        &mut self,
        event: &Event,
        record: impl Fn(&mut ReplayLog, Event) -> Result<RecordedEvent, RunStop>,
    ) -> Result<RecordedEvent, RunStop> {
        loop {
            let past = record(&mut self.log, event.clone())?;
            self.continue_after(&past)?;
            if !must_stop(&past.decision) {
                return Ok(past);
            }
        }
    }

    /// Continues after a decision if the session may. Keeps a released stall for the next prompt.
    pub(super) fn continue_after(&mut self, past: &RecordedEvent) -> Result<(), RunStop> {
        if let Err(stop) = self.log.ensure_may_continue(past) {
            self.handle_stall(stop)?;
        }
        if is_stall(&past.decision) {
            self.last_stall = Some(Box::new(past.decision.clone()));
        }
        Ok(())
    }

    /// Name of a child session.
    pub(super) fn child_session(&self, name: &str) -> String {
        format!("{}/{name}", self.log.session())
    }

    /// Executor for a child session.
    pub(super) fn child_executor(&self, name: &str) -> Result<WorkflowExecutor, RunStop> {
        let log = self.open_child_log(name, Some(self.context.plan.graph.clone()), None)?;
        let mut child = WorkflowExecutor::new(&self.context, log, self.vars.clone());
        // Visit counts continue in the child session.
        child.visits.clone_from(&self.visits);
        child.turns.clone_from(&self.turns);
        child.parent_turns.clone_from(&self.turns);
        child.conversations.clone_from(&self.conversations);
        child.log.messages.clone_from(&self.log.messages);
        Ok(child)
    }

    /// Opens the log of a child session with its own graph and policy.
    pub(crate) fn open_child_log(
        &self,
        name: &str,
        workflow: Option<Workflow>,
        policy: Option<Value>,
    ) -> Result<ReplayLog, RunStop> {
        let session = self.child_session(name);
        let mut log = ReplayLog::open(&self.context.sink, &self.context.listener, &session)?;
        let kind = EventKind::SessionStarted {
            policy,
            workflow,
            parent: Some(self.log.session().to_owned()),
            labels: serde_json::Map::new(),
            goal: self.context.plan.goal.clone(),
            reopen: false,
        };
        log.record(Event::new("", kind))?;
        Ok(log)
    }

    /// Remaining visits of a node, as text for a model; `None` without a limit.
    pub(crate) fn remaining_visits_text(&self, node: &str) -> Option<String> {
        let limits = &self.context.limits;
        let of = |limits: &BTreeMap<String, Option<u64>>| limits.get(node).copied().flatten();
        let most = [of(&limits.visits), of(&limits.node_turns)].into_iter().flatten().min()?;
        let turns = self.turns.get(node).copied().unwrap_or(1);
        let here = turns.saturating_sub(self.parent_turns.get(node).copied().unwrap_or(0));
        let left = most.saturating_sub(here);
        Some(format!("This is visit {here} of at most {most}; {left} more allowed after it."))
    }
}

/// Converts provider usage to event usage.
pub(crate) fn event_usage(usage: &crate::provider::ModelUsage) -> Usage {
    Usage {
        tokens_in: usage.tokens_in,
        tokens_out: usage.tokens_out,
        cost_micro_usd: usage.cost_micros.unwrap_or(0),
    }
}

fn unknown_node(name: &str) -> RunError {
    RunError::new(
        "workflow_unknown_target",
        format!("unknown node '{name}'"),
        "run `flyball check` on the workflow file",
    )
}

/// Outcome of a stored turn.
pub(super) fn outcome_of_turn(event: &Event) -> NodeOutcome {
    let EventKind::TurnFinished { output, structured, .. } = &event.kind else {
        return NodeOutcome::failed("");
    };
    let status = event.extra.get("outcome").cloned();
    NodeOutcome {
        status: status.and_then(|status| serde_json::from_value(status).ok()).unwrap_or(NodeStatus::Unclear),
        output: output.clone().unwrap_or_default(),
        structured: structured.clone(),
        to: event.extra.get("to").and_then(Value::as_str).map(str::to_owned),
    }
}

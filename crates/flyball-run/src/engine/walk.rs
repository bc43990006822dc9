//! Walking a plan: visit a node, measure progress, choose the way, ask whether it may be taken.

use super::book::Past;
use super::fork::{MET, Met};
use super::lane::Lane;
use super::stall::is_stall;
use super::stop::{Outcome, Status, Stop};
use super::turn::{TimeLimit, Turn};
use super::vars::Vars;
use super::world::{CutOff, World};
use crate::fail::Failure;
use crate::nodes;
use crate::process::Cancel;
use crate::workflow::spec::{Backoff, Next, Retry, Span};
use crate::workflow::{DONE, FAILED, Node, OnInterrupt, Work};
use flyball::graph::Workflow;
use flyball::output::OutputLimits;
use flyball::{Decision, Event, Kind, Usage, Verdict};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The first wait before a node is tried again, and the longest.
const FIRST_WAIT_MS: u64 = 5_000;
const LONGEST_WAIT_MS: u64 = 300_000;

/// Where a walk came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Arrival {
    /// At `done` or `failed`.
    End(String),
    /// At the join where branches meet.
    Join,
}

impl Arrival {
    /// The outcome of a session that came there.
    pub(super) fn outcome(&self) -> &'static str {
        match self {
            Arrival::End(name) if name != DONE => "failure",
            Arrival::End(_) | Arrival::Join => "success",
        }
    }
}

/// One walk through a plan, in one session.
pub(crate) struct Walk {
    pub(crate) world: Arc<World>,
    pub(crate) lane: Lane,
    pub(crate) vars: Vars,
    /// How often each node was visited.
    pub(crate) visits: BTreeMap<String, u64>,
    /// How many turns each node has begun: a visit has several if it is tried again.
    pub(crate) turns: BTreeMap<String, u64>,
    /// Of these turns, those in the session above.
    before: BTreeMap<String, u64>,
    /// Conversations that are kept from visit to visit, by node.
    pub(crate) talks: BTreeMap<String, Vec<crate::provider::Message>>,
    /// The node that was visited last.
    pub(crate) from: Option<String>,
    /// The failing tests of the last gate.
    pub(crate) failing: Option<Vec<String>>,
    /// A provider that has taken over.
    pub(crate) provider: Option<String>,
    /// Stops this walk, and not its neighbours.
    pub(crate) cancel: Cancel,
    pub(super) stalls_handled: bool,
    /// A stall that the walk went on from, until an agent was told of it.
    pub(crate) stalled: Option<Box<Decision>>,
    /// The session whose stall it is, if it is not this one.
    pub(super) briefed_by: Option<String>,
}

impl Walk {
    pub(super) fn new(world: &Arc<World>, lane: Lane, vars: Vars) -> Self {
        Walk {
            world: Arc::clone(world),
            lane,
            vars,
            visits: BTreeMap::new(),
            turns: BTreeMap::new(),
            before: BTreeMap::new(),
            talks: BTreeMap::new(),
            from: None,
            failing: None,
            provider: None,
            cancel: world.cancel.clone(),
            stalls_handled: false,
            stalled: None,
            briefed_by: None,
        }
    }

    /// Walks from a node to an end, or to the join of a branch.
    pub(super) fn walk(&mut self, start: &str, until: Option<&str>) -> Result<Arrival, Stop> {
        let world = Arc::clone(&self.world);
        let mut at = start.to_owned();
        // Branches that have come to the join where the walk is.
        let mut met: Option<Met> = None;
        loop {
            if [DONE, FAILED].contains(&at.as_str()) {
                return Ok(Arrival::End(at));
            }
            if until == Some(at.as_str()) {
                return Ok(Arrival::Join);
            }
            if self.cancel.is_cancelled() {
                return Err(Stop::Interrupted);
            }
            let node = world.plan.nodes.get(&at).ok_or_else(|| nowhere(&at))?;
            let outcome = match met.take() {
                Some(met) => self.join(node, &met)?,
                None => self.visit(node)?,
            };
            self.vars.visited(&node.name, &outcome);
            if !matches!(node.work, Work::Route(_)) {
                self.from = Some(node.name.clone());
            }
            self.measure(node)?;
            at = match outcome.to.clone().map_or_else(|| node.way(outcome.status), Next::One) {
                Next::One(to) => self.go(node, &to, None)?,
                Next::Many(branches) => {
                    let (join, branches) = self.fork(node, &branches)?;
                    let to = self.go(node, &join, Some(&branches))?;
                    met = (to == join).then_some(branches);
                    to
                }
            };
        }
    }

    /// Visits a node, and again as often as its file allows.
    pub(super) fn visit(&mut self, node: &Node) -> Result<Outcome, Stop> {
        *self.visits.entry(node.name.clone()).or_insert(0) += 1;
        if !node.work.takes_turns() {
            let mut turn = Turn::new(self, node);
            // What takes no turn takes no time.
            turn.limit = std::cell::OnceCell::from(None);
            return nodes::run(&mut turn);
        }
        let attempts = node.common.retry.as_ref().map_or(1, |retry| retry.attempts.max(1));
        let mut attempt = 1;
        loop {
            let outcome = self.turn(node)?;
            if outcome.status != Status::Failure || attempt >= attempts {
                return Ok(outcome);
            }
            if let Some(retry) = &node.common.retry {
                self.wait(retry, attempt)?;
            }
            attempt += 1;
        }
    }

    /// One turn of a node, from its start to its end.
    fn turn(&mut self, node: &Node) -> Result<Outcome, Stop> {
        let started = Event::new("", Kind::TurnStarted {}).node(node.name.clone());
        let past = self.ask(&started)?;
        if past.decision.decision >= Verdict::Block {
            let why = past.decision.feedback.clone().unwrap_or_default();
            return Ok(Outcome::failure(why));
        }
        *self.turns.entry(node.name.clone()).or_insert(0) += 1;
        if let Some(text) = self.lane.undelivered_text() {
            self.vars.set("advice", json!(text));
        }
        if let Some(text) = self.stall_briefing()? {
            self.vars.set("stall", json!(text));
        }
        let begun = Instant::now();
        let mut turn = Turn::new(self, node);
        let outcome = match nodes::run(&mut turn) {
            Err(Stop::Skipped) => {
                Outcome::skipped("a budget cut it short, and the workflow continues without it")
            }
            other => other?,
        };
        let at_work = begun.elapsed().saturating_sub(turn.waited);
        let duration = u64::try_from(at_work.as_millis()).unwrap_or(u64::MAX);
        self.finish(node, outcome, duration)
    }

    /// Tells that a turn is over. What is stored of it is what the walk goes on with.
    fn finish(&mut self, node: &Node, outcome: Outcome, duration_ms: u64) -> Result<Outcome, Stop> {
        // What lies in the past was made to fit then.
        let live = self.lane.is_live();
        let output = if live {
            let guards = self.world.book.policy().guards_for_node(&node.name);
            let limits = OutputLimits::from(&guards.large_response);
            self.world.outputs.fit_within(outcome.output, &limits).text
        } else {
            outcome.output
        };
        let kind = Kind::TurnFinished {
            output: Some(output),
            structured: outcome.structured,
            duration_ms: Some(duration_ms),
        };
        let mut event = Event::new("", kind).node(node.name.clone());
        event.extra.insert("outcome".to_owned(), json!(outcome.status));
        if let Some(to) = &outcome.to {
            event.extra.insert("to".to_owned(), json!(to));
        }
        let past = self.tell(event)?;
        Ok(finished(&past.event))
    }

    /// What becomes of a single step that was cut off by a crash: nothing if it is run (again).
    pub(crate) fn cut_off(&mut self, node: &Node) -> Result<Option<Outcome>, Stop> {
        if !self.lane.was_cut_off() {
            return Ok(None);
        }
        self.world.watcher.note(&format!("'{}' was under way when the run was cut off", node.name));
        match (self.world.cut_off, node.common.on_interrupt) {
            (CutOff::Rerun, _) | (_, Some(OnInterrupt::Repeat)) => Ok(None),
            (_, Some(OnInterrupt::Skip)) => Err(Stop::Skipped),
            _ if node.may_rerun() => Ok(None),
            (CutOff::Skip, _) => Ok(Some(Outcome::failure("it was cut off, and is taken as failed"))),
            (CutOff::Ask, _) => Err(Stop::CutOff { step: node.name.clone() }),
        }
    }

    /// When a turn must be over: after as long as the node says, or as the budgets of time leave it.
    pub(super) fn time_limit(&self, node: &Node) -> Option<TimeLimit> {
        let own = node.common.deadline.as_ref().and_then(Span::millis).map(Duration::from_millis);
        // A store that cannot be read is found out by the next event; until then there is no limit.
        let left = self.world.book.time_left(self.lane.session(), &node.name).unwrap_or_default();
        let by_budget = left.is_some_and(|left| own.is_none_or(|own| left <= own));
        let time = [own, left].into_iter().flatten().min()?;
        Some(TimeLimit { until: Instant::now().checked_add(time)?, by_budget })
    }

    /// Waits before another try, unless that lies in the past.
    fn wait(&self, retry: &Retry, attempt: u64) -> Result<(), Stop> {
        if !self.lane.is_live() {
            return Ok(());
        }
        let first = retry.initial.as_ref().and_then(Span::millis).unwrap_or(FIRST_WAIT_MS);
        let most = retry.max.as_ref().and_then(Span::millis).unwrap_or(LONGEST_WAIT_MS);
        let millis = match retry.backoff {
            Backoff::Fixed => first,
            Backoff::Linear => first.saturating_mul(attempt),
            Backoff::Exponential => first.saturating_mul(1_u64 << (attempt - 1).min(30)),
        };
        if self.cancel.wait(Duration::from_millis(millis.min(most))) {
            return Err(Stop::Interrupted);
        }
        Ok(())
    }

    /// Asks whether a way may be taken, and takes it, or the one for a refusal.
    fn go(&mut self, node: &Node, to: &str, met: Option<&Met>) -> Result<String, Stop> {
        let asked = |to: &str| {
            let kind = Kind::TransitionRequested { from: node.name.clone(), to: to.to_owned(), edge: None };
            Event::new("", kind)
        };
        let refused_by = |stop: Stop| match stop {
            Stop::Blocked { decision, .. } => {
                let alternatives = node.targets().into_iter().filter(|other| other != to).collect();
                Stop::Blocked { decision, alternatives }
            }
            other => other,
        };
        let mut event = asked(to);
        // Which branches arrived is recorded, because it may be others the next time.
        event.extra.extend(met.map(|met| (MET.to_owned(), json!(met))));
        let mut refused: Vec<Value> =
            self.vars.get("refused").and_then(Value::as_array).cloned().unwrap_or_default();
        let other = loop {
            let past = self.ask_ahead(&event).map_err(refused_by)?;
            if past.decision.decision < Verdict::Block {
                if !refused.is_empty() {
                    self.vars.set("refused", json!([]));
                }
                return Ok(to.to_owned());
            }
            // Refused, but the session may go on: another way, or another try if a person has spoken since. Whoever
            // decides there is told which ways are closed.
            refused.push(json!(to));
            self.vars.set("refused", Value::Array(refused.clone()));
            match &node.common.on_refused {
                Some(Next::One(other)) => break other,
                _ if self.lane.encouraged() => {}
                _ => {
                    let alternatives = node.targets().into_iter().filter(|other| other != to).collect();
                    return Err(Stop::Blocked { decision: Box::new(past.decision), alternatives });
                }
            }
        };
        let past = self.ask(&asked(other))?;
        if past.decision.decision >= Verdict::Block {
            return Err(Stop::Blocked { decision: Box::new(past.decision), alternatives: Vec::new() });
        }
        Ok(other.clone())
    }

    /// Something that happened. If the session must not go on, neither does the walk.
    ///
    /// # Errors
    /// If it cannot be stored, or the session is stopped.
    pub(crate) fn tell(&mut self, event: Event) -> Result<Past, Stop> {
        let past = self.lane.record(event)?;
        self.go_on_after(&past)?;
        Ok(past)
    }

    /// Something that is asked for. A refusal that leaves the session running is given back; after a release, it is
    /// asked for again.
    ///
    /// # Errors
    /// If it cannot be stored, or the session is stopped.
    pub(crate) fn ask(&mut self, event: &Event) -> Result<Past, Stop> {
        self.ask_by(event, Lane::record)
    }

    /// The same for a way that may be taken before it is stored: nothing happens on it.
    fn ask_ahead(&mut self, event: &Event) -> Result<Past, Stop> {
        self.ask_by(event, Lane::foresee)
    }

    fn ask_by(
        &mut self,
        event: &Event,
        record: impl Fn(&mut Lane, Event) -> Result<Past, Stop>,
    ) -> Result<Past, Stop> {
        loop {
            let past = record(&mut self.lane, event.clone())?;
            let refused = past.decision.decision >= Verdict::Block;
            let stood = matches!(past.decision.state, flyball::Status::Halted | flyball::Status::Blocked);
            self.go_on_after(&past)?;
            if !(refused && stood) {
                return Ok(past);
            }
        }
    }

    /// Goes on after a decision, if the session may. A stall that a person or the policy has released is kept for the
    /// next prompt.
    fn go_on_after(&mut self, past: &Past) -> Result<(), Stop> {
        if let Err(stop) = self.lane.go_on(past) {
            self.handle(stop)?;
        }
        if is_stall(&past.decision) {
            self.stalled = Some(Box::new(past.decision.clone()));
        }
        Ok(())
    }

    /// The name of a session below this one.
    pub(super) fn below(&self, name: &str) -> String {
        format!("{}/{name}", self.lane.session())
    }

    /// A session below this one.
    pub(super) fn child(&self, name: &str) -> Result<Walk, Stop> {
        let lane = self.lane_below(name, Some(self.world.plan.graph.clone()), None)?;
        let mut walk = Walk::new(&self.world, lane, self.vars.clone());
        // A node is at its second visit there if it was visited here before.
        walk.visits.clone_from(&self.visits);
        walk.turns.clone_from(&self.turns);
        walk.before.clone_from(&self.turns);
        walk.talks.clone_from(&self.talks);
        walk.lane.messages.clone_from(&self.lane.messages);
        Ok(walk)
    }

    /// The events of a session below this one, with a graph and a policy of its own.
    pub(crate) fn lane_below(
        &self,
        name: &str,
        workflow: Option<Workflow>,
        policy: Option<Value>,
    ) -> Result<Lane, Stop> {
        let session = self.below(name);
        let mut lane = Lane::open(&self.world.book, &self.world.watcher, &session)?;
        let kind = Kind::SessionStarted {
            policy,
            workflow,
            parent: Some(self.lane.session().to_owned()),
            labels: serde_json::Map::new(),
            goal: self.world.plan.goal.clone(),
            reopen: false,
        };
        lane.record(Event::new("", kind))?;
        Ok(lane)
    }

    /// What a node may still do, in words for a model; nothing if nothing limits it.
    pub(crate) fn allowance(&self, node: &str) -> Option<String> {
        let limits = &self.world.limits;
        let of = |limits: &BTreeMap<String, Option<u64>>| limits.get(node).copied().flatten();
        let most = [of(&limits.visits), of(&limits.node_turns)].into_iter().flatten().min()?;
        let turns = self.turns.get(node).copied().unwrap_or(1);
        let here = turns.saturating_sub(self.before.get(node).copied().unwrap_or(0));
        let left = most.saturating_sub(here);
        Some(format!("This is visit {here} of at most {most}; {left} more are allowed after it."))
    }
}

/// Tokens and money that an answer took.
pub(crate) fn usage(usage: &crate::provider::Usage) -> Usage {
    Usage {
        tokens_in: usage.tokens_in,
        tokens_out: usage.tokens_out,
        cost_micro_usd: usage.cost_micros.unwrap_or(0),
    }
}

fn nowhere(name: &str) -> Failure {
    Failure::new("workflow_edge_to_nowhere", format!("there is no node '{name}'"), "check the workflow")
}

/// A turn as it is stored.
pub(super) fn finished(event: &Event) -> Outcome {
    let Kind::TurnFinished { output, structured, .. } = &event.kind else {
        return Outcome::failure("");
    };
    let status = event.extra.get("outcome").cloned();
    Outcome {
        status: status.and_then(|status| serde_json::from_value(status).ok()).unwrap_or(Status::Unclear),
        output: output.clone().unwrap_or_default(),
        structured: structured.clone(),
        to: event.extra.get("to").and_then(Value::as_str).map(str::to_owned),
    }
}

//! What is known of a run while it goes on.
//!
//! The counters come from a second fold of the same events through the same governor: what is shown is what decides.
//! Beside it stands what no counter holds: who is at work since when, what was said and printed last.

use super::tail::Tail;
use crate::words::line;
use flyball::{Decision, Event, Kind, LoopReport, Policy, PolicySource, Report, Session, Sessions, Verdict};
use flyball_run::engine::Past;
use std::collections::BTreeMap;

/// A run so far.
pub(super) struct SoFar {
    root: String,
    folded: Sessions,
    lanes: BTreeMap<String, Lane>,
    notable: Option<Decision>,
    started: Option<u64>,
}

/// One session of a run: the run itself, or a branch.
#[derive(Default)]
pub(super) struct Lane {
    /// The node at work, or the last one that was.
    pub(super) node: Option<String>,
    /// When its turn began, while it lasts.
    pub(super) begun: Option<u64>,
    /// The question that it has put to a person.
    pub(super) asks: Option<String>,
    /// What was said last.
    pub(super) said: Option<String>,
    /// What was said to the person since they spoke last.
    to_person: Vec<String>,
    /// The checks of this turn were told one by one.
    pub(super) checked: bool,
    /// The tests that failed when they were last run.
    pub(super) failing: Vec<String>,
    /// What was printed last.
    pub(super) tail: Tail,
    turns: BTreeMap<String, u64>,
    last_at: u64,
}

impl SoFar {
    pub(super) fn new(root: &str, source: PolicySource) -> Self {
        SoFar {
            root: root.to_owned(),
            folded: Sessions::new(source),
            lanes: BTreeMap::new(),
            notable: None,
            started: None,
        }
    }

    /// The session of the run itself.
    pub(super) fn root(&self) -> &str {
        &self.root
    }

    /// Takes an event that was decided upon; gives the loops that it has begun anew.
    pub(super) fn take(&mut self, past: &Past) -> Vec<LoopReport> {
        let Past { event, decision } = past;
        // Only a step from node to node begins a loop anew.
        let moves = matches!(event.kind, Kind::TransitionRequested { .. });
        let before = if moves { self.loops(&event.session) } else { Vec::new() };
        // It was decided upon already; if it could not be here, only the counters shown would stand still.
        let _ = self.folded.step(event);
        if decision.decision > Verdict::Allow {
            self.notable = Some(decision.clone());
        }
        self.started = self.started.or(event.at);
        let lane = self.lanes.entry(event.session.clone()).or_default();
        lane.last_at = event.at.unwrap_or(lane.last_at);
        lane.take(event, decision.decision < Verdict::Block);
        lane.tell_person(past);
        if !moves {
            return Vec::new();
        }
        let known = |id: &str| before.iter().find(|known| known.id == id).map_or(0, |known| known.iterations);
        self.loops(&event.session).into_iter().filter(|now| now.iterations > known(&now.id)).collect()
    }

    /// Takes a piece of output.
    pub(super) fn printed(&mut self, session: &str, text: &str) {
        self.lanes.entry(session.to_owned()).or_default().tail.take(text);
    }

    /// A session with its state and policy.
    pub(super) fn session(&self, name: &str) -> Option<&Session> {
        self.folded.get(name)
    }

    /// A session at a glance.
    pub(super) fn report(&self, name: &str) -> Option<Report> {
        let session = self.folded.get(name)?;
        Some(session.state().report(session.policy()))
    }

    fn loops(&self, name: &str) -> Vec<LoopReport> {
        self.report(name).map(|report| report.loops).unwrap_or_default()
    }

    pub(super) fn lane(&self, name: &str) -> Option<&Lane> {
        self.lanes.get(name)
    }

    /// The sessions whose nodes are at work; the run itself if nobody is.
    pub(super) fn at_work(&self) -> Vec<(&str, &Lane)> {
        let busy: Vec<(&str, &Lane)> = self
            .lanes
            .iter()
            .filter(|(_, lane)| lane.begun.is_some())
            .map(|(name, lane)| (name.as_str(), lane))
            .collect();
        if !busy.is_empty() {
            return busy;
        }
        self.lanes.get_key_value(&self.root).map(|(name, lane)| (name.as_str(), lane)).into_iter().collect()
    }

    /// The session that waits for an answer; the run itself if it is not known.
    pub(super) fn asking(&self) -> &str {
        let awaits = |name: &str| {
            let status = self.folded.get(name).map(|session| session.state().status());
            status == Some(flyball::Status::AwaitingConfirmation)
        };
        let asks = |(name, lane): &(&String, &Lane)| lane.asks.is_some() || awaits(name);
        self.lanes.iter().find(asks).map_or(&self.root, |(name, _)| name)
    }

    /// The last decision that was not simply `allow`.
    pub(super) fn notable(&self) -> Option<&Decision> {
        self.notable.as_ref()
    }

    /// The branch that a session is, as it is marked on its lines; nothing for the run itself.
    pub(super) fn mark(&self, session: &str) -> Option<String> {
        let below = session.strip_prefix(&self.root)?.strip_prefix('/')?;
        Some(format!("[{}]", line(below, 40)))
    }

    /// How often a node was at work, this time included, and how often it may be.
    pub(super) fn turn(&self, session: &str, node: &str) -> (u64, Option<u64>) {
        let turns =
            self.lanes.get(session).and_then(|lane| lane.turns.get(node)).copied().unwrap_or_default();
        let limit = self.folded.get(session).and_then(|found| {
            let in_a_loop =
                self.loops(session).iter().any(|known| known.nodes.iter().any(|name| name == node));
            turns_of(found.policy(), node, in_a_loop)
        });
        (turns, limit)
    }

    /// Time at work up to now, and time since the start.
    pub(super) fn times(&self, now: u64) -> (u64, u64) {
        let since = self.lanes.get(&self.root).map_or(0, |lane| now.saturating_sub(lane.last_at));
        let active = self.folded.get(&self.root).map_or(0, |session| session.state().active_ms());
        (active.saturating_add(since), now.saturating_sub(self.started.unwrap_or(now)))
    }
}

/// The turns that a node may take, as the guard counts them.
fn turns_of(policy: &Policy, node: &str, in_a_loop: bool) -> Option<u64> {
    let budget = policy.budget_for_node(node);
    let turns = if in_a_loop { budget.turns_in_loop(policy.budgets.loops.iterations) } else { budget.turns };
    turns.filter(|_| policy.budgets.mode.is_on())
}

impl Lane {
    /// Whether the person was told a text already, since they spoke last.
    pub(super) fn has_told(&self, text: &str) -> bool {
        let same = |separator: &str| self.to_person.join(separator) == text;
        self.asks.as_deref() == Some(text) || same(" ") || same("\n")
    }

    fn tell_person(&mut self, past: &Past) {
        let event = &past.event;
        match &event.kind {
            Kind::UserMessage { .. } | Kind::PersonMessage { .. } | Kind::ConfirmationAnswered { .. } => {
                self.to_person.clear();
            }
            Kind::AssistantMessage { text, .. } if !event.extra.contains_key("reply") => {
                self.to_person.push(text.clone());
            }
            Kind::QuestionAsked { text } => self.to_person.push(text.clone()),
            _ => {}
        }
        let says = past.decision.effects.iter().filter(|effect| effect.effect == "say");
        self.to_person
            .extend(says.filter_map(|effect| Some(effect.fields.get("text")?.as_str()?.to_owned())));
    }

    fn take(&mut self, event: &Event, accepted: bool) {
        // Whatever comes after a question is its answer, or nobody waits for one any more.
        self.asks = None;
        self.tail.pause();
        match &event.kind {
            Kind::TurnStarted {} if accepted => {
                let node = event.node.clone().unwrap_or_default();
                *self.turns.entry(node.clone()).or_default() += 1;
                self.node = Some(node);
                self.begun = event.at;
                self.checked = false;
                self.said = None;
                self.tail = Tail::default();
            }
            Kind::TurnFinished { .. } => {
                self.begun = None;
                self.node.clone_from(&event.node);
            }
            Kind::TransitionRequested { to, .. } if accepted => self.node = Some(to.clone()),
            Kind::AssistantMessage { text, is_final, .. } => {
                self.said = Some(text.clone());
                let to_a_person = *is_final && !event.extra.contains_key("reply");
                self.asks = (to_a_person && self.begun.is_some()).then(|| text.clone());
            }
            Kind::QuestionAsked { text } => self.asks = Some(text.clone()),
            Kind::Progress { failing: Some(failing), .. } => self.failing.clone_from(failing),
            Kind::GateChecked { checks, .. } => self.checked = !checks.is_empty(),
            _ => {}
        }
    }
}

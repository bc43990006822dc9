//! State of a run while it is running.
//!
//! The counters come from evaluating the same events with the same governor, so the display matches the decisions. The
//! rest is not in the counters: active nodes and their start, the last messages and output.

use super::output_tail::OutputTail;
use crate::formatting::single_line;
use flyball::{
    Decision, Event, EventKind, LoopReport, Policy, PolicySource, Session, SessionReport, Sessions, Verdict,
};
use flyball_runner::engine::RecordedEvent;
use std::collections::BTreeMap;

/// State of a run.
pub(super) struct RunState {
    root: String,
    sessions: Sessions,
    branches: BTreeMap<String, BranchState>,
    last_notable: Option<Decision>,
    started: Option<u64>,
}

/// State of one session of a run: the run itself or a branch.
#[derive(Default)]
pub(super) struct BranchState {
    /// The active node, or the last one.
    pub(super) node: Option<String>,
    /// Start of the current turn.
    pub(super) turn_started_at: Option<u64>,
    /// The question it asks a person.
    pub(super) question: Option<String>,
    /// The last message.
    pub(super) last_message: Option<String>,
    /// Messages to the person since their last input.
    messages_to_person: Vec<String>,
    /// The checks of this turn were printed one by one.
    pub(super) checks_printed: bool,
    /// The tests that failed in the last run of the tests.
    pub(super) failing_tests: Vec<String>,
    /// The last lines of output.
    pub(super) tail: OutputTail,
    turns: BTreeMap<String, u64>,
    last_at: u64,
}

impl RunState {
    pub(super) fn new(root: &str, source: PolicySource) -> Self {
        RunState {
            root: root.to_owned(),
            sessions: Sessions::new(source),
            branches: BTreeMap::new(),
            last_notable: None,
            started: None,
        }
    }

    /// The session of the run itself.
    pub(super) fn root(&self) -> &str {
        &self.root
    }

    /// Adds a decided event; returns the loops that started another iteration.
    pub(super) fn push(&mut self, recorded: &RecordedEvent) -> Vec<LoopReport> {
        let RecordedEvent { event, decision } = recorded;
        // Only a transition can start another iteration.
        let moves = matches!(event.kind, EventKind::TransitionRequested { .. });
        let before = if moves { self.loop_reports(&event.session) } else { Vec::new() };
        // The event was already accepted; an error here would only stop the displayed counters.
        let _ = self.sessions.step(event);
        if decision.decision > Verdict::Allow {
            self.last_notable = Some(decision.clone());
        }
        self.started = self.started.or(event.at);
        let branch = self.branches.entry(event.session.clone()).or_default();
        branch.last_at = event.at.unwrap_or(branch.last_at);
        branch.apply(event, decision.decision < Verdict::Block);
        branch.record_message(recorded);
        if !moves {
            return Vec::new();
        }
        let known = |id: &str| before.iter().find(|known| known.id == id).map_or(0, |known| known.iterations);
        self.loop_reports(&event.session).into_iter().filter(|now| now.iterations > known(&now.id)).collect()
    }

    /// Adds a chunk of output.
    pub(super) fn push_output(&mut self, session: &str, text: &str) {
        self.branches.entry(session.to_owned()).or_default().tail.push(text);
    }

    /// A session with its state and policy.
    pub(super) fn session(&self, name: &str) -> Option<&Session> {
        self.sessions.get(name)
    }

    /// The report of a session.
    pub(super) fn report(&self, name: &str) -> Option<SessionReport> {
        let session = self.sessions.get(name)?;
        Some(session.state().report(session.policy()))
    }

    fn loop_reports(&self, name: &str) -> Vec<LoopReport> {
        self.report(name).map(|report| report.loops).unwrap_or_default()
    }

    pub(super) fn branch(&self, name: &str) -> Option<&BranchState> {
        self.branches.get(name)
    }

    /// The sessions with active nodes; the run itself if there are none.
    pub(super) fn active_branches(&self) -> Vec<(&str, &BranchState)> {
        let busy: Vec<(&str, &BranchState)> = self
            .branches
            .iter()
            .filter(|(_, branch)| branch.turn_started_at.is_some())
            .map(|(name, branch)| (name.as_str(), branch))
            .collect();
        if !busy.is_empty() {
            return busy;
        }
        self.branches
            .get_key_value(&self.root)
            .map(|(name, branch)| (name.as_str(), branch))
            .into_iter()
            .collect()
    }

    /// The session that awaits an answer; the run itself if unknown.
    pub(super) fn asking_session(&self) -> &str {
        let awaits = |name: &str| {
            let status = self.sessions.get(name).map(|session| session.state().status());
            status == Some(flyball::SessionPhase::AwaitingConfirmation)
        };
        let asks = |(name, branch): &(&String, &BranchState)| branch.question.is_some() || awaits(name);
        self.branches.iter().find(asks).map_or(&self.root, |(name, _)| name)
    }

    /// The last decision other than `allow`.
    pub(super) fn notable(&self) -> Option<&Decision> {
        self.last_notable.as_ref()
    }

    /// The branch label printed before a session's lines; `None` for the run itself.
    pub(super) fn branch_label(&self, session: &str) -> Option<String> {
        let below = session.strip_prefix(&self.root)?.strip_prefix('/')?;
        Some(format!("[{}]", single_line(below, 40)))
    }

    /// A node's number of turns including the current one, and the limit.
    pub(super) fn turn_count(&self, session: &str, node: &str) -> (u64, Option<u64>) {
        let turns =
            self.branches.get(session).and_then(|branch| branch.turns.get(node)).copied().unwrap_or_default();
        let limit = self.sessions.get(session).and_then(|found| {
            let in_a_loop =
                self.loop_reports(session).iter().any(|known| known.nodes.iter().any(|name| name == node));
            turn_limit(found.policy(), node, in_a_loop)
        });
        (turns, limit)
    }

    /// Active time up to now, and time since the start.
    pub(super) fn elapsed(&self, now: u64) -> (u64, u64) {
        let since = self.branches.get(&self.root).map_or(0, |branch| now.saturating_sub(branch.last_at));
        let active = self.sessions.get(&self.root).map_or(0, |session| session.state().active_ms());
        (active.saturating_add(since), now.saturating_sub(self.started.unwrap_or(now)))
    }
}

/// The maximum number of turns of a node, as the guard counts them.
fn turn_limit(policy: &Policy, node: &str, in_a_loop: bool) -> Option<u64> {
    let budget = policy.budget_for_node(node);
    let turns = if in_a_loop { budget.turns_in_loop(policy.budgets.loops.iterations) } else { budget.turns };
    turns.filter(|_| policy.budgets.mode.is_on())
}

impl BranchState {
    /// Whether a text was already shown to the person since their last input.
    pub(super) fn has_shown(&self, text: &str) -> bool {
        let same = |separator: &str| self.messages_to_person.join(separator) == text;
        self.question.as_deref() == Some(text) || same(" ") || same("\n")
    }

    fn record_message(&mut self, recorded: &RecordedEvent) {
        let event = &recorded.event;
        match &event.kind {
            EventKind::UserMessage { .. }
            | EventKind::PersonMessage { .. }
            | EventKind::ConfirmationAnswered { .. } => {
                self.messages_to_person.clear();
            }
            EventKind::AssistantMessage { text, .. } if !event.extra.contains_key("reply") => {
                self.messages_to_person.push(text.clone());
            }
            EventKind::QuestionAsked { text } => self.messages_to_person.push(text.clone()),
            _ => {}
        }
        let says = recorded.decision.effects.iter().filter(|effect| effect.effect == "say");
        self.messages_to_person
            .extend(says.filter_map(|effect| Some(effect.fields.get("text")?.as_str()?.to_owned())));
    }

    fn apply(&mut self, event: &Event, accepted: bool) {
        // Any event after a question is its answer or makes it obsolete.
        self.question = None;
        self.tail.end_line();
        match &event.kind {
            EventKind::TurnStarted {} if accepted => {
                let node = event.node.clone().unwrap_or_default();
                *self.turns.entry(node.clone()).or_default() += 1;
                self.node = Some(node);
                self.turn_started_at = event.at;
                self.checks_printed = false;
                self.last_message = None;
                self.tail = OutputTail::default();
            }
            EventKind::TurnFinished { .. } => {
                self.turn_started_at = None;
                self.node.clone_from(&event.node);
            }
            EventKind::TransitionRequested { to, .. } if accepted => self.node = Some(to.clone()),
            EventKind::AssistantMessage { text, is_final, .. } => {
                self.last_message = Some(text.clone());
                let to_a_person = *is_final && !event.extra.contains_key("reply");
                self.question = (to_a_person && self.turn_started_at.is_some()).then(|| text.clone());
            }
            EventKind::QuestionAsked { text } => self.question = Some(text.clone()),
            EventKind::Progress { failing: Some(failing), .. } => self.failing_tests.clone_from(failing),
            EventKind::GateChecked { checks, .. } => self.checks_printed = !checks.is_empty(),
            _ => {}
        }
    }
}

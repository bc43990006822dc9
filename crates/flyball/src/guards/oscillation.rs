//! `oscillation`: outputs, diffs or measured states that alternate between two values.
//!
//! Detects A, B, A, B in one node's outputs, its structured outputs, final messages, or the states of one signal. Empty
//! outputs do not count, and A, B, C, D is not an oscillation. Longer cycles of outputs and states are handled by the
//! guard `cycle`.

use super::info::GuardInfo;
use super::info::ScopeKind::Node;
use super::{Guard, GuardContext, TripBuilder, Trips};
use crate::bounded_map::{BoundedMap, push_bounded};
use crate::decision::{HaltReason, TripSeverity};
use crate::event::EventKind;
use crate::fingerprint::Fingerprint;
use crate::policy::settings::StricterDirection::Less;
use crate::policy::settings::{Count, Word, settings};
use crate::policy::{GuardMode, Limit};
use crate::reasons::Reason;
use crate::rules_version::RulesVersion;
use crate::state::read_layout;
use serde::{Deserialize, Serialize};

/// The declaration of the guard.
pub(super) const INFO: GuardInfo =
    GuardInfo::new(RulesVersion::V1, "Outputs, diffs or states that alternate: A, B, A, B.")
        .table("A, B, A, B of outputs or states", "halt")
        .reasons(&[Reason::exhausted(
            "oscillating",
            "The work alternates between two states: each step undoes the previous one.",
        )])
        .scopes::<OscillationPolicy>(&[Node]);

settings! {
    /// Outputs, diffs or states that alternate: A, B, A, B.
    pub struct OscillationPolicy: "OscillationFile" {
        /// Action when the guard trips.
        mode: GuardMode = GuardMode::Staged => Word;
        /// Repeats of the pair that count as an oscillation, 2 to 4.
        repeats: Limit = Some(2) => Count(2..=MAX_STATES as u64 / 2, Less);
    }
}

const MAX_SERIES: usize = 24;
const MAX_MESSAGE_SERIES: usize = 4;
const MAX_STATES: usize = 8;

type StateHistory = Vec<(Fingerprint, u64)>;

/// The last states of each series.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct OscillationGuard {
    series: BoundedMap<StateHistory, MAX_SERIES>,
    /// Final messages since the last user message.
    messages: BoundedMap<StateHistory, MAX_MESSAGE_SERIES>,
}

/// A new state of a series.
struct NewState {
    series: Fingerprint,
    subject: String,
    state: Fingerprint,
    /// Whether this is a message; a user message ends such a series.
    is_message: bool,
}

/// The states reported by an event: a node's output and structured output, a final message, or a signal.
fn new_states(cx: &GuardContext<'_>) -> Vec<NewState> {
    let node = cx.event.node.as_deref().unwrap_or("agent");
    let message = match &cx.event.kind {
        EventKind::TurnFinished { .. } => false,
        EventKind::AssistantMessage { .. } if cx.rules > RulesVersion::V1 => true,
        EventKind::Progress { .. } => return signal_state(cx).into_iter().collect(),
        _ => return Vec::new(),
    };
    let own = Fingerprint::of_text(node);
    let words =
        if message { ("final message", "structured message") } else { ("output", "structured output") };
    let text = cx.observation.output.map(|state| (own, words.0, state));
    let data = cx.observation.structured.filter(|_| cx.rules > RulesVersion::V1);
    let data = data.map(|state| (own.combine(Fingerprint::of_text("structured")), words.1, state));
    let state = |(series, word, state)| {
        let what = format!("the {word} of '{}'", cx.safe_name(node));
        NewState { series, subject: what, state, is_message: message }
    };
    text.into_iter().chain(data).map(state).collect()
}

fn signal_state(cx: &GuardContext<'_>) -> Option<NewState> {
    let EventKind::Progress { signal, content, hash, failing, .. } = &cx.event.kind else { return None };
    let state = match (content, hash, failing) {
        (Some(text), _, _) if !text.trim().is_empty() => cx.observation.content?,
        (None, Some(hash), _) if !hash.is_empty() => Fingerprint::of_text(hash),
        (None, None, Some(failing)) if !failing.is_empty() => {
            let mut names = failing.clone();
            names.sort_unstable();
            Fingerprint::of_text(&names.join("\n"))
        }
        _ => return None,
    };
    let series = Fingerprint::of_text(signal).combine(Fingerprint::NONE);
    Some(NewState {
        series,
        subject: format!("the signal '{}'", cx.safe_name(signal)),
        state,
        is_message: false,
    })
}

/// The combined state of an event, for cycles through several nodes.
pub(super) fn combined_state(cx: &GuardContext<'_>) -> Option<(Fingerprint, String, Fingerprint)> {
    let states = new_states(cx);
    let state = states.iter().map(|new| new.state).reduce(Fingerprint::combine)?;
    states.into_iter().next().map(|first| (first.series, first.subject, state))
}

/// Whether the last states are A, B, A, B, … with A and B different, for `repeats` passes.
fn alternates(states: &[(Fingerprint, u64)], repeats: usize) -> bool {
    let Some(tail) = states.len().checked_sub(2 * repeats).and_then(|from| states.get(from..)) else {
        return false;
    };
    let [(a, _), (b, _), ..] = tail else { return false };
    a != b && tail.iter().enumerate().all(|(at, (state, _))| state == if at % 2 == 0 { a } else { b })
}

impl OscillationGuard {
    fn push(&mut self, cx: &GuardContext<'_>, new: NewState, trips: &mut Trips) {
        let NewState { series, subject: what, state, is_message: message } = new;
        let states = if message { self.messages.entry(series) } else { self.series.entry(series) };
        push_bounded(states, (state, cx.seq), MAX_STATES);
        let limits = &cx.limits.oscillation;
        let Some(repeats) = limits.repeats.filter(|_| limits.mode.is_on()) else { return };
        let passes = repeats.clamp(2, MAX_STATES as u64 / 2) as usize;
        if !alternates(states, passes) {
            return;
        }
        let tail = states.get(states.len() - 2 * passes..).unwrap_or_default();
        let mut draft = TripBuilder::new(
            "oscillation",
            "oscillating",
            TripSeverity::Halt,
            format!("{what} {} between two states", cx.rules.wording("goes to and fro", "alternates")),
        )
        .count(passes as u64, repeats)
        .events(tail.iter().map(|(_, seq)| *seq).collect())
        .repeating(2, passes as u64, tail.iter().take(2).map(|(state, _)| *state).collect())
        .trail(cx.trail())
        .actions(&["switch_to_interactive", "spawn_reconciliation_node", "update_docs_contract"])
        .halt_reason(HaltReason::Oscillating)
        .feedback(cx.rules.wording(
            "The work goes to and fro between two states. Decide which of the two is right before going on.",
            "The work alternates between two states. Decide which of the two is right before continuing.",
        ));
        if let Some(id) = cx.position.innermost_loop() {
            draft = draft.scope("loop", id);
        }
        trips.add(limits.mode, draft);
    }
}

impl Guard for OscillationGuard {
    fn record(&mut self, cx: &GuardContext<'_>, trips: &mut Trips) {
        for new in new_states(cx) {
            self.push(cx, new, trips);
        }
    }

    fn on_user_input(&mut self) {
        self.messages.clear();
    }

    fn reset(&mut self) {
        self.series.clear();
        self.messages.clear();
    }

    const LAYOUT: u16 = 2;

    fn read(layout: u16, bytes: &[u8]) -> postcard::Result<(Self, &[u8])> {
        if layout == 1 {
            let (series, rest) = read_layout(1, 1, bytes)?;
            return Ok((OscillationGuard { series, ..OscillationGuard::default() }, rest));
        }
        read_layout(layout, Self::LAYOUT, bytes)
    }
}

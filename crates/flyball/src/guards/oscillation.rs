//! `oscillation`: to and fro between two states, of outputs, diffs or any measured state.
//!
//! A, B, A, B of one node's outputs, of its structured outputs, of final messages, or of one signal's states. Empty outputs do not count, and A, B, C, D is no
//! oscillation. Longer circles of outputs and states belong to the guard `cycle`.

use super::{Cx, Draft, Guard, Trips};
use crate::decision::{HaltReason, Severity};
use crate::event::Kind;
use crate::fingerprint::Fingerprint;
use crate::rules_version::RulesVersion;
use crate::state::read_layout;
use crate::window::{Keyed, keep};
use serde::{Deserialize, Serialize};

const SERIES: usize = 24;
const MESSAGES: usize = 4;
const KEPT: usize = 8;

type States = Vec<(Fingerprint, u64)>;

/// The last states of each series.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Oscillation {
    series: Keyed<States, SERIES>,
    /// Final messages, until a person speaks.
    messages: Keyed<States, MESSAGES>,
}

/// A new state of a series.
struct NewState {
    series: Fingerprint,
    what: String,
    state: Fingerprint,
    /// A message: a person who speaks ends the series.
    message: bool,
}

/// The states that an event brings: of a node's output and its structured output, of a final message, of a signal.
fn states_of(cx: &Cx<'_>) -> Vec<NewState> {
    let node = cx.event.node.as_deref().unwrap_or("agent");
    let message = match &cx.event.kind {
        Kind::TurnFinished { .. } => false,
        Kind::AssistantMessage { .. } if cx.rules > RulesVersion::V1 => true,
        Kind::Progress { .. } => return signal_state(cx).into_iter().collect(),
        _ => return Vec::new(),
    };
    let own = Fingerprint::of_text(node);
    let words =
        if message { ("final message", "structured message") } else { ("output", "structured output") };
    let text = cx.seen.output.map(|state| (own, words.0, state));
    let data = cx.seen.structured.filter(|_| cx.rules > RulesVersion::V1);
    let data = data.map(|state| (own.with(Fingerprint::of_text("structured")), words.1, state));
    let state = |(series, word, state)| {
        let what = format!("the {word} of '{}'", cx.label(node));
        NewState { series, what, state, message }
    };
    text.into_iter().chain(data).map(state).collect()
}

fn signal_state(cx: &Cx<'_>) -> Option<NewState> {
    let Kind::Progress { signal, content, hash, failing, .. } = &cx.event.kind else { return None };
    let state = match (content, hash, failing) {
        (Some(text), _, _) if !text.trim().is_empty() => cx.seen.content?,
        (None, Some(hash), _) if !hash.is_empty() => Fingerprint::of_text(hash),
        (None, None, Some(failing)) if !failing.is_empty() => {
            let mut names = failing.clone();
            names.sort_unstable();
            Fingerprint::of_text(&names.join("\n"))
        }
        _ => return None,
    };
    let series = Fingerprint::of_text(signal).with(Fingerprint::NONE);
    Some(NewState { series, what: format!("the signal '{}'", cx.label(signal)), state, message: false })
}

/// One state for all that an event brings, for circles that go through several nodes.
pub(super) fn whole_state(cx: &Cx<'_>) -> Option<(Fingerprint, String, Fingerprint)> {
    let states = states_of(cx);
    let state = states.iter().map(|new| new.state).reduce(Fingerprint::with)?;
    states.into_iter().next().map(|first| (first.series, first.what, state))
}

/// The states are A, B, A, B, … at the end, with A and B different, for `repeats` passes.
fn alternates(states: &[(Fingerprint, u64)], repeats: usize) -> bool {
    let Some(tail) = states.len().checked_sub(2 * repeats).and_then(|from| states.get(from..)) else {
        return false;
    };
    let [(a, _), (b, _), ..] = tail else { return false };
    a != b && tail.iter().enumerate().all(|(at, (state, _))| state == if at % 2 == 0 { a } else { b })
}

impl Oscillation {
    fn take(&mut self, cx: &Cx<'_>, new: NewState, trips: &mut Trips) {
        let NewState { series, what, state, message } = new;
        let states = if message { self.messages.entry(series) } else { self.series.entry(series) };
        keep(states, (state, cx.seq), KEPT);
        let limits = &cx.limits.oscillation;
        let Some(repeats) = limits.repeats.filter(|_| limits.mode.is_on()) else { return };
        let passes = repeats.clamp(2, KEPT as u64 / 2) as usize;
        if !alternates(states, passes) {
            return;
        }
        let tail = states.get(states.len() - 2 * passes..).unwrap_or_default();
        let mut draft = Draft::new(
            "oscillation",
            "oscillating",
            Severity::Halt,
            format!("{what} goes to and fro between two states"),
        )
        .count(passes as u64, repeats)
        .events(tail.iter().map(|(_, seq)| *seq).collect())
        .block(2, passes as u64, tail.iter().take(2).map(|(state, _)| *state).collect())
        .trail(cx.trail())
        .actions(&["switch_to_interactive", "spawn_reconciliation_node", "update_docs_contract"])
        .halts_as(HaltReason::Oscillating)
        .feedback(
            "The work goes to and fro between two states. Decide which of the two is right before going on.",
        );
        if let Some(id) = cx.flow.loop_here() {
            draft = draft.scope("loop", id);
        }
        trips.add(limits.mode, draft);
    }
}

impl Guard for Oscillation {
    fn tell(&mut self, cx: &Cx<'_>, trips: &mut Trips) {
        for new in states_of(cx) {
            self.take(cx, new, trips);
        }
    }

    fn fresh(&mut self) {
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
            return Ok((Oscillation { series, ..Oscillation::default() }, rest));
        }
        read_layout(layout, Self::LAYOUT, bytes)
    }
}

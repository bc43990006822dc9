//! `oscillation`: to and fro between two states (seed 004), of outputs, diffs or any measured state.
//!
//! A, B, A, B of one node's outputs or of one signal's states. Empty outputs do not count, and A, B, C, D is no
//! oscillation. Longer circles of outputs and states belong to the guard `cycle`.

use super::{Cx, Draft, Guard, Trips};
use crate::decision::{HaltReason, Severity};
use crate::event::{Kind, normalised};
use crate::fingerprint::Fingerprint;
use crate::window::{Keyed, keep};
use serde::{Deserialize, Serialize};

const SERIES: usize = 24;
const KEPT: usize = 8;

/// The last states of each series.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Oscillation {
    series: Keyed<Vec<(Fingerprint, u64)>, SERIES>,
}

/// The series that an event belongs to, what to call it, and its new state.
pub(super) fn state_of(cx: &Cx<'_>) -> Option<(Fingerprint, String, Fingerprint)> {
    match &cx.event.kind {
        Kind::TurnFinished { output: Some(text), .. } if !text.trim().is_empty() => {
            let node = cx.event.node.as_deref().unwrap_or("agent");
            Some((
                Fingerprint::of_text(node),
                format!("the output of '{}'", cx.label(node)),
                Fingerprint::of_text(&normalised(text)),
            ))
        }
        Kind::Progress { signal, content, hash, failing, .. } => {
            let state = match (content, hash, failing) {
                (Some(text), _, _) if !text.trim().is_empty() => Fingerprint::of_text(&normalised(text)),
                (None, Some(hash), _) if !hash.is_empty() => Fingerprint::of_text(hash),
                (None, None, Some(failing)) if !failing.is_empty() => {
                    let mut names = failing.clone();
                    names.sort_unstable();
                    Fingerprint::of_text(&names.join("\n"))
                }
                _ => return None,
            };
            Some((
                Fingerprint::of_text(signal).with(Fingerprint::NONE),
                format!("the signal '{}'", cx.label(signal)),
                state,
            ))
        }
        _ => None,
    }
}

/// The states are A, B, A, B, … at the end, with A and B different, for `repeats` passes.
fn alternates(states: &[(Fingerprint, u64)], repeats: usize) -> bool {
    let Some(tail) = states.len().checked_sub(2 * repeats).and_then(|from| states.get(from..)) else {
        return false;
    };
    let [(a, _), (b, _), ..] = tail else { return false };
    a != b && tail.iter().enumerate().all(|(at, (state, _))| state == if at % 2 == 0 { a } else { b })
}

impl Guard for Oscillation {
    fn tell(&mut self, cx: &Cx<'_>, trips: &mut Trips) {
        let Some((series, what, state)) = state_of(cx) else { return };
        let states = self.series.entry(series);
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
        .trail(cx.flow.trail())
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

    fn reset(&mut self) {
        self.series.clear();
    }
}

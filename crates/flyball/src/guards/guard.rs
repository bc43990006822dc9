//! The parts of every guard: its input, its hooks, and its stored state.

use super::{Ancestors, Trips};
use crate::call_ledger::EventFacts;
use crate::event::Event;
use crate::observation::Observation;
use crate::policy::{GuardPolicies, Policy, SessionCounters};
use crate::rules_version::RulesVersion;
use crate::state::read_layout;
use crate::workflow_position::WorkflowPosition;
use serde::de::DeserializeOwned;

/// The input of a guard.
pub(crate) struct GuardContext<'a> {
    pub(crate) policy: &'a Policy,
    /// The guards' limits for the tool, node or edge that the event is about.
    pub(crate) limits: &'a GuardPolicies,
    pub(crate) event: &'a Event,
    pub(crate) facts: &'a EventFacts,
    /// Fingerprints of the event's content.
    pub(crate) observation: &'a Observation,
    pub(crate) position: &'a WorkflowPosition,
    pub(crate) ancestors: &'a Ancestors,
    /// Sequence number of the event in its session, starting at 1.
    pub(crate) seq: u64,
    /// Session time; never decreases.
    pub(crate) now: u64,
    /// Whether any event so far carried a timestamp. Without timestamps, nothing expires.
    pub(crate) has_time: bool,
    /// Active time of the session, excluding time spent waiting for people.
    pub(crate) active_ms: u64,
    /// Wall-clock time since the session started.
    pub(crate) wall_ms: u64,
    /// The session's version of the decision rules.
    pub(crate) rules: RulesVersion,
    /// Input of custom rules; computed only if the policy has rules.
    pub(crate) counters: Option<&'a SessionCounters>,
}

/// Longest name shown in feedback.
const LABEL_BYTES: usize = 64;
/// Longest check title shown in feedback, in words and bytes (example: `docs updated`).
const TITLE_WORDS: usize = 3;
const TITLE_BYTES: usize = 32;
/// Placeholder for a name that feedback must not show.
const WITHHELD: &str = "(name withheld)";

impl GuardContext<'_> {
    /// The most recent nodes, as reports show them.
    pub(crate) fn trail(&self) -> Vec<String> {
        self.position.trail(self.limits.shown_history(self.rules))
    }

    /// A name that is safe to show in messages and feedback. Agents choose tool and node names, and models read
    /// feedback, so a name that is not an identifier could carry a prompt injection. Version 1 of the rules shows any
    /// name.
    pub(crate) fn safe_name<'n>(&self, name: &'n str) -> &'n str {
        if self.rules == RulesVersion::V1 || is_identifier(name) { name } else { WITHHELD }
    }

    /// Like [`Self::safe_name`], for a check title, which may have a few words.
    pub(crate) fn safe_title<'n>(&self, name: &'n str) -> &'n str {
        let short = name.len() <= TITLE_BYTES && name.split(' ').count() <= TITLE_WORDS;
        if short && name.split(' ').all(is_identifier) { name } else { self.safe_name(name) }
    }
}

fn is_identifier(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_.:/-".contains(&byte);
    !name.is_empty() && name.len() <= LABEL_BYTES && name.bytes().all(plain)
}

/// A guard. The implementing type is its state.
pub(crate) trait Guard {
    /// Checks a request before it runs. Must not change state.
    fn check(&self, _cx: &GuardContext<'_>, _trips: &mut Trips) {}
    /// Records an accepted request or a fact; may trip.
    fn record(&mut self, _cx: &GuardContext<'_>, _trips: &mut Trips) {}
    /// Records a denied request; `mine` is set if this guard denied it.
    fn on_denied(&mut self, _cx: &GuardContext<'_>, _mine: bool) {}
    /// Called when a person speaks: repetition after that is at their request.
    fn on_user_input(&mut self) {}
    /// Resets the counters after a release.
    fn reset(&mut self) {}

    /// Version of the stored state layout. Increment it when a field is added, removed or changed, and keep
    /// [`Guard::read`] able to read older layouts.
    const LAYOUT: u16 = 1;

    /// Decodes a stored state and returns it with the remaining bytes.
    ///
    /// # Errors
    /// If the layout is unknown or the bytes do not match it.
    fn read(layout: u16, bytes: &[u8]) -> postcard::Result<(Self, &[u8])>
    where
        Self: Sized + DeserializeOwned,
    {
        read_layout(layout, Self::LAYOUT, bytes)
    }
}

/// Severity of a guard's next denial: a halt once the guard has denied often enough, otherwise a block.
pub(crate) fn escalated_severity(vetoes: u32, most: Option<u64>) -> crate::decision::TripSeverity {
    match most {
        Some(most) if u64::from(vetoes) + 1 >= most => crate::decision::TripSeverity::Halt,
        _ => crate::decision::TripSeverity::Block,
    }
}

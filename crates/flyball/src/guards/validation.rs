//! `validation`: answers of the model that cannot be used, in a row (seed 002).
//!
//! Counted apart from failures of tools: malformed JSON, a missing field, an unknown tool, a bad completion signal, a
//! truncated answer. The Nth in a row halts; below that the model is told and may try again. A successful parse
//! clears the row.

use super::{Cx, Draft, Guard, Trips};
use crate::decision::{HaltReason, Severity};
use crate::event::Kind;
use crate::window::{cut, keep};
use serde::{Deserialize, Serialize};

const EVENTS: usize = 16;
/// How much of an error is repeated to the model.
const SHOWN: usize = 200;

/// The failures in a row.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Validation {
    row: u32,
    total: u32,
    events: Vec<u64>,
}

/// A text of ours or of a parser, without what could break a line.
pub(super) fn plain(text: &str, bytes: usize) -> String {
    cut(text, bytes).chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

impl Guard for Validation {
    fn tell(&mut self, cx: &Cx<'_>, trips: &mut Trips) {
        match &cx.event.kind {
            Kind::ValidationFailed { kind, error, .. } => {
                self.row = self.row.saturating_add(1);
                self.total = self.total.saturating_add(1);
                keep(&mut self.events, cx.seq, EVENTS);
                let limits = &cx.limits.validation;
                let (Some(limit), true) = (limits.limit, limits.mode.is_on()) else { return };
                let count = u64::from(self.row);
                let what = plain(kind.as_deref().unwrap_or("other"), 40);
                let error = plain(error.as_deref().unwrap_or(&what), SHOWN);
                let severity = if count >= limit { Severity::Halt } else { Severity::Warn };
                let draft = Draft::new(
                    "validation",
                    "validation_failure",
                    severity,
                    format!("validation failure {count}/{limit}: {error}"),
                )
                .count(count, limit)
                .scope("kind", what)
                .events(self.events.clone())
                .actions(&["check_the_model_output", "retry_with_new_provider", "switch_to_interactive"])
                .halts_as(HaltReason::RepeatedError)
                .feedback(format!(
                    "Failed to parse your response: {error}. Please try again with valid JSON."
                ));
                trips.add(limits.mode, draft);
            }
            Kind::ValidationPassed {} => self.clear(),
            Kind::ToolFinished { .. }
                if cx.facts.result.as_ref().is_some_and(|result| !result.failed && !result.ignored) =>
            {
                self.clear();
            }
            _ => {}
        }
    }

    fn reset(&mut self) {
        self.clear();
    }
}

impl Validation {
    fn clear(&mut self) {
        self.row = 0;
        self.events.clear();
    }
}

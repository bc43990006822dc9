//! `validation`: answers of the model that cannot be used, in a row (seed 002).
//!
//! Counted apart from failures of tools: malformed JSON, a missing field, an unknown tool, a bad completion signal, a
//! truncated answer. The Nth in a row halts; below that the model is told and may try again. A successful parse
//! clears the row. A `completion.requested` whose request is garbled is refused and counted as well: nobody knows what was
//! meant, so nothing is complete.

use super::{Cx, Draft, Guard, Trips};
use crate::completion::check_request;
use crate::decision::{HaltReason, Severity};
use crate::event::Kind;
use crate::rules_version::RulesVersion;
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

/// A parser's error without the text that it quotes, which is the model's own. Signs and identifiers stay.
fn without_quotes(cx: &Cx<'_>, error: &str) -> String {
    let mut kept = String::with_capacity(error.len());
    let mut rest = error;
    while let Some(start) = quote(rest) {
        let (before, quoted) = rest.split_at(start);
        kept.push_str(before);
        let mark = quoted.get(..1).unwrap_or_default();
        let inside = quoted.get(1..).unwrap_or_default();
        let Some(end) = inside.find(mark) else {
            // A text that was cut: what follows the quote is the model's.
            kept.push_str(mark);
            kept.push('…');
            return kept;
        };
        let text = inside.get(..end).unwrap_or_default();
        let shown = if text.len() <= 2 || cx.label(text) == text { text } else { "…" };
        kept.push_str(mark);
        kept.push_str(shown);
        kept.push_str(mark);
        rest = inside.get(end + 1..).unwrap_or_default();
    }
    kept.push_str(rest);
    kept
}

/// Where the next quote opens; an apostrophe inside a word is none.
fn quote(text: &str) -> Option<usize> {
    let mut before = ' ';
    text.char_indices().find_map(|(at, c)| {
        let opens = matches!(c, '"' | '`') || (c == '\'' && !before.is_alphanumeric());
        before = c;
        opens.then_some(at)
    })
}

/// What is wrong with the request of a completion, if it is garbled. Version 1 of the rules takes any.
fn bad_completion(cx: &Cx<'_>) -> Option<String> {
    let Kind::CompletionRequested { request: Some(request) } = &cx.event.kind else { return None };
    if cx.rules == RulesVersion::V1 { None } else { check_request(request).err() }
}

impl Guard for Validation {
    fn ask(&self, cx: &Cx<'_>, trips: &mut Trips) {
        let Some(error) = bad_completion(cx) else { return };
        let mut events = self.events.clone();
        keep(&mut events, cx.seq, EVENTS);
        let count = u64::from(self.row) + 1;
        self.report(cx, "bad_completion", &error, (count, events, Severity::Block), trips);
    }

    fn refused(&mut self, cx: &Cx<'_>, mine: bool) {
        if mine && bad_completion(cx).is_some() {
            self.count(cx);
        }
    }

    fn tell(&mut self, cx: &Cx<'_>, trips: &mut Trips) {
        match &cx.event.kind {
            Kind::ValidationFailed { kind, error, .. } => {
                self.count(cx);
                let kind = plain(kind.as_deref().unwrap_or("other"), 40);
                let error = error.as_deref().unwrap_or(&kind);
                let found = (u64::from(self.row), self.events.clone(), Severity::Warn);
                self.report(cx, &kind, error, found, trips);
            }
            // The policy lets it through, and it is counted all the same.
            Kind::CompletionRequested { .. } if bad_completion(cx).is_some() => self.count(cx),
            Kind::CompletionRequested { .. } if cx.rules > RulesVersion::V1 => self.clear(),
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
    fn count(&mut self, cx: &Cx<'_>) {
        self.row = self.row.saturating_add(1);
        self.total = self.total.saturating_add(1);
        keep(&mut self.events, cx.seq, EVENTS);
    }

    /// Trips with the severity of a failure below the limit, or with a halt at it.
    fn report(
        &self,
        cx: &Cx<'_>,
        kind: &str,
        error: &str,
        (count, events, below): (u64, Vec<u64>, Severity),
        trips: &mut Trips,
    ) {
        let limits = &cx.limits.validation;
        let (Some(limit), true) = (limits.limit, limits.mode.is_on()) else { return };
        let what = plain(kind, 40);
        let error = plain(error, SHOWN);
        let error = if cx.rules == RulesVersion::V1 { error } else { without_quotes(cx, &error) };
        let severity = if count >= limit { Severity::Halt } else { below };
        let draft = Draft::new(
            "validation",
            "validation_failure",
            severity,
            format!("validation failure {count}/{limit}: {error}"),
        )
        .count(count, limit)
        .scope("kind", what)
        .events(events)
        .actions(&["check_the_model_output", "retry_with_new_provider", "switch_to_interactive"])
        .halts_as(HaltReason::RepeatedError)
        .feedback(format!("Failed to parse your response: {error}. Please try again with valid JSON."));
        trips.add(limits.mode, draft);
    }

    fn clear(&mut self) {
        self.row = 0;
        self.events.clear();
    }
}

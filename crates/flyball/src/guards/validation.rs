//! `validation`: consecutive invalid model responses.
//!
//! Counted separately from tool failures: malformed JSON, a missing field, an unknown tool, a bad completion signal, a
//! truncated response. The Nth in a row halts; earlier ones return feedback, and the model may retry. A successful
//! parse resets the count. A malformed `completion.requested` is denied and counted as well, because its meaning is
//! unknown.

use super::info::GuardInfo;
use super::info::ScopeKind::Node;
use super::{Guard, GuardContext, TripBuilder, Trips};
use crate::bounded_map::{push_bounded, truncate_bytes};
use crate::completion::check_request;
use crate::decision::{HaltReason, TripSeverity};
use crate::event::EventKind;
use crate::policy::settings::StricterDirection::Less;
use crate::policy::settings::{COUNT_RANGE, Count, Word, settings};
use crate::policy::{GuardMode, Limit};
use crate::reasons::Reason;
use crate::rules_version::RulesVersion;
use serde::{Deserialize, Serialize};

/// The declaration of the guard.
pub(super) const INFO: GuardInfo = GuardInfo::new(RulesVersion::V1, "Model responses that fail to parse.")
    .table(
        "unreadable model responses, malformed completion requests",
        "warn (a completion request: block), then halt",
    )
    .reasons(&[Reason::exhausted(
        "validation_failure",
        "The model's output does not validate, and retries have not helped.",
    )])
    .scopes::<ValidationPolicy>(&[Node]);

settings! {
    /// Consecutive model responses that fail to parse.
    pub struct ValidationPolicy: "ValidationFile" {
        /// Action when the guard trips.
        mode: GuardMode = GuardMode::Staged => Word;
        /// The Nth consecutive failure trips.
        limit: Limit = Some(3) => Count(COUNT_RANGE, Less);
    }
}

const MAX_EVENTS: usize = 16;
/// Maximum length of an error shown to the model.
const MAX_ERROR_BYTES: usize = 200;

/// Consecutive failures.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ValidationGuard {
    consecutive: u32,
    total: u32,
    events: Vec<u64>,
}

/// Truncates a text and replaces control characters, such as line breaks, with spaces.
pub(super) fn strip_control_chars(text: &str, bytes: usize) -> String {
    truncate_bytes(text, bytes).chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// Removes quoted text from a parser error, because it is the model's own output. Short symbols and identifiers are
/// kept.
fn without_quotes(cx: &GuardContext<'_>, error: &str) -> String {
    let mut kept = String::with_capacity(error.len());
    let mut rest = error;
    while let Some(start) = find_open_quote(rest) {
        let (before, quoted) = rest.split_at(start);
        kept.push_str(before);
        let mark = quoted.get(..1).unwrap_or_default();
        let inside = quoted.get(1..).unwrap_or_default();
        let Some(end) = inside.find(mark) else {
            // Truncated: everything after the opening quote is the model's own text.
            kept.push_str(mark);
            kept.push('…');
            return kept;
        };
        let text = inside.get(..end).unwrap_or_default();
        let shown = if text.len() <= 2 || cx.safe_name(text) == text { text } else { "…" };
        kept.push_str(mark);
        kept.push_str(shown);
        kept.push_str(mark);
        rest = inside.get(end + 1..).unwrap_or_default();
    }
    kept.push_str(rest);
    kept
}

/// Position of the next opening quote, ignoring apostrophes inside words.
fn find_open_quote(text: &str) -> Option<usize> {
    let mut before = ' ';
    text.char_indices().find_map(|(at, c)| {
        let opens = matches!(c, '"' | '`') || (c == '\'' && !before.is_alphanumeric());
        before = c;
        opens.then_some(at)
    })
}

/// The error of a malformed completion request. Version 1 of the rules accepts any request.
fn garbled_completion(cx: &GuardContext<'_>) -> Option<String> {
    let EventKind::CompletionRequested { request: Some(request) } = &cx.event.kind else { return None };
    if cx.rules == RulesVersion::V1 { None } else { check_request(request).err() }
}

impl Guard for ValidationGuard {
    fn check(&self, cx: &GuardContext<'_>, trips: &mut Trips) {
        let Some(error) = garbled_completion(cx) else { return };
        let mut events = self.events.clone();
        push_bounded(&mut events, cx.seq, MAX_EVENTS);
        let count = u64::from(self.consecutive) + 1;
        self.add_trip(cx, "bad_completion", &error, (count, events, TripSeverity::Block), trips);
    }

    fn on_denied(&mut self, cx: &GuardContext<'_>, mine: bool) {
        if mine && garbled_completion(cx).is_some() {
            self.count(cx);
        }
    }

    fn record(&mut self, cx: &GuardContext<'_>, trips: &mut Trips) {
        match &cx.event.kind {
            EventKind::ValidationFailed { kind, error, .. } => {
                self.count(cx);
                let kind = strip_control_chars(kind.as_deref().unwrap_or("other"), 40);
                let error = error.as_deref().unwrap_or(&kind);
                let found = (u64::from(self.consecutive), self.events.clone(), TripSeverity::Warn);
                self.add_trip(cx, &kind, error, found, trips);
            }
            // Allowed by the policy mode, but still counted.
            EventKind::CompletionRequested { .. } if garbled_completion(cx).is_some() => self.count(cx),
            EventKind::CompletionRequested { .. } if cx.rules > RulesVersion::V1 => self.clear(),
            EventKind::ValidationPassed {} => self.clear(),
            EventKind::ToolFinished { .. }
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

impl ValidationGuard {
    fn count(&mut self, cx: &GuardContext<'_>) {
        self.consecutive = self.consecutive.saturating_add(1);
        self.total = self.total.saturating_add(1);
        push_bounded(&mut self.events, cx.seq, MAX_EVENTS);
    }

    /// Adds a trip: a halt at the limit, the given severity below it.
    fn add_trip(
        &self,
        cx: &GuardContext<'_>,
        kind: &str,
        error: &str,
        (count, events, below): (u64, Vec<u64>, TripSeverity),
        trips: &mut Trips,
    ) {
        let limits = &cx.limits.validation;
        let (Some(limit), true) = (limits.limit, limits.mode.is_on()) else { return };
        let what = strip_control_chars(kind, 40);
        let error = strip_control_chars(error, MAX_ERROR_BYTES);
        let error = if cx.rules == RulesVersion::V1 { error } else { without_quotes(cx, &error) };
        let severity = if count >= limit { TripSeverity::Halt } else { below };
        let draft = TripBuilder::new(
            "validation",
            "validation_failure",
            severity,
            format!("validation failure {count}/{limit}: {error}"),
        )
        .count(count, limit)
        .scope("kind", what)
        .events(events)
        .actions(&["check_the_model_output", "retry_with_new_provider", "switch_to_interactive"])
        .halt_reason(HaltReason::RepeatedError)
        .feedback(format!("Failed to parse your response: {error}. Please try again with valid JSON."));
        trips.add(limits.mode, draft);
    }

    fn clear(&mut self) {
        self.consecutive = 0;
        self.events.clear();
    }
}

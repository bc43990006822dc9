//! `question`: the same question asked repeatedly.
//!
//! Answers in between do not reset the count: asking again after every answer is the loop. A different question or a
//! successful tool call resets it.

use super::info::GuardInfo;
use super::info::ScopeKind::Node;
use super::{Guard, GuardContext, TripBuilder, Trips};
use crate::bounded_map::push_bounded;
use crate::decision::{HaltReason, TripSeverity};
use crate::event::EventKind;
use crate::fingerprint::Fingerprint;
use crate::policy::settings::StricterDirection::Less;
use crate::policy::settings::{Count, IN_A_ROW_RANGE, Word, settings};
use crate::policy::{GuardMode, Limit};
use crate::reasons::Reason;
use crate::rules_version::RulesVersion;
use serde::{Deserialize, Serialize};

/// The declaration of the guard.
pub(super) const INFO: GuardInfo =
    GuardInfo::new(RulesVersion::V1, "The same question asked of a person again.")
        .table("the same question to a person", "warn, then halt")
        .reasons(&[Reason::exhausted(
            "repeated_question",
            "The agent keeps asking the same question although it was answered.",
        )])
        .scopes::<QuestionPolicy>(&[Node]);

settings! {
    /// Consecutive identical questions.
    pub struct QuestionPolicy: "QuestionFile" {
        /// Action when the guard trips.
        mode: GuardMode = GuardMode::Staged => Word;
        /// Consecutive identical questions that trip the guard.
        limit: Limit = Some(3) => Count(IN_A_ROW_RANGE, Less);
    }
}

const MAX_EVENTS: usize = 16;

/// The last question, and how often it was asked in a row.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct QuestionGuard {
    text: Fingerprint,
    repeat_count: u32,
    events: Vec<u64>,
}

/// Fingerprint of a question, ignoring case, spacing and punctuation.
fn question_fingerprint(text: &str) -> Fingerprint {
    let mut words = String::with_capacity(text.len());
    for word in text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()) {
        words.extend(word.chars().flat_map(char::to_lowercase));
        words.push(' ');
    }
    Fingerprint::of_text(&words)
}

fn question_text(kind: &EventKind) -> Option<&str> {
    match kind {
        EventKind::QuestionAsked { text } => Some(text),
        EventKind::ConfirmationRequested { question, .. } => question.as_deref(),
        _ => None,
    }
}

impl Guard for QuestionGuard {
    fn check(&self, cx: &GuardContext<'_>, trips: &mut Trips) {
        let Some(text) = question_text(&cx.event.kind) else { return };
        let limits = &cx.limits.question;
        let (Some(limit), true) = (limits.limit, limits.mode.is_on()) else { return };
        let row = if question_fingerprint(text) == self.text { u64::from(self.repeat_count) + 1 } else { 1 };
        let severity = if row >= limit {
            TripSeverity::Halt
        } else if limit > 2 && row + 1 == limit {
            TripSeverity::Warn
        } else {
            return;
        };
        let mut events = self.events.clone();
        events.push(cx.seq);
        let message = format!("the same question was asked {row} times in a row");
        let use_answer = cx.rules.wording(
            "The answer was given; work with it or hand over to a person.",
            "It was already answered; use that answer or hand over to a person.",
        );
        let draft = TripBuilder::new("question", "repeated_question", severity, message)
            .count(row, limit)
            .events(events)
            .repeating(1, row, vec![self.text])
            .actions(&["switch_to_interactive", "check_that_answers_are_stored", "release"])
            .halt_reason(HaltReason::Stalled)
            .feedback(format!("You have asked the same question {row} times. {use_answer}"));
        trips.add(limits.mode, draft);
    }

    fn record(&mut self, cx: &GuardContext<'_>, _trips: &mut Trips) {
        if let Some(text) = question_text(&cx.event.kind) {
            let text = question_fingerprint(text);
            if text != self.text {
                self.reset();
            }
            self.text = text;
            self.repeat_count = self.repeat_count.saturating_add(1);
            push_bounded(&mut self.events, cx.seq, MAX_EVENTS);
        } else if cx.facts.result.as_ref().is_some_and(|result| !result.failed && !result.ignored) {
            self.reset();
        }
    }

    fn reset(&mut self) {
        *self = QuestionGuard::default();
    }
}

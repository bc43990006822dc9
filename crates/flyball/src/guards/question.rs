//! `question`: the same question to a person, again and again (seed 001's symptom).
//!
//! The person's answers between do not clear the row: being asked once more after every answer is the loop. Another
//! question, a settled confirmation or a tool that succeeds clears it.

use super::{Cx, Draft, Guard, Trips};
use crate::decision::{HaltReason, Severity};
use crate::event::Kind;
use crate::fingerprint::Fingerprint;
use crate::window::keep;
use serde::{Deserialize, Serialize};

const EVENTS: usize = 16;

/// The question that was asked last, and how often in a row.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Question {
    text: Fingerprint,
    row: u32,
    events: Vec<u64>,
}

/// A question's fingerprint: case, spacing and punctuation do not matter.
fn fingerprint(text: &str) -> Fingerprint {
    let mut words = String::with_capacity(text.len());
    for word in text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()) {
        words.extend(word.chars().flat_map(char::to_lowercase));
        words.push(' ');
    }
    Fingerprint::of_text(&words)
}

fn asked(kind: &Kind) -> Option<&str> {
    match kind {
        Kind::QuestionAsked { text } => Some(text),
        Kind::ConfirmationRequested { question, .. } => question.as_deref(),
        _ => None,
    }
}

impl Guard for Question {
    fn ask(&self, cx: &Cx<'_>, trips: &mut Trips) {
        let Some(text) = asked(&cx.event.kind) else { return };
        let limits = &cx.limits.question;
        let (Some(limit), true) = (limits.limit, limits.mode.is_on()) else { return };
        let row = if fingerprint(text) == self.text { u64::from(self.row) + 1 } else { 1 };
        let severity = if row >= limit {
            Severity::Halt
        } else if limit > 2 && row + 1 == limit {
            Severity::Warn
        } else {
            return;
        };
        let mut events = self.events.clone();
        events.push(cx.seq);
        let draft = Draft::new("question", "repeated_question", severity, format!("the same question was asked {row} times in a row"))
            .count(row, limit)
            .events(events)
            .block(1, row, vec![self.text])
            .actions(&["switch_to_interactive", "check_that_answers_are_stored", "release"])
            .halts_as(HaltReason::Stalled)
            .feedback(format!("You have asked the same question {row} times. The answer was given; work with it or hand over to a person."));
        trips.add(limits.mode, draft);
    }

    fn tell(&mut self, cx: &Cx<'_>, _trips: &mut Trips) {
        if let Some(text) = asked(&cx.event.kind) {
            let text = fingerprint(text);
            if text != self.text {
                self.reset();
            }
            self.text = text;
            self.row = self.row.saturating_add(1);
            keep(&mut self.events, cx.seq, EVENTS);
        } else if cx.facts.result.as_ref().is_some_and(|result| !result.failed && !result.ignored) {
            self.reset();
        }
    }

    fn reset(&mut self) {
        *self = Question::default();
    }
}

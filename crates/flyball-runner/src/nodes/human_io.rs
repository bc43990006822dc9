//! Messages to and from a person.

use crate::engine::{RecordedEvent, RunStop, Turn};
use flyball::EventKind;
use std::sync::Arc;
use std::time::Instant;

/// Sends a message to the person. It is recorded, so that every view of the conversation shows it.
pub(super) fn send_message(turn: &mut Turn<'_>, text: &str) -> Result<(), RunStop> {
    let said = EventKind::AssistantMessage { text: text.to_owned(), structured: None, is_final: true };
    turn.record(said).map(drop)
}

/// Asks a question. Returns the text of the answer.
pub(super) fn ask(turn: &mut Turn<'_>, question: &str) -> Result<String, RunStop> {
    turn.request(EventKind::QuestionAsked { text: question.to_owned() })?;
    Ok(reply_text(&next_reply(turn, question)?))
}

/// Next reply, with its decision.
pub(super) fn next_reply(turn: &mut Turn<'_>, question: &str) -> Result<RecordedEvent, RunStop> {
    let asker = Arc::clone(&turn.walk.context.human_input);
    let began = Instant::now();
    let about = turn.walk.log.last_decision().cloned();
    let reply = turn.walk.log.next_human_input(question, about.as_ref(), asker.as_ref());
    turn.waited(began.elapsed());
    reply
}

/// Text of a reply event.
pub(super) fn reply_text(past: &RecordedEvent) -> String {
    match &past.event.kind {
        EventKind::UserMessage { text, .. } | EventKind::PersonMessage { text, .. } => text.clone(),
        EventKind::ConfirmationAnswered { text, value, .. } => {
            text.clone().or_else(|| value.clone()).unwrap_or_default()
        }
        _ => String::new(),
    }
}

//! Talking with a person: say something, hear something.

use crate::engine::{Past, Stop, Turn};
use flyball::Kind;
use std::sync::Arc;
use std::time::Instant;

/// Says something to the person. It is recorded, so that whoever shows the conversation has it.
pub(super) fn say(turn: &mut Turn<'_>, text: &str) -> Result<(), Stop> {
    let said = Kind::AssistantMessage { text: text.to_owned(), structured: None, is_final: true };
    let event = turn.event(said);
    turn.walk.tell(event).map(drop)
}

/// The next words of a person.
pub(super) fn listen(turn: &mut Turn<'_>, question: &str) -> Result<String, Stop> {
    let past = hear(turn, question)?;
    Ok(words(&past))
}

/// The next thing that a person sent, with its decision.
pub(super) fn hear(turn: &mut Turn<'_>, question: &str) -> Result<Past, Stop> {
    let asker = Arc::clone(&turn.walk.world.asker);
    let began = Instant::now();
    let about = turn.walk.lane.decision().cloned();
    let heard = turn.walk.lane.listen(question, about.as_ref(), asker.as_ref());
    turn.waited(began.elapsed());
    heard
}

/// What a person's event says.
pub(super) fn words(past: &Past) -> String {
    match &past.event.kind {
        Kind::UserMessage { text, .. } | Kind::PersonMessage { text, .. } => text.clone(),
        Kind::ConfirmationAnswered { text, value, .. } => {
            text.clone().or_else(|| value.clone()).unwrap_or_default()
        }
        _ => String::new(),
    }
}

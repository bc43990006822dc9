//! Collect node: fills slots in a conversation with a person, then acts on them.
//!
//! Data flow of a message: `collect_dialogue.rs` receives and counts it; `dialogue::MessageReader` or a model
//! (`model_reader.rs`) interprets it; `message_handler.rs` acts on it, replies, and asks the next question. No state is
//! kept here: it follows from the messages in the store, so the process may exit between any two of them.

mod collect_dialogue;
mod message_handler;
mod model_reader;

use crate::engine::{NodeOutcome, RunStop, Turn};
use crate::workflow::spec::CollectNode;
use collect_dialogue::CollectDialogue;

/// Runs the conversation until all slots are filled or it ends otherwise.
pub(super) fn run(turn: &mut Turn<'_>, collect: &CollectNode) -> Result<NodeOutcome, RunStop> {
    let mut dialogue = CollectDialogue::start(turn, collect)?;
    let mut over = dialogue.open_conversation()?;
    loop {
        if let Some(outcome) = over {
            return Ok(outcome);
        }
        over = match dialogue.next_message()? {
            Ok(text) => dialogue.handle_message(&text)?,
            Err(outcome) => Some(outcome),
        };
    }
}

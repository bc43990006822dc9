//! Say and human nodes: messages to a person, and questions whose answer is the output.

use crate::engine::{NodeOutcome, RunStop, Turn};
use crate::workflow::spec::{HumanNode, SayNode};

/// Sends a message.
pub(super) fn run_say(turn: &mut Turn<'_>, say: &SayNode) -> Result<NodeOutcome, RunStop> {
    let text = turn.walk.vars.render(&say.text);
    super::human_io::send_message(turn, &text)?;
    Ok(NodeOutcome::success(text))
}

/// Asks a question; the answer is the node's output.
pub(super) fn run(turn: &mut Turn<'_>, human: &HumanNode) -> Result<NodeOutcome, RunStop> {
    let question = turn.walk.vars.render(&human.ask);
    Ok(NodeOutcome::success(super::human_io::ask(turn, &question)?))
}

//! People: words for them, and words from them.

use crate::engine::{Outcome, Stop, Turn};
use crate::workflow::spec::{Human, Say};
use flyball::Kind;

/// Says something.
pub(super) fn say(turn: &mut Turn<'_>, say: &Say) -> Result<Outcome, Stop> {
    let text = turn.walk.vars.fill(&say.text);
    super::talk::say(turn, &text)?;
    Ok(Outcome::success(text))
}

/// Asks somebody, and takes the answer as the node's output.
pub(super) fn run(turn: &mut Turn<'_>, human: &Human) -> Result<Outcome, Stop> {
    let question = turn.walk.vars.fill(&human.ask);
    let asked = turn.event(Kind::QuestionAsked { text: question.clone() });
    turn.walk.ask(&asked)?;
    let answer = super::talk::listen(turn, &question)?;
    Ok(Outcome::success(answer))
}

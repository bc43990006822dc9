//! Slots: things to find out from a person, one message at a time, and what is done with them.
//!
//! The way of a message: `course.rs` hears it and counts it -> `dialogue::Reader` or a model (`model.rs`) says what it
//! means -> `follow.rs` does what follows, says it, and asks the next question. Nothing is kept here: where a
//! conversation is follows from the messages in the journal, so that a process may end between any two of them.

mod course;
mod follow;
mod model;

use crate::engine::{Outcome, Stop, Turn};
use crate::workflow::spec::Collect;
use course::Course;

/// Talks until everything is there, or it is over otherwise.
pub(super) fn run(turn: &mut Turn<'_>, collect: &Collect) -> Result<Outcome, Stop> {
    let mut course = Course::open(turn, collect)?;
    let mut over = course.begin()?;
    loop {
        if let Some(outcome) = over {
            return Ok(outcome);
        }
        over = match course.listen()? {
            Ok(text) => course.follow(&text)?,
            Err(outcome) => Some(outcome),
        };
    }
}

//! What was already answered, so that a redelivered event gets the same answer again and counts once.
//!
//! The newest answers are remembered by id. A plain `allow` is remembered in a few bytes; an answer with trips or
//! effects is kept whole while there is room, and in its essence after that. The journal keeps them all for ever.

use crate::decision::{Decision, Status, Verdict};
use crate::error::{Code, Error};
use crate::fingerprint::Fingerprint;
use crate::limits::{ANSWER_BYTES, ANSWERS};
use crate::window::Keyed;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Answered {
    body: Fingerprint,
    seq: u64,
    decision: Verdict,
    state: Status,
}

/// The answers of a session.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Answers {
    known: Keyed<Answered, ANSWERS>,
    whole: VecDeque<(u64, String)>,
    bytes: usize,
}

impl Answers {
    /// The answer that this key already got.
    ///
    /// # Errors
    /// If the key came with another body.
    pub(crate) fn find(
        &self,
        key: Fingerprint,
        body: Fingerprint,
        session: &str,
    ) -> Result<Option<Decision>, Error> {
        let Some(known) = self.known.get(key) else { return Ok(None) };
        if known.body != body {
            return Err(Error::new(
                Code::EventConflict,
                format!("this id was used before, by event {} of the session, with another body", known.seq),
                "give every event an id of its own; send the same body when you send it again",
            ));
        }
        if let Some(text) = self.whole.iter().find(|(seq, _)| *seq == known.seq).map(|(_, text)| text)
            && let Ok(decision) = serde_json::from_str(text)
        {
            return Ok(Some(decision));
        }
        let (decision, state) = (known.decision, known.state);
        Ok(Some(Decision {
            session: session.to_owned(),
            seq: known.seq,
            decision,
            state,
            ..Decision::default()
        }))
    }

    /// Remembers an answer.
    pub(crate) fn put(&mut self, key: Fingerprint, body: Fingerprint, answer: &Decision) {
        *self.known.entry(key) =
            Answered { body, seq: answer.seq, decision: answer.decision, state: answer.state };
        let plain = answer.trips.is_empty() && answer.effects.is_empty() && answer.feedback.is_none();
        let plain = plain && answer.output.is_none();
        if plain {
            return;
        }
        let text = answer.to_json();
        if text.len() > ANSWER_BYTES {
            return;
        }
        self.bytes += text.len();
        self.whole.push_back((answer.seq, text));
        while self.bytes > ANSWER_BYTES {
            let Some((_, oldest)) = self.whole.pop_front() else { break };
            self.bytes = self.bytes.saturating_sub(oldest.len());
        }
    }
}

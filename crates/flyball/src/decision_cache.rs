//! Cache of recent decisions, so that a redelivered event gets the same decision and counts once.
//!
//! The most recent decisions are kept by id. A plain `allow` takes a few bytes; a decision with trips or effects is
//! kept in full while there is capacity, and in reduced form after that. The store keeps all of them permanently.

use crate::bounded_map::BoundedMap;
use crate::decision::{Decision, SessionPhase, Verdict};
use crate::error::{Error, ErrorCode};
use crate::fingerprint::Fingerprint;
use crate::limits::{CACHED_DECISION_BYTES, CACHED_DECISIONS};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct CachedDecision {
    body: Fingerprint,
    seq: u64,
    decision: Verdict,
    state: SessionPhase,
}

/// The cached decisions of a session.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct DecisionCache {
    entries: BoundedMap<CachedDecision, CACHED_DECISIONS>,
    full: VecDeque<(u64, String)>,
    bytes: usize,
}

impl DecisionCache {
    /// The cached decision for a key.
    ///
    /// # Errors
    /// If the key was used with a different body.
    pub(crate) fn find(
        &self,
        key: Fingerprint,
        body: Fingerprint,
        session: &str,
    ) -> Result<Option<Decision>, Error> {
        let Some(known) = self.entries.get(key) else { return Ok(None) };
        if known.body != body {
            return Err(Error::new(
                ErrorCode::EventConflict,
                format!("this id was used before, by event {} of the session, with another body", known.seq),
                "give every event a unique id; send the same body when you send it again",
            ));
        }
        if let Some(text) = self.full.iter().find(|(seq, _)| *seq == known.seq).map(|(_, text)| text)
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

    /// Caches a decision.
    pub(crate) fn insert(&mut self, key: Fingerprint, body: Fingerprint, answer: &Decision) {
        *self.entries.entry(key) =
            CachedDecision { body, seq: answer.seq, decision: answer.decision, state: answer.state };
        let plain = answer.trips.is_empty() && answer.effects.is_empty() && answer.feedback.is_none();
        let plain = plain && answer.output.is_none();
        if plain {
            return;
        }
        let text = answer.to_json();
        if text.len() > CACHED_DECISION_BYTES {
            return;
        }
        self.bytes += text.len();
        self.full.push_back((answer.seq, text));
        while self.bytes > CACHED_DECISION_BYTES {
            let Some((_, oldest)) = self.full.pop_front() else { break };
            self.bytes = self.bytes.saturating_sub(oldest.len());
        }
    }
}

//! What came in: one fact or one request of a session, with its envelope.
//!
//! An [`Event`] is made from a line of JSON by [`Event::from_json`] or from Rust by [`Event::new`]. The governor
//! reads it; it never changes it.

mod canonical;
mod check;
mod effect;
mod fields;
mod kind;
mod normalise;
mod parse;
mod quick;
mod types;

pub use canonical::canonical_json;
pub(crate) use canonical::{Numbers, identity, value_fingerprint};
pub use check::{Check, CheckKind};
pub use effect::effect_of;
pub use kind::{Better, Denier, Kind, Origin, PlanStep, ReleaseMode};
pub(crate) use normalise::normalised_markdown;
pub use normalise::{normalise_into, normalised, without_timestamps};
pub(crate) use types::fields_of;
pub use types::type_names;

use crate::error::Error;
use crate::fingerprint::Fingerprint;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// What an event used up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Tokens sent to the model.
    pub tokens_in: u64,
    /// Tokens that the model wrote.
    pub tokens_out: u64,
    /// Cost in millionths of a dollar.
    pub cost_micro_usd: u64,
}

impl Usage {
    /// All tokens together.
    #[must_use]
    pub const fn tokens(&self) -> u64 {
        self.tokens_in.saturating_add(self.tokens_out)
    }

    /// Adds another usage to this one.
    pub fn add(&mut self, other: &Usage) {
        self.tokens_in = self.tokens_in.saturating_add(other.tokens_in);
        self.tokens_out = self.tokens_out.saturating_add(other.tokens_out);
        self.cost_micro_usd = self.cost_micro_usd.saturating_add(other.cost_micro_usd);
    }
}

/// The idempotency key of an event: the id, and the fingerprint of the body that came with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventId {
    /// The id as given.
    pub id: String,
    /// The fingerprint of the whole canonical body.
    pub body: Fingerprint,
}

/// One fact or one request in a session.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// The session it belongs to (`default` if it named none).
    pub session: String,
    /// The idempotency key, if it has one.
    pub id: Option<EventId>,
    /// When it happened, in milliseconds since 1970. Absent: at the time of the event before it.
    pub at: Option<u64>,
    /// Who acts: agent, phase, hat.
    pub node: Option<String>,
    /// The answer of the model that it came with.
    pub round: Option<u64>,
    /// What it used up.
    pub usage: Usage,
    /// What happened.
    pub kind: Kind,
    /// Fields that the contract does not know, kept as they came.
    pub extra: Map<String, Value>,
}

impl Event {
    /// Makes an event of a kind in a session; the rest of the envelope is empty.
    #[must_use]
    pub fn new(session: impl Into<String>, kind: Kind) -> Self {
        Event {
            session: session.into(),
            id: None,
            at: None,
            node: None,
            round: None,
            usage: Usage::default(),
            kind,
            extra: Map::new(),
        }
    }

    /// Sets the time in milliseconds since 1970.
    #[must_use]
    pub fn at(mut self, at: u64) -> Self {
        self.at = Some(at);
        self
    }

    /// Sets the node that acts.
    #[must_use]
    pub fn node(mut self, node: impl Into<String>) -> Self {
        self.node = Some(node.into());
        self
    }

    /// Sets the round.
    #[must_use]
    pub fn round(mut self, round: u64) -> Self {
        self.round = Some(round);
        self
    }

    /// Sets the usage.
    #[must_use]
    pub fn usage(mut self, usage: Usage) -> Self {
        self.usage = usage;
        self
    }

    /// Reads an event from one line of JSON.
    ///
    /// # Errors
    /// If the line is not JSON, too large, too deep, has a duplicate key, lacks a field, or has an unknown type.
    pub fn from_json(line: &str) -> Result<Self, Error> {
        parse::event(line)
    }

    /// Reads an event from bytes that should hold one line of JSON.
    ///
    /// # Errors
    /// As [`Event::from_json`], and if the bytes are not UTF-8.
    pub fn from_bytes(line: &[u8]) -> Result<Self, Error> {
        parse::event_bytes(line)
    }

    /// The whole event as JSON, unknown fields included.
    #[must_use]
    pub fn to_json(&self) -> Value {
        parse::to_json(self)
    }
}

#[cfg(test)]
#[path = "event_tests.rs"]
mod tests;

//! A session's whole memory: plain, bounded data, encoded and decoded without loss.

use crate::answers::Answers;
use crate::decision::{HaltReason, Status};
use crate::error::{Code, Error};
use crate::event::Usage;
use crate::flow::Flow;
use crate::guards::{Tripped, Watch};
use crate::ledger::Ledger;
use crate::limits::STATE_BYTES;
use crate::policy::Counters;
use crate::tally::Tally;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The layout of the encoded state; a state of another layout is worked out again from the events.
const VERSION: u8 = 2;

/// Why a session stands still.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Latch {
    pub(crate) guard: String,
    pub(crate) reason: String,
    pub(crate) halt_reason: HaltReason,
    pub(crate) message: String,
    pub(crate) seq: u64,
    /// The budget that a release would raise.
    pub(crate) budget: Option<Tripped>,
}

/// Counters over the whole session.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Totals {
    pub(crate) errors: u64,
    pub(crate) warnings: u64,
    pub(crate) blocks: u64,
    pub(crate) halts: u64,
    pub(crate) messages: u64,
}

/// Everything that the governor remembers of a session.
///
/// It is data and nothing else: [`State::encode`] and [`State::decode`] lose nothing, and the encoded form stays
/// below [`STATE_BYTES`] however long the session runs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    pub(crate) seq: u64,
    pub(crate) now: u64,
    pub(crate) started: Option<u64>,
    pub(crate) active_ms: u64,
    pub(crate) ended: bool,
    pub(crate) halted: Option<Latch>,
    pub(crate) blocked: Option<Latch>,
    /// The label that calls a person is set.
    pub(crate) labelled: bool,
    /// The policy that came inside `session.started`, as canonical JSON.
    pub(crate) policy: Option<String>,
    pub(crate) parent: Option<String>,
    /// Acts that a release lets through, by guard.
    pub(crate) credits: BTreeMap<String, u64>,
    /// Releases so far, by guard.
    pub(crate) releases: BTreeMap<String, u64>,
    pub(crate) totals: Totals,
    /// What each tool was asked for, was refused and failed at.
    pub(crate) tally: Tally,
    pub(crate) answers: Answers,
    pub(crate) ledger: Ledger,
    pub(crate) flow: Flow,
    pub(crate) watch: Watch,
}

impl State {
    /// Encodes the state.
    ///
    /// # Errors
    /// Never for a state that the governor made; the error is there because the encoder has one.
    pub fn encode(&self) -> Result<Vec<u8>, Error> {
        let mut bytes = vec![VERSION];
        let body = postcard::to_allocvec(self).map_err(|error| bad(&error.to_string()))?;
        bytes.extend_from_slice(&body);
        Ok(bytes)
    }

    /// Reads a state back.
    ///
    /// # Errors
    /// If the bytes are not a state of this version.
    pub fn decode(bytes: &[u8]) -> Result<Self, Error> {
        let Some((&VERSION, body)) = bytes.split_first() else {
            return Err(bad("it has another version"));
        };
        if body.len() > 4 * STATE_BYTES {
            return Err(bad("it is too large"));
        }
        let (mut state, rest): (State, &[u8]) =
            postcard::take_from_bytes(body).map_err(|error| bad(&error.to_string()))?;
        if !rest.is_empty() {
            return Err(bad("it has bytes left over"));
        }
        state.flow.rebuild();
        Ok(state)
    }

    /// A digest of the state: equal states, equal digests.
    ///
    /// # Errors
    /// As [`State::encode`].
    pub fn digest(&self) -> Result<String, Error> {
        Ok(blake3::hash(&self.encode()?).to_hex().to_string())
    }

    /// What the session is doing.
    #[must_use]
    pub fn status(&self) -> Status {
        if self.ended {
            Status::Ended
        } else if self.halted.is_some() {
            Status::Halted
        } else if self.blocked.is_some() {
            Status::Blocked
        } else if self.watch.confirmation.awaits() {
            Status::AwaitingConfirmation
        } else {
            Status::Running
        }
    }

    /// The number of the last event.
    #[must_use]
    pub const fn seq(&self) -> u64 {
        self.seq
    }

    /// The session above this one.
    #[must_use]
    pub fn parent(&self) -> Option<&str> {
        self.parent.as_deref()
    }

    /// The policy that came inside `session.started`, as JSON.
    #[must_use]
    pub fn inline_policy(&self) -> Option<&str> {
        self.policy.as_deref()
    }

    /// What this session and its children have used.
    #[must_use]
    pub const fn used(&self) -> &Usage {
        &self.watch.budget.used
    }

    /// Time at work, in milliseconds; waiting for people is left out.
    #[must_use]
    pub const fn active_ms(&self) -> u64 {
        self.active_ms
    }

    /// The counters that custom rules and reports look at.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.counters_at(None)
    }

    /// The counters with the visits of the node that acts, or else of the node at work.
    pub(crate) fn counters_at(&self, node: Option<&str>) -> Counters {
        let budget = &self.watch.budget;
        let visits = node.or_else(|| self.flow.node()).map_or(0, |node| self.watch.visits.count(node));
        Counters {
            calls: budget.calls,
            turns: budget.turns,
            transitions: self.watch.transitions.total(),
            errors: self.totals.errors,
            warnings: self.totals.warnings,
            blocks: self.totals.blocks,
            tokens: budget.used.tokens(),
            cost_micro_usd: budget.used.cost_micro_usd,
            runtime_ms: self.active_ms,
            iterations: budget.iterations,
            messages: self.totals.messages,
            visits: u64::from(visits),
            state: self.status().as_str().to_owned(),
            node: self.flow.node().unwrap_or_default().to_owned(),
        }
    }
}

fn bad(why: &str) -> Error {
    Error::new(
        Code::BadState,
        format!("the stored state cannot be read: {why}"),
        "work it out again from the session's events",
    )
}

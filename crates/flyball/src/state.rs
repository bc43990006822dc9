//! A session's whole memory: plain, bounded data, encoded and decoded without loss.

use crate::answers::Answers;
use crate::decision::{HaltReason, Status};
use crate::error::{Code, Error};
use crate::event::Usage;
use crate::flow::Flow;
use crate::guards::{Position, Tripped, Watch};
use crate::ledger::Ledger;
use crate::limits::STATE_BYTES;
use crate::observation::WorkLog;
use crate::person::Person;
use crate::policy::{Counters, Policy};
use crate::rules_version::RulesVersion;
use crate::tally::Tally;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The layout of the encoded state: named sections, each with a layout version of its own, so that a new or changed
/// guard never makes a stored session unreadable.
const SECTIONS: u8 = 3;
/// The layout before: one record, the guards in [`RECORD_GUARDS`]' order at its end.
const RECORD: u8 = 2;
/// The guards of a record, in the order in which it has them.
const RECORD_GUARDS: [&str; 17] = [
    "budget",
    "visits",
    "transitions",
    "cycle",
    "repetition",
    "recurrence",
    "stall",
    "oscillation",
    "error_streak",
    "validation",
    "retry",
    "gate",
    "confirmation",
    "question",
    "denial",
    "monologue",
    "rule",
];

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

/// A person's stop. It holds until a person lifts it explicitly, whatever else is released.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Stop {
    pub(crate) by: String,
    pub(crate) why: String,
    pub(crate) seq: u64,
}

impl Stop {
    /// Who stopped the session, and why.
    pub(crate) fn message(&self) -> String {
        format!("stopped by {}: {}", self.by, self.why)
    }
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
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct State {
    /// The version of the decision rules that the session started under.
    pub(crate) rules: RulesVersion,
    pub(crate) seq: u64,
    pub(crate) now: u64,
    pub(crate) started: Option<u64>,
    pub(crate) active_ms: u64,
    /// How far the clock of the events is behind the session's time, after it was set back.
    pub(crate) behind_ms: u64,
    /// How long the machine had been suspended at the last event that says so.
    pub(crate) suspended_ms: u64,
    pub(crate) ended: bool,
    pub(crate) halted: Option<Latch>,
    pub(crate) blocked: Option<Latch>,
    /// The budgets that were used up at the halt.
    pub(crate) spent_budgets: Vec<Tripped>,
    /// Stops by people that were not lifted, oldest first. Under version 1 of the rules a stop is in `halted` instead.
    pub(crate) stops: Vec<Stop>,
    /// A question that waits for a person, and restarts.
    pub(crate) person: Person,
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
    /// The last outputs, diffs and failures, for the evidence of a halt.
    pub(crate) work: WorkLog,
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
        let mut sections = Sections { bytes: vec![SECTIONS] };
        self.write(&mut sections).map_err(|error| bad(&error.to_string()))?;
        Ok(sections.bytes)
    }

    fn write(&self, sections: &mut Sections) -> postcard::Result<()> {
        sections.write("rules", 1, &self.rules.number())?;
        let session = (
            (&self.seq, &self.now, &self.started, &self.active_ms, &self.ended),
            (&self.halted, &self.blocked, &self.labelled),
            (&self.policy, &self.parent, &self.credits, &self.releases),
        );
        sections.write("session", 1, &session)?;
        sections.write("stops", 1, &self.stops)?;
        if self.person != Person::default() {
            sections.write("person", Person::LAYOUT, &self.person)?;
        }
        if self.work != WorkLog::default() {
            sections.write("work", 1, &self.work)?;
        }
        if !self.spent_budgets.is_empty() {
            sections.write("spent_budgets", 1, &self.spent_budgets)?;
        }
        if (self.behind_ms, self.suspended_ms) != (0, 0) {
            sections.write("clock", 1, &(self.behind_ms, self.suspended_ms))?;
        }
        sections.write("totals", 1, &self.totals)?;
        sections.write("tally", 1, &self.tally)?;
        sections.write("answers", 1, &self.answers)?;
        sections.write("ledger", 1, &self.ledger)?;
        sections.write("flow", 1, &self.flow)?;
        if let Some(start) = &self.flow.start {
            sections.write("flow_start", 1, start)?;
        }
        self.watch.write(sections)
    }

    /// Reads a state back, in this layout or the one before it.
    ///
    /// # Errors
    /// If the bytes are not a state, or one that a newer version of Flyball wrote.
    pub fn decode(bytes: &[u8]) -> Result<Self, Error> {
        let body = match bytes.split_first() {
            Some((&(SECTIONS | RECORD), body)) if body.len() <= 4 * STATE_BYTES => body,
            Some((&(SECTIONS | RECORD), _)) => return Err(bad("it is too large")),
            _ => return Err(bad("it has another version")),
        };
        let mut state = State::default();
        if bytes.first() == Some(&SECTIONS) {
            state.read_sections(body)?;
        } else {
            state.read_record(body)?;
        }
        state.flow.rebuild(state.rules);
        state.ledger.rules = state.rules;
        Ok(state)
    }

    fn read_sections(&mut self, mut body: &[u8]) -> Result<(), Error> {
        while !body.is_empty() {
            let (section, rest) = Section::take(body).map_err(|error| bad(&error.to_string()))?;
            let left = self.read_part(section.name, section.layout, section.bytes)?;
            if !left.is_empty() {
                return Err(bad("it has bytes left over"));
            }
            body = rest;
        }
        Ok(())
    }

    fn read_record(&mut self, mut body: &[u8]) -> Result<(), Error> {
        self.rules = RulesVersion::V1;
        let parts = ["session", "totals", "tally", "answers", "ledger", "flow"];
        for part in parts.iter().chain(&RECORD_GUARDS) {
            body = self.read_part(part, 1, body)?;
        }
        if body.is_empty() { Ok(()) } else { Err(bad("it has bytes left over")) }
    }

    /// Reads one part and returns the bytes that follow it.
    fn read_part<'b>(&mut self, part: &str, layout: u16, bytes: &'b [u8]) -> Result<&'b [u8], Error> {
        let into = |read: postcard::Result<&'b [u8]>| {
            read.map_err(|error| bad(&format!("its part '{part}': {error}")))
        };
        match part {
            "rules" => {
                let (number, rest): (u64, _) =
                    read_layout(layout, 1, bytes).map_err(|error| bad(&error.to_string()))?;
                self.rules = RulesVersion::from_number(number)
                    .ok_or_else(|| bad(&format!("it is under version {number} of the rules")))?;
                Ok(rest)
            }
            "session" => into(self.read_session(layout, bytes)),
            "stops" => into(read_into(&mut self.stops, layout, bytes)),
            "person" => into(Person::read(layout, bytes).map(|(person, rest)| {
                self.person = person;
                rest
            })),
            "work" => into(read_into(&mut self.work, layout, bytes)),
            "spent_budgets" => into(read_into(&mut self.spent_budgets, layout, bytes)),
            "clock" => {
                let mut clock = (0, 0);
                let rest = into(read_into(&mut clock, layout, bytes))?;
                (self.behind_ms, self.suspended_ms) = clock;
                Ok(rest)
            }
            "totals" => into(read_into(&mut self.totals, layout, bytes)),
            "tally" => into(read_into(&mut self.tally, layout, bytes)),
            "answers" => into(read_into(&mut self.answers, layout, bytes)),
            "ledger" => into(read_into(&mut self.ledger, layout, bytes)),
            // The start comes in a section of its own, after the rest.
            "flow" => into(read_into(&mut self.flow, layout, bytes)),
            "flow_start" => {
                let mut start = String::new();
                let rest = into(read_into(&mut start, layout, bytes))?;
                self.flow.start = Some(start);
                Ok(rest)
            }
            guard => match self.watch.read(guard, layout, bytes) {
                Some(read) => into(read),
                None => Err(bad(&format!("its part '{part}' is not known"))),
            },
        }
    }

    fn read_session<'b>(&mut self, layout: u16, bytes: &'b [u8]) -> postcard::Result<&'b [u8]> {
        let (session, rest) = read_layout(layout, 1, bytes)?;
        let (clock, latches, terms) = session;
        (self.seq, self.now, self.started, self.active_ms, self.ended) = clock;
        (self.halted, self.blocked, self.labelled) = latches;
        (self.policy, self.parent, self.credits, self.releases) = terms;
        Ok(rest)
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
        } else if self.is_halted() {
            Status::Halted
        } else if self.blocked.is_some() {
            Status::Blocked
        } else if self.watch.confirmation.awaits() {
            Status::AwaitingConfirmation
        } else {
            Status::Running
        }
    }

    /// Whether a guard has halted the session or a person has stopped it.
    #[must_use]
    pub fn is_halted(&self) -> bool {
        self.halted.is_some() || !self.stops.is_empty()
    }

    /// The number of the last event.
    #[must_use]
    pub const fn seq(&self) -> u64 {
        self.seq
    }

    /// The version of the decision rules that the session started under.
    #[must_use]
    pub const fn rules_version(&self) -> RulesVersion {
        self.rules
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

    /// How much time the session has, before its next event, until a budget is used up: runtime, wall-clock time, the
    /// timeout of the turn, and the runtime of the node and of the loops that it is in. `now` is the time in milliseconds
    /// since 1970. `None` if no enforced budget limits it.
    #[must_use]
    pub fn time_left_ms(&self, policy: &Policy, node: Option<&str>, now: u64) -> Option<u64> {
        let wall_ms = now.max(self.now).saturating_sub(self.started.unwrap_or(now));
        let position = Position { policy, flow: &self.flow, node, active_ms: self.active_ms, wall_ms };
        self.watch.budget.time_left_ms(&position)
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

/// The encoded sections of a state.
pub(crate) struct Sections {
    bytes: Vec<u8>,
}

impl Sections {
    /// Adds a section: its name, its layout, its length and its content.
    pub(crate) fn write<T: Serialize>(&mut self, name: &str, layout: u16, value: &T) -> postcard::Result<()> {
        let content = postcard::to_allocvec(value)?;
        let header = postcard::to_allocvec(&(name, layout, content.len()))?;
        self.bytes.extend_from_slice(&header);
        self.bytes.extend_from_slice(&content);
        Ok(())
    }
}

/// One encoded section.
struct Section<'b> {
    name: &'b str,
    layout: u16,
    bytes: &'b [u8],
}

impl<'b> Section<'b> {
    fn take(bytes: &'b [u8]) -> postcard::Result<(Self, &'b [u8])> {
        let ((name, layout, len), rest): ((&str, u16, usize), &[u8]) = postcard::take_from_bytes(bytes)?;
        let (bytes, rest) = rest.split_at_checked(len).ok_or(postcard::Error::DeserializeUnexpectedEnd)?;
        Ok((Section { name, layout, bytes }, rest))
    }
}

/// Reads a value that has had one layout so far; returns it with the bytes that follow.
pub(crate) fn read_layout<'b, T: Deserialize<'b>>(
    layout: u16,
    known: u16,
    bytes: &'b [u8],
) -> postcard::Result<(T, &'b [u8])> {
    if layout != known {
        return Err(postcard::Error::DeserializeBadVarint);
    }
    postcard::take_from_bytes(bytes)
}

fn read_into<'b, T: Deserialize<'b>>(
    slot: &mut T,
    layout: u16,
    bytes: &'b [u8],
) -> postcard::Result<&'b [u8]> {
    let (value, rest) = read_layout(layout, 1, bytes)?;
    *slot = value;
    Ok(rest)
}

fn bad(why: &str) -> Error {
    Error::new(
        Code::BadState,
        format!("the stored state cannot be read: {why}"),
        "work it out again from the session's events",
    )
}

//! Session state: plain, bounded data with a lossless encoding.

use crate::call_ledger::CallLedger;
use crate::decision::{HaltReason, SessionPhase};
use crate::decision_cache::DecisionCache;
use crate::error::{Error, ErrorCode};
use crate::event::Usage;
use crate::guards::{BudgetPosition, ExhaustedBudget, GuardStates};
use crate::limits::STATE_BYTES;
use crate::observation::WorkLog;
use crate::person_message::PersonState;
use crate::policy::{Policy, SessionCounters};
use crate::rules_version::RulesVersion;
use crate::tool_usage::ToolUsageTable;
use crate::workflow_position::WorkflowPosition;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Layout of the encoded state: named sections, each with a separate layout version, so that a new or changed guard
/// never makes a stored session unreadable.
const LAYOUT_SECTIONS: u8 = 3;
/// The previous layout: one record that ends with the guards in the order of [`RECORD_GUARDS`].
const LAYOUT_RECORD: u8 = 2;
/// Guards of a record, in encoding order.
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

/// Why a session is stopped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Latch {
    pub(crate) guard: String,
    pub(crate) reason: String,
    pub(crate) halt_reason: HaltReason,
    pub(crate) message: String,
    pub(crate) seq: u64,
    /// The budget that a release raises.
    pub(crate) budget: Option<ExhaustedBudget>,
}

/// A stop by a person. It stays until a person lifts it explicitly; other releases do not affect it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct HumanStop {
    pub(crate) by: String,
    pub(crate) why: String,
    pub(crate) seq: u64,
}

impl HumanStop {
    /// The author and reason of the stop.
    pub(crate) fn message(&self) -> String {
        format!("stopped by {}: {}", self.by, self.why)
    }
}

/// Counters over the whole session.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SessionTotals {
    pub(crate) errors: u64,
    pub(crate) warnings: u64,
    pub(crate) blocks: u64,
    pub(crate) halts: u64,
    pub(crate) messages: u64,
}

/// The complete state of a session.
///
/// [`SessionState::encode`] and [`SessionState::decode`] are lossless, and the encoded form stays below [`STATE_BYTES`]
/// no matter how long the session runs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SessionState {
    /// The session's version of the decision rules.
    pub(crate) rules: RulesVersion,
    pub(crate) seq: u64,
    pub(crate) now: u64,
    pub(crate) started: Option<u64>,
    pub(crate) active_ms: u64,
    /// Offset added to event times after the event clock was set back.
    pub(crate) clock_offset_ms: u64,
    /// Total suspend time of the machine, as of the last event that reported it.
    pub(crate) suspended_ms: u64,
    pub(crate) ended: bool,
    pub(crate) halted: Option<Latch>,
    pub(crate) blocked: Option<Latch>,
    /// Budgets exhausted at the halt.
    pub(crate) exhausted_budgets: Vec<ExhaustedBudget>,
    /// Stops by people that were not lifted, oldest first. Under version 1 of the rules, `halted` holds the stop
    /// instead.
    pub(crate) stops: Vec<HumanStop>,
    /// Open questions to a person, and restarts.
    pub(crate) person: PersonState,
    /// Whether the human-in-the-loop label is set.
    pub(crate) labeled: bool,
    /// The inline policy of `session.started`, as canonical JSON.
    pub(crate) policy: Option<String>,
    pub(crate) parent: Option<String>,
    /// Remaining acts allowed by releases, by guard.
    pub(crate) grants: BTreeMap<String, u64>,
    /// Releases so far, by guard.
    pub(crate) releases: BTreeMap<String, u64>,
    pub(crate) totals: SessionTotals,
    /// Allowed, blocked and failed calls per tool.
    pub(crate) tool_usage: ToolUsageTable,
    /// The most recent outputs, diffs and failures, as evidence for a halt.
    pub(crate) work: WorkLog,
    pub(crate) decision_cache: DecisionCache,
    pub(crate) calls: CallLedger,
    pub(crate) position: WorkflowPosition,
    pub(crate) guards: GuardStates,
}

impl SessionState {
    /// Encodes the state.
    ///
    /// # Errors
    /// Never for a state created by the governor; the signature follows the encoder.
    pub fn encode(&self) -> Result<Vec<u8>, Error> {
        let mut sections = SectionWriter { bytes: vec![LAYOUT_SECTIONS] };
        self.write(&mut sections).map_err(|error| corrupt_state(&error.to_string()))?;
        Ok(sections.bytes)
    }

    fn write(&self, sections: &mut SectionWriter) -> postcard::Result<()> {
        sections.write("rules", 1, &self.rules.number())?;
        let session = (
            (&self.seq, &self.now, &self.started, &self.active_ms, &self.ended),
            (&self.halted, &self.blocked, &self.labeled),
            (&self.policy, &self.parent, &self.grants, &self.releases),
        );
        sections.write("session", 1, &session)?;
        sections.write("stops", 1, &self.stops)?;
        if self.person != PersonState::default() {
            sections.write("person", PersonState::LAYOUT, &self.person)?;
        }
        if self.work != WorkLog::default() {
            sections.write("work", 1, &self.work)?;
        }
        if !self.exhausted_budgets.is_empty() {
            sections.write("spent_budgets", 1, &self.exhausted_budgets)?;
        }
        if (self.clock_offset_ms, self.suspended_ms) != (0, 0) {
            sections.write("clock", 1, &(self.clock_offset_ms, self.suspended_ms))?;
        }
        sections.write("totals", 1, &self.totals)?;
        sections.write("tally", 1, &self.tool_usage)?;
        sections.write("answers", 1, &self.decision_cache)?;
        sections.write("ledger", 1, &self.calls)?;
        sections.write("flow", 1, &self.position)?;
        if let Some(start) = &self.position.start {
            sections.write("flow_start", 1, start)?;
        }
        self.guards.write(sections)
    }

    /// Decodes a state in this layout or the previous one.
    ///
    /// # Errors
    /// If the bytes are not a state, or were written by a newer version of Flyball.
    pub fn decode(bytes: &[u8]) -> Result<Self, Error> {
        let body = match bytes.split_first() {
            Some((&(LAYOUT_SECTIONS | LAYOUT_RECORD), body)) if body.len() <= 4 * STATE_BYTES => body,
            Some((&(LAYOUT_SECTIONS | LAYOUT_RECORD), _)) => return Err(corrupt_state("it is too large")),
            _ => return Err(corrupt_state("it has another version")),
        };
        let mut state = SessionState::default();
        if bytes.first() == Some(&LAYOUT_SECTIONS) {
            state.read_sections(body)?;
        } else {
            state.read_record(body)?;
        }
        state.position.rebuild(state.rules);
        state.calls.rules = state.rules;
        Ok(state)
    }

    fn read_sections(&mut self, mut body: &[u8]) -> Result<(), Error> {
        while !body.is_empty() {
            let (section, rest) =
                EncodedSection::read(body).map_err(|error| corrupt_state(&error.to_string()))?;
            let left = self.read_part(section.name, section.layout, section.bytes)?;
            if !left.is_empty() {
                return Err(corrupt_state("it has bytes left over"));
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
        if body.is_empty() { Ok(()) } else { Err(corrupt_state("it has bytes left over")) }
    }

    /// Decodes one part and returns the remaining bytes.
    fn read_part<'b>(&mut self, part: &str, layout: u16, bytes: &'b [u8]) -> Result<&'b [u8], Error> {
        let into = |read: postcard::Result<&'b [u8]>| {
            read.map_err(|error| corrupt_state(&format!("its part '{part}': {error}")))
        };
        match part {
            "rules" => {
                let (number, rest): (u64, _) =
                    read_layout(layout, 1, bytes).map_err(|error| corrupt_state(&error.to_string()))?;
                self.rules = RulesVersion::from_number(number)
                    .ok_or_else(|| corrupt_state(&format!("it is under version {number} of the rules")))?;
                Ok(rest)
            }
            "session" => into(self.read_session(layout, bytes)),
            "stops" => into(read_into(&mut self.stops, layout, bytes)),
            "person" => into(PersonState::read(layout, bytes).map(|(person, rest)| {
                self.person = person;
                rest
            })),
            "work" => into(read_into(&mut self.work, layout, bytes)),
            "spent_budgets" => into(read_into(&mut self.exhausted_budgets, layout, bytes)),
            "clock" => {
                let mut clock = (0, 0);
                let rest = into(read_into(&mut clock, layout, bytes))?;
                (self.clock_offset_ms, self.suspended_ms) = clock;
                Ok(rest)
            }
            "totals" => into(read_into(&mut self.totals, layout, bytes)),
            "tally" => into(read_into(&mut self.tool_usage, layout, bytes)),
            "answers" => into(read_into(&mut self.decision_cache, layout, bytes)),
            "ledger" => into(read_into(&mut self.calls, layout, bytes)),
            // The start is stored in a later section.
            "flow" => into(read_into(&mut self.position, layout, bytes)),
            "flow_start" => {
                let mut start = String::new();
                let rest = into(read_into(&mut start, layout, bytes))?;
                self.position.start = Some(start);
                Ok(rest)
            }
            guard => match self.guards.read(guard, layout, bytes) {
                Some(read) => into(read),
                None => Err(corrupt_state(&format!("its part '{part}' is not known"))),
            },
        }
    }

    fn read_session<'b>(&mut self, layout: u16, bytes: &'b [u8]) -> postcard::Result<&'b [u8]> {
        let (session, rest) = read_layout(layout, 1, bytes)?;
        let (clock, latches, terms) = session;
        (self.seq, self.now, self.started, self.active_ms, self.ended) = clock;
        (self.halted, self.blocked, self.labeled) = latches;
        (self.policy, self.parent, self.grants, self.releases) = terms;
        Ok(rest)
    }

    /// Digest of the state; equal states have equal digests.
    ///
    /// # Errors
    /// Same as [`SessionState::encode`].
    pub fn digest(&self) -> Result<String, Error> {
        Ok(blake3::hash(&self.encode()?).to_hex().to_string())
    }

    /// Phase of the session.
    #[must_use]
    pub fn status(&self) -> SessionPhase {
        if self.ended {
            SessionPhase::Ended
        } else if self.is_halted() {
            SessionPhase::Halted
        } else if self.blocked.is_some() {
            SessionPhase::Blocked
        } else if self.guards.confirmation.is_awaiting() {
            SessionPhase::AwaitingConfirmation
        } else {
            SessionPhase::Running
        }
    }

    /// Whether a guard halted the session or a person stopped it.
    #[must_use]
    pub fn is_halted(&self) -> bool {
        self.halted.is_some() || !self.stops.is_empty()
    }

    /// Sequence number of the last event.
    #[must_use]
    pub const fn seq(&self) -> u64 {
        self.seq
    }

    /// The session's version of the decision rules.
    #[must_use]
    pub const fn rules_version(&self) -> RulesVersion {
        self.rules
    }

    /// The parent session.
    #[must_use]
    pub fn parent(&self) -> Option<&str> {
        self.parent.as_deref()
    }

    /// The inline policy of `session.started`, as JSON.
    #[must_use]
    pub fn inline_policy(&self) -> Option<&str> {
        self.policy.as_deref()
    }

    /// Usage of this session and its children.
    #[must_use]
    pub const fn usage(&self) -> &Usage {
        &self.guards.budget.used
    }

    /// Active time in milliseconds, excluding time spent waiting for people.
    #[must_use]
    pub const fn active_ms(&self) -> u64 {
        self.active_ms
    }

    /// Time until the first enforced time budget is exhausted: session runtime, wall-clock time, turn timeout, or the
    /// runtime of the current node or loops. `now` is in milliseconds since 1970. `None` if no enforced budget limits
    /// time.
    #[must_use]
    pub fn time_left_ms(&self, policy: &Policy, node: Option<&str>, now: u64) -> Option<u64> {
        let wall_ms = now.max(self.now).saturating_sub(self.started.unwrap_or(now));
        let position =
            BudgetPosition { policy, flow: &self.position, node, active_ms: self.active_ms, wall_ms };
        self.guards.budget.time_left_ms(&position)
    }

    /// Counters for custom rules and reports.
    #[must_use]
    pub fn counters(&self) -> SessionCounters {
        self.counters_at(None)
    }

    /// Counters, with the visits of the given node or else of the current node.
    pub(crate) fn counters_at(&self, node: Option<&str>) -> SessionCounters {
        let budget = &self.guards.budget;
        let visits = node.or_else(|| self.position.node()).map_or(0, |node| self.guards.visits.count(node));
        SessionCounters {
            calls: budget.calls,
            turns: budget.turns,
            transitions: self.guards.transitions.total(),
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
            node: self.position.node().unwrap_or_default().to_owned(),
        }
    }
}

/// The encoded sections of a state.
pub(crate) struct SectionWriter {
    bytes: Vec<u8>,
}

impl SectionWriter {
    /// Adds a section: name, layout, length and content.
    pub(crate) fn write<T: Serialize>(&mut self, name: &str, layout: u16, value: &T) -> postcard::Result<()> {
        let content = postcard::to_allocvec(value)?;
        let header = postcard::to_allocvec(&(name, layout, content.len()))?;
        self.bytes.extend_from_slice(&header);
        self.bytes.extend_from_slice(&content);
        Ok(())
    }
}

/// One encoded section.
struct EncodedSection<'b> {
    name: &'b str,
    layout: u16,
    bytes: &'b [u8],
}

impl<'b> EncodedSection<'b> {
    fn read(bytes: &'b [u8]) -> postcard::Result<(Self, &'b [u8])> {
        let ((name, layout, len), rest): ((&str, u16, usize), &[u8]) = postcard::take_from_bytes(bytes)?;
        let (bytes, rest) = rest.split_at_checked(len).ok_or(postcard::Error::DeserializeUnexpectedEnd)?;
        Ok((EncodedSection { name, layout, bytes }, rest))
    }
}

/// Decodes a value that has only one layout; returns it with the remaining bytes.
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

fn corrupt_state(why: &str) -> Error {
    Error::new(
        ErrorCode::BadState,
        format!("the stored state cannot be read: {why}"),
        "rebuild it from the session's events",
    )
}

#[cfg(test)]
mod tests {
    //! A guard that is new, or whose state was never stored, leaves stored sessions readable.

    use super::{EncodedSection, LAYOUT_SECTIONS, SessionState};
    use crate::guards::GuardStates;

    /// The sections of a state: name and all bytes.
    fn sections(bytes: &[u8]) -> Vec<(String, Vec<u8>)> {
        let mut all = Vec::new();
        let mut body = &bytes[1..];
        while !body.is_empty() {
            let (section, rest) = EncodedSection::read(body).unwrap();
            all.push((section.name.to_owned(), body[..body.len() - rest.len()].to_vec()));
            body = rest;
        }
        all
    }

    #[test]
    fn a_state_without_the_section_of_a_guard_is_readable() {
        let state = SessionState { seq: 7, ..SessionState::default() };
        let all = sections(&state.encode().unwrap());
        for guard in GuardStates::NAMES {
            let kept = all.iter().filter(|(name, _)| name != guard);
            let mut bytes = vec![LAYOUT_SECTIONS];
            kept.for_each(|(_, section)| bytes.extend_from_slice(section));
            assert_eq!(SessionState::decode(&bytes).unwrap(), state, "{guard}");
        }
    }

    #[test]
    fn no_guard_has_the_name_of_another_section() {
        let source = include_str!("state.rs");
        for guard in GuardStates::NAMES {
            let taken = source.contains(&format!("write(\"{guard}\""))
                || source.contains(&format!("\"{guard}\" => "));
            assert!(!taken, "'{guard}' is a section of the state itself");
        }
    }
}

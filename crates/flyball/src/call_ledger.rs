//! The call ledger: open tool calls, rounds, and what is new.
//!
//! It derives facts from a tool event once, for all guards: whether the call is repeated, whether its result is new,
//! whether it wrote something new, and whether Flyball itself denied it.

use crate::bounded_map::{BoundedMap, truncate_bytes};
use crate::event::{
    CallNumbers, Event, EventKind, call_identity, canonical_json, guess_tool_effect, normalize_into,
};
use crate::fingerprint::Fingerprint;
use crate::limits::{
    OPEN_CALLS, ROUND_CALLS, ROUND_DUPLICATES, SEEN_CALLS, SEEN_WRITES, SHORT_RESULT_BYTES, SHOWN_NAME_BYTES,
};
use crate::policy::{Policy, ToolEffect};
use crate::rules_version::RulesVersion;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::borrow::Cow;
use std::collections::VecDeque;

/// A call that was requested and has not finished.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct OpenCall {
    key: Fingerprint,
    facts: CallFacts,
    refused: bool,
}

/// Facts about a tool call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CallFacts {
    /// Tool name, truncated for messages.
    pub(crate) tool: String,
    /// Fingerprint of the tool with its canonical arguments.
    pub(crate) call: Fingerprint,
    /// Fingerprint with every number blanked.
    pub(crate) skeleton: Fingerprint,
    /// The first of these numbers.
    pub(crate) numbers: CallNumbers,
    /// Side effect of the tool.
    pub(crate) effect: ToolEffect,
    /// Whether the round already has an equal call.
    pub(crate) duplicate_in_round: bool,
    /// Sequence number of the request.
    pub(crate) seq: u64,
    /// The model response that it belongs to, by our own count.
    pub(crate) round: u64,
    /// Result of the previous identical call.
    pub(crate) last_result: Fingerprint,
}

/// Facts about a call's result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ResultFacts {
    /// Whether the call failed.
    pub(crate) failed: bool,
    /// Fingerprint of the normalized result.
    pub(crate) result: Fingerprint,
    /// Fingerprint of the call with its result.
    pub(crate) pair: Fingerprint,
    /// Whether the failure reported only an exit status, as `grep` does when it finds nothing.
    pub(crate) is_bare_status: bool,
    /// Whether it wrote something that was not written before.
    pub(crate) new_write: bool,
    /// Whether to ignore the result: it echoes our own denial, or belongs to an unknown call.
    pub(crate) ignored: bool,
}

/// Facts about an event for the guards.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct EventFacts {
    /// The call, for `tool.*` events.
    pub(crate) call: Option<CallFacts>,
    /// The result, for `tool.finished`.
    pub(crate) result: Option<ResultFacts>,
    /// Whether a person spoke.
    pub(crate) from_human: bool,
    /// Whether a new model response starts.
    pub(crate) new_model_response: bool,
    /// Whether no call result was ever seen in this session, so that only the calls can be compared.
    pub(crate) no_results_seen: bool,
}

/// The ledger.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CallLedger {
    open: VecDeque<OpenCall>,
    /// The round number given by the host.
    round: Option<u64>,
    /// The calls of the current round.
    round_calls: Vec<Fingerprint>,
    /// Whether the agent spoke after a call: later calls belong to another response, even under the same round number.
    agent_spoke: bool,
    /// Whether the provider request was retried: equal calls that follow belong to the same response.
    retried: bool,
    /// Number of model responses so far.
    rounds: u64,
    writes: BoundedMap<(), SEEN_WRITES>,
    /// The last result of each call.
    last_results: BoundedMap<LastResult, SEEN_CALLS>,
    result_count: u64,
    /// The version of the decision rules; set with every event.
    #[serde(skip)]
    pub(crate) rules: RulesVersion,
}

/// The last result of a call: its raw and normalized fingerprints.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct LastResult {
    raw: Fingerprint,
    result: Fingerprint,
}

impl CallLedger {
    /// Derives the facts of an event and removes finished calls from the ledger.
    pub(crate) fn derive_facts(
        &mut self,
        event: &Event,
        policy: &Policy,
        seq: u64,
        rules: RulesVersion,
    ) -> EventFacts {
        self.rules = rules;
        let mut facts = EventFacts { no_results_seen: self.result_count == 0, ..EventFacts::default() };
        match &event.kind {
            EventKind::ToolRequested { tool, args, .. } => {
                facts.call = Some(self.call_facts(event.round, tool, args, policy, seq));
                facts.new_model_response = !self.agent_spoke && !self.same_round(event.round);
            }
            EventKind::ToolFinished { call, ok, output, error, tool, args, .. } => {
                self.result_count = self.result_count.saturating_add(1);
                let open = self.take_open_call(call.as_deref());
                let refused = open.as_ref().is_some_and(|open| open.refused);
                let known = match open {
                    Some(open) => Some(open.facts),
                    None => tool.as_deref().map(|tool| {
                        // Never requested: it starts and ends here.
                        let facts = self.call_facts(event.round, tool, args, policy, seq);
                        self.join_round(event.round, facts.call);
                        facts
                    }),
                };
                if let Some(known) = known {
                    facts.result = Some(self.result_facts(&known, *ok, output, error, refused));
                    facts.call = Some(known);
                }
            }
            EventKind::ToolDenied { call, tool, args, .. } => {
                let open = self.take_open_call(call.as_deref()).map(|open| open.facts);
                facts.call = open
                    .or_else(|| tool.as_deref().map(|tool| self.call_facts(None, tool, args, policy, seq)));
            }
            EventKind::AssistantMessage { .. } => {
                self.agent_spoke = true;
                facts.new_model_response = true;
            }
            EventKind::ApiRetry {} => self.retried = true,
            EventKind::UserMessage { origin, .. } => {
                self.end_round();
                facts.from_human = *origin == crate::event::MessageOrigin::Human;
            }
            _ => {}
        }
        facts
    }

    /// Records a requested call, denied or not.
    pub(crate) fn record_request(&mut self, event: &Event, facts: &CallFacts, refused: bool) {
        let EventKind::ToolRequested { call, .. } = &event.kind else { return };
        self.join_round(event.round, facts.call);
        self.retried = false;
        let key = call_key(call.as_deref());
        if self.rules > RulesVersion::V1 && call.is_some() {
            // The same call again after a denial: the denied one is obsolete.
            self.open.retain(|open| !(open.refused && open.key == key));
        }
        if self.open.len() >= OPEN_CALLS {
            self.open.pop_front();
        }
        self.open.push_back(OpenCall { key, facts: facts.clone(), refused });
    }

    /// Fingerprint of the open call with this id.
    pub(crate) fn open_call_fingerprint(&self, call: &str) -> Option<Fingerprint> {
        let key = call_key(Some(call));
        self.open.iter().rev().find(|open| open.key == key).map(|open| open.facts.call)
    }

    fn call_facts(
        &self,
        round: Option<u64>,
        tool: &str,
        args: &Value,
        policy: &Policy,
        seq: u64,
    ) -> CallFacts {
        let same = call_identity(tool, args);
        let effect =
            policy.tool(tool).and_then(|tool| tool.effect).unwrap_or_else(|| guess_tool_effect(tool, args));
        let twin = self.is_duplicate_in_round(round, same.call);
        let round = self.rounds + u64::from(!self.same_round(round));
        CallFacts {
            tool: truncate_bytes(tool, SHOWN_NAME_BYTES).to_owned(),
            call: same.call,
            skeleton: same.skeleton,
            numbers: same.numbers,
            effect,
            duplicate_in_round: twin,
            seq,
            round,
            last_result: self.last_results.get(same.call).map_or(Fingerprint::NONE, |last| last.result),
        }
    }

    /// Whether an equal call belongs to the same model response. Round numbers and retry notices are claims of the
    /// sender, so only a few equal calls are merged.
    fn is_duplicate_in_round(&self, round: Option<u64>, call: Fingerprint) -> bool {
        let few = |count: usize| count > 0 && (self.rules == RulesVersion::V1 || count < ROUND_DUPLICATES);
        let in_round = || self.round_calls.iter().filter(|known| **known == call).count();
        let still_open = || self.open.iter().filter(|open| open.facts.call == call).count();
        (self.same_round(round) && few(in_round())) || (self.retried && few(still_open()))
    }

    /// Whether a call with this round number belongs to the current round. A round has at most [`ROUND_CALLS`] calls;
    /// each further call is a separate response, so that a constant round number hides nothing.
    fn same_round(&self, round: Option<u64>) -> bool {
        let full = self.rules > RulesVersion::V1 && self.round_calls.len() >= ROUND_CALLS;
        self.same_round_number(round) && !full
    }

    fn same_round_number(&self, round: Option<u64>) -> bool {
        round.is_some() && round == self.round && !self.agent_spoke
    }

    /// Adds a call to its round, starting a new one if necessary.
    fn join_round(&mut self, round: Option<u64>, call: Fingerprint) {
        self.start_round(round);
        let listed = self.rules == RulesVersion::V1 && self.round_calls.contains(&call);
        if self.round_calls.len() < ROUND_CALLS && !listed {
            self.round_calls.push(call);
        }
    }

    fn start_round(&mut self, round: Option<u64>) {
        if !self.same_round_number(round) {
            self.round_calls.clear();
        }
        if !self.same_round(round) {
            self.rounds = self.rounds.saturating_add(1);
        }
        self.round = round;
        self.agent_spoke = false;
    }

    fn end_round(&mut self) {
        self.round = None;
        self.round_calls.clear();
        self.agent_spoke = false;
        self.retried = false;
    }

    fn take_open_call(&mut self, call: Option<&str>) -> Option<OpenCall> {
        let key = call_key(call);
        let at = self.open.iter().position(|open| open.key == key)?;
        self.open.remove(at)
    }

    fn result_facts(
        &mut self,
        call: &CallFacts,
        ok: Option<bool>,
        output: &Value,
        error: &Value,
        refused: bool,
    ) -> ResultFacts {
        let error_text = value_text(error);
        let failed = !ok.unwrap_or(error_text.is_empty());
        let text = if failed && !error_text.is_empty() { error_text } else { value_text(output) };
        let (result, bare) = self.normalize_result(call.call, &text, failed);
        let writes = matches!(call.effect, ToolEffect::Write | ToolEffect::Destructive);
        let new_write = writes && !failed && !refused && !self.writes.contains(call.call);
        if new_write {
            self.writes.entry(call.call);
        }
        ResultFacts {
            failed,
            result,
            pair: call.call.combine(result),
            is_bare_status: bare,
            new_write,
            ignored: refused,
        }
    }
}

impl CallLedger {
    /// Normalizes a result, and detects a bare exit status.
    ///
    /// Normalizing a long text costs more than all guards together, so it is done only when there is something to
    /// compare with: a failure (other calls may produce the same error), or a call that was made before with a
    /// different raw result. The first long result of a call is identified by its raw bytes; if only volatile parts
    /// change after that, the repetition is detected one call later.
    fn normalize_result(&mut self, call: Fingerprint, text: &str, failed: bool) -> (Fingerprint, bool) {
        let raw = Fingerprint::of(text.as_bytes()).combine(Fingerprint::of(&[u8::from(failed)]));
        let known = self.last_results.contains(call);
        let last = self.last_results.entry(call);
        let mut bare = false;
        if !known && !failed && text.len() > SHORT_RESULT_BYTES {
            last.result = raw;
        } else if !known || last.raw != raw || failed {
            let mut normal = String::with_capacity(text.len() + 16);
            normalize_into(text, &mut normal);
            bare = failed && is_bare_status(&normal);
            let result = Fingerprint::of(normal.as_bytes()).combine(Fingerprint::of(&[2 + u8::from(failed)]));
            // Equal bytes keep their earlier fingerprint, whichever way it was computed.
            if !known || last.raw != raw {
                last.result = result;
            }
        }
        last.raw = raw;
        (last.result, bare)
    }
}

fn call_key(call: Option<&str>) -> Fingerprint {
    call.map_or(Fingerprint::NONE, Fingerprint::of_text)
}

fn value_text(value: &Value) -> Cow<'_, str> {
    match value {
        Value::Null => Cow::Borrowed(""),
        Value::String(text) => Cow::Borrowed(text),
        other => Cow::Owned(canonical_json(other)),
    }
}

/// Whether a failure reports only its exit status: `Exit code 1`, `exit status 2`, `returned 1`.
fn is_bare_status(text: &str) -> bool {
    if text.len() > 48 {
        return false;
    }
    let mut number = false;
    let words = text.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    for word in words {
        if word.bytes().all(|byte| byte.is_ascii_digit()) {
            number = true;
        } else if ![
            "exit", "code", "status", "returned", "return", "exited", "with", "error", "command", "non",
            "zero",
        ]
        .contains(&word.to_ascii_lowercase().as_str())
        {
            return false;
        }
    }
    number
}

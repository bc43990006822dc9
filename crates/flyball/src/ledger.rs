//! The book of tool calls: which are open, which belong to one round, and what is new.
//!
//! It turns a tool event into facts that every guard reads: is this the same call again, did it tell anything new,
//! did it write something that was not written before, was it refused by ourselves. Worked out once an event.

use crate::event::{Event, Kind, Numbers, canonical_json, effect_of, identity, normalise_into};
use crate::fingerprint::Fingerprint;
use crate::limits::{
    OPEN_CALLS, ROUND_CALLS, ROUND_TWINS, SEEN_CALLS, SEEN_WRITES, SHORT_RESULT, SHOWN_NAME_BYTES,
};
use crate::policy::{Effect, Policy};
use crate::rules_version::RulesVersion;
use crate::window::{Keyed, cut};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::borrow::Cow;
use std::collections::VecDeque;

/// A call that was asked for and has not ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct OpenCall {
    key: Fingerprint,
    facts: CallFacts,
    refused: bool,
}

/// What is known of a tool call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CallFacts {
    /// The tool, shortened for messages.
    pub(crate) tool: String,
    /// The tool with its canonical arguments.
    pub(crate) call: Fingerprint,
    /// The same with every number blanked.
    pub(crate) skeleton: Fingerprint,
    /// The first of these numbers.
    pub(crate) numbers: Numbers,
    /// What it does to the world.
    pub(crate) effect: Effect,
    /// An equal call already belongs to this round.
    pub(crate) twin: bool,
    /// The number of the event that asked for it.
    pub(crate) seq: u64,
    /// The answer of the model that it belongs to, counted by us.
    pub(crate) round: u64,
    /// What this call told when it was made the last time.
    pub(crate) told: Fingerprint,
}

/// What the end of a call told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ResultFacts {
    /// It failed.
    pub(crate) failed: bool,
    /// The normalised result.
    pub(crate) result: Fingerprint,
    /// The call with its result.
    pub(crate) pair: Fingerprint,
    /// The failure said no more than an exit status, as `grep` does when it finds nothing.
    pub(crate) bare: bool,
    /// It succeeded in writing something that was not written before.
    pub(crate) new_write: bool,
    /// It is the echo of our own refusal, or of a call that nobody asked for.
    pub(crate) ignored: bool,
}

/// What an event means for the guards.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Facts {
    /// The call, on `tool.*` events.
    pub(crate) call: Option<CallFacts>,
    /// Its end, on `tool.finished`.
    pub(crate) result: Option<ResultFacts>,
    /// A person spoke.
    pub(crate) human: bool,
    /// A new answer of the model begins.
    pub(crate) new_answer: bool,
    /// No result of any call was ever seen in this session: calls are all there is to go by.
    pub(crate) blind: bool,
}

/// The book itself.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Ledger {
    open: VecDeque<OpenCall>,
    /// The round as the host numbers it.
    round: Option<u64>,
    /// The calls of the current round.
    round_calls: Vec<Fingerprint>,
    /// The agent spoke after a call: what follows is another answer, whatever the number says.
    spoke: bool,
    /// The provider was asked again: equal calls that follow are the same answer once more.
    retried: bool,
    /// Answers of the model so far.
    rounds: u64,
    writes: Keyed<(), SEEN_WRITES>,
    /// What each call told the last time.
    told: Keyed<Told, SEEN_CALLS>,
    results: u64,
    /// The version of the decision rules; set with every event.
    #[serde(skip)]
    pub(crate) rules: RulesVersion,
}

/// What a call told: the bytes, and what they stand for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Told {
    raw: Fingerprint,
    result: Fingerprint,
}

impl Ledger {
    /// Works out what an event means, and takes finished calls out of the book.
    pub(crate) fn facts(&mut self, event: &Event, policy: &Policy, seq: u64, rules: RulesVersion) -> Facts {
        self.rules = rules;
        let mut facts = Facts { blind: self.results == 0, ..Facts::default() };
        match &event.kind {
            Kind::ToolRequested { tool, args, .. } => {
                facts.call = Some(self.asked(event.round, tool, args, policy, seq));
                facts.new_answer = !self.spoke && !self.same_round(event.round);
            }
            Kind::ToolFinished { call, ok, output, error, tool, args, .. } => {
                self.results = self.results.saturating_add(1);
                let open = self.take(call.as_deref());
                let refused = open.as_ref().is_some_and(|open| open.refused);
                let known = match open {
                    Some(open) => Some(open.facts),
                    None => tool.as_deref().map(|tool| {
                        // Never asked for: it begins and ends here.
                        let facts = self.asked(event.round, tool, args, policy, seq);
                        self.join_round(event.round, facts.call);
                        facts
                    }),
                };
                if let Some(known) = known {
                    facts.result = Some(self.ended(&known, *ok, output, error, refused));
                    facts.call = Some(known);
                }
            }
            Kind::ToolDenied { call, tool, args, .. } => {
                let open = self.take(call.as_deref()).map(|open| open.facts);
                facts.call =
                    open.or_else(|| tool.as_deref().map(|tool| self.asked(None, tool, args, policy, seq)));
            }
            Kind::AssistantMessage { .. } => {
                self.spoke = true;
                facts.new_answer = true;
            }
            Kind::ApiRetry {} => self.retried = true,
            Kind::UserMessage { origin, .. } => {
                self.end_round();
                facts.human = *origin == crate::event::Origin::Human;
            }
            _ => {}
        }
        facts
    }

    /// Enters a call that was asked for, refused or not.
    pub(crate) fn enter(&mut self, event: &Event, facts: &CallFacts, refused: bool) {
        let Kind::ToolRequested { call, .. } = &event.kind else { return };
        self.join_round(event.round, facts.call);
        self.retried = false;
        let key = call_key(call.as_deref());
        if self.rules > RulesVersion::V1 && call.is_some() {
            // The same call once more, after it was refused: the refusal is over.
            self.open.retain(|open| !(open.refused && open.key == key));
        }
        if self.open.len() >= OPEN_CALLS {
            self.open.pop_front();
        }
        self.open.push_back(OpenCall { key, facts: facts.clone(), refused });
    }

    /// The fingerprint of the open call with this id.
    pub(crate) fn open_call(&self, call: &str) -> Option<Fingerprint> {
        let key = call_key(Some(call));
        self.open.iter().rev().find(|open| open.key == key).map(|open| open.facts.call)
    }

    fn asked(&self, round: Option<u64>, tool: &str, args: &Value, policy: &Policy, seq: u64) -> CallFacts {
        let same = identity(tool, args);
        let effect = policy.tool(tool).and_then(|tool| tool.effect).unwrap_or_else(|| effect_of(tool, args));
        let twin = self.is_twin(round, same.call);
        let round = self.rounds + u64::from(!self.same_round(round));
        CallFacts {
            tool: cut(tool, SHOWN_NAME_BYTES).to_owned(),
            call: same.call,
            skeleton: same.skeleton,
            numbers: same.numbers,
            effect,
            twin,
            seq,
            round,
            told: self.told.get(same.call).map_or(Fingerprint::NONE, |told| told.result),
        }
    }

    /// Whether an equal call belongs to the same answer of the model. The number of an answer and the news of a retry
    /// are the sender's claims, so only a few equal calls are taken for one.
    fn is_twin(&self, round: Option<u64>, call: Fingerprint) -> bool {
        let few = |count: usize| count > 0 && (self.rules == RulesVersion::V1 || count < ROUND_TWINS);
        let in_round = || self.round_calls.iter().filter(|known| **known == call).count();
        let still_open = || self.open.iter().filter(|open| open.facts.call == call).count();
        (self.same_round(round) && few(in_round())) || (self.retried && few(still_open()))
    }

    /// Whether a call with this round belongs to the current one. No answer has more than [`ROUND_CALLS`] calls: beyond
    /// that each is an answer of its own, so that a constant number hides nothing.
    fn same_round(&self, round: Option<u64>) -> bool {
        let full = self.rules > RulesVersion::V1 && self.round_calls.len() >= ROUND_CALLS;
        self.same_number(round) && !full
    }

    fn same_number(&self, round: Option<u64>) -> bool {
        round.is_some() && round == self.round && !self.spoke
    }

    /// Counts a call among those of its round, which may begin with it.
    fn join_round(&mut self, round: Option<u64>, call: Fingerprint) {
        self.new_round(round);
        let listed = self.rules == RulesVersion::V1 && self.round_calls.contains(&call);
        if self.round_calls.len() < ROUND_CALLS && !listed {
            self.round_calls.push(call);
        }
    }

    fn new_round(&mut self, round: Option<u64>) {
        if !self.same_number(round) {
            self.round_calls.clear();
        }
        if !self.same_round(round) {
            self.rounds = self.rounds.saturating_add(1);
        }
        self.round = round;
        self.spoke = false;
    }

    fn end_round(&mut self) {
        self.round = None;
        self.round_calls.clear();
        self.spoke = false;
        self.retried = false;
    }

    fn take(&mut self, call: Option<&str>) -> Option<OpenCall> {
        let key = call_key(call);
        let at = self.open.iter().position(|open| open.key == key)?;
        self.open.remove(at)
    }

    fn ended(
        &mut self,
        call: &CallFacts,
        ok: Option<bool>,
        output: &Value,
        error: &Value,
        refused: bool,
    ) -> ResultFacts {
        let error_text = text_of(error);
        let failed = !ok.unwrap_or(error_text.is_empty());
        let text = if failed && !error_text.is_empty() { error_text } else { text_of(output) };
        let (result, bare) = self.result(call.call, &text, failed);
        let writes = matches!(call.effect, Effect::Write | Effect::Destructive);
        let new_write = writes && !failed && !refused && !self.writes.contains(call.call);
        if new_write {
            self.writes.entry(call.call);
        }
        ResultFacts { failed, result, pair: call.call.with(result), bare, new_write, ignored: refused }
    }
}

impl Ledger {
    /// What a result stands for, and whether it is a bare status.
    ///
    /// Normalising a long text costs more than all guards together, so it is done when there is something to compare
    /// with: a failure (the same error may come from other calls), or a call that was made before and told other
    /// bytes. The first long result of a call is known by its bytes alone; if only volatile parts change from then
    /// on, the row is noticed one call later.
    fn result(&mut self, call: Fingerprint, text: &str, failed: bool) -> (Fingerprint, bool) {
        let raw = Fingerprint::of(text.as_bytes()).with(Fingerprint::of(&[u8::from(failed)]));
        let known = self.told.contains(call);
        let told = self.told.entry(call);
        let mut bare = false;
        if !known && !failed && text.len() > SHORT_RESULT {
            told.result = raw;
        } else if !known || told.raw != raw || failed {
            let mut normal = String::with_capacity(text.len() + 16);
            normalise_into(text, &mut normal);
            bare = failed && is_bare(&normal);
            let result = Fingerprint::of(normal.as_bytes()).with(Fingerprint::of(&[2 + u8::from(failed)]));
            // The same bytes stand for the same as before, however they were taken then.
            if !known || told.raw != raw {
                told.result = result;
            }
        }
        told.raw = raw;
        (told.result, bare)
    }
}

fn call_key(call: Option<&str>) -> Fingerprint {
    call.map_or(Fingerprint::NONE, Fingerprint::of_text)
}

fn text_of(value: &Value) -> Cow<'_, str> {
    match value {
        Value::Null => Cow::Borrowed(""),
        Value::String(text) => Cow::Borrowed(text),
        other => Cow::Owned(canonical_json(other)),
    }
}

/// Whether a failure says nothing but its status: `Exit code 1`, `exit status 2`, `returned 1`.
fn is_bare(text: &str) -> bool {
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

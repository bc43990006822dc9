//! State of one transcript session while it is read: the current answer, open calls and unassigned usage.
//!
//! All formats emit user messages, answers, calls and results through this type, which adds rounds, timestamps, models
//! and usage to the events.

use super::emitter::EventEmitter;
use super::{CachedTokens, TranscriptEvent, bounds};
use flyball::{DeniedBy, Event, EventKind, Fingerprint, MessageOrigin, Usage};
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::Arc;

/// Number of answers remembered, for lines that belong to an earlier one.
const MAX_ANSWERS: usize = 64;
/// Maximum number of open calls without an id.
const MAX_UNNAMED_CALLS: usize = 32;

/// Token usage and cost of an answer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct AnswerUsage {
    /// Input tokens, including cached ones.
    pub(super) tokens_in: u64,
    /// Output tokens.
    pub(super) tokens_out: u64,
    /// Cost in millionths of a dollar, if the tool reports it.
    pub(super) cost_micro_usd: u64,
    /// Cached input tokens.
    pub(super) cached: CachedTokens,
}

impl AnswerUsage {
    /// The increase since an earlier count.
    pub(super) fn since(&self, before: &AnswerUsage) -> AnswerUsage {
        AnswerUsage {
            tokens_in: self.tokens_in.saturating_sub(before.tokens_in),
            tokens_out: self.tokens_out.saturating_sub(before.tokens_out),
            cost_micro_usd: self.cost_micro_usd.saturating_sub(before.cost_micro_usd),
            cached: CachedTokens {
                read: self.cached.read.saturating_sub(before.cached.read),
                written: self.cached.written.saturating_sub(before.cached.written),
            },
        }
    }

    /// The maximum of two counts of the same answer.
    pub(super) fn max(&self, other: &AnswerUsage) -> AnswerUsage {
        AnswerUsage {
            tokens_in: self.tokens_in.max(other.tokens_in),
            tokens_out: self.tokens_out.max(other.tokens_out),
            cost_micro_usd: self.cost_micro_usd.max(other.cost_micro_usd),
            cached: CachedTokens {
                read: self.cached.read.max(other.cached.read),
                written: self.cached.written.max(other.cached.written),
            },
        }
    }

    fn usage(&self) -> Usage {
        Usage { tokens_in: self.tokens_in, tokens_out: self.tokens_out, cost_micro_usd: self.cost_micro_usd }
    }

    fn add(&mut self, other: &AnswerUsage) {
        self.tokens_in = self.tokens_in.saturating_add(other.tokens_in);
        self.tokens_out = self.tokens_out.saturating_add(other.tokens_out);
        self.cost_micro_usd = self.cost_micro_usd.saturating_add(other.cost_micro_usd);
        self.cached.add(other.cached);
    }
}

/// The outcome of a call.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum CallEnd<'a> {
    /// Success, with the output.
    Ok(Cow<'a, str>),
    /// Failure, with the error text.
    Failed(Cow<'a, str>),
    /// Denied.
    Denied(DeniedBy),
}

/// An answer that later lines may belong to.
#[derive(Debug, Clone, Copy)]
struct KnownAnswer {
    id: Fingerprint,
    round: u64,
    used: AnswerUsage,
}

/// One session of a transcript.
#[derive(Debug, Clone, Default)]
pub(super) struct Conversation {
    session: String,
    /// The current model.
    pub(super) model: Option<Arc<str>>,
    /// The timestamp of the current line.
    pub(super) at: Option<u64>,
    /// The acting agent, if the transcript names agents.
    pub(super) node: Option<String>,
    rounds: u64,
    round: u64,
    /// Whether the next output of the model starts another answer.
    starts_new_answer: bool,
    answers: VecDeque<KnownAnswer>,
    /// Usage that is not assigned to an event yet.
    pending_usage: AnswerUsage,
    /// Open calls without an id; they finish in order.
    unnamed_calls: VecDeque<u64>,
    calls: u64,
}

impl Conversation {
    /// An empty session.
    pub(super) fn new(session: &str) -> Self {
        let session = if session.is_empty() { "default" } else { session };
        Conversation { session: bounds::name(session), starts_new_answer: true, ..Conversation::default() }
    }

    /// The session name.
    pub(super) fn session(&self) -> &str {
        &self.session
    }

    /// Sets the model, if the name is not empty.
    pub(super) fn set_model(&mut self, model: &str) {
        if !model.is_empty() && self.model.as_deref() != Some(model) {
            self.model = Some(Arc::from(bounds::name(model)));
        }
    }

    /// Emits the start of the session, with its parent if it has one.
    pub(super) fn session_started(&mut self, out: &mut EventEmitter<'_>, parent: Option<&str>) {
        let parent = parent.filter(|parent| *parent != self.session).map(bounds::name);
        self.push(
            out,
            EventKind::SessionStarted {
                policy: None,
                workflow: None,
                parent,
                labels: Map::new(),
                goal: None,
                reopen: false,
            },
            None,
        );
    }

    /// Emits a message to the agent.
    pub(super) fn user_message(
        &mut self,
        out: &mut EventEmitter<'_>,
        text: Cow<'_, str>,
        origin: MessageOrigin,
    ) {
        self.starts_new_answer = true;
        self.push(out, EventKind::UserMessage { text: bounds::text(text), origin }, None);
    }

    /// Assigns the following lines to the answer with this id, until another one is named.
    pub(super) fn set_answer(&mut self, id: &str) {
        let id = Fingerprint::of_text(id);
        if let Some(known) = self.answers.iter().rev().find(|answer| answer.id == id) {
            self.round = known.round;
        } else {
            self.rounds += 1;
            self.round = self.rounds;
            if self.answers.len() == MAX_ANSWERS {
                self.answers.pop_front();
            }
            self.answers.push_back(KnownAnswer { id, round: self.round, used: AnswerUsage::default() });
        }
        self.starts_new_answer = false;
    }

    /// Sets the total usage of an answer; the part already counted is not counted again.
    pub(super) fn set_answer_usage(&mut self, id: &str, used: AnswerUsage) {
        let id = Fingerprint::of_text(id);
        match self.answers.iter_mut().rev().find(|answer| answer.id == id) {
            Some(answer) => {
                self.pending_usage.add(&used.since(&answer.used));
                answer.used = answer.used.max(&used);
            }
            None => self.pending_usage.add(&used),
        }
    }

    /// Adds usage to the next event.
    pub(super) fn add_usage(&mut self, used: AnswerUsage) {
        self.pending_usage.add(&used);
    }

    /// Adds usage to the last event.
    pub(super) fn add_usage_to_last(&mut self, out: &mut EventEmitter<'_>, used: AnswerUsage) {
        if !out.add_usage(&self.session, used.usage(), used.cached) {
            self.pending_usage.add(&used);
        }
    }

    /// Starts another answer with the next output of the model.
    pub(super) fn new_answer(&mut self) {
        self.starts_new_answer = true;
    }

    /// Continues the current answer, although one of its calls has finished.
    pub(super) fn same_answer(&mut self) {
        self.starts_new_answer = false;
    }

    /// Emits a message of the agent.
    pub(super) fn assistant_message(
        &mut self,
        out: &mut EventEmitter<'_>,
        text: Cow<'_, str>,
        is_final: bool,
    ) {
        if text.trim().is_empty() {
            return;
        }
        let round = self.current_round();
        let kind = EventKind::AssistantMessage { text: bounds::text(text), structured: None, is_final };
        self.push(out, kind, Some(round));
    }

    /// Emits a tool request.
    pub(super) fn tool_requested(&mut self, out: &mut EventEmitter<'_>, call: &str, tool: &str, args: Value) {
        let round = self.current_round();
        let tool = if tool.is_empty() { "tool" } else { tool };
        self.calls += 1;
        let call = if call.is_empty() {
            if self.unnamed_calls.len() == MAX_UNNAMED_CALLS {
                self.unnamed_calls.pop_front();
            }
            self.unnamed_calls.push_back(self.calls);
            format!("call-{}", self.calls)
        } else {
            bounds::name(call)
        };
        let kind = EventKind::ToolRequested { call: Some(call), tool: bounds::name(tool), args };
        self.push(out, kind, Some(round));
    }

    /// Emits the end of a call. An end without an id and without an open call is ignored.
    pub(super) fn tool_finished(&mut self, out: &mut EventEmitter<'_>, call: &str, end: CallEnd<'_>) {
        self.tool_finished_in(out, call, end, None);
    }

    /// Emits the end of a call with its duration.
    pub(super) fn tool_finished_in(
        &mut self,
        out: &mut EventEmitter<'_>,
        call: &str,
        end: CallEnd<'_>,
        duration_ms: Option<u64>,
    ) {
        self.starts_new_answer = true;
        let call = match (call, self.unnamed_calls.front()) {
            ("", None) => return,
            ("", Some(number)) => format!("call-{number}"),
            (call, _) => bounds::name(call),
        };
        if self.unnamed_calls.front().is_some_and(|number| call == format!("call-{number}")) {
            self.unnamed_calls.pop_front();
        }
        let call = Some(call);
        let (ok, output, error) = match end {
            CallEnd::Ok(text) => (true, Value::String(bounds::text(text)), Value::Null),
            CallEnd::Failed(text) => (false, Value::Null, Value::String(bounds::text(text))),
            CallEnd::Denied(by) => {
                let kind = EventKind::ToolDenied { call, by, tool: None, args: Value::Null };
                self.push(out, kind, None);
                return;
            }
        };
        let kind = EventKind::ToolFinished {
            call,
            ok: Some(ok),
            output,
            error,
            duration_ms,
            tool: None,
            args: Value::Null,
        };
        self.push(out, kind, None);
    }

    /// Emits any other event of the session.
    pub(super) fn push_kind(&mut self, out: &mut EventEmitter<'_>, kind: EventKind) {
        self.push(out, kind, None);
    }

    /// Ends the session: adds unassigned usage to the last event.
    pub(super) fn finish(&mut self, out: &mut EventEmitter<'_>) {
        let owed = std::mem::take(&mut self.pending_usage);
        out.add_usage(&self.session, owed.usage(), owed.cached);
    }

    fn current_round(&mut self) -> u64 {
        if self.starts_new_answer {
            self.rounds += 1;
            self.round = self.rounds;
            self.starts_new_answer = false;
        }
        self.round
    }

    fn push(&mut self, out: &mut EventEmitter<'_>, kind: EventKind, round: Option<u64>) {
        let owed = std::mem::take(&mut self.pending_usage);
        let mut event = Event::new(self.session.clone(), kind).usage(owed.usage());
        event.at = self.at;
        event.round = round;
        event.node.clone_from(&self.node);
        out.push(TranscriptEvent { event, line: out.line(), model: self.model.clone(), cached: owed.cached });
    }
}

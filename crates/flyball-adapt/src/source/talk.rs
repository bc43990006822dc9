//! One session of a transcript while it is read: who speaks, which answer of the model it is, what is still owed.
//!
//! Every format says its part through this: a user, an answer, a call, its end. Rounds, times, models and usage are put
//! on the events here, once.

use super::outbox::Outbox;
use super::{Cached, Item, bounds};
use flyball::{Denier, Event, Fingerprint, Kind, Origin, Usage};
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::Arc;

/// How many answers are remembered, for lines that belong to one that began earlier.
const ANSWERS: usize = 64;
/// How many calls without a name may be open.
const UNNAMED: usize = 32;

/// What an answer of the model used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Used {
    /// Tokens of the input, those of the cache included.
    pub(super) tokens_in: u64,
    /// Tokens that the model wrote.
    pub(super) tokens_out: u64,
    /// Millionths of a dollar, where the tool says so.
    pub(super) cost_micro_usd: u64,
    /// What the provider's cache had or got.
    pub(super) cached: Cached,
}

impl Used {
    /// What this has more than an earlier count of the same.
    pub(super) fn beyond(&self, before: &Used) -> Used {
        Used {
            tokens_in: self.tokens_in.saturating_sub(before.tokens_in),
            tokens_out: self.tokens_out.saturating_sub(before.tokens_out),
            cost_micro_usd: self.cost_micro_usd.saturating_sub(before.cost_micro_usd),
            cached: Cached {
                read: self.cached.read.saturating_sub(before.cached.read),
                written: self.cached.written.saturating_sub(before.cached.written),
            },
        }
    }

    /// The larger of two counts of the same.
    pub(super) fn most(&self, other: &Used) -> Used {
        Used {
            tokens_in: self.tokens_in.max(other.tokens_in),
            tokens_out: self.tokens_out.max(other.tokens_out),
            cost_micro_usd: self.cost_micro_usd.max(other.cost_micro_usd),
            cached: Cached {
                read: self.cached.read.max(other.cached.read),
                written: self.cached.written.max(other.cached.written),
            },
        }
    }

    fn usage(&self) -> Usage {
        Usage { tokens_in: self.tokens_in, tokens_out: self.tokens_out, cost_micro_usd: self.cost_micro_usd }
    }

    fn add(&mut self, other: &Used) {
        self.tokens_in = self.tokens_in.saturating_add(other.tokens_in);
        self.tokens_out = self.tokens_out.saturating_add(other.tokens_out);
        self.cost_micro_usd = self.cost_micro_usd.saturating_add(other.cost_micro_usd);
        self.cached.add(other.cached);
    }
}

/// How a call ended.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum End<'a> {
    /// It gave this.
    Ok(Cow<'a, str>),
    /// It failed with this.
    Failed(Cow<'a, str>),
    /// It was refused.
    Denied(Denier),
}

/// An answer of the model that lines may still belong to.
#[derive(Debug, Clone, Copy)]
struct Answer {
    id: Fingerprint,
    round: u64,
    used: Used,
}

/// One session of a transcript.
#[derive(Debug, Clone, Default)]
pub(super) struct Talk {
    session: String,
    /// The model that answers.
    pub(super) model: Option<Arc<str>>,
    /// When the line that is read was written.
    pub(super) at: Option<u64>,
    /// Who acts, if the transcript names agents.
    pub(super) node: Option<String>,
    rounds: u64,
    round: u64,
    /// What the model says next is another answer.
    fresh: bool,
    answers: VecDeque<Answer>,
    /// What was used and stands on no event yet.
    owed: Used,
    /// Calls that came without a name and have not ended; they end in the order in which they came.
    unnamed: VecDeque<u64>,
    calls: u64,
}

impl Talk {
    /// A session that nothing was read of.
    pub(super) fn new(session: &str) -> Self {
        let session = if session.is_empty() { "default" } else { session };
        Talk { session: bounds::name(session), fresh: true, ..Talk::default() }
    }

    /// The session's name.
    pub(super) fn session(&self) -> &str {
        &self.session
    }

    /// Sets the model, if one is named.
    pub(super) fn by(&mut self, model: &str) {
        if !model.is_empty() && self.model.as_deref() != Some(model) {
            self.model = Some(Arc::from(bounds::name(model)));
        }
    }

    /// The session began, perhaps below another one.
    pub(super) fn starts(&mut self, out: &mut Outbox<'_>, parent: Option<&str>) {
        let parent = parent.filter(|parent| *parent != self.session).map(bounds::name);
        self.push(
            out,
            Kind::SessionStarted {
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

    /// Somebody spoke to the agent.
    pub(super) fn hears(&mut self, out: &mut Outbox<'_>, text: Cow<'_, str>, origin: Origin) {
        self.fresh = true;
        self.push(out, Kind::UserMessage { text: bounds::text(text), origin }, None);
    }

    /// The lines that follow belong to the answer with this id, until another is named.
    pub(super) fn answers(&mut self, id: &str) {
        let id = Fingerprint::of_text(id);
        if let Some(known) = self.answers.iter().rev().find(|answer| answer.id == id) {
            self.round = known.round;
        } else {
            self.rounds += 1;
            self.round = self.rounds;
            if self.answers.len() == ANSWERS {
                self.answers.pop_front();
            }
            self.answers.push_back(Answer { id, round: self.round, used: Used::default() });
        }
        self.fresh = false;
    }

    /// What the answer with this id has used by now; what was counted of it before is not counted again.
    pub(super) fn answer_used(&mut self, id: &str, used: Used) {
        let id = Fingerprint::of_text(id);
        match self.answers.iter_mut().rev().find(|answer| answer.id == id) {
            Some(answer) => {
                self.owed.add(&used.beyond(&answer.used));
                answer.used = answer.used.most(&used);
            }
            None => self.owed.add(&used),
        }
    }

    /// Something was used; it goes with the next event.
    pub(super) fn uses(&mut self, used: Used) {
        self.owed.add(&used);
    }

    /// Something was used by what was said last.
    pub(super) fn used(&mut self, out: &mut Outbox<'_>, used: Used) {
        if !out.charge(&self.session, used.usage(), used.cached) {
            self.owed.add(&used);
        }
    }

    /// What comes next from the model is another answer.
    pub(super) fn new_answer(&mut self) {
        self.fresh = true;
    }

    /// What comes next still belongs to the same answer, although a call of it has ended.
    pub(super) fn same_answer(&mut self) {
        self.fresh = false;
    }

    /// The agent spoke.
    pub(super) fn says(&mut self, out: &mut Outbox<'_>, text: Cow<'_, str>, is_final: bool) {
        if text.trim().is_empty() {
            return;
        }
        let round = self.current_round();
        let kind = Kind::AssistantMessage { text: bounds::text(text), structured: None, is_final };
        self.push(out, kind, Some(round));
    }

    /// The agent wants a tool.
    pub(super) fn calls(&mut self, out: &mut Outbox<'_>, call: &str, tool: &str, args: Value) {
        let round = self.current_round();
        let tool = if tool.is_empty() { "tool" } else { tool };
        self.calls += 1;
        let call = if call.is_empty() {
            if self.unnamed.len() == UNNAMED {
                self.unnamed.pop_front();
            }
            self.unnamed.push_back(self.calls);
            format!("call-{}", self.calls)
        } else {
            bounds::name(call)
        };
        let kind = Kind::ToolRequested { call: Some(call), tool: bounds::name(tool), args };
        self.push(out, kind, Some(round));
    }

    /// A call ended. The end of a call that has no name, and that nobody asked for, says nothing.
    pub(super) fn ended(&mut self, out: &mut Outbox<'_>, call: &str, end: End<'_>) {
        self.ended_in(out, call, end, None);
    }

    /// A call ended, and how long it took is known.
    pub(super) fn ended_in(
        &mut self,
        out: &mut Outbox<'_>,
        call: &str,
        end: End<'_>,
        duration_ms: Option<u64>,
    ) {
        self.fresh = true;
        let call = match (call, self.unnamed.front()) {
            ("", None) => return,
            ("", Some(number)) => format!("call-{number}"),
            (call, _) => bounds::name(call),
        };
        if self.unnamed.front().is_some_and(|number| call == format!("call-{number}")) {
            self.unnamed.pop_front();
        }
        let call = Some(call);
        let (ok, output, error) = match end {
            End::Ok(text) => (true, Value::String(bounds::text(text)), Value::Null),
            End::Failed(text) => (false, Value::Null, Value::String(bounds::text(text))),
            End::Denied(by) => {
                let kind = Kind::ToolDenied { call, by, tool: None, args: Value::Null };
                self.push(out, kind, None);
                return;
            }
        };
        let kind = Kind::ToolFinished {
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

    /// Any other event of the session.
    pub(super) fn notes(&mut self, out: &mut Outbox<'_>, kind: Kind) {
        self.push(out, kind, None);
    }

    /// Nothing more comes: what is still owed goes onto the last event.
    pub(super) fn closes(&mut self, out: &mut Outbox<'_>) {
        let owed = std::mem::take(&mut self.owed);
        out.charge(&self.session, owed.usage(), owed.cached);
    }

    fn current_round(&mut self) -> u64 {
        if self.fresh {
            self.rounds += 1;
            self.round = self.rounds;
            self.fresh = false;
        }
        self.round
    }

    fn push(&mut self, out: &mut Outbox<'_>, kind: Kind, round: Option<u64>) {
        let owed = std::mem::take(&mut self.owed);
        let mut event = Event::new(self.session.clone(), kind).usage(owed.usage());
        event.at = self.at;
        event.round = round;
        event.node.clone_from(&self.node);
        out.push(Item { event, line: out.line(), model: self.model.clone(), cached: owed.cached });
    }
}

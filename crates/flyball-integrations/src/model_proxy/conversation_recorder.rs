//! Records requests and answers as events, and derives the proxy's action from the decisions.
//!
//! `record_request` records the new entries of a request and returns whether to forward it, and with which note.
//! `record_answer` records the answer. Both return after the events are durable.

use super::conversation_index::{ConversationBranch, ConversationIndex, ConversationName, ProxyMark};
use super::conversation_log::{GuardNote, entry_chains};
use super::entry::{ConversationEntry, OWN_ANSWER_PREFIX, is_human};
use super::partial_answer::{PartialAnswer, ProxyTokens};
use super::protocol::ProxyRequest;
use flyball::policy::ToolEffect;
use flyball::{Decision, ErrorCode, Fingerprint, PlanStep, SessionPhase, Verdict};
use flyball_store::{RecordError, Recorder, RedactingParser, StoreError};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Characters per token, for estimates if the provider reports no usage.
const CHARS_PER_TOKEN: usize = 4;

/// Cost of a model's tokens in millionths of a dollar; `None` if its price is unknown.
pub type CostFn = dyn Fn(&str, ProxyTokens) -> Option<u64> + Send + Sync;

/// Callback for every decision other than a plain `allow`.
pub type OnDecision = dyn Fn(&Decision) + Send + Sync;

/// Configuration and dependencies of the proxy.
pub struct ModelProxyConfig {
    /// Evaluates and records events.
    pub recorder: Arc<Recorder>,
    /// Redacts secrets.
    pub parser: RedactingParser,
    /// Clock, in milliseconds since 1970.
    pub clock: fn() -> Option<u64>,
    /// Token prices.
    pub cost: Box<CostFn>,
    /// Callback for decisions.
    pub on_decision: Box<OnDecision>,
    /// The store flag for printed commands; empty for the default store.
    pub store_flag: String,
}

/// An error of a proxy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProxyError {
    /// The error code.
    pub code: String,
    /// The message, on one line.
    pub message: String,
    /// The suggested fix.
    pub help: String,
}

impl From<StoreError> for ProxyError {
    fn from(error: StoreError) -> Self {
        let help = error.help().to_owned();
        ProxyError { code: error.kind.as_str().to_owned(), message: error.message, help }
    }
}

impl From<flyball::Error> for ProxyError {
    fn from(error: flyball::Error) -> Self {
        ProxyError { code: error.code.as_str().to_owned(), message: error.message, help: error.help }
    }
}

/// The sender of a request.
#[derive(Debug, Clone, Copy)]
pub(super) struct RequestSender<'a> {
    /// The session named in the header.
    pub(super) session: Option<&'a str>,
    /// The client's credentials for the provider; used only in hashes.
    pub(super) credentials: &'a str,
}

/// State of a request until its answer is recorded.
#[derive(Debug, Clone)]
pub(super) struct PendingExchange {
    name: ConversationName,
    number: u64,
    /// The answer's position in the conversation.
    position: usize,
    retry: bool,
    /// Estimated tokens of the request.
    estimate: u64,
    model: String,
}

/// The result of recording a request.
#[derive(Debug)]
pub(super) enum RequestOutcome {
    /// Forward it to the provider, with a note for the model.
    Forward { session: String, verdict: Verdict, note: Option<String>, pending: PendingExchange },
    /// Answer it here with this text.
    Halted { session: String, text: String },
}

/// The events of one entry.
struct EntryEvents {
    mark: Option<ProxyMark>,
    events: Vec<Value>,
}

/// Records conversations.
pub(super) struct ConversationRecorder {
    config: ModelProxyConfig,
    index: ConversationIndex,
}

impl ConversationRecorder {
    /// Creates a recorder with an empty cache.
    pub(super) fn new(config: ModelProxyConfig) -> Self {
        ConversationRecorder { config, index: ConversationIndex::default() }
    }

    /// Unix time in seconds.
    pub(super) fn now_s(&self) -> u64 {
        (self.config.clock)().unwrap_or(0) / 1000
    }

    /// Records the new entries of a request.
    pub(super) fn record_request(
        &self,
        from: RequestSender<'_>,
        request: &ProxyRequest,
        bytes: usize,
    ) -> Result<RequestOutcome, ProxyError> {
        let place = request.previous_answer.as_deref().and_then(|answer| self.index.answer_position(answer));
        let name = match &place {
            Some(place) if from.session.is_none() => place.name().clone(),
            _ => ConversationName::for_request(from.session, request, from.credentials),
        };
        let place = place.filter(|place| *place.name() == name);
        let history = entry_chains(&request.entries);
        let mut wrong = None;
        let outcome = self.index.with_branches(self.config.recorder.store().as_ref(), &name, |base| {
            let alone = place.is_none() && (request.history_kept || request.previous_answer.is_some());
            let (at, fit) = base.find_branch(&history, place.as_ref(), alone);
            let (given, parent) = (base.is_explicit, base.name.clone());
            let Some(branch) = base.branch(at) else { return Err(branch_lost()) };
            let parent = (given && branch.number > 1).then_some(parent);
            let begins = branch.log.len() == 0;
            let (new, keep, retry) = match fit {
                Some(fit) => (fit.new, fit.keep, fit.retry),
                None => {
                    // Entries before the last message of a person are history and no longer evaluated.
                    let last = (0..request.entries.len()).rev().find(|at| is_human(&request.entries, *at));
                    let last = last.unwrap_or(0);
                    (last, last, false)
                }
            };
            let chain = match fit {
                Some(_) => branch.log.chain(keep),
                None => new.checked_sub(1).and_then(|at| history.get(at)).map_or(Fingerprint::NONE, |h| h.1),
            };
            let mut steps = Vec::new();
            if let Some(parent) = parent.as_deref().filter(|_| begins) {
                let started = json!({"type": "session.started", "id": "proxy-begins", "parent": parent});
                steps.push(EntryEvents { mark: None, events: vec![started] });
            }
            if retry {
                steps.push(EntryEvents { mark: None, events: vec![json!({"type": "api.retry"})] });
            }
            steps.extend(new_entry_events(request, new, keep, chain));
            let status = self.submit(branch, steps, &mut wrong)?;
            // The decisions above are current, so the store is read only if the session may be held, was not evaluated,
            // or has a parent.
            let fine = status.is_some_and(|status| !may_be_held(status)) && parent.is_none();
            if !fine && let Some(text) = self.halt_message(&branch.session, parent.as_deref())? {
                return Ok(RequestOutcome::Halted { session: branch.session.clone(), text });
            }
            let (verdict, note) = merge_notes(branch.log.notes());
            let pending = PendingExchange {
                name: name.clone(),
                number: branch.number,
                position: keep + (request.entries.len() - new),
                retry,
                estimate: (bytes / CHARS_PER_TOKEN) as u64,
                model: request.model.clone(),
            };
            Ok(RequestOutcome::Forward { session: branch.session.clone(), verdict, note, pending })
        })?;
        wrong.map_or(Ok(outcome), Err)
    }

    /// Whether a request may offer the model a destructive tool.
    pub(super) fn offers_destructive(&self, request: &ProxyRequest) -> bool {
        match &request.tools {
            Some(tools) => tools.iter().any(|tool| self.is_destructive(tool)),
            None => {
                let mut declared = self.config.recorder.policy().tools.values();
                declared.any(|tool| tool.effect == Some(ToolEffect::Destructive))
            }
        }
    }

    /// Whether an answer calls a destructive tool.
    pub(super) fn calls_destructive(&self, draft: &PartialAnswer) -> bool {
        draft.calls.iter().any(|call| self.is_destructive(&call.name))
    }

    fn is_destructive(&self, tool: &str) -> bool {
        self.config.recorder.policy().tool_effect(tool) == Some(ToolEffect::Destructive)
    }

    /// Records the calls of an answer that lack approval and returns the text that replaces the answer; `None` if all
    /// are approved. The rest of the answer is then not recorded, because it never reaches the client.
    fn withhold(
        &self,
        branch: &mut ConversationBranch,
        draft: &PartialAnswer,
        usage: &Value,
        wrong: &mut Option<ProxyError>,
    ) -> Result<Option<String>, StoreError> {
        let Some(ConversationEntry::Answer { calls, .. }) =
            draft.to_entry().filter(|_| self.calls_destructive(draft))
        else {
            return Ok(None);
        };
        let found = match self.config.recorder.session(&branch.session) {
            Ok(found) => found,
            Err(RecordError::Store(error)) => return Err(error),
            Err(RecordError::Event(_)) => None,
        };
        let Some((state, policy)) = found else { return Ok(None) };
        let steps: Vec<PlanStep> =
            calls.iter().map(|call| PlanStep { tool: call.name.clone(), args: call.args.clone() }).collect();
        let lacking = state.unapproved_calls(&policy, &steps, (self.config.clock)().unwrap_or(0));
        if lacking.is_empty() {
            return Ok(None);
        }
        let events = lacking.iter().filter_map(|at| calls.get(*at)).enumerate().map(|(number, call)| {
            let id = format!("proxy-withheld-{}-{}-{number}", draft.id, self.now_ms());
            let mut event = json!({"type": "tool.requested", "id": id, "tool": call.name, "args": call.args});
            if number == 0 {
                event["usage"] = usage.clone();
                event["model"] = Value::from(draft.model.as_str());
            }
            event
        });
        let step = EntryEvents { mark: None, events: events.collect() };
        let (status, decisions) = self.submit_all(branch, vec![step], wrong)?;
        let question = decisions.iter().rev().find_map(|decision| {
            let says = decision.effects.iter().find(|effect| effect.effect == "say")?;
            says.fields.get("text")?.as_str().map(str::to_owned)
        });
        let feedback = decisions.last().and_then(|decision| decision.feedback.clone());
        let text = question.or(feedback).unwrap_or_else(|| "A call needs approval.".to_owned());
        let how = match status {
            Some(SessionPhase::AwaitingConfirmation) => format!(
                " The model's answer was withheld. A person can approve the call with: flyball approve \
                 {}{}; then ask the model again.",
                shell_quote(&branch.session),
                self.config.store_flag
            ),
            _ => " The model's answer was withheld.".to_owned(),
        };
        Ok(Some(format!("{OWN_ANSWER_PREFIX} {text}{how}")))
    }

    fn now_ms(&self) -> u64 {
        (self.config.clock)().unwrap_or(0)
    }

    /// Records an answer. For one that was cut off, only its cost is counted. Returns the text that replaces the answer
    /// if one of its calls lacks approval.
    pub(super) fn record_answer(
        &self,
        pending: &PendingExchange,
        draft: &PartialAnswer,
        kept: bool,
    ) -> Result<Option<String>, ProxyError> {
        let mut wrong = None;
        let usage = self.usage(pending, draft);
        let entry = draft.to_entry().filter(|_| draft.complete);
        let withheld =
            self.index.with_branches(self.config.recorder.store().as_ref(), &pending.name, |base| {
                let Some(branch) = base.branch_by_number(pending.number) else { return Err(branch_lost()) };
                if let Some(text) = self.withhold(branch, draft, &usage, &mut wrong)? {
                    return Ok(Some(text));
                }
                let at = pending.position.min(branch.log.len());
                let taken = branch.log.get(at).is_some();
                let step = match &entry {
                    Some(entry) if !taken || pending.retry => {
                        let key = entry.key();
                        let chain = branch.log.chain(at).combine(key);
                        let mark = ProxyMark { at, key, chain, answer: true, is_unique: entry.is_unique() };
                        let mut events = entry_events(entry, mark, "agent");
                        if pending.retry {
                            events.retain(|event| event.get("type") == Some(&Value::from("tool.requested")));
                            events.insert(0, json!({"type": "api.retry"}));
                        }
                        Some(EntryEvents { mark: Some(mark), events })
                    }
                    // It was cut off, or the conversation continues from another answer to the same request.
                    _ if draft.tokens.is_some() => {
                        Some(EntryEvents { mark: None, events: vec![json!({"type": "api.retry"})] })
                    }
                    _ => None,
                };
                let Some(mut step) = step else { return Ok(None) };
                if let Some(first) = step.events.first_mut() {
                    first["usage"] = usage;
                    first["model"] = Value::from(draft.model.as_str());
                }
                self.submit(branch, vec![step], &mut wrong)?;
                if kept && !draft.id.is_empty() {
                    self.index.remember_answer(
                        &draft.id,
                        pending.name.clone(),
                        pending.number,
                        branch.log.len(),
                    );
                }
                Ok(None)
            })?;
        wrong.map_or(Ok(withheld), Err)
    }

    /// Records the events of some entries in one commit and adds the entries to the log. Returns the session's phase
    /// afterwards.
    fn submit(
        &self,
        branch: &mut ConversationBranch,
        steps: Vec<EntryEvents>,
        wrong: &mut Option<ProxyError>,
    ) -> Result<Option<SessionPhase>, StoreError> {
        self.submit_all(branch, steps, wrong).map(|(status, _)| status)
    }

    /// Like `submit`, and returns the decisions.
    fn submit_all(
        &self,
        branch: &mut ConversationBranch,
        steps: Vec<EntryEvents>,
        wrong: &mut Option<ProxyError>,
    ) -> Result<(Option<SessionPhase>, Vec<Decision>), StoreError> {
        let now = (self.config.clock)();
        let (mut events, mut places) = (Vec::new(), Vec::new());
        for step in steps {
            if let Some(mark) = step.mark {
                branch.log.set(mark.at, mark.to_logged_entry());
            }
            for mut event in step.events {
                event["session"] = Value::from(branch.session.as_str());
                if let Some(mark) = step.mark {
                    event["proxy"] = json!(mark);
                }
                match self.config.parser.read(&event.to_string(), now) {
                    Ok(event) => {
                        events.push(event);
                        places.push(step.mark.map(|mark| mark.at));
                    }
                    Err(error) => *wrong = Some(error.into()),
                }
            }
        }
        let (mut status, mut decisions) = (None, Vec::new());
        for (answer, at) in self.config.recorder.submit_all(events).into_iter().zip(places) {
            match answer {
                Ok(decision) => {
                    status = Some(decision.state);
                    if decision.decision > Verdict::Allow || !decision.effects.is_empty() {
                        (self.config.on_decision)(&decision);
                    }
                    if let Some((at, note)) = at.zip(GuardNote::from_decision(&decision)) {
                        branch.log.add_note(at, note);
                    }
                    decisions.push(decision);
                }
                // Another proxy on the same store has already recorded it.
                Err(RecordError::Event(error)) if error.code == ErrorCode::EventConflict => {}
                Err(RecordError::Event(error)) => *wrong = Some(error.into()),
                Err(RecordError::Store(error)) => return Err(error),
            }
        }
        Ok((status, decisions))
    }

    /// The answer to send instead of the model's if the session or its parent is held.
    fn halt_message(&self, session: &str, parent: Option<&str>) -> Result<Option<String>, StoreError> {
        for name in parent.into_iter().chain([session]) {
            let found = match self.config.recorder.session(name) {
                Ok(found) => found,
                Err(RecordError::Store(error)) => return Err(error),
                Err(RecordError::Event(_)) => None,
            };
            let Some((state, _)) = found else { continue };
            // A halt remains in effect after the session has ended.
            if !state.is_held() {
                continue;
            }
            let stop = if state.operator_stops().next().is_some() { " --guard human" } else { "" };
            let (guard, why) =
                state.status_summary().stopped_by.unwrap_or(("human", "it was stopped".into()));
            return Ok(Some(format!(
                "{OWN_ANSWER_PREFIX} This session was halted by the guard '{guard}': {why}. The model was \
                 not called. A person can release the session with: flyball release {}{stop} --why \
                 'REASON'{}",
                shell_quote(name),
                self.config.store_flag
            )));
        }
        Ok(None)
    }

    /// Token usage of an answer in the event's format.
    fn usage(&self, ticket: &PendingExchange, draft: &PartialAnswer) -> Value {
        let Some(tokens) = draft.tokens else {
            let output = draft.char_count().div_ceil(CHARS_PER_TOKEN) as u64;
            return json!({"tokens_in": ticket.estimate, "tokens_out": output});
        };
        let mut usage = json!({"tokens_in": tokens.input, "tokens_out": tokens.output});
        let model = if draft.model.is_empty() { &ticket.model } else { &draft.model };
        if let Some(micros) = (self.config.cost)(model, tokens) {
            let dollars = format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000);
            usage["cost_usd"] = serde_json::from_str(&dollars).unwrap_or_default();
        }
        usage
    }
}

/// Quotes a name for a shell.
pub(crate) fn shell_quote(name: &str) -> String {
    format!("'{}'", name.replace('\'', r"'\''"))
}

/// Whether a session in this phase may be held; an ended one may be, too.
const fn may_be_held(status: SessionPhase) -> bool {
    matches!(status, SessionPhase::Halted | SessionPhase::Blocked | SessionPhase::Ended)
}

fn branch_lost() -> StoreError {
    StoreError::new(
        flyball_store::StoreErrorKind::OutcomeUnknown,
        "the position in the conversation was \
         lost",
    )
}

/// The events for a request's entries from `new` on, which start at position `keep`.
fn new_entry_events(asked: &ProxyRequest, new: usize, keep: usize, chain: Fingerprint) -> Vec<EntryEvents> {
    let mut chain = chain;
    let mut steps = Vec::new();
    for (offset, entry) in asked.entries.iter().skip(new).enumerate() {
        let key = entry.key();
        chain = chain.combine(key);
        let mark = ProxyMark {
            at: keep + offset,
            key,
            chain,
            answer: entry.is_answer(),
            is_unique: entry.is_unique(),
        };
        let origin = if is_human(&asked.entries, new + offset) { "human" } else { "agent" };
        steps.push(EntryEvents { mark: Some(mark), events: entry_events(entry, mark, origin) });
    }
    steps
}

/// The events of an entry. Their ids are derived from position and content, so that retries are not counted twice.
fn entry_events(entry: &ConversationEntry, mark: ProxyMark, origin: &str) -> Vec<Value> {
    let mut events = Vec::new();
    match entry {
        ConversationEntry::User { text, .. } => {
            events.push(json!({"type": "user.message", "text": text, "origin": origin}))
        }
        ConversationEntry::Answer { text, calls } => {
            if calls.is_empty() || !text.trim().is_empty() {
                events.push(json!({"type": "assistant.message", "text": text, "final": calls.is_empty()}));
            }
            for (number, call) in calls.iter().enumerate() {
                let id = if call.id.is_empty() { format!("{}-{number}", mark.at) } else { call.id.clone() };
                events.push(
                    json!({"type": "tool.requested", "call": id, "tool": call.name, "args": call.args}),
                );
            }
        }
        ConversationEntry::OwnAnswer => {}
        ConversationEntry::ToolResult { call, ok, output } => {
            let id = if call.is_empty() { format!("{}-0", mark.at.saturating_sub(1)) } else { call.clone() };
            let mut event = json!({"type": "tool.finished", "call": id});
            if let Some(ok) = ok {
                event["ok"] = Value::from(*ok);
            }
            event[if *ok == Some(false) { "error" } else { "output" }] = output.clone();
            events.push(event);
        }
    }
    for (number, event) in events.iter_mut().enumerate() {
        event["id"] = Value::from(format!("proxy-{}-{}-{number}", mark.at, mark.chain));
        if mark.answer {
            event["round"] = Value::from(mark.at);
        }
    }
    events
}

/// The strictest verdict of the notes, and the text for the model.
fn merge_notes<'a>(notes: impl Iterator<Item = &'a GuardNote>) -> (Verdict, Option<String>) {
    let notes: Vec<&GuardNote> = notes.collect();
    let Some(first) = notes.iter().find(|note| note.blocked).or(notes.first()) else {
        return (Verdict::Allow, None);
    };
    let refused = first.blocked;
    let texts: BTreeSet<&str> =
        notes.iter().filter(|note| note.blocked == refused).map(|note| note.text.as_str()).collect();
    let texts: Vec<&str> = texts.into_iter().collect();
    let head = if refused {
        "Denied by the loop guard (the call had already run, and its result is kept):"
    } else {
        "Loop guard warning:"
    };
    let verdict = if refused { Verdict::Block } else { Verdict::Warn };
    (verdict, Some(format!("{OWN_ANSWER_PREFIX} {head} {}", texts.join(" "))))
}

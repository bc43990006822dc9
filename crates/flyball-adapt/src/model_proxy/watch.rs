//! From a request and its answer to events, and from their decisions to what the proxy does.
//!
//! `before` records what is new in a request and says whether it goes on to the provider, with which note. `after`
//! records the answer. Both come back when everything is on the disk.

use super::book::{Book, Branch, Mark, Name};
use super::dialect::Asked;
use super::draft::{Draft, Tokens};
use super::entry::{Entry, MARK, is_human};
use super::log::{Note, chains};
use flyball::policy::Effect;
use flyball::{Code, Decision, Fingerprint, PlanStep, Status, Verdict};
use flyball_journal::{Door, Recorder, Refusal, StoreError};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;

/// How many characters stand for a token where the provider tells none.
const CHARS_A_TOKEN: usize = 4;

/// What a model's tokens cost, in millionths of a dollar; `None` if its price is not known.
pub type Cost = dyn Fn(&str, Tokens) -> Option<u64> + Send + Sync;

/// Who is told of every decision that is not a plain `allow`.
pub type Tell = dyn Fn(&Decision) + Send + Sync;

/// What the proxy works with.
pub struct Setting {
    /// Decides and records.
    pub recorder: Arc<Recorder>,
    /// Takes secrets out.
    pub door: Door,
    /// The time, in milliseconds since 1970.
    pub clock: fn() -> Option<u64>,
    /// The prices.
    pub cost: Box<Cost>,
    /// Who is told of decisions.
    pub tell: Box<Tell>,
    /// What a person must add to a command to reach this store; empty if nothing.
    pub store_flag: String,
}

/// Why something could not be recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trouble {
    /// The stable code.
    pub code: String,
    /// What happened, in one line.
    pub what: String,
    /// What to do about it.
    pub advice: String,
}

impl From<StoreError> for Trouble {
    fn from(error: StoreError) -> Self {
        let advice = error.advice().to_owned();
        Trouble { code: error.trouble.as_str().to_owned(), what: error.what, advice }
    }
}

impl From<flyball::Error> for Trouble {
    fn from(error: flyball::Error) -> Self {
        Trouble { code: error.code.as_str().to_owned(), what: error.what, advice: error.advice }
    }
}

/// Who sends a request.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sender<'a> {
    /// The session that the header names.
    pub(super) session: Option<&'a str>,
    /// What the client shows the provider; only ever hashed.
    pub(super) credentials: &'a str,
}

/// What is kept of a request until its answer is there.
#[derive(Debug, Clone)]
pub(super) struct Ticket {
    name: Name,
    number: u64,
    /// Where the answer goes in the conversation.
    at: usize,
    retry: bool,
    /// The tokens of the request, estimated.
    estimate: u64,
    model: String,
}

/// What becomes of a request.
#[derive(Debug)]
pub(super) enum Outcome {
    /// It goes on to the provider, with these words for the model.
    Go { session: String, verdict: Verdict, note: Option<String>, ticket: Ticket },
    /// It is answered here, with these words.
    Stop { session: String, text: String },
}

/// Events of one entry.
struct Step {
    mark: Option<Mark>,
    events: Vec<Value>,
}

/// Records conversations.
pub(super) struct Watch {
    setting: Setting,
    book: Book,
}

impl Watch {
    /// A watch with nothing at hand.
    pub(super) fn new(setting: Setting) -> Self {
        Watch { setting, book: Book::default() }
    }

    /// The time in seconds since 1970.
    pub(super) fn now_s(&self) -> u64 {
        (self.setting.clock)().unwrap_or(0) / 1000
    }

    /// Records what is new in a request.
    pub(super) fn before(&self, from: Sender<'_>, asked: &Asked, bytes: usize) -> Result<Outcome, Trouble> {
        let place = asked.previous.as_deref().and_then(|answer| self.book.place(answer));
        let name = match &place {
            Some(place) if from.session.is_none() => place.name().clone(),
            _ => Name::of(from.session, asked, from.credentials),
        };
        let place = place.filter(|place| *place.name() == name);
        let history = chains(&asked.entries);
        let mut wrong = None;
        let outcome = self.book.with(self.setting.recorder.journal().as_ref(), &name, |base| {
            let alone = place.is_none() && (asked.kept || asked.previous.is_some());
            let (at, fit) = base.find(&history, place.as_ref(), alone);
            let (given, parent) = (base.given, base.name.clone());
            let Some(branch) = base.branch(at) else { return Err(lost()) };
            let parent = (given && branch.number > 1).then_some(parent);
            let begins = branch.log.len() == 0;
            let (new, keep, retry) = match fit {
                Some(fit) => (fit.new, fit.keep, fit.retry),
                None => {
                    // What is older than the last word of a person is history, and over.
                    let last = (0..asked.entries.len()).rev().find(|at| is_human(&asked.entries, *at));
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
                steps.push(Step { mark: None, events: vec![started] });
            }
            if retry {
                steps.push(Step { mark: None, events: vec![json!({"type": "api.retry"})] });
            }
            steps.extend(new_steps(asked, new, keep, chain));
            let status = self.submit(branch, steps, &mut wrong)?;
            // What was just decided is fresh; only who stands still, or was not asked, is looked up.
            let fine = status.is_some_and(|status| !may_be_held(status)) && parent.is_none();
            if !fine && let Some(text) = self.stopped(&branch.session, parent.as_deref())? {
                return Ok(Outcome::Stop { session: branch.session.clone(), text });
            }
            let (verdict, note) = note(branch.log.notes());
            let ticket = Ticket {
                name: name.clone(),
                number: branch.number,
                at: keep + (asked.entries.len() - new),
                retry,
                estimate: (bytes / CHARS_A_TOKEN) as u64,
                model: asked.model.clone(),
            };
            Ok(Outcome::Go { session: branch.session.clone(), verdict, note, ticket })
        })?;
        wrong.map_or(Ok(outcome), Err)
    }

    /// Whether a request may offer the model a tool that the policy declares destructive.
    pub(super) fn offers_destructive(&self, asked: &Asked) -> bool {
        match &asked.tools {
            Some(tools) => tools.iter().any(|tool| self.is_destructive(tool)),
            None => {
                let mut declared = self.setting.recorder.policy().tools.values();
                declared.any(|tool| tool.effect == Some(Effect::Destructive))
            }
        }
    }

    /// Whether an answer calls such a tool.
    pub(super) fn calls_destructive(&self, draft: &Draft) -> bool {
        draft.calls.iter().any(|call| self.is_destructive(&call.name))
    }

    fn is_destructive(&self, tool: &str) -> bool {
        self.setting.recorder.policy().effect_of(tool) == Some(Effect::Destructive)
    }

    /// Records those calls of an answer that lack an approval, and says what the client gets in place of the answer;
    /// nothing if none lacks one. The rest of the answer is not recorded then: it never reaches the client.
    fn withhold(
        &self,
        branch: &mut Branch,
        draft: &Draft,
        usage: &Value,
        wrong: &mut Option<Trouble>,
    ) -> Result<Option<String>, StoreError> {
        let Some(Entry::Answer { calls, .. }) = draft.entry().filter(|_| self.calls_destructive(draft))
        else {
            return Ok(None);
        };
        let found = match self.setting.recorder.session(&branch.session) {
            Ok(found) => found,
            Err(Refusal::Store(error)) => return Err(error),
            Err(Refusal::Event(_)) => None,
        };
        let Some((state, policy)) = found else { return Ok(None) };
        let steps: Vec<PlanStep> =
            calls.iter().map(|call| PlanStep { tool: call.name.clone(), args: call.args.clone() }).collect();
        let lacking = state.unapproved(&policy, &steps, (self.setting.clock)().unwrap_or(0));
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
        let step = Step { mark: None, events: events.collect() };
        let (status, told) = self.submit_all(branch, vec![step], wrong)?;
        let question = told.iter().rev().find_map(|decision| {
            let says = decision.effects.iter().find(|effect| effect.effect == "say")?;
            says.fields.get("text")?.as_str().map(str::to_owned)
        });
        let feedback = told.last().and_then(|decision| decision.feedback.clone());
        let text = question.or(feedback).unwrap_or_else(|| "A call needs an approval.".to_owned());
        let how = match status {
            Some(Status::AwaitingConfirmation) => format!(
                " The model's answer was withheld. A person approves the call with: flyball approve {}{}; after that, ask \
                 the model again.",
                quoted(&branch.session),
                self.setting.store_flag
            ),
            _ => " The model's answer was withheld.".to_owned(),
        };
        Ok(Some(format!("{MARK} {text}{how}")))
    }

    fn now_ms(&self) -> u64 {
        (self.setting.clock)().unwrap_or(0)
    }

    /// Records an answer. One that broke off is not gone on with: only what it cost is counted. Gives the words that
    /// stand in its place if a call of it lacks an approval.
    pub(super) fn after(
        &self,
        ticket: &Ticket,
        draft: &Draft,
        kept: bool,
    ) -> Result<Option<String>, Trouble> {
        let mut wrong = None;
        let usage = self.usage(ticket, draft);
        let entry = draft.entry().filter(|_| draft.ended);
        let withheld = self.book.with(self.setting.recorder.journal().as_ref(), &ticket.name, |base| {
            let Some(branch) = base.numbered(ticket.number) else { return Err(lost()) };
            if let Some(text) = self.withhold(branch, draft, &usage, &mut wrong)? {
                return Ok(Some(text));
            }
            let at = ticket.at.min(branch.log.len());
            let taken = branch.log.get(at).is_some();
            let step = match &entry {
                Some(entry) if !taken || ticket.retry => {
                    let key = entry.key();
                    let chain = branch.log.chain(at).with(key);
                    let mark = Mark { at, key, chain, answer: true, alone: entry.is_alone() };
                    let mut events = events_of(entry, mark, "agent");
                    if ticket.retry {
                        events.retain(|event| event.get("type") == Some(&Value::from("tool.requested")));
                        events.insert(0, json!({"type": "api.retry"}));
                    }
                    Some(Step { mark: Some(mark), events })
                }
                // It broke off, or another answer to the same request was gone on with.
                _ if draft.tokens.is_some() => {
                    Some(Step { mark: None, events: vec![json!({"type": "api.retry"})] })
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
                self.book.remember(&draft.id, ticket.name.clone(), ticket.number, branch.log.len());
            }
            Ok(None)
        })?;
        wrong.map_or(Ok(withheld), Err)
    }

    /// Records the events of some entries, in one commit, and takes their entries into the log. Gives what the session
    /// is doing after them.
    fn submit(
        &self,
        branch: &mut Branch,
        steps: Vec<Step>,
        wrong: &mut Option<Trouble>,
    ) -> Result<Option<Status>, StoreError> {
        self.submit_all(branch, steps, wrong).map(|(status, _)| status)
    }

    /// The same, with the decisions.
    fn submit_all(
        &self,
        branch: &mut Branch,
        steps: Vec<Step>,
        wrong: &mut Option<Trouble>,
    ) -> Result<(Option<Status>, Vec<Decision>), StoreError> {
        let now = (self.setting.clock)();
        let (mut events, mut places) = (Vec::new(), Vec::new());
        for step in steps {
            if let Some(mark) = step.mark {
                branch.log.put(mark.at, mark.known());
            }
            for mut event in step.events {
                event["session"] = Value::from(branch.session.as_str());
                if let Some(mark) = step.mark {
                    event["proxy"] = json!(mark);
                }
                match self.setting.door.read(&event.to_string(), now) {
                    Ok(event) => {
                        events.push(event);
                        places.push(step.mark.map(|mark| mark.at));
                    }
                    Err(error) => *wrong = Some(error.into()),
                }
            }
        }
        let (mut status, mut decisions) = (None, Vec::new());
        for (answer, at) in self.setting.recorder.submit_all(events).into_iter().zip(places) {
            match answer {
                Ok(decision) => {
                    status = Some(decision.state);
                    if decision.decision > Verdict::Allow || !decision.effects.is_empty() {
                        (self.setting.tell)(&decision);
                    }
                    if let Some((at, note)) = at.zip(Note::of(&decision)) {
                        branch.log.note(at, note);
                    }
                    decisions.push(decision);
                }
                // Another proxy on the same store was faster, and knew more of it.
                Err(Refusal::Event(error)) if error.code == Code::EventConflict => {}
                Err(Refusal::Event(error)) => *wrong = Some(error.into()),
                Err(Refusal::Store(error)) => return Err(error),
            }
        }
        Ok((status, decisions))
    }

    /// What to say instead of the model, if the session or the one above it stands still.
    fn stopped(&self, session: &str, parent: Option<&str>) -> Result<Option<String>, StoreError> {
        for name in parent.into_iter().chain([session]) {
            let found = match self.setting.recorder.session(name) {
                Ok(found) => found,
                Err(Refusal::Store(error)) => return Err(error),
                Err(Refusal::Event(_)) => None,
            };
            let Some((state, _)) = found else { continue };
            // A halt outlives the end of the session.
            if !state.is_held() {
                continue;
            }
            let stop = if state.operator_stops().next().is_some() { " --guard human" } else { "" };
            let (guard, why) = state.standing().stopped_by.unwrap_or(("human", "it was stopped".into()));
            return Ok(Some(format!(
                "{MARK} This session was halted by the guard '{guard}': {why}. The model was not asked. A person can \
                 let it go on with: flyball release {}{stop} --why 'REASON'{}",
                quoted(name),
                self.setting.store_flag
            )));
        }
        Ok(None)
    }

    /// What an answer used, as the event says it.
    fn usage(&self, ticket: &Ticket, draft: &Draft) -> Value {
        let Some(tokens) = draft.tokens else {
            let output = draft.chars().div_ceil(CHARS_A_TOKEN) as u64;
            return json!({"tokens_in": ticket.estimate, "tokens_out": output});
        };
        let mut usage = json!({"tokens_in": tokens.input, "tokens_out": tokens.output});
        let model = if draft.model.is_empty() { &ticket.model } else { &draft.model };
        if let Some(micros) = (self.setting.cost)(model, tokens) {
            let dollars = format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000);
            usage["cost_usd"] = serde_json::from_str(&dollars).unwrap_or_default();
        }
        usage
    }
}

/// A name as it must be typed in a shell.
pub(crate) fn quoted(name: &str) -> String {
    format!("'{}'", name.replace('\'', r"'\''"))
}

/// Whether the session may wait for a release; one that has ended may, too.
const fn may_be_held(status: Status) -> bool {
    matches!(status, Status::Halted | Status::Blocked | Status::Ended)
}

fn lost() -> StoreError {
    StoreError::new(flyball_journal::Trouble::Unknown, "the conversation's place was lost")
}

/// The events of what is new in a request: from entry `new` on, which stands at place `keep`.
fn new_steps(asked: &Asked, new: usize, keep: usize, chain: Fingerprint) -> Vec<Step> {
    let mut chain = chain;
    let mut steps = Vec::new();
    for (offset, entry) in asked.entries.iter().skip(new).enumerate() {
        let key = entry.key();
        chain = chain.with(key);
        let mark = Mark { at: keep + offset, key, chain, answer: entry.is_answer(), alone: entry.is_alone() };
        let origin = if is_human(&asked.entries, new + offset) { "human" } else { "agent" };
        steps.push(Step { mark: Some(mark), events: events_of(entry, mark, origin) });
    }
    steps
}

/// The events that an entry stands for. Their ids follow from place and content, so that nothing is counted twice.
fn events_of(entry: &Entry, mark: Mark, origin: &str) -> Vec<Value> {
    let mut events = Vec::new();
    match entry {
        Entry::User { text, .. } => {
            events.push(json!({"type": "user.message", "text": text, "origin": origin}))
        }
        Entry::Answer { text, calls } => {
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
        Entry::Own => {}
        Entry::Result { call, ok, output } => {
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

/// The strictest of some notes, and the words for the model.
fn note<'a>(notes: impl Iterator<Item = &'a Note>) -> (Verdict, Option<String>) {
    let notes: Vec<&Note> = notes.collect();
    let Some(first) = notes.iter().find(|note| note.refused).or(notes.first()) else {
        return (Verdict::Allow, None);
    };
    let refused = first.refused;
    let texts: BTreeSet<&str> =
        notes.iter().filter(|note| note.refused == refused).map(|note| note.text.as_str()).collect();
    let texts: Vec<&str> = texts.into_iter().collect();
    let head = if refused {
        "Refused by the loop guard (the call had been made already, and its result is kept):"
    } else {
        "Note of the loop guard:"
    };
    let verdict = if refused { Verdict::Block } else { Verdict::Warn };
    (verdict, Some(format!("{MARK} {head} {}", texts.join(" "))))
}

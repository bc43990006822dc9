//! `confirmation`: a plan that needs a person's yes (seeds 000 and 001).
//!
//! A clear answer always counts, however many unclear ones came before. Unclear answers are asked again, `unclear`
//! times; the next one gives up, and giving up means no; giving up `aborts` times calls a person. A message that is no
//! answer at all is a new request: the plan is dropped, and the person is told. The approval is bound to the digest of
//! the plan, to the person who asked for it and to a time; it is given once. Which step leads where:
//! [`crate::confirm::TABLE`].
//!
//! Since version 2 of the rules a tool that the policy declares destructive runs on an approval alone
//! ([`super::approval`]).

use super::{Cx, Draft, Guard, Trips};
use crate::confirm::{Answer, Input, Language, Phase, Text, Texts, language_for, plan_digest, understand};
use crate::decision::{HaltReason, Severity};
use crate::event::{Denier, Kind, Origin, PlanStep, identity};
use crate::fingerprint::Fingerprint;
use crate::limits::{PLAN_BYTES, PLAN_STEPS};
use crate::policy::{Confirmation as Limits, NewRequest};
use crate::report::Waiting;
use crate::rules_version::RulesVersion;
use crate::state::read_layout;
use crate::window::cut;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeMap;

pub(super) const QUESTION_BYTES: usize = 600;
/// How many steps of a plan are followed while it runs, under version 1 of the rules.
const STEPS: usize = 32;

/// The plan, if there is one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Confirmation {
    pub(super) phase: Phase,
    pub(super) digest: String,
    pub(super) question: String,
    pub(super) requester: Option<String>,
    pub(super) expires: Option<u64>,
    /// The plan deletes something: a no ends it. Otherwise a no asks what to change.
    pub(super) deletes: bool,
    pub(super) unclear: u32,
    /// Plans given up since the last clear answer.
    aborts: u32,
    pub(super) asked: u64,
    /// The steps that were not asked for yet.
    pub(super) steps: Vec<Fingerprint>,
    /// Steps asked for that have not ended.
    pub(super) running: Vec<Fingerprint>,
    /// The plan as it was asked for, as JSON; empty if that is longer than [`PLAN_BYTES`].
    pub(super) plan: String,
    /// The plan consists of calls that were blocked for lack of an approval; further ones join it.
    pub(super) from_calls: bool,
    /// The events that asked for the plan or for a step of it.
    pub(super) askers: Vec<u64>,
    /// Steps that a person has approved and that were not asked for since.
    pub(super) approved: Vec<Fingerprint>,
    /// When unused approvals lapse.
    pub(super) approved_until: Option<u64>,
}

/// The fields of layout 1, in their order.
type Layout1 = (
    (Phase, String, String, Option<String>, Option<u64>),
    (bool, u32, u32, u64, Vec<Fingerprint>, Vec<Fingerprint>),
);

impl Confirmation {
    /// Whether a plan waits for an answer.
    pub(crate) fn awaits(&self) -> bool {
        self.phase == Phase::Awaiting
    }

    /// How many unclear answers the plan that waits has got.
    pub(crate) fn attempts(&self) -> u64 {
        if self.awaits() { u64::from(self.unclear) } else { 0 }
    }

    /// Where the plan is.
    pub(crate) const fn phase(&self) -> Phase {
        self.phase
    }

    /// The plan that waits for an answer.
    pub(crate) fn waiting(&self) -> Option<Waiting<'_>> {
        self.awaits().then(|| Waiting {
            digest: &self.digest,
            question: &self.question,
            requester: self.requester.as_deref(),
            expires: self.expires,
            asked: self.asked,
            askers: if self.askers.is_empty() { std::slice::from_ref(&self.asked) } else { &self.askers },
            plan: (!self.plan.is_empty()).then_some(self.plan.as_str()),
        })
    }

    pub(super) fn go(&mut self, input: Input) -> bool {
        match self.phase.after(input) {
            Some(next) => {
                self.phase = next;
                true
            }
            None => false,
        }
    }

    fn language(&self, cx: &Cx<'_>, heard: Option<&str>) -> Language {
        let heard = if self.question.is_empty() { heard } else { Some(self.question.as_str()) };
        language_for(cx.limits.confirmation.language, heard)
    }

    pub(super) fn say(&self, cx: &Cx<'_>, text: &Text<'_>, heard: Option<&str>, trips: &mut Trips) {
        let texts = Texts::new(cx.limits.confirmation.texts.clone());
        trips.say(texts.render(text, self.language(cx, heard)));
    }

    pub(super) fn late(&self, now: u64) -> bool {
        self.expires.is_some_and(|expires| now >= expires)
    }

    fn put(&mut self, cx: &Cx<'_>, plan: &[PlanStep], asked: &Asked<'_>, trips: &mut Trips) {
        let digest = plan_digest(plan);
        if self.is_settled(cx, plan, &digest) {
            return;
        }
        // The same plan, asked for once more in other words, or after a call of it was blocked: nothing was dropped.
        let same =
            cx.rules > RulesVersion::V1 && self.awaits() && self.digest == digest && !self.late(cx.now);
        if self.awaits() && !same {
            let effect = if self.late(cx.now) { "plan.expired" } else { "plan.replaced" };
            trips.effect(effect, "digest", self.digest.clone());
            self.say(cx, &Text::Replaced, asked.question, trips);
        }
        let question = match asked.question {
            None if same => std::mem::take(&mut self.question),
            question => cut(question.unwrap_or(""), QUESTION_BYTES).to_owned(),
        };
        let requester = asked.requester.map(str::to_owned);
        self.requester = if same { requester.or_else(|| self.requester.take()) } else { requester };
        self.open(cx, plan, same);
        self.question = question;
        let ttl = asked.ttl_ms.or(cx.limits.confirmation.ttl_ms);
        self.expires = ttl.filter(|_| cx.timed).map(|ttl| cx.now.saturating_add(ttl));
        if self.question.is_empty() {
            let names: Vec<String> = asked.targets.iter().map(target).collect();
            let question = ask_text(cx, &names, plan.len(), self.deletes);
            self.question = cut(&question, QUESTION_BYTES).to_owned();
            trips.say(question);
        }
    }

    /// Puts a plan in the place of the one before, or of the same one.
    pub(super) fn open(&mut self, cx: &Cx<'_>, plan: &[PlanStep], same: bool) {
        self.go(Input::Asked);
        self.digest = plan_digest(plan);
        self.deletes = plan.iter().any(|step| deletes(&step.tool));
        self.asked = cx.seq;
        let followed = if cx.rules > RulesVersion::V1 { PLAN_STEPS } else { STEPS };
        self.steps = plan.iter().take(followed).map(|step| identity(&step.tool, &step.args).call).collect();
        if !same {
            self.unclear = 0;
            self.askers.clear();
            self.running.clear();
        }
        if cx.rules > RulesVersion::V1 {
            self.plan =
                serde_json::to_string(plan).ok().filter(|text| text.len() <= PLAN_BYTES).unwrap_or_default();
            self.from_calls = false;
            self.asked_by(cx.seq);
            self.make_room();
        }
    }

    /// Whether nobody needs to be asked about a plan: a plan that was just approved is not asked about again.
    fn is_settled(&self, cx: &Cx<'_>, plan: &[PlanStep], digest: &str) -> bool {
        if cx.rules > RulesVersion::V1 {
            return self.covers_plan(cx, plan);
        }
        matches!(self.phase, Phase::Approved | Phase::Executing)
            && self.digest == digest
            && !digest.is_empty()
    }

    /// Whether an answer is about the plan that waits. One that names another plan is refused, and this one waits on.
    fn is_about(&self, cx: &Cx<'_>, digest: Option<&str>, said: &str, trips: &mut Trips) -> bool {
        let same = !self.awaits() || digest.is_none_or(|digest| digest == self.digest);
        if !same {
            let what = "the answer was given to another plan than the one that waits";
            let draft = self.draft(cx, "confirmation_refused", Severity::Block, what);
            self.say(cx, &Text::Replaced, Some(said), trips);
            trips.add(cx.limits.confirmation.mode, draft);
        }
        same
    }

    fn answered(
        &mut self,
        cx: &Cx<'_>,
        said: &str,
        value: Option<&str>,
        by: Option<&str>,
        trips: &mut Trips,
    ) {
        let heard = Some(said);
        let answer = meaning(said, value);
        if !self.awaits() && !self.can_revoke(cx, answer) {
            // A second yes, or an answer to nothing: harmless.
            if cx.rules > RulesVersion::V1 {
                trips.say(nothing_pending(&cx.limits.confirmation, said));
            }
            return;
        }
        if let (Some(requester), Some(by)) = (&self.requester, by)
            && requester != by
        {
            let what = "somebody else answered than the one who asked";
            let draft = self.draft(cx, "confirmation_refused", Severity::Block, what);
            self.say(cx, &Text::NotYours, heard, trips);
            trips.add(cx.limits.confirmation.mode, draft);
            return;
        }
        if !self.awaits() {
            self.revoke();
            trips.effect("plan.rejected", "digest", self.digest.clone());
            self.say(cx, &Text::Cancelled, heard, trips);
            return;
        }
        if self.late(cx.now) {
            return self.answered_late(cx, heard, trips);
        }
        if answer != Answer::Unclear {
            self.aborts = 0;
        }
        match answer {
            Answer::Yes => {
                self.go(Input::Yes);
                let mut fields = BTreeMap::from([("digest".to_owned(), json!(self.digest))]);
                if cx.rules > RulesVersion::V1 {
                    self.grant(cx);
                    fields.extend(self.plan_fields());
                }
                trips.effects.push(("plan.approved", fields));
                self.say(cx, &Text::Confirmed, heard, trips);
            }
            Answer::No | Answer::Cancel | Answer::Change => {
                self.go(Input::No);
                trips.effect("plan.rejected", "digest", self.digest.clone());
                let ends = answer == Answer::Cancel || (answer == Answer::No && self.deletes);
                let text = if ends { Text::Cancelled } else { Text::WhatToChange };
                self.say(cx, &text, heard, trips);
            }
            Answer::Unclear => self.not_understood(cx, heard, trips),
        }
    }

    fn answered_late(&mut self, cx: &Cx<'_>, heard: Option<&str>, trips: &mut Trips) {
        self.go(Input::Late);
        trips.effect("plan.expired", "digest", self.digest.clone());
        self.say(cx, &Text::Expired, heard, trips);
        let what = "the answer came after the time was over; nothing was run";
        let draft = self.draft(cx, "confirmation_expired", Severity::Block, what);
        trips.add(cx.limits.confirmation.mode, draft);
    }

    fn not_understood(&mut self, cx: &Cx<'_>, heard: Option<&str>, trips: &mut Trips) {
        let limits = &cx.limits.confirmation;
        self.unclear = self.unclear.saturating_add(1);
        let (count, limit) = (u64::from(self.unclear), limits.unclear);
        let over =
            limit.is_some_and(|limit| count > limit || (limits.abort_on_reaching_max && count >= limit));
        if over {
            self.go(Input::GaveUp);
            trips.effect("plan.aborted", "digest", self.digest.clone());
            self.say(cx, &Text::Aborted, heard, trips);
            let limit = limit.unwrap_or(0);
            let message =
                format!("Maximum confirmation attempts ({limit}) exceeded. Aborting confirmation flow.");
            self.aborts = self.aborts.saturating_add(1);
            let draft = self.draft(cx, "confirmation_aborted", Severity::Block, &message).count(count, limit);
            let hand_over = limits.aborts.is_some_and(|most| u64::from(self.aborts) >= most);
            let draft = if hand_over { draft.escalates() } else { draft };
            // Giving up means no, whatever the mode: the plan is gone, also where nothing is refused.
            trips.add(limits.mode, draft);
        } else {
            self.go(Input::Unclear);
            let question = (!self.question.is_empty()).then_some(self.question.as_str());
            self.say(cx, &Text::AskAgain { question }, heard, trips);
            let message = match limit {
                None if cx.rules > RulesVersion::V1 => {
                    format!("the answer was not understood (attempt {count})")
                }
                limit => format!("the answer was not understood (attempt {count}/{})", limit.unwrap_or(0)),
            };
            let limit = limit.unwrap_or(0);
            let draft = self.draft(cx, "confirmation_unclear", Severity::Warn, &message).count(count, limit);
            trips.add(limits.mode, draft);
        }
    }

    /// A person speaks while the plan waits. An answer comes with an event of its own; what is no answer is a new
    /// request, which an old question must not hijack.
    fn interrupted(&mut self, cx: &Cx<'_>, said: &str, trips: &mut Trips) {
        if !self.awaits() || said.trim().is_empty() || understand(said) != Answer::Unclear {
            return;
        }
        if self.late(cx.now) {
            self.go(Input::Late);
            trips.effect("plan.expired", "digest", self.digest.clone());
        } else if cx.limits.confirmation.on_new_request == NewRequest::Keep {
            let question = (!self.question.is_empty()).then_some(self.question.as_str());
            self.say(cx, &Text::StillWaiting { question }, Some(said), trips);
            return;
        } else {
            self.go(Input::NewRequest);
            trips.effect("plan.replaced", "digest", self.digest.clone());
            if self.from_calls {
                // The request may be for the same call: it is asked about again when it comes.
                self.steps.clear();
            }
        }
        self.say(cx, &Text::Dropped, Some(said), trips);
    }

    pub(super) fn draft(&self, cx: &Cx<'_>, reason: &str, severity: Severity, message: &str) -> Draft {
        Draft::new("confirmation", reason, severity, message)
            .scope("plan", &self.digest)
            .events(vec![self.asked, cx.seq])
            .actions(&["ask_again", "start_over", "hand_over_to_a_person"])
            .halts_as(HaltReason::UserStop)
    }

    fn follow(&mut self, cx: &Cx<'_>, trips: &mut Trips) {
        let Some(call) = &cx.facts.call else { return };
        if cx.rules > RulesVersion::V1 {
            match &cx.event.kind {
                Kind::ToolRequested { .. } => self.use_approval(cx, call.call),
                Kind::ToolDenied { by: Denier::Human, .. } => self.withdraw_call(cx, call.call, trips),
                _ => {}
            }
        }
        match &cx.event.kind {
            Kind::ToolRequested { .. } if matches!(self.phase, Phase::Approved | Phase::Executing) => {
                if let Some(at) = self.steps.iter().position(|step| *step == call.call) {
                    self.running.push(self.steps.remove(at));
                    self.go(Input::Started);
                }
            }
            Kind::ToolFinished { .. } if self.phase == Phase::Executing => {
                self.running.retain(|step| *step != call.call);
                if self.running.is_empty() && self.steps.is_empty() {
                    self.go(Input::Finished);
                }
            }
            _ => {}
        }
    }
}

/// The parts of a question.
struct Asked<'a> {
    question: Option<&'a str>,
    requester: Option<&'a str>,
    ttl_ms: Option<u64>,
    targets: &'a [Value],
}

/// What an answer means: the word that came with it, else its text.
fn meaning(said: &str, value: Option<&str>) -> Answer {
    match value {
        Some("yes") => Answer::Yes,
        Some("no") => Answer::No,
        Some("cancel") => Answer::Cancel,
        Some("change") => Answer::Change,
        Some("unclear") => Answer::Unclear,
        _ => understand(said),
    }
}

/// What is said to a person whose yes meets nothing.
pub(crate) fn nothing_pending(limits: &Limits, said: &str) -> String {
    let texts = Texts::new(limits.texts.clone());
    texts.render(&Text::NothingPending, language_for(limits.language, Some(said)))
}

/// The question that is put where nobody wrote one.
pub(super) fn ask_text(cx: &Cx<'_>, targets: &[String], steps: usize, deletes: bool) -> String {
    let limits = &cx.limits.confirmation;
    let texts = Texts::new(limits.texts.clone());
    texts.render(&Text::Ask { targets, steps, deletes }, language_for(limits.language, None))
}

fn target(value: &Value) -> String {
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    super::validation::plain(&text, 80)
}

pub(super) fn deletes(tool: &str) -> bool {
    let tool = tool.to_lowercase();
    ["delete", "remove", "drop", "destroy", "purge", "wipe", "erase"].iter().any(|verb| tool.contains(verb))
}

impl Guard for Confirmation {
    /// A step of a plan that nobody has said yes to is refused, whoever asks for it.
    fn ask(&self, cx: &Cx<'_>, trips: &mut Trips) {
        let (Kind::ToolRequested { .. }, Some(call)) = (&cx.event.kind, &cx.facts.call) else { return };
        if cx.rules > RulesVersion::V1 {
            if self.covers(cx, call.call) {
                return;
            }
            if super::approval::is_needed(cx) {
                return self.require_approval(cx, call, trips);
            }
        }
        let message = match self.phase {
            Phase::Awaiting => "the plan that this step belongs to waits for a yes",
            Phase::Rejected | Phase::Expired | Phase::Aborted => {
                "the plan that this step belongs to was not approved"
            }
            _ => return,
        };
        if cx.limits.confirmation.mode.is_on() && self.steps.contains(&call.call) {
            let draft = self
                .draft(cx, "confirmation_refused", Severity::Block, message)
                .scope("tool", &call.tool)
                .feedback(
                    "This step needs a person's yes, and there is none. Ask for it, or do something else.",
                );
            trips.add(cx.limits.confirmation.mode, draft);
        }
    }

    /// A call that was blocked for lack of an approval is what a person is asked about.
    fn refused(&mut self, cx: &Cx<'_>, mine: bool) {
        if mine && cx.rules > RulesVersion::V1 {
            self.ask_about_call(cx);
        }
    }

    /// A person who speaks may ask for the same again; a plan that still waits stays refused.
    fn fresh(&mut self) {
        if !self.awaits() && !matches!(self.phase, Phase::Approved | Phase::Executing) {
            self.steps.clear();
        }
    }

    fn tell(&mut self, cx: &Cx<'_>, trips: &mut Trips) {
        if !cx.limits.confirmation.mode.is_on() {
            return;
        }
        match &cx.event.kind {
            Kind::ConfirmationRequested { plan, question, requester, ttl_ms, targets } => {
                let (question, requester) =
                    (question.as_deref().filter(|text| !text.trim().is_empty()), requester.as_deref());
                self.put(cx, plan, &Asked { question, requester, ttl_ms: *ttl_ms, targets }, trips);
            }
            Kind::ConfirmationAnswered { text, value, by, digest } => {
                let said = text.as_deref().or(value.as_deref()).unwrap_or("");
                if self.is_about(cx, digest.as_deref(), said, trips) {
                    self.answered(cx, said, value.as_deref(), by.as_deref(), trips);
                }
            }
            Kind::UserMessage { text, origin: Origin::Human } => self.interrupted(cx, text, trips),
            Kind::ToolRequested { .. } | Kind::ToolFinished { .. } | Kind::ToolDenied { .. } => {
                self.follow(cx, trips);
            }
            _ => {}
        }
    }

    /// The counters go back; a plan that waits still waits.
    fn reset(&mut self) {
        self.unclear = 0;
        self.aborts = 0;
    }

    const LAYOUT: u16 = 2;

    fn read(layout: u16, bytes: &[u8]) -> postcard::Result<(Self, &[u8])> {
        if layout != 1 {
            return read_layout(layout, Self::LAYOUT, bytes);
        }
        let (((phase, digest, question, requester, expires), rest), left): (Layout1, &[u8]) =
            read_layout(layout, 1, bytes)?;
        let (deletes, unclear, aborts, asked, steps, running) = rest;
        let read = Confirmation {
            phase,
            digest,
            question,
            requester,
            expires,
            deletes,
            unclear,
            aborts,
            asked,
            steps,
            running,
            ..Confirmation::default()
        };
        Ok((read, left))
    }
}

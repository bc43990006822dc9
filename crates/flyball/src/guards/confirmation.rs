//! `confirmation`: a plan that needs a person's yes (seeds 000 and 001).
//!
//! A clear answer always counts, however many unclear ones came before. Unclear answers are asked again, `unclear`
//! times; the next one gives up, and giving up means no; giving up `aborts` times calls a person. A message that is no
//! answer at all is a new request: the plan is dropped, and the person is told. The approval is bound to the digest of
//! the plan, to the person who asked for it and to a time; it is given once. Which step leads where:
//! [`crate::confirm::TABLE`].

use super::{Cx, Draft, Guard, Trips};
use crate::confirm::{Answer, Input, Language, Phase, Text, Texts, language_for, plan_digest, understand};
use crate::decision::{HaltReason, Severity};
use crate::event::{Kind, Origin, PlanStep, identity};
use crate::fingerprint::Fingerprint;
use crate::policy::NewRequest;
use crate::report::Waiting;
use crate::window::cut;
use serde::{Deserialize, Serialize};
use serde_json::Value;

const QUESTION_BYTES: usize = 600;
/// How many steps of a plan are followed while it runs.
const STEPS: usize = 32;

/// The plan, if there is one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Confirmation {
    phase: Phase,
    digest: String,
    question: String,
    requester: Option<String>,
    expires: Option<u64>,
    /// The plan deletes something: a no ends it. Otherwise a no asks what to change.
    deletes: bool,
    unclear: u32,
    /// Plans given up since the last clear answer.
    aborts: u32,
    asked: u64,
    /// The steps that were not asked for yet.
    steps: Vec<Fingerprint>,
    /// Steps asked for that have not ended.
    running: Vec<Fingerprint>,
}

impl Confirmation {
    /// Whether a plan waits for an answer.
    pub(crate) fn awaits(&self) -> bool {
        self.phase == Phase::Awaiting
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
        })
    }

    fn go(&mut self, input: Input) -> bool {
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

    fn say(&self, cx: &Cx<'_>, text: &Text<'_>, heard: Option<&str>, trips: &mut Trips) {
        let texts = Texts::new(cx.limits.confirmation.texts.clone());
        trips.say(texts.render(text, self.language(cx, heard)));
    }

    fn late(&self, now: u64) -> bool {
        self.expires.is_some_and(|expires| now >= expires)
    }

    fn put(&mut self, cx: &Cx<'_>, plan: &[PlanStep], asked: &Asked<'_>, trips: &mut Trips) {
        let digest = plan_digest(plan);
        // A plan that was just approved is not asked about again.
        if matches!(self.phase, Phase::Approved | Phase::Executing)
            && self.digest == digest
            && !digest.is_empty()
        {
            return;
        }
        if self.awaits() {
            let effect = if self.late(cx.now) { "plan.expired" } else { "plan.replaced" };
            trips.effect(effect, "digest", self.digest.clone());
            self.say(cx, &Text::Replaced, asked.question, trips);
        }
        self.go(Input::Asked);
        let ttl = asked.ttl_ms.or(cx.limits.confirmation.ttl_ms);
        self.digest = digest;
        self.question = cut(asked.question.unwrap_or(""), QUESTION_BYTES).to_owned();
        self.requester = asked.requester.map(str::to_owned);
        self.expires = ttl.filter(|_| cx.timed).map(|ttl| cx.now.saturating_add(ttl));
        self.deletes = plan.iter().any(|step| deletes(&step.tool));
        self.unclear = 0;
        self.asked = cx.seq;
        self.steps = plan.iter().take(STEPS).map(|step| identity(&step.tool, &step.args).call).collect();
        self.running.clear();
        if self.question.is_empty() {
            let names: Vec<String> = asked.targets.iter().map(target).collect();
            let language = language_for(cx.limits.confirmation.language, None);
            let texts = Texts::new(cx.limits.confirmation.texts.clone());
            let text = Text::Ask { targets: &names, steps: plan.len(), deletes: self.deletes };
            let question = texts.render(&text, language);
            self.question = cut(&question, QUESTION_BYTES).to_owned();
            trips.say(question);
        }
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
        if !self.awaits() {
            // A second yes, or an answer to nothing: harmless.
            return;
        }
        let heard = Some(said);
        if let (Some(requester), Some(by)) = (&self.requester, by)
            && requester != by
        {
            let draft = self.draft(
                cx,
                "confirmation_refused",
                Severity::Block,
                "somebody else answered than the one who asked",
            );
            self.say(cx, &Text::NotYours, heard, trips);
            trips.add(cx.limits.confirmation.mode, draft);
            return;
        }
        if self.late(cx.now) {
            self.go(Input::Late);
            trips.effect("plan.expired", "digest", self.digest.clone());
            self.say(cx, &Text::Expired, heard, trips);
            let draft = self.draft(
                cx,
                "confirmation_expired",
                Severity::Block,
                "the answer came after the time was over; nothing was run",
            );
            trips.add(cx.limits.confirmation.mode, draft);
            return;
        }
        let answer = match value {
            Some("yes") => Answer::Yes,
            Some("no") => Answer::No,
            Some("cancel") => Answer::Cancel,
            Some("change") => Answer::Change,
            _ => understand(said),
        };
        if answer != Answer::Unclear {
            self.aborts = 0;
        }
        match answer {
            Answer::Yes => {
                self.go(Input::Yes);
                trips.effect("plan.approved", "digest", self.digest.clone());
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
            let limit = limit.unwrap_or(0);
            let message = format!("the answer was not understood (attempt {count}/{limit})");
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
        }
        self.say(cx, &Text::Dropped, Some(said), trips);
    }

    fn draft(&self, cx: &Cx<'_>, reason: &str, severity: Severity, message: &str) -> Draft {
        Draft::new("confirmation", reason, severity, message)
            .scope("plan", &self.digest)
            .events(vec![self.asked, cx.seq])
            .actions(&["ask_again", "start_over", "hand_over_to_a_person"])
            .halts_as(HaltReason::UserStop)
    }

    fn follow(&mut self, cx: &Cx<'_>) {
        let Some(call) = &cx.facts.call else { return };
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

fn target(value: &Value) -> String {
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    super::validation::plain(&text, 80)
}

fn deletes(tool: &str) -> bool {
    let tool = tool.to_lowercase();
    ["delete", "remove", "drop", "destroy", "purge", "wipe", "erase"].iter().any(|verb| tool.contains(verb))
}

impl Guard for Confirmation {
    /// A step of a plan that nobody has said yes to is refused, whoever asks for it.
    fn ask(&self, cx: &Cx<'_>, trips: &mut Trips) {
        let (Kind::ToolRequested { .. }, Some(call)) = (&cx.event.kind, &cx.facts.call) else { return };
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
            Kind::ToolRequested { .. } | Kind::ToolFinished { .. } => self.follow(cx),
            _ => {}
        }
    }

    /// The counters go back; a plan that waits still waits.
    fn reset(&mut self) {
        self.unclear = 0;
        self.aborts = 0;
    }
}

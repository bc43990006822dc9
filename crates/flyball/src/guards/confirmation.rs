//! `confirmation`: plans that need approval.
//!
//! A clear answer always counts, no matter how many unclear ones preceded it. After an unclear answer the question is
//! asked again, up to `unclear` times; the next unclear answer aborts, which counts as a rejection. `aborts` aborts in
//! a row escalate to a person. A message that is not an answer is a new request: the plan is dropped and the person is
//! notified. An approval is bound to the plan digest, the requester and an expiry time, and is granted once. See
//! [`crate::confirm::PLAN_TRANSITIONS`] for the state transitions.
//!
//! Since version 2 of the rules, a tool that the policy declares destructive requires an approval
//! ([`super::approval`]).

use super::info::GuardInfo;
use super::info::ScopeKind::{Node, Tool};
use super::plan_request::ConfirmationRequest;
use super::{Guard, GuardContext, TripBuilder, Trips};
use crate::confirm::{
    ConfirmationAnswer, ConfirmationMessage, Language, MessageCatalog, PlanInput, PlanPhase, classify_answer,
    language_for,
};
use crate::decision::{HaltReason, TripSeverity};
use crate::event::{DeniedBy, EventKind, MessageOrigin};
use crate::fingerprint::Fingerprint;
use crate::policy::settings::StricterDirection::{Less, More};
use crate::policy::settings::{
    COUNT_RANGE, Count, Duration, Flag, Texts, Word, keywords, scope_keys, settings,
};
use crate::policy::{GuardMode, HOUR_MS, Limit};
use crate::reasons::{EndingKind, Reason};
use crate::report::Waiting;
use crate::rules_version::RulesVersion;
use crate::state::read_layout;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::collections::BTreeMap;

/// The declaration of the guard.
pub(super) const INFO: GuardInfo = GuardInfo::new(RulesVersion::V1, "A person's answer to a plan.")
    .table(
        "answers to a plan, and calls of destructive tools without an approval (`approval_required`)",
        "ask again, then abort; the third abort without a clear answer in between escalates to a person",
    )
    .reasons(&[
        Reason::exhausted(
            "confirmation_aborted",
            "The plan was not clearly approved in time, so it was denied.",
        ),
        Reason::external(
            "confirmation_expired",
            "The plan was not clearly approved in time, so it was denied.",
        ),
        Reason::external(
            "confirmation_unclear",
            "The answer was neither a clear yes nor a clear no. The plan is still awaiting approval.",
        ),
        Reason::external(
            "confirmation_refused",
            "Only the requester can approve the plan; an answer from anyone else is ignored.",
        ),
        Reason::plain("approval_required", EndingKind::External),
    ])
    .scope::<ToolConfirmation>(Tool, "Plan steps that were not approved.")
    .scopes::<ConfirmationPolicy>(&[Node]);

settings! {
    /// A person's answer to a plan.
    pub struct ConfirmationPolicy: "ConfirmationFile" {
        /// Action when the guard trips.
        mode: GuardMode = GuardMode::Staged => Word;
        /// Unclear answers that are asked again; the next one aborts the plan.
        unclear: Limit = Some(3) => Count(COUNT_RANGE, Less);
        /// How long to wait for an answer.
        ttl_ms as "ttl": Limit = Some(HOUR_MS) => Duration(Less);
        /// Whether to abort on the answer that reaches `unclear` instead of the one after it.
        abort_on_reaching_max: bool = false => Flag(More);
        /// The Nth consecutive abort escalates to a person; a clear answer resets the count.
        aborts: Limit = Some(3) => Count(COUNT_RANGE, Less);
        /// How a pending plan is handled when the person asks for something else.
        on_new_request: NewRequestAction = NewRequestAction::Drop => Word;
        /// Language of the questions.
        language: LanguageSetting = LanguageSetting::Auto => Word;
        /// Overrides for the built-in texts, by name.
        texts: BTreeMap<String, String> = BTreeMap::new() => Texts;
    }
}

scope_keys! {
    /// A guard with no keys except its mode.
    ToolConfirmation: "ModeFile", ConfirmationPolicy, ["mode"]
}

/// How a pending plan is handled when the person asks for something else.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, JsonSchema)]
#[schemars(rename = "NewRequestValue", rename_all = "snake_case")]
pub enum NewRequestAction {
    /// The plan is dropped, and the person is notified.
    #[default]
    Drop,
    /// The plan stays pending, and the person is reminded of it.
    Keep,
}
keywords! { NewRequestAction { "drop" = Drop, "keep" = Keep } }

/// The language of questions to a person.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, JsonSchema)]
#[schemars(rename = "LanguageValue", rename_all = "snake_case")]
pub enum LanguageSetting {
    /// Detected from the person's messages.
    #[default]
    Auto,
    /// English.
    En,
    /// Russian.
    Ru,
    /// Spanish.
    Es,
}
keywords! { LanguageSetting { "auto" = Auto, "en" = En, "ru" = Ru, "es" = Es }
}

pub(super) const MAX_QUESTION_BYTES: usize = 600;

/// The current plan, if any, and its approvals.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ConfirmationGuard {
    pub(super) phase: PlanPhase,
    pub(super) digest: String,
    pub(super) question: String,
    pub(super) requester: Option<String>,
    pub(super) expires: Option<u64>,
    /// Whether the plan deletes something. A rejection ends such a plan; otherwise the person is asked what to change.
    pub(super) deletes: bool,
    pub(super) unclear: u32,
    /// Plans aborted since the last clear answer.
    aborts: u32,
    pub(super) asked: u64,
    /// Steps that were not requested yet.
    pub(super) steps: Vec<Fingerprint>,
    /// Steps that were requested and have not finished.
    pub(super) running: Vec<Fingerprint>,
    /// The requested plan as JSON; empty if longer than [`crate::limits::MAX_PLAN_BYTES`].
    pub(super) plan: String,
    /// Whether the plan consists of calls blocked for lack of approval; further blocked calls join it.
    pub(super) from_calls: bool,
    /// Events that requested the plan or one of its steps.
    pub(super) requesters: Vec<u64>,
    /// Approved steps that were not requested since.
    pub(super) approved: Vec<Fingerprint>,
    /// Expiry time of unused approvals.
    pub(super) approved_until: Option<u64>,
}

/// Fields of layout 1, in order.
type ConfirmationLayout1 = (
    (PlanPhase, String, String, Option<String>, Option<u64>),
    (bool, u32, u32, u64, Vec<Fingerprint>, Vec<Fingerprint>),
);

impl ConfirmationGuard {
    /// Whether a plan is awaiting approval.
    pub(crate) fn is_awaiting(&self) -> bool {
        self.phase == PlanPhase::Awaiting
    }

    /// Number of unclear answers to the pending plan.
    pub(crate) fn unclear_answers(&self) -> u64 {
        if self.is_awaiting() { u64::from(self.unclear) } else { 0 }
    }

    /// Phase of the plan.
    pub(crate) const fn phase(&self) -> PlanPhase {
        self.phase
    }

    /// The plan awaiting approval.
    pub(crate) fn pending_plan(&self) -> Option<Waiting<'_>> {
        self.is_awaiting().then(|| Waiting {
            digest: &self.digest,
            question: &self.question,
            requester: self.requester.as_deref(),
            expires: self.expires,
            request_seq: self.asked,
            requesters: if self.requesters.is_empty() {
                std::slice::from_ref(&self.asked)
            } else {
                &self.requesters
            },
            plan: (!self.plan.is_empty()).then_some(self.plan.as_str()),
        })
    }

    pub(super) fn advance(&mut self, input: PlanInput) -> bool {
        match self.phase.after(input) {
            Some(next) => {
                self.phase = next;
                true
            }
            None => false,
        }
    }

    fn language(&self, cx: &GuardContext<'_>, user_text: Option<&str>) -> Language {
        let heard = if self.question.is_empty() { user_text } else { Some(self.question.as_str()) };
        language_for(cx.limits.confirmation.language, heard)
    }

    pub(super) fn say(
        &self,
        cx: &GuardContext<'_>,
        text: &ConfirmationMessage<'_>,
        heard: Option<&str>,
        trips: &mut Trips,
    ) {
        let texts = MessageCatalog::new(cx.limits.confirmation.texts.clone());
        trips.say(texts.render(text, self.language(cx, heard)));
    }

    pub(super) fn is_expired(&self, now: u64) -> bool {
        self.expires.is_some_and(|expires| now >= expires)
    }

    /// Whether an answer refers to the pending plan. An answer that names another plan is rejected, and the plan stays
    /// pending.
    fn matches_pending_plan(
        &self,
        cx: &GuardContext<'_>,
        digest: Option<&str>,
        said: &str,
        trips: &mut Trips,
    ) -> bool {
        let same = !self.is_awaiting() || digest.is_none_or(|digest| digest == self.digest);
        if !same {
            let what = cx.rules.wording(
                "the answer was given to another plan than the one that waits",
                "the answer is for a different plan than the pending one",
            );
            let draft = self.trip(cx, "confirmation_refused", TripSeverity::Block, what);
            self.say(cx, &ConfirmationMessage::Replaced, Some(said), trips);
            trips.add(cx.limits.confirmation.mode, draft);
        }
        same
    }

    fn on_answer(
        &mut self,
        cx: &GuardContext<'_>,
        said: &str,
        value: Option<&str>,
        by: Option<&str>,
        trips: &mut Trips,
    ) {
        let user_text = Some(said);
        let answer = answer_meaning(said, value);
        if !self.is_awaiting() && !self.can_revoke(cx, answer) {
            // A repeated approval, or an answer without a pending plan: no effect.
            if cx.rules > RulesVersion::V1 {
                trips.say(nothing_pending_text(&cx.limits.confirmation, said));
            }
            return;
        }
        if let (Some(requester), Some(by)) = (&self.requester, by)
            && requester != by
        {
            let what = cx.rules.wording(
                "somebody else answered than the one who asked",
                "the answer came from someone other than the requester",
            );
            let draft = self.trip(cx, "confirmation_refused", TripSeverity::Block, what);
            self.say(cx, &ConfirmationMessage::NotYours, user_text, trips);
            trips.add(cx.limits.confirmation.mode, draft);
            return;
        }
        if !self.is_awaiting() {
            self.revoke();
            trips.add_effect("plan.rejected", "digest", self.digest.clone());
            self.say(cx, &ConfirmationMessage::Cancelled, user_text, trips);
            return;
        }
        if self.is_expired(cx.now) {
            return self.answered_late(cx, user_text, trips);
        }
        if answer != ConfirmationAnswer::Unclear {
            self.aborts = 0;
        }
        match answer {
            ConfirmationAnswer::Yes => {
                self.advance(PlanInput::Yes);
                let mut fields = BTreeMap::from([("digest".to_owned(), json!(self.digest))]);
                if cx.rules > RulesVersion::V1 {
                    self.approve_plan(cx);
                    fields.extend(self.plan_fields());
                }
                trips.effects.push(("plan.approved", fields));
                self.say(cx, &ConfirmationMessage::Confirmed, user_text, trips);
            }
            ConfirmationAnswer::No | ConfirmationAnswer::Cancel | ConfirmationAnswer::Change => {
                self.advance(PlanInput::No);
                trips.add_effect("plan.rejected", "digest", self.digest.clone());
                let ends = answer == ConfirmationAnswer::Cancel
                    || (answer == ConfirmationAnswer::No && self.deletes);
                let text =
                    if ends { ConfirmationMessage::Cancelled } else { ConfirmationMessage::WhatToChange };
                self.say(cx, &text, user_text, trips);
            }
            ConfirmationAnswer::Unclear => self.on_unclear_answer(cx, user_text, trips),
        }
    }

    fn answered_late(&mut self, cx: &GuardContext<'_>, heard: Option<&str>, trips: &mut Trips) {
        self.advance(PlanInput::Expired);
        trips.add_effect("plan.expired", "digest", self.digest.clone());
        self.say(cx, &ConfirmationMessage::Expired, heard, trips);
        let what = cx.rules.wording(
            "the answer came after the time was over; nothing was run",
            "the answer came after the confirmation had expired; nothing was run",
        );
        let draft = self.trip(cx, "confirmation_expired", TripSeverity::Block, what);
        trips.add(cx.limits.confirmation.mode, draft);
    }

    fn on_unclear_answer(&mut self, cx: &GuardContext<'_>, heard: Option<&str>, trips: &mut Trips) {
        let limits = &cx.limits.confirmation;
        self.unclear = self.unclear.saturating_add(1);
        let (count, limit) = (u64::from(self.unclear), limits.unclear);
        let over =
            limit.is_some_and(|limit| count > limit || (limits.abort_on_reaching_max && count >= limit));
        if over {
            self.advance(PlanInput::AttemptsExhausted);
            trips.add_effect("plan.aborted", "digest", self.digest.clone());
            self.say(cx, &ConfirmationMessage::Aborted, heard, trips);
            let limit = limit.unwrap_or(0);
            let message =
                format!("Maximum confirmation attempts ({limit}) exceeded. Aborting confirmation flow.");
            self.aborts = self.aborts.saturating_add(1);
            let draft =
                self.trip(cx, "confirmation_aborted", TripSeverity::Block, &message).count(count, limit);
            let hand_over = limits.aborts.is_some_and(|most| u64::from(self.aborts) >= most);
            let draft = if hand_over { draft.escalate() } else { draft };
            // An abort counts as a rejection in every mode: the plan is dropped even if nothing is blocked.
            trips.add(limits.mode, draft);
        } else {
            self.advance(PlanInput::Unclear);
            let question = (!self.question.is_empty()).then_some(self.question.as_str());
            self.say(cx, &ConfirmationMessage::AskAgain { question }, heard, trips);
            let message = match limit {
                None if cx.rules > RulesVersion::V1 => {
                    format!("the answer was not understood (attempt {count})")
                }
                limit => format!("the answer was not understood (attempt {count}/{})", limit.unwrap_or(0)),
            };
            let limit = limit.unwrap_or(0);
            let draft =
                self.trip(cx, "confirmation_unclear", TripSeverity::Warn, &message).count(count, limit);
            trips.add(limits.mode, draft);
        }
    }

    /// Handles a user message while a plan is pending. Answers arrive as separate events; any other message is a new
    /// request and must not be taken for an answer to the old question.
    fn on_user_message(&mut self, cx: &GuardContext<'_>, said: &str, trips: &mut Trips) {
        if !self.is_awaiting()
            || said.trim().is_empty()
            || classify_answer(said) != ConfirmationAnswer::Unclear
        {
            return;
        }
        if self.is_expired(cx.now) {
            self.advance(PlanInput::Expired);
            trips.add_effect("plan.expired", "digest", self.digest.clone());
        } else if cx.limits.confirmation.on_new_request == NewRequestAction::Keep {
            let question = (!self.question.is_empty()).then_some(self.question.as_str());
            self.say(cx, &ConfirmationMessage::StillWaiting { question }, Some(said), trips);
            return;
        } else {
            self.advance(PlanInput::NewRequest);
            trips.add_effect("plan.replaced", "digest", self.digest.clone());
            if self.from_calls {
                // The new request may be for the same call, which is then asked about again.
                self.steps.clear();
            }
        }
        self.say(cx, &ConfirmationMessage::Dropped, Some(said), trips);
    }

    pub(super) fn trip(
        &self,
        cx: &GuardContext<'_>,
        reason: &str,
        severity: TripSeverity,
        message: &str,
    ) -> TripBuilder {
        TripBuilder::new("confirmation", reason, severity, message)
            .scope("plan", &self.digest)
            .events(vec![self.asked, cx.seq])
            .actions(&["ask_again", "start_over", "hand_over_to_a_person"])
            .halt_reason(HaltReason::UserStop)
    }

    fn track_steps(&mut self, cx: &GuardContext<'_>, trips: &mut Trips) {
        let Some(call) = &cx.facts.call else { return };
        if cx.rules > RulesVersion::V1 {
            match &cx.event.kind {
                EventKind::ToolRequested { .. } => self.use_approval(cx, call.call),
                EventKind::ToolDenied { by: DeniedBy::Human, .. } => self.withdraw_call(cx, call.call, trips),
                _ => {}
            }
        }
        match &cx.event.kind {
            EventKind::ToolRequested { .. }
                if matches!(self.phase, PlanPhase::Approved | PlanPhase::Executing) =>
            {
                if let Some(at) = self.steps.iter().position(|step| *step == call.call) {
                    self.running.push(self.steps.remove(at));
                    self.advance(PlanInput::Started);
                }
            }
            EventKind::ToolFinished { .. } if self.phase == PlanPhase::Executing => {
                self.running.retain(|step| *step != call.call);
                if self.running.is_empty() && self.steps.is_empty() {
                    self.advance(PlanInput::Finished);
                }
            }
            _ => {}
        }
    }
}

/// The meaning of an answer: its explicit value if present, otherwise its classified text.
fn answer_meaning(said: &str, value: Option<&str>) -> ConfirmationAnswer {
    match value {
        Some("yes") => ConfirmationAnswer::Yes,
        Some("no") => ConfirmationAnswer::No,
        Some("cancel") => ConfirmationAnswer::Cancel,
        Some("change") => ConfirmationAnswer::Change,
        Some("unclear") => ConfirmationAnswer::Unclear,
        _ => classify_answer(said),
    }
}

/// Reply to an approval when nothing is pending.
pub(crate) fn nothing_pending_text(limits: &ConfirmationPolicy, said: &str) -> String {
    let texts = MessageCatalog::new(limits.texts.clone());
    texts.render(&ConfirmationMessage::NothingPending, language_for(limits.language, Some(said)))
}

impl Guard for ConfirmationGuard {
    /// Blocks the steps of a plan that is not approved.
    fn check(&self, cx: &GuardContext<'_>, trips: &mut Trips) {
        let (EventKind::ToolRequested { .. }, Some(call)) = (&cx.event.kind, &cx.facts.call) else { return };
        if cx.rules > RulesVersion::V1 {
            if self.covers(cx, call.call) {
                return;
            }
            if super::approval::requires_approval(cx) {
                return self.require_approval(cx, call, trips);
            }
        }
        let message = match self.phase {
            PlanPhase::Awaiting => cx.rules.wording(
                "the plan that this step belongs to waits for a yes",
                "the plan that this step belongs to is awaiting approval",
            ),
            PlanPhase::Rejected | PlanPhase::Expired | PlanPhase::Aborted => {
                "the plan that this step belongs to was not approved"
            }
            _ => return,
        };
        if cx.limits.confirmation.mode.is_on() && self.steps.contains(&call.call) {
            let draft = self
                .trip(cx, "confirmation_refused", TripSeverity::Block, message)
                .scope("tool", &call.tool)
                .feedback(cx.rules.wording(
                    "This step needs a person's yes, and there is none. Ask for it, or do something else.",
                    "This step needs a person's approval and has none. Ask for approval, or do something else.",
                ));
            trips.add(cx.limits.confirmation.mode, draft);
        }
    }

    /// Requests approval for a call that was blocked for lack of it.
    fn on_denied(&mut self, cx: &GuardContext<'_>, mine: bool) {
        if mine && cx.rules > RulesVersion::V1 {
            self.request_approval(cx);
        }
    }

    /// A user message may request the same steps again, so they are no longer blocked unless the plan is still pending.
    fn on_user_input(&mut self) {
        if !self.is_awaiting() && !matches!(self.phase, PlanPhase::Approved | PlanPhase::Executing) {
            self.steps.clear();
        }
    }

    fn record(&mut self, cx: &GuardContext<'_>, trips: &mut Trips) {
        if !cx.limits.confirmation.mode.is_on() {
            return;
        }
        match &cx.event.kind {
            EventKind::ConfirmationRequested { plan, question, requester, ttl_ms, targets } => {
                let (question, requester) =
                    (question.as_deref().filter(|text| !text.trim().is_empty()), requester.as_deref());
                self.on_request(
                    cx,
                    plan,
                    &ConfirmationRequest { question, requester, ttl_ms: *ttl_ms, targets },
                    trips,
                );
            }
            EventKind::ConfirmationAnswered { text, value, by, digest } => {
                let said = text.as_deref().or(value.as_deref()).unwrap_or("");
                if self.matches_pending_plan(cx, digest.as_deref(), said, trips) {
                    self.on_answer(cx, said, value.as_deref(), by.as_deref(), trips);
                }
            }
            EventKind::UserMessage { text, origin: MessageOrigin::Human } => {
                self.on_user_message(cx, text, trips)
            }
            EventKind::ToolRequested { .. }
            | EventKind::ToolFinished { .. }
            | EventKind::ToolDenied { .. } => {
                self.track_steps(cx, trips);
            }
            _ => {}
        }
    }

    /// Resets the counters; a pending plan stays pending.
    fn reset(&mut self) {
        self.unclear = 0;
        self.aborts = 0;
    }

    const LAYOUT: u16 = 2;

    fn read(layout: u16, bytes: &[u8]) -> postcard::Result<(Self, &[u8])> {
        if layout != 1 {
            return read_layout(layout, Self::LAYOUT, bytes);
        }
        let (((phase, digest, question, requester, expires), rest), left): (ConfirmationLayout1, &[u8]) =
            read_layout(layout, 1, bytes)?;
        let (deletes, unclear, aborts, asked, steps, running) = rest;
        let read = ConfirmationGuard {
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
            ..ConfirmationGuard::default()
        };
        Ok((read, left))
    }
}

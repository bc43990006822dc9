//! Requests of the `confirmation` guard: a plan is opened, replaced or updated, and the person is asked.

use super::GuardContext;
use super::Trips;
use super::confirmation::{ConfirmationGuard, MAX_QUESTION_BYTES};
use crate::bounded_map::truncate_bytes;
use crate::confirm::{ConfirmationMessage, MessageCatalog, PlanInput, PlanPhase, language_for, plan_digest};
use crate::event::{PlanStep, call_identity};
use crate::limits::{MAX_PLAN_BYTES, PLAN_STEPS};
use crate::rules_version::RulesVersion;
use serde_json::Value;

/// Maximum number of plan steps tracked under version 1 of the rules.
const MAX_STEPS: usize = 32;

/// The parts of a confirmation request.
pub(super) struct ConfirmationRequest<'a> {
    pub(super) question: Option<&'a str>,
    pub(super) requester: Option<&'a str>,
    pub(super) ttl_ms: Option<u64>,
    pub(super) targets: &'a [Value],
}

impl ConfirmationGuard {
    pub(super) fn on_request(
        &mut self,
        cx: &GuardContext<'_>,
        plan: &[PlanStep],
        asked: &ConfirmationRequest<'_>,
        trips: &mut Trips,
    ) {
        let digest = plan_digest(plan);
        if self.needs_no_question(cx, plan, &digest) {
            return;
        }
        // The same plan, requested again in other words or after one of its calls was blocked: nothing is dropped.
        let same = cx.rules > RulesVersion::V1
            && self.is_awaiting()
            && self.digest == digest
            && !self.is_expired(cx.now);
        if self.is_awaiting() && !same {
            let effect = if self.is_expired(cx.now) { "plan.expired" } else { "plan.replaced" };
            trips.add_effect(effect, "digest", self.digest.clone());
            self.say(cx, &ConfirmationMessage::Replaced, asked.question, trips);
        }
        let question = match asked.question {
            None if same => std::mem::take(&mut self.question),
            question => truncate_bytes(question.unwrap_or(""), MAX_QUESTION_BYTES).to_owned(),
        };
        let requester = asked.requester.map(str::to_owned);
        self.requester = if same { requester.or_else(|| self.requester.take()) } else { requester };
        self.open_plan(cx, plan, same);
        self.question = question;
        let ttl = asked.ttl_ms.or(cx.limits.confirmation.ttl_ms);
        self.expires = ttl.filter(|_| cx.has_time).map(|ttl| cx.now.saturating_add(ttl));
        if self.question.is_empty() {
            let names: Vec<String> = asked.targets.iter().map(target_name).collect();
            let question = question_text(cx, &names, plan.len(), self.deletes);
            self.question = truncate_bytes(&question, MAX_QUESTION_BYTES).to_owned();
            trips.say(question);
        }
    }

    /// Replaces the current plan, or updates it if it is the `same` one.
    pub(super) fn open_plan(&mut self, cx: &GuardContext<'_>, plan: &[PlanStep], same: bool) {
        self.advance(PlanInput::Requested);
        self.digest = plan_digest(plan);
        self.deletes = plan.iter().any(|step| is_deletion(&step.tool));
        self.asked = cx.seq;
        let followed = if cx.rules > RulesVersion::V1 { PLAN_STEPS } else { MAX_STEPS };
        self.steps =
            plan.iter().take(followed).map(|step| call_identity(&step.tool, &step.args).call).collect();
        if !same {
            self.unclear = 0;
            self.requesters.clear();
            self.running.clear();
        }
        if cx.rules > RulesVersion::V1 {
            self.plan = serde_json::to_string(plan)
                .ok()
                .filter(|text| text.len() <= MAX_PLAN_BYTES)
                .unwrap_or_default();
            self.from_calls = false;
            self.record_asker(cx.seq);
            self.trim_approvals();
        }
    }

    /// Whether a plan needs no question because it was just approved.
    fn needs_no_question(&self, cx: &GuardContext<'_>, plan: &[PlanStep], digest: &str) -> bool {
        if cx.rules > RulesVersion::V1 {
            return self.covers_plan(cx, plan);
        }
        matches!(self.phase, PlanPhase::Approved | PlanPhase::Executing)
            && self.digest == digest
            && !digest.is_empty()
    }
}

/// Default question for a plan without one.
pub(super) fn question_text(
    cx: &GuardContext<'_>,
    targets: &[String],
    steps: usize,
    deletes: bool,
) -> String {
    let limits = &cx.limits.confirmation;
    let texts = MessageCatalog::new(limits.texts.clone());
    texts.render(&ConfirmationMessage::Ask { targets, steps, deletes }, language_for(limits.language, None))
}

fn target_name(value: &Value) -> String {
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    super::validation::strip_control_chars(&text, 80)
}

pub(super) fn is_deletion(tool: &str) -> bool {
    let tool = tool.to_lowercase();
    ["delete", "remove", "drop", "destroy", "purge", "wipe", "erase"].iter().any(|verb| tool.contains(verb))
}

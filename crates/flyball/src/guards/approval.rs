//! Approvals of the `confirmation` guard: a tool that the policy declares destructive requires a single-use approval.
//!
//! Approving a plan approves each of its steps (the tool with its canonical arguments) once. A destructive call without
//! an approval is blocked (`approval_required`) and becomes the pending plan that a person is asked about. Further
//! calls that are blocked meanwhile join it, so that one question covers the calls of one response. Unused approvals
//! expire when the policy's `ttl` passes without one being used, and a rejection revokes them. Only the policy declares
//! tools destructive; nothing is inferred from a tool's name.

use super::confirmation::ConfirmationGuard;
use super::plan_request::{is_deletion, question_text};
use super::{GuardContext, Trips};
use crate::bounded_map::truncate_bytes;
use crate::call_ledger::CallFacts;
use crate::confirm::{ConfirmationAnswer, PlanInput, PlanPhase, plan_digest};
use crate::decision::TripSeverity;
use crate::event::{EventKind, PlanStep, call_identity, canonical_json};
use crate::fingerprint::Fingerprint;
use crate::limits::{MAX_PLAN_BYTES, MAX_PLAN_REQUESTERS, PLAN_STEPS};
use crate::policy::{Policy, ToolEffect};
use crate::rules_version::RulesVersion;
use crate::state::SessionState;
use serde_json::{Value, json};

/// Field of a `tool.requested` that names the host in whose dialog a person approved exactly this call.
pub const APPROVED_BY: &str = "approved_by";
/// Maximum length of a call's arguments in a question, in bytes.
const MAX_ARGS_BYTES: usize = 80;

/// Relation of a blocked call to the pending plan.
enum CallPlanRelation {
    /// Nothing is pending: the call becomes a new plan.
    OpensPlan,
    /// It joins the pending calls.
    JoinsPlan,
    /// It is already pending.
    AlreadyPending,
    /// A plan that it does not belong to is pending.
    BehindOtherPlan,
    /// A person was asked and did not approve it.
    Denied,
}

/// Whether the policy declares the requested tool destructive.
pub(super) fn requires_approval(cx: &GuardContext<'_>) -> bool {
    matches!(&cx.event.kind, EventKind::ToolRequested { tool, .. }
        if cx.policy.tool_effect(tool) == Some(ToolEffect::Destructive))
}

/// Whether a person approved the call in the host's dialog.
fn was_approved_by_host(cx: &GuardContext<'_>) -> bool {
    cx.event.extra.get(APPROVED_BY).is_some_and(Value::is_string)
}

/// Removes the approval that covers a step from `left`; returns whether there was one.
fn take_matching_approval(left: &mut Vec<Fingerprint>, step: &PlanStep) -> bool {
    let call = call_identity(&step.tool, &step.args).call;
    left.iter().position(|known| *known == call).map(|at| left.swap_remove(at)).is_some()
}

impl ConfirmationGuard {
    /// Approvals that are unused and not expired.
    pub(crate) fn unused_approvals(&self, now: u64) -> &[Fingerprint] {
        if self.approved_until.is_some_and(|until| now >= until) { &[] } else { &self.approved }
    }

    /// Whether an approval covers a call.
    pub(super) fn covers(&self, cx: &GuardContext<'_>, call: Fingerprint) -> bool {
        was_approved_by_host(cx) || self.unused_approvals(cx.now).contains(&call)
    }

    /// Whether unused approvals cover each step of a plan.
    pub(super) fn covers_plan(&self, cx: &GuardContext<'_>, plan: &[PlanStep]) -> bool {
        let mut left = self.unused_approvals(cx.now).to_vec();
        !plan.is_empty() && plan.iter().all(|step| take_matching_approval(&mut left, step))
    }

    /// Approves each step of the plan, once.
    pub(super) fn approve_plan(&mut self, cx: &GuardContext<'_>) {
        if self.unused_approvals(cx.now).is_empty() {
            self.approved.clear();
        }
        self.approved.extend_from_slice(&self.steps);
        self.trim_approvals();
        self.extend_approvals(cx);
    }

    fn extend_approvals(&mut self, cx: &GuardContext<'_>) {
        let ttl = cx.limits.confirmation.ttl_ms.filter(|_| cx.has_time);
        self.approved_until = ttl.map(|ttl| cx.now.saturating_add(ttl));
    }

    /// Keeps the plan steps and approvals within their bound. The oldest approvals are dropped; the calls they covered
    /// need approval again.
    pub(super) fn trim_approvals(&mut self) {
        let waiting = if self.is_awaiting() { self.steps.len() } else { 0 };
        let surplus = (self.approved.len() + waiting).saturating_sub(PLAN_STEPS).min(self.approved.len());
        self.approved.drain(..surplus);
    }

    /// Records that an event requested the plan or one of its steps.
    pub(super) fn record_asker(&mut self, seq: u64) {
        if self.requesters.len() < MAX_PLAN_REQUESTERS && !self.requesters.contains(&seq) {
            self.requesters.push(seq);
        }
    }

    /// The plan as reported with an approval: the requested steps, and the event that requested them.
    pub(super) fn plan_fields(&self) -> [(String, Value); 2] {
        let plan: Value = serde_json::from_str(&self.plan).unwrap_or_default();
        [("plan".to_owned(), plan), ("asked".to_owned(), json!(self.asked))]
    }

    /// Whether an answer revokes unused approvals.
    pub(super) fn can_revoke(&self, cx: &GuardContext<'_>, answer: ConfirmationAnswer) -> bool {
        let refuses = matches!(answer, ConfirmationAnswer::No | ConfirmationAnswer::Cancel);
        cx.rules > RulesVersion::V1 && refuses && !self.unused_approvals(cx.now).is_empty()
    }

    /// Revokes all unused approvals.
    pub(super) fn revoke(&mut self) {
        // Revoked steps stay blocked until the person speaks again, like rejected ones.
        if self.advance(PlanInput::No) {
            self.steps.clone_from(&self.approved);
        }
        self.approved.clear();
        self.approved_until = None;
    }

    /// Consumes the approval that covers an accepted call.
    pub(super) fn use_approval(&mut self, cx: &GuardContext<'_>, call: Fingerprint) {
        if let Some(at) = self.unused_approvals(cx.now).iter().position(|known| *known == call) {
            self.approved.remove(at);
            self.extend_approvals(cx);
        } else if was_approved_by_host(cx) && self.is_pending_call(call) {
            if self.steps.len() == 1 {
                self.advance(PlanInput::Yes);
            } else {
                self.remove_pending_call(cx, call);
            }
        }
    }

    /// Removes a call that a person denied in the host's dialog from the pending plan.
    pub(super) fn withdraw_call(&mut self, cx: &GuardContext<'_>, call: Fingerprint, trips: &mut Trips) {
        if !self.is_pending_call(call) {
            return;
        }
        if self.steps.len() == 1 {
            self.advance(PlanInput::No);
            trips.add_effect("plan.rejected", "digest", self.digest.clone());
        } else {
            self.remove_pending_call(cx, call);
        }
    }

    fn is_pending_call(&self, call: Fingerprint) -> bool {
        self.is_awaiting() && self.from_calls && self.steps.contains(&call)
    }

    /// Removes one call from the pending calls.
    fn remove_pending_call(&mut self, cx: &GuardContext<'_>, call: Fingerprint) {
        let mut plan = self.pending_calls();
        plan.retain(|step| call_identity(&step.tool, &step.args).call != call);
        self.open_plan_of_calls(cx, &plan, true);
    }

    /// The pending calls; empty if the plan does not consist of calls or is too long to store.
    fn pending_calls(&self) -> Vec<PlanStep> {
        if !self.is_awaiting() || !self.from_calls {
            return Vec::new();
        }
        serde_json::from_str(&self.plan).unwrap_or_default()
    }

    /// The pending calls plus this one.
    fn pending_calls_with(&self, cx: &GuardContext<'_>) -> Vec<PlanStep> {
        let EventKind::ToolRequested { tool, args, .. } = &cx.event.kind else { return Vec::new() };
        let mut plan = if self.is_expired(cx.now) { Vec::new() } else { self.pending_calls() };
        plan.push(PlanStep { tool: tool.clone(), args: args.clone() });
        plan
    }

    fn call_plan_relation(&self, cx: &GuardContext<'_>, call: Fingerprint) -> CallPlanRelation {
        if self.is_awaiting() && !self.is_expired(cx.now) {
            let joins = || {
                let plan = self.pending_calls_with(cx);
                let fits = serde_json::to_string(&plan).is_ok_and(|text| text.len() <= MAX_PLAN_BYTES);
                plan.len() > 1
                    && plan.len() <= PLAN_STEPS
                    && fits
                    && self.requesters.len() < MAX_PLAN_REQUESTERS
            };
            return match self.steps.contains(&call) {
                true => CallPlanRelation::AlreadyPending,
                false if joins() => CallPlanRelation::JoinsPlan,
                false => CallPlanRelation::BehindOtherPlan,
            };
        }
        let refused =
            matches!(self.phase, PlanPhase::Rejected | PlanPhase::Aborted) && self.steps.contains(&call);
        if refused { CallPlanRelation::Denied } else { CallPlanRelation::OpensPlan }
    }

    /// Blocks a destructive call without an approval and emits the question for a person.
    pub(super) fn require_approval(&self, cx: &GuardContext<'_>, call: &CallFacts, trips: &mut Trips) {
        let limits = &cx.limits.confirmation;
        let tool = cx.safe_name(&call.tool);
        let relation = self.call_plan_relation(cx, call.call);
        let mut digest = self.digest.clone();
        if let CallPlanRelation::OpensPlan | CallPlanRelation::JoinsPlan = relation {
            if self.is_awaiting() && self.is_expired(cx.now) {
                trips.add_effect("plan.expired", "digest", self.digest.clone());
            }
            let plan = self.pending_calls_with(cx);
            digest = plan_digest(&plan);
            trips.say(approval_question(cx, &plan));
        }
        let message = format!("'{tool}' is declared destructive, and no approval covers this call");
        let next_step = match relation {
            CallPlanRelation::OpensPlan | CallPlanRelation::JoinsPlan => {
                "The question is pending. Once approved, repeat the identical call: it runs once."
            }
            CallPlanRelation::AlreadyPending => {
                "The question is already pending. Wait for the answer; once approved, the identical call runs once."
            }
            CallPlanRelation::BehindOtherPlan => {
                "Another plan is awaiting approval. Ask for this call once that plan has been answered."
            }
            CallPlanRelation::Denied => {
                "A person was asked and did not approve it. Do not repeat it unless they ask for it."
            }
        };
        let feedback = format!(
            "Approval required: '{tool}' is declared destructive. Ask a person: \"May '{tool}' run with exactly these \
             arguments?\" (`confirmation.requested` with this call as its plan). {next_step}"
        );
        let mut draft = self
            .trip(cx, "approval_required", TripSeverity::Block, &message)
            .scope("tool", &call.tool)
            .actions(&["ask_for_approval"])
            .feedback(feedback);
        if matches!(relation, CallPlanRelation::BehindOtherPlan | CallPlanRelation::Denied)
            || digest.is_empty()
        {
            draft.trip.scope.remove("plan");
        } else {
            draft = draft.scope("plan", digest);
        }
        let asked = if self.is_awaiting() { vec![self.asked, cx.seq] } else { vec![cx.seq] };
        trips.add(limits.mode, draft.events(asked));
    }

    /// Adds a call that was just blocked to the pending question.
    pub(super) fn request_approval(&mut self, cx: &GuardContext<'_>) {
        let Some(call) = &cx.facts.call else { return };
        if !requires_approval(cx) || self.covers(cx, call.call) {
            return;
        }
        match self.call_plan_relation(cx, call.call) {
            CallPlanRelation::OpensPlan => {
                if self.is_awaiting() {
                    self.advance(PlanInput::Expired);
                }
                let plan = self.pending_calls_with(cx);
                self.open_plan_of_calls(cx, &plan, false);
            }
            CallPlanRelation::JoinsPlan => {
                let plan = self.pending_calls_with(cx);
                self.open_plan_of_calls(cx, &plan, true);
            }
            CallPlanRelation::AlreadyPending
            | CallPlanRelation::BehindOtherPlan
            | CallPlanRelation::Denied => {}
        }
    }

    fn open_plan_of_calls(&mut self, cx: &GuardContext<'_>, plan: &[PlanStep], same: bool) {
        if !same {
            self.requester = None;
            self.expires =
                cx.limits.confirmation.ttl_ms.filter(|_| cx.has_time).map(|ttl| cx.now.saturating_add(ttl));
        }
        self.open_plan(cx, plan, same);
        self.from_calls = true;
        self.question =
            truncate_bytes(&approval_question(cx, plan), super::confirmation::MAX_QUESTION_BYTES).to_owned();
    }
}

impl SessionState {
    /// Indexes of the calls that the policy declares destructive and that no unused approval covers at `now`, in
    /// milliseconds since 1970. Consumes nothing. Version 1 of the rules requires no approvals.
    #[must_use]
    pub fn unapproved_calls(&self, policy: &Policy, calls: &[PlanStep], now: u64) -> Vec<usize> {
        if self.rules_version() == RulesVersion::V1 || !policy.guards.confirmation.mode.is_on() {
            return Vec::new();
        }
        let mut left = self.guards.confirmation.unused_approvals(now.max(self.now)).to_vec();
        let needed = |step: &PlanStep| policy.tool_effect(&step.tool) == Some(ToolEffect::Destructive);
        let mut lacks = |step: &PlanStep| needed(step) && !take_matching_approval(&mut left, step);
        calls.iter().enumerate().filter(|(_, step)| lacks(step)).map(|(at, _)| at).collect()
    }
}

/// The approval question for a list of calls.
fn approval_question(cx: &GuardContext<'_>, plan: &[PlanStep]) -> String {
    let shown = |step: &PlanStep| match &step.args {
        Value::Null => step.tool.clone(),
        args => format!("{} {}", step.tool, truncate_bytes(&canonical_json(args), MAX_ARGS_BYTES)),
    };
    let calls: Vec<String> = plan.iter().map(shown).collect();
    question_text(cx, &calls, plan.len(), plan.iter().all(|step| is_deletion(&step.tool)))
}

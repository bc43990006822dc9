//! Approvals of the `confirmation` guard: a tool that the policy declares destructive runs on an approval alone, and an
//! approval is used once.
//!
//! A yes to a plan approves each of its steps (the tool with its canonical arguments) once. A destructive call that no
//! approval covers is blocked (`approval_required`), and the block puts the question to a person: the call becomes the
//! plan that waits. Further calls that are blocked meanwhile join it, so that a person is asked once about the calls of
//! one answer. Unused approvals lapse when the policy's `ttl` has passed without one being used, and a no takes them
//! back. What the policy declares counts; nothing is guessed from a tool's name.

use super::confirmation::{Confirmation, ask_text, deletes};
use super::{Cx, Trips};
use crate::confirm::{Answer, Input, Phase, plan_digest};
use crate::decision::Severity;
use crate::event::{Kind, PlanStep, canonical_json, identity};
use crate::fingerprint::Fingerprint;
use crate::ledger::CallFacts;
use crate::limits::{PLAN_ASKERS, PLAN_BYTES, PLAN_STEPS};
use crate::policy::{Effect, Policy};
use crate::rules_version::RulesVersion;
use crate::state::State;
use crate::window::cut;
use serde_json::{Value, json};

/// The field of a `tool.requested` that names the host whose own dialog a person has agreed in, to this very call.
pub const APPROVED_BY: &str = "approved_by";
/// The longest part of a call's arguments that a question shows, in bytes.
const SHOWN_ARGS_BYTES: usize = 80;

/// What a blocked call is to the plan that waits.
enum Standing {
    /// Nothing waits: it becomes a plan of its own.
    Opens,
    /// It joins the calls that wait.
    Joins,
    /// It waits already.
    Waits,
    /// A plan waits that it does not belong to.
    Behind,
    /// A person was asked about it, and did not approve it.
    Refused,
}

/// Whether the policy declares the tool of a request destructive.
pub(super) fn is_needed(cx: &Cx<'_>) -> bool {
    matches!(&cx.event.kind, Kind::ToolRequested { tool, .. }
        if cx.policy.effect_of(tool) == Some(Effect::Destructive))
}

/// Whether a person has agreed to the call in a dialog of the host.
fn was_approved_by_host(cx: &Cx<'_>) -> bool {
    cx.event.extra.get(APPROVED_BY).is_some_and(Value::is_string)
}

/// Takes the approval that covers a step out of those that are left; says whether there was one.
fn take_covering(left: &mut Vec<Fingerprint>, step: &PlanStep) -> bool {
    let call = identity(&step.tool, &step.args).call;
    left.iter().position(|known| *known == call).map(|at| left.swap_remove(at)).is_some()
}

impl Confirmation {
    /// Approvals that were not used yet.
    pub(crate) fn unused(&self, now: u64) -> &[Fingerprint] {
        if self.approved_until.is_some_and(|until| now >= until) { &[] } else { &self.approved }
    }

    /// Whether an approval covers a call.
    pub(super) fn covers(&self, cx: &Cx<'_>, call: Fingerprint) -> bool {
        was_approved_by_host(cx) || self.unused(cx.now).contains(&call)
    }

    /// Whether unused approvals cover each step of a plan.
    pub(super) fn covers_plan(&self, cx: &Cx<'_>, plan: &[PlanStep]) -> bool {
        let mut left = self.unused(cx.now).to_vec();
        !plan.is_empty() && plan.iter().all(|step| take_covering(&mut left, step))
    }

    /// Approves each step of the plan, once.
    pub(super) fn grant(&mut self, cx: &Cx<'_>) {
        if self.unused(cx.now).is_empty() {
            self.approved.clear();
        }
        self.approved.extend_from_slice(&self.steps);
        self.make_room();
        self.extend_approvals(cx);
    }

    fn extend_approvals(&mut self, cx: &Cx<'_>) {
        let ttl = cx.limits.confirmation.ttl_ms.filter(|_| cx.timed);
        self.approved_until = ttl.map(|ttl| cx.now.saturating_add(ttl));
    }

    /// Keeps the steps of the plan and the approvals within their bound; the oldest approvals give way, and what they
    /// covered is asked about again.
    pub(super) fn make_room(&mut self) {
        let waiting = if self.awaits() { self.steps.len() } else { 0 };
        let surplus = (self.approved.len() + waiting).saturating_sub(PLAN_STEPS).min(self.approved.len());
        self.approved.drain(..surplus);
    }

    /// Notes that an event asked for the plan or a step of it.
    pub(super) fn asked_by(&mut self, seq: u64) {
        if self.askers.len() < PLAN_ASKERS && !self.askers.contains(&seq) {
            self.askers.push(seq);
        }
    }

    /// The plan as an approval carries it: the steps as they were asked for, or where they stand.
    pub(super) fn plan_fields(&self) -> [(String, Value); 2] {
        let plan: Value = serde_json::from_str(&self.plan).unwrap_or_default();
        [("plan".to_owned(), plan), ("asked".to_owned(), json!(self.asked))]
    }

    /// Whether an answer takes back what was approved and not used.
    pub(super) fn can_revoke(&self, cx: &Cx<'_>, answer: Answer) -> bool {
        let refuses = matches!(answer, Answer::No | Answer::Cancel);
        cx.rules > RulesVersion::V1 && refuses && !self.unused(cx.now).is_empty()
    }

    /// Takes back every approval that was not used.
    pub(super) fn revoke(&mut self) {
        // What a person takes back is refused until they speak again, as what they refuse at once.
        if self.go(Input::No) {
            self.steps.clone_from(&self.approved);
        }
        self.approved.clear();
        self.approved_until = None;
    }

    /// A call was accepted: the approval that covers it is used up.
    pub(super) fn use_approval(&mut self, cx: &Cx<'_>, call: Fingerprint) {
        if let Some(at) = self.unused(cx.now).iter().position(|known| *known == call) {
            self.approved.remove(at);
            self.extend_approvals(cx);
        } else if was_approved_by_host(cx) && self.is_waiting_call(call) {
            if self.steps.len() == 1 {
                self.go(Input::Yes);
            } else {
                self.drop_step(cx, call);
            }
        }
    }

    /// A person refused a call in a dialog of the host: nobody needs to be asked about it any more.
    pub(super) fn withdraw_call(&mut self, cx: &Cx<'_>, call: Fingerprint, trips: &mut Trips) {
        if !self.is_waiting_call(call) {
            return;
        }
        if self.steps.len() == 1 {
            self.go(Input::No);
            trips.effect("plan.rejected", "digest", self.digest.clone());
        } else {
            self.drop_step(cx, call);
        }
    }

    fn is_waiting_call(&self, call: Fingerprint) -> bool {
        self.awaits() && self.from_calls && self.steps.contains(&call)
    }

    /// Takes one call out of those that wait.
    fn drop_step(&mut self, cx: &Cx<'_>, call: Fingerprint) {
        let mut plan = self.waiting_calls();
        plan.retain(|step| identity(&step.tool, &step.args).call != call);
        self.put_calls(cx, &plan, true);
    }

    /// The calls that wait; none if the plan is not made of calls, or is too long to be kept.
    fn waiting_calls(&self) -> Vec<PlanStep> {
        if !self.awaits() || !self.from_calls {
            return Vec::new();
        }
        serde_json::from_str(&self.plan).unwrap_or_default()
    }

    /// The calls that a person is asked about if this one is added to them.
    fn with_call(&self, cx: &Cx<'_>) -> Vec<PlanStep> {
        let Kind::ToolRequested { tool, args, .. } = &cx.event.kind else { return Vec::new() };
        let mut plan = if self.late(cx.now) { Vec::new() } else { self.waiting_calls() };
        plan.push(PlanStep { tool: tool.clone(), args: args.clone() });
        plan
    }

    fn standing(&self, cx: &Cx<'_>, call: Fingerprint) -> Standing {
        if self.awaits() && !self.late(cx.now) {
            let joins = || {
                let plan = self.with_call(cx);
                let fits = serde_json::to_string(&plan).is_ok_and(|text| text.len() <= PLAN_BYTES);
                plan.len() > 1 && plan.len() <= PLAN_STEPS && fits && self.askers.len() < PLAN_ASKERS
            };
            return match self.steps.contains(&call) {
                true => Standing::Waits,
                false if joins() => Standing::Joins,
                false => Standing::Behind,
            };
        }
        let refused = matches!(self.phase, Phase::Rejected | Phase::Aborted) && self.steps.contains(&call);
        if refused { Standing::Refused } else { Standing::Opens }
    }

    /// Blocks a destructive call that no approval covers, and says what a person is asked.
    pub(super) fn require_approval(&self, cx: &Cx<'_>, call: &CallFacts, trips: &mut Trips) {
        let limits = &cx.limits.confirmation;
        let tool = cx.label(&call.tool);
        let standing = self.standing(cx, call.call);
        let mut digest = self.digest.clone();
        if let Standing::Opens | Standing::Joins = standing {
            if self.awaits() && self.late(cx.now) {
                trips.effect("plan.expired", "digest", self.digest.clone());
            }
            let plan = self.with_call(cx);
            digest = plan_digest(&plan);
            trips.say(question(cx, &plan));
        }
        let message = format!("'{tool}' is declared destructive, and no approval covers this call");
        let what_to_do = match standing {
            Standing::Opens | Standing::Joins => {
                "The question is pending. After a yes, repeat the identical call: it runs once."
            }
            Standing::Waits => {
                "The question is already pending. Wait for the answer; after a yes, the identical call runs once."
            }
            Standing::Behind => {
                "Another plan is awaiting approval. Ask for this call when that plan is answered."
            }
            Standing::Refused => {
                "A person was asked and did not approve it. Do not repeat it unless they ask for it."
            }
        };
        let feedback = format!(
            "Approval required: '{tool}' is declared destructive. Ask a person: \"May '{tool}' run with exactly these \
             arguments?\" (`confirmation.requested` with this call as its plan). {what_to_do}"
        );
        let mut draft = self
            .draft(cx, "approval_required", Severity::Block, &message)
            .scope("tool", &call.tool)
            .actions(&["ask_for_approval"])
            .feedback(feedback);
        if matches!(standing, Standing::Behind | Standing::Refused) || digest.is_empty() {
            draft.trip.scope.remove("plan");
        } else {
            draft = draft.scope("plan", digest);
        }
        let asked = if self.awaits() { vec![self.asked, cx.seq] } else { vec![cx.seq] };
        trips.add(limits.mode, draft.events(asked));
    }

    /// Puts the question about a call that was just blocked.
    pub(super) fn ask_about_call(&mut self, cx: &Cx<'_>) {
        let Some(call) = &cx.facts.call else { return };
        if !is_needed(cx) || self.covers(cx, call.call) {
            return;
        }
        match self.standing(cx, call.call) {
            Standing::Opens => {
                if self.awaits() {
                    self.go(Input::Late);
                }
                let plan = self.with_call(cx);
                self.put_calls(cx, &plan, false);
            }
            Standing::Joins => {
                let plan = self.with_call(cx);
                self.put_calls(cx, &plan, true);
            }
            Standing::Waits | Standing::Behind | Standing::Refused => {}
        }
    }

    fn put_calls(&mut self, cx: &Cx<'_>, plan: &[PlanStep], same: bool) {
        if !same {
            self.requester = None;
            self.expires =
                cx.limits.confirmation.ttl_ms.filter(|_| cx.timed).map(|ttl| cx.now.saturating_add(ttl));
        }
        self.open(cx, plan, same);
        self.from_calls = true;
        self.question = cut(&question(cx, plan), super::confirmation::QUESTION_BYTES).to_owned();
    }
}

impl State {
    /// The places of those calls that the policy declares destructive and no unused approval covers, at a time in
    /// milliseconds since 1970. Nothing is used up. Version 1 of the rules requires no approvals.
    #[must_use]
    pub fn unapproved(&self, policy: &Policy, calls: &[PlanStep], now: u64) -> Vec<usize> {
        if self.rules_version() == RulesVersion::V1 || !policy.guards.confirmation.mode.is_on() {
            return Vec::new();
        }
        let mut left = self.watch.confirmation.unused(now.max(self.now)).to_vec();
        let needed = |step: &PlanStep| policy.effect_of(&step.tool) == Some(Effect::Destructive);
        let mut lacks = |step: &PlanStep| needed(step) && !take_covering(&mut left, step);
        calls.iter().enumerate().filter(|(_, step)| lacks(step)).map(|(at, _)| at).collect()
    }
}

/// The question about some calls, for a person.
fn question(cx: &Cx<'_>, plan: &[PlanStep]) -> String {
    let shown = |step: &PlanStep| match &step.args {
        Value::Null => step.tool.clone(),
        args => format!("{} {}", step.tool, cut(&canonical_json(args), SHOWN_ARGS_BYTES)),
    };
    let calls: Vec<String> = plan.iter().map(shown).collect();
    ask_text(cx, &calls, plan.len(), plan.iter().all(|step| deletes(&step.tool)))
}

//! Tools that the policy declares destructive require a single-use approval.

#![allow(clippy::unwrap_used, reason = "a test may panic on missing data")]

use flyball::policy::{PolicyFormat, parse};
use flyball::{Decision, Event, PolicySource, Preset, SessionPhase, SessionState, Sessions, Verdict};
use serde_json::{Value, json};

const POLICY: &str = "tools: {delete_task: {effect: destructive}, wipe: {effect: destructive}}";

/// One session under a policy. Before every event its state is encoded and decoded.
struct ApprovalSession {
    sessions: Sessions,
    source: PolicySource,
    at: u64,
}

impl ApprovalSession {
    fn new() -> Self {
        ApprovalSession::with_policy(POLICY)
    }

    fn with_policy(policy: &str) -> Self {
        let source =
            PolicySource::new(vec![parse(policy, PolicyFormat::Yaml, "test").unwrap()], Preset::Agent);
        let source = source.unwrap();
        ApprovalSession { sessions: Sessions::new(source.clone()), source, at: 1_760_000_000_000 }
    }

    fn send(&mut self, mut event: Value) -> Decision {
        self.at += 1_000;
        event["at"] = json!(self.at);
        let event = Event::from_json(&event.to_string()).unwrap();
        let decision = self.sessions.step(&event).unwrap();
        let stored = self.sessions.get("default").unwrap().state().encode().unwrap();
        let read = flyball::Session::resume(&self.source, SessionState::decode(&stored).unwrap()).unwrap();
        assert_eq!(read.state(), self.sessions.get("default").unwrap().state());
        self.sessions.insert("default", read);
        decision
    }

    fn call(&mut self, tool: &str, id: &str) -> Decision {
        self.send(json!({"type": "tool.requested", "tool": tool, "args": {"id": id}}))
    }

    fn delete(&mut self, id: &str) -> Decision {
        self.call("delete_task", id)
    }

    fn ask(&mut self, ids: &[&str]) -> Decision {
        let plan: Vec<Value> =
            ids.iter().map(|id| json!({"tool": "delete_task", "args": {"id": id}})).collect();
        self.send(json!({"type": "confirmation.requested", "plan": plan, "question": "Delete them?"}))
    }

    fn answer(&mut self, text: &str) -> Decision {
        self.send(json!({"type": "confirmation.answered", "text": text}))
    }

    fn state(&self) -> &SessionState {
        self.sessions.get("default").unwrap().state()
    }
}

fn reason(decision: &Decision) -> &str {
    decision.trips.first().map_or("", |trip| trip.reason.as_str())
}

fn find_effect<'d>(decision: &'d Decision, name: &str) -> Option<&'d flyball::Effect> {
    decision.effects.iter().find(|effect| effect.effect == name)
}

#[test]
fn destructive_call_without_an_approval_is_blocked_with_the_question_to_ask() {
    let mut chat = ApprovalSession::new();
    let blocked = chat.delete("t1");
    assert_eq!((blocked.decision, reason(&blocked)), (Verdict::Block, "approval_required"));
    assert_eq!(blocked.state, SessionPhase::AwaitingConfirmation);
    let feedback = blocked.feedback.as_deref().unwrap();
    assert!(feedback.contains("Ask a person: \"May 'delete_task' run"), "{feedback}");
    assert!(feedback.contains("`confirmation.requested`") && feedback.chars().count() <= 600, "{feedback}");
    let asked = find_effect(&blocked, "say").unwrap().fields["text"].as_str().unwrap().to_owned();
    assert!(asked.starts_with("Confirm the deletion: delete_task") && asked.contains("t1"), "{asked}");
    let waiting = chat.state().pending_plan().unwrap();
    assert_eq!((waiting.question, waiting.request_seq), (asked.as_str(), blocked.seq));
    assert_eq!(blocked.trips[0].scope["plan"], waiting.digest);
    assert_eq!(waiting.plan, Some(r#"[{"tool":"delete_task","args":{"id":"t1"}}]"#));
    // All other tools run meanwhile.
    assert_eq!(chat.call("list_tasks", "t1").decision, Verdict::Allow);
}

#[test]
fn an_approval_covers_each_step_of_its_plan_once() {
    let mut chat = ApprovalSession::new();
    assert_eq!(chat.ask(&["t1", "t2"]).state, SessionPhase::AwaitingConfirmation);
    assert_eq!(reason(&chat.delete("t1")), "approval_required", "not before approval");
    let yes = chat.answer("yes");
    let approved = find_effect(&yes, "plan.approved").unwrap();
    let plan =
        json!([{"tool": "delete_task", "args": {"id": "t1"}}, {"tool": "delete_task", "args": {"id": "t2"}}]);
    assert_eq!(approved.fields["plan"], plan);
    assert_eq!(chat.delete("t3").decision, Verdict::Block, "a different call is not covered");
    // The order of the steps and of the keys does not matter; the arguments do.
    assert_eq!(chat.delete("t2").decision, Verdict::Allow);
    assert_eq!(chat.delete("t1").decision, Verdict::Allow);
    for again in ["t1", "t2"] {
        let blocked = chat.delete(again);
        assert_eq!((blocked.decision, reason(&blocked)), (Verdict::Block, "approval_required"), "{again}");
    }
}

#[test]
fn approved_blocked_call_runs_once_when_repeated() {
    let mut chat = ApprovalSession::new();
    chat.delete("t1");
    assert!(find_effect(&chat.answer("yes"), "plan.approved").is_some());
    assert_eq!(chat.delete("t1").decision, Verdict::Allow);
    assert_eq!(reason(&chat.delete("t1")), "approval_required");
}

#[test]
fn calls_blocked_together_share_one_question() {
    let mut chat = ApprovalSession::new();
    let first = chat.delete("t1");
    chat.delete("t2");
    let last = chat.call("wipe", "disk");
    assert_ne!(first.trips[0].scope["plan"], last.trips[0].scope["plan"]);
    // A call that is already pending is asked about once.
    assert!(find_effect(&chat.delete("t2"), "say").is_none());
    let asked = find_effect(&last, "say").unwrap().fields["text"].as_str().unwrap();
    assert!(["t1", "t2", "disk"].iter().all(|id| asked.contains(id)), "{asked}");
    assert_eq!(chat.state().pending_plan().unwrap().requesters, [1, 2, 3]);
    // Approving only the first question does not approve all three.
    let digest = &first.trips[0].scope["plan"];
    let early = chat.send(json!({"type": "confirmation.answered", "value": "yes", "digest": digest}));
    assert_eq!((early.decision, reason(&early)), (Verdict::Block, "confirmation_refused"));
    chat.answer("yes");
    for (tool, id) in [("wipe", "disk"), ("delete_task", "t1"), ("delete_task", "t2")] {
        assert_eq!(chat.call(tool, id).decision, Verdict::Allow);
        assert_eq!(chat.call(tool, id).decision, Verdict::Block);
    }
}

#[test]
fn client_may_word_the_question_about_a_blocked_call() {
    let mut chat = ApprovalSession::new();
    chat.delete("t1");
    let asked = chat.ask(&["t1"]);
    assert!(asked.effects.is_empty(), "nothing was dropped: {asked:?}");
    assert_eq!(chat.state().pending_plan().unwrap().question, "Delete them?");
    // A call of another plan has to wait until this one is answered.
    let behind = chat.delete("t2");
    assert_eq!(reason(&behind), "approval_required");
    assert!(behind.feedback.unwrap().contains("Another plan is awaiting approval"));
    chat.answer("yes");
    assert_eq!(chat.delete("t1").decision, Verdict::Allow);
    assert_eq!(find_effect(&chat.delete("t2"), "say").map(|_| ()), Some(()), "now it is asked about");
}

#[test]
fn denied_call_stays_denied_until_the_person_speaks_again() {
    for no in ["no", "cancel"] {
        let mut chat = ApprovalSession::new();
        chat.delete("t1");
        assert!(find_effect(&chat.answer(no), "plan.rejected").is_some());
        let again = chat.delete("t1");
        assert_eq!((reason(&again), again.state), ("approval_required", SessionPhase::Running));
        assert!(again.feedback.unwrap().contains("did not approve"), "{no}");
        chat.send(json!({"type": "user.message", "text": "Delete t1 after all"}));
        assert_eq!(chat.delete("t1").state, SessionPhase::AwaitingConfirmation);
    }
}

#[test]
fn new_request_drops_the_question_and_the_same_call_reopens_it() {
    let mut chat = ApprovalSession::new();
    chat.delete("t1");
    let message = chat.send(json!({"type": "user.message", "text": "Show me all tasks of this week first"}));
    assert!(find_effect(&message, "plan.replaced").is_some());
    assert_eq!(chat.delete("t1").state, SessionPhase::AwaitingConfirmation);
}

#[test]
fn unused_approvals_are_revoked_by_a_denial_and_expire() {
    let mut chat = ApprovalSession::new();
    chat.ask(&["t1", "t2"]);
    chat.answer("yes");
    assert_eq!(chat.delete("t1").decision, Verdict::Allow);
    let no = chat.answer("no, stop");
    assert!(find_effect(&no, "plan.rejected").is_some(), "{no:?}");
    assert_eq!(reason(&chat.delete("t2")), "approval_required");

    let mut chat = ApprovalSession::new();
    chat.ask(&["t1", "t2", "t3"]);
    chat.answer("yes");
    chat.at += 3_500_000;
    assert_eq!(chat.delete("t1").decision, Verdict::Allow, "within the hour");
    chat.at += 3_500_000;
    assert_eq!(chat.delete("t2").decision, Verdict::Allow, "approvals of a running plan do not expire");
    chat.at += 3_600_000;
    assert_eq!(reason(&chat.delete("t3")), "approval_required");
}

#[test]
fn expired_question_is_asked_again_by_the_next_call() {
    let mut chat = ApprovalSession::new();
    chat.delete("t1");
    chat.at += 3_600_000;
    let late = chat.delete("t1");
    assert!(find_effect(&late, "plan.expired").is_some() && find_effect(&late, "say").is_some(), "{late:?}");
    assert!(find_effect(&chat.answer("yes"), "plan.approved").is_some());
}

#[test]
fn a_call_that_another_guard_refuses_uses_no_approval() {
    let mut chat = ApprovalSession::with_policy(&format!(
        "{POLICY}\nrules: [{{name: no-t1, when: \"event.type == 'tool.requested' && session.messages == 0\", decision: block, message: wait}}]"
    ));
    chat.ask(&["t1"]);
    chat.answer("yes");
    let refused = chat.delete("t1");
    assert_eq!((refused.decision, reason(&refused)), (Verdict::Block, "rule"));
    chat.send(json!({"type": "user.message", "text": "go on"}));
    assert_eq!(chat.delete("t1").decision, Verdict::Allow);
}

#[test]
fn only_a_declaration_makes_a_tool_destructive() {
    let mut chat = ApprovalSession::with_policy("tools: {delete_task: {effect: write}}");
    assert_eq!(chat.delete("t1").decision, Verdict::Allow);
    let mut chat = ApprovalSession::with_policy("preset: agent");
    assert_eq!(chat.call("delete_everything", "t1").decision, Verdict::Allow);
    let mut chat = ApprovalSession::with_policy("tools: {list: {effect: destructive}}");
    assert_eq!(reason(&chat.call("list", "t1")), "approval_required");
}

#[test]
fn off_mode_and_rules_version_1_require_no_approval() {
    for (mode, verdict) in [("off", Verdict::Allow), ("observe", Verdict::Allow), ("warn", Verdict::Warn)] {
        let mut chat = ApprovalSession::with_policy(&format!("{POLICY}\nguards: {{confirmation: {mode}}}"));
        let decision = chat.delete("t1");
        assert_eq!((decision.decision, decision.state), (verdict, SessionPhase::Running), "{mode}");
    }
    let mut chat = ApprovalSession::with_policy(&format!("{POLICY}\nrules_version: 1"));
    assert_eq!(chat.delete("t1").decision, Verdict::Allow);
    chat.ask(&["t1"]);
    let yes = chat.answer("yes");
    assert!(!find_effect(&yes, "plan.approved").unwrap().fields.contains_key("plan"));
}

#[test]
fn large_plan_is_covered_completely_and_referenced_by_its_event() {
    let ids: Vec<String> = (0..flyball::limits::PLAN_STEPS).map(|n| format!("t{n}")).collect();
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    let mut chat = ApprovalSession::with_policy(&format!(
        "{POLICY}\nguards: {{repetition: off, cycle: off, recurrence: off}}"
    ));
    let asked = chat.ask(&ids);
    let yes = chat.answer("yes");
    let fields = &find_effect(&yes, "plan.approved").unwrap().fields;
    assert_eq!((&fields["plan"], &fields["asked"]), (&Value::Null, &json!(asked.seq)));
    for id in &ids {
        assert_eq!(chat.delete(id).decision, Verdict::Allow, "{id}");
    }
    assert_eq!(chat.delete("t0").decision, Verdict::Block);
}

#[test]
fn host_dialog_approves_exactly_its_call() {
    let mut chat = ApprovalSession::new();
    chat.delete("t1");
    chat.delete("t2");
    let by_host = |id: &str| json!({"type": "tool.requested", "tool": "delete_task", "args": {"id": id}, "approved_by": "claude-code"});
    assert_eq!(chat.send(by_host("t2")).decision, Verdict::Allow);
    let waiting = chat.state().pending_plan().unwrap();
    assert_eq!(waiting.plan, Some(r#"[{"tool":"delete_task","args":{"id":"t1"}}]"#));
    assert_eq!(chat.send(by_host("t1")).state, SessionPhase::Running);
    assert_eq!(chat.delete("t1").decision, Verdict::Block, "once");
    // A denial in the host's dialog is an answer.
    let denied = json!({"type": "tool.denied", "tool": "delete_task", "args": {"id": "t1"}, "by": "human"});
    let decision = chat.send(denied);
    assert_eq!(
        (find_effect(&decision, "plan.rejected").map(|_| ()), decision.state),
        (Some(()), SessionPhase::Running)
    );
}

#[test]
fn resent_blocked_call_is_reevaluated_once_after_approval() {
    let mut chat = ApprovalSession::new();
    let call = json!({"type": "tool.requested", "id": "e1", "call": "c1", "tool": "delete_task", "args": {"id": "t1"}});
    let blocked = chat.send(call.clone());
    assert_eq!(chat.send(call.clone()), blocked, "the same decision, and nothing is counted");
    chat.answer("yes");
    let allowed = chat.send(call.clone());
    assert_eq!(allowed.decision, Verdict::Allow);
    assert!(allowed.seq > blocked.seq);
    // An allowed event stays allowed and is not executed twice.
    assert_eq!(chat.send(call.clone()).seq, allowed.seq);
    let mut other = call;
    other["id"] = json!("e2");
    assert_eq!(chat.send(other).decision, Verdict::Block);
    // The result belongs to the call that ran.
    let report = chat.state().report(chat.sessions.get("default").unwrap().policy());
    assert_eq!((report.tools["delete_task"].calls, report.tools["delete_task"].refused), (1, 2));
}

#[test]
fn refused_act_is_reevaluated_after_a_release() {
    let mut chat = ApprovalSession::with_policy("preset: agent");
    let call = |n: usize| json!({"type": "tool.requested", "id": format!("e{n}"), "tool": "ls", "args": {}});
    for n in 0..5 {
        chat.send(call(n));
    }
    let blocked = chat.send(call(5));
    assert_eq!(blocked.decision, Verdict::Block);
    assert_eq!(chat.send(call(5)), blocked);
    let release = json!({"type": "human.released", "guard": "repetition", "by": "anna", "why": "ok"});
    chat.send(release);
    let after = chat.send(call(5));
    assert_eq!(after.decision, Verdict::Warn, "{after:?}");
    assert!(after.trips[0].message.ends_with("(released by a person; 2 more allowed)"), "{after:?}");
    assert_eq!(chat.send(call(4)).seq, 5, "an allowed event keeps its decision");
}

#[test]
fn release_by_the_policy_is_recorded_as_such() {
    let mut chat = ApprovalSession::with_policy("preset: agent");
    let call = json!({"type": "tool.requested", "tool": "ls", "args": {}});
    for _ in 0..6 {
        chat.send(call.clone());
    }
    let mut released = |by: &str| {
        chat.send(json!({"type": "human.released", "guard": "repetition", "by": by, "why": "x"}));
        chat.send(call.clone()).trips[0].message.clone()
    };
    let by_policy = released("policy: on_stall switch_to_interactive");
    assert!(by_policy.ends_with("(released by the policy; 2 more allowed)"), "{by_policy}");
    let by_person = released("anna");
    assert!(by_person.ends_with("(released by a person; 2 more allowed)"), "{by_person}");
}

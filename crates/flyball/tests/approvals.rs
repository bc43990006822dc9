//! A tool that the policy declares destructive runs on an approval alone, and an approval is used once.

#![allow(clippy::unwrap_used, reason = "a test may stop where it finds something missing")]

use flyball::policy::{Format, parse};
use flyball::{Decision, Event, PolicySource, Preset, Sessions, State, Status, Verdict};
use serde_json::{Value, json};

const POLICY: &str = "tools: {delete_task: {effect: destructive}, wipe: {effect: destructive}}";

/// One session under a policy. Every event is folded into a state that was stored and read back.
struct Chat {
    sessions: Sessions,
    source: PolicySource,
    at: u64,
}

impl Chat {
    fn new() -> Self {
        Chat::under(POLICY)
    }

    fn under(policy: &str) -> Self {
        let source = PolicySource::new(vec![parse(policy, Format::Yaml, "test").unwrap()], Preset::Agent);
        let source = source.unwrap();
        Chat { sessions: Sessions::new(source.clone()), source, at: 1_760_000_000_000 }
    }

    fn send(&mut self, mut event: Value) -> Decision {
        self.at += 1_000;
        event["at"] = json!(self.at);
        let event = Event::from_json(&event.to_string()).unwrap();
        let decision = self.sessions.step(&event).unwrap();
        let stored = self.sessions.get("default").unwrap().state().encode().unwrap();
        let read = flyball::Session::resume(&self.source, State::decode(&stored).unwrap()).unwrap();
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

    fn state(&self) -> &State {
        self.sessions.get("default").unwrap().state()
    }
}

fn reason(decision: &Decision) -> &str {
    decision.trips.first().map_or("", |trip| trip.reason.as_str())
}

fn effect<'d>(decision: &'d Decision, name: &str) -> Option<&'d flyball::Effect> {
    decision.effects.iter().find(|effect| effect.effect == name)
}

#[test]
fn destructive_call_without_an_approval_is_blocked_with_the_question_to_ask() {
    let mut chat = Chat::new();
    let blocked = chat.delete("t1");
    assert_eq!((blocked.decision, reason(&blocked)), (Verdict::Block, "approval_required"));
    assert_eq!(blocked.state, Status::AwaitingConfirmation);
    let feedback = blocked.feedback.as_deref().unwrap();
    assert!(feedback.contains("Ask a person: \"May 'delete_task' run"), "{feedback}");
    assert!(feedback.contains("`confirmation.requested`") && feedback.chars().count() <= 600, "{feedback}");
    let asked = effect(&blocked, "say").unwrap().fields["text"].as_str().unwrap().to_owned();
    assert!(asked.starts_with("Confirm the deletion: delete_task") && asked.contains("t1"), "{asked}");
    let waiting = chat.state().waiting().unwrap();
    assert_eq!((waiting.question, waiting.asked), (asked.as_str(), blocked.seq));
    assert_eq!(blocked.trips[0].scope["plan"], waiting.digest);
    assert_eq!(waiting.plan, Some(r#"[{"tool":"delete_task","args":{"id":"t1"}}]"#));
    // Every other tool runs meanwhile.
    assert_eq!(chat.call("list_tasks", "t1").decision, Verdict::Allow);
}

#[test]
fn an_approval_covers_each_step_of_its_plan_once() {
    let mut chat = Chat::new();
    assert_eq!(chat.ask(&["t1", "t2"]).state, Status::AwaitingConfirmation);
    assert_eq!(reason(&chat.delete("t1")), "approval_required", "not before the answer");
    let yes = chat.answer("yes");
    let approved = effect(&yes, "plan.approved").unwrap();
    let plan =
        json!([{"tool": "delete_task", "args": {"id": "t1"}}, {"tool": "delete_task", "args": {"id": "t2"}}]);
    assert_eq!(approved.fields["plan"], plan);
    assert_eq!(chat.delete("t3").decision, Verdict::Block, "another call is not covered");
    // Order of the steps and of the keys does not matter; the arguments do.
    assert_eq!(chat.delete("t2").decision, Verdict::Allow);
    assert_eq!(chat.delete("t1").decision, Verdict::Allow);
    for again in ["t1", "t2"] {
        let blocked = chat.delete(again);
        assert_eq!((blocked.decision, reason(&blocked)), (Verdict::Block, "approval_required"), "{again}");
    }
}

#[test]
fn a_blocked_call_is_what_a_person_approves_and_its_repetition_runs_once() {
    let mut chat = Chat::new();
    chat.delete("t1");
    assert!(effect(&chat.answer("yes"), "plan.approved").is_some());
    assert_eq!(chat.delete("t1").decision, Verdict::Allow);
    assert_eq!(reason(&chat.delete("t1")), "approval_required");
}

#[test]
fn calls_that_are_blocked_together_are_asked_about_together() {
    let mut chat = Chat::new();
    let first = chat.delete("t1");
    chat.delete("t2");
    let last = chat.call("wipe", "disk");
    assert_ne!(first.trips[0].scope["plan"], last.trips[0].scope["plan"]);
    // The one that waits already is asked about once.
    assert!(effect(&chat.delete("t2"), "say").is_none());
    let asked = effect(&last, "say").unwrap().fields["text"].as_str().unwrap();
    assert!(["t1", "t2", "disk"].iter().all(|id| asked.contains(id)), "{asked}");
    assert_eq!(chat.state().waiting().unwrap().askers, [1, 2, 3]);
    // A yes to the first question alone is no yes to all three.
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
fn a_client_may_ask_about_a_blocked_call_in_its_own_words() {
    let mut chat = Chat::new();
    chat.delete("t1");
    let asked = chat.ask(&["t1"]);
    assert!(asked.effects.is_empty(), "nothing was dropped: {asked:?}");
    assert_eq!(chat.state().waiting().unwrap().question, "Delete them?");
    // A call of another plan waits until this one is answered.
    let behind = chat.delete("t2");
    assert_eq!(reason(&behind), "approval_required");
    assert!(behind.feedback.unwrap().contains("Another plan is awaiting approval"));
    chat.answer("yes");
    assert_eq!(chat.delete("t1").decision, Verdict::Allow);
    assert_eq!(effect(&chat.delete("t2"), "say").map(|_| ()), Some(()), "now it is asked about");
}

#[test]
fn a_no_refuses_the_call_until_the_person_speaks_again() {
    for no in ["no", "cancel"] {
        let mut chat = Chat::new();
        chat.delete("t1");
        assert!(effect(&chat.answer(no), "plan.rejected").is_some());
        let again = chat.delete("t1");
        assert_eq!((reason(&again), again.state), ("approval_required", Status::Running));
        assert!(again.feedback.unwrap().contains("did not approve"), "{no}");
        chat.send(json!({"type": "user.message", "text": "Delete t1 after all"}));
        assert_eq!(chat.delete("t1").state, Status::AwaitingConfirmation);
    }
}

#[test]
fn a_new_request_drops_the_question_and_the_same_call_asks_it_again() {
    let mut chat = Chat::new();
    chat.delete("t1");
    let message = chat.send(json!({"type": "user.message", "text": "Show me all tasks of this week first"}));
    assert!(effect(&message, "plan.replaced").is_some());
    assert_eq!(chat.delete("t1").state, Status::AwaitingConfirmation);
}

#[test]
fn unused_approvals_are_taken_back_by_a_no_and_lapse_with_time() {
    let mut chat = Chat::new();
    chat.ask(&["t1", "t2"]);
    chat.answer("yes");
    assert_eq!(chat.delete("t1").decision, Verdict::Allow);
    let no = chat.answer("no, stop");
    assert!(effect(&no, "plan.rejected").is_some(), "{no:?}");
    assert_eq!(reason(&chat.delete("t2")), "approval_required");

    let mut chat = Chat::new();
    chat.ask(&["t1", "t2", "t3"]);
    chat.answer("yes");
    chat.at += 3_500_000;
    assert_eq!(chat.delete("t1").decision, Verdict::Allow, "within the hour");
    chat.at += 3_500_000;
    assert_eq!(chat.delete("t2").decision, Verdict::Allow, "a plan that is being run does not lapse");
    chat.at += 3_600_000;
    assert_eq!(reason(&chat.delete("t3")), "approval_required");
}

#[test]
fn a_late_question_is_asked_again_by_the_next_call() {
    let mut chat = Chat::new();
    chat.delete("t1");
    chat.at += 3_600_000;
    let late = chat.delete("t1");
    assert!(effect(&late, "plan.expired").is_some() && effect(&late, "say").is_some(), "{late:?}");
    assert!(effect(&chat.answer("yes"), "plan.approved").is_some());
}

#[test]
fn a_call_that_another_guard_refuses_uses_no_approval() {
    let mut chat = Chat::under(&format!(
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
    let mut chat = Chat::under("tools: {delete_task: {effect: write}}");
    assert_eq!(chat.delete("t1").decision, Verdict::Allow);
    let mut chat = Chat::under("preset: agent");
    assert_eq!(chat.call("delete_everything", "t1").decision, Verdict::Allow);
    let mut chat = Chat::under("tools: {list: {effect: destructive}}");
    assert_eq!(reason(&chat.call("list", "t1")), "approval_required");
}

#[test]
fn modes_and_version_1_of_the_rules() {
    for (mode, verdict) in [("off", Verdict::Allow), ("observe", Verdict::Allow), ("warn", Verdict::Warn)] {
        let mut chat = Chat::under(&format!("{POLICY}\nguards: {{confirmation: {mode}}}"));
        let told = chat.delete("t1");
        assert_eq!((told.decision, told.state), (verdict, Status::Running), "{mode}");
    }
    let mut chat = Chat::under(&format!("{POLICY}\nrules_version: 1"));
    assert_eq!(chat.delete("t1").decision, Verdict::Allow);
    chat.ask(&["t1"]);
    let yes = chat.answer("yes");
    assert!(!effect(&yes, "plan.approved").unwrap().fields.contains_key("plan"));
}

#[test]
fn a_plan_of_many_steps_is_covered_whole_and_a_large_one_is_named_by_its_event() {
    let ids: Vec<String> = (0..flyball::limits::PLAN_STEPS).map(|n| format!("t{n}")).collect();
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    let mut chat =
        Chat::under(&format!("{POLICY}\nguards: {{repetition: off, cycle: off, recurrence: off}}"));
    let asked = chat.ask(&ids);
    let yes = chat.answer("yes");
    let fields = &effect(&yes, "plan.approved").unwrap().fields;
    assert_eq!((&fields["plan"], &fields["asked"]), (&Value::Null, &json!(asked.seq)));
    for id in &ids {
        assert_eq!(chat.delete(id).decision, Verdict::Allow, "{id}");
    }
    assert_eq!(chat.delete("t0").decision, Verdict::Block);
}

#[test]
fn a_dialog_of_the_host_approves_the_very_call_and_settles_its_question() {
    let mut chat = Chat::new();
    chat.delete("t1");
    chat.delete("t2");
    let by_host = |id: &str| json!({"type": "tool.requested", "tool": "delete_task", "args": {"id": id}, "approved_by": "claude-code"});
    assert_eq!(chat.send(by_host("t2")).decision, Verdict::Allow);
    let waiting = chat.state().waiting().unwrap();
    assert_eq!(waiting.plan, Some(r#"[{"tool":"delete_task","args":{"id":"t1"}}]"#));
    assert_eq!(chat.send(by_host("t1")).state, Status::Running);
    assert_eq!(chat.delete("t1").decision, Verdict::Block, "once");
    // A person who refuses there has answered.
    let denied = json!({"type": "tool.denied", "tool": "delete_task", "args": {"id": "t1"}, "by": "human"});
    let told = chat.send(denied);
    assert_eq!((effect(&told, "plan.rejected").map(|_| ()), told.state), (Some(()), Status::Running));
}

#[test]
fn a_blocked_call_that_is_sent_again_after_the_approval_is_judged_anew_once() {
    let mut chat = Chat::new();
    let call = json!({"type": "tool.requested", "id": "e1", "call": "c1", "tool": "delete_task", "args": {"id": "t1"}});
    let blocked = chat.send(call.clone());
    assert_eq!(chat.send(call.clone()), blocked, "the same answer, and nothing is counted");
    chat.answer("yes");
    let allowed = chat.send(call.clone());
    assert_eq!(allowed.decision, Verdict::Allow);
    assert!(allowed.seq > blocked.seq);
    // What was permitted stays permitted for the same event, and is not done twice.
    assert_eq!(chat.send(call.clone()).seq, allowed.seq);
    let mut other = call;
    other["id"] = json!("e2");
    assert_eq!(chat.send(other).decision, Verdict::Block);
    // The result belongs to the call that ran.
    let report = chat.state().report(chat.sessions.get("default").unwrap().policy());
    assert_eq!((report.tools["delete_task"].calls, report.tools["delete_task"].refused), (1, 2));
}

#[test]
fn a_refused_act_is_judged_anew_after_a_release_and_a_fact_is_not() {
    let mut chat = Chat::under("preset: agent");
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
    assert!(after.trips[0].message.ends_with("(released by a person, 2 more)"), "{after:?}");
    assert_eq!(chat.send(call(4)).seq, 5, "what was permitted is answered as before");
}

#[test]
fn a_release_by_the_policy_is_called_so() {
    let mut chat = Chat::under("preset: agent");
    let call = json!({"type": "tool.requested", "tool": "ls", "args": {}});
    for _ in 0..6 {
        chat.send(call.clone());
    }
    let mut released = |by: &str| {
        chat.send(json!({"type": "human.released", "guard": "repetition", "by": by, "why": "x"}));
        chat.send(call.clone()).trips[0].message.clone()
    };
    let by_policy = released("policy: on_stall switch_to_interactive");
    assert!(by_policy.ends_with("(released by the policy, 2 more)"), "{by_policy}");
    let by_person = released("anna");
    assert!(by_person.ends_with("(released by a person, 2 more)"), "{by_person}");
}

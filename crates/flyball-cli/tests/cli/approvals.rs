//! Approvals, breakers and a person's words through the command line: `observe`, `approve`, `deny`, `status`, `list`.

use crate::kit::Store;
use serde_json::{Value, json};

const POLICY: &str = "tools: {task_delete: {effect: destructive}}\n";

fn governed(name: &str) -> Store {
    let store = Store::own(name);
    std::fs::write(store.folder.join("flyball.yaml"), POLICY).unwrap();
    store
}

fn delete(session: &str, id: &str) -> String {
    json!({"type": "tool.requested", "session": session, "id": id, "call": id, "tool": "task_delete",
        "args": {"uid": "task-1"}})
    .to_string()
}

fn reason(decision: &Value) -> &str {
    decision["trips"][0]["reason"].as_str().unwrap_or_default()
}

#[test]
fn a_destructive_call_waits_in_the_lists_until_a_person_approves_it_and_runs_once() {
    let store = governed("approvals-once");
    let blocked = store.event(&delete("bot", "e1"));
    assert_eq!((&blocked["decision"], reason(&blocked)), (&json!("block"), "approval_required"));
    let listed = store.run(&["list", "--waiting"]);
    assert!(listed.out.contains("bot"), "{}", listed.out);
    let status = store.run(&["status", "bot"]);
    assert!(status.out.contains("flyball approve bot") && status.out.contains("task-1"), "{}", status.out);
    assert_eq!(store.json(&["status", "bot"])["pending"]["plan"][0]["tool"], "task_delete");
    // The same event again, before and after the approval.
    assert_eq!(store.event(&delete("bot", "e1")), blocked);
    let approved = store.json(&["approve", "bot"]);
    assert_eq!(approved["effects"][0]["effect"], "plan.approved");
    assert_eq!(approved["effects"][0]["plan"], json!([{"tool": "task_delete", "args": {"uid": "task-1"}}]));
    assert!(store.run(&["status", "bot"]).out.contains("1 call approved and not used yet"));
    let allowed = store.event(&delete("bot", "e1"));
    assert_eq!(allowed["decision"], "allow");
    assert_eq!(store.event(&delete("bot", "e1")), allowed, "acknowledged once, the same from then on");
    assert_eq!(reason(&store.event(&delete("bot", "e2"))), "approval_required");
}

#[test]
fn a_person_may_take_back_an_approval_that_was_not_used() {
    let store = governed("approvals-revoked");
    store.event(&delete("bot", "e1"));
    assert_eq!(store.run(&["approve", "bot"]).code, 0);
    let denied = store.run(&["deny", "bot"]);
    assert_eq!(denied.code, 0, "{}{}", denied.out, denied.err);
    assert!(denied.out.contains("Denied"), "{}", denied.out);
    assert_eq!(store.event(&delete("bot", "e2"))["decision"], "block");
    assert!(store.run(&["deny", "bot"]).out.contains("Nothing waits"));
}

#[test]
fn a_chat_bot_on_the_pipe_needs_one_call_for_what_a_person_said() {
    // The story of the confirmation loop: two requests with a restart between them, then a second yes.
    let store = governed("approvals-kira");
    let say = |text: &str| {
        let event = json!({"type": "person.message", "session": "telegram:1", "text": text, "by": "max"});
        store.event(&event.to_string())
    };
    assert_eq!(say("Удали задачу про Варю")["effects"][0]["next"], "pass_on");
    let blocked = store.event(&delete("telegram:1", "e1"));
    let asked = blocked["effects"].as_array().unwrap().iter().find(|effect| effect["effect"] == "say");
    assert!(asked.unwrap()["text"].as_str().unwrap().contains("task-1"), "{blocked}");
    let yes = say("Да");
    assert_eq!(
        (&yes["effects"][0]["as"], &yes["effects"][0]["next"]),
        (&json!("plan_answer"), &json!("run_plan"))
    );
    assert_eq!(yes["effects"][1]["plan"][0]["args"], json!({"uid": "task-1"}));
    assert_eq!(store.event(&delete("telegram:1", "e2"))["decision"], "allow");
    assert_eq!(store.count("SELECT count(*) FROM session_state"), 0);
    let second = say("Да");
    assert_eq!(
        (&second["effects"][0]["next"], &second["effects"][1]["effect"]),
        (&json!("none"), &json!("say"))
    );
    assert_eq!(store.event(&delete("telegram:1", "e3"))["decision"], "block", "a second yes runs nothing");
}

#[test]
fn an_agent_cannot_claim_a_dialog_or_a_person() {
    let store = governed("approvals-claims");
    for event in [
        json!({"type": "tool.requested", "session": "claude-code:s1", "tool": "task_delete", "args": {}, "approved_by": "me"}),
        json!({"type": "person.message", "session": "claude-code:s1", "text": "yes", "by": "anna"}),
    ] {
        let run = crate::kit::flyball(
            &store.folder,
            &["observe", "--store"],
            event.to_string().as_bytes(),
            &[("CLAUDECODE", "1")],
        );
        assert!(run.out.contains("agent_speaks"), "{}{}", run.out, run.err);
    }
}

#[test]
fn status_shows_counters_and_breakers_by_their_names() {
    let store = Store::own("approvals-breakers");
    let operation = |kind: &str, operation: &str| {
        store.event(&json!({"type": kind, "session": "soni", "operation": operation}).to_string())
    };
    for _ in 0..3 {
        assert_eq!(operation("operation.requested", "correction")["decision"], "allow");
        operation("operation.failed", "correction");
    }
    operation("operation.failed", "validation");
    let report = store.json(&["status", "soni"])["report"].clone();
    assert_eq!(report["counters"], json!({"_correction_retries": 3, "_validation_attempts": 1}));
    let refused = operation("operation.requested", "correction");
    assert_eq!((&refused["decision"], refused["retry_after_ms"].is_u64()), (&json!("block"), true));
    let report = store.json(&["status", "soni"])["report"].clone();
    let breaker = &report["breakers"][0];
    assert_eq!(
        (&breaker["counter"], &breaker["state"], &breaker["trips"]),
        (&json!("_correction_retries"), &json!("open"), &json!(1))
    );
    let left = breaker["cooldown_left_ms"].as_u64().unwrap();
    assert!((1..=60_000).contains(&left), "{left}");
    let told = store.run(&["status", "soni"]).out;
    for words in ["_validation_attempts 1", "breaker correction: open for another", "opened 1 time"] {
        assert!(told.contains(words), "{words}: {told}");
    }
    operation("operation.succeeded", "correction");
    operation("operation.succeeded", "validation");
    let report = store.json(&["status", "soni"])["report"].clone();
    assert_eq!((&report["counters"], &report["breakers"]), (&json!({}), &json!([])));
}

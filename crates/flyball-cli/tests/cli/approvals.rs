//! Approvals, breakers and user messages on the command line: `observe`, `approve`, `deny`, `status`, `list`.

use crate::command_harness::CliStore;
use serde_json::{Value, json};

const POLICY: &str = "tools: {task_delete: {effect: destructive}}\n";

fn store_with_policy(name: &str) -> CliStore {
    let store = CliStore::project_store(name);
    std::fs::write(store.folder.join("flyball.yaml"), POLICY).unwrap();
    store
}

fn delete_request(session: &str, id: &str) -> String {
    json!({"type": "tool.requested", "session": session, "id": id, "call": id, "tool": "task_delete",
        "args": {"uid": "task-1"}})
    .to_string()
}

fn reason(decision: &Value) -> &str {
    decision["trips"][0]["reason"].as_str().unwrap_or_default()
}

#[test]
fn destructive_call_is_listed_until_approved_and_runs_once() {
    let store = store_with_policy("approvals-once");
    let blocked = store.event(&delete_request("bot", "e1"));
    assert_eq!((&blocked["decision"], reason(&blocked)), (&json!("block"), "approval_required"));
    let listed = store.run(&["list", "--waiting"]);
    assert!(listed.out.contains("bot"), "{}", listed.out);
    let status = store.run(&["status", "bot"]);
    assert!(status.out.contains("flyball approve bot") && status.out.contains("task-1"), "{}", status.out);
    assert_eq!(store.json(&["status", "bot"])["pending"]["plan"][0]["tool"], "task_delete");
    // Resends the same event, before and after the approval.
    assert_eq!(store.event(&delete_request("bot", "e1")), blocked);
    let approved = store.json(&["approve", "bot"]);
    assert_eq!(approved["effects"][0]["effect"], "plan.approved");
    assert_eq!(approved["effects"][0]["plan"], json!([{"tool": "task_delete", "args": {"uid": "task-1"}}]));
    assert!(store.run(&["status", "bot"]).out.contains("1 call approved but not used yet"));
    let allowed = store.event(&delete_request("bot", "e1"));
    assert_eq!(allowed["decision"], "allow");
    assert_eq!(store.event(&delete_request("bot", "e1")), allowed, "acknowledged once, then always the same");
    assert_eq!(reason(&store.event(&delete_request("bot", "e2"))), "approval_required");
}

#[test]
fn unused_approval_can_be_revoked() {
    let store = store_with_policy("approvals-revoked");
    store.event(&delete_request("bot", "e1"));
    assert_eq!(store.run(&["approve", "bot"]).code, 0);
    let denied = store.run(&["deny", "bot"]);
    assert_eq!(denied.code, 0, "{}{}", denied.out, denied.err);
    assert!(denied.out.contains("Denied"), "{}", denied.out);
    assert_eq!(store.event(&delete_request("bot", "e2"))["decision"], "block");
    assert!(store.run(&["deny", "bot"]).out.contains("Nothing is awaiting approval"));
}

#[test]
fn person_message_on_the_pipe_needs_one_event() {
    // The confirmation loop: two requests with a restart between them, then a second approval.
    let store = store_with_policy("approvals-kira");
    let say = |text: &str| {
        let event = json!({"type": "person.message", "session": "telegram:1", "text": text, "by": "max"});
        store.event(&event.to_string())
    };
    assert_eq!(say("Удали задачу про Варю")["effects"][0]["next"], "pass_on");
    let blocked = store.event(&delete_request("telegram:1", "e1"));
    let asked = blocked["effects"].as_array().unwrap().iter().find(|effect| effect["effect"] == "say");
    assert!(asked.unwrap()["text"].as_str().unwrap().contains("task-1"), "{blocked}");
    let yes = say("Да");
    assert_eq!(
        (&yes["effects"][0]["as"], &yes["effects"][0]["next"]),
        (&json!("plan_answer"), &json!("run_plan"))
    );
    assert_eq!(yes["effects"][1]["plan"][0]["args"], json!({"uid": "task-1"}));
    assert_eq!(store.event(&delete_request("telegram:1", "e2"))["decision"], "allow");
    assert_eq!(store.count("SELECT count(*) FROM session_state"), 0);
    let second = say("Да");
    assert_eq!(
        (&second["effects"][0]["next"], &second["effects"][1]["effect"]),
        (&json!("none"), &json!("say"))
    );
    assert_eq!(
        store.event(&delete_request("telegram:1", "e3"))["decision"],
        "block",
        "a second approval runs nothing"
    );
}

#[test]
fn agent_cannot_claim_a_dialog_or_a_person() {
    let store = store_with_policy("approvals-claims");
    for event in [
        json!({"type": "tool.requested", "session": "claude-code:s1", "tool": "task_delete", "args": {}, "approved_by": "me"}),
        json!({"type": "person.message", "session": "claude-code:s1", "text": "yes", "by": "anna"}),
    ] {
        let run = crate::command_harness::run_flyball(
            &store.folder,
            &["observe", "--store"],
            event.to_string().as_bytes(),
            &[("CLAUDECODE", "1")],
        );
        assert!(run.out.contains("agent_not_allowed"), "{}{}", run.out, run.err);
    }
}

#[test]
fn status_shows_counters_and_breakers_by_their_names() {
    let store = CliStore::project_store("approvals-breakers");
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
    let reported = store.run(&["status", "soni"]).out;
    for words in ["_validation_attempts 1", "breaker correction: open for another", "opened 1 time"] {
        assert!(reported.contains(words), "{words}: {reported}");
    }
    operation("operation.succeeded", "correction");
    operation("operation.succeeded", "validation");
    let report = store.json(&["status", "soni"])["report"].clone();
    assert_eq!((&report["counters"], &report["breakers"]), (&json!({}), &json!([])));
}

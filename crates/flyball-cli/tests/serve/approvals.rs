//! Approvals, breakers and a person's words over HTTP: a client in any language, and a chat between it and people.

use crate::claims::{code, engines, last, send, token};
use crate::kit::Server;
use serde_json::{Value, json};

const DESTRUCTIVE: [&str; 2] = ["--set", "tools.delete.effect=destructive"];

fn delete(session: &str, id: &str, file: &str) -> Value {
    json!({"type": "tool.requested", "session": session, "id": id, "tool": "delete", "args": {"file": file}})
}

fn say(server: &Server, key: &str, session: &str, body: &Value) -> (u16, Value) {
    server.json("POST", &format!("/v1/sessions/{session}/messages"), key, Some(body))
}

fn reason(decision: &Value) -> &str {
    decision["trips"][0]["reason"].as_str().unwrap_or_default()
}

fn next(decision: &Value) -> &str {
    decision["effects"][0]["next"].as_str().unwrap_or_default()
}

#[test]
fn a_blocked_call_is_approved_in_the_inbox_and_runs_once() {
    engines("inbox", &DESTRUCTIVE, |server| {
        let bot = token(server, "bot", "agent", &[]);
        let anna = token(server, "anna", "operator", &[]);
        let blocked = server.event(&bot, &delete("s", "e1", "a"));
        assert_eq!((&blocked["decision"], reason(&blocked)), (&json!("block"), "approval_required"));
        assert_eq!(server.event(&bot, &delete("s", "e2", "b"))["decision"], "block");
        let (_, inbox) = server.json("GET", "/v1/inbox", &anna, None);
        let waiting = &inbox["waiting"][0];
        assert_eq!(waiting["plan"]["plan"].as_array().unwrap().len(), 2, "{waiting}");
        let yes = json!({"answer": "yes", "ticket": waiting["ticket"]});
        // Another call joins the question: the ticket was for two calls.
        server.event(&bot, &delete("s", "e3", "c"));
        assert_eq!(
            code(&server.json("POST", "/v1/sessions/s/confirmation", &anna, Some(&yes))),
            (409, "ticket_void")
        );
        let (_, inbox) = server.json("GET", "/v1/inbox", &anna, None);
        let yes = json!({"answer": "yes", "ticket": inbox["waiting"][0]["ticket"]});
        let (status, approved) = server.json("POST", "/v1/sessions/s/confirmation", &anna, Some(&yes));
        assert_eq!(
            (status, approved["effects"][0]["plan"].as_array().map(Vec::len)),
            (200, Some(3)),
            "{approved}"
        );
        // The same request again is judged anew, once; another one needs another approval.
        let allowed = server.event(&bot, &delete("s", "e1", "a"));
        assert_eq!(allowed["decision"], "allow");
        assert_eq!(server.event(&bot, &delete("s", "e1", "a")), allowed);
        assert_eq!(reason(&server.event(&bot, &delete("s", "e4", "a"))), "approval_required");
        let (_, session) = server.json("GET", "/v1/sessions/s", &anna, None);
        assert_eq!(session["report"]["approvals"], 2, "{session}");
    });
}

#[test]
fn one_call_takes_what_a_person_said_and_says_what_to_do() {
    engines("messages", &DESTRUCTIVE, |server| {
        let bot = token(server, "bot", "agent", &[]);
        let chat = token(server, "chat", "channel", &[]);
        let by = |text: &str| json!({"text": text, "by": "U1"});
        // A chat begins a session; an agent works in it.
        let (status, first) = say(server, &chat, "c1", &by("Delete a and b"));
        assert_eq!((status, next(&first)), (200, "pass_on"), "{first}");
        let bot_all = token(server, "bot-all", "agent", &["--all-sessions"]);
        server.event(&bot_all, &delete("c1", "e1", "a"));
        assert_eq!(next(&say(server, &chat, "c1", &by("hm")).1), "ask_again");
        let yes = say(server, &chat, "c1", &by("yes")).1;
        assert_eq!((next(&yes), &yes["effects"][1]["effect"]), ("run_plan", &json!("plan.approved")));
        assert_eq!(last(server, "c1")["event"]["by"], "chat:U1");
        assert_eq!(server.event(&bot_all, &delete("c1", "e2", "a"))["decision"], "allow");
        assert_eq!(next(&say(server, &chat, "c1", &by("yes")).1), "none");
        // What is refused: nobody named, nothing said, an agent, a session that a person mistyped.
        assert_eq!(code(&say(server, &chat, "c1", &json!({"text": "yes"}))), (422, "missing_field"));
        assert_eq!(code(&say(server, &chat, "c1", &by("  "))), (422, "empty_answer"));
        assert_eq!(
            code(&send(server, &chat, &json!({"type": "person.message", "session": "c1", "text": "yes"}))),
            (422, "missing_field")
        );
        assert_eq!(code(&say(server, &bot, "c1", &by("yes"))), (403, "role_forbidden"));
        let desk = token(server, "desk", "host", &["--all-sessions"]);
        assert_eq!(code(&say(server, &desk, "c1", &by("yes"))), (403, "role_forbidden"));
        let anna = token(server, "anna", "operator", &[]);
        assert_eq!(say(server, &anna, "nowhere", &json!({"text": "yes"})).0, 404);
        // A channel approves no call of its own key, also if another key's calls wait beside it.
        server.event(&chat, &delete("c2", "e1", "own"));
        server.event(&bot_all, &delete("c2", "e2", "other"));
        assert_eq!(code(&say(server, &chat, "c2", &by("yes"))), (403, "own_request"));
        assert_eq!(next(&say(server, &anna, "c2", &json!({"text": "yes"})).1), "run_plan");
        assert_eq!(last(server, "c2")["event"]["by"], "anna");
    });
}

#[test]
fn only_a_dialog_of_a_host_may_say_that_a_person_agreed() {
    engines("dialogs", &DESTRUCTIVE, |server| {
        for role in ["agent", "host", "channel"] {
            let key = token(server, role, role, &[]);
            let mut event = delete(role, "e1", "a");
            event["approved_by"] = json!("claude-code");
            assert_eq!(code(&send(server, &key, &event)), (422, "wrong_type"), "{role}");
        }
    });
}

#[test]
fn the_session_shows_breakers_and_a_client_asks_first() {
    engines("breakers", &["--set", "guards.retry.limit=1"], |server| {
        let bot = token(server, "bot", "agent", &[]);
        let operation =
            |kind: &str| server.event(&bot, &json!({"type": kind, "session": "s", "operation": "sync"}));
        assert_eq!(operation("operation.requested")["decision"], "allow");
        operation("operation.failed");
        let refused = operation("operation.requested");
        assert_eq!(
            (&refused["decision"], &refused["trips"][0]["scope"]["breaker"]),
            (&json!("block"), &json!("opened"))
        );
        let (_, session) = server.json("GET", "/v1/sessions/s", &bot, None);
        let breaker = &session["report"]["breakers"][0];
        assert_eq!((&breaker["operation"], &breaker["state"]), (&json!("sync"), &json!("open")), "{session}");
    });
}

#[test]
fn a_key_with_too_many_pending_plans_opens_no_more_by_destructive_calls() {
    engines("plans", &["--set", "tools.delete.effect=destructive", "--key-pending-plans", "2"], |server| {
        let bot = token(server, "bot", "agent", &[]);
        for session in ["s1", "s2"] {
            assert_eq!(server.event(&bot, &delete(session, "e1", "a"))["decision"], "block");
        }
        assert_eq!(code(&send(server, &bot, &delete("s3", "e1", "a"))), (429, "key_limit_plans"));
    });
}

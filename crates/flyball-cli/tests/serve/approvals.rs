//! Approvals, breakers and chat messages over HTTP, as used by a client in any language and a chat channel.

use crate::false_claims::{create_token, error_code, for_each_engine, last_event, send_event};
use crate::server_harness::TestServer;
use serde_json::{Value, json};

const DESTRUCTIVE: [&str; 2] = ["--set", "tools.delete.effect=destructive"];

fn delete_request(session: &str, id: &str, file: &str) -> Value {
    json!({"type": "tool.requested", "session": session, "id": id, "tool": "delete", "args": {"file": file}})
}

fn send_person_message(server: &TestServer, key: &str, session: &str, body: &Value) -> (u16, Value) {
    server.request_json("POST", &format!("/v1/sessions/{session}/messages"), key, Some(body))
}

fn reason(decision: &Value) -> &str {
    decision["trips"][0]["reason"].as_str().unwrap_or_default()
}

fn next_action(decision: &Value) -> &str {
    decision["effects"][0]["next"].as_str().unwrap_or_default()
}

#[test]
fn blocked_call_is_approved_in_the_inbox_and_runs_once() {
    for_each_engine("inbox", &DESTRUCTIVE, |server| {
        let bot = create_token(server, "bot", "agent", &[]);
        let anna = create_token(server, "anna", "operator", &[]);
        let blocked = server.submit_event(&bot, &delete_request("s", "e1", "a"));
        assert_eq!((&blocked["decision"], reason(&blocked)), (&json!("block"), "approval_required"));
        assert_eq!(server.submit_event(&bot, &delete_request("s", "e2", "b"))["decision"], "block");
        let (_, inbox) = server.request_json("GET", "/v1/inbox", &anna, None);
        let waiting = &inbox["waiting"][0];
        assert_eq!(waiting["plan"]["plan"].as_array().unwrap().len(), 2, "{waiting}");
        let yes = json!({"answer": "yes", "ticket": waiting["ticket"]});
        // Another call joins the plan: the ticket was for two calls.
        server.submit_event(&bot, &delete_request("s", "e3", "c"));
        assert_eq!(
            error_code(&server.request_json("POST", "/v1/sessions/s/confirmation", &anna, Some(&yes))),
            (409, "ticket_invalid")
        );
        let (_, inbox) = server.request_json("GET", "/v1/inbox", &anna, None);
        let yes = json!({"answer": "yes", "ticket": inbox["waiting"][0]["ticket"]});
        let (status, approved) =
            server.request_json("POST", "/v1/sessions/s/confirmation", &anna, Some(&yes));
        assert_eq!(
            (status, approved["effects"][0]["plan"].as_array().map(Vec::len)),
            (200, Some(3)),
            "{approved}"
        );
        // A retry of the same request is evaluated again, once; another request needs another approval.
        let allowed = server.submit_event(&bot, &delete_request("s", "e1", "a"));
        assert_eq!(allowed["decision"], "allow");
        assert_eq!(server.submit_event(&bot, &delete_request("s", "e1", "a")), allowed);
        assert_eq!(reason(&server.submit_event(&bot, &delete_request("s", "e4", "a"))), "approval_required");
        let (_, session) = server.request_json("GET", "/v1/sessions/s", &anna, None);
        assert_eq!(session["report"]["approvals"], 2, "{session}");
    });
}

#[test]
fn person_message_endpoint_returns_the_next_action() {
    for_each_engine("messages", &DESTRUCTIVE, |server| {
        let bot = create_token(server, "bot", "agent", &[]);
        let chat = create_token(server, "chat", "channel", &[]);
        let by = |text: &str| json!({"text": text, "by": "U1"});
        // A channel starts a session, and an agent works in it.
        let (status, first) = send_person_message(server, &chat, "c1", &by("Delete a and b"));
        assert_eq!((status, next_action(&first)), (200, "pass_on"), "{first}");
        let bot_all = create_token(server, "bot-all", "agent", &["--all-sessions"]);
        server.submit_event(&bot_all, &delete_request("c1", "e1", "a"));
        assert_eq!(next_action(&send_person_message(server, &chat, "c1", &by("hm")).1), "ask_again");
        let yes = send_person_message(server, &chat, "c1", &by("yes")).1;
        assert_eq!((next_action(&yes), &yes["effects"][1]["effect"]), ("run_plan", &json!("plan.approved")));
        assert_eq!(last_event(server, "c1")["event"]["by"], "chat:U1");
        assert_eq!(server.submit_event(&bot_all, &delete_request("c1", "e2", "a"))["decision"], "allow");
        assert_eq!(next_action(&send_person_message(server, &chat, "c1", &by("yes")).1), "none");
        // Refused: no person named, empty text, an agent, and a mistyped session.
        assert_eq!(
            error_code(&send_person_message(server, &chat, "c1", &json!({"text": "yes"}))),
            (422, "missing_field")
        );
        assert_eq!(error_code(&send_person_message(server, &chat, "c1", &by("  "))), (422, "empty_answer"));
        assert_eq!(
            error_code(&send_event(
                server,
                &chat,
                &json!({"type": "person.message", "session": "c1", "text": "yes"})
            )),
            (422, "missing_field")
        );
        assert_eq!(error_code(&send_person_message(server, &bot, "c1", &by("yes"))), (403, "role_forbidden"));
        let desk = create_token(server, "desk", "host", &["--all-sessions"]);
        assert_eq!(
            error_code(&send_person_message(server, &desk, "c1", &by("yes"))),
            (403, "role_forbidden")
        );
        let anna = create_token(server, "anna", "operator", &[]);
        assert_eq!(send_person_message(server, &anna, "nowhere", &json!({"text": "yes"})).0, 404);
        // A channel cannot approve a call made with the same key, even if another key's calls are in the same plan.
        server.submit_event(&chat, &delete_request("c2", "e1", "own"));
        server.submit_event(&bot_all, &delete_request("c2", "e2", "other"));
        assert_eq!(
            error_code(&send_person_message(server, &chat, "c2", &by("yes"))),
            (403, "self_approval_forbidden")
        );
        assert_eq!(
            next_action(&send_person_message(server, &anna, "c2", &json!({"text": "yes"})).1),
            "run_plan"
        );
        assert_eq!(last_event(server, "c2")["event"]["by"], "anna");
    });
}

#[test]
fn only_a_host_dialog_may_claim_approval() {
    for_each_engine("dialogs", &DESTRUCTIVE, |server| {
        for role in ["agent", "host", "channel"] {
            let key = create_token(server, role, role, &[]);
            let mut event = delete_request(role, "e1", "a");
            event["approved_by"] = json!("claude-code");
            assert_eq!(error_code(&send_event(server, &key, &event)), (422, "wrong_type"), "{role}");
        }
    });
}

#[test]
fn session_shows_breakers_and_clients_can_check_first() {
    for_each_engine("breakers", &["--set", "guards.retry.limit=1"], |server| {
        let bot = create_token(server, "bot", "agent", &[]);
        let operation = |kind: &str| {
            server.submit_event(&bot, &json!({"type": kind, "session": "s", "operation": "sync"}))
        };
        assert_eq!(operation("operation.requested")["decision"], "allow");
        operation("operation.failed");
        let refused = operation("operation.requested");
        assert_eq!(
            (&refused["decision"], &refused["trips"][0]["scope"]["breaker"]),
            (&json!("block"), &json!("opened"))
        );
        let (_, session) = server.request_json("GET", "/v1/sessions/s", &bot, None);
        let breaker = &session["report"]["breakers"][0];
        assert_eq!((&breaker["operation"], &breaker["state"]), (&json!("sync"), &json!("open")), "{session}");
    });
}

#[test]
fn a_key_with_too_many_pending_plans_opens_no_more_by_destructive_calls() {
    for_each_engine(
        "plans",
        &["--set", "tools.delete.effect=destructive", "--key-pending-plans", "2"],
        |server| {
            let bot = create_token(server, "bot", "agent", &[]);
            for session in ["s1", "s2"] {
                assert_eq!(
                    server.submit_event(&bot, &delete_request(session, "e1", "a"))["decision"],
                    "block"
                );
            }
            assert_eq!(
                error_code(&send_event(server, &bot, &delete_request("s3", "e1", "a"))),
                (429, "key_limit_plans")
            );
        },
    );
}

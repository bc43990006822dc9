//! The server through its own program: keys, routes, events in, decisions out.
#![allow(clippy::unwrap_used, reason = "in a test that is how a failure is told")]

#[path = "serve/kit.rs"]
mod kit;

use flyball_serve::Role;
use kit::{Server, folder};
use serde_json::json;

#[test]
fn an_event_is_answered_with_a_decision_and_a_stranger_with_nothing() {
    let server = Server::start(&folder("first"), &["--no-socket"]);
    let agent = server.key("bot", Role::Agent);
    let event = json!({"type": "tool.requested", "session": "s", "tool": "bash", "args": {"command": "ls"}});
    let decision = server.event(&agent, &event);
    assert_eq!((&decision["decision"], &decision["seq"]), (&json!("allow"), &json!(1)));
    assert_eq!(server.ask("POST", "/v1/events", None, Some(&event.to_string())).0, 401);
    assert_eq!(server.ask("POST", "/v1/events", Some("flyball_agent_0"), Some(&event.to_string())).0, 401);
    assert_eq!(server.ask("GET", "/healthz", None, None), (200, "ok\n".to_owned()));
}

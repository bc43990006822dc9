//! Long conversations reach the provider in the form its protocol requires; the server rejects anything else.

use super::harness::{PROTOCOLS, ProtocolKind, ask, provider, question, server};
use flyball_model_server::ReplyBehavior;
use flyball_runner::provider::{ChatMessage, ModelRequest, ModelToolCall};
use serde_json::{Value, json};

fn call(id: &str) -> ModelToolCall {
    ModelToolCall { id: id.to_owned(), name: "bash".to_owned(), args: json!({"command": "ls"}) }
}

fn calls(text: &str, ids: &[&str]) -> ChatMessage {
    ChatMessage::Assistant { text: text.to_owned(), calls: ids.iter().map(|id| call(id)).collect() }
}

/// Request body that the server accepted.
fn request_body_for(kind: ProtocolKind, messages: Vec<ChatMessage>) -> Value {
    let server = server([ReplyBehavior::text("fine")]);
    let provider = provider(&kind.config(&server.url(), &json!({}))).unwrap();
    let request = ModelRequest { messages, system: None, ..question() };
    let asked = ask(provider.as_ref(), &request);
    assert_eq!(asked.reply().text, "fine", "{kind:?} {:?}", server.requests()[0].problem);
    server.requests().remove(0).body["messages"].clone()
}

/// Conversations with gaps, odd ids and irregular order.
fn irregular_conversations() -> Vec<Vec<ChatMessage>> {
    let user = ChatMessage::user;
    let result = ChatMessage::result;
    let long_id = "x".repeat(200);
    vec![
        vec![
            user("go"),
            calls("", &["a", "b"]),
            result("b", true, "2"),
            result("a", false, "1"),
            user("and?"),
        ],
        vec![user("go"), calls("on it", &["a", "b"])],
        vec![user("go"), calls("", &["a"]), user("wait"), result("a", true, "1")],
        vec![
            user("one"),
            user("two"),
            ChatMessage::assistant("a"),
            ChatMessage::assistant("b"),
            user("three"),
        ],
        vec![ChatMessage::assistant("I begin"), user("why?")],
        vec![calls("", &["a"]), result("a", true, "")],
        vec![user("go"), result("nobody", true, "asked"), user("on")],
        vec![user("go"), calls(" \n", &["functions.bash:0", "ключ", ""]), user("?")],
        vec![user("go"), calls("", &[&long_id]), result(&long_id, true, "ok")],
        vec![
            user("go"),
            calls("", &["0"]),
            result("0", true, "1"),
            calls("", &["0"]),
            result("0", true, "2"),
        ],
        vec![user("go"), ChatMessage::assistant(""), user("on"), ChatMessage::assistant("bye \n")],
    ]
}

#[test]
fn irregular_conversations_are_accepted() {
    for kind in PROTOCOLS {
        for messages in irregular_conversations() {
            request_body_for(kind, messages);
        }
    }
}

#[test]
fn openai_results_are_separate_messages() {
    let result = ChatMessage::result;
    let messages = vec![
        ChatMessage::user("go"),
        calls("", &["a", "b"]),
        result("b", true, "2"),
        ChatMessage::user("and?"),
        result("a", false, "1"),
    ];
    let arguments = r#"{"command":"ls"}"#;
    let made = |id: &str| json!({"id": id, "type": "function", "function": {"name": "bash", "arguments": arguments}});
    let expected = json!([
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": null, "tool_calls": [made("a"), made("b")]},
        {"role": "tool", "tool_call_id": "a", "content": "1"},
        {"role": "tool", "tool_call_id": "b", "content": "2"},
        {"role": "user", "content": "and?"},
    ]);
    assert_eq!(request_body_for(ProtocolKind::OpenAi, messages), expected);
}

#[test]
fn anthropic_roles_alternate_with_results_first() {
    let result = ChatMessage::result;
    let messages = vec![
        ChatMessage::user("go"),
        ChatMessage::user("now"),
        calls("on it", &["a", "b"]),
        ChatMessage::user("and?"),
        result("b", true, "2"),
        result("a", false, "1"),
    ];
    let made = |id: &str| json!({"type": "tool_use", "id": id, "name": "bash", "input": {"command": "ls"}});
    let text = |text: &str| json!({"type": "text", "text": text});
    let expected = json!([
        {"role": "user", "content": [text("go"), text("now")]},
        {"role": "assistant", "content": [text("on it"), made("a"), made("b")]},
        {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "a", "content": "1", "is_error": true},
            {"type": "tool_result", "tool_use_id": "b", "content": "2"},
            text("and?"),
        ]},
    ]);
    assert_eq!(request_body_for(ProtocolKind::Anthropic, messages), expected);
}

#[test]
fn tool_call_round_trip_works() {
    for kind in PROTOCOLS {
        let first =
            ReplyBehavior::text("look").call("bash", json!({"command": "ls"})).call("bash", json!({}));
        let server = server([first, ReplyBehavior::text("done")]);
        let provider = provider(&kind.config(&server.url(), &json!({}))).unwrap();
        let mut request = question();
        let asked = ask(provider.as_ref(), &request);
        let reply = asked.reply();
        request.messages.push(reply.message());
        for call in &reply.calls {
            request.messages.push(ChatMessage::result(call.id.as_str(), true, "some files"));
        }
        assert_eq!(ask(provider.as_ref(), &request).reply().text, "done", "{kind:?}");
        assert_eq!(server.requests()[1].rounds(), 1);
    }
}

#[test]
fn empty_conversation_is_rejected_before_sending() {
    for kind in PROTOCOLS {
        let server = server([]);
        let provider = provider(&kind.config(&server.url(), &json!({}))).unwrap();
        for messages in [vec![], vec![ChatMessage::user("  ")]] {
            let request = ModelRequest { messages, system: None, ..question() };
            assert_eq!(ask(provider.as_ref(), &request).error().code(), "provider_bad_request");
        }
        assert!(server.requests().is_empty());
    }
}

/// Later versions read stored conversations: this JSON must never change.
#[test]
fn stored_message_format_is_stable() {
    let messages = vec![
        ChatMessage::user("go"),
        calls("on it", &["a"]),
        ChatMessage::result("a", false, "no"),
        ChatMessage::assistant("done"),
    ];
    let stored = r#"[{"role":"user","text":"go"},{"role":"assistant","text":"on it","calls":[{"id":"a","name":"bash","args":{"command":"ls"}}]},{"role":"tool","call":"a","text":"no","ok":false},{"role":"assistant","text":"done"}]"#;
    assert_eq!(serde_json::to_string(&messages).unwrap(), stored);
    assert_eq!(serde_json::from_str::<Vec<ChatMessage>>(stored).unwrap(), messages);
}

//! Long conversations reach the provider as its protocol wants them; the server refuses everything else.

use super::kit::{BOTH, Kind, ask, provider, question, server};
use flyball_model_server::Behaviour;
use flyball_run::provider::{Call, Message, Request};
use serde_json::{Value, json};

fn call(id: &str) -> Call {
    Call { id: id.to_owned(), name: "bash".to_owned(), args: json!({"command": "ls"}) }
}

fn calls(text: &str, ids: &[&str]) -> Message {
    Message::Assistant { text: text.to_owned(), calls: ids.iter().map(|id| call(id)).collect() }
}

/// What the server got; it has accepted it, or the ask would have failed.
fn sent(kind: Kind, messages: Vec<Message>) -> Value {
    let server = server([Behaviour::text("fine")]);
    let provider = provider(&kind.config(&server.url(), &json!({}))).unwrap();
    let request = Request { messages, system: None, ..question() };
    let asked = ask(provider.as_ref(), &request);
    assert_eq!(asked.reply().text, "fine", "{kind:?} {:?}", server.requests()[0].problem);
    server.requests().remove(0).body["messages"].clone()
}

/// Conversations with gaps, odd ids and voices out of turn.
fn untidy() -> Vec<Vec<Message>> {
    let user = Message::user;
    let result = Message::result;
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
        vec![user("one"), user("two"), Message::assistant("a"), Message::assistant("b"), user("three")],
        vec![Message::assistant("I begin"), user("why?")],
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
        vec![user("go"), Message::assistant(""), user("on"), Message::assistant("bye \n")],
    ]
}

#[test]
fn untidy_conversations_are_accepted() {
    for kind in BOTH {
        for messages in untidy() {
            sent(kind, messages);
        }
    }
}

#[test]
fn openai_gets_each_result_as_a_message_of_its_own() {
    let result = Message::result;
    let messages = vec![
        Message::user("go"),
        calls("", &["a", "b"]),
        result("b", true, "2"),
        Message::user("and?"),
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
    assert_eq!(sent(Kind::OpenAi, messages), expected);
}

#[test]
fn anthropic_gets_voices_in_turn_and_results_first() {
    let result = Message::result;
    let messages = vec![
        Message::user("go"),
        Message::user("now"),
        calls("on it", &["a", "b"]),
        Message::user("and?"),
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
    assert_eq!(sent(Kind::Anthropic, messages), expected);
}

#[test]
fn a_whole_exchange_with_tools_goes_back_and_forth() {
    for kind in BOTH {
        let first = Behaviour::text("look").call("bash", json!({"command": "ls"})).call("bash", json!({}));
        let server = server([first, Behaviour::text("done")]);
        let provider = provider(&kind.config(&server.url(), &json!({}))).unwrap();
        let mut request = question();
        let asked = ask(provider.as_ref(), &request);
        let reply = asked.reply();
        request.messages.push(reply.message());
        for call in &reply.calls {
            request.messages.push(Message::result(call.id.as_str(), true, "some files"));
        }
        assert_eq!(ask(provider.as_ref(), &request).reply().text, "done", "{kind:?}");
        assert_eq!(server.requests()[1].rounds(), 1);
    }
}

#[test]
fn a_conversation_without_a_word_is_refused_before_it_is_sent() {
    for kind in BOTH {
        let server = server([]);
        let provider = provider(&kind.config(&server.url(), &json!({}))).unwrap();
        for messages in [vec![], vec![Message::user("  ")]] {
            let request = Request { messages, system: None, ..question() };
            assert_eq!(ask(provider.as_ref(), &request).error().code(), "provider_bad_request");
        }
        assert!(server.requests().is_empty());
    }
}

/// Stored conversations are read back by later versions: this JSON must never change.
#[test]
fn messages_are_stored_as_they_always_were() {
    let messages = vec![
        Message::user("go"),
        calls("on it", &["a"]),
        Message::result("a", false, "no"),
        Message::assistant("done"),
    ];
    let stored = r#"[{"role":"user","text":"go"},{"role":"assistant","text":"on it","calls":[{"id":"a","name":"bash","args":{"command":"ls"}}]},{"role":"tool","call":"a","text":"no","ok":false},{"role":"assistant","text":"done"}]"#;
    assert_eq!(serde_json::to_string(&messages).unwrap(), stored);
    assert_eq!(serde_json::from_str::<Vec<Message>>(stored).unwrap(), messages);
}

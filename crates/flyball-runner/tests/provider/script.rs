//! Scripted replies depend only on the conversation.

use super::harness::{AskResult, ask, ask_until, provider};
use flyball_runner::process::CancelToken;
use flyball_runner::provider::{ChatMessage, FinishReason, ModelRequest, ModelToolCall};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

fn script(mut config: Value) -> Value {
    config["kind"] = json!("script");
    config["retry"] = json!({"base": 1, "cap": 2});
    config
}

/// Sends each request to a new provider, as if the process had been killed in between.
fn ask_fresh_provider(config: &Value, request: &ModelRequest) -> AskResult {
    ask(provider(&script(config.clone())).unwrap().as_ref(), request)
}

fn at(node: &str, turn: u64) -> ModelRequest {
    ModelRequest { node: Some(node.to_owned()), turn, ..ModelRequest::new("go") }
}

/// All replies of one turn until the script is exhausted.
fn replies_of_turn(config: &Value, mut request: ModelRequest) -> Vec<String> {
    let mut said = Vec::new();
    loop {
        let asked = ask_fresh_provider(config, &request);
        match &asked.result {
            Ok(reply) if said.len() < 5 => {
                said.push(reply.text.clone());
                request.messages.push(reply.message());
                request.messages.push(ChatMessage::user("and?"));
            }
            Ok(_) => return said,
            Err(error) => {
                assert_eq!(error.code(), "script_exhausted");
                return said;
            }
        }
    }
}

#[test]
fn replies_are_ordered_and_survive_restart() {
    let config = json!({"replies": ["one", "two", "three"]});
    assert_eq!(replies_of_turn(&config, ModelRequest::new("go")), ["one", "two", "three"]);
    assert_eq!(replies_of_turn(&config, ModelRequest::new("go")), ["one", "two", "three"]);
}

#[test]
fn nodes_and_turns_have_separate_lists() {
    let config = json!({
        "nodes": {"coder": {"turns": [["a1", "a2"], ["b1"]]}, "tester": {"replies": ["t1", "t2"]}},
        "replies": ["other"],
    });
    assert_eq!(replies_of_turn(&config, at("coder", 1)), ["a1", "a2"]);
    assert_eq!(replies_of_turn(&config, at("coder", 0)), ["a1", "a2"], "turn 0 means the first turn");
    assert_eq!(replies_of_turn(&config, at("coder", 2)), ["b1"]);
    assert_eq!(replies_of_turn(&config, at("coder", 3)), Vec::<String>::new());
    assert_eq!(replies_of_turn(&config, at("tester", 1)), ["t1", "t2"]);
    assert_eq!(replies_of_turn(&config, at("tester", 7)), ["t1", "t2"]);
    assert_eq!(replies_of_turn(&config, at("writer", 1)), ["other"]);
    // A turn that starts in the middle of a conversation counts from there.
    let mut request = at("coder", 2);
    request.messages =
        vec![ChatMessage::user("go"), ChatMessage::assistant("a1"), ChatMessage::user("again")];
    request.turn_from = 2;
    assert_eq!(ask_fresh_provider(&config, &request).reply().text, "b1");
}

#[test]
fn last_reply_repeats_if_configured() {
    let config =
        json!({"repeat": "last", "replies": ["one", "two"], "nodes": {"n": {"turns": [["a", "b"], ["c"]]}}});
    assert_eq!(replies_of_turn(&config, ModelRequest::new("go")), ["one", "two", "two", "two", "two"]);
    assert_eq!(replies_of_turn(&config, at("n", 9)), ["c", "c", "c", "c", "c"]);
}

#[test]
fn exhausted_script_error_has_location_and_help() {
    let asked = ask_fresh_provider(&json!({"nodes": {"coder": {"turns": [["a"]]}}}), &at("coder", 2));
    let error = asked.error();
    assert_eq!(error.code(), "script_exhausted");
    assert_eq!(error.message, "the script has no reply 1 in turn 2 of node 'coder'");
    assert!(error.help.contains("repeat: last"));
}

fn conversation(last: &[ChatMessage]) -> ModelRequest {
    let call =
        |id: &str, name: &str| ModelToolCall { id: id.to_owned(), name: name.to_owned(), args: json!({}) };
    let calls = vec![call("a", "bash"), call("b", "read")];
    let mut messages =
        vec![ChatMessage::user("go needle"), ChatMessage::Assistant { text: String::new(), calls }];
    messages.extend(last.iter().cloned());
    ModelRequest { messages, node: Some("coder".to_owned()), turn: 3, ..ModelRequest::default() }
}

#[test]
fn rules_match_messages_since_the_last_reply() {
    let result = ChatMessage::result;
    let both_fine = [result("a", true, "alpha 17"), result("b", true, "beta")];
    let one_failed = [result("a", false, "alpha 17"), result("b", true, "beta")];
    let cases: [(Value, &[ChatMessage], bool); 18] = [
        (json!({"contains": "alpha"}), &both_fine, true),
        (json!({"contains": "needle"}), &both_fine, false),
        (json!({"contains": "gamma"}), &both_fine, false),
        (json!({"matches": r"alpha \d+$"}), &both_fine, true),
        (json!({"matches": r"^\d+"}), &both_fine, false),
        (json!({"tool_failed": true}), &one_failed, true),
        (json!({"tool_failed": true}), &both_fine, false),
        (json!({"tool_failed": false}), &both_fine, true),
        (json!({"tool_failed": false}), &one_failed, false),
        (json!({"tool": "read"}), &both_fine[1..], true),
        (json!({"tool": "bash"}), &both_fine[1..], false),
        (json!({"node": "coder"}), &both_fine, true),
        (json!({"node": "tester"}), &both_fine, false),
        (json!({"turn": 3}), &both_fine, true),
        (json!({"turn": 2}), &both_fine, false),
        (json!({"round": 2}), &both_fine, true),
        (json!({"round": 1}), &both_fine, false),
        (json!({"contains": "alpha", "tool_failed": true}), &both_fine, false),
    ];
    for (when, last, expected) in cases {
        let config = json!({"rules": [{"when": when, "reply": "rule"}], "otherwise": "otherwise"});
        let text = ask_fresh_provider(&config, &conversation(last)).reply().text.clone();
        assert_eq!(text == "rule", expected, "{when}");
    }
}

#[test]
fn rules_precede_lists_and_lists_precede_otherwise() {
    let config = json!({
        "rules": [{"when": {"contains": "x"}, "reply": "first"}, {"when": {"contains": "xy"}, "reply": "second"}],
        "nodes": {"n": {"replies": ["of n"]}}, "replies": ["of all"], "otherwise": "otherwise",
    });
    let say = |text: &str, node: Option<&str>| {
        let request = ModelRequest { node: node.map(str::to_owned), ..ModelRequest::new(text) };
        ask_fresh_provider(&config, &request).reply().text.clone()
    };
    assert_eq!(say("xy", Some("n")), "first");
    assert_eq!(say("y", Some("n")), "of n");
    assert_eq!(say("y", None), "of all");
    let mut later = ModelRequest::new("y");
    later.messages.extend([ChatMessage::assistant("a"), ChatMessage::user("b")]);
    assert_eq!(ask_fresh_provider(&config, &later).reply().text, "otherwise");
}

#[test]
fn calls_usage_and_finish_reason_follow_the_script() {
    let reply = json!({"text": "two words", "stop": "max_tokens", "usage": {"tokens_in": 1000, "tokens_out": 10},
        "calls": [{"tool": "bash", "args": {"a": 1}}, {"tool": "bash", "id": "mine"}, {"tool": "bash", "raw": "{\"a\""}]});
    let config = json!({"replies": [reply], "price": {"input_per_million_usd": 1, "output_per_million_usd": 10}, "model": "m1"});
    let asked = ask_fresh_provider(&config, &at("my node!", 2));
    let reply = asked.reply();
    let calls: Vec<_> = reply.calls.iter().map(|call| (call.id.as_str(), call.args.clone())).collect();
    assert_eq!(calls, [("mynode-2-1-1", json!({"a": 1})), ("mine", json!({}))]);
    assert_eq!((reply.malformed[0].id.as_str(), reply.malformed[0].raw.as_str()), ("mynode-2-1-3", "{\"a\""));
    assert_eq!((&reply.stop, reply.model.as_str()), (&FinishReason::MaxTokens, "m1"));
    assert_eq!(reply.usage.cost_micros, Some(1_100));
    assert!(!reply.usage.estimated);
    assert_eq!(asked.texts, ["two ", "words"]);

    let asked = ask_fresh_provider(&json!({"replies": ["12345"]}), &ModelRequest::new("123456789"));
    let used = asked.reply().usage;
    assert_eq!((used.tokens_in, used.tokens_out, used.estimated, used.cost_micros), (3, 2, true, None));
}

#[test]
fn scripted_failures_are_retried() {
    let fail = |status: u16, times: Option<u32>| json!({"replies": [{"text": "well", "fail": {"status": status, "message": "no"}, "times": times}]});
    let asked = ask_fresh_provider(&fail(503, Some(2)), &ModelRequest::new("go"));
    assert_eq!(asked.reply().text, "well");
    let notices: Vec<_> = asked.retries.iter().map(|retry| (retry.code, retry.status)).collect();
    assert_eq!(notices, [("provider_overloaded", Some(503)); 2]);

    for (status, code, attempts) in
        [(429, "provider_rate_limited", 5), (401, "provider_auth", 1), (400, "provider_bad_request", 1)]
    {
        let asked = ask_fresh_provider(&fail(status, None), &ModelRequest::new("go"));
        assert_eq!((asked.error().code(), asked.error().attempts), (code, attempts));
        assert_eq!(asked.error().message, format!("the provider answered {status}: no"));
    }

    let waiting = json!({"replies": [{"fail": {"status": 429, "retry_after": "2h"}}]});
    let asked = ask_fresh_provider(&waiting, &ModelRequest::new("go"));
    assert_eq!(asked.error().retry_after_ms, Some(7_200_000));
    assert!(asked.retries.is_empty(), "the delay exceeds the turn");
}

#[test]
fn scripted_truncation_is_reported() {
    let asked = ask_fresh_provider(
        &json!({"replies": [{"text": "abcdef", "cut_at": 4, "calls": [{"tool": "x"}]}]}),
        &ModelRequest::new("go"),
    );
    let error = asked.error();
    assert_eq!((error.code(), error.attempts), ("provider_truncated", 1));
    let partial = error.partial.as_ref().unwrap();
    assert_eq!((partial.text.as_str(), partial.calls.len()), ("abcd", 0));
    assert_eq!(asked.text(), "abcd");
    let asked = ask_fresh_provider(
        &json!({"replies": [{"text": "abcdef", "cut_at": 0, "times": 1}]}),
        &ModelRequest::new("go"),
    );
    assert_eq!((asked.reply().text.as_str(), asked.retries.len()), ("abcdef", 1));
}

#[test]
fn slow_script_respects_deadline_and_cancel() {
    let slow = provider(&script(json!({"replies": [{"text": "x", "wait": "2h"}]}))).unwrap();
    let began = Instant::now();
    let request = ModelRequest { deadline: Some(Duration::from_millis(50)), ..ModelRequest::new("go") };
    assert_eq!(ask(slow.as_ref(), &request).error().code(), "provider_timeout");
    let cancel = CancelToken::new();
    let asked = std::thread::scope(|scope| {
        let request = ModelRequest { deadline: Some(Duration::from_secs(3_600)), ..ModelRequest::new("go") };
        let (slow, pressed) = (slow.as_ref(), &cancel);
        let asking = scope.spawn(move || ask_until(slow, &request, pressed));
        cancel.cancel();
        asking.join().unwrap()
    });
    assert_eq!(asked.error().code(), "provider_cancelled");
    assert!(began.elapsed() < Duration::from_secs(30));
}

#[test]
fn script_text_is_not_redacted() {
    let token = "ghp_0123456789abcdefghijABCDEFGHIJ012345";
    assert_eq!(
        ask_fresh_provider(&json!({"replies": [token]}), &ModelRequest::new("go")).reply().text,
        token
    );
}

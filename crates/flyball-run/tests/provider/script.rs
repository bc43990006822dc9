//! Scripted answers: the same for the same conversation, whoever asks and however often.

use super::kit::{Asked, ask, ask_until, provider};
use flyball_run::process::Cancel;
use flyball_run::provider::{Call, Message, Request, Stop};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

fn script(mut config: Value) -> Value {
    config["kind"] = json!("script");
    config["retry"] = json!({"base": 1, "cap": 2});
    config
}

/// Each ask is put to a provider of its own, as if the process had been killed in between.
fn fresh(config: &Value, request: &Request) -> Asked {
    ask(provider(&script(config.clone())).unwrap().as_ref(), request)
}

fn at(node: &str, turn: u64) -> Request {
    Request { node: Some(node.to_owned()), turn, ..Request::new("go") }
}

/// Everything that is said in one turn until the script has no more.
fn told(config: &Value, mut request: Request) -> Vec<String> {
    let mut said = Vec::new();
    loop {
        let asked = fresh(config, &request);
        match &asked.result {
            Ok(reply) if said.len() < 5 => {
                said.push(reply.text.clone());
                request.messages.push(reply.message());
                request.messages.push(Message::user("and?"));
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
fn answers_come_in_order_and_a_fresh_process_goes_on_where_the_old_one_was() {
    let config = json!({"replies": ["one", "two", "three"]});
    assert_eq!(told(&config, Request::new("go")), ["one", "two", "three"]);
    assert_eq!(told(&config, Request::new("go")), ["one", "two", "three"]);
}

#[test]
fn nodes_and_turns_have_lists_of_their_own() {
    let config = json!({
        "nodes": {"coder": {"turns": [["a1", "a2"], ["b1"]]}, "tester": {"replies": ["t1", "t2"]}},
        "replies": ["other"],
    });
    assert_eq!(told(&config, at("coder", 1)), ["a1", "a2"]);
    assert_eq!(told(&config, at("coder", 0)), ["a1", "a2"], "no turn is the first one");
    assert_eq!(told(&config, at("coder", 2)), ["b1"]);
    assert_eq!(told(&config, at("coder", 3)), Vec::<String>::new());
    assert_eq!(told(&config, at("tester", 1)), ["t1", "t2"]);
    assert_eq!(told(&config, at("tester", 7)), ["t1", "t2"]);
    assert_eq!(told(&config, at("writer", 1)), ["other"]);
    // A turn that begins in the middle of a conversation counts from there.
    let mut request = at("coder", 2);
    request.messages = vec![Message::user("go"), Message::assistant("a1"), Message::user("again")];
    request.turn_from = 2;
    assert_eq!(fresh(&config, &request).reply().text, "b1");
}

#[test]
fn the_last_answer_is_repeated_if_the_file_says_so() {
    let config =
        json!({"repeat": "last", "replies": ["one", "two"], "nodes": {"n": {"turns": [["a", "b"], ["c"]]}}});
    assert_eq!(told(&config, Request::new("go")), ["one", "two", "two", "two", "two"]);
    assert_eq!(told(&config, at("n", 9)), ["c", "c", "c", "c", "c"]);
}

#[test]
fn an_exhausted_script_says_where_and_what_to_do() {
    let asked = fresh(&json!({"nodes": {"coder": {"turns": [["a"]]}}}), &at("coder", 2));
    let error = asked.error();
    assert_eq!(error.code(), "script_exhausted");
    assert_eq!(error.what, "the script has no answer 1 in turn 2 of node 'coder'");
    assert!(error.advice.contains("repeat: last"));
}

fn conversation(last: &[Message]) -> Request {
    let call = |id: &str, name: &str| Call { id: id.to_owned(), name: name.to_owned(), args: json!({}) };
    let calls = vec![call("a", "bash"), call("b", "read")];
    let mut messages = vec![Message::user("go needle"), Message::Assistant { text: String::new(), calls }];
    messages.extend(last.iter().cloned());
    Request { messages, node: Some("coder".to_owned()), turn: 3, ..Request::default() }
}

#[test]
fn rules_look_at_what_was_said_since_the_model_spoke() {
    let result = Message::result;
    let both_fine = [result("a", true, "alpha 17"), result("b", true, "beta")];
    let one_failed = [result("a", false, "alpha 17"), result("b", true, "beta")];
    let cases: [(Value, &[Message], bool); 18] = [
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
        let text = fresh(&config, &conversation(last)).reply().text.clone();
        assert_eq!(text == "rule", expected, "{when}");
    }
}

#[test]
fn rules_come_before_lists_and_lists_before_otherwise() {
    let config = json!({
        "rules": [{"when": {"contains": "x"}, "reply": "first"}, {"when": {"contains": "xy"}, "reply": "second"}],
        "nodes": {"n": {"replies": ["of n"]}}, "replies": ["of all"], "otherwise": "otherwise",
    });
    let say = |text: &str, node: Option<&str>| {
        let request = Request { node: node.map(str::to_owned), ..Request::new(text) };
        fresh(&config, &request).reply().text.clone()
    };
    assert_eq!(say("xy", Some("n")), "first");
    assert_eq!(say("y", Some("n")), "of n");
    assert_eq!(say("y", None), "of all");
    let mut later = Request::new("y");
    later.messages.extend([Message::assistant("a"), Message::user("b")]);
    assert_eq!(fresh(&config, &later).reply().text, "otherwise");
}

#[test]
fn calls_tokens_and_reasons_are_what_the_script_says() {
    let reply = json!({"text": "two words", "stop": "max_tokens", "usage": {"tokens_in": 1000, "tokens_out": 10},
        "calls": [{"tool": "bash", "args": {"a": 1}}, {"tool": "bash", "id": "mine"}, {"tool": "bash", "raw": "{\"a\""}]});
    let config = json!({"replies": [reply], "price": {"input_per_million_usd": 1, "output_per_million_usd": 10}, "model": "m1"});
    let asked = fresh(&config, &at("my node!", 2));
    let reply = asked.reply();
    let calls: Vec<_> = reply.calls.iter().map(|call| (call.id.as_str(), call.args.clone())).collect();
    assert_eq!(calls, [("mynode-2-1-1", json!({"a": 1})), ("mine", json!({}))]);
    assert_eq!((reply.malformed[0].id.as_str(), reply.malformed[0].raw.as_str()), ("mynode-2-1-3", "{\"a\""));
    assert_eq!((&reply.stop, reply.model.as_str()), (&Stop::MaxTokens, "m1"));
    assert_eq!(reply.usage.cost_micros, Some(1_100));
    assert!(!reply.usage.estimated);
    assert_eq!(asked.texts, ["two ", "words"]);

    let asked = fresh(&json!({"replies": ["12345"]}), &Request::new("123456789"));
    let used = asked.reply().usage;
    assert_eq!((used.tokens_in, used.tokens_out, used.estimated, used.cost_micros), (3, 2, true, None));
}

#[test]
fn scripted_failures_are_tried_again_like_real_ones() {
    let fail = |status: u16, times: Option<u32>| json!({"replies": [{"text": "well", "fail": {"status": status, "message": "no"}, "times": times}]});
    let asked = fresh(&fail(503, Some(2)), &Request::new("go"));
    assert_eq!(asked.reply().text, "well");
    let told: Vec<_> = asked.retries.iter().map(|retry| (retry.code, retry.status)).collect();
    assert_eq!(told, [("provider_overloaded", Some(503)); 2]);

    for (status, code, attempts) in
        [(429, "provider_rate_limited", 5), (401, "provider_auth", 1), (400, "provider_bad_request", 1)]
    {
        let asked = fresh(&fail(status, None), &Request::new("go"));
        assert_eq!((asked.error().code(), asked.error().attempts), (code, attempts));
        assert_eq!(asked.error().what, format!("the provider answered {status}: no"));
    }

    let waiting = json!({"replies": [{"fail": {"status": 429, "retry_after": "2h"}}]});
    let asked = fresh(&waiting, &Request::new("go"));
    assert_eq!(asked.error().retry_after_ms, Some(7_200_000));
    assert!(asked.retries.is_empty(), "longer than the turn");
}

#[test]
fn scripted_cuts_break_off_like_real_ones() {
    let asked = fresh(
        &json!({"replies": [{"text": "abcdef", "cut_at": 4, "calls": [{"tool": "x"}]}]}),
        &Request::new("go"),
    );
    let error = asked.error();
    assert_eq!((error.code(), error.attempts), ("provider_truncated", 1));
    let partial = error.partial.as_ref().unwrap();
    assert_eq!((partial.text.as_str(), partial.calls.len()), ("abcd", 0));
    assert_eq!(asked.text(), "abcd");
    let asked =
        fresh(&json!({"replies": [{"text": "abcdef", "cut_at": 0, "times": 1}]}), &Request::new("go"));
    assert_eq!((asked.reply().text.as_str(), asked.retries.len()), ("abcdef", 1));
}

#[test]
fn a_slow_script_keeps_to_the_deadline_and_can_be_cancelled() {
    let slow = provider(&script(json!({"replies": [{"text": "x", "wait": "2h"}]}))).unwrap();
    let began = Instant::now();
    let request = Request { deadline: Some(Duration::from_millis(50)), ..Request::new("go") };
    assert_eq!(ask(slow.as_ref(), &request).error().code(), "provider_timeout");
    let cancel = Cancel::new();
    let asked = std::thread::scope(|scope| {
        let request = Request { deadline: Some(Duration::from_secs(3_600)), ..Request::new("go") };
        let (slow, pressed) = (slow.as_ref(), &cancel);
        let asking = scope.spawn(move || ask_until(slow, &request, pressed));
        cancel.cancel();
        asking.join().unwrap()
    });
    assert_eq!(asked.error().code(), "provider_cancelled");
    assert!(began.elapsed() < Duration::from_secs(30));
}

#[test]
fn what_a_script_says_is_nobodys_key() {
    let token = "ghp_0123456789abcdefghijABCDEFGHIJ012345";
    assert_eq!(fresh(&json!({"replies": [token]}), &Request::new("go")).reply().text, token);
}

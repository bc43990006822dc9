//! Command providers with real programs.

use super::harness::{AskResult, ask, ask_until, provider, question};
use flyball_runner::process::CancelToken;
use flyball_runner::provider::{ChatMessage, FinishReason, ModelRequest};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// A provider that runs a shell script.
fn config(script: &str, more: &Value) -> Value {
    let mut config = json!({"kind": "command", "argv": ["sh", "-c", script], "retry": {"base": 1, "cap": 2}});
    for (name, value) in more.as_object().unwrap() {
        config[name] = value.clone();
    }
    config
}

fn run(script: &str, more: &Value, request: &ModelRequest) -> AskResult {
    ask(provider(&config(script, more)).unwrap().as_ref(), request)
}

#[test]
fn plain_text_output_is_a_reply() {
    let asked = run("cat > /dev/null; printf 'hello\\nthere\\n'", &json!({}), &question());
    let reply = asked.reply();
    assert_eq!(
        (reply.text.as_str(), &reply.stop, reply.model.as_str()),
        ("hello\nthere", &FinishReason::End, "sh")
    );
    assert_eq!(asked.texts, ["hello\nthere"]);
    assert!(reply.usage.estimated && reply.usage.tokens_out == 3 && reply.usage.cost_micros.is_none());
}

#[test]
fn json_output_is_parsed() {
    let printed = json!({"text": "look", "model": "m", "stop": "max_tokens", "extra": 1,
        "usage": {"tokens_in": 5, "tokens_out": 6, "cached_in": 2, "extra": 1},
        "calls": [{"name": "bash", "args": {"a": 1}}, {"name": "bash", "id": "mine"}, {"name": "bash", "args": [1]}]});
    let price = json!({"price": {"input_per_million_usd": 1, "output_per_million_usd": 1}});
    for output in ["auto", "json"] {
        let mut more = price.clone();
        more["output"] = json!(output);
        more["env"] = json!({"ANSWER": printed.to_string()});
        let asked = run("printf '%s' \"$ANSWER\"", &more, &question());
        let reply = asked.reply();
        let calls: Vec<_> = reply.calls.iter().map(|call| (call.id.as_str(), call.args.clone())).collect();
        assert_eq!(calls, [("call-1-1-1", json!({"a": 1})), ("mine", json!({}))]);
        assert_eq!(
            (reply.malformed.len(), &reply.stop, reply.model.as_str()),
            (1, &FinishReason::MaxTokens, "m")
        );
        let used = reply.usage;
        assert_eq!((used.tokens_in, used.tokens_out, used.cached_in, used.cost_micros), (5, 6, 2, Some(11)));
    }
}

#[test]
fn output_format_is_enforced() {
    let cases = [
        ("auto", r#"{"answer": 42}"#, Ok(r#"{"answer": 42}"#)),
        ("auto", "[1]", Ok("[1]")),
        ("auto", "", Ok("")),
        ("text", r#"{"text": "x"}"#, Ok(r#"{"text": "x"}"#)),
        ("json", "hello", Err("provider_malformed")),
        ("json", r#"{"answer": 42}"#, Err("provider_malformed")),
        ("auto", r#"{"text": 42}"#, Err("provider_malformed")),
    ];
    for (output, printed, expected) in cases {
        let more = json!({"output": output, "env": {"ANSWER": printed}});
        let asked = run("printf '%s' \"$ANSWER\"", &more, &question());
        match expected {
            Ok(text) => assert_eq!(asked.reply().text, text, "{output} {printed}"),
            Err(code) => {
                assert_eq!(asked.error().code(), code, "{output} {printed}");
                assert!(asked.error().help.contains("output: text"));
            }
        }
    }
}

#[test]
fn text_is_streamed_at_char_boundaries() {
    // A multi-byte character in two halves.
    let script = "printf 'a\\360\\237'; sleep 0.3; printf '\\220\\242b'";
    let asked = run(script, &json!({"output": "text"}), &question());
    assert_eq!(asked.reply().text, "a🐢b");
    assert_eq!(asked.text(), "a🐢b");
    assert!(asked.texts.iter().all(|text| !text.contains('\u{fffd}')), "{:?}", asked.texts);
}

#[test]
fn request_is_passed_on_stdin() {
    let mut request = question();
    request.node = Some("coder".to_owned());
    request.messages.extend([ChatMessage::assistant("yes?"), ChatMessage::user("go on")]);
    let asked = run("cat", &json!({"output": "text"}), &request);
    let read: Value = serde_json::from_str(&asked.reply().text).unwrap();
    assert_eq!(read["messages"][1], json!({"role": "assistant", "text": "yes?"}));
    assert_eq!(
        (&read["system"], &read["node"], &read["turn"]),
        (&json!("be brief"), &json!("coder"), &json!(1))
    );
    assert_eq!(read["tools"][0]["name"], json!("bash"));
    let left = read["deadline_ms"].as_u64().unwrap();
    assert!(left > 0 && left <= 60_000, "{left}");

    let asked = run("cat", &json!({"output": "text", "input": "prompt"}), &question());
    assert_eq!(asked.reply().text, "be brief\n\nwhat is there?");
    let asked = run("cat", &json!({"output": "text", "input": "prompt"}), &request);
    assert_eq!(asked.reply().text, "be brief\n\nUser: what is there?\n\nAssistant: yes?\n\nUser: go on");
}

#[test]
fn directory_and_environment_follow_the_config() {
    let folder = std::env::temp_dir().canonicalize().unwrap();
    let more = json!({"dir": folder, "env": {"GREETING": "hi"}});
    let asked = run("printf '%s %s' \"$GREETING\" \"$(pwd -P)\"", &more, &question());
    assert_eq!(asked.reply().text, format!("hi {}", folder.display()));
}

#[test]
fn failure_includes_stderr_tail_without_secrets() {
    let script = "echo first >&2; g=ghp_; echo token ${g}0123456789abcdefghijABCDEFGHIJ012345 >&2; exit 3";
    let asked = run(script, &json!({}), &question());
    let error = asked.error();
    assert_eq!((error.code(), error.attempts), ("provider_command_failed", 1));
    assert!(
        error.message.starts_with("'sh' exited with code 3: first / token [redacted"),
        "{}",
        error.message
    );
    assert!(!format!("{error:?}").contains("ghp_"));
    let asked = run("kill -9 $$", &json!({}), &question());
    assert_eq!(asked.error().code(), "provider_command_failed");
    assert!(asked.error().message.contains("signal 9"));
}

#[test]
fn exit_code_75_is_retried() {
    let folder = std::env::temp_dir().join(format!("flyball-provider-{}-again", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let _ = std::fs::remove_file(folder.join("seen"));
    let script = "test -e seen && echo well && exit 0; touch seen; echo busy >&2; exit 75";
    let asked = run(script, &json!({"dir": folder}), &question());
    std::fs::remove_dir_all(&folder).unwrap();
    assert_eq!(asked.reply().text, "well");
    assert_eq!(asked.retries[0].code, "provider_overloaded");
    assert!(asked.retries[0].message.contains("busy"));
}

#[test]
fn missing_program_is_unreachable() {
    let config = json!({"kind": "command", "argv": ["flyball-no-such-program"]});
    let asked = ask(provider(&config).unwrap().as_ref(), &question());
    assert_eq!((asked.error().code(), asked.error().attempts), ("provider_unreachable", 1));
    assert!(asked.error().message.contains("flyball-no-such-program") && !asked.error().help.is_empty());
}

#[test]
fn deadline_and_cancel_kill_the_program() {
    let began = Instant::now();
    let request = ModelRequest { deadline: Some(Duration::from_millis(500)), ..question() };
    let asked = run("printf begun; exec sleep 3600", &json!({"output": "text"}), &request);
    assert_eq!(asked.error().code(), "provider_timeout");

    let provider = provider(&config("printf begun; exec sleep 3600", &json!({"output": "text"}))).unwrap();
    let cancel = CancelToken::new();
    let request = ModelRequest { deadline: Some(Duration::from_secs(3_600)), ..question() };
    let result = provider.ask(&request, &cancel, &mut |_| cancel.cancel());
    let error = result.unwrap_err();
    assert_eq!((error.code(), error.partial.unwrap().text.as_str()), ("provider_cancelled", "begun"));

    cancel.cancel();
    assert_eq!(ask_until(provider.as_ref(), &request, &cancel).error().code(), "provider_cancelled");
    assert!(began.elapsed() < Duration::from_secs(60));
}

#[test]
fn oversized_output_is_rejected() {
    let asked = run("head -c 9000000 /dev/zero", &json!({}), &question());
    assert_eq!(asked.error().code(), "provider_malformed");
    assert!(asked.error().message.contains("more than"));
}

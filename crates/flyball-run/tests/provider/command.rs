//! Programs that answer: real ones, run by a real shell.

use super::kit::{Asked, ask, ask_until, provider, question};
use flyball_run::process::Cancel;
use flyball_run::provider::{Message, Request, Stop};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// A provider that is a shell script.
fn config(script: &str, more: &Value) -> Value {
    let mut config = json!({"kind": "command", "argv": ["sh", "-c", script], "retry": {"base": 1, "cap": 2}});
    for (name, value) in more.as_object().unwrap() {
        config[name] = value.clone();
    }
    config
}

fn run(script: &str, more: &Value, request: &Request) -> Asked {
    ask(provider(&config(script, more)).unwrap().as_ref(), request)
}

#[test]
fn plain_text_is_an_answer() {
    let asked = run("cat > /dev/null; printf 'hello\\nthere\\n'", &json!({}), &question());
    let reply = asked.reply();
    assert_eq!((reply.text.as_str(), &reply.stop, reply.model.as_str()), ("hello\nthere", &Stop::End, "sh"));
    assert_eq!(asked.texts, ["hello\nthere"]);
    assert!(reply.usage.estimated && reply.usage.tokens_out == 3 && reply.usage.cost_micros.is_none());
}

#[test]
fn a_reply_in_json_is_understood() {
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
        assert_eq!((reply.malformed.len(), &reply.stop, reply.model.as_str()), (1, &Stop::MaxTokens, "m"));
        let used = reply.usage;
        assert_eq!((used.tokens_in, used.tokens_out, used.cached_in, used.cost_micros), (5, 6, 2, Some(11)));
    }
}

#[test]
fn what_it_prints_is_judged_by_what_the_file_expects() {
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
                assert!(asked.error().advice.contains("output: text"));
            }
        }
    }
}

#[test]
fn text_is_heard_as_it_comes_and_never_with_half_a_character() {
    // A turtle in two halves.
    let script = "printf 'a\\360\\237'; sleep 0.3; printf '\\220\\242b'";
    let asked = run(script, &json!({"output": "text"}), &question());
    assert_eq!(asked.reply().text, "a🐢b");
    assert_eq!(asked.text(), "a🐢b");
    assert!(asked.texts.iter().all(|text| !text.contains('\u{fffd}')), "{:?}", asked.texts);
}

#[test]
fn it_reads_the_request() {
    let mut request = question();
    request.node = Some("coder".to_owned());
    request.messages.extend([Message::assistant("yes?"), Message::user("go on")]);
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
fn it_runs_where_and_with_what_the_file_says() {
    let folder = std::env::temp_dir().canonicalize().unwrap();
    let more = json!({"dir": folder, "env": {"GREETING": "hi"}});
    let asked = run("printf '%s %s' \"$GREETING\" \"$(pwd -P)\"", &more, &question());
    assert_eq!(asked.reply().text, format!("hi {}", folder.display()));
}

#[test]
fn failures_are_told_with_its_last_words_and_without_secrets() {
    let script = "echo first >&2; g=ghp_; echo token ${g}0123456789abcdefghijABCDEFGHIJ012345 >&2; exit 3";
    let asked = run(script, &json!({}), &question());
    let error = asked.error();
    assert_eq!((error.code(), error.attempts), ("provider_command_failed", 1));
    assert!(error.what.starts_with("'sh' exited with 3: first / token [redacted"), "{}", error.what);
    assert!(!format!("{error:?}").contains("ghp_"));
    let asked = run("kill -9 $$", &json!({}), &question());
    assert_eq!(asked.error().code(), "provider_command_failed");
    assert!(asked.error().what.contains("signal 9"));
}

#[test]
fn exit_75_asks_for_another_try() {
    let folder = std::env::temp_dir().join(format!("flyball-provider-{}-again", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let _ = std::fs::remove_file(folder.join("seen"));
    let script = "test -e seen && echo well && exit 0; touch seen; echo busy >&2; exit 75";
    let asked = run(script, &json!({"dir": folder}), &question());
    std::fs::remove_dir_all(&folder).unwrap();
    assert_eq!(asked.reply().text, "well");
    assert_eq!(asked.retries[0].code, "provider_overloaded");
    assert!(asked.retries[0].what.contains("busy"));
}

#[test]
fn a_program_that_is_not_there_is_unreachable() {
    let config = json!({"kind": "command", "argv": ["flyball-no-such-program"]});
    let asked = ask(provider(&config).unwrap().as_ref(), &question());
    assert_eq!((asked.error().code(), asked.error().attempts), ("provider_unreachable", 1));
    assert!(asked.error().what.contains("flyball-no-such-program") && !asked.error().advice.is_empty());
}

#[test]
fn it_is_ended_with_the_deadline_and_when_it_is_cancelled() {
    let began = Instant::now();
    let request = Request { deadline: Some(Duration::from_millis(500)), ..question() };
    let asked = run("printf begun; exec sleep 3600", &json!({"output": "text"}), &request);
    assert_eq!(asked.error().code(), "provider_timeout");

    let provider = provider(&config("printf begun; exec sleep 3600", &json!({"output": "text"}))).unwrap();
    let cancel = Cancel::new();
    let request = Request { deadline: Some(Duration::from_secs(3_600)), ..question() };
    let result = provider.ask(&request, &cancel, &mut |_| cancel.cancel());
    let error = result.unwrap_err();
    assert_eq!((error.code(), error.partial.unwrap().text.as_str()), ("provider_cancelled", "begun"));

    cancel.cancel();
    assert_eq!(ask_until(provider.as_ref(), &request, &cancel).error().code(), "provider_cancelled");
    assert!(began.elapsed() < Duration::from_secs(60));
}

#[test]
fn an_output_without_end_is_cut_off() {
    let asked = run("head -c 9000000 /dev/zero", &json!({}), &question());
    assert_eq!(asked.error().code(), "provider_malformed");
    assert!(asked.error().what.contains("more than"));
}

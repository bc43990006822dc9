//! The server itself: which requests it rejects, and that its responses are byte-exact.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a panic is how a test fails")]

use flyball_model_server::{
    Framing, ModelServer, RepeatMode, ReplyBehavior, ReplySelection, ResponsePlan, ServerScript, WriteStep,
};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};

const OPENAI: &str = "/v1/chat/completions";
const ANTHROPIC: &str = "/v1/messages";

/// Sends a raw request and reads until the server closes the connection.
fn send_raw(url: &str, path: &str, headers: &str, body: &str) -> String {
    let mut stream = TcpStream::connect(url.strip_prefix("http://").unwrap()).unwrap();
    let length = body.len();
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{headers}Content-Length: {length}\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(body.as_bytes()).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    String::from_utf8(answer).unwrap()
}

fn anthropic_version_header() -> &'static str {
    "anthropic-version: 2023-06-01\r\n"
}

/// Status and message of the response to a request.
fn status_and_message(path: &str, headers: &str, body: &Value) -> (u16, String) {
    let server = ModelServer::start(ServerScript::new([ReplyBehavior::text("accepted")])).unwrap();
    let answer = send_raw(&server.url(), path, headers, &body.to_string());
    let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
    let problem = server.requests().remove(0).problem.unwrap_or_default();
    (status, problem)
}

fn merged(base: &Value, more: Value) -> Value {
    let mut body = base.clone();
    for (name, value) in more.as_object().unwrap() {
        if value.is_null() {
            body.as_object_mut().unwrap().remove(name);
        } else {
            body[name] = value.clone();
        }
    }
    body
}

#[test]
fn invalid_openai_requests_are_rejected() {
    let good = json!({"model": "m", "messages": [{"role": "user", "content": "x"}]});
    let call = json!({"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}});
    let asks = json!({"role": "assistant", "content": null, "tool_calls": [call]});
    let result = json!({"role": "tool", "tool_call_id": "a", "content": "x"});
    let user = json!({"role": "user", "content": "x"});
    let said = |messages: Value| json!({"messages": messages});
    let cases = [
        (json!({}), ""),
        (said(json!([user, asks, result])), ""),
        (json!({"stream": true, "stream_options": {"include_usage": true}, "max_tokens": 5}), ""),
        (json!({"model": null}), "model"),
        (said(json!([])), "too short"),
        (json!({"frequency": 1}), "Unrecognized request argument"),
        (json!({"stream_options": {}}), "stream_options"),
        (json!({"max_tokens": 5, "max_completion_tokens": 5}), "same time"),
        (json!({"max_tokens": 0}), "max_tokens"),
        (json!({"tools": []}), "too short"),
        (json!({"tools": [{"type": "function", "function": {"name": "bad name"}}]}), "bad name"),
        (said(json!([{"role": "wizard", "content": "x"}])), "wizard"),
        (said(json!([{"role": "user"}])), "content"),
        (said(json!([user, asks])), "No tool output"),
        (said(json!([user, asks, user])), "must be followed by tool messages"),
        (said(json!([user, result])), "preceeding message with 'tool_calls'"),
        (said(json!([user, asks, result, result])), "preceeding message with 'tool_calls'"),
        (said(json!([{"role": "assistant", "content": null}])), "content"),
    ];
    for (more, problem) in cases {
        let body = merged(&good, more);
        let (status, said) = status_and_message(OPENAI, "", &body);
        assert_eq!(status, if problem.is_empty() { 200 } else { 400 }, "{body}: {said}");
        assert!(said.contains(problem), "{body}: {said}");
    }
}

#[test]
fn invalid_anthropic_requests_are_rejected() {
    let good = json!({"model": "m", "max_tokens": 5, "messages": [{"role": "user", "content": "x"}]});
    let user = json!({"role": "user", "content": "x"});
    let uses = |id: &str, input: Value| json!({"role": "assistant", "content": [{"type": "tool_use", "id": id, "name": "f", "input": input}]});
    let result = json!({"type": "tool_result", "tool_use_id": "a", "content": "x"});
    let text = json!({"type": "text", "text": "x"});
    let gives = |content: Value| json!({"role": "user", "content": content});
    let said = |messages: Value| json!({"messages": messages});
    let cases = [
        (json!({}), ""),
        (said(json!([user, uses("a", json!({})), gives(json!([result, text]))])), ""),
        (json!({"model": null}), "model"),
        (json!({"max_tokens": null}), "max_tokens"),
        (json!({"stream_options": {}}), "Extra inputs"),
        (json!({"system": 7}), "system"),
        (json!({"tools": [{"name": "f"}]}), "input_schema"),
        (said(json!([])), "at least one message"),
        (said(json!([user, user])), "alternate"),
        (said(json!([uses("a", json!({}))])), "alternate"),
        (said(json!([gives(json!(""))])), "non-empty"),
        (said(json!([gives(json!([{"type": "text", "text": " "}]))])), "non-whitespace"),
        (said(json!([user, uses("a", json!({}))])), "without `tool_result`"),
        (said(json!([user, uses("a", json!({})), gives(json!([text]))])), "without `tool_result`"),
        (said(json!([user, uses("a", json!({})), gives(json!([text, result]))])), "unexpected block"),
        (said(json!([gives(json!([result]))])), "unexpected `tool_use_id`"),
        (said(json!([user, uses("a.b", json!({})), gives(json!([result]))])), "should match pattern"),
        (said(json!([user, uses("a", json!("x")), gives(json!([result]))])), "valid dictionary"),
    ];
    for (more, problem) in cases {
        let body = merged(&good, more);
        let (status, said) = status_and_message(ANTHROPIC, anthropic_version_header(), &body);
        assert_eq!(status, if problem.is_empty() { 200 } else { 400 }, "{body}: {said}");
        assert!(said.contains(problem), "{body}: {said}");
    }
    assert_eq!(status_and_message(ANTHROPIC, "", &good).0, 400, "without a version header");
}

#[test]
fn scripted_key_is_required() {
    let server = ModelServer::start(ServerScript {
        key: Some("k".to_owned()),
        ..ServerScript::new([ReplyBehavior::text("x")])
    })
    .unwrap();
    let openai = json!({"model": "m", "messages": [{"role": "user", "content": "x"}]}).to_string();
    for (headers, status) in
        [("", "401"), ("Authorization: Bearer z\r\n", "401"), ("Authorization: Bearer k\r\n", "200")]
    {
        let answer = send_raw(&server.url(), OPENAI, headers, &openai);
        assert_eq!(answer.split(' ').nth(1), Some(status), "{headers}");
    }
    assert_eq!(server.requests().iter().map(|request| request.status).collect::<Vec<_>>(), [401, 401, 200]);
    assert!(send_raw(&server.url(), "/elsewhere", "", "{}").starts_with("HTTP/1.1 404"));
}

#[test]
fn exact_plan_is_written_byte_for_byte() {
    let steps = vec![
        WriteStep::Write("data: ж\n".to_owned()),
        WriteStep::WaitMs(1),
        WriteStep::Bytes(vec![b'\n', 0x7f]),
    ];
    let headers = vec![("X-B".to_owned(), "2".to_owned()), ("X-A".to_owned(), "1".to_owned())];
    let head = "HTTP/1.1 200 OK\r\nX-B: 2\r\nX-A: 1\r\n";
    let cases = [
        (
            Framing::Chunked,
            None,
            "Transfer-Encoding: chunked\r\n\r\n9\r\ndata: ж\n\r\n2\r\n\n\u{7f}\r\n0\r\n\r\n",
        ),
        (Framing::Length, None, "Content-Length: 11\r\n\r\ndata: ж\n\n\u{7f}"),
        (Framing::Length, Some(99), "Content-Length: 99\r\n\r\ndata: ж\n\n\u{7f}"),
        (Framing::Close, None, "Connection: close\r\n\r\ndata: ж\n\n\u{7f}"),
    ];
    for (framing, length, expected) in cases {
        let plan = ResponsePlan {
            status: 200,
            headers: headers.clone(),
            framing,
            length,
            steps: steps.clone(),
            before_ms: 1,
        };
        let said = ReplyBehavior { exact: Some(plan), ..ReplyBehavior::default() };
        let server = ModelServer::start(ServerScript::new([said])).unwrap();
        let body = json!({"model": "m", "messages": [{"role": "user", "content": "x"}]});
        assert_eq!(send_raw(&server.url(), OPENAI, "", &body.to_string()), format!("{head}{expected}"));
    }
}

#[test]
fn cut_at_ends_the_body_at_that_byte() {
    let body = json!({"model": "m", "messages": [{"role": "user", "content": "x"}]}).to_string();
    for cut in [0, 1, 5, 10] {
        let said = ReplyBehavior {
            body: Some("0123456789".to_owned()),
            cut_at: Some(cut),
            framing: Framing::Close,
            ..ReplyBehavior::default()
        };
        let server = ModelServer::start(ServerScript::new([said])).unwrap();
        let answer = send_raw(&server.url(), OPENAI, "", &body);
        assert_eq!(answer.split("\r\n\r\n").nth(1), Some(&"0123456789"[..cut]));
    }
}

#[test]
fn requests_are_recorded_and_connections_reused() {
    let script = ServerScript {
        repeat: RepeatMode::Last,
        pick: ReplySelection::Conversation,
        ..ServerScript::new([ReplyBehavior::text("a"), ReplyBehavior::text("b")])
    };
    let server = ModelServer::start(script).unwrap();
    let mut stream = TcpStream::connect(server.url().strip_prefix("http://").unwrap()).unwrap();
    let first = r#"{"model":"m", "messages":[{"role":"user","content":"ж"}]}"#;
    let second = r#"{"model":"m","messages":[{"role":"user","content":"x"},{"role":"assistant","content":"y"},{"role":"user","content":"z"}]}"#;
    // The first with its length, the second chunked, both sent before a response is read.
    let (length, half) = (first.len(), second.len() / 2);
    let (a, b) = second.split_at(half);
    let sent = format!(
        "POST {OPENAI} HTTP/1.1\r\nX-Mark: 1\r\nContent-Length: {length}\r\n\r\n{first}POST {OPENAI} HTTP/1.1\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n{:x}\r\n{a}\r\n{:x}\r\n{b}\r\n0\r\n\r\n",
        a.len(),
        b.len()
    );
    stream.write_all(sent.as_bytes()).unwrap();
    let mut answers = String::new();
    stream.read_to_string(&mut answers).unwrap();
    assert!(answers.contains(r#""content":"a""#) && answers.contains(r#""content":"b""#), "{answers}");
    let requests = server.requests();
    assert_eq!(requests[0].raw, first.as_bytes());
    assert_eq!(requests[1].raw, second.as_bytes());
    assert_eq!((requests[0].header("x-mark"), requests[1].rounds(), server.connections()), (Some("1"), 1, 1));
}

#[test]
fn exhausted_script_is_reported() {
    let server = ModelServer::start(ServerScript::new([])).unwrap();
    let body = json!({"model": "m", "messages": [{"role": "user", "content": "x"}]}).to_string();
    assert!(send_raw(&server.url(), OPENAI, "", &body).contains("the script has no reply 1"));
}

#[test]
fn scripts_parse_from_yaml_toml_and_json_and_reject_unknown_keys() {
    let yaml = "repeat: last\nreplies:\n  - text: hi\n    calls: [{name: bash, args: {a: 1}}]\n  - {status: 429, retry_after: '2'}\n";
    let script = ServerScript::parse(yaml, "s.yaml").unwrap();
    assert_eq!((script.replies.len(), script.repeat), (2, RepeatMode::Last));
    assert_eq!(
        ServerScript::parse(r#"{"replies": [{"text": "hi"}]}"#, "s.json").unwrap().replies[0].text,
        "hi"
    );
    assert!(ServerScript::parse("replies: [{txet: hi}]", "s.yaml").unwrap_err().contains("txet"));
    assert!(ServerScript::parse("replies: [", "s.yaml").unwrap_err().contains("s.yaml"));
}

#[test]
fn binary_serves_a_script_and_prints_its_address() {
    let folder = std::env::temp_dir().join(format!("flyball-model-server-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("script.yaml");
    std::fs::write(&file, "replies:\n  - text: from the file\n").unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_flyball-model-server"))
        .args(["--port", "0", "--script"])
        .arg(&file)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let body = json!({"model": "m", "messages": [{"role": "user", "content": "x"}]}).to_string();
    let answer = send_raw(line.trim(), OPENAI, "", &body);
    child.kill().unwrap();
    child.wait().unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    assert!(answer.contains("from the file"), "{answer}");
}

#[test]
fn binary_reports_usage_errors() {
    for (args, code, text) in [
        (vec!["--script"], 2, "requires a value"),
        (vec![], 2, "--script is missing"),
        (vec!["--script", "x", "--port", "many"], 2, "--port"),
        (vec!["--scirpt", "x"], 2, "--scirpt"),
        (vec!["--script", "/no/such/file"], 1, "/no/such/file"),
    ] {
        let ran = Command::new(env!("CARGO_BIN_EXE_flyball-model-server")).args(&args).output().unwrap();
        assert_eq!(ran.status.code(), Some(code), "{args:?}");
        assert!(String::from_utf8_lossy(&ran.stderr).contains(text), "{args:?}");
    }
}

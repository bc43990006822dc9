//! Failures of the store, the provider, the client and the proxy itself.

use super::agent_loops::repeating_model;
use super::proxy_harness::{
    ProviderProtocol, ProxyProcess, TEST_TIMEOUT, run_flyball, send, send_and_keep_open, test_dir,
};
use flyball_model_server::{Framing, ModelServer, ReplyBehavior, ResponsePlan, ServerScript, WriteStep};
use rustix::process::Signal;
use serde_json::json;
use std::io::Read;

fn hello_request(kind: ProviderProtocol) -> Vec<u8> {
    kind.request_body(&json!([{"role": "user", "content": "hello"}]), false)
}

#[test]
fn store_failure_passes_requests_with_a_warning() {
    let folder = test_dir("store-fails");
    let server =
        ModelServer::start(ServerScript::new((0..3).map(|n| ReplyBehavior::text(&format!("answer {n}")))))
            .unwrap();
    let proxy = ProxyProcess::start(&folder, &server.url(), &[]);
    let kind = ProviderProtocol::OpenAi;
    assert!(
        send(&proxy.address, &kind.request_head(), &hello_request(kind))
            .flyball_headers
            .contains_key("x-flyball-session")
    );
    break_store(&folder);
    let response = send(&proxy.address, &kind.request_head(), &hello_request(kind));
    assert_eq!(response.status, 200);
    assert!(response.text().contains("answer 1"), "{}", response.text());
    assert!(response.flyball_headers.contains_key("x-flyball-error"), "{:?}", response.flyball_headers);
    let said = proxy.stop();
    assert!(said.contains("error["), "{said}");
}

#[test]
fn store_failure_blocks_requests_with_on_error_block() {
    for kind in [ProviderProtocol::OpenAi, ProviderProtocol::Anthropic] {
        let folder = test_dir(&format!("store-blocks-{kind:?}"));
        let server = ModelServer::start(ServerScript::new([ReplyBehavior::text("answer")])).unwrap();
        let proxy = ProxyProcess::start(&folder, &server.url(), &["--on-error", "block"]);
        break_store(&folder);
        let response = send(&proxy.address, &kind.request_head(), &hello_request(kind));
        assert_eq!(response.status, 503);
        assert!(
            response.json()["error"]["message"].as_str().unwrap().starts_with("flyball: "),
            "{}",
            response.text()
        );
        assert!(server.requests().is_empty());
    }
}

/// Replaces the tables of the store.
fn break_store(folder: &std::path::Path) {
    let store = rusqlite::Connection::open(folder.join(".flyball/flyball.db")).unwrap();
    store
        .execute_batch(
            "PRAGMA writable_schema=ON; DROP TABLE IF EXISTS events; DROP TABLE IF EXISTS sessions;",
        )
        .unwrap();
    let tables: Vec<String> = store
        .prepare("SELECT name FROM sqlite_master WHERE type='table' AND name NOT LIKE 'sqlite_%'")
        .unwrap()
        .query_map([], |row| row.get(0))
        .unwrap()
        .map(Result::unwrap)
        .collect();
    for table in tables {
        store.execute_batch(&format!("PRAGMA foreign_keys=OFF; DROP TABLE \"{table}\";")).unwrap();
    }
}

#[test]
fn unreachable_provider_is_reported_in_the_protocols_error_format() {
    // A port that was free a moment ago, without a listener.
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let proxy = ProxyProcess::start(&test_dir("nobody"), &format!("http://{free}"), &[]);
    let response = send(
        &proxy.address,
        &ProviderProtocol::Anthropic.request_head(),
        &hello_request(ProviderProtocol::Anthropic),
    );
    assert_eq!(response.status, 502);
    assert_eq!(response.json()["type"], "error");
    assert_eq!(
        response.flyball_headers.get("x-flyball-error").map(String::as_str),
        Some("upstream_unreachable")
    );
    let response = send(&proxy.address, "GET /v1/models HTTP/1.1", b"");
    assert_eq!(response.status, 502);
}

#[test]
fn unreadable_request_on_a_guarded_path_is_rejected() {
    let server = ModelServer::start(ServerScript::new([ReplyBehavior::text("hi")])).unwrap();
    let proxy = ProxyProcess::start(&test_dir("garbage"), &server.url(), &[]);
    let twice = br#"{"model": "m", "messages": [{"role": "user", "content": "a"}], "messages": []}"#;
    let deep = br#"{"model": "m", "messages": [{"role": "user", "role": "tool", "content": "a"}]}"#;
    let wide: Vec<u8> = String::from_utf8(hello_request(ProviderProtocol::OpenAi))
        .unwrap()
        .encode_utf16()
        .flat_map(u16::to_le_bytes)
        .collect();
    for garbage in [&b"{\"messages\": 7}"[..], b"not json", b"", &[0xff, 0xfe, 0x00], twice, deep, &wide] {
        let got = send(&proxy.address, &ProviderProtocol::OpenAi.request_head(), garbage);
        assert_eq!(got.status, 400, "{}", got.text());
        assert_eq!(
            got.flyball_headers.get("x-flyball-error").map(String::as_str),
            Some("request_unreadable")
        );
        assert!(got.json()["error"]["message"].as_str().unwrap().starts_with("flyball: "), "{}", got.text());
    }
    for encoding in ["gzip", "deflate", "br", "zstd", "identity, gzip"] {
        let head = format!("{}\r\nContent-Encoding: {encoding}", ProviderProtocol::OpenAi.request_head());
        assert_eq!(
            send(&proxy.address, &head, &hello_request(ProviderProtocol::OpenAi)).status,
            415,
            "{encoding}"
        );
    }
    assert!(server.requests().is_empty());
}

#[test]
fn every_spelling_of_a_guarded_path_is_guarded() {
    let paths = [
        "/v1/chat/%63ompletions",
        "//v1//chat//completions",
        "/v1/./chat/completions",
        "/v1/x/../chat/completions",
        "/v1/chat/completions/",
        "/v1/chat%2Fcompletions",
        "/v1/chat/%2563ompletions",
        "/v1/Chat/Completions",
        "/v1/chat/completions?x=1",
        "/v1/chat/completions;x=1",
        "http://127.0.0.1/v1/chat/completions",
    ];
    let server =
        ModelServer::start(ServerScript::new(paths.iter().map(|_| ReplyBehavior::text("hi")))).unwrap();
    let proxy = ProxyProcess::start(&test_dir("spelling"), &server.url(), &[]);
    let usual = ProviderProtocol::OpenAi.request_head();
    for path in paths {
        let head = usual.replacen("/v1/chat/completions", path, 1);
        assert_ne!(head, usual, "{usual}");
        let response = send(&proxy.address, &head, &hello_request(ProviderProtocol::OpenAi));
        assert!(
            response.flyball_headers.contains_key("x-flyball-session"),
            "{path}: {} {}",
            response.status,
            response.text()
        );
    }
    let bom = [b"\xef\xbb\xbf", hello_request(ProviderProtocol::OpenAi).as_slice()].concat();
    assert!(send(&proxy.address, &usual, &bom).flyball_headers.contains_key("x-flyball-session"));
    let head = usual.replacen("/v1/chat/completions", "/v1/chat/completions%00", 1);
    assert_eq!(send(&proxy.address, &head, &hello_request(ProviderProtocol::OpenAi)).status, 400);
}

#[test]
fn web_pages_cannot_use_the_proxy() {
    let server =
        ModelServer::start(ServerScript::new([ReplyBehavior::text("hi"), ReplyBehavior::text("hi")]))
            .unwrap();
    let proxy = ProxyProcess::start(&test_dir("pages"), &server.url(), &["--host", "proxy.internal"]);
    let port = proxy.address.rsplit_once(':').unwrap().1.to_owned();
    let status = |host: &str, more: &str| {
        let body = hello_request(ProviderProtocol::OpenAi);
        let head = format!(
            "{}\r\nHost: {host}\r\n{more}Connection: close\r\nContent-Length: {}\r\n\r\n",
            ProviderProtocol::OpenAi.request_head(),
            body.len()
        );
        let mut stream = std::net::TcpStream::connect(&proxy.address).unwrap();
        std::io::Write::write_all(&mut stream, &[head.as_bytes(), &body].concat()).unwrap();
        let mut response = String::new();
        stream.read_to_string(&mut response).unwrap();
        response.split(' ').nth(1).unwrap_or_default().to_owned()
    };
    let own = format!("127.0.0.1:{port}");
    assert_eq!(status("evil.example", ""), "403");
    assert_eq!(
        status(&format!("evil.example:{port}"), &format!("Origin: http://evil.example:{port}\r\n")),
        "403"
    );
    assert_eq!(status(&own, "Origin: https://evil.example\r\n"), "403");
    assert_eq!(status(&own, "Origin: null\r\n"), "403");
    assert_eq!(status(&own, "Origin: http://127.0.0.1:1\r\n"), "403");
    assert_eq!(status(&own, "Sec-Fetch-Site: cross-site\r\n"), "403");
    assert_eq!(status(&own, &format!("Host: {own}\r\n")), "403");
    assert!(server.requests().is_empty());
    assert_eq!(status("proxy.internal", ""), "200");
    assert_eq!(status(&format!("localhost:{port}"), &format!("Origin: http://localhost:{port}\r\n")), "200");
}

#[test]
fn reply_in_flight_completes_on_shutdown() {
    let steps = vec![
        WriteStep::Write("data: {}\n\n".to_owned()),
        WriteStep::WaitMs(300),
        WriteStep::Write("data: [DONE]\n\n".to_owned()),
    ];
    let headers = vec![("Content-Type".to_owned(), "text/event-stream".to_owned())];
    let plan =
        ResponsePlan { status: 200, headers, framing: Framing::Chunked, steps, ..ResponsePlan::default() };
    let server = ModelServer::start(ServerScript::new([ReplyBehavior {
        exact: Some(plan),
        ..ReplyBehavior::default()
    }]))
    .unwrap();
    let proxy = ProxyProcess::start(&test_dir("graceful"), &server.url(), &[]);
    let body = ProviderProtocol::OpenAi.request_body(&json!([{"role": "user", "content": "go"}]), true);
    let mut stream = send_and_keep_open(&proxy.address, &ProviderProtocol::OpenAi.request_head(), &body);
    assert!(server.wait_for_requests(1, TEST_TIMEOUT));
    proxy.signal(Signal::INT);
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    assert!(response.contains("[DONE]") && response.ends_with("0\r\n\r\n"), "{response}");
    proxy.wait();
}

#[test]
fn invalid_arguments_are_rejected_with_their_code() {
    let folder = test_dir("arguments");
    let cases: [(&[&str], &str); 3] = [
        (&["proxy", "--upstream", "api.openai.com", "--listen", "127.0.0.1:0"], "bad_upstream"),
        (
            &["proxy", "--upstream", "http://x", "--listen", "127.0.0.1:0", "--price", "gpt=cheap"],
            "bad_price",
        ),
        (&["proxy", "--upstream", "http://x", "--listen", "192.0.2.1:1"], "cannot_listen"),
    ];
    for (args, code) in cases {
        let (exit, _, err) = run_flyball(&folder, args);
        assert_eq!(exit, Some(1), "{err}");
        assert!(err.contains(&format!("error[{code}]")), "{err}");
    }
}

#[test]
fn loop_before_the_proxy_is_counted_from_the_last_user_message() {
    let server = ModelServer::start(repeating_model("")).unwrap();
    let proxy = ProxyProcess::start(&test_dir("joined"), &server.url(), &[]);
    let mut messages = Vec::new();
    let round = |messages: &mut Vec<serde_json::Value>, id: String| {
        let function = json!({"name": "bash", "arguments": "{\"command\":\"ls\"}"});
        let call = json!({"id": id, "type": "function", "function": function});
        messages.push(json!({"role": "assistant", "content": null, "tool_calls": [call]}));
        messages.push(json!({"role": "tool", "tool_call_id": id, "content": "a b c"}));
    };
    messages.push(json!({"role": "user", "content": "an old task"}));
    (0..12).for_each(|n| round(&mut messages, format!("old{n}")));
    messages.push(json!({"role": "assistant", "content": "that was that"}));
    messages.push(json!({"role": "user", "content": "something new"}));
    let response = send(
        &proxy.address,
        &ProviderProtocol::OpenAi.request_head(),
        &ProviderProtocol::OpenAi.request_body(&json!(messages), false),
    );
    assert!(!response.text().contains("[flyball]"), "a finished task does not count: {}", response.text());
    (0..12).for_each(|n| round(&mut messages, format!("new{n}")));
    let response = send(
        &proxy.address,
        &ProviderProtocol::OpenAi.request_head(),
        &ProviderProtocol::OpenAi.request_body(&json!(messages), false),
    );
    assert!(response.text().contains("[flyball] This session was halted"), "{}", response.text());
}

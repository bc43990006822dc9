//! Passthrough: responses through the proxy equal those directly from the server, byte for byte.

use super::proxy_harness::{
    PROTOCOLS, ProviderProtocol, ProxyProcess, RawHttpResponse, TEST_API_KEY, TEST_TIMEOUT, send,
    send_and_keep_open, test_dir,
};
use flyball_model_server::{
    Framing, ModelServer, Newline, ReplyBehavior, ResponsePlan, ServerScript, StreamErrorEvent, WriteStep,
};
use serde_json::json;
use std::io::Read;

fn rich_reply() -> ReplyBehavior {
    ReplyBehavior::text("Żółw 🐢 says: \"hi\"\nи ещё")
        .call("bash", json!({"command": "echo \"ж\"", "deep": [1, null]}))
}

/// Every form of a response, including failures.
fn reply_shapes() -> Vec<ReplyBehavior> {
    let plain = |text: &str| ReplyBehavior { body: Some(text.to_owned()), ..ReplyBehavior::default() };
    let headers = [("X-Request-Id", "abc"), ("anthropic-ratelimit-tokens-remaining", "17")];
    let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned())).into_iter().collect();
    vec![
        rich_reply(),
        ReplyBehavior { piece_chars: 1, write_bytes: 1, ..rich_reply() },
        ReplyBehavior { piece_chars: 3, newline: Newline::Crlf, chatter: true, headers, ..rich_reply() },
        ReplyBehavior { framing: Framing::Close, ..rich_reply() },
        ReplyBehavior { framing: Framing::Length, write_bytes: 10, ..rich_reply() },
        ReplyBehavior { cut_at: Some(200), ..rich_reply() },
        ReplyBehavior { cut_at: Some(200), framing: Framing::Length, ..rich_reply() },
        ReplyBehavior { drop_last: 1, ..rich_reply() },
        ReplyBehavior { spoil_event: Some(2), ..rich_reply() },
        ReplyBehavior { no_usage: true, ..rich_reply() },
        ReplyBehavior { content_type: Some("text/plain".to_owned()), ..rich_reply() },
        ReplyBehavior {
            error_event: Some(StreamErrorEvent {
                after: 2,
                kind: "overloaded_error".into(),
                message: "busy".into(),
            }),
            ..rich_reply()
        },
        plain("{\"this\": is not JSON"),
        plain(""),
        ReplyBehavior { retry_after: Some("7".to_owned()), ..ReplyBehavior::status(429) },
        ReplyBehavior::status(500),
        ReplyBehavior { error_type: Some("overloaded_error".to_owned()), ..ReplyBehavior::status(529) },
        ReplyBehavior::status(404),
        ReplyBehavior {
            exact: Some(ResponsePlan {
                steps: vec![WriteStep::Bytes(vec![0, 255, 10, 13])],
                ..ResponsePlan::full(200, "image/png", String::new())
            }),
            ..ReplyBehavior::default()
        },
    ]
}

#[test]
fn replies_are_identical_with_and_without_the_proxy() {
    let folder = test_dir("bytes");
    for kind in PROTOCOLS {
        for stream in [true, false] {
            // Two servers with one script, so that both use the same numbers in their ids.
            let straight = ModelServer::start(ServerScript::new(reply_shapes())).unwrap();
            let behind = ModelServer::start(ServerScript::new(reply_shapes())).unwrap();
            let proxy = ProxyProcess::start(&folder, &behind.url(), &["--preset", "observe"]);
            for (number, shape) in reply_shapes().into_iter().enumerate() {
                let messages = json!([{"role": "user", "content": format!("{kind:?} {stream} {number}")}]);
                let body = kind.request_body(&messages, stream);
                let wanted = send(straight.url().trim_start_matches("http://"), &kind.request_head(), &body);
                let got = send(&proxy.address, &kind.request_head(), &body);
                let strip = |response: &RawHttpResponse| RawHttpResponse {
                    flyball_headers: Default::default(),
                    ..response.clone()
                };
                assert_eq!(strip(&got), strip(&wanted), "{kind:?} stream {stream} shape {number}: {shape:?}");
                assert!(
                    got.flyball_headers.contains_key("x-flyball-session"),
                    "{kind:?} {stream} {number}: {:?}",
                    got.flyball_headers
                );
            }
            let (wanted, got) = (straight.requests(), behind.requests());
            for (wanted, got) in wanted.iter().zip(&got) {
                assert_eq!(got.raw, wanted.raw, "the request's body is the client's own");
                assert_eq!(got.path, wanted.path);
                let mut headers = got.headers.clone();
                assert_eq!(headers.remove("accept-encoding").as_deref(), Some("identity"));
                headers.remove("host");
                for (name, value) in &headers {
                    assert_eq!(wanted.headers.get(name), Some(value), "{name}");
                }
                assert!(!got.headers.keys().any(|name| name.starts_with("x-flyball-")));
            }
            assert_eq!(got.len(), wanted.len());
            proxy.stop();
        }
    }
}

#[test]
fn stream_chunks_are_forwarded_immediately() {
    for kind in PROTOCOLS {
        // The second half is written only after the first was read through the proxy; otherwise the test fails here.
        let first = "data: {\"type\":\"ping\"}\n\n".to_owned();
        let steps = vec![
            WriteStep::Write(first.clone()),
            WriteStep::WaitMs(120_000),
            WriteStep::Write("data: {}\n\n".to_owned()),
        ];
        let headers = vec![("Content-Type".to_owned(), "text/event-stream".to_owned())];
        let plan = ResponsePlan {
            status: 200,
            headers,
            framing: Framing::Chunked,
            steps,
            ..ResponsePlan::default()
        };
        let script = ServerScript::new([ReplyBehavior { exact: Some(plan), ..ReplyBehavior::default() }]);
        let server = ModelServer::start(script).unwrap();
        let proxy = ProxyProcess::start(&test_dir(&format!("pieces-{kind:?}")), &server.url(), &[]);
        let body = kind.request_body(&json!([{"role": "user", "content": "go"}]), true);
        let mut stream = send_and_keep_open(&proxy.address, &kind.request_head(), &body);
        let mut response = Vec::new();
        let mut buffer = [0; 1024];
        while !String::from_utf8_lossy(&response).contains(&first) {
            let read = stream.read(&mut buffer).expect("the first piece comes before the second is written");
            assert!(read > 0, "it ended: {}", String::from_utf8_lossy(&response));
            response.extend_from_slice(&buffer[..read]);
        }
        // When the client disconnects, the provider's response is aborted.
        drop(stream);
        assert!(server.wait_for_abandoned(1, TEST_TIMEOUT), "the provider's response was not aborted");
        proxy.stop();
    }
}

#[test]
fn other_paths_and_methods_pass_through_unguarded() {
    let server = ModelServer::start(ServerScript::new([])).unwrap();
    let proxy = ProxyProcess::start(&test_dir("paths"), &server.url(), &[]);
    for (method, path) in
        [("GET", "/v1/models"), ("DELETE", "/v1/files/1?x=y%20z"), ("POST", "/v1/messages/count_tokens")]
    {
        let head = format!(
            "{method} {path} HTTP/1.1\r\nAuthorization: Bearer {TEST_API_KEY}\r\nAccept-Encoding: gzip"
        );
        let wanted = send(server.url().trim_start_matches("http://"), &head, b"{\"a\":1}");
        let got = send(&proxy.address, &head, b"{\"a\":1}");
        assert_eq!(got, wanted, "{method} {path}");
        let seen = server.requests();
        let [.., first, second] = seen.as_slice() else { panic!("two requests") };
        assert_eq!((&first.method, &first.path, &first.raw), (&second.method, &second.path, &second.raw));
        assert_eq!(second.header("accept-encoding"), Some("gzip"));
        assert_eq!(second.header("authorization"), first.header("authorization"));
    }
    assert!(proxy.sessions().is_empty(), "nothing of it is recorded");
}

#[test]
fn api_key_is_forwarded_and_never_stored() {
    let folder = test_dir("keys");
    let script = ServerScript {
        key: Some(TEST_API_KEY.to_owned()),
        ..ServerScript::new([rich_reply(), rich_reply()])
    };
    let server = ModelServer::start(script).unwrap();
    let proxy = ProxyProcess::start(&folder, &server.url(), &[]);
    for kind in [ProviderProtocol::OpenAi, ProviderProtocol::Anthropic] {
        let body = kind.request_body(&json!([{"role": "user", "content": "hello"}]), true);
        assert_eq!(send(&proxy.address, &kind.request_head(), &body).status, 200);
    }
    let said = proxy.stop();
    assert!(!said.contains(TEST_API_KEY), "{said}");
    for entry in std::fs::read_dir(folder.join(".flyball")).unwrap() {
        let path = entry.unwrap().path();
        let bytes = std::fs::read(&path).unwrap_or_default();
        assert!(
            !bytes.windows(TEST_API_KEY.len()).any(|window| window == TEST_API_KEY.as_bytes()),
            "{}",
            path.display()
        );
    }
}

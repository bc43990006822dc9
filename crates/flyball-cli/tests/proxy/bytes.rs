//! What is not touched: answers through the proxy are compared with answers straight from the server, byte for byte.

use super::kit::{BOTH, Heard, KEY, Kind, LONG, Proxy, connect, folder, send};
use flyball_model_server::{Behaviour, ErrorEvent, Framing, Newline, Plan, Script, Server, Step};
use serde_json::json;
use std::io::Read;

fn rich() -> Behaviour {
    Behaviour::text("Żółw 🐢 says: \"hi\"\nи ещё")
        .call("bash", json!({"command": "echo \"ж\"", "deep": [1, null]}))
}

/// Every way in which an answer can come, or fail to.
fn shapes() -> Vec<Behaviour> {
    let plain = |text: &str| Behaviour { body: Some(text.to_owned()), ..Behaviour::default() };
    let headers = [("X-Request-Id", "abc"), ("anthropic-ratelimit-tokens-remaining", "17")];
    let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned())).into_iter().collect();
    vec![
        rich(),
        Behaviour { piece_chars: 1, write_bytes: 1, ..rich() },
        Behaviour { piece_chars: 3, newline: Newline::Crlf, chatter: true, headers, ..rich() },
        Behaviour { framing: Framing::Close, ..rich() },
        Behaviour { framing: Framing::Length, write_bytes: 10, ..rich() },
        Behaviour { cut_at: Some(200), ..rich() },
        Behaviour { cut_at: Some(200), framing: Framing::Length, ..rich() },
        Behaviour { drop_last: 1, ..rich() },
        Behaviour { spoil_event: Some(2), ..rich() },
        Behaviour { no_usage: true, ..rich() },
        Behaviour { content_type: Some("text/plain".to_owned()), ..rich() },
        Behaviour {
            error_event: Some(ErrorEvent {
                after: 2,
                kind: "overloaded_error".into(),
                message: "busy".into(),
            }),
            ..rich()
        },
        plain("{\"this\": is not JSON"),
        plain(""),
        Behaviour { retry_after: Some("7".to_owned()), ..Behaviour::status(429) },
        Behaviour::status(500),
        Behaviour { error_type: Some("overloaded_error".to_owned()), ..Behaviour::status(529) },
        Behaviour::status(404),
        Behaviour {
            exact: Some(Plan {
                steps: vec![Step::Bytes(vec![0, 255, 10, 13])],
                ..Plan::whole(200, "image/png", String::new())
            }),
            ..Behaviour::default()
        },
    ]
}

#[test]
fn every_answer_is_the_same_through_the_proxy_as_without_it() {
    let folder = folder("bytes");
    for kind in BOTH {
        for stream in [true, false] {
            // Two servers with one script, so that both answer with the same numbers in their ids.
            let straight = Server::start(Script::new(shapes())).unwrap();
            let behind = Server::start(Script::new(shapes())).unwrap();
            let proxy = Proxy::start(&folder, &behind.url(), &["--preset", "observe"]);
            for (number, shape) in shapes().into_iter().enumerate() {
                let messages = json!([{"role": "user", "content": format!("{kind:?} {stream} {number}")}]);
                let body = kind.body(&messages, stream);
                let wanted = send(straight.url().trim_start_matches("http://"), &kind.head(), &body);
                let got = send(&proxy.address, &kind.head(), &body);
                let strip = |heard: &Heard| Heard { ours: Default::default(), ..heard.clone() };
                assert_eq!(strip(&got), strip(&wanted), "{kind:?} stream {stream} shape {number}: {shape:?}");
                assert!(
                    got.ours.contains_key("x-flyball-session"),
                    "{kind:?} {stream} {number}: {:?}",
                    got.ours
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
fn pieces_go_on_as_they_come() {
    for kind in BOTH {
        // The second half is written only after the first was read through the proxy, or the test ends here.
        let first = "data: {\"type\":\"ping\"}\n\n".to_owned();
        let steps =
            vec![Step::Write(first.clone()), Step::WaitMs(120_000), Step::Write("data: {}\n\n".to_owned())];
        let headers = vec![("Content-Type".to_owned(), "text/event-stream".to_owned())];
        let plan = Plan { status: 200, headers, framing: Framing::Chunked, steps, ..Plan::default() };
        let script = Script::new([Behaviour { exact: Some(plan), ..Behaviour::default() }]);
        let server = Server::start(script).unwrap();
        let proxy = Proxy::start(&folder(&format!("pieces-{kind:?}")), &server.url(), &[]);
        let body = kind.body(&json!([{"role": "user", "content": "go"}]), true);
        let mut stream = connect(&proxy.address, &kind.head(), &body);
        let mut heard = Vec::new();
        let mut buffer = [0; 1024];
        while !String::from_utf8_lossy(&heard).contains(&first) {
            let read = stream.read(&mut buffer).expect("the first piece comes before the second is written");
            assert!(read > 0, "it ended: {}", String::from_utf8_lossy(&heard));
            heard.extend_from_slice(&buffer[..read]);
        }
        // A client that goes away takes the provider's answer with it.
        drop(stream);
        assert!(server.wait_for_abandoned(1, LONG), "the provider goes on for nobody");
        proxy.stop();
    }
}

#[test]
fn other_paths_and_methods_are_passed_through_unseen() {
    let server = Server::start(Script::new([])).unwrap();
    let proxy = Proxy::start(&folder("paths"), &server.url(), &[]);
    for (method, path) in
        [("GET", "/v1/models"), ("DELETE", "/v1/files/1?x=y%20z"), ("POST", "/v1/messages/count_tokens")]
    {
        let head =
            format!("{method} {path} HTTP/1.1\r\nAuthorization: Bearer {KEY}\r\nAccept-Encoding: gzip");
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
fn a_key_is_passed_on_and_stands_nowhere_else() {
    let folder = folder("keys");
    let script = Script { key: Some(KEY.to_owned()), ..Script::new([rich(), rich()]) };
    let server = Server::start(script).unwrap();
    let proxy = Proxy::start(&folder, &server.url(), &[]);
    for kind in [Kind::OpenAi, Kind::Anthropic] {
        let body = kind.body(&json!([{"role": "user", "content": "hello"}]), true);
        assert_eq!(send(&proxy.address, &kind.head(), &body).status, 200);
    }
    let said = proxy.stop();
    assert!(!said.contains(KEY), "{said}");
    for entry in std::fs::read_dir(folder.join(".flyball")).unwrap() {
        let path = entry.unwrap().path();
        let bytes = std::fs::read(&path).unwrap_or_default();
        assert!(!bytes.windows(KEY.len()).any(|window| window == KEY.as_bytes()), "{}", path.display());
    }
}

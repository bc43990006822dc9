//! When something fails: the store, the provider, the client, the proxy itself.

use super::agents::stubborn;
use super::kit::{Kind, LONG, Proxy, connect, flyball, folder, send};
use flyball_model_server::{Behaviour, Framing, Plan, Script, Server, Step};
use rustix::process::Signal;
use serde_json::json;
use std::io::Read;

fn hello(kind: Kind) -> Vec<u8> {
    kind.body(&json!([{"role": "user", "content": "hello"}]), false)
}

#[test]
fn a_store_that_fails_lets_everything_through_and_says_so() {
    let folder = folder("store-fails");
    let server = Server::start(Script::new((0..3).map(|n| Behaviour::text(&format!("answer {n}"))))).unwrap();
    let proxy = Proxy::start(&folder, &server.url(), &[]);
    let kind = Kind::OpenAi;
    assert!(send(&proxy.address, &kind.head(), &hello(kind)).ours.contains_key("x-flyball-session"));
    break_store(&folder);
    let heard = send(&proxy.address, &kind.head(), &hello(kind));
    assert_eq!(heard.status, 200);
    assert!(heard.text().contains("answer 1"), "{}", heard.text());
    assert!(heard.ours.contains_key("x-flyball-error"), "{:?}", heard.ours);
    let said = proxy.stop();
    assert!(said.contains("error["), "{said}");
}

#[test]
fn a_store_that_fails_stops_everything_if_that_is_wanted() {
    for kind in [Kind::OpenAi, Kind::Anthropic] {
        let folder = folder(&format!("store-blocks-{kind:?}"));
        let server = Server::start(Script::new([Behaviour::text("answer")])).unwrap();
        let proxy = Proxy::start(&folder, &server.url(), &["--on-error", "block"]);
        break_store(&folder);
        let heard = send(&proxy.address, &kind.head(), &hello(kind));
        assert_eq!(heard.status, 503);
        assert!(
            heard.json()["error"]["message"].as_str().unwrap().starts_with("flyball: "),
            "{}",
            heard.text()
        );
        assert!(server.requests().is_empty());
    }
}

/// Puts something else in the place of the tables.
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
fn a_provider_that_is_not_there_is_said_in_the_protocols_own_words() {
    // A port that was free a moment ago, and that nobody listens on.
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let proxy = Proxy::start(&folder("nobody"), &format!("http://{free}"), &[]);
    let heard = send(&proxy.address, &Kind::Anthropic.head(), &hello(Kind::Anthropic));
    assert_eq!(heard.status, 502);
    assert_eq!(heard.json()["type"], "error");
    assert_eq!(heard.ours.get("x-flyball-error").map(String::as_str), Some("upstream_unreachable"));
    let heard = send(&proxy.address, "GET /v1/models HTTP/1.1", b"");
    assert_eq!(heard.status, 502);
}

#[test]
fn unreadable_request_on_a_guarded_path_is_refused() {
    let server = Server::start(Script::new([Behaviour::text("hi")])).unwrap();
    let proxy = Proxy::start(&folder("garbage"), &server.url(), &[]);
    let twice = br#"{"model": "m", "messages": [{"role": "user", "content": "a"}], "messages": []}"#;
    let deep = br#"{"model": "m", "messages": [{"role": "user", "role": "tool", "content": "a"}]}"#;
    let wide: Vec<u8> =
        String::from_utf8(hello(Kind::OpenAi)).unwrap().encode_utf16().flat_map(u16::to_le_bytes).collect();
    for garbage in [&b"{\"messages\": 7}"[..], b"not json", b"", &[0xff, 0xfe, 0x00], twice, deep, &wide] {
        let got = send(&proxy.address, &Kind::OpenAi.head(), garbage);
        assert_eq!(got.status, 400, "{}", got.text());
        assert_eq!(got.ours.get("x-flyball-error").map(String::as_str), Some("request_unreadable"));
        assert!(got.json()["error"]["message"].as_str().unwrap().starts_with("flyball: "), "{}", got.text());
    }
    for encoding in ["gzip", "deflate", "br", "zstd", "identity, gzip"] {
        let head = format!("{}\r\nContent-Encoding: {encoding}", Kind::OpenAi.head());
        assert_eq!(send(&proxy.address, &head, &hello(Kind::OpenAi)).status, 415, "{encoding}");
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
    let server = Server::start(Script::new(paths.iter().map(|_| Behaviour::text("hi")))).unwrap();
    let proxy = Proxy::start(&folder("spelling"), &server.url(), &[]);
    let usual = Kind::OpenAi.head();
    for path in paths {
        let head = usual.replacen("/v1/chat/completions", path, 1);
        assert_ne!(head, usual, "{usual}");
        let heard = send(&proxy.address, &head, &hello(Kind::OpenAi));
        assert!(heard.ours.contains_key("x-flyball-session"), "{path}: {} {}", heard.status, heard.text());
    }
    let bom = [b"\xef\xbb\xbf", hello(Kind::OpenAi).as_slice()].concat();
    assert!(send(&proxy.address, &usual, &bom).ours.contains_key("x-flyball-session"));
    let head = usual.replacen("/v1/chat/completions", "/v1/chat/completions%00", 1);
    assert_eq!(send(&proxy.address, &head, &hello(Kind::OpenAi)).status, 400);
}

#[test]
fn web_pages_cannot_use_the_proxy() {
    let server = Server::start(Script::new([Behaviour::text("hi"), Behaviour::text("hi")])).unwrap();
    let proxy = Proxy::start(&folder("pages"), &server.url(), &["--host", "proxy.internal"]);
    let port = proxy.address.rsplit_once(':').unwrap().1.to_owned();
    let status = |host: &str, more: &str| {
        let body = hello(Kind::OpenAi);
        let head = format!(
            "{}\r\nHost: {host}\r\n{more}Connection: close\r\nContent-Length: {}\r\n\r\n",
            Kind::OpenAi.head(),
            body.len()
        );
        let mut stream = std::net::TcpStream::connect(&proxy.address).unwrap();
        std::io::Write::write_all(&mut stream, &[head.as_bytes(), &body].concat()).unwrap();
        let mut heard = String::new();
        stream.read_to_string(&mut heard).unwrap();
        heard.split(' ').nth(1).unwrap_or_default().to_owned()
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
fn an_answer_under_way_may_end_when_the_proxy_is_told_to_stop() {
    let steps = vec![
        Step::Write("data: {}\n\n".to_owned()),
        Step::WaitMs(300),
        Step::Write("data: [DONE]\n\n".to_owned()),
    ];
    let headers = vec![("Content-Type".to_owned(), "text/event-stream".to_owned())];
    let plan = Plan { status: 200, headers, framing: Framing::Chunked, steps, ..Plan::default() };
    let server =
        Server::start(Script::new([Behaviour { exact: Some(plan), ..Behaviour::default() }])).unwrap();
    let proxy = Proxy::start(&folder("graceful"), &server.url(), &[]);
    let body = Kind::OpenAi.body(&json!([{"role": "user", "content": "go"}]), true);
    let mut stream = connect(&proxy.address, &Kind::OpenAi.head(), &body);
    assert!(server.wait_for_requests(1, LONG));
    proxy.signal(Signal::INT);
    let mut heard = String::new();
    stream.read_to_string(&mut heard).unwrap();
    assert!(heard.contains("[DONE]") && heard.ends_with("0\r\n\r\n"), "{heard}");
    proxy.ended();
}

#[test]
fn wrong_arguments_are_said_with_their_code() {
    let folder = folder("arguments");
    let cases: [(&[&str], &str); 3] = [
        (&["proxy", "--upstream", "api.openai.com", "--listen", "127.0.0.1:0"], "bad_upstream"),
        (
            &["proxy", "--upstream", "http://x", "--listen", "127.0.0.1:0", "--price", "gpt=cheap"],
            "bad_price",
        ),
        (&["proxy", "--upstream", "http://x", "--listen", "192.0.2.1:1"], "cannot_listen"),
    ];
    for (args, code) in cases {
        let (exit, _, err) = flyball(&folder, args);
        assert_eq!(exit, Some(1), "{err}");
        assert!(err.contains(&format!("error[{code}]")), "{err}");
    }
}

#[test]
fn a_loop_that_began_before_the_proxy_is_seen_from_the_last_word_of_a_person_on() {
    let server = Server::start(stubborn("")).unwrap();
    let proxy = Proxy::start(&folder("joined"), &server.url(), &[]);
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
    let heard = send(&proxy.address, &Kind::OpenAi.head(), &Kind::OpenAi.body(&json!(messages), false));
    assert!(
        !heard.text().contains("[flyball]"),
        "what is over is not held against anybody: {}",
        heard.text()
    );
    (0..12).for_each(|n| round(&mut messages, format!("new{n}")));
    let heard = send(&proxy.address, &Kind::OpenAi.head(), &Kind::OpenAi.body(&json!(messages), false));
    assert!(heard.text().contains("[flyball] This session was halted"), "{}", heard.text());
}

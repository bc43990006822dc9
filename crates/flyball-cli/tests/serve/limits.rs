//! Limits for unauthenticated connections and for each key.

use crate::server_harness::{TestServer, test_dir};
use flyball_server::AuthRole;
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

fn connect(server: &TestServer) -> TcpStream {
    let stream = TcpStream::connect(server.base_url.trim_start_matches("http://")).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream
}

/// Whether the server has closed a connection.
fn is_closed(stream: &TcpStream) -> bool {
    stream.set_nonblocking(true).unwrap();
    let mut some = [0; 1];
    match (&*stream).read(&mut some) {
        Ok(count) => count == 0,
        Err(error) => error.kind() != std::io::ErrorKind::WouldBlock,
    }
}

/// Waits until a condition holds.
fn wait_until(what: &str, holds: impl Fn() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::park_timeout(Duration::from_millis(20));
    }
}

#[test]
fn slow_connections_do_not_lock_out_clients() {
    let args = ["--no-socket", "--max-unauthenticated", "60", "--max-unauthenticated-per-address", "40"];
    let server = TestServer::start(&test_dir("slow"), &args);
    let agent = server.create_key("bot", AuthRole::Agent);
    // An authenticated client stays connected.
    let mut kept = connect(&server);
    let host = server.base_url.trim_start_matches("http://").to_owned();
    let ask =
        format!("GET /v1/openapi.json HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {agent}\r\n\r\n");
    kept.write_all(ask.as_bytes()).unwrap();
    let mut first = [0; 15];
    kept.read_exact(&mut first).unwrap();
    assert_eq!(&first, b"HTTP/1.1 200 OK");

    let mut slow = Vec::new();
    let begun = [
        String::new(),
        format!("GET / HTTP/1.1\r\nHost: {host}\r\nX-Slow: "),
        format!(
            "POST /login HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: 9\r\n\r\n"
        ),
    ];
    for (at, begin) in begun.iter().cycle().take(600).enumerate() {
        let mut stream = connect(&server);
        let _ = stream.write_all(begin.as_bytes());
        slow.push(stream);
        if at % 50 == 0 {
            let event = json!({"type": "turn.started", "session": format!("s{at}")});
            assert_eq!(
                server.submit_event(&agent, &event)["decision"],
                "allow",
                "after {at} slow connections"
            );
            assert_eq!(server.request("GET", "/healthz", None, None).0, 200);
        }
    }
    wait_until("the oldest are closed", || slow.iter().filter(|stream| is_closed(stream)).count() >= 540);
    assert!(!is_closed(&kept), "an authenticated connection is kept");
    let (_, counts) = server.request_json("GET", "/v1/metrics", &agent, None);
    let open = &counts["server"]["unauthenticated_connections"];
    assert!(
        open["open"].as_u64().unwrap() <= 60 && open["closed_for_room"].as_u64().unwrap() >= 540,
        "{open}"
    );
}

#[test]
fn slow_unauthenticated_body_is_cut_off() {
    let server = TestServer::start(&test_dir("trickle"), &["--no-socket"]);
    let began = Instant::now();
    let mut slow = connect(&server);
    let host = server.base_url.trim_start_matches("http://");
    let head = format!(
        "POST /login HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: 100000\r\n\r\n"
    );
    slow.write_all(head.as_bytes()).unwrap();
    while began.elapsed() < Duration::from_secs(50) && slow.write_all(b"a").is_ok() && !is_closed(&slow) {
        slow.set_nonblocking(false).unwrap();
        std::thread::park_timeout(Duration::from_millis(500));
    }
    assert!(began.elapsed() < Duration::from_secs(45), "it took {:?}", began.elapsed());
    assert_eq!(server.request("GET", "/healthz", None, None).0, 200);
}

#[test]
fn oversized_head_is_rejected() {
    let server = TestServer::start(&test_dir("head"), &["--no-socket"]);
    let host = server.base_url.trim_start_matches("http://");
    let head = format!("GET /healthz HTTP/1.1\r\nHost: {host}\r\nX-Long: {}\r\n\r\n", "a".repeat(200_000));
    let response = server.send_raw(head.as_bytes());
    assert!(response.is_empty() || response.starts_with("HTTP/1.1 431"), "{response}");
    assert_eq!(server.request("GET", "/healthz", None, None).0, 200);
}

/// Sends a request; returns the status, the error code and `Retry-After`.
fn request_error(
    server: &TestServer,
    method: &str,
    path: &str,
    key: &str,
    body: Option<&str>,
) -> (u16, String, u64) {
    let host = server.base_url.trim_start_matches("http://");
    let body = body.unwrap_or_default();
    let response = server.send_raw(
        format!(
            "{method} {path} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {key}\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
            body.len()
        )
        .as_bytes(),
    );
    let code =
        response.split("\"code\":\"").nth(1).and_then(|rest| rest.split('"').next()).unwrap_or_default();
    let wait = response
        .to_lowercase()
        .split("retry-after: ")
        .nth(1)
        .and_then(|rest| rest.split('\r').next()?.parse().ok());
    (crate::client_requests::response_status(&response), code.to_owned(), wait.unwrap_or_default())
}

fn turn_event(session: &str) -> String {
    json!({"type": "turn.started", "session": session}).to_string()
}

#[test]
fn sessions_and_bytes_per_key_are_limited_per_day() {
    let args = ["--no-socket", "--key-sessions-per-day", "3", "--key-bytes-per-day", "2000"];
    let server = TestServer::start(&test_dir("key-day"), &args);
    let (agent, other) =
        (server.create_key("bot", AuthRole::Agent), server.create_key("other", AuthRole::Agent));
    let anna = server.create_key("anna", AuthRole::Operator);
    let send = |key: &str, body: &str| request_error(&server, "POST", "/v1/events", key, Some(body));
    for session in ["a", "b", "c", "a"] {
        assert_eq!(send(&agent, &turn_event(session)).0, 200);
    }
    let (status, code, wait) = send(&agent, &turn_event("d"));
    assert_eq!((status, code.as_str()), (429, "key_limit_sessions"));
    assert!((80_000..=86_400).contains(&wait), "{wait}");
    let many = format!("[{},{}]", turn_event("a"), turn_event("e"));
    let (_, answers) =
        server.request_json("POST", "/v1/events", &agent, Some(&serde_json::from_str(&many).unwrap()));
    assert_eq!(
        (&answers[0]["decision"], &answers[1]["error"]["code"]),
        (&json!("allow"), &json!("key_limit_sessions"))
    );
    assert_eq!(send(&other, &turn_event("d")).0, 200, "another key has separate limits");
    assert_eq!(send(&anna, &turn_event("f")).0, 200, "an operator is not limited");

    let large = json!({"type": "user.message", "session": "d", "text": "x".repeat(1_500)}).to_string();
    assert_eq!(send(&other, &large).0, 200);
    let (status, code, wait) = send(&other, &large);
    assert_eq!((status, code.as_str()), (429, "key_limit_bytes"));
    assert!((80_000..=86_400).contains(&wait), "{wait}");
    let (_, text) = server.request("GET", "/metrics", Some(&agent), None);
    for line in
        [r#"key_limit_refusals_total{limit="sessions"} 2"#, r#"key_limit_refusals_total{limit="bytes"} 1"#]
    {
        assert!(text.contains(line), "{line} in {text}");
    }
    let (_, health) = server.request("GET", "/health", Some(&anna), None);
    assert!(health.contains("Limits by key") && health.contains("3 of 3"), "{health}");
    let (_, session) = server.request_json("GET", "/v1/sessions/d", &anna, None);
    assert_eq!(session["report"]["events"], 2, "refused events are not stored");
}

#[test]
fn pending_plans_per_key_are_limited() {
    let server = TestServer::start(&test_dir("key-plans"), &["--no-socket", "--key-pending-plans", "2"]);
    let (agent, anna) =
        (server.create_key("bot", AuthRole::Agent), server.create_key("anna", AuthRole::Operator));
    let ask = |session: &str| {
        let event = json!({"type": "confirmation.requested", "session": session, "question": "Delete it?",
            "plan": [{"tool": "delete", "args": {"id": 1}}]});
        let (status, code, _) =
            request_error(&server, "POST", "/v1/events", &agent, Some(&event.to_string()));
        (status, code)
    };
    assert_eq!([ask("a").0, ask("b").0, ask("a").0], [200, 200, 200], "the same plan counts once");
    assert_eq!(ask("c"), (429, "key_limit_plans".to_owned()));
    let many: Vec<Value> = (0..5)
        .map(|at| json!({"type": "confirmation.requested", "session": format!("m{at}"), "question": "?", "plan": [{"tool": "x"}]}))
        .collect();
    let other = server.create_key("other", AuthRole::Agent);
    let (_, answers) = server.request_json("POST", "/v1/events", &other, Some(&Value::Array(many)));
    let taken = answers.as_array().unwrap().iter().filter(|answer| answer["decision"].is_string()).count();
    assert_eq!(taken, 2, "plans in a batch count as well: {answers}");
    let no = json!({"answer": "no"});
    assert_eq!(server.request_json("POST", "/v1/sessions/a/confirmation", &anna, Some(&no)).0, 200);
    assert_eq!(ask("c").0, 200, "an answered plan no longer counts");
    assert_eq!(ask("d").0, 429);
    // An operator answers without this server; only the store knows.
    let out = std::process::Command::new(env!("CARGO_BIN_EXE_flyball"))
        .args(["deny", "b", "--store", &server.store])
        .current_dir(&server.folder)
        .output()
        .unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    std::thread::park_timeout(Duration::from_millis(1_100));
    assert_eq!(ask("d").0, 200);
}

#[test]
fn concurrent_listeners_and_reads_per_key_are_limited() {
    let args = ["--no-socket", "--key-listeners", "2", "--key-reads", "1"];
    let server = TestServer::start(&test_dir("key-listeners"), &args);
    let (agent, other) =
        (server.create_key("bot", AuthRole::Agent), server.create_key("other", AuthRole::Agent));
    let host = server.base_url.trim_start_matches("http://").to_owned();
    let listen = |key: &str| {
        let mut stream = connect(&server);
        write!(stream, "GET /v1/live HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {key}\r\n\r\n")
            .unwrap();
        let mut head = [0; 12];
        stream.read_exact(&mut head).unwrap();
        (String::from_utf8_lossy(&head).into_owned(), stream)
    };
    let kept = [listen(&agent), listen(&agent)];
    assert!(kept.iter().all(|(head, _)| head == "HTTP/1.1 200"));
    let (status, code, wait) = request_error(&server, "GET", "/v1/live", &agent, None);
    assert_eq!((status, code.as_str(), wait), (429, "key_limit_listeners", 10));
    assert_eq!(listen(&other).0, "HTTP/1.1 200");
    drop(kept);
    wait_until("a slot after a listener disconnected", || listen(&agent).0 == "HTTP/1.1 200");

    // With many concurrent reads, at most one runs, and the others get status 429.
    for at in 0..400 {
        server
            .submit_event(&agent, &json!({"type": "user.message", "session": "s", "text": format!("{at}")}));
    }
    let codes: Vec<(u16, String)> = std::thread::scope(|scope| {
        let ask = || {
            let (status, code, _) = request_error(&server, "GET", "/v1/sessions/s/trips", &agent, None);
            (status, code)
        };
        let all: Vec<_> = (0..80).map(|_| scope.spawn(ask)).collect();
        all.into_iter().map(|one| one.join().unwrap()).collect()
    });
    assert!(codes.iter().all(|(status, code)| *status == 200 || code == "key_limit_reads"), "{codes:?}");
    assert!(codes.iter().any(|(status, _)| *status == 200), "{codes:?}");
    assert!(codes.iter().any(|(_, code)| code == "key_limit_reads"), "{codes:?}");
    assert_eq!(server.request_json("GET", "/v1/sessions/s", &agent, None).0, 200);
}

#[test]
fn inbox_is_paginated() {
    let server = TestServer::start(&test_dir("inbox-pages"), &["--no-socket"]);
    let (agent, anna) =
        (server.create_key("bot", AuthRole::Agent), server.create_key("anna", AuthRole::Operator));
    for at in 0..30 {
        let event = json!({"type": "confirmation.requested", "session": format!("p:{at}"), "question": "Delete it?",
            "plan": [{"tool": "delete", "args": {"id": at}}]});
        server.submit_event(&agent, &event);
    }
    let page = |after: Option<&str>| {
        let after = after.map(|after| format!("&after={}", after.replace(':', "%3A"))).unwrap_or_default();
        server.request_json("GET", &format!("/v1/inbox?limit=12{after}"), &anna, None).1
    };
    let names = |page: &Value| -> Vec<String> {
        let all = page["waiting"].as_array().unwrap().iter();
        all.map(|one| one["session"].as_str().unwrap().to_owned()).collect()
    };
    let first = page(None);
    assert_eq!((names(&first).len(), &first["count"]), (12, &json!(30)));
    assert!(first["waiting"][0]["ticket"].is_string());
    // Answering one item of the first page does not shift the next pages.
    let no = json!({"answer": "no"});
    let path = format!("/v1/sessions/{}/confirmation", names(&first)[3]);
    assert_eq!(server.request_json("POST", &path, &anna, Some(&no)).0, 200);
    let second = page(first["next"].as_str());
    let third = page(second["next"].as_str());
    assert_eq!(third["next"], Value::Null);
    let mut all: Vec<String> = [&first, &second, &third].into_iter().flat_map(names).collect();
    assert_eq!(all.len(), 30);
    all.sort();
    all.dedup();
    assert_eq!(all.len(), 30, "each session once");
    for bad in ["limit=0", "limit=101", "limit=x", "after=x", "page=2"] {
        assert_eq!(server.request_json("GET", &format!("/v1/inbox?{bad}"), &anna, None).0, 422, "{bad}");
    }
    let (_, html) = server.request("GET", "/", Some(&anna), None);
    assert!(html.contains("1 to 25 of 29"), "{html}");
    let next = html.split("href=\"/?after=").nth(1).and_then(|rest| rest.split('"').next()).unwrap();
    let (_, rest) = server.request("GET", &format!("/?after={next}"), Some(&anna), None);
    assert!(rest.contains("26 to 29 of 29") && !rest.contains(">Next<"), "{rest}");
}

//! Malicious requests: foreign hosts and origins, bodies that expand, and endless heads.

use crate::client_requests::response_status;
use crate::server_harness::{TestServer, test_dir};
use flyball_server::AuthRole;
use serde_json::json;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// Maximum growth of the server's peak memory, in KiB.
const MAX_MEMORY_GROWTH_KIB: u64 = 64 * 1024;

fn send_request(server: &TestServer, head: &str, body: &[u8]) -> Vec<u8> {
    let host = server.base_url.trim_start_matches("http://");
    let length = if head.contains("Content-Length") || head.contains("chunked") {
        String::new()
    } else {
        format!("Content-Length: {}\r\n", body.len())
    };
    let mut all =
        format!("POST /v1/events HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{length}{head}\r\n")
            .into_bytes();
    all.extend_from_slice(body);
    all
}

/// Peak memory of a process, in KiB.
fn peak_memory_kib(server: &TestServer) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.child.id())).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
fn decompression_bombs_are_rejected_cheaply() {
    let server = TestServer::start(&test_dir("bombs"), &["--no-socket"]);
    let agent = server.create_key("bot", AuthRole::Agent);
    let json = format!("Authorization: Bearer {agent}\r\nContent-Type: application/json\r\n");
    server.submit_event(&agent, &json!({"type": "turn.started", "session": "s"}));
    let deep = format!(
        r#"{{"type":"tool.requested","tool":"x","args":{}{}}}"#,
        "[".repeat(100_000),
        "]".repeat(100_000)
    );
    let keys: String = (0..1_000_000).map(|at| format!(r#""k{at}":0,"#)).collect();
    let many_keys = format!(r#"{{{keys}"type":"turn.started"}}"#);
    let digits = format!(r#"{{"type":"tool.requested","tool":"x","args":{}}}"#, "9".repeat(1_000_000));
    let elements = format!("[{}1]", "1,".repeat(3_000_000));
    let twice = r#"{"type":"turn.started","session":"s","session":"t"}"#;
    let gzip = format!("{json}Content-Encoding: gzip\r\n");
    let xml = format!("Authorization: Bearer {agent}\r\nContent-Type: text/xml\r\n");
    let none = format!("Authorization: Bearer {agent}\r\n");
    let announced = format!("{json}Content-Length: 104857600\r\n");
    let before = peak_memory_kib(&server);
    let cases: [(&str, &str, &[u8], u16, &str); 11] = [
        ("deep", &json, deep.as_bytes(), 422, "event_too_deep"),
        ("a million keys", &json, many_keys.as_bytes(), 413, "body_too_large"),
        ("a million digits", &json, digits.as_bytes(), 422, "invalid_json"),
        ("three million elements", &json, elements.as_bytes(), 422, "bad_request"),
        ("the same key twice", &json, twice.as_bytes(), 422, "duplicate_key"),
        ("not UTF-8", &json, b"{\"type\":\"turn.started\",\"node\":\"\xff\xfe\"}", 422, "not_utf8"),
        ("compressed", &gzip, b"\x1f\x8b\x08\x00", 415, "unsupported_media_type"),
        ("another media type", &xml, b"<event/>", 415, "unsupported_media_type"),
        ("no media type", &none, b"{}", 415, "unsupported_media_type"),
        ("100 MB, announced", &announced, b"{", 413, "body_too_large"),
        ("nothing", &json, b"", 422, "invalid_json"),
    ];
    for (name, head, body, wanted, code) in cases {
        let response = server.send_raw(&send_request(&server, head, body));
        assert_eq!(response_status(&response), wanted, "{name}: {response}");
        assert!(response.contains(&format!(r#""code":"{code}""#)), "{name}: {response}");
    }
    // 100 MB in chunks, without a content length.
    let mut stream = TcpStream::connect(server.base_url.trim_start_matches("http://")).unwrap();
    stream.write_all(&send_request(&server, &format!("{json}Transfer-Encoding: chunked\r\n"), b"")).unwrap();
    let piece = format!("10000\r\n{}\r\n", "x".repeat(65_536));
    let sent = (0..1_600).take_while(|_| stream.write_all(piece.as_bytes()).is_ok()).count();
    assert!(sent < 1_600, "the server closes the connection early");
    let grown = peak_memory_kib(&server) - before;
    assert!(grown < MAX_MEMORY_GROWTH_KIB, "the server needed {grown} KiB more");
    let (_, session) = server.request_json("GET", "/v1/sessions/s", &agent, None);
    assert_eq!(session["report"]["events"], 1, "none of it was recorded");
}

#[test]
fn foreign_hosts_and_origins_are_rejected_without_cors() {
    let server = TestServer::start(&test_dir("hosts"), &["--no-socket", "--host", "flyball.example"]);
    let (agent, anna) =
        (server.create_key("bot", AuthRole::Agent), server.create_key("anna", AuthRole::Operator));
    let own = server.base_url.trim_start_matches("http://").to_owned();
    let port = own.rsplit(':').next().unwrap().to_owned();
    let local = format!("localhost:{port}");
    let evil = format!("127.0.0.1.evil.example:{port}");
    let (own_page, local_page) = (format!("http://{own}"), format!("http://{local}"));
    let cases: [(&str, Option<&str>, bool); 14] = [
        (&own, None, true),
        (&local, None, true),
        ("flyball.example", None, true),
        (&own, Some(&own_page), true),
        ("evil.example", None, false),
        (&evil, None, false),
        ("", None, false),
        ("localhost.evil.example", None, false),
        ("127.0.0.1@evil.example", None, false),
        (&own, Some("http://evil.example"), false),
        (&own, Some("null"), false),
        (&own, Some(&local_page), false),
        (&own, Some("http://127.0.0.1:1"), false),
        ("evil.example", Some("http://evil.example"), false),
    ];
    let mut refused = 0;
    for (host, origin, fine) in cases {
        let origin = origin.map(|origin| format!("Origin: {origin}\r\n")).unwrap_or_default();
        for method in ["GET", "OPTIONS"] {
            let preflight =
                "Access-Control-Request-Method: POST\r\nAccess-Control-Request-Headers: authorization\r\n";
            let head = format!(
                "{method} /v1/openapi.json HTTP/1.1\r\nHost: {host}\r\n{origin}{preflight}Authorization: Bearer {agent}\r\nConnection: close\r\n\r\n"
            );
            let response = server.send_raw(head.as_bytes());
            let wanted = match (fine, method) {
                (true, "GET") => 200,
                (true, _) => 405,
                (false, _) => 403,
            };
            // A malformed host is rejected earlier, with status 400.
            let none = response_status(&response) == 400 && !fine;
            assert!(response_status(&response) == wanted || none, "{method} {host} {origin}: {response}");
            assert!(!response.to_lowercase().contains("access-control-"), "{response}");
            refused += usize::from(response_status(&response) == 403);
        }
    }
    let (_, log) = server.request_json("GET", "/v1/audit?limit=1000", &anna, None);
    let recorded = log["entries"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|entry| entry["outcome"] == "foreign_origin")
        .count();
    assert_eq!(recorded, refused, "each refusal is in the audit log");
    assert!(refused >= 16, "{refused}");
}

#[test]
fn endless_head_is_cut_off_and_names_cannot_inject_headers() {
    let server = TestServer::start(&test_dir("loris"), &["--no-socket"]);
    let agent = server.create_key("bot", AuthRole::Agent);
    let began = Instant::now();
    let mut slow = TcpStream::connect(server.base_url.trim_start_matches("http://")).unwrap();
    slow.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    slow.write_all(b"GET /healthz HTTP/1.1\r\nHost: ").unwrap();
    let tricky = "/v1/sessions/a%0d%0aX-Evil:%201";
    let host = server.base_url.trim_start_matches("http://");
    let head = format!(
        "GET {tricky} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {agent}\r\nConnection: close\r\n\r\n"
    );
    let response = server.send_raw(head.as_bytes());
    assert_eq!(response_status(&response), 404, "{response}");
    assert!(!response.to_lowercase().contains("\nx-evil"), "{response}");
    for path in
        ["/v1/sessions/..%2f..%2fetc%2fpasswd", "/../../etc/passwd", "/v1//events", "/v1/sessions/%00"]
    {
        let status = server.request("GET", path, Some(&agent), None).0;
        assert!(matches!(status, 404 | 422), "{path}: {status}");
    }
    let mut rest = Vec::new();
    let _ = slow.read_to_end(&mut rest);
    assert!(began.elapsed() < Duration::from_secs(50), "the connection was closed");
    assert_eq!(server.request("GET", "/healthz", None, None).0, 200);
}

#[test]
fn expensive_pattern_is_rejected_or_bounded() {
    let folder = test_dir("patterns");
    // Each pattern causes catastrophic backtracking on the text below.
    let slow = ["zq(a+)+$", "zq(a|aa)+$", "zq(.*)*y", "zq(x+x+)+y", "zq([a-zA-Z]+)*$", "zq(a?){60}a{60}$"];
    let list: String = slow.iter().map(|pattern| format!("    - '{pattern}'\n")).collect();
    let policy = format!("version: 1\njournal:\n  patterns:\n{list}");
    std::fs::write(folder.join("flyball.yaml"), &policy).unwrap();
    let server = TestServer::start(&folder, &["--no-socket", "--policy", "flyball.yaml"]);
    let (agent, anna) =
        (server.create_key("bot", AuthRole::Agent), server.create_key("anna", AuthRole::Operator));
    let check =
        |text: &str| server.request_json("POST", "/v1/policies/check", &anna, Some(&json!({"text": text}))).1;
    assert_eq!(check(&policy)["ok"], true);
    let long = "a".repeat(2_000);
    for huge in [
        "(a{1000}){1000}",
        "((a{100}){100}){100}",
        "[\\p{L}]{100000}",
        long.as_str(),
        "(a",
        "(?=a)b",
        "(a)\\1",
    ] {
        let response = check(&format!("version: 1\njournal:\n  patterns: ['{huge}']\n"));
        assert_eq!(response["ok"], false, "{huge}: {response}");
        assert!(
            response["remarks"][0]["line"] == 3 && response["remarks"][0]["help"].is_string(),
            "{response}"
        );
    }
    for letter in ["a", "x"] {
        let text = format!("zq{}!", letter.repeat(64 * 1024 - 3));
        let event =
            json!({"type": "tool.requested", "session": "s", "tool": "bash", "args": {"command": text}});
        assert_eq!(server.submit_event(&agent, &event)["decision"], "allow");
    }
}

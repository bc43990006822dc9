//! Requests that are meant to break something: names of others, pages of others, bodies that explode, heads that never
//! end.

use crate::asking::status;
use crate::kit::{Server, folder};
use flyball_serve::Role;
use serde_json::json;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// How much more memory the server may have needed at its peak, in KiB.
const MEMORY_KIB: u64 = 64 * 1024;

fn request(server: &Server, head: &str, body: &[u8]) -> Vec<u8> {
    let host = server.place.trim_start_matches("http://");
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

/// The most memory that a process ever had, in KiB.
fn peak(server: &Server) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.child.id())).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
fn bodies_that_explode_are_refused_and_cost_little() {
    let server = Server::start(&folder("bombs"), &["--no-socket"]);
    let agent = server.key("bot", Role::Agent);
    let json = format!("Authorization: Bearer {agent}\r\nContent-Type: application/json\r\n");
    server.event(&agent, &json!({"type": "turn.started", "session": "s"}));
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
    let before = peak(&server);
    let cases: [(&str, &str, &[u8], u16, &str); 11] = [
        ("deep", &json, deep.as_bytes(), 422, "event_too_deep"),
        ("a million keys", &json, many_keys.as_bytes(), 413, "body_too_large"),
        ("a million digits", &json, digits.as_bytes(), 422, "broken_line"),
        ("three million elements", &json, elements.as_bytes(), 422, "bad_request"),
        ("the same key twice", &json, twice.as_bytes(), 422, "duplicate_key"),
        ("no UTF-8", &json, b"{\"type\":\"turn.started\",\"node\":\"\xff\xfe\"}", 422, "not_utf8"),
        ("compressed", &gzip, b"\x1f\x8b\x08\x00", 415, "unknown_media"),
        ("another kind", &xml, b"<event/>", 415, "unknown_media"),
        ("no kind", &none, b"{}", 415, "unknown_media"),
        ("100 MB, announced", &announced, b"{", 413, "body_too_large"),
        ("nothing", &json, b"", 422, "broken_line"),
    ];
    for (name, head, body, wanted, code) in cases {
        let told = server.raw(&request(&server, head, body));
        assert_eq!(status(&told), wanted, "{name}: {told}");
        assert!(told.contains(&format!(r#""code":"{code}""#)), "{name}: {told}");
    }
    // 100 MB in pieces, without saying so before.
    let mut stream = TcpStream::connect(server.place.trim_start_matches("http://")).unwrap();
    stream.write_all(&request(&server, &format!("{json}Transfer-Encoding: chunked\r\n"), b"")).unwrap();
    let piece = format!("10000\r\n{}\r\n", "x".repeat(65_536));
    let sent = (0..1_600).take_while(|_| stream.write_all(piece.as_bytes()).is_ok()).count();
    assert!(sent < 1_600, "the server hangs up long before the end");
    let grown = peak(&server) - before;
    assert!(grown < MEMORY_KIB, "the server needed {grown} KiB more");
    let (_, session) = server.json("GET", "/v1/sessions/s", &agent, None);
    assert_eq!(session["report"]["events"], 1, "nothing of all that was recorded");
}

#[test]
fn other_names_and_other_pages_are_refused_and_nobody_is_invited() {
    let server = Server::start(&folder("hosts"), &["--no-socket", "--host", "flyball.example"]);
    let (agent, anna) = (server.key("bot", Role::Agent), server.key("anna", Role::Operator));
    let own = server.place.trim_start_matches("http://").to_owned();
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
            let told = server.raw(head.as_bytes());
            let wanted = match (fine, method) {
                (true, "GET") => 200,
                (true, _) => 405,
                (false, _) => 403,
            };
            // A name that is none at all is refused before anybody looks at it.
            let none = status(&told) == 400 && !fine;
            assert!(status(&told) == wanted || none, "{method} {host} {origin}: {told}");
            assert!(!told.to_lowercase().contains("access-control-"), "{told}");
            refused += usize::from(status(&told) == 403);
        }
    }
    let (_, log) = server.json("GET", "/v1/audit?limit=1000", &anna, None);
    let noted = log["entries"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|entry| entry["outcome"] == "foreign_origin")
        .count();
    assert_eq!(noted, refused, "each refusal is in the log");
    assert!(refused >= 16, "{refused}");
}

#[test]
fn a_head_that_never_ends_is_cut_off_and_names_do_not_become_heads() {
    let server = Server::start(&folder("loris"), &["--no-socket"]);
    let agent = server.key("bot", Role::Agent);
    let began = Instant::now();
    let mut slow = TcpStream::connect(server.place.trim_start_matches("http://")).unwrap();
    slow.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    slow.write_all(b"GET /healthz HTTP/1.1\r\nHost: ").unwrap();
    let tricky = "/v1/sessions/a%0d%0aX-Evil:%201";
    let host = server.place.trim_start_matches("http://");
    let head = format!(
        "GET {tricky} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {agent}\r\nConnection: close\r\n\r\n"
    );
    let told = server.raw(head.as_bytes());
    assert_eq!(status(&told), 404, "{told}");
    assert!(!told.to_lowercase().contains("\nx-evil"), "{told}");
    for path in
        ["/v1/sessions/..%2f..%2fetc%2fpasswd", "/../../etc/passwd", "/v1//events", "/v1/sessions/%00"]
    {
        let status = server.ask("GET", path, Some(&agent), None).0;
        assert!(matches!(status, 404 | 422), "{path}: {status}");
    }
    let mut rest = Vec::new();
    let _ = slow.read_to_end(&mut rest);
    assert!(began.elapsed() < Duration::from_secs(50), "it was hung up on");
    assert_eq!(server.ask("GET", "/healthz", None, None).0, 200);
}

#[test]
fn a_pattern_that_would_cost_much_is_refused_or_costs_little() {
    let folder = folder("patterns");
    // Each of them takes an engine that tries all ways longer than the world is old, on the text below.
    let slow = ["zq(a+)+$", "zq(a|aa)+$", "zq(.*)*y", "zq(x+x+)+y", "zq([a-zA-Z]+)*$", "zq(a?){60}a{60}$"];
    let list: String = slow.iter().map(|pattern| format!("    - '{pattern}'\n")).collect();
    let policy = format!("version: 1\njournal:\n  patterns:\n{list}");
    std::fs::write(folder.join("flyball.yaml"), &policy).unwrap();
    let server = Server::start(&folder, &["--no-socket", "--policy", "flyball.yaml"]);
    let (agent, anna) = (server.key("bot", Role::Agent), server.key("anna", Role::Operator));
    let check = |text: &str| server.json("POST", "/v1/policies/check", &anna, Some(&json!({"text": text}))).1;
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
        let told = check(&format!("version: 1\njournal:\n  patterns: ['{huge}']\n"));
        assert_eq!(told["ok"], false, "{huge}: {told}");
        assert!(told["remarks"][0]["line"] == 3 && told["remarks"][0]["help"].is_string(), "{told}");
    }
    for letter in ["a", "x"] {
        let text = format!("zq{}!", letter.repeat(64 * 1024 - 3));
        let event =
            json!({"type": "tool.requested", "session": "s", "tool": "bash", "args": {"command": text}});
        assert_eq!(server.event(&agent, &event)["decision"], "allow");
    }
}

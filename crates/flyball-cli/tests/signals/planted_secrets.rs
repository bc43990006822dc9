//! Planted secrets: sent in every type of event, then searched for in everything that the server writes, returns or
//! sends.

use crate::browser_client::BrowserClient;
use crate::receivers::{http_receiver, receive, smtp_receiver};
use crate::server_harness::{TestServer, test_dir};
use crate::sse_client::SseClient;
use flyball_server::AuthRole;
use serde_json::{Value, json};

/// Number of secrets of each kind.
const SECRETS_PER_KIND: u64 = 20;

/// Pseudorandom text that differs for every number.
fn pseudo_random_text(number: u64, length: usize, of: &str) -> String {
    let of: Vec<char> = of.chars().collect();
    let mut state = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    (0..length)
        .map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            of[usize::try_from(state >> 33).unwrap() % of.len()]
        })
        .collect()
}

/// Two hundred generated secrets of the known kinds, assembled so that no scanner reports this file.
fn secrets() -> Vec<String> {
    (0..SECRETS_PER_KIND).flat_map(|number| one_of_each_kind(number * 100)).collect()
}

fn one_of_each_kind(number: u64) -> [String; 10] {
    const DIGITS: &str = "0123456789";
    const UPPER: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
    const ALL: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
    let body = |kind: u64, length| pseudo_random_text(number + kind, length, ALL);
    let digits = |kind: u64| pseudo_random_text(number + kind, 12, DIGITS);
    [
        format!("{}{}", "AKIA", pseudo_random_text(number, 16, UPPER)),
        format!("{}{}", "ghp_", body(1, 36)),
        format!("{}{}", "sk-ant-api03-", body(2, 80)),
        format!("{}{}", "sk-proj-", body(3, 48)),
        format!("{}{}-{}-{}", "xoxb-", digits(4), digits(14), body(4, 24)),
        format!("{}{}", "glpat-", body(5, 20)),
        format!("{}{}", "AIza", body(6, 35)),
        format!("{}{}", "npm_", body(7, 36)),
        format!("{}{}.{}.{}", "eyJ", body(8, 30), "eyJzdWIiOiJxN3hrMnZiOSJ9", body(18, 43)),
        format!("{}{}", "sk_live_", body(9, 24)),
    ]
}

/// The part of a secret that must not occur anywhere.
fn secret_part(secret: &str) -> &str {
    secret.get(secret.len() - 12..).unwrap()
}

fn events(secrets: &[String]) -> Vec<Value> {
    let mut all = Vec::new();
    for (n, secret) in secrets.iter().enumerate() {
        let session = format!("canary-{n}");
        let call = format!("c{n}");
        all.push(json!({"type": "session.started", "session": session, "goal": format!("use {secret}"),
            "policy": {"guards": {"repetition": {"mode": "halt", "limit": 2}}}}));
        all.push(json!({"type": "user.message", "session": session, "text": format!("my key is {secret}, use it")}));
        all.push(json!({"type": "assistant.message", "session": session, "text": format!("I use {secret}")}));
        for _ in 0..3 {
            all.push(json!({"type": "tool.requested", "session": session, "call": call, "tool": "curl",
                "args": {"header": format!("Authorization: Bearer {secret}"), "deep": [{"password": secret}]}}));
            all.push(json!({"type": "tool.finished", "session": session, "call": call, "ok": false,
                "error": format!("denied for {secret}"), "output": secret}));
        }
        all.push(json!({"type": "confirmation.requested", "session": format!("plan-{n}"),
            "plan": [{"tool": "deploy", "args": {"token": secret}}], "question": format!("Deploy with {secret}?")}));
        all.push(json!({"type": "validation.failed", "session": session, "kind": "malformed_json", "received": secret,
            "error": format!("at {secret}")}));
    }
    all
}

/// All files in a folder, as bytes.
fn all_files(folder: &std::path::Path) -> Vec<(String, Vec<u8>)> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let kept = entries.filter(|path| path.is_file());
    kept.map(|path| (path.display().to_string(), std::fs::read(&path).unwrap())).collect()
}

/// All pages that a person can see.
fn all_pages(server: &TestServer, person: &str, sessions: usize) -> Vec<(String, Vec<u8>)> {
    let mut browser = BrowserClient::new(server);
    browser.log_in(person);
    let mut paths = vec!["/health".to_owned()];
    paths.extend(
        (1..=sessions / 10).flat_map(|page| [format!("/?page={page}"), format!("/sessions?page={page}")]),
    );
    let named = (0..sessions).flat_map(|n| [format!("/sessions/canary-{n}"), format!("/sessions/plan-{n}")]);
    paths.extend(named);
    paths.into_iter().map(|path| (path.clone(), browser.get(&path).body.into_bytes())).collect()
}

#[test]
fn no_planted_secret_is_found_in_any_sink() {
    let folder = test_dir("canaries");
    let (hook, posts) = http_receiver(&[]);
    let (slack, messages) = http_receiver(&[]);
    let (relay, letters) = smtp_receiver();
    let (collector, traces) = http_receiver(&[]);
    let policy = json!({"notify": true, "journal": {"deliver": [
        {"effects": ["*"], "webhook": hook},
        {"effects": ["notify"], "webhook": slack, "format": "slack"},
        {"effects": ["notify"], "email": {"to": ["a@example.org"], "from": "f@example.org", "relay": relay}},
        {"effects": ["loop.halted"], "command": ["sh", "-c", "cat >> delivered.txt"]},
    ]}});
    std::fs::write(folder.join("flyball.yaml"), policy.to_string()).unwrap();
    let args = ["--no-socket", "--policy", "flyball.yaml", "--otlp", &collector, "--otlp-content"];
    let server = TestServer::start(&folder, &args);
    // The server prints its address before it is ready; wait for the first response.
    assert_eq!(server.request("GET", "/healthz", None, None).0, 200);
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", server.child.id())).unwrap();
    let dump = limits.lines().find(|line| line.starts_with("Max core file size")).unwrap();
    assert!(dump.split_whitespace().rev().skip(1).take(2).all(|limit| limit == "0"), "{dump}");
    let agent = server.create_key_for_all("bot");
    let secrets = secrets();
    assert_eq!(secrets.len(), 200);
    let mut sinks: Vec<(String, Vec<u8>)> = Vec::new();
    let sse = SseClient::open(&server, "/v1/live?after=0-0", &agent, None);
    let events = events(&secrets);
    // Only a person may set a session's policy.
    let person = server.create_key("person", AuthRole::Operator);
    for event in &events {
        let key = if event["type"] == "session.started" { &person } else { &agent };
        let (status, body) = server.request("POST", "/v1/events", Some(key), Some(&event.to_string()));
        assert!(status == 200, "{body}");
        sinks.push(("answer".to_owned(), body.into_bytes()));
    }
    // Error messages may quote the input.
    for secret in &secrets {
        for bad in [
            format!("{{\"type\": \"{secret}\"}}"),
            format!("{{\"type\": \"progress\", \"signal\": {{\"x\": \"{secret}\"}}}}"),
            format!("{{\"{secret}\": "),
            json!({"type": "session.started", "session": "bad", "policy": {(secret): 1}}).to_string(),
        ] {
            let (status, body) = server.request("POST", "/v1/events", Some(&person), Some(&bad));
            assert!(status >= 400, "{body}");
            sinks.push(("error".to_owned(), body.into_bytes()));
        }
        let (_, body) = server.request("GET", &format!("/v1/sessions/{secret}/export"), Some(&agent), None);
        assert!(body.contains("session_unknown"));
    }
    let received = sse.next(events.len());
    sinks.extend(received.iter().map(|received| ("live".to_owned(), received.data.to_string().into_bytes())));
    for n in 0..secrets.len() {
        for format in ["jsonl", "otlp"] {
            let path = format!("/v1/sessions/canary-{n}/export?format={format}");
            sinks.push((path.clone(), server.request("GET", &path, Some(&agent), None).1.into_bytes()));
        }
        sinks.push(("slack".to_owned(), receive(&messages).body.into_bytes()));
        sinks.push(("letter".to_owned(), receive(&letters).text.into_bytes()));
        sinks.push(("webhook".to_owned(), receive(&posts).body.into_bytes()));
    }
    sinks.push(("traces".to_owned(), receive(&traces).body.into_bytes()));
    while let Ok(post) = traces.try_recv() {
        sinks.push(("traces".to_owned(), post.body.into_bytes()));
    }
    sinks.extend(all_pages(&server, &person, secrets.len()));
    for path in ["/metrics", "/v1/metrics"] {
        sinks.push((path.to_owned(), server.request("GET", path, Some(&agent), None).1.into_bytes()));
    }
    sinks.push(("log".to_owned(), server.stderr.lock().unwrap().clone().into_bytes()));
    sinks.extend(all_files(&server.folder).into_iter().filter(|(name, _)| !name.ends_with("flyball.yaml")));
    assert!(sinks.iter().any(|(name, _)| name.ends_with("flyball.db-wal") || name.ends_with("flyball.db")));
    let redacted =
        sinks.iter().filter(|(_, bytes)| String::from_utf8_lossy(bytes).contains("[redacted:")).count();
    assert!(redacted > 50, "secrets must be redacted, not just omitted: {redacted}");
    for (name, bytes) in &sinks {
        let text = String::from_utf8_lossy(bytes);
        for secret in &secrets {
            let found = text.find(secret_part(secret)).map(|at| {
                text.get(at.saturating_sub(80)..).map(|rest| rest.chars().take(160).collect::<String>())
            });
            assert!(found.is_none(), "{secret} is in {name}: {found:?}");
        }
    }
}

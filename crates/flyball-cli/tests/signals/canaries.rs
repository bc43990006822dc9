//! Planted secrets: sent in every kind of event, and then looked for wherever the server writes, answers or tells.

use crate::ear::Ear;
use crate::kit::{Server, folder};
use crate::receivers::{http, next, smtp};
use crate::visitor::Visitor;
use flyball_serve::Role;
use serde_json::{Value, json};

/// How many secrets there are of each kind.
const OF_A_KIND: u64 = 20;

/// Letters that nobody guesses, other ones for every number.
fn letters(number: u64, length: usize, of: &str) -> String {
    let of: Vec<char> = of.chars().collect();
    let mut state = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    (0..length)
        .map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            of[usize::try_from(state >> 33).unwrap() % of.len()]
        })
        .collect()
}

/// Two hundred secrets of the kinds that are known, made up here, put together so that no scanner takes this file for a
/// leak.
fn secrets() -> Vec<String> {
    (0..OF_A_KIND).flat_map(|number| of_each_kind(number * 100)).collect()
}

fn of_each_kind(number: u64) -> [String; 10] {
    const DIGITS: &str = "0123456789";
    const UPPER: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
    const ALL: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
    let body = |kind: u64, length| letters(number + kind, length, ALL);
    let digits = |kind: u64| letters(number + kind, 12, DIGITS);
    [
        format!("{}{}", "AKIA", letters(number, 16, UPPER)),
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

/// The part of a secret that must be found nowhere.
fn core(secret: &str) -> &str {
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

/// Every file of a folder, as bytes.
fn files(folder: &std::path::Path) -> Vec<(String, Vec<u8>)> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let kept = entries.filter(|path| path.is_file());
    kept.map(|path| (path.display().to_string(), std::fs::read(&path).unwrap())).collect()
}

/// What a person sees of it.
fn pages(server: &Server, person: &str, sessions: usize) -> Vec<(String, Vec<u8>)> {
    let mut visitor = Visitor::new(server);
    visitor.enter(person);
    let mut paths = vec!["/health".to_owned()];
    paths.extend(
        (1..=sessions / 10).flat_map(|page| [format!("/?page={page}"), format!("/sessions?page={page}")]),
    );
    let named = (0..sessions).flat_map(|n| [format!("/sessions/canary-{n}"), format!("/sessions/plan-{n}")]);
    paths.extend(named);
    paths.into_iter().map(|path| (path.clone(), visitor.get(&path).body.into_bytes())).collect()
}

#[test]
fn no_planted_secret_is_found_in_any_sink() {
    let folder = folder("canaries");
    let (hook, posts) = http(&[]);
    let (slack, messages) = http(&[]);
    let (relay, letters) = smtp();
    let (collector, traces) = http(&[]);
    let policy = json!({"notify": true, "journal": {"deliver": [
        {"effects": ["*"], "webhook": hook},
        {"effects": ["notify"], "webhook": slack, "format": "slack"},
        {"effects": ["notify"], "email": {"to": ["a@example.org"], "from": "f@example.org", "relay": relay}},
        {"effects": ["loop.halted"], "command": ["sh", "-c", "cat >> told.txt"]},
    ]}});
    std::fs::write(folder.join("flyball.yaml"), policy.to_string()).unwrap();
    let args = ["--no-socket", "--policy", "flyball.yaml", "--otlp", &collector, "--otlp-content"];
    let server = Server::start(&folder, &args);
    // It says where it listens before it is up; who was answered finds it as it stays.
    assert_eq!(server.ask("GET", "/healthz", None, None).0, 200);
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", server.child.id())).unwrap();
    let dump = limits.lines().find(|line| line.starts_with("Max core file size")).unwrap();
    assert!(dump.split_whitespace().rev().skip(1).take(2).all(|limit| limit == "0"), "{dump}");
    let agent = server.key_for_all("bot");
    let secrets = secrets();
    assert_eq!(secrets.len(), 200);
    let mut sinks: Vec<(String, Vec<u8>)> = Vec::new();
    let ear = Ear::open(&server, "/v1/live?after=0-0", &agent, None);
    let events = events(&secrets);
    // A policy of its own is a person's to give.
    let person = server.key("person", Role::Operator);
    for event in &events {
        let key = if event["type"] == "session.started" { &person } else { &agent };
        let (status, body) = server.ask("POST", "/v1/events", Some(key), Some(&event.to_string()));
        assert!(status == 200, "{body}");
        sinks.push(("answer".to_owned(), body.into_bytes()));
    }
    // Errors answer with words about what was sent.
    for secret in &secrets {
        for bad in [
            format!("{{\"type\": \"{secret}\"}}"),
            format!("{{\"type\": \"progress\", \"signal\": {{\"x\": \"{secret}\"}}}}"),
            format!("{{\"{secret}\": "),
            json!({"type": "session.started", "session": "bad", "policy": {(secret): 1}}).to_string(),
        ] {
            let (status, body) = server.ask("POST", "/v1/events", Some(&person), Some(&bad));
            assert!(status >= 400, "{body}");
            sinks.push(("error".to_owned(), body.into_bytes()));
        }
        let (_, body) = server.ask("GET", &format!("/v1/sessions/{secret}/export"), Some(&agent), None);
        assert!(body.contains("session_unknown"));
    }
    let heard = ear.next(events.len());
    sinks.extend(heard.iter().map(|heard| ("live".to_owned(), heard.data.to_string().into_bytes())));
    for n in 0..secrets.len() {
        for format in ["jsonl", "otlp"] {
            let path = format!("/v1/sessions/canary-{n}/export?format={format}");
            sinks.push((path.clone(), server.ask("GET", &path, Some(&agent), None).1.into_bytes()));
        }
        sinks.push(("slack".to_owned(), next(&messages).body.into_bytes()));
        sinks.push(("letter".to_owned(), next(&letters).text.into_bytes()));
        sinks.push(("webhook".to_owned(), next(&posts).body.into_bytes()));
    }
    sinks.push(("traces".to_owned(), next(&traces).body.into_bytes()));
    while let Ok(post) = traces.try_recv() {
        sinks.push(("traces".to_owned(), post.body.into_bytes()));
    }
    sinks.extend(pages(&server, &person, secrets.len()));
    for path in ["/metrics", "/v1/metrics"] {
        sinks.push((path.to_owned(), server.ask("GET", path, Some(&agent), None).1.into_bytes()));
    }
    sinks.push(("log".to_owned(), server.said.lock().unwrap().clone().into_bytes()));
    sinks.extend(files(&server.folder).into_iter().filter(|(name, _)| !name.ends_with("flyball.yaml")));
    assert!(sinks.iter().any(|(name, _)| name.ends_with("flyball.db-wal") || name.ends_with("flyball.db")));
    let redacted =
        sinks.iter().filter(|(_, bytes)| String::from_utf8_lossy(bytes).contains("[redacted:")).count();
    assert!(redacted > 50, "they were taken out, and not merely left out: {redacted}");
    for (name, bytes) in &sinks {
        let text = String::from_utf8_lossy(bytes);
        for secret in &secrets {
            let found = text.find(core(secret)).map(|at| {
                text.get(at.saturating_sub(80)..).map(|rest| rest.chars().take(160).collect::<String>())
            });
            assert!(found.is_none(), "{secret} is in {name}: {found:?}");
        }
    }
}

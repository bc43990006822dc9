//! Notifications by webhook, to Slack, by e-mail and by command: performed by the server beside everything else, to real
//! receivers, each with a key, signed, and escaped.

use crate::ear::PATIENCE;
use crate::kit::{Server, folder};
use crate::receivers::{Post, http, next, smtp};
use flyball_serve::Role;
use ring::hmac;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// A session that is halted: its name and one of its arguments try to be more than text.
pub(crate) fn halt(server: &Server, key: &str, session: &str) {
    let start = json!({"type": "session.started", "session": session,
        "policy": {"guards": {"repetition": {"mode": "halt", "limit": 2}}}});
    // A policy of its own is a person's to give.
    server.event(&server.key("person", Role::Operator), &start);
    let same = json!({"type": "tool.requested", "session": session, "tool": "<!channel>", "args": {}});
    let decisions: Vec<Value> = (0..3).map(|_| server.event(key, &same)).collect();
    assert_eq!(decisions.last().unwrap()["decision"], "halt");
}

/// Whether a body was signed with a secret.
fn is_signed(post: &Post, secret: &str) -> bool {
    let (time, signature) = post.header("Flyball-Signature").unwrap().split_once(",v1=").unwrap();
    let time = time.strip_prefix("t=").unwrap();
    assert!(time.parse::<u64>().unwrap() > 1_700_000_000);
    let bytes: Vec<u8> = (0..signature.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&signature[at..at + 2], 16).unwrap())
        .collect();
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
    hmac::verify(&key, format!("{time}.{}", post.body).as_bytes(), &bytes).is_ok()
}

#[test]
fn a_halt_is_told_by_webhook_to_slack_by_email_and_by_command() {
    let folder = folder("notify");
    let (hook, posts) = http(&[503]);
    let (slack, messages) = http(&[]);
    let (relay, letters) = smtp();
    let policy = json!({"notify": true, "journal": {"deliver": [
        {"effects": ["loop.halted"], "webhook": format!("{hook}/hook"), "secret_env": "TEST_HOOK_SECRET"},
        {"effects": ["notify"], "webhook": format!("{slack}/services/x"), "format": "slack", "page": "https://fly.example.org"},
        {"effects": ["notify"], "page": "https://fly.example.org", "email": {"to": ["oncall@example.org", "b@example.org"],
            "from": "flyball@example.org", "relay": relay, "user": "fly", "password_env": "TEST_MAIL_PASSWORD"}},
        {"effects": ["notify"], "command": ["sh", "-c", "cat > told.json"]},
    ]}});
    std::fs::write(folder.join("flyball.yaml"), policy.to_string()).unwrap();
    let store = format!("sqlite:{}", folder.join("flyball.db").display());
    let env = [("TEST_HOOK_SECRET", "whsec-1"), ("TEST_MAIL_PASSWORD", "mail-password-1")];
    let args = ["--no-socket", "--policy", "flyball.yaml"];
    let server = Server::with(&folder, &store, &args, &env);
    let agent = server.key("bot", Role::Agent);
    let session = "nightly <b>&\r\nBcc: evil@example.org";
    halt(&server, &agent, session);

    let (first, again) = (next(&posts), next(&posts));
    for post in [&first, &again] {
        assert_eq!(post.path, "/hook");
        assert!(is_signed(post, "whsec-1") && !is_signed(post, "another"), "{post:?}");
    }
    assert_eq!(
        (&first.body, first.header("Idempotency-Key")),
        (&again.body, again.header("Idempotency-Key"))
    );
    let body: Value = serde_json::from_str(&first.body).unwrap();
    assert!(
        first.header("Idempotency-Key").unwrap().starts_with("blake3:"),
        "no name of a session breaks a header"
    );
    assert_eq!((&body["effect"], &body["session"]), (&json!("loop.halted"), &json!(session)));

    let message = next(&messages);
    assert!(message.header("Flyball-Signature").is_none(), "there is no secret");
    let message: Value = serde_json::from_str(&message.body).unwrap();
    assert_eq!(message["text"], "Session nightly &lt;b&gt;&amp; Bcc: evil@example.org has something to say");
    let blocks = message["blocks"].to_string();
    assert!(blocks.contains("tool '(name withheld)'") && !blocks.contains("<!channel>"), "{blocks}");
    assert!(blocks.contains(
        "<https://fly.example.org/sessions/nightly%20%3Cb%3E%26%0D%0ABcc%3A%20evil%40example.org|"
    ));

    let letter = next(&letters);
    assert!(letter.from.contains("<flyball@example.org>"), "{letter:?}");
    assert_eq!(letter.to.len(), 2, "nobody was added: {letter:?}");
    assert!(letter.auth.is_some_and(|auth| auth.starts_with("AUTH PLAIN ")));
    let (head, _) = letter.text.split_once("\r\n\r\n").unwrap();
    assert!(!head.lines().any(|line| line.to_lowercase().starts_with("bcc")), "{head}");
    assert!(head.contains("Subject: Session nightly") && head.contains("Message-ID: <"), "{head}");
    assert!(letter.text.contains("called 3 times") || letter.text.contains("channel"), "{}", letter.text);
    assert!(!letter.text.contains("mail-password-1") && !letter.text.contains("whsec-1"));

    let began = Instant::now();
    let told = loop {
        let told = std::fs::read_to_string(folder.join("told.json")).ok();
        if let Some(told) = told.and_then(|told| serde_json::from_str::<Value>(&told).ok()) {
            break told;
        }
        assert!(began.elapsed() < PATIENCE);
        std::thread::park_timeout(Duration::from_millis(20));
    };
    assert_eq!(told["effect"], "notify");
    let done = |text: &str| text.lines().any(|line| line == "flyball_deliveries_total{outcome=\"done\"} 4");
    while !done(&server.ask("GET", "/metrics", Some(&agent), None).1) {
        assert!(began.elapsed() < PATIENCE, "what was delivered is counted");
    }
    let said = server.said.lock().unwrap().clone();
    assert!(!said.contains("whsec-1") && !said.contains("mail-password-1"), "{said}");
}

#[test]
fn two_servers_share_the_errands_and_what_is_given_up_is_seen() {
    let folder = folder("notify-two");
    let (hook, posts) = http(&[]);
    let nobody = "http://127.0.0.1:9/none";
    let policy = json!({"notify": true, "journal": {"deliver": [
        {"effects": ["notify"], "webhook": hook},
        {"effects": ["notify"], "webhook": nobody, "attempts": 1, "timeout": "1s"},
        {"effects": ["notify"], "webhook": hook, "format": "slack", "secret_env": "NOT_SET_ANYWHERE", "attempts": 1},
    ]}});
    std::fs::write(folder.join("flyball.yaml"), policy.to_string()).unwrap();
    let args = ["--no-socket", "--policy", "flyball.yaml"];
    let (first, second) = (Server::start(&folder, &args), Server::start(&folder, &args));
    let agent = first.key("bot", Role::Agent);
    (0..6).for_each(|n| halt(if n % 2 == 0 { &first } else { &second }, &agent, &format!("s{n}")));
    let mut keys: Vec<String> =
        (0..6).map(|_| next(&posts).header("Idempotency-Key").unwrap().to_owned()).collect();
    keys.sort();
    keys.dedup();
    assert_eq!(keys.len(), 6, "each once");
    let began = Instant::now();
    loop {
        let (_, text) = second.ask("GET", "/metrics", Some(&agent), None);
        // A post that has arrived is noted as done a moment later.
        let has = |wanted: &str| text.lines().any(|line| line == wanted);
        if has("flyball_errands_dead 12") && has("flyball_errands_waiting 0") {
            break;
        }
        assert!(began.elapsed() < PATIENCE, "{text}");
    }
    assert!(posts.try_recv().is_err(), "none came twice");
}

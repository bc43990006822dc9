//! Notifications by webhook, Slack, email and command: sent in the background to real receivers, each with an
//! idempotency key, signed and escaped.

use crate::receivers::{ReceivedPost, http_receiver, receive, smtp_receiver};
use crate::server_harness::{TestServer, test_dir};
use crate::sse_client::RECEIVE_TIMEOUT;
use flyball_server::AuthRole;
use ring::hmac;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// Halts a session whose name and arguments contain injection attempts.
pub(crate) fn halt_session(server: &TestServer, key: &str, session: &str) {
    let start = json!({"type": "session.started", "session": session,
        "policy": {"guards": {"repetition": {"mode": "halt", "limit": 2}}}});
    // Only a person may set a session's policy.
    server.submit_event(&server.create_key("person", AuthRole::Operator), &start);
    let same = json!({"type": "tool.requested", "session": session, "tool": "<!channel>", "args": {}});
    let decisions: Vec<Value> = (0..3).map(|_| server.submit_event(key, &same)).collect();
    assert_eq!(decisions.last().unwrap()["decision"], "halt");
}

/// Whether a body was signed with a secret.
fn is_signed(post: &ReceivedPost, secret: &str) -> bool {
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
fn halt_is_sent_by_webhook_slack_email_and_command() {
    let folder = test_dir("notify");
    let (hook, posts) = http_receiver(&[503]);
    let (slack, messages) = http_receiver(&[]);
    let (relay, letters) = smtp_receiver();
    let policy = json!({"notify": true, "journal": {"deliver": [
        {"effects": ["loop.halted"], "webhook": format!("{hook}/hook"), "secret_env": "TEST_HOOK_SECRET"},
        {"effects": ["notify"], "webhook": format!("{slack}/services/x"), "format": "slack", "page": "https://fly.example.org"},
        {"effects": ["notify"], "page": "https://fly.example.org", "email": {"to": ["oncall@example.org", "b@example.org"],
            "from": "flyball@example.org", "relay": relay, "user": "fly", "password_env": "TEST_MAIL_PASSWORD"}},
        {"effects": ["notify"], "command": ["sh", "-c", "cat > delivered.json"]},
    ]}});
    std::fs::write(folder.join("flyball.yaml"), policy.to_string()).unwrap();
    let store = format!("sqlite:{}", folder.join("flyball.db").display());
    let env = [("TEST_HOOK_SECRET", "whsec-1"), ("TEST_MAIL_PASSWORD", "mail-password-1")];
    let args = ["--no-socket", "--policy", "flyball.yaml"];
    let server = TestServer::start_with_env(&folder, &store, &args, &env);
    let agent = server.create_key("bot", AuthRole::Agent);
    let session = "nightly <b>&\r\nBcc: evil@example.org";
    halt_session(&server, &agent, session);

    let (first, again) = (receive(&posts), receive(&posts));
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
        "a session name must not break a header"
    );
    assert_eq!((&body["effect"], &body["session"]), (&json!("loop.halted"), &json!(session)));

    let message = receive(&messages);
    assert!(message.header("Flyball-Signature").is_none(), "no secret is configured, so nothing is signed");
    let message: Value = serde_json::from_str(&message.body).unwrap();
    assert_eq!(message["text"], "Session nightly &lt;b&gt;&amp; Bcc: evil@example.org sent a notification");
    let blocks = message["blocks"].to_string();
    assert!(blocks.contains("tool '(name withheld)'") && !blocks.contains("<!channel>"), "{blocks}");
    assert!(blocks.contains(
        "<https://fly.example.org/sessions/nightly%20%3Cb%3E%26%0D%0ABcc%3A%20evil%40example.org|"
    ));

    let email = receive(&letters);
    assert!(email.from.contains("<flyball@example.org>"), "{email:?}");
    assert_eq!(email.to.len(), 2, "no recipient was added: {email:?}");
    assert!(email.auth.is_some_and(|auth| auth.starts_with("AUTH PLAIN ")));
    let (head, _) = email.text.split_once("\r\n\r\n").unwrap();
    assert!(!head.lines().any(|line| line.to_lowercase().starts_with("bcc")), "{head}");
    assert!(head.contains("Subject: Session nightly") && head.contains("Message-ID: <"), "{head}");
    assert!(email.text.contains("called 3 times") || email.text.contains("channel"), "{}", email.text);
    assert!(!email.text.contains("mail-password-1") && !email.text.contains("whsec-1"));

    let began = Instant::now();
    let delivered = loop {
        let delivered = std::fs::read_to_string(folder.join("delivered.json")).ok();
        if let Some(delivered) =
            delivered.and_then(|delivered| serde_json::from_str::<Value>(&delivered).ok())
        {
            break delivered;
        }
        assert!(began.elapsed() < RECEIVE_TIMEOUT);
        std::thread::park_timeout(Duration::from_millis(20));
    };
    assert_eq!(delivered["effect"], "notify");
    let done = |text: &str| text.lines().any(|line| line == "flyball_deliveries_total{outcome=\"done\"} 4");
    while !done(&server.request("GET", "/metrics", Some(&agent), None).1) {
        assert!(began.elapsed() < RECEIVE_TIMEOUT, "deliveries must be counted");
    }
    let said = server.stderr.lock().unwrap().clone();
    assert!(!said.contains("whsec-1") && !said.contains("mail-password-1"), "{said}");
}

#[test]
fn two_servers_share_the_outbox_and_dead_messages_are_visible() {
    let folder = test_dir("notify-two");
    let (hook, posts) = http_receiver(&[]);
    let nobody = "http://127.0.0.1:9/none";
    let policy = json!({"notify": true, "journal": {"deliver": [
        {"effects": ["notify"], "webhook": hook},
        {"effects": ["notify"], "webhook": nobody, "attempts": 1, "timeout": "1s"},
        {"effects": ["notify"], "webhook": hook, "format": "slack", "secret_env": "NOT_SET_ANYWHERE", "attempts": 1},
    ]}});
    std::fs::write(folder.join("flyball.yaml"), policy.to_string()).unwrap();
    let args = ["--no-socket", "--policy", "flyball.yaml"];
    let (first, second) = (TestServer::start(&folder, &args), TestServer::start(&folder, &args));
    let agent = first.create_key("bot", AuthRole::Agent);
    (0..6).for_each(|n| halt_session(if n % 2 == 0 { &first } else { &second }, &agent, &format!("s{n}")));
    let mut keys: Vec<String> =
        (0..6).map(|_| receive(&posts).header("Idempotency-Key").unwrap().to_owned()).collect();
    keys.sort();
    keys.dedup();
    assert_eq!(keys.len(), 6, "each key once");
    let began = Instant::now();
    loop {
        let (_, text) = second.request("GET", "/metrics", Some(&agent), None);
        // A received post is marked as done slightly later.
        let has = |wanted: &str| text.lines().any(|line| line == wanted);
        if has("flyball_outbox_dead 12") && has("flyball_outbox_waiting 0") {
            break;
        }
        assert!(began.elapsed() < RECEIVE_TIMEOUT, "{text}");
    }
    assert!(posts.try_recv().is_err(), "nothing is delivered twice");
}

//! Keys of `journal.labels`: label webhooks and label queries, on a server with the key and one without it.

use crate::command_harness::test_dir;
use crate::difference::{Difference, assert_no_errors};
use crate::server_harness::TestServer;
use flyball_server::AuthRole;
use ring::hmac;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// The keys proven here.
pub(crate) const KEYS: [&str; 6] = [
    "journal.labels.command",
    "journal.labels.every",
    "journal.labels.on_added",
    "journal.labels.own_accounts",
    "journal.labels.secret_env",
    "journal.labels.session",
];

const LABEL: &str = "flyball-hitl:loop-prevention";
const SECRET: &str = "whsec-for-tests";
/// Long enough that only a hang reaches it.
const QUERY_TIMEOUT: Duration = Duration::from_secs(60);
/// The short interval between label queries.
const SHORT_INTERVAL: &str = "1s";

/// A server under a policy with these keys, and the agent's key. One visit to a node is allowed.
fn server(name: &str, labels: &Value) -> (TestServer, String) {
    let folder = test_dir(&format!("wired-labels-{name}"));
    let policy = json!({"guards": {"visits": {"limit": 1}}, "journal": {"labels": labels}});
    std::fs::write(folder.join("policy.json"), policy.to_string()).unwrap();
    let store = format!("sqlite:{}", folder.join("flyball.db").display());
    let path = std::env::var("PATH").unwrap();
    let env = [("WIRED_SECRET", SECRET), ("PATH", path.as_str())];
    let server =
        TestServer::start_with_env(&folder, &store, &["--no-socket", "--policy", "policy.json"], &env);
    let agent = server.create_key("bot", AuthRole::Agent);
    (server, agent)
}

fn turn(server: &TestServer, agent: &str) -> Value {
    server.submit_event(agent, &json!({"type": "turn.started", "session": "issue-7", "node": "test"}))
}

/// The server's reply to a tracker's webhook, in a session with or without the label.
fn webhook_reply(name: &str, labels: &Value, action: &str, by: &str) -> String {
    let (server, agent) = server(name, labels);
    turn(&server, &agent);
    if action == "unlabeled" {
        assert_eq!(turn(&server, &agent)["state"], "blocked");
    }
    let body = json!({"action": action, "label": {"name": LABEL}, "sender": {"login": by},
        "issue": {"number": 7}, "session": "issue-7"})
    .to_string();
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, SECRET.as_bytes()), body.as_bytes());
    let digits: String = tag.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    let signature = format!("sha256={digits}");
    let headers = [("Content-Type", "application/json"), ("X-Hub-Signature-256", signature.as_str())];
    let (status, reply) = server.request_with_headers("POST", "/v1/labels", &headers, Some(&body));
    format!("{status} {reply}")
}

#[test]
fn keys_of_label_webhooks_change_what_they_do() {
    let signed = |more: Value| {
        let mut labels = json!({"secret_env": "WIRED_SECRET"});
        labels.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        labels
    };
    let shows = Difference::shows;
    let cases = [
        ("secret_env", signed(json!({})), json!({}), "unlabeled", "anna", shows("released")),
        // Without it, the body names the session.
        (
            "session",
            signed(json!({"session": "pull-{issue.number}"})),
            signed(json!({})),
            "unlabeled",
            "anna",
            Difference::hides("released"),
        ),
        (
            "own_accounts",
            signed(json!({"own_accounts": ["bot"]})),
            signed(json!({})),
            "unlabeled",
            "bot",
            Difference::hides("released"),
        ),
        (
            "on_added",
            signed(json!({"on_added": "stop"})),
            signed(json!({})),
            "labeled",
            "anna",
            shows("stopped"),
        ),
    ];
    let problem =
        |(key, with, without, action, by, difference): (&str, Value, Value, &str, &str, Difference)| {
            let with = webhook_reply(&format!("{key}-with"), &with, action, by);
            let without = webhook_reply(&format!("{key}-without"), &without, action, by);
            difference.error(&with, &without).map(|problem| format!("{key}: {problem}\n{with}\n{without}"))
        };
    assert_no_errors(cases.into_iter().filter_map(problem).collect());
}

/// How often a program was queried for labels in the time in which a server with `every: 1s` queries several times.
fn query_count(name: &str, labels: &Value) -> usize {
    let (server, agent) = server(name, labels);
    turn(&server, &agent);
    assert_eq!(turn(&server, &agent)["state"], "blocked");
    let asked = || std::fs::read_to_string(server.folder.join("asked")).unwrap_or_default().lines().count();
    let began = Instant::now();
    let often = labels["every"] == SHORT_INTERVAL;
    let enough = |looks: usize| if often { looks >= 3 } else { began.elapsed() > Duration::from_secs(5) };
    while !enough(asked()) {
        assert!(began.elapsed() < QUERY_TIMEOUT, "the program was queried {} times", asked());
        std::thread::park_timeout(Duration::from_millis(50));
    }
    asked()
}

#[test]
fn label_command_runs_at_the_configured_interval() {
    let program = json!(["sh", "-c", "cat >> asked; echo >> asked"]);
    let often = query_count("every-often", &json!({"command": program, "every": SHORT_INTERVAL}));
    let seldom = query_count("every-seldom", &json!({"command": program, "every": "1d"}));
    let never = query_count("every-never", &json!({}));
    assert!(often >= 3, "{often} queries");
    assert!(seldom < 3, "{seldom} queries within seconds, but one per day is expected");
    assert_eq!(never, 0, "no program is configured");
}

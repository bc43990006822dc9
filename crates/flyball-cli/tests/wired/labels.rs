//! Keys of `journal.labels`: what a tracker says about labels, told to a server with a key and to one without it.

use crate::difference::{Difference, settle};
use crate::kit::folder;
use crate::server::Server;
use flyball_serve::Role;
use ring::hmac;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// The keys that are shown here.
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
/// Long enough that nothing but a hang reaches it.
const PATIENCE: Duration = Duration::from_secs(60);
/// How often the program is asked where it is asked often.
const OFTEN: &str = "1s";

/// A server under a policy with these keys, and the agent's key. One visit of a node is allowed.
fn server(name: &str, labels: &Value) -> (Server, String) {
    let folder = folder(&format!("wired-labels-{name}"));
    let policy = json!({"guards": {"visits": {"limit": 1}}, "journal": {"labels": labels}});
    std::fs::write(folder.join("policy.json"), policy.to_string()).unwrap();
    let store = format!("sqlite:{}", folder.join("flyball.db").display());
    let path = std::env::var("PATH").unwrap();
    let env = [("WIRED_SECRET", SECRET), ("PATH", path.as_str())];
    let server = Server::with(&folder, &store, &["--no-socket", "--policy", "policy.json"], &env);
    let agent = server.key("bot", Role::Agent);
    (server, agent)
}

fn turn(server: &Server, agent: &str) -> Value {
    server.event(agent, &json!({"type": "turn.started", "session": "issue-7", "node": "test"}))
}

/// What a server answers to the webhook of a tracker, in a session with the label or without.
fn told(name: &str, labels: &Value, action: &str, by: &str) -> String {
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
    let (status, told) = server.ask_with("POST", "/v1/labels", &headers, Some(&body));
    format!("{status} {told}")
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
        // Without it the body names the session itself.
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
    let fault =
        |(key, with, without, action, by, difference): (&str, Value, Value, &str, &str, Difference)| {
            let with = told(&format!("{key}-with"), &with, action, by);
            let without = told(&format!("{key}-without"), &without, action, by);
            difference.fault(&with, &without).map(|fault| format!("{key}: {fault}\n{with}\n{without}"))
        };
    settle(cases.into_iter().filter_map(fault).collect());
}

/// How often a program was asked for labels, within the time that a server with `every: 1s` needs for some looks.
fn looks(name: &str, labels: &Value) -> usize {
    let (server, agent) = server(name, labels);
    turn(&server, &agent);
    assert_eq!(turn(&server, &agent)["state"], "blocked");
    let asked = || std::fs::read_to_string(server.folder.join("asked")).unwrap_or_default().lines().count();
    let began = Instant::now();
    let often = labels["every"] == OFTEN;
    let enough = |looks: usize| if often { looks >= 3 } else { began.elapsed() > Duration::from_secs(5) };
    while !enough(asked()) {
        assert!(began.elapsed() < PATIENCE, "the program was asked {} times", asked());
        std::thread::park_timeout(Duration::from_millis(50));
    }
    asked()
}

#[test]
fn the_program_of_a_tracker_is_asked_as_often_as_the_policy_says() {
    let program = json!(["sh", "-c", "cat >> asked; echo >> asked"]);
    let often = looks("every-often", &json!({"command": program, "every": OFTEN}));
    let seldom = looks("every-seldom", &json!({"command": program, "every": "1d"}));
    let never = looks("every-never", &json!({}));
    assert!(often >= 3, "{often} looks");
    assert!(seldom < 3, "{seldom} looks within seconds, and one a day is wanted");
    assert_eq!(never, 0, "no program is named");
}

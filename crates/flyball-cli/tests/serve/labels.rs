//! Label changes in an issue tracker: signed webhooks, operator keys, a polled command, and their limits.

use crate::server_harness::{TestServer, test_dir};
use flyball_server::AuthRole;
use ring::hmac;
use serde_json::{Value, json};
use std::path::Path;
use std::time::{Duration, Instant};

const LABEL: &str = "flyball-hitl:loop-prevention";
const SECRET: &str = "whsec-for-tests";
/// Timeout for background changes.
const TEST_TIMEOUT: Duration = Duration::from_secs(60);

/// A server whose policy allows one visit per node, with these keys under `journal.labels`.
fn start_server(name: &str, labels: &str) -> TestServer {
    let folder = test_dir(name);
    let policy = format!("guards: {{visits: {{limit: 1}}}}\njournal: {{labels: {labels}}}\n");
    std::fs::write(folder.join("policy.yaml"), policy).unwrap();
    let store = format!("sqlite:{}", folder.join("flyball.db").display());
    TestServer::start_with_env(
        &folder,
        &store,
        &["--no-socket", "--policy", "policy.yaml"],
        &[("HUB_SECRET", SECRET)],
    )
}

const WEBHOOK_POLICY: &str =
    "{secret_env: HUB_SECRET, session: 'issue-{issue.number}', own_accounts: [flyball-bot]}";

/// Blocks a session, which sets its label.
fn block_session(server: &TestServer, agent: &str, session: &str) {
    let turn = json!({"type": "turn.started", "session": session, "node": "test"});
    server.submit_event(agent, &turn);
    let blocked = server.submit_event(agent, &turn);
    assert_eq!((&blocked["decision"], &blocked["state"]), (&json!("block"), &json!("blocked")), "{blocked}");
    assert_eq!(blocked["effects"][0]["label"], LABEL);
}

fn session_state(server: &TestServer, key: &str, session: &str) -> String {
    server.request_json("GET", &format!("/v1/sessions/{session}"), key, None).1["state"]
        .as_str()
        .unwrap_or_default()
        .to_owned()
}

/// The tracker's payload when a label changes.
fn webhook_body(action: &str, issue: u64, label: &str, by: &str) -> String {
    json!({"action": action, "label": {"id": 5, "name": label}, "sender": {"login": by},
        "issue": {"number": issue, "title": "It hangs"}, "repository": {"full_name": "o/r"}})
    .to_string()
}

fn signature(secret: &str, body: &str) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
    let tag = hmac::sign(&key, body.as_bytes());
    let digits: String = tag.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256={digits}")
}

/// Sends a webhook like the tracker.
fn send_webhook(server: &TestServer, body: &str, delivery: &str) -> (u16, Value) {
    let signed = signature(SECRET, body);
    let headers = [
        ("Content-Type", "application/json"),
        ("X-Hub-Signature-256", signed.as_str()),
        ("X-GitHub-Delivery", delivery),
    ];
    let (status, response) = server.request_with_headers("POST", "/v1/labels", &headers, Some(body));
    (status, serde_json::from_str(&response).unwrap_or_default())
}

#[test]
fn label_removed_in_the_tracker_releases_the_session() {
    let server = start_server("labels", WEBHOOK_POLICY);
    let (agent, anna) =
        (server.create_key("bot", AuthRole::Agent), server.create_key("anna", AuthRole::Operator));
    block_session(&server, &agent, "issue-7");
    let body = webhook_body("unlabeled", 7, LABEL, "anna");
    let (status, response) = send_webhook(&server, &body, "d-1");
    assert_eq!((status, &response["outcome"]), (200, &json!("released")), "{response}");
    assert_eq!(response["decision"]["effects"][0]["effect"], "label.removed");
    assert_eq!(session_state(&server, &anna, "issue-7"), "running");
    let turn = json!({"type": "turn.started", "session": "issue-7", "node": "test"});
    assert_eq!(server.submit_event(&agent, &turn)["decision"], "warn", "three more visits are granted");
    // A redelivery changes nothing, and the record names the user.
    let (status, again) = send_webhook(&server, &body, "d-1");
    assert_eq!((status, &again["outcome"]), (200, &json!("ignored")), "{again}");
    let (_, events) = server.request_json("GET", "/v1/sessions/issue-7/events?from=1&to=50", &anna, None);
    let releases: Vec<&Value> = events["events"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| &one["event"])
        .filter(|event| event["type"] == "human.released")
        .collect();
    assert_eq!(releases.len(), 1, "{events}");
    assert_eq!((&releases[0]["by"], &releases[0]["guard"]), (&json!("label-webhook:anna"), &json!("visits")));
    let (_, audit) = server.request_json("GET", "/v1/audit?limit=10", &anna, None);
    assert!(audit.to_string().contains(r#""what":"unlabel""#), "{audit}");
}

#[test]
fn only_signed_webhooks_or_operator_keys_are_accepted() {
    let server = start_server("labels-keys", WEBHOOK_POLICY);
    let (agent, anna) =
        (server.create_key("bot", AuthRole::Agent), server.create_key("anna", AuthRole::Operator));
    block_session(&server, &agent, "issue-7");
    let body = webhook_body("unlabeled", 7, LABEL, "anna");
    let json_type = ("Content-Type", "application/json");
    let ask =
        |headers: &[(&str, &str)]| server.request_with_headers("POST", "/v1/labels", headers, Some(&body));
    assert_eq!(ask(&[json_type]).0, 401);
    let wrong = signature("another secret", &body);
    let other = signature(SECRET, &format!("{body} "));
    for bad in [wrong.as_str(), other.as_str(), "sha256=00", "sha256=zz", "sha1=00", ""] {
        let (status, response) = ask(&[json_type, ("X-Hub-Signature-256", bad)]);
        assert_eq!(status, 401, "{bad}: {response}");
        assert!(response.contains("signature_invalid"), "{response}");
        let operator = format!("Bearer {anna}");
        let both = [json_type, ("X-Hub-Signature-256", bad), ("Authorization", operator.as_str())];
        assert_eq!(ask(&both).0, 401, "{bad} with an operator's key");
    }
    for role in [AuthRole::Agent, AuthRole::Host, AuthRole::Channel] {
        let key = format!("Bearer {}", server.create_key(role.as_str(), role));
        let signed = signature(SECRET, &body);
        let headers = [json_type, ("Authorization", key.as_str()), ("X-Hub-Signature-256", signed.as_str())];
        assert_eq!(ask(&headers).0, 403, "{role:?} with a signature as well");
    }
    assert_eq!(session_state(&server, &anna, "issue-7"), "blocked");
    let own = json!({"session": "issue-7", "issue": {"number": 7}, "label": LABEL, "action": "removed"});
    let (status, response) = server.request_json("POST", "/v1/labels", &anna, Some(&own));
    assert_eq!((status, &response["outcome"]), (200, &json!("released")), "{response}");
}

#[test]
fn signed_webhook_is_rejected_without_a_configured_secret() {
    let server = start_server("labels-secret", "{session: 'issue-{issue.number}'}");
    let (agent, anna) =
        (server.create_key("bot", AuthRole::Agent), server.create_key("anna", AuthRole::Operator));
    block_session(&server, &agent, "issue-7");
    for secret in ["", SECRET] {
        let body = webhook_body("unlabeled", 7, LABEL, "anna");
        let signed = signature(secret, &body);
        let headers = [("Content-Type", "application/json"), ("X-Hub-Signature-256", signed.as_str())];
        assert_eq!(server.request_with_headers("POST", "/v1/labels", &headers, Some(&body)).0, 401);
    }
    assert_eq!(session_state(&server, &anna, "issue-7"), "blocked");
}

#[test]
fn unrelated_webhooks_change_nothing() {
    let server = start_server("labels-other", WEBHOOK_POLICY);
    let (agent, anna) =
        (server.create_key("bot", AuthRole::Agent), server.create_key("anna", AuthRole::Operator));
    block_session(&server, &agent, "issue-7");
    let old = json!({"action": "unlabeled", "label": {"name": LABEL}, "sender": {"login": "anna"},
        "issue": {"number": 7, "updated_at": "2001-01-01T00:00:00Z"}})
    .to_string();
    for (body, why) in [
        (webhook_body("unlabeled", 7, "bug", "anna"), "the label is not the session's hold label"),
        (webhook_body("unlabeled", 99, LABEL, "anna"), "the session does not exist"),
        (
            webhook_body("unlabeled", 7, LABEL, "flyball-bot"),
            "the change was made by Flyball's own account (own_accounts)",
        ),
        (old, "the change is older than the block"),
        (
            json!({"action": "opened", "issue": {"number": 7}}).to_string(),
            "the payload does not report an added or removed label",
        ),
        (
            json!({"zen": "Keep it logically awesome.", "hook_id": 1}).to_string(),
            "the payload does not report an added or removed label",
        ),
    ] {
        let (status, response) = send_webhook(&server, &body, "d");
        assert_eq!((status, response["why"].as_str()), (200, Some(why)), "{response}");
    }
    for bad in [r#"{"action":"unlabeled","label":{"name":"x"}}"#, "[]", "{"] {
        assert_eq!(send_webhook(&server, bad, "d").0, 422, "{bad}");
    }
    assert_eq!(session_state(&server, &anna, "issue-7"), "blocked");
    let (_, response) = send_webhook(&server, &webhook_body("labeled", 7, LABEL, "flyball"), "d");
    assert_eq!(response["outcome"], "seen");
}

#[test]
fn label_never_lifts_a_stop_or_a_halt() {
    let server = start_server("labels-stop", WEBHOOK_POLICY);
    let (agent, anna) =
        (server.create_key("bot", AuthRole::Agent), server.create_key("anna", AuthRole::Operator));
    block_session(&server, &agent, "issue-7");
    let stop = json!({"why": "wrong branch"});
    assert_eq!(server.request_json("POST", "/v1/sessions/issue-7/stop", &anna, Some(&stop)).0, 200);
    let (_, response) = send_webhook(&server, &webhook_body("unlabeled", 7, LABEL, "ben"), "d-1");
    assert_eq!(
        (&response["outcome"], &response["decision"]["state"]),
        (&json!("released"), &json!("halted")),
        "{response}"
    );
    assert_eq!(session_state(&server, &anna, "issue-7"), "halted");
    let turn = json!({"type": "turn.started", "session": "issue-7", "node": "other"});
    assert_eq!(server.submit_event(&agent, &turn)["trips"][0]["message"], "stopped by anna: wrong branch");
    // A halt by another guard remains, too: the label represents the block only.
    block_session(&server, &agent, "issue-8");
    for _ in 0..9 {
        let call =
            json!({"type": "tool.requested", "session": "issue-8", "tool": "bash", "args": {"c": "ls"}});
        server.submit_event(&agent, &call);
    }
    assert_eq!(session_state(&server, &anna, "issue-8"), "halted");
    let (_, response) = send_webhook(&server, &webhook_body("unlabeled", 8, LABEL, "ben"), "d-2");
    assert_eq!(
        (&response["outcome"], &response["decision"]["state"]),
        (&json!("released"), &json!("halted")),
        "{response}"
    );
}

#[test]
fn label_added_outside_stops_only_if_the_policy_says_so() {
    let turn = json!({"type": "turn.started", "session": "issue-7", "node": "test"});
    for (name, more, outcome, expected) in [
        ("labels-ignore", "", "ignored", "running"),
        ("labels-stops", ", on_added: stop", "stopped", "halted"),
    ] {
        let server = start_server(
            name,
            &format!("{{secret_env: HUB_SECRET, session: 'issue-{{issue.number}}'{more}}}"),
        );
        let (agent, anna) =
            (server.create_key("bot", AuthRole::Agent), server.create_key("anna", AuthRole::Operator));
        server.submit_event(&agent, &turn);
        let (_, response) = send_webhook(&server, &webhook_body("labeled", 7, LABEL, "ben"), "d-1");
        assert_eq!(response["outcome"], outcome, "{response}");
        assert_eq!(session_state(&server, &anna, "issue-7"), expected);
        // Removing it again does not lift an operator's stop.
        send_webhook(&server, &webhook_body("unlabeled", 7, LABEL, "ben"), "d-2");
        assert_eq!(session_state(&server, &anna, "issue-7"), expected);
    }
}

/// Waits until a condition holds.
fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < TEST_TIMEOUT, "timed out waiting for {what}");
        std::thread::park_timeout(Duration::from_millis(50));
    }
}

/// A tracker in a folder: one file per session, one label per line.
fn write_tracker_script(folder: &Path) {
    std::fs::create_dir_all(folder.join("issues")).unwrap();
    let script = "#!/bin/sh\ncat > asked.new\nmv asked.new asked.json\nfor file in issues/*; do\n  [ -e \"$file\" ] || continue\n  \
                  name=$(basename \"$file\")\n  labels=$(sed 's/.*/\"&\"/' \"$file\" | paste -sd, -)\n  \
                  echo \"{\\\"session\\\":\\\"$name\\\",\\\"labels\\\":[$labels],\\\"by\\\":\\\"anna\\\"}\"\ndone\n";
    std::fs::write(folder.join("labels.sh"), script).unwrap();
}

#[test]
fn polled_tracker_releases_only_labels_it_showed_before() {
    let server = start_server("labels-command", "{command: [sh, ./labels.sh], every: 1s}");
    write_tracker_script(&server.folder);
    let (agent, anna) =
        (server.create_key("bot", AuthRole::Agent), server.create_key("anna", AuthRole::Operator));
    let issue = |name: &str| server.folder.join("issues").join(name);
    for name in ["issue-1", "issue-2"] {
        block_session(&server, &agent, name);
        std::fs::write(issue(name), "bug\n").unwrap();
    }
    // The label has not been added in the tracker yet: its absence means nothing.
    wait_until("the first poll", || server.folder.join("asked.json").exists());
    std::fs::remove_file(server.folder.join("asked.json")).unwrap();
    wait_until("another poll", || server.folder.join("asked.json").exists());
    let asked = std::fs::read_to_string(server.folder.join("asked.json")).unwrap();
    assert!(asked.contains("issue-1") && asked.contains(LABEL), "{asked}");
    assert_eq!(session_state(&server, &anna, "issue-1"), "blocked");
    // It is added, is seen, and is removed from one of them.
    for name in ["issue-1", "issue-2"] {
        std::fs::write(issue(name), format!("bug\n{LABEL}\n")).unwrap();
    }
    let seen = || {
        let address = flyball_store::StoreAddress::parse(&server.store, &server.folder).unwrap();
        let store = address.open().unwrap();
        ["issue-1", "issue-2"].iter().all(|name| {
            store.kv_get("labels", name).unwrap().is_some_and(|note| note.value.contains(r#""present":true"#))
        })
    };
    wait_until("the label to be seen", seen);
    std::fs::write(issue("issue-1"), "bug\n").unwrap();
    wait_until("the release", || session_state(&server, &anna, "issue-1") == "running");
    assert_eq!(session_state(&server, &anna, "issue-2"), "blocked");
    // A command that fails or prints garbage changes nothing.
    for broken in ["exit 3", "echo nonsense"] {
        std::fs::write(
            server.folder.join("labels.sh"),
            format!("cat > asked.new\nmv asked.new asked.json\n{broken}\n"),
        )
        .unwrap();
        let _ = std::fs::remove_file(server.folder.join("asked.json"));
        wait_until("a failing poll", || server.folder.join("asked.json").exists());
        wait_until("an error in the log", || server.stderr.lock().unwrap().contains("label_command"));
    }
    assert_eq!(session_state(&server, &anna, "issue-2"), "blocked");
}

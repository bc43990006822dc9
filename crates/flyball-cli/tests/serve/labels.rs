//! Labels that come back from an issue tracker: signed webhooks, keys of operators, a program that is asked, and what
//! none of them can do.

use crate::kit::{Server, folder};
use flyball_serve::Role;
use ring::hmac;
use serde_json::{Value, json};
use std::path::Path;
use std::time::{Duration, Instant};

const LABEL: &str = "flyball-hitl:loop-prevention";
const SECRET: &str = "whsec-for-tests";
/// How long something may take that happens by itself.
const SOON: Duration = Duration::from_secs(60);

/// A server whose policy allows one visit of a node, and has these keys under `journal.labels`.
fn server(name: &str, labels: &str) -> Server {
    let folder = folder(name);
    let policy = format!("guards: {{visits: {{limit: 1}}}}\njournal: {{labels: {labels}}}\n");
    std::fs::write(folder.join("policy.yaml"), policy).unwrap();
    let store = format!("sqlite:{}", folder.join("flyball.db").display());
    Server::with(&folder, &store, &["--no-socket", "--policy", "policy.yaml"], &[("HUB_SECRET", SECRET)])
}

const HUB: &str = "{secret_env: HUB_SECRET, session: 'issue-{issue.number}', own_accounts: [flyball-bot]}";

/// Blocks a session, so that its label is set.
fn block(server: &Server, agent: &str, session: &str) {
    let turn = json!({"type": "turn.started", "session": session, "node": "test"});
    server.event(agent, &turn);
    let blocked = server.event(agent, &turn);
    assert_eq!((&blocked["decision"], &blocked["state"]), (&json!("block"), &json!("blocked")), "{blocked}");
    assert_eq!(blocked["effects"][0]["label"], LABEL);
}

fn state(server: &Server, key: &str, session: &str) -> String {
    server.json("GET", &format!("/v1/sessions/{session}"), key, None).1["state"]
        .as_str()
        .unwrap_or_default()
        .to_owned()
}

/// What the tracker sends when somebody changes a label.
fn webhook(action: &str, issue: u64, label: &str, by: &str) -> String {
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

/// Sends a webhook as the tracker does.
fn send(server: &Server, body: &str, delivery: &str) -> (u16, Value) {
    let signed = signature(SECRET, body);
    let headers = [
        ("Content-Type", "application/json"),
        ("X-Hub-Signature-256", signed.as_str()),
        ("X-GitHub-Delivery", delivery),
    ];
    let (status, told) = server.ask_with("POST", "/v1/labels", &headers, Some(body));
    (status, serde_json::from_str(&told).unwrap_or_default())
}

#[test]
fn a_label_taken_off_in_the_tracker_releases_the_session() {
    let server = server("labels", HUB);
    let (agent, anna) = (server.key("bot", Role::Agent), server.key("anna", Role::Operator));
    block(&server, &agent, "issue-7");
    let body = webhook("unlabeled", 7, LABEL, "anna");
    let (status, told) = send(&server, &body, "d-1");
    assert_eq!((status, &told["outcome"]), (200, &json!("released")), "{told}");
    assert_eq!(told["decision"]["effects"][0]["effect"], "label.removed");
    assert_eq!(state(&server, &anna, "issue-7"), "running");
    let turn = json!({"type": "turn.started", "session": "issue-7", "node": "test"});
    assert_eq!(server.event(&agent, &turn)["decision"], "warn", "three more may run");
    // Sent again it changes nothing, and the record says who did it.
    let (status, again) = send(&server, &body, "d-1");
    assert_eq!((status, &again["outcome"]), (200, &json!("ignored")), "{again}");
    let (_, events) = server.json("GET", "/v1/sessions/issue-7/events?from=1&to=50", &anna, None);
    let releases: Vec<&Value> = events["events"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| &one["event"])
        .filter(|event| event["type"] == "human.released")
        .collect();
    assert_eq!(releases.len(), 1, "{events}");
    assert_eq!((&releases[0]["by"], &releases[0]["guard"]), (&json!("label-webhook:anna"), &json!("visits")));
    let (_, audit) = server.json("GET", "/v1/audit?limit=10", &anna, None);
    assert!(audit.to_string().contains(r#""what":"unlabel""#), "{audit}");
}

#[test]
fn only_who_signs_or_has_an_operators_key_is_heard() {
    let server = server("labels-keys", HUB);
    let (agent, anna) = (server.key("bot", Role::Agent), server.key("anna", Role::Operator));
    block(&server, &agent, "issue-7");
    let body = webhook("unlabeled", 7, LABEL, "anna");
    let json_type = ("Content-Type", "application/json");
    let ask = |headers: &[(&str, &str)]| server.ask_with("POST", "/v1/labels", headers, Some(&body));
    assert_eq!(ask(&[json_type]).0, 401);
    let wrong = signature("another secret", &body);
    let other = signature(SECRET, &format!("{body} "));
    for bad in [wrong.as_str(), other.as_str(), "sha256=00", "sha256=zz", "sha1=00", ""] {
        let (status, told) = ask(&[json_type, ("X-Hub-Signature-256", bad)]);
        assert_eq!(status, 401, "{bad}: {told}");
        assert!(told.contains("signature_invalid"), "{told}");
        let operator = format!("Bearer {anna}");
        let both = [json_type, ("X-Hub-Signature-256", bad), ("Authorization", operator.as_str())];
        assert_eq!(ask(&both).0, 401, "{bad} with an operator's key");
    }
    for role in [Role::Agent, Role::Host, Role::Channel] {
        let key = format!("Bearer {}", server.key(role.as_str(), role));
        let signed = signature(SECRET, &body);
        let headers = [json_type, ("Authorization", key.as_str()), ("X-Hub-Signature-256", signed.as_str())];
        assert_eq!(ask(&headers).0, 403, "{role:?} with a signature as well");
    }
    assert_eq!(state(&server, &anna, "issue-7"), "blocked");
    let own = json!({"session": "issue-7", "issue": {"number": 7}, "label": LABEL, "action": "removed"});
    let (status, told) = server.json("POST", "/v1/labels", &anna, Some(&own));
    assert_eq!((status, &told["outcome"]), (200, &json!("released")), "{told}");
}

#[test]
fn without_a_secret_nothing_signed_is_believed() {
    let server = server("labels-secret", "{session: 'issue-{issue.number}'}");
    let (agent, anna) = (server.key("bot", Role::Agent), server.key("anna", Role::Operator));
    block(&server, &agent, "issue-7");
    for secret in ["", SECRET] {
        let body = webhook("unlabeled", 7, LABEL, "anna");
        let signed = signature(secret, &body);
        let headers = [("Content-Type", "application/json"), ("X-Hub-Signature-256", signed.as_str())];
        assert_eq!(server.ask_with("POST", "/v1/labels", &headers, Some(&body)).0, 401);
    }
    assert_eq!(state(&server, &anna, "issue-7"), "blocked");
}

#[test]
fn what_is_about_something_else_changes_nothing() {
    let server = server("labels-other", HUB);
    let (agent, anna) = (server.key("bot", Role::Agent), server.key("anna", Role::Operator));
    block(&server, &agent, "issue-7");
    let old = json!({"action": "unlabeled", "label": {"name": LABEL}, "sender": {"login": "anna"},
        "issue": {"number": 7, "updated_at": "2001-01-01T00:00:00Z"}})
    .to_string();
    for (body, why) in [
        (webhook("unlabeled", 7, "bug", "anna"), "it is another label"),
        (webhook("unlabeled", 99, LABEL, "anna"), "there is no such session"),
        (webhook("unlabeled", 7, LABEL, "flyball-bot"), "it is an account of Flyball's own (own_accounts)"),
        (old, "it is older than the block"),
        (
            json!({"action": "opened", "issue": {"number": 7}}).to_string(),
            "it tells of no label that was put on or taken off",
        ),
        (
            json!({"zen": "Keep it logically awesome.", "hook_id": 1}).to_string(),
            "it tells of no label that was put on or taken off",
        ),
    ] {
        let (status, told) = send(&server, &body, "d");
        assert_eq!((status, told["why"].as_str()), (200, Some(why)), "{told}");
    }
    for bad in [r#"{"action":"unlabeled","label":{"name":"x"}}"#, "[]", "{"] {
        assert_eq!(send(&server, bad, "d").0, 422, "{bad}");
    }
    assert_eq!(state(&server, &anna, "issue-7"), "blocked");
    let (_, told) = send(&server, &webhook("labeled", 7, LABEL, "flyball"), "d");
    assert_eq!(told["outcome"], "seen");
}

#[test]
fn a_persons_stop_is_never_lifted_by_a_label_and_neither_is_a_halt() {
    let server = server("labels-stop", HUB);
    let (agent, anna) = (server.key("bot", Role::Agent), server.key("anna", Role::Operator));
    block(&server, &agent, "issue-7");
    let stop = json!({"why": "wrong branch"});
    assert_eq!(server.json("POST", "/v1/sessions/issue-7/stop", &anna, Some(&stop)).0, 200);
    let (_, told) = send(&server, &webhook("unlabeled", 7, LABEL, "ben"), "d-1");
    assert_eq!(
        (&told["outcome"], &told["decision"]["state"]),
        (&json!("released"), &json!("halted")),
        "{told}"
    );
    assert_eq!(state(&server, &anna, "issue-7"), "halted");
    let turn = json!({"type": "turn.started", "session": "issue-7", "node": "other"});
    assert_eq!(server.event(&agent, &turn)["trips"][0]["message"], "stopped by anna: wrong branch");
    // A halt of another guard stays, too: the label stands for the block.
    block(&server, &agent, "issue-8");
    for _ in 0..9 {
        let call =
            json!({"type": "tool.requested", "session": "issue-8", "tool": "bash", "args": {"c": "ls"}});
        server.event(&agent, &call);
    }
    assert_eq!(state(&server, &anna, "issue-8"), "halted");
    let (_, told) = send(&server, &webhook("unlabeled", 8, LABEL, "ben"), "d-2");
    assert_eq!(
        (&told["outcome"], &told["decision"]["state"]),
        (&json!("released"), &json!("halted")),
        "{told}"
    );
}

#[test]
fn a_label_put_on_outside_is_a_stop_only_if_the_policy_says_so() {
    let turn = json!({"type": "turn.started", "session": "issue-7", "node": "test"});
    for (name, more, outcome, expected) in [
        ("labels-ignore", "", "ignored", "running"),
        ("labels-stops", ", on_added: stop", "stopped", "halted"),
    ] {
        let server =
            server(name, &format!("{{secret_env: HUB_SECRET, session: 'issue-{{issue.number}}'{more}}}"));
        let (agent, anna) = (server.key("bot", Role::Agent), server.key("anna", Role::Operator));
        server.event(&agent, &turn);
        let (_, told) = send(&server, &webhook("labeled", 7, LABEL, "ben"), "d-1");
        assert_eq!(told["outcome"], outcome, "{told}");
        assert_eq!(state(&server, &anna, "issue-7"), expected);
        // Taking it off again lifts no stop of a person.
        send(&server, &webhook("unlabeled", 7, LABEL, "ben"), "d-2");
        assert_eq!(state(&server, &anna, "issue-7"), expected);
    }
}

/// Waits until something holds.
fn soon(what: &str, mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < SOON, "{what} did not come");
        std::thread::park_timeout(Duration::from_millis(50));
    }
}

/// A tracker in a folder: a file for each session, with one label a line.
fn tracker(folder: &Path) {
    std::fs::create_dir_all(folder.join("issues")).unwrap();
    let script = "#!/bin/sh\ncat > asked.new\nmv asked.new asked.json\nfor file in issues/*; do\n  [ -e \"$file\" ] || continue\n  \
                  name=$(basename \"$file\")\n  labels=$(sed 's/.*/\"&\"/' \"$file\" | paste -sd, -)\n  \
                  echo \"{\\\"session\\\":\\\"$name\\\",\\\"labels\\\":[$labels],\\\"by\\\":\\\"anna\\\"}\"\ndone\n";
    std::fs::write(folder.join("labels.sh"), script).unwrap();
}

#[test]
fn a_program_that_is_asked_releases_only_what_it_has_shown_before() {
    let server = server("labels-command", "{command: [sh, ./labels.sh], every: 1s}");
    tracker(&server.folder);
    let (agent, anna) = (server.key("bot", Role::Agent), server.key("anna", Role::Operator));
    let issue = |name: &str| server.folder.join("issues").join(name);
    for name in ["issue-1", "issue-2"] {
        block(&server, &agent, name);
        std::fs::write(issue(name), "bug\n").unwrap();
    }
    // The label has not come to the tracker yet: its absence means nothing.
    soon("two looks", || server.folder.join("asked.json").exists());
    std::fs::remove_file(server.folder.join("asked.json")).unwrap();
    soon("another look", || server.folder.join("asked.json").exists());
    let asked = std::fs::read_to_string(server.folder.join("asked.json")).unwrap();
    assert!(asked.contains("issue-1") && asked.contains(LABEL), "{asked}");
    assert_eq!(state(&server, &anna, "issue-1"), "blocked");
    // It comes, is seen, and is taken off from one of them.
    for name in ["issue-1", "issue-2"] {
        std::fs::write(issue(name), format!("bug\n{LABEL}\n")).unwrap();
    }
    let seen = || {
        let address = flyball_journal::Address::read(&server.store, &server.folder).unwrap();
        let desk = address.open().unwrap();
        ["issue-1", "issue-2"].iter().all(|name| {
            desk.note("labels", name).unwrap().is_some_and(|note| note.text.contains(r#""present":true"#))
        })
    };
    soon("the label is seen", seen);
    std::fs::write(issue("issue-1"), "bug\n").unwrap();
    soon("the release", || state(&server, &anna, "issue-1") == "running");
    assert_eq!(state(&server, &anna, "issue-2"), "blocked");
    // A program that fails or talks nonsense changes nothing.
    for broken in ["exit 3", "echo nonsense"] {
        std::fs::write(
            server.folder.join("labels.sh"),
            format!("cat > asked.new\nmv asked.new asked.json\n{broken}\n"),
        )
        .unwrap();
        let _ = std::fs::remove_file(server.folder.join("asked.json"));
        soon("a look that fails", || server.folder.join("asked.json").exists());
        soon("a complaint", || server.said.lock().unwrap().contains("label_command"));
    }
    assert_eq!(state(&server, &anna, "issue-2"), "blocked");
}

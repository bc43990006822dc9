//! Workflow runs through the server: started by name, executed by workers, continued after a person's answer.

use crate::server_harness::{TestServer, test_dir};
use flyball_server::AuthRole;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const QUESTION_WORKFLOW: &str = r#"
version: 1
name: asks
goal: ask which day
nodes:
  - {name: first, kind: command, run: [sh, -c, 'echo "first secret=${FLYBALL_SMTP_PASSWORD:-none}" >> steps.log'], next: ask}
  - {name: ask, kind: human, ask: "Which day?", next: last}
  - {name: last, kind: command, run: [sh, -c, 'echo last >> steps.log'], next: done}
"#;

/// The second step waits for a file: it can be interrupted in the middle, and may be run again.
const WAITING_WORKFLOW: &str = r#"
version: 1
name: waits
nodes:
  - {name: first, kind: command, run: [sh, -c, 'echo first >> steps.log'], next: second}
  - {name: second, kind: command, rerun: true, run: [sh, -c, 'echo begun >> steps.log; while [ ! -e go ]; do sleep 0.05; done; echo second >> steps.log'], next: done}
"#;

/// Creates a folder with workflows.
pub(crate) fn workflows_dir(folder: &Path) -> PathBuf {
    let flows = folder.join("flows");
    std::fs::create_dir_all(&flows).unwrap();
    std::fs::write(flows.join("asks.yaml"), QUESTION_WORKFLOW).unwrap();
    std::fs::write(flows.join("waits.yaml"), WAITING_WORKFLOW).unwrap();
    flows
}

/// The lines written by the steps.
pub(crate) fn step_log(flows: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(flows.join("steps.log")).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

pub(crate) fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let began = Instant::now();
    while !done() {
        assert!(began.elapsed() < Duration::from_secs(60), "timed out waiting for {what}");
        std::thread::park_timeout(Duration::from_millis(20));
    }
}

pub(crate) fn json_of((status, body): (u16, String), wanted: u16) -> Value {
    assert_eq!(status, wanted, "{body}");
    serde_json::from_str(&body).unwrap()
}

fn post(server: &TestServer, path: &str, key: &str, body: &Value) -> (u16, String) {
    server.request("POST", path, Some(key), Some(&body.to_string()))
}

/// The run of a session, as listed.
pub(crate) fn find_run(server: &TestServer, key: &str, session: &str) -> Value {
    let list = json_of(server.request("GET", "/v1/runs", Some(key), None), 200);
    let found = list["runs"].as_array().unwrap().iter().find(|run| run["session"] == session);
    found.cloned().unwrap_or_default()
}

fn start_server(name: &str) -> (TestServer, PathBuf) {
    let folder = test_dir(name);
    let flows = workflows_dir(&folder);
    let args = ["--no-socket", "--workflows", flows.to_str().unwrap()];
    (TestServer::start(&folder, &args), flows)
}

#[test]
fn run_asks_a_person_and_continues_after_the_answer() {
    let (server, flows) = start_server("answer");
    let (agent, person) =
        (server.create_key("bot", AuthRole::Agent), server.create_key("anna", AuthRole::Operator));
    let listed = json_of(server.request("GET", "/v1/workflows", Some(&agent), None), 200);
    assert_eq!(listed["workflows"], json!([{"name": "asks", "goal": "ask which day"}, {"name": "waits"}]));
    let start = json!({"workflow": "asks", "session": "trip"});
    assert_eq!(post(&server, "/v1/runs", &agent, &start).0, 403, "an agent cannot start runs");
    let run = json_of(post(&server, "/v1/runs", &person, &start), 202);
    assert_eq!(
        (&run["session"], &run["workflow"], &run["by"]),
        (&json!("trip"), &json!("asks"), &json!("anna"))
    );
    wait_until("the question", || find_run(&server, &person, "trip")["last"]["exit"] == 4);
    assert_eq!(step_log(&flows), ["first secret=none"]);
    let words = json!({"text": "Friday"});
    assert_eq!(post(&server, "/v1/sessions/trip/messages", &agent, &words).0, 403);
    assert_eq!(post(&server, "/v1/sessions/missing/messages", &person, &words).0, 404);
    let decision = json_of(post(&server, "/v1/sessions/trip/messages", &person, &words), 200);
    assert_eq!(decision["decision"], "allow");
    wait_until("the end", || find_run(&server, &person, "trip")["last"]["exit"] == 0);
    assert_eq!(step_log(&flows), ["first secret=none", "last"]);
    let run = find_run(&server, &person, "trip");
    assert_eq!((&run["state"], &run["work"]), (&json!("ended"), &json!("none")));
}

#[test]
fn same_idempotency_key_returns_the_same_run() {
    let (server, flows) = start_server("again");
    let person = server.create_key("anna", AuthRole::Operator);
    let start = |key: &str, body: Value| {
        let bearer = format!("Bearer {person}");
        let headers = [
            ("Authorization", bearer.as_str()),
            ("Content-Type", "application/json"),
            ("Idempotency-Key", key),
        ];
        server.request_with_headers("POST", "/v1/runs", &headers, Some(&body.to_string()))
    };
    let first = json_of(start("k1", json!({"workflow": "asks"})), 202);
    let again = json_of(start("k1", json!({"workflow": "asks"})), 202);
    assert_eq!(first["session"], again["session"]);
    let other = json_of(start("k1", json!({"workflow": "waits"})), 409);
    assert_eq!(other["error"]["code"], "idempotency_conflict");
    let session = first["session"].as_str().unwrap();
    wait_until("the question", || find_run(&server, &person, session)["last"]["exit"] == 4);
    json_of(start("k1", json!({"workflow": "asks"})), 202);
    let taken = json_of(start("k2", json!({"workflow": "asks", "session": session})), 409);
    assert_eq!(taken["error"]["code"], "run_exists");
    assert_eq!(step_log(&flows).len(), 1, "the first step ran once");
}

#[test]
fn only_workflows_in_the_folder_can_run() {
    let (server, flows) = start_server("folder");
    let (agent, person) =
        (server.create_key("bot", AuthRole::Agent), server.create_key("anna", AuthRole::Operator));
    let outside = flows.parent().unwrap().join("outside.yaml");
    std::fs::write(&outside, QUESTION_WORKFLOW).unwrap();
    std::os::unix::fs::symlink(&outside, flows.join("link.yaml")).unwrap();
    std::fs::write(flows.join("broken.yaml"), "nodes: [").unwrap();
    let listed = json_of(server.request("GET", "/v1/workflows", Some(&agent), None), 200);
    let names: Vec<&str> =
        listed["workflows"].as_array().unwrap().iter().map(|flow| flow["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["asks", "broken", "waits"]);
    let absolute = outside.with_extension("");
    for name in
        ["link", "../outside", "outside", "/etc/passwd", "..", "", "flows/asks", absolute.to_str().unwrap()]
    {
        let refused = json_of(post(&server, "/v1/runs", &person, &json!({"workflow": name})), 404);
        assert_eq!(refused["error"]["code"], "no_such_workflow", "{name}");
    }
    for (set, code) in [
        (json!({"journal.deliver": "[]"}), "policy_forbidden"),
        (json!({"Journal.deliver": "x"}), "policy_forbidden"),
        (json!({"on_error": "allow"}), "policy_forbidden"),
        (json!({"a=b": 1}), "bad_run"),
        (json!({"budgets": {"session": 1}}), "bad_run"),
    ] {
        let body = json!({"workflow": "asks", "set": set});
        assert_eq!(json_of(post(&server, "/v1/runs", &person, &body), 422)["error"]["code"], code, "{set}");
    }
    // A session that claims to be a run of some file is not trusted.
    let claims = json!({"type": "session.started", "session": "liar", "file": outside, "goal": "x"});
    server.submit_event(&agent, &claims);
    let refused = json_of(post(&server, "/v1/sessions/liar/resume", &person, &json!({})), 409);
    assert_eq!(refused["error"]["code"], "not_a_run");
    assert_eq!(post(&server, "/v1/sessions/missing/resume", &person, &json!({})).0, 404);
    json_of(post(&server, "/v1/sessions/liar/messages", &person, &json!({"text": "continue"})), 200);
    assert!(step_log(flows.parent().unwrap()).is_empty(), "nothing outside the folder was run");
}

#[test]
fn killed_run_is_resumed_where_it_stopped() {
    let (server, flows) = start_server("killed");
    let person = server.create_key("anna", AuthRole::Operator);
    json_of(post(&server, "/v1/runs", &person, &json!({"workflow": "waits", "session": "w"})), 202);
    wait_until("the second step", || step_log(&flows).contains(&"begun".to_owned()));
    let id = child_of(server.child.id());
    rustix::process::kill_process(id, rustix::process::Signal::KILL).unwrap();
    wait_until("the second step again", || {
        step_log(&flows).iter().filter(|step| *step == "begun").count() == 2
    });
    std::fs::write(flows.join("go"), "").unwrap();
    wait_until("the end", || find_run(&server, &person, "w")["last"]["exit"] == 0);
    assert_eq!(
        step_log(&flows).iter().filter(|step| *step == "first").count(),
        1,
        "a finished step runs once"
    );
    assert_eq!(server.request("GET", "/healthz", None, None).0, 200, "the server survives the killed run");
}

/// The child process of a server.
pub(crate) fn child_of(parent: u32) -> rustix::process::Pid {
    let text = std::fs::read_dir(format!("/proc/{parent}/task")).unwrap().filter_map(Result::ok);
    let all = text.filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok());
    let id = all.flat_map(|text| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>()).next();
    rustix::process::Pid::from_raw(id.expect("a child").parse().unwrap()).unwrap()
}

/// A loop that is blocked once by its visit limit and finishes after a release.
const BLOCKED_WORKFLOW: &str = r#"
version: 1
name: blocked
policy: {guards: {visits: {limit: 2}}}
nodes:
  - {name: fix, kind: command, rerun: true, run: [sh, -c, 'echo fix >> steps.log'], next: test}
  - {name: test, kind: command, rerun: true, run: [sh, -c, 'test $(wc -l < steps.log) -ge 3'], on_success: done, on_failure: fix}
"#;

#[test]
fn removed_label_resumes_the_run_over_http_and_cli() {
    for how in ["http", "command line"] {
        let folder = test_dir(&format!("label-{}", how.len()));
        let flows = workflows_dir(&folder);
        std::fs::write(flows.join("blocked.yaml"), BLOCKED_WORKFLOW).unwrap();
        let args = ["--no-socket", "--workflows", flows.to_str().unwrap()];
        let server = TestServer::start(&folder, &args);
        let person = server.create_key("anna", AuthRole::Operator);
        json_of(
            post(&server, "/v1/runs", &person, &json!({"workflow": "blocked", "session": "issue-7"})),
            202,
        );
        wait_until("the block", || find_run(&server, &person, "issue-7")["last"]["exit"] == 4);
        let label = "flyball-hitl:loop-prevention";
        if how == "http" {
            let change = json!({"session": "issue-7", "label": label, "action": "removed", "by": "ben"});
            let response = json_of(post(&server, "/v1/labels", &person, &change), 200);
            assert_eq!(response["outcome"], "released", "{response}");
        } else {
            let told = std::process::Command::new(env!("CARGO_BIN_EXE_flyball"))
                .args(["unlabel", "issue-7", "--store", &server.store, "--by", "anna", "--why", "fixed"])
                .current_dir(&folder)
                .output()
                .unwrap();
            let told = String::from_utf8_lossy(&told.stdout).into_owned();
            assert!(told.contains("a server worker resumes it"), "{told}");
        }
        wait_until("the end", || find_run(&server, &person, "issue-7")["last"]["exit"] == 0);
        assert_eq!(step_log(&flows), ["fix", "fix", "fix"]);
    }
}

/// Its first run takes longer than the runtime budget.
const INTERRUPTED_WORKFLOW: &str = r#"
version: 1
name: cut
policy: {budgets: {session: {runtime: 1s}}}
nodes:
  - {name: work, kind: command, run: [sh, -c, 'echo begun >> steps.log; if [ $(wc -l < steps.log) -lt 2 ]; then sleep 60; fi'], on_success: done, on_failure: failed}
"#;

#[test]
fn run_interrupted_by_a_budget_continues_after_a_release_over_http() {
    let folder = test_dir("cut");
    let flows = workflows_dir(&folder);
    std::fs::write(flows.join("cut.yaml"), INTERRUPTED_WORKFLOW).unwrap();
    let server = TestServer::start(&folder, &["--no-socket", "--workflows", flows.to_str().unwrap()]);
    let person = server.create_key("anna", AuthRole::Operator);
    json_of(post(&server, "/v1/runs", &person, &json!({"workflow": "cut", "session": "slow"})), 202);
    wait_until("the cut", || find_run(&server, &person, "slow")["last"]["exit"] == 3);
    let release = json!({"guard": "budget", "why": "it is worth it"});
    let decision = json_of(post(&server, "/v1/sessions/slow/releases", &person, &release), 200);
    let raised =
        decision["effects"].as_array().unwrap().iter().find(|effect| effect["effect"] == "budget.raised");
    let text = raised.unwrap_or_else(|| panic!("{decision}"))["text"].as_str().unwrap();
    assert!(text.starts_with("granted 10m0s more runtime to the session: "), "{text}");
    wait_until("the end", || find_run(&server, &person, "slow")["last"]["exit"] == 0);
    assert_eq!(step_log(&flows), ["begun", "begun"]);
}

//! Workflows through the server: started by name, carried out by workers, gone on with after a person's word.

use crate::kit::{Server, folder};
use flyball_serve::Role;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const ASKS: &str = r#"
version: 1
name: asks
goal: ask which day
nodes:
  - {name: first, kind: command, run: [sh, -c, 'echo "first secret=${FLYBALL_SMTP_PASSWORD:-none}" >> steps.log'], next: ask}
  - {name: ask, kind: human, ask: "Which day?", next: last}
  - {name: last, kind: command, run: [sh, -c, 'echo last >> steps.log'], next: done}
"#;

/// The second step waits until a file is there: it can be cut off in the middle, and may be run again.
const WAITS: &str = r#"
version: 1
name: waits
nodes:
  - {name: first, kind: command, run: [sh, -c, 'echo first >> steps.log'], next: second}
  - {name: second, kind: command, rerun: true, run: [sh, -c, 'echo begun >> steps.log; while [ ! -e go ]; do sleep 0.05; done; echo second >> steps.log'], next: done}
"#;

/// A folder with workflows in it.
pub(crate) fn flows(folder: &Path) -> PathBuf {
    let flows = folder.join("flows");
    std::fs::create_dir_all(&flows).unwrap();
    std::fs::write(flows.join("asks.yaml"), ASKS).unwrap();
    std::fs::write(flows.join("waits.yaml"), WAITS).unwrap();
    flows
}

/// The lines that the steps have written.
pub(crate) fn steps(flows: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(flows.join("steps.log")).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

pub(crate) fn until(what: &str, mut done: impl FnMut() -> bool) {
    let began = Instant::now();
    while !done() {
        assert!(began.elapsed() < Duration::from_secs(60), "it never came: {what}");
        std::thread::park_timeout(Duration::from_millis(20));
    }
}

pub(crate) fn json_of((status, body): (u16, String), wanted: u16) -> Value {
    assert_eq!(status, wanted, "{body}");
    serde_json::from_str(&body).unwrap()
}

fn post(server: &Server, path: &str, key: &str, body: &Value) -> (u16, String) {
    server.ask("POST", path, Some(key), Some(&body.to_string()))
}

/// The run of a session, as the list has it.
pub(crate) fn run_of(server: &Server, key: &str, session: &str) -> Value {
    let list = json_of(server.ask("GET", "/v1/runs", Some(key), None), 200);
    let found = list["runs"].as_array().unwrap().iter().find(|run| run["session"] == session);
    found.cloned().unwrap_or_default()
}

fn server(name: &str) -> (Server, PathBuf) {
    let folder = folder(name);
    let flows = flows(&folder);
    let args = ["--no-socket", "--workflows", flows.to_str().unwrap()];
    (Server::start(&folder, &args), flows)
}

#[test]
fn a_run_asks_a_person_and_goes_on_by_itself_after_the_answer() {
    let (server, flows) = server("answer");
    let (agent, person) = (server.key("bot", Role::Agent), server.key("anna", Role::Operator));
    let listed = json_of(server.ask("GET", "/v1/workflows", Some(&agent), None), 200);
    assert_eq!(listed["workflows"], json!([{"name": "asks", "goal": "ask which day"}, {"name": "waits"}]));
    let start = json!({"workflow": "asks", "session": "trip"});
    assert_eq!(post(&server, "/v1/runs", &agent, &start).0, 403, "an agent starts nothing");
    let run = json_of(post(&server, "/v1/runs", &person, &start), 202);
    assert_eq!(
        (&run["session"], &run["workflow"], &run["by"]),
        (&json!("trip"), &json!("asks"), &json!("anna"))
    );
    until("the question", || run_of(&server, &person, "trip")["last"]["exit"] == 4);
    assert_eq!(steps(&flows), ["first secret=none"]);
    let words = json!({"text": "Friday"});
    assert_eq!(post(&server, "/v1/sessions/trip/messages", &agent, &words).0, 403);
    assert_eq!(post(&server, "/v1/sessions/nobody/messages", &person, &words).0, 404);
    let decision = json_of(post(&server, "/v1/sessions/trip/messages", &person, &words), 200);
    assert_eq!(decision["decision"], "allow");
    until("the end", || run_of(&server, &person, "trip")["last"]["exit"] == 0);
    assert_eq!(steps(&flows), ["first secret=none", "last"]);
    let run = run_of(&server, &person, "trip");
    assert_eq!((&run["state"], &run["work"]), (&json!("ended"), &json!("none")));
}

#[test]
fn the_same_key_gives_the_same_run() {
    let (server, flows) = server("again");
    let person = server.key("anna", Role::Operator);
    let start = |key: &str, body: Value| {
        let bearer = format!("Bearer {person}");
        let headers = [
            ("Authorization", bearer.as_str()),
            ("Content-Type", "application/json"),
            ("Idempotency-Key", key),
        ];
        server.ask_with("POST", "/v1/runs", &headers, Some(&body.to_string()))
    };
    let first = json_of(start("k1", json!({"workflow": "asks"})), 202);
    let again = json_of(start("k1", json!({"workflow": "asks"})), 202);
    assert_eq!(first["session"], again["session"]);
    let other = json_of(start("k1", json!({"workflow": "waits"})), 409);
    assert_eq!(other["error"]["code"], "idempotency_conflict");
    let session = first["session"].as_str().unwrap();
    until("the question", || run_of(&server, &person, session)["last"]["exit"] == 4);
    json_of(start("k1", json!({"workflow": "asks"})), 202);
    let taken = json_of(start("k2", json!({"workflow": "asks", "session": session})), 409);
    assert_eq!(taken["error"]["code"], "run_exists");
    assert_eq!(steps(&flows).len(), 1, "it ran once");
}

#[test]
fn only_workflows_of_the_folder_are_run() {
    let (server, flows) = server("folder");
    let (agent, person) = (server.key("bot", Role::Agent), server.key("anna", Role::Operator));
    let outside = flows.parent().unwrap().join("outside.yaml");
    std::fs::write(&outside, ASKS).unwrap();
    std::os::unix::fs::symlink(&outside, flows.join("link.yaml")).unwrap();
    std::fs::write(flows.join("broken.yaml"), "nodes: [").unwrap();
    let listed = json_of(server.ask("GET", "/v1/workflows", Some(&agent), None), 200);
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
    // A session that says of itself that it is a run of some file is not believed.
    let claims = json!({"type": "session.started", "session": "liar", "file": outside, "goal": "x"});
    server.event(&agent, &claims);
    let refused = json_of(post(&server, "/v1/sessions/liar/resume", &person, &json!({})), 409);
    assert_eq!(refused["error"]["code"], "run_not_a_run");
    assert_eq!(post(&server, "/v1/sessions/nobody/resume", &person, &json!({})).0, 404);
    json_of(post(&server, "/v1/sessions/liar/messages", &person, &json!({"text": "go on"})), 200);
    assert!(steps(flows.parent().unwrap()).is_empty(), "nothing outside of the folder has run");
}

#[test]
fn a_run_that_is_killed_is_taken_up_again_where_it_was() {
    let (server, flows) = server("killed");
    let person = server.key("anna", Role::Operator);
    json_of(post(&server, "/v1/runs", &person, &json!({"workflow": "waits", "session": "w"})), 202);
    until("the second step", || steps(&flows).contains(&"begun".to_owned()));
    let id = child_of(server.child.id());
    rustix::process::kill_process(id, rustix::process::Signal::KILL).unwrap();
    until("the second step again", || steps(&flows).iter().filter(|step| *step == "begun").count() == 2);
    std::fs::write(flows.join("go"), "").unwrap();
    until("the end", || run_of(&server, &person, "w")["last"]["exit"] == 0);
    assert_eq!(steps(&flows).iter().filter(|step| *step == "first").count(), 1, "a finished step runs once");
    assert_eq!(server.ask("GET", "/healthz", None, None).0, 200, "it took nobody along");
}

/// The process that a server has started.
pub(crate) fn child_of(parent: u32) -> rustix::process::Pid {
    let text = std::fs::read_dir(format!("/proc/{parent}/task")).unwrap().filter_map(Result::ok);
    let all = text.filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok());
    let id = all.flat_map(|text| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>()).next();
    rustix::process::Pid::from_raw(id.expect("a child").parse().unwrap()).unwrap()
}

/// A loop that its visits limit blocks once, and that a release lets come to its end.
const BLOCKED: &str = r#"
version: 1
name: blocked
policy: {guards: {visits: {limit: 2}}}
nodes:
  - {name: fix, kind: command, rerun: true, run: [sh, -c, 'echo fix >> steps.log'], next: test}
  - {name: test, kind: command, rerun: true, run: [sh, -c, 'test $(wc -l < steps.log) -ge 3'], on_success: done, on_failure: fix}
"#;

#[test]
fn a_label_taken_off_wakes_the_worker_through_the_server_and_from_the_command_line() {
    for how in ["http", "command line"] {
        let folder = folder(&format!("label-{}", how.len()));
        let flows = flows(&folder);
        std::fs::write(flows.join("blocked.yaml"), BLOCKED).unwrap();
        let args = ["--no-socket", "--workflows", flows.to_str().unwrap()];
        let server = Server::start(&folder, &args);
        let person = server.key("anna", Role::Operator);
        json_of(
            post(&server, "/v1/runs", &person, &json!({"workflow": "blocked", "session": "issue-7"})),
            202,
        );
        until("the block", || run_of(&server, &person, "issue-7")["last"]["exit"] == 4);
        let label = "flyball-hitl:loop-prevention";
        if how == "http" {
            let change = json!({"session": "issue-7", "label": label, "action": "removed", "by": "ben"});
            let told = json_of(post(&server, "/v1/labels", &person, &change), 200);
            assert_eq!(told["outcome"], "released", "{told}");
        } else {
            let told = std::process::Command::new(env!("CARGO_BIN_EXE_flyball"))
                .args(["unlabel", "issue-7", "--store", &server.store, "--by", "anna", "--why", "fixed"])
                .current_dir(&folder)
                .output()
                .unwrap();
            let told = String::from_utf8_lossy(&told.stdout).into_owned();
            assert!(told.contains("a worker of the server continues it"), "{told}");
        }
        until("the end", || run_of(&server, &person, "issue-7")["last"]["exit"] == 0);
        assert_eq!(steps(&flows), ["fix", "fix", "fix"]);
    }
}

/// The first time it is run it takes longer than the runtime allows.
const CUT: &str = r#"
version: 1
name: cut
policy: {budgets: {session: {runtime: 1s}}}
nodes:
  - {name: work, kind: command, run: [sh, -c, 'echo begun >> steps.log; if [ $(wc -l < steps.log) -lt 2 ]; then sleep 60; fi'], on_success: done, on_failure: failed}
"#;

#[test]
fn a_run_that_a_budget_cut_continues_after_a_release_over_http() {
    let folder = folder("cut");
    let flows = flows(&folder);
    std::fs::write(flows.join("cut.yaml"), CUT).unwrap();
    let server = Server::start(&folder, &["--no-socket", "--workflows", flows.to_str().unwrap()]);
    let person = server.key("anna", Role::Operator);
    json_of(post(&server, "/v1/runs", &person, &json!({"workflow": "cut", "session": "slow"})), 202);
    until("the cut", || run_of(&server, &person, "slow")["last"]["exit"] == 3);
    let release = json!({"guard": "budget", "why": "it is worth it"});
    let decision = json_of(post(&server, "/v1/sessions/slow/releases", &person, &release), 200);
    let raised =
        decision["effects"].as_array().unwrap().iter().find(|effect| effect["effect"] == "budget.raised");
    let text = raised.unwrap_or_else(|| panic!("{decision}"))["text"].as_str().unwrap();
    assert!(text.starts_with("granted 10m0s more runtime to the session: "), "{text}");
    until("the end", || run_of(&server, &person, "slow")["last"]["exit"] == 0);
    assert_eq!(steps(&flows), ["begun", "begun"]);
}

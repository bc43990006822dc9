//! The HTTP API: events, sessions, operators, policies, keys, the audit log.

use crate::server_harness::{TestServer, test_dir};
use flyball_server::AuthRole;
use serde_json::{Value, json};

fn tool_call(session: &str, at: u64) -> Value {
    json!({"type": "tool.requested", "session": session, "call": format!("c{at}"), "tool": "bash",
        "args": {"command": "ls"}})
}

/// Repeats a call until the session is blocked; returns the sequence number of the blocked event.
pub(crate) fn run_until_blocked(server: &TestServer, agent: &str, session: &str) -> u64 {
    let stopped = (0..40).find_map(|at| {
        let decision = server.submit_event(agent, &tool_call(session, at));
        if decision["state"] != "running" {
            return decision["seq"].as_u64();
        }
        let done = json!({"type": "tool.finished", "session": session, "call": format!("c{at}"), "ok": true,
            "output": "a b"});
        server.submit_event(agent, &done);
        None
    });
    stopped.unwrap()
}

/// Requests approval of a plan; returns the decision.
pub(crate) fn request_approval(server: &TestServer, agent: &str, session: &str, file: &str) -> Value {
    let event = json!({"type": "confirmation.requested", "session": session, "question": format!("Delete {file}?"),
        "plan": [{"tool": "delete", "args": {"file": file}}]});
    let decision = server.submit_event(agent, &event);
    assert_eq!(decision["state"], "awaiting_confirmation", "{decision}");
    decision
}

/// The ticket for the pending plan of a session.
pub(crate) fn ticket(server: &TestServer, operator: &str, session: &str) -> Option<String> {
    let (status, inbox) = server.request_json("GET", "/v1/inbox", operator, None);
    assert_eq!(status, 200, "{inbox}");
    let found = inbox["waiting"].as_array().unwrap().iter().find(|one| one["session"] == session)?.clone();
    found["ticket"].as_str().map(str::to_owned)
}

#[test]
fn event_gets_a_decision_and_an_unauthenticated_caller_nothing() {
    let server = TestServer::start(&test_dir("first"), &["--no-socket"]);
    let agent = server.create_key("bot", AuthRole::Agent);
    let event = tool_call("s", 0);
    let decision = server.submit_event(&agent, &event);
    assert_eq!((&decision["decision"], &decision["seq"]), (&json!("allow"), &json!(1)));
    assert_eq!(server.request("POST", "/v1/events", None, Some(&event.to_string())).0, 401);
    let (status, reply) =
        server.request("POST", "/v1/events", Some("flyball_agent_0"), Some(&event.to_string()));
    assert_eq!(status, 401);
    let reply: Value = serde_json::from_str(&reply).unwrap();
    assert_eq!(reply["error"]["help"], "/errors/key_unknown");
    assert_eq!(server.request("GET", "/healthz", None, None), (200, "ok\n".to_owned()));
}

#[test]
fn batch_gets_one_answer_per_event_despite_a_bad_one() {
    let server = TestServer::start(&test_dir("many"), &["--no-socket"]);
    let agent = server.create_key("bot", AuthRole::Agent);
    let stop = json!({"type": "human.stopped", "session": "m", "why": "me"});
    let many = json!([tool_call("m", 0), {"type": "tool.reqested"}, stop, tool_call("m", 1)]);
    let (status, answers) = server.request_json("POST", "/v1/events", &agent, Some(&many));
    assert_eq!(status, 200, "{answers}");
    assert_eq!((&answers[0]["seq"], &answers[3]["seq"]), (&json!(1), &json!(2)));
    assert_eq!(answers[1]["error"]["code"], "unknown_event");
    assert_eq!(answers[2]["error"]["code"], "role_forbidden");
    let lines = format!("{}\n\n{}\n", tool_call("m", 2), tool_call("m", 3));
    let bearer = format!("Bearer {agent}");
    let headers = [("Authorization", bearer.as_str()), ("Content-Type", "application/x-ndjson")];
    let (status, text) = server.request_with_headers("POST", "/v1/sessions/m/events", &headers, Some(&lines));
    assert_eq!(status, 200, "{text}");
    let seqs: Vec<Value> =
        text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["seq"].clone()).collect();
    assert_eq!(seqs, [json!(3), json!(4)]);
    let too_many = Value::Array((0..1001).map(|at| tool_call("m", at)).collect());
    let (status, reply) = server.request_json("POST", "/v1/events", &agent, Some(&too_many));
    assert_eq!((status, &reply["error"]["code"]), (422, &json!("bad_request")));
    let (_, session) = server.request_json("GET", "/v1/sessions/m", &agent, None);
    assert_eq!(session["report"]["events"], 4, "nothing else was recorded: {session}");
}

#[test]
fn path_sets_the_session_and_header_sets_the_id() {
    let server = TestServer::start(&test_dir("path"), &["--no-socket"]);
    let agent = server.create_key("bot", AuthRole::Agent);
    let event = json!({"type": "turn.started"});
    let bearer = format!("Bearer {agent}");
    let headers = [
        ("Authorization", bearer.as_str()),
        ("Content-Type", "application/json"),
        ("Idempotency-Key", "once"),
    ];
    let path = "/v1/sessions/a%2Fb/events";
    let (_, first) = server.request_with_headers("POST", path, &headers, Some(&event.to_string()));
    let (status, again) = server.request_with_headers("POST", path, &headers, Some(&event.to_string()));
    assert_eq!((status, &first), (200, &again), "a retry gets the same response");
    let other = json!({"type": "turn.started", "node": "x"}).to_string();
    let (status, reply) = server.request_with_headers("POST", path, &headers, Some(&other));
    assert_eq!(status, 409, "{reply}");
    let (_, session) = server.request_json("GET", "/v1/sessions/a%2Fb", &agent, None);
    assert_eq!((&session["session"], &session["report"]["events"]), (&json!("a/b"), &json!(1)));
    let elsewhere = json!({"type": "turn.started", "session": "c"});
    let (status, reply) = server.request_json("POST", path, &agent, Some(&elsewhere));
    assert_eq!((status, &reply["error"]["code"]), (422, &json!("bad_request")));
}

#[test]
fn sessions_are_listed_in_pages_and_shown_in_full() {
    let server = TestServer::start(&test_dir("list"), &["--no-socket"]);
    let (agent, anna) =
        (server.create_key("bot", AuthRole::Agent), server.create_key("anna", AuthRole::Operator));
    for at in 0..5 {
        server.submit_event(&agent, &tool_call(&format!("s{at}"), 0));
    }
    let seq = run_until_blocked(&server, &agent, "loop");
    let mut names = Vec::new();
    let mut path = "/v1/sessions?limit=2".to_owned();
    loop {
        let (status, page) = server.request_json("GET", &path, &anna, None);
        assert_eq!(status, 200, "{page}");
        let some = page["sessions"].as_array().unwrap();
        assert!(some.len() <= 2);
        names.extend(some.iter().map(|one| one["session"].as_str().unwrap().to_owned()));
        let Some(next) = page["next"].as_str() else { break };
        path = format!("/v1/sessions?limit=2&after={next}");
    }
    names.sort();
    assert_eq!(names, ["loop", "s0", "s1", "s2", "s3", "s4"]);
    let only = |query: &str| {
        let (_, page) = server.request_json("GET", &format!("/v1/sessions?{query}"), &anna, None);
        page["sessions"].as_array().unwrap().len()
    };
    assert_eq!(
        (only("state=blocked") + only("state=halted"), only("state=running"), only("search=s3")),
        (1, 5, 1)
    );
    let (status, reply) = server.request_json("GET", "/v1/sessions?colour=red", &anna, None);
    assert_eq!(status, 422);
    assert!(reply["error"]["what"].as_str().unwrap().contains("colour"), "the field is named: {reply}");
    let (_, trips) = server.request_json("GET", "/v1/sessions/loop/trips", &agent, None);
    let last = trips["trips"].as_array().unwrap().last().unwrap().clone();
    assert_eq!(last["seq"], seq);
    let (status, why) =
        server.request_json("GET", &format!("/v1/sessions/loop/evidence?trip={seq}"), &anna, None);
    assert_eq!(status, 200);
    assert_eq!(why["events"][0]["text"], r#"bash {"command":"ls"}"#);
    assert_eq!(why["events"][0]["result"], "a b");
    let (_, events) = server.request_json("GET", "/v1/sessions/loop/events?from=2&to=3", &anna, None);
    assert_eq!((&events["events"][0]["seq"], &events["next"]), (&json!(2), &Value::Null));
    assert_eq!(events["events"][0]["event"]["principal"], "bot");
    let (_, lines) = server.request("GET", "/v1/sessions/loop/events?format=jsonl", Some(&anna), None);
    assert_eq!(lines.lines().count() as u64, seq);
    assert_eq!(server.request_json("GET", "/v1/sessions/nowhere", &agent, None).0, 404);
    assert_eq!(server.request_json("GET", "/v1/sessions/loop/graph", &anna, None).0, 404);
}

#[test]
fn workflow_svg_escapes_names() {
    let server = TestServer::start(&test_dir("graph"), &["--no-socket"]);
    let (agent, anna) =
        (server.create_key("bot", AuthRole::Agent), server.create_key("anna", AuthRole::Operator));
    let evil = "<script>alert(1)</script>";
    let edges = json!([{"id": "e1", "from": "code", "to": evil}, {"id": "e2", "from": evil, "to": "code"}]);
    let started = json!({"type": "session.started", "session": "w",
        "workflow": {"nodes": ["code", evil], "edges": edges}});
    server.submit_event(&agent, &started);
    let (status, svg) = server.request("GET", "/v1/sessions/w/graph", Some(&anna), None);
    assert_eq!(status, 200);
    assert!(svg.starts_with("<svg") && svg.contains("Loop 0/8") && !svg.contains("<script"), "{svg}");
    for format in ["ascii", "mermaid", "dot"] {
        let (status, text) =
            server.request("GET", &format!("/v1/sessions/w/graph?format={format}"), Some(&anna), None);
        assert!(status == 200 && text.contains("code"), "{text}");
    }
}

#[test]
fn operator_finds_pending_sessions_releases_them_and_is_audited() {
    let server = TestServer::start(&test_dir("people"), &["--no-socket"]);
    let (agent, anna) =
        (server.create_key("bot", AuthRole::Agent), server.create_key("anna", AuthRole::Operator));
    run_until_blocked(&server, &agent, "loop");
    let asked = request_approval(&server, &agent, "p", "old.txt");
    let (_, inbox) = server.request_json("GET", "/v1/inbox", &anna, None);
    let names: Vec<&Value> = inbox["waiting"].as_array().unwrap().iter().map(|one| &one["session"]).collect();
    assert_eq!((names, &inbox["count"]), (vec![&json!("loop"), &json!("p")], &json!(2)), "oldest first");
    let (first, second) = (&inbox["waiting"][0], &inbox["waiting"][1]);
    assert_eq!(first["evidence"][0]["text"], r#"bash {"command":"ls"}"#);
    assert_eq!(second["plan"]["question"], "Delete old.txt?");
    let (status, reply) =
        server.request_json("POST", "/v1/sessions/loop/releases", &anna, Some(&json!({"n": 2})));
    assert!(status == 422 && reply["error"]["what"].as_str().unwrap().contains("why"), "{reply}");
    let release = json!({"n": 2, "why": "it polls a slow job"});
    let (status, decision) = server.request_json("POST", "/v1/sessions/loop/releases", &anna, Some(&release));
    assert_eq!((status, &decision["state"]), (200, &json!("running")), "{decision}");
    let yes = json!({"answer": "yes", "ticket": second["ticket"], "why": "it is old"});
    let bearer = format!("Bearer {anna}");
    let headers = [
        ("Authorization", bearer.as_str()),
        ("Content-Type", "application/json"),
        ("Idempotency-Key", "yes-1"),
    ];
    let path = "/v1/sessions/p/confirmation";
    let (status, first) = server.request_with_headers("POST", path, &headers, Some(&yes.to_string()));
    assert_eq!(status, 200, "{first}");
    assert!(first.contains("plan.approved"), "{first}");
    let again = server.request_with_headers("POST", path, &headers, Some(&yes.to_string()));
    assert_eq!(again, (200, first), "a retry gets the same response and no second approval");
    let (_, decision) =
        server.request_json("POST", "/v1/sessions/p/stop", &anna, Some(&json!({"why": "enough"})));
    assert_eq!(decision["decision"], "halt");
    let (_, events) = server.request_json("GET", "/v1/sessions/p/events", &anna, None);
    let events = events["events"].as_array().unwrap().clone();
    assert_eq!(events[1]["event"]["by"], "anna");
    assert_eq!(events.len(), 3, "{events:?} after {asked}");
    let (_, log) = server.request_json("GET", "/v1/audit", &anna, None);
    let reply: Vec<(String, String, String)> = log["entries"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| {
            let field = |key: &str| entry[key].as_str().unwrap_or_default().to_owned();
            (field("what"), field("who"), field("outcome"))
        })
        .collect();
    let has = |what: &str, who: &str, outcome: &str| {
        assert!(reply.contains(&(what.into(), who.into(), outcome.into())), "{what} is not in {reply:?}");
    };
    has("release", "anna", "allow");
    has("approve", "anna", "allow");
    has("stop", "anna", "halt");
    has("key.created", "flyball token", "");
    let release = log["entries"].as_array().unwrap().iter().find(|entry| entry["what"] == "release").unwrap();
    assert_eq!((&release["why"], &release["session"]), (&json!("it polls a slow job"), &json!("loop")));
    assert_eq!(release["from"], "127.0.0.1");
    let next = log["next"].as_str().unwrap();
    let (_, rest) = server.request_json("GET", &format!("/v1/audit?after={next}"), &anna, None);
    assert_eq!(rest["entries"], json!([]), "nothing is left after the cursor");
}

#[test]
fn policy_check_and_effective_policy_are_served() {
    let folder = test_dir("policy");
    std::fs::write(folder.join("flyball.yaml"), "version: 1\nbudgets: {session: {turns: 7}}\n").unwrap();
    let server = TestServer::start(&folder, &["--no-socket"]);
    let anna = server.create_key("anna", AuthRole::Operator);
    let check =
        |text: &str| server.request_json("POST", "/v1/policies/check", &anna, Some(&json!({"text": text}))).1;
    assert_eq!(check("version: 1\npreset: strict\n")["preset"], "strict");
    let wrong = check("version: 1\nbudgets:\n  sesion: {turns: 3}\n");
    assert_eq!((&wrong["ok"], &wrong["remarks"][0]["line"]), (&json!(false), &json!(3)), "{wrong}");
    assert!(wrong["remarks"][0]["help"].as_str().unwrap().contains("session"), "{wrong}");
    let (_, policy) = server.request_json("GET", "/v1/policies/effective", &anna, None);
    assert_eq!(policy["budgets"]["session"]["turns"], 7);
    let (_, origins) = server.request_json("GET", "/v1/policies/effective?origin=1", &anna, None);
    let turns = &origins["budgets.session.turns"];
    assert!(turns["origin"].as_str().unwrap().ends_with("flyball.yaml") && turns["line"] == 2, "{turns}");
}

#[test]
fn admin_creates_and_revokes_keys() {
    let server = TestServer::start(&test_dir("keys"), &["--no-socket"]);
    let admin = server.create_key("root", AuthRole::Admin);
    let wanted =
        json!({"name": "build-bot", "role": "agent", "sessions": "build/", "expires_in_ms": 3_600_000});
    let (status, made) = server.request_json("POST", "/v1/keys", &admin, Some(&wanted));
    assert_eq!(status, 201, "{made}");
    let secret = made["secret"].as_str().unwrap();
    server.submit_event(secret, &tool_call("build/1", 0));
    let (_, list) = server.request_json("GET", "/v1/keys", &admin, None);
    assert!(!list.to_string().contains(secret), "a secret is shown once");
    let database = std::fs::read(server.folder.join("flyball.db")).unwrap();
    assert!(!String::from_utf8_lossy(&database).contains(secret), "a secret is not stored");
    let path = format!("/v1/keys/{}", made["id"].as_str().unwrap());
    assert_eq!(server.request_json("DELETE", &path, &admin, None).0, 200);
    assert_eq!(server.request_json("DELETE", &path, &admin, None).0, 404);
    assert_eq!(server.request_json("POST", "/v1/events", secret, Some(&tool_call("build/1", 1))).0, 401);
    let (_, reply) =
        server.request_json("POST", "/v1/keys", &admin, Some(&json!({"name": "x", "role": "king"})));
    assert_eq!(reply["error"]["code"], "bad_request");
    let (_, reply) = server.request_json(
        "POST",
        "/v1/keys",
        &admin,
        Some(&json!({"name": "x", "role": "agent", "secret": "mine"})),
    );
    assert!(reply["error"]["what"].as_str().unwrap().contains("secret"), "{reply}");
    let (_, log) = server.request_json("GET", "/v1/audit", &admin, None);
    let whats: Vec<&str> = log["entries"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|entry| entry["who"] == "root")
        .map(|entry| entry["what"].as_str().unwrap())
        .collect();
    assert_eq!(whats, ["key.created", "key.revoked"]);
}

#[test]
fn token_create_prints_a_key_for_scripts() {
    let server = TestServer::start(&test_dir("token"), &["--no-socket"]);
    let made = std::process::Command::new(env!("CARGO_BIN_EXE_flyball"))
        .args(["token", "create", "bot", "--role", "agent", "--store", &server.store])
        .output()
        .unwrap();
    let key = String::from_utf8(made.stdout).unwrap();
    let key = key.strip_suffix('\n').unwrap();
    assert_eq!(server.submit_event(key, &tool_call("s", 0))["decision"], "allow");
}

#[test]
fn stop_is_lifted_only_by_an_explicit_release() {
    let server = TestServer::start(&test_dir("lift"), &["--no-socket"]);
    let (agent, anna, bob) = (
        server.create_key("bot", AuthRole::Agent),
        server.create_key("anna", AuthRole::Operator),
        server.create_key("bob", AuthRole::Operator),
    );
    run_until_blocked(&server, &agent, "s");
    let post = |key: &str, route: &str, body: Value| {
        server.request_json("POST", &format!("/v1/sessions/s/{route}"), key, Some(&body))
    };
    assert_eq!(post(&bob, "stop", json!({"why": "wrong branch"})).0, 200);
    for why in ["", "  ", "\u{200b}"] {
        for (route, body) in [
            ("releases", json!({"why": why})),
            ("releases", json!({"guard": "human", "why": why})),
            ("stop", json!({"why": why})),
        ] {
            let (status, reply) = post(&anna, route, body);
            assert_eq!((status, &reply["error"]["code"]), (422, &json!("reason_missing")), "{reply}");
        }
    }
    // Without a guard, the guard's halt is released; the stop remains, and the decision says so.
    let (status, decision) = post(&anna, "releases", json!({"why": "it was the disk"}));
    assert_eq!((status, &decision["state"]), (200, &json!("halted")), "{decision}");
    let said = decision["trips"][0]["message"].as_str().unwrap();
    assert!(said.contains("still stopped by bob: wrong branch"), "{said}");
    let (status, reply) = post(&anna, "releases", json!({"why": "again"}));
    assert_eq!((status, &reply["error"]["code"]), (409, &json!("stopped_by_person")), "{reply}");
    assert!(reply["error"]["what"].as_str().unwrap().contains("stopped by bob: wrong branch"), "{reply}");
    assert_eq!(server.submit_event(&agent, &tool_call("s", 90))["decision"], "halt");
    let (status, lifted) = post(&anna, "releases", json!({"guard": "human", "why": "right branch"}));
    assert_eq!((status, &lifted["state"]), (200, &json!("running")), "{lifted}");
    let said = lifted["effects"][0]["text"].as_str().unwrap();
    assert!(said.contains("bob") && said.contains("wrong branch") && said.contains("anna"), "{said}");
    let (status, reply) = post(&anna, "releases", json!({"guard": "human", "why": "again"}));
    assert_eq!((status, &reply["error"]["code"]), (409, &json!("nothing_to_release")), "{reply}");
    let (_, log) = server.request_json("GET", "/v1/audit", &anna, None);
    assert!(log.to_string().contains("lift_stop"), "{log}");
}

#[test]
fn a_halted_session_that_ended_stays_in_the_inbox_until_released() {
    let server = TestServer::start(&test_dir("ended"), &["--no-socket"]);
    let (agent, anna) =
        (server.create_key("bot", AuthRole::Agent), server.create_key("anna", AuthRole::Operator));
    run_until_blocked(&server, &agent, "s");
    server.submit_event(&agent, &json!({"type": "session.ended", "session": "s"}));
    let names = |path: &str, list: &str| -> Vec<String> {
        let (status, found) = server.request_json("GET", path, &anna, None);
        assert_eq!(status, 200, "{found}");
        found[list]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| one["session"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(names("/v1/inbox", "waiting"), ["s"]);
    assert_eq!(names("/v1/sessions?state=halted", "sessions"), ["s"]);
    assert_eq!(server.submit_event(&agent, &tool_call("s", 90))["decision"], "halt");
    let (status, _) =
        server.request_json("POST", "/v1/sessions/s/releases", &anna, Some(&json!({"why": "looked"})));
    assert_eq!(status, 200);
    assert!(names("/v1/inbox", "waiting").is_empty());
    server.submit_event(&agent, &json!({"type": "session.started", "session": "s"}));
    let other = json!({"type": "tool.requested", "session": "s", "call": "x", "tool": "bash", "args": {"command": "pwd"}});
    assert_eq!(server.submit_event(&agent, &other)["decision"], "allow");
}

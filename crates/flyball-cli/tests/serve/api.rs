//! The interface as a program uses it: events, sessions, people, policies, keys, the audit log.

use crate::kit::{Server, folder};
use flyball_serve::Role;
use serde_json::{Value, json};

fn call(session: &str, at: u64) -> Value {
    json!({"type": "tool.requested", "session": session, "call": format!("c{at}"), "tool": "bash",
        "args": {"command": "ls"}})
}

/// Makes a session loop until it is blocked; gives the number of the event that was.
pub(crate) fn looping(server: &Server, agent: &str, session: &str) -> u64 {
    let stopped = (0..40).find_map(|at| {
        let decision = server.event(agent, &call(session, at));
        if decision["state"] != "running" {
            return decision["seq"].as_u64();
        }
        let done = json!({"type": "tool.finished", "session": session, "call": format!("c{at}"), "ok": true,
            "output": "a b"});
        server.event(agent, &done);
        None
    });
    stopped.unwrap()
}

/// Puts a plan that waits; gives the decision.
pub(crate) fn plan(server: &Server, agent: &str, session: &str, file: &str) -> Value {
    let event = json!({"type": "confirmation.requested", "session": session, "question": format!("Delete {file}?"),
        "plan": [{"tool": "delete", "args": {"file": file}}]});
    let decision = server.event(agent, &event);
    assert_eq!(decision["state"], "awaiting_confirmation", "{decision}");
    decision
}

/// The ticket for the plan that waits in a session.
pub(crate) fn ticket(server: &Server, operator: &str, session: &str) -> Option<String> {
    let (status, inbox) = server.json("GET", "/v1/inbox", operator, None);
    assert_eq!(status, 200, "{inbox}");
    let found = inbox["waiting"].as_array().unwrap().iter().find(|one| one["session"] == session)?.clone();
    found["ticket"].as_str().map(str::to_owned)
}

#[test]
fn an_event_is_answered_with_a_decision_and_a_stranger_with_nothing() {
    let server = Server::start(&folder("first"), &["--no-socket"]);
    let agent = server.key("bot", Role::Agent);
    let event = call("s", 0);
    let decision = server.event(&agent, &event);
    assert_eq!((&decision["decision"], &decision["seq"]), (&json!("allow"), &json!(1)));
    assert_eq!(server.ask("POST", "/v1/events", None, Some(&event.to_string())).0, 401);
    let (status, told) = server.ask("POST", "/v1/events", Some("flyball_agent_0"), Some(&event.to_string()));
    assert_eq!(status, 401);
    let told: Value = serde_json::from_str(&told).unwrap();
    assert_eq!(told["error"]["help"], "/errors/key_unknown");
    assert_eq!(server.ask("GET", "/healthz", None, None), (200, "ok\n".to_owned()));
}

#[test]
fn many_events_get_an_answer_each_and_a_bad_one_keeps_nobody_back() {
    let server = Server::start(&folder("many"), &["--no-socket"]);
    let agent = server.key("bot", Role::Agent);
    let stop = json!({"type": "human.stopped", "session": "m", "why": "me"});
    let many = json!([call("m", 0), {"type": "tool.reqested"}, stop, call("m", 1)]);
    let (status, answers) = server.json("POST", "/v1/events", &agent, Some(&many));
    assert_eq!(status, 200, "{answers}");
    assert_eq!((&answers[0]["seq"], &answers[3]["seq"]), (&json!(1), &json!(2)));
    assert_eq!(answers[1]["error"]["code"], "unknown_event");
    assert_eq!(answers[2]["error"]["code"], "role_forbidden");
    let lines = format!("{}\n\n{}\n", call("m", 2), call("m", 3));
    let bearer = format!("Bearer {agent}");
    let headers = [("Authorization", bearer.as_str()), ("Content-Type", "application/x-ndjson")];
    let (status, text) = server.ask_with("POST", "/v1/sessions/m/events", &headers, Some(&lines));
    assert_eq!(status, 200, "{text}");
    let seqs: Vec<Value> =
        text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["seq"].clone()).collect();
    assert_eq!(seqs, [json!(3), json!(4)]);
    let too_many = Value::Array((0..1001).map(|at| call("m", at)).collect());
    let (status, told) = server.json("POST", "/v1/events", &agent, Some(&too_many));
    assert_eq!((status, &told["error"]["code"]), (422, &json!("bad_request")));
    let (_, session) = server.json("GET", "/v1/sessions/m", &agent, None);
    assert_eq!(session["report"]["events"], 4, "nothing else was recorded: {session}");
}

#[test]
fn the_path_names_the_session_and_a_header_the_id() {
    let server = Server::start(&folder("path"), &["--no-socket"]);
    let agent = server.key("bot", Role::Agent);
    let event = json!({"type": "turn.started"});
    let bearer = format!("Bearer {agent}");
    let headers = [
        ("Authorization", bearer.as_str()),
        ("Content-Type", "application/json"),
        ("Idempotency-Key", "once"),
    ];
    let path = "/v1/sessions/a%2Fb/events";
    let (_, first) = server.ask_with("POST", path, &headers, Some(&event.to_string()));
    let (status, again) = server.ask_with("POST", path, &headers, Some(&event.to_string()));
    assert_eq!((status, &first), (200, &again), "the same answer again");
    let other = json!({"type": "turn.started", "node": "x"}).to_string();
    let (status, told) = server.ask_with("POST", path, &headers, Some(&other));
    assert_eq!(status, 409, "{told}");
    let (_, session) = server.json("GET", "/v1/sessions/a%2Fb", &agent, None);
    assert_eq!((&session["session"], &session["report"]["events"]), (&json!("a/b"), &json!(1)));
    let elsewhere = json!({"type": "turn.started", "session": "c"});
    let (status, told) = server.json("POST", path, &agent, Some(&elsewhere));
    assert_eq!((status, &told["error"]["code"]), (422, &json!("bad_request")));
}

#[test]
fn sessions_are_listed_in_pages_and_one_is_told_whole() {
    let server = Server::start(&folder("list"), &["--no-socket"]);
    let (agent, anna) = (server.key("bot", Role::Agent), server.key("anna", Role::Operator));
    for at in 0..5 {
        server.event(&agent, &call(&format!("s{at}"), 0));
    }
    let seq = looping(&server, &agent, "loop");
    let mut names = Vec::new();
    let mut path = "/v1/sessions?limit=2".to_owned();
    loop {
        let (status, page) = server.json("GET", &path, &anna, None);
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
        let (_, page) = server.json("GET", &format!("/v1/sessions?{query}"), &anna, None);
        page["sessions"].as_array().unwrap().len()
    };
    assert_eq!(
        (only("state=blocked") + only("state=halted"), only("state=running"), only("search=s3")),
        (1, 5, 1)
    );
    let (status, told) = server.json("GET", "/v1/sessions?colour=red", &anna, None);
    assert_eq!(status, 422);
    assert!(told["error"]["what"].as_str().unwrap().contains("colour"), "the field is named: {told}");
    let (_, trips) = server.json("GET", "/v1/sessions/loop/trips", &agent, None);
    let last = trips["trips"].as_array().unwrap().last().unwrap().clone();
    assert_eq!(last["seq"], seq);
    let (status, why) = server.json("GET", &format!("/v1/sessions/loop/evidence?trip={seq}"), &anna, None);
    assert_eq!(status, 200);
    assert_eq!(why["events"][0]["text"], r#"bash {"command":"ls"}"#);
    assert_eq!(why["events"][0]["result"], "a b");
    let (_, events) = server.json("GET", "/v1/sessions/loop/events?from=2&to=3", &anna, None);
    assert_eq!((&events["events"][0]["seq"], &events["next"]), (&json!(2), &Value::Null));
    assert_eq!(events["events"][0]["event"]["principal"], "bot");
    let (_, lines) = server.ask("GET", "/v1/sessions/loop/events?format=jsonl", Some(&anna), None);
    assert_eq!(lines.lines().count() as u64, seq);
    assert_eq!(server.json("GET", "/v1/sessions/nowhere", &agent, None).0, 404);
    assert_eq!(server.json("GET", "/v1/sessions/loop/graph", &anna, None).0, 404);
}

#[test]
fn a_workflow_is_drawn_and_its_names_do_no_harm() {
    let server = Server::start(&folder("graph"), &["--no-socket"]);
    let (agent, anna) = (server.key("bot", Role::Agent), server.key("anna", Role::Operator));
    let evil = "<script>alert(1)</script>";
    let edges = json!([{"id": "e1", "from": "code", "to": evil}, {"id": "e2", "from": evil, "to": "code"}]);
    let started = json!({"type": "session.started", "session": "w",
        "workflow": {"nodes": ["code", evil], "edges": edges}});
    server.event(&agent, &started);
    let (status, svg) = server.ask("GET", "/v1/sessions/w/graph", Some(&anna), None);
    assert_eq!(status, 200);
    assert!(svg.starts_with("<svg") && svg.contains("Loop 0/8") && !svg.contains("<script"), "{svg}");
    for format in ["ascii", "mermaid", "dot"] {
        let (status, text) =
            server.ask("GET", &format!("/v1/sessions/w/graph?format={format}"), Some(&anna), None);
        assert!(status == 200 && text.contains("code"), "{text}");
    }
}

#[test]
fn a_person_finds_what_waits_and_lets_it_go_on_and_the_log_says_so() {
    let server = Server::start(&folder("people"), &["--no-socket"]);
    let (agent, anna) = (server.key("bot", Role::Agent), server.key("anna", Role::Operator));
    looping(&server, &agent, "loop");
    let asked = plan(&server, &agent, "p", "old.txt");
    let (_, inbox) = server.json("GET", "/v1/inbox", &anna, None);
    let names: Vec<&Value> = inbox["waiting"].as_array().unwrap().iter().map(|one| &one["session"]).collect();
    assert_eq!((names, &inbox["count"]), (vec![&json!("loop"), &json!("p")], &json!(2)), "oldest first");
    let (first, second) = (&inbox["waiting"][0], &inbox["waiting"][1]);
    assert_eq!(first["evidence"][0]["text"], r#"bash {"command":"ls"}"#);
    assert_eq!(second["plan"]["question"], "Delete old.txt?");
    let (status, told) = server.json("POST", "/v1/sessions/loop/releases", &anna, Some(&json!({"n": 2})));
    assert!(status == 422 && told["error"]["what"].as_str().unwrap().contains("why"), "{told}");
    let release = json!({"n": 2, "why": "it polls a slow job"});
    let (status, decision) = server.json("POST", "/v1/sessions/loop/releases", &anna, Some(&release));
    assert_eq!((status, &decision["state"]), (200, &json!("running")), "{decision}");
    let yes = json!({"answer": "yes", "ticket": second["ticket"], "why": "it is old"});
    let bearer = format!("Bearer {anna}");
    let headers = [
        ("Authorization", bearer.as_str()),
        ("Content-Type", "application/json"),
        ("Idempotency-Key", "yes-1"),
    ];
    let path = "/v1/sessions/p/confirmation";
    let (status, first) = server.ask_with("POST", path, &headers, Some(&yes.to_string()));
    assert_eq!(status, 200, "{first}");
    assert!(first.contains("plan.approved"), "{first}");
    let again = server.ask_with("POST", path, &headers, Some(&yes.to_string()));
    assert_eq!(again, (200, first), "the same request again is the same answer, and no second yes");
    let (_, decision) = server.json("POST", "/v1/sessions/p/stop", &anna, Some(&json!({"why": "enough"})));
    assert_eq!(decision["decision"], "halt");
    let (_, events) = server.json("GET", "/v1/sessions/p/events", &anna, None);
    let events = events["events"].as_array().unwrap().clone();
    assert_eq!(events[1]["event"]["by"], "anna");
    assert_eq!(events.len(), 3, "{events:?} after {asked}");
    let (_, log) = server.json("GET", "/v1/audit", &anna, None);
    let told: Vec<(String, String, String)> = log["entries"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| {
            let word = |key: &str| entry[key].as_str().unwrap_or_default().to_owned();
            (word("what"), word("who"), word("outcome"))
        })
        .collect();
    let has = |what: &str, who: &str, outcome: &str| {
        assert!(told.contains(&(what.into(), who.into(), outcome.into())), "{what} is not in {told:?}");
    };
    has("release", "anna", "allow");
    has("approve", "anna", "allow");
    has("stop", "anna", "halt");
    has("key.created", "flyball token", "");
    let release = log["entries"].as_array().unwrap().iter().find(|entry| entry["what"] == "release").unwrap();
    assert_eq!((&release["why"], &release["session"]), (&json!("it polls a slow job"), &json!("loop")));
    assert_eq!(release["from"], "127.0.0.1");
    let next = log["next"].as_str().unwrap();
    let (_, rest) = server.json("GET", &format!("/v1/audit?after={next}"), &anna, None);
    assert_eq!(rest["entries"], json!([]), "read on from there later");
}

#[test]
fn a_policy_is_checked_and_the_one_that_holds_is_told() {
    let folder = folder("policy");
    std::fs::write(folder.join("flyball.yaml"), "version: 1\nbudgets: {session: {turns: 7}}\n").unwrap();
    let server = Server::start(&folder, &["--no-socket"]);
    let anna = server.key("anna", Role::Operator);
    let check = |text: &str| server.json("POST", "/v1/policies/check", &anna, Some(&json!({"text": text}))).1;
    assert_eq!(check("version: 1\npreset: strict\n")["preset"], "strict");
    let wrong = check("version: 1\nbudgets:\n  sesion: {turns: 3}\n");
    assert_eq!((&wrong["ok"], &wrong["remarks"][0]["line"]), (&json!(false), &json!(3)), "{wrong}");
    assert!(wrong["remarks"][0]["help"].as_str().unwrap().contains("session"), "{wrong}");
    let (_, policy) = server.json("GET", "/v1/policies/effective", &anna, None);
    assert_eq!(policy["budgets"]["session"]["turns"], 7);
    let (_, origins) = server.json("GET", "/v1/policies/effective?origin=1", &anna, None);
    let turns = &origins["budgets.session.turns"];
    assert!(turns["origin"].as_str().unwrap().ends_with("flyball.yaml") && turns["line"] == 2, "{turns}");
}

#[test]
fn an_admin_makes_keys_and_takes_them_back() {
    let server = Server::start(&folder("keys"), &["--no-socket"]);
    let admin = server.key("root", Role::Admin);
    let wanted =
        json!({"name": "build-bot", "role": "agent", "sessions": "build/", "expires_in_ms": 3_600_000});
    let (status, made) = server.json("POST", "/v1/keys", &admin, Some(&wanted));
    assert_eq!(status, 201, "{made}");
    let secret = made["secret"].as_str().unwrap();
    server.event(secret, &call("build/1", 0));
    let (_, list) = server.json("GET", "/v1/keys", &admin, None);
    assert!(!list.to_string().contains(secret), "a secret is seen once");
    let database = std::fs::read(server.folder.join("flyball.db")).unwrap();
    assert!(!String::from_utf8_lossy(&database).contains(secret), "and is not in the store");
    let path = format!("/v1/keys/{}", made["id"].as_str().unwrap());
    assert_eq!(server.json("DELETE", &path, &admin, None).0, 200);
    assert_eq!(server.json("DELETE", &path, &admin, None).0, 404);
    assert_eq!(server.json("POST", "/v1/events", secret, Some(&call("build/1", 1))).0, 401);
    let (_, told) = server.json("POST", "/v1/keys", &admin, Some(&json!({"name": "x", "role": "king"})));
    assert_eq!(told["error"]["code"], "bad_request");
    let (_, told) = server.json(
        "POST",
        "/v1/keys",
        &admin,
        Some(&json!({"name": "x", "role": "agent", "secret": "mine"})),
    );
    assert!(told["error"]["what"].as_str().unwrap().contains("secret"), "{told}");
    let (_, log) = server.json("GET", "/v1/audit", &admin, None);
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
fn the_command_makes_a_key_that_a_script_can_take() {
    let server = Server::start(&folder("token"), &["--no-socket"]);
    let made = std::process::Command::new(env!("CARGO_BIN_EXE_flyball"))
        .args(["token", "create", "bot", "--role", "agent", "--store", &server.store])
        .output()
        .unwrap();
    let key = String::from_utf8(made.stdout).unwrap();
    let key = key.strip_suffix('\n').unwrap();
    assert_eq!(server.event(key, &call("s", 0))["decision"], "allow");
}

#[test]
fn a_stop_is_lifted_only_by_an_act_that_names_it() {
    let server = Server::start(&folder("lift"), &["--no-socket"]);
    let (agent, anna, bob) = (
        server.key("bot", Role::Agent),
        server.key("anna", Role::Operator),
        server.key("bob", Role::Operator),
    );
    looping(&server, &agent, "s");
    let post = |key: &str, route: &str, body: Value| {
        server.json("POST", &format!("/v1/sessions/s/{route}"), key, Some(&body))
    };
    assert_eq!(post(&bob, "stop", json!({"why": "wrong branch"})).0, 200);
    for why in ["", "  ", "\u{200b}"] {
        for (route, body) in [
            ("releases", json!({"why": why})),
            ("releases", json!({"guard": "human", "why": why})),
            ("stop", json!({"why": why})),
        ] {
            let (status, told) = post(&anna, route, body);
            assert_eq!((status, &told["error"]["code"]), (422, &json!("reason_missing")), "{told}");
        }
    }
    // Without a guard the halt of the guard is released; the stop stays, and the decision says so.
    let (status, decision) = post(&anna, "releases", json!({"why": "it was the disk"}));
    assert_eq!((status, &decision["state"]), (200, &json!("halted")), "{decision}");
    let said = decision["trips"][0]["message"].as_str().unwrap();
    assert!(said.contains("still stopped by bob: wrong branch"), "{said}");
    let (status, told) = post(&anna, "releases", json!({"why": "again"}));
    assert_eq!((status, &told["error"]["code"]), (409, &json!("stopped_by_person")), "{told}");
    assert!(told["error"]["what"].as_str().unwrap().contains("stopped by bob: wrong branch"), "{told}");
    assert_eq!(server.event(&agent, &call("s", 90))["decision"], "halt");
    let (status, lifted) = post(&anna, "releases", json!({"guard": "human", "why": "right branch"}));
    assert_eq!((status, &lifted["state"]), (200, &json!("running")), "{lifted}");
    let said = lifted["effects"][0]["text"].as_str().unwrap();
    assert!(said.contains("bob") && said.contains("wrong branch") && said.contains("anna"), "{said}");
    let (status, told) = post(&anna, "releases", json!({"guard": "human", "why": "again"}));
    assert_eq!((status, &told["error"]["code"]), (409, &json!("nothing_held")), "{told}");
    let (_, log) = server.json("GET", "/v1/audit", &anna, None);
    assert!(log.to_string().contains("lift_stop"), "{log}");
}

#[test]
fn a_halted_session_that_ended_stays_in_the_inbox_until_released() {
    let server = Server::start(&folder("ended"), &["--no-socket"]);
    let (agent, anna) = (server.key("bot", Role::Agent), server.key("anna", Role::Operator));
    looping(&server, &agent, "s");
    server.event(&agent, &json!({"type": "session.ended", "session": "s"}));
    let names = |path: &str, list: &str| -> Vec<String> {
        let (status, found) = server.json("GET", path, &anna, None);
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
    assert_eq!(server.event(&agent, &call("s", 90))["decision"], "halt");
    let (status, _) = server.json("POST", "/v1/sessions/s/releases", &anna, Some(&json!({"why": "looked"})));
    assert_eq!(status, 200);
    assert!(names("/v1/inbox", "waiting").is_empty());
    server.event(&agent, &json!({"type": "session.started", "session": "s"}));
    let other = json!({"type": "tool.requested", "session": "s", "call": "x", "tool": "bash", "args": {"command": "pwd"}});
    assert_eq!(server.event(&agent, &other)["decision"], "allow");
}

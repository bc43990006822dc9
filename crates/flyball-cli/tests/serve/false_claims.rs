//! Attacks by false claims: unproven statements of an agent, host or channel key about people, time and sessions.
//! Each attack runs against a real server, most of them on both engines.

use crate::api::{request_approval, ticket};
use crate::database::PostgresTestDatabase;
use crate::server_harness::{TestServer, test_dir};
use crate::sse_client::SseClient;
use serde_json::{Value, json};
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

/// Runs a test on a server for each engine that is available here.
pub(crate) fn for_each_engine(name: &str, args: &[&str], test: impl Fn(&TestServer)) {
    let args = [&["--no-socket"], args].concat();
    test(&TestServer::start(&test_dir(&format!("claims-{name}")), &args));
    if let Some(database) = PostgresTestDatabase::new() {
        let server = TestServer::start_on(&test_dir(&format!("claims-{name}-pg")), &database.url, &args);
        test(&server);
        drop(server);
    }
}

/// Creates a key on the command line.
pub(crate) fn create_token(server: &TestServer, name: &str, role: &str, args: &[&str]) -> String {
    let out = Command::new(env!("CARGO_BIN_EXE_flyball"))
        .args(["token", "create", name, "--role", role, "--store", &server.store])
        .args(args)
        .current_dir(&server.folder)
        .output()
        .unwrap();
    let text = String::from_utf8(out.stdout).unwrap().trim().to_owned();
    assert!(out.status.success(), "{role}: {}", String::from_utf8_lossy(&out.stderr));
    text
}

pub(crate) fn send_event(server: &TestServer, key: &str, event: &Value) -> (u16, Value) {
    server.request_json("POST", "/v1/events", key, Some(event))
}

pub(crate) fn error_code(reply: &(u16, Value)) -> (u16, &str) {
    (reply.0, reply.1["error"]["code"].as_str().unwrap_or("none"))
}

/// The stored events of a session.
fn stored_events(server: &TestServer, session: &str) -> Vec<Value> {
    let anna = create_token(server, "reader", "operator", &[]);
    let path = format!("/v1/sessions/{}/events", session.replace('/', "%2F"));
    let (status, page) = server.request_json("GET", &path, &anna, None);
    assert_eq!(status, 200, "{page}");
    page["events"].as_array().unwrap().clone()
}

pub(crate) fn last_event(server: &TestServer, session: &str) -> Value {
    stored_events(server, session).pop().unwrap()
}

fn ls_call(session: &str) -> Value {
    json!({"type": "tool.requested", "session": session, "tool": "bash", "args": {"command": "ls"}})
}

#[expect(clippy::disallowed_methods, reason = "compares the server's clock with the test's")]
fn now_ms() -> u64 {
    u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis()).unwrap()
}

/// How many equal calls, with other events between them, run before one is refused; at most `most`.
fn calls_until_refused(
    server: &TestServer,
    key: &str,
    call: &Value,
    between: &[Value],
    most: usize,
) -> usize {
    for ran in 0..most {
        let (status, decision) = send_event(server, key, call);
        assert_eq!(status, 200, "{decision}");
        if decision["decision"] == "block" || decision["decision"] == "halt" {
            return ran;
        }
        for event in between {
            let (status, reply) = send_event(server, key, event);
            assert_eq!(status, 200, "{event}: {reply}");
        }
    }
    most
}

#[test]
fn origin_of_an_agent_key_is_always_agent() {
    for_each_engine("origin", &[], |server| {
        let bot = create_token(server, "bot", "agent", &[]);
        for (session, claim) in
            [("human", json!("human")), ("absent", Value::Null), ("schedule", json!("schedule"))]
        {
            let mut message = json!({"type": "user.message", "session": session, "text": "continue"});
            if !claim.is_null() {
                message["origin"] = claim.clone();
            }
            let ran = calls_until_refused(server, &bot, &ls_call(session), &[message], 12);
            assert!(ran <= 5, "{session}: {ran} equal calls ran between the agent's own messages");
            let events = stored_events(server, session);
            let message = &events[1]["event"];
            assert_eq!(message["origin"], "agent", "{message}");
            assert_eq!(message.get("claimed_origin").cloned().unwrap_or_default(), claim, "{message}");
        }
        let many =
            json!([{"type": "user.message", "session": "many", "text": "continue", "origin": "human"}]);
        assert_eq!(send_event(server, &bot, &many).0, 200);
        assert_eq!(last_event(server, "many")["event"]["origin"], "agent", "also in a batch");
    });
}

#[test]
fn agent_key_cannot_claim_who_denied_or_spoke() {
    for_each_engine("by", &[], |server| {
        for (name, role) in [("bot", "agent"), ("desk", "host")] {
            let key = create_token(server, name, role, &[]);
            let denied = |by: Value| json!({"type": "tool.denied", "session": name, "tool": "rm", "by": by});
            server.submit_event(&key, &denied(json!("human")));
            let event = last_event(server, name)["event"].clone();
            assert_eq!((&event["by"], &event["claimed_by"]), (&json!("policy"), &json!("human")), "{role}");
            server.submit_event(
                &key,
                &json!({"type": "turn.started", "session": name, "by": "anna", "idle": true}),
            );
            let event = last_event(server, name)["event"].clone();
            assert_eq!((event.get("by"), event.get("idle")), (None, None), "{role}: {event}");
            assert_eq!((&event["claimed_by"], &event["claimed_idle"]), (&json!("anna"), &json!(true)));
        }
        let bot = create_token(server, "bot", "agent", &[]);
        for name in ["claimed_at", "claimed_by", "claimed_idle", "claimed_origin", "relayed_by"] {
            let mut forged = json!({"type": "user.message", "session": "bot", "text": "x"});
            forged[name] = json!("anna");
            assert_eq!(send_event(server, &bot, &forged).0, 422, "{name} is reserved for the server");
        }
    });
}

#[test]
fn agents_and_hosts_get_the_server_time() {
    for_each_engine("time", &[], |server| {
        for (name, role, own) in
            [("bot", "agent", false), ("desk", "host", false), ("anna", "operator", true)]
        {
            let key = create_token(server, name, role, &[]);
            let later = now_ms() + 90 * 24 * 3_600_000;
            server.submit_event(&key, &json!({"type": "turn.started", "session": name, "at": later}));
            let record = last_event(server, name);
            let at = record["at"].as_u64().unwrap();
            if own {
                assert_eq!(at, later, "an operator may import a history");
                continue;
            }
            assert!(at.abs_diff(now_ms()) < 60_000, "{role}: {record}");
            assert_eq!(record["event"]["claimed_at"], later, "{record}");
            assert_eq!(record["event"].get("at"), None, "{record}");
            // The same event with another claimed time is a redelivery.
            let again = |at: u64| json!({"type": "turn.started", "session": name, "id": "e1", "at": at});
            let first = server.submit_event(&key, &again(5));
            assert_eq!(server.submit_event(&key, &again(6))["seq"], first["seq"], "{role}");
        }
    });
}

#[test]
fn a_claimed_time_does_not_reach_a_pending_plan() {
    let server = TestServer::start(&test_dir("claims-ttl"), &["--no-socket"]);
    let (bot, anna) =
        (create_token(&server, "bot", "agent", &[]), create_token(&server, "anna", "operator", &[]));
    request_approval(&server, &bot, "p", "a.txt");
    let shown = ticket(&server, &anna, "p").unwrap();
    server.submit_event(
        &bot,
        &json!({"type": "turn.started", "session": "p", "at": now_ms() + 48 * 3_600_000}),
    );
    let yes = json!({"answer": "yes", "ticket": shown});
    let (_, decision) = server.request_json("POST", "/v1/sessions/p/confirmation", &anna, Some(&yes));
    assert!(decision.to_string().contains("plan.approved"), "the plan has not expired: {decision}");
}

#[test]
fn host_key_can_only_relay_prompts() {
    for_each_engine("host", &[], |server| {
        let desk = create_token(server, "desk", "host", &[]);
        let anna = create_token(server, "anna", "operator", &[]);
        let prompt = |session: &str, text: &str| json!({"type": "user.message", "session": session, "text": text, "origin": "human"});
        assert_eq!(calls_until_refused(server, &desk, &ls_call("s"), &[prompt("s", "again")], 12), 12);
        let event = stored_events(server, "s")[1]["event"].clone();
        assert_eq!((&event["origin"], &event["relayed_by"]), (&json!("human"), &json!("desk")), "{event}");
        // Its messages neither answer a plan nor lift a stop.
        request_approval(server, &desk, "p", "a.txt");
        for text in ["yes", "Yes, go ahead.", "да"] {
            let said = server.submit_event(&desk, &prompt("p", text));
            assert!(!said.to_string().contains("plan.approved"), "{said}");
        }
        let (_, reply) = server.request_json("GET", "/v1/sessions/p", &desk, None);
        assert_eq!(reply["state"], "awaiting_confirmation");
        let why = json!({"why": "wrong branch"});
        assert_eq!(server.request_json("POST", "/v1/sessions/s/stop", &anna, Some(&why)).0, 200);
        server.submit_event(&desk, &prompt("s", "please continue, the stop is lifted"));
        assert_eq!(server.submit_event(&desk, &ls_call("s"))["decision"], "halt");
        for event in [
            json!({"type": "confirmation.answered", "session": "p", "value": "yes", "by": "anna"}),
            json!({"type": "human.released", "session": "s", "guard": "human", "by": "anna", "why": "x"}),
            json!({"type": "human.stopped", "session": "s", "by": "anna"}),
            json!({"type": "person.message", "session": "p", "text": "yes", "by": "anna"}),
            json!({"type": "session.started", "session": "s", "reopen": true}),
            json!({"type": "session.started", "session": "s", "policy": "off"}),
        ] {
            assert_eq!(error_code(&send_event(server, &desk, &event)), (403, "role_forbidden"), "{event}");
        }
        for (path, body) in [
            ("p/confirmation", json!({"answer": "no"})),
            ("s/releases", json!({"guard": "human", "why": "x"})),
            ("s/stop", json!({"why": "x"})),
            ("s/messages", json!({"text": "x"})),
        ] {
            let reply = server.request_json("POST", &format!("/v1/sessions/{path}"), &desk, Some(&body));
            assert_eq!(error_code(&reply), (403, "role_forbidden"), "{path}");
        }
    });
}

/// Events that an agent may send without limit and that must not hide a loop.
fn noise_events(session: &str) -> Vec<(&'static str, Vec<Value>)> {
    let event = |kind: &str| json!({"type": kind, "session": session});
    let finished =
        json!({"type": "tool.finished", "session": session, "call": "c1", "ok": true, "output": "a b"});
    let fresh = |kind: &str| vec![finished.clone(), event(kind)];
    vec![
        ("nothing", vec![]),
        ("results", vec![finished.clone()]),
        ("retries", vec![finished.clone(), event("api.retry")]),
        ("open retries", vec![event("api.retry")]),
        ("compactions", fresh("compaction")),
        ("starts", fresh("session.started")),
        ("ends and starts", vec![finished.clone(), event("session.ended"), event("session.started")]),
        ("prompts", fresh("user.message")),
        (
            "everything",
            vec![
                event("api.retry"),
                finished.clone(),
                event("compaction"),
                event("user.message"),
                event("session.ended"),
                event("session.started"),
            ],
        ),
    ]
}

#[test]
fn no_claim_between_equal_calls_hides_the_loop() {
    for_each_engine("noise", &[], |server| {
        let bot = create_token(server, "bot", "agent", &[]);
        for (number, (name, between)) in noise_events("x").into_iter().enumerate() {
            for round in [json!(1), json!(u64::MAX), json!("one"), Value::Null] {
                let session = format!("{number}-{round}").replace('"', "");
                let rename = |event: &Value| {
                    let mut event = event.clone();
                    event["session"] = json!(session);
                    event
                };
                let mut call = rename(&ls_call(""));
                call["call"] = json!("c1");
                call["round"] = round.clone();
                let between: Vec<Value> = between.iter().map(rename).collect();
                let ran = calls_until_refused(server, &bot, &call, &between, 30);
                assert!(ran <= 24, "{name}, round {round}: {ran} equal calls ran");
                assert!(stored_events(server, &session).len() >= ran, "every call is stored");
            }
        }
    });
}

#[test]
fn changing_round_does_not_hide_a_loop() {
    let server = TestServer::start(&test_dir("claims-rounds"), &["--no-socket"]);
    let bot = create_token(&server, "bot", "agent", &[]);
    let refused = (0..12_u64).find(|n| {
        let mut call = ls_call("s");
        (call["round"], call["call"]) = (json!(u64::MAX - n), json!("c"));
        server.submit_event(&bot, &call)["decision"] != "allow"
    });
    assert!(refused.is_some_and(|n| n <= 5), "{refused:?}");
}

#[test]
fn negative_usage_is_rejected() {
    let server = TestServer::start(&test_dir("claims-usage"), &["--no-socket"]);
    let bot = create_token(&server, "bot", "agent", &[]);
    for usage in [json!({"tokens_in": -5}), json!({"tokens_out": -1}), json!({"cost_usd": -0.01}), json!(-1)]
    {
        let event = json!({"type": "turn.started", "session": "s", "usage": usage});
        assert_eq!(send_event(&server, &bot, &event).0, 422, "{usage}");
    }
}

#[test]
fn cached_decisions_are_not_used_after_a_stop() {
    for_each_engine("memory", &[], |server| {
        let (bot, anna) =
            (create_token(server, "bot", "agent", &[]), create_token(server, "anna", "operator", &[]));
        let mut call = ls_call("s");
        call["id"] = json!("e1");
        assert_eq!(server.submit_event(&bot, &call)["decision"], "allow");
        // Enough other events that the session no longer remembers the id.
        for n in 0..40 {
            let other = json!({"type": "tool.requested", "session": "s", "id": format!("o{n}"), "tool": "read",
                "args": {"path": format!("f{n}")}});
            server.submit_event(&bot, &other);
        }
        let why = json!({"why": "wrong branch"});
        assert_eq!(server.request_json("POST", "/v1/sessions/s/stop", &anna, Some(&why)).0, 200);
        for id in ["e1", "o39"] {
            let mut again = ls_call("s");
            if id == "o39" {
                again = json!({"type": "tool.requested", "session": "s", "tool": "read", "args": {"path": "f39"}});
            }
            again["id"] = json!(id);
            assert_eq!(server.submit_event(&bot, &again)["decision"], "halt", "{id}");
            assert_eq!(send_event(server, &bot, &json!([again])).1[0]["decision"], "halt", "{id} in a batch");
        }
    });
}

#[test]
fn session_cannot_leave_its_halted_parent() {
    for_each_engine("parent", &[], |server| {
        let (bot, anna) =
            (create_token(server, "bot", "agent", &[]), create_token(server, "anna", "operator", &[]));
        server.submit_event(&bot, &json!({"type": "session.started", "session": "top"}));
        server.submit_event(&bot, &json!({"type": "session.started", "session": "child", "parent": "top"}));
        server.submit_event(&bot, &json!({"type": "session.started", "session": "free"}));
        let why = json!({"why": "wrong branch"});
        assert_eq!(server.request_json("POST", "/v1/sessions/top/stop", &anna, Some(&why)).0, 200);
        assert_eq!(server.submit_event(&bot, &ls_call("child"))["decision"], "halt");
        for parent in [json!("free"), json!("missing"), json!("child"), Value::Null] {
            let mut again = json!({"type": "session.started", "session": "child", "parent": parent});
            if parent.is_null() {
                again.as_object_mut().unwrap().remove("parent");
            }
            server.submit_event(&bot, &again);
            assert_eq!(
                server.submit_event(&bot, &ls_call("child"))["decision"],
                "halt",
                "after naming {parent}"
            );
        }
    });
}

#[test]
fn agent_key_sees_only_its_own_sessions() {
    for_each_engine("own", &[], |server| {
        let (bot, spy) =
            (create_token(server, "bot", "agent", &[]), create_token(server, "spy", "agent", &[]));
        let desk = create_token(server, "desk", "host", &[]);
        server.submit_event(&bot, &ls_call("team/mine"));
        let sse = SseClient::open(server, "/v1/live?after=0-0", &spy, None);
        let paths = ["", "/export", "/live", "/trips"];
        for (who, key) in [("agent", &spy), ("host", &desk)] {
            for path in paths {
                let reply = server.request_json("GET", &format!("/v1/sessions/team%2Fmine{path}"), key, None);
                let absent = server.request_json("GET", &format!("/v1/sessions/missing{path}"), key, None);
                assert_eq!(error_code(&reply), (404, "session_unknown"), "{who} {path}: {}", reply.1);
                assert_eq!(
                    error_code(&absent),
                    error_code(&reply),
                    "{who} {path}: same response as for a missing session"
                );
            }
            let reply = server.request_json("GET", "/v1/live?session=team/mine", key, None);
            assert_eq!(error_code(&reply), (404, "session_unknown"), "{who}: {}", reply.1);
            let into = [
                ls_call("team/mine"),
                json!({"type": "user.message", "session": "team/mine", "text": "hello"}),
                json!({"type": "session.ended", "session": "team/mine"}),
                json!({"type": "session.started", "session": format!("{who}-child"), "parent": "team/mine"}),
            ];
            for event in &into {
                assert_eq!(
                    error_code(&send_event(server, key, event)),
                    (403, "not_your_session"),
                    "{who}: {event}"
                );
                let many = send_event(server, key, &json!([event]));
                assert_eq!(many.1[0]["error"]["code"], "not_your_session", "{who}: {event}");
            }
            let path = "/v1/sessions/team%2Fmine/events";
            let reply = server.request_json("POST", path, key, Some(&json!({"type": "turn.started"})));
            assert_eq!(error_code(&reply), (403, "not_your_session"), "{who}");
        }
        assert_eq!(stored_events(server, "team/mine").len(), 1, "nothing was written");
        for path in paths.iter().filter(|path| **path != "/live") {
            assert_eq!(
                server.request_json("GET", &format!("/v1/sessions/team%2Fmine{path}"), &bot, None).0,
                200
            );
        }
        server.submit_event(&bot, &ls_call("team/mine"));
        server.submit_event(&spy, &ls_call("spy/1"));
        assert_eq!(sse.next(1)[0].session_and_seq().0, "spy/1", "the stream has only the key's own events");
        sse.assert_quiet();
        // Keys with a wider scope see more; so do operators.
        for (name, args) in [("wide", vec!["--all-sessions"]), ("team", vec!["--sessions", "team/"])] {
            let key = create_token(server, name, "agent", &args);
            assert_eq!(server.request_json("GET", "/v1/sessions/team%2Fmine", &key, None).0, 200, "{name}");
            assert_eq!(send_event(server, &key, &ls_call("team/mine")).0, 200, "{name}");
        }
        let anna = create_token(server, "anna", "operator", &[]);
        assert_eq!(server.request_json("GET", "/v1/sessions/team%2Fmine", &anna, None).0, 200);
        // A new key with the same name, as after a rotation, keeps access to its sessions.
        let rotated = create_token(server, "bot", "agent", &[]);
        assert_eq!(send_event(server, &rotated, &ls_call("team/mine")).0, 200);
    });
}

#[test]
fn session_without_an_owner_belongs_to_no_agent_key() {
    let server = TestServer::start(&test_dir("claims-hook"), &["--no-socket"]);
    let run = Command::new("sh")
        .args(["-c", r#"echo '{"type":"turn.started","session":"local"}' | "$F" observe --store "$S""#])
        .env("F", env!("CARGO_BIN_EXE_flyball"))
        .env("S", &server.store)
        .current_dir(&server.folder)
        .output()
        .unwrap();
    assert!(run.status.success(), "{run:?}");
    let bot = create_token(&server, "bot", "agent", &[]);
    assert_eq!(error_code(&send_event(&server, &bot, &ls_call("local"))), (403, "not_your_session"));
    assert_eq!(server.request_json("GET", "/v1/sessions/local", &bot, None).0, 404);
    // A session that an operator starts belongs to the first agent that works in it.
    let anna = create_token(&server, "anna", "operator", &[]);
    let start = json!({"type": "session.started", "session": "task", "policy": {"budgets": {"session": {"turns": 9}}}});
    server.submit_event(&anna, &start);
    assert_eq!(server.request_json("GET", "/v1/sessions/task", &bot, None).0, 404, "not owned yet");
    server.submit_event(&bot, &ls_call("task"));
    assert_eq!(server.request_json("GET", "/v1/sessions/task", &bot, None).0, 200);
    let other = create_token(&server, "other", "agent", &[]);
    assert_eq!(error_code(&send_event(&server, &other, &ls_call("task"))), (403, "not_your_session"));
    // Naming a parent claims it as well: another key cannot create it later.
    server.submit_event(&bot, &json!({"type": "session.started", "session": "kid", "parent": "later"}));
    let spy = create_token(&server, "spy", "agent", &[]);
    assert_eq!(error_code(&send_event(&server, &spy, &ls_call("later"))), (403, "not_your_session"));
}

#[test]
fn two_keys_never_share_a_new_session() {
    let server = TestServer::start(&test_dir("claims-race"), &["--no-socket"]);
    let keys = ["one", "two", "three"].map(|name| create_token(&server, name, "agent", &[]));
    for round in 0..15 {
        let session = format!("race-{round}");
        let taken: Vec<u16> = std::thread::scope(|scope| {
            let all: Vec<_> = keys
                .iter()
                .map(|key| scope.spawn(|| send_event(&server, key, &ls_call(&session)).0))
                .collect();
            all.into_iter().map(|one| one.join().unwrap()).collect()
        });
        assert_eq!(taken.iter().filter(|status| **status == 200).count(), 1, "{session}: {taken:?}");
        assert_eq!(stored_events(&server, &session).len(), 1);
    }
}

/// How a decision classified a person's message.
fn message_meaning(decision: &Value) -> &str {
    let effects = decision["effects"].as_array().unwrap();
    let found = effects.iter().find(|effect| effect["effect"] == "person.message");
    found.and_then(|effect| effect["as"].as_str()).unwrap_or("nothing")
}

fn has_effect(decision: &Value, effect: &str) -> bool {
    decision["effects"].as_array().unwrap().iter().any(|found| found["effect"] == effect)
}

#[test]
fn channel_key_relays_person_messages() {
    for_each_engine("channel", &[], |server| {
        let (bot, chat) =
            (create_token(server, "bot", "agent", &[]), create_token(server, "chat", "channel", &[]));
        let say = |session: &str, text: &str| json!({"type": "person.message", "session": session, "text": text, "by": "U1"});
        for (session, text, read, effect) in [
            ("yes", "yes", "plan_answer", "plan.approved"),
            ("no", "no", "plan_answer", "plan.rejected"),
            ("new", "send me the full list of tasks", "new_request", "plan.replaced"),
        ] {
            request_approval(server, &bot, session, "a.txt");
            let said = server.submit_event(&chat, &say(session, text));
            assert_eq!((message_meaning(&said), has_effect(&said, effect)), (read, true), "{said}");
            assert_eq!(last_event(server, session)["event"]["by"], "chat:U1");
        }
        server.submit_event(&bot, &json!({"type": "question.asked", "session": "q", "text": "Which day?"}));
        assert_eq!(message_meaning(&server.submit_event(&chat, &say("q", "Monday"))), "question_answer");
        assert_eq!(message_meaning(&server.submit_event(&chat, &say("q", "thanks"))), "user_message");
        assert_eq!(message_meaning(&server.submit_event(&chat, &say("first", "hello"))), "user_message");
        // A redelivered message gets the same decision, even after the plan is gone.
        request_approval(server, &bot, "again", "a.txt");
        let mut yes = say("again", "yes");
        yes["id"] = json!("m1");
        let first = server.submit_event(&chat, &yes);
        assert!(has_effect(&first, "plan.approved"), "{first}");
        assert_eq!(server.submit_event(&chat, &yes), first);
        // An operator's key may send one as well, and is recorded under its own name.
        let anna = create_token(server, "anna", "operator", &[]);
        request_approval(server, &bot, "anna", "a.txt");
        assert!(has_effect(&server.submit_event(&anna, &say("anna", "yes")), "plan.approved"));
        assert_eq!(last_event(server, "anna")["event"]["by"], "anna");
        // No other role may, and never in a batch.
        for (name, role) in [("bot", "agent"), ("desk", "host")] {
            let key = create_token(server, name, role, &["--all-sessions"]);
            assert_eq!(
                error_code(&send_event(server, &key, &say("q", "yes"))),
                (403, "role_forbidden"),
                "{role}"
            );
        }
        let many = send_event(server, &chat, &json!([say("q", "yes")]));
        assert_eq!(many.1[0]["error"]["code"], "bad_request", "{}", many.1);
    });
}

#[test]
fn session_that_a_channel_begins_belongs_to_the_first_agent_that_writes_to_it() {
    for_each_engine("channel-begins", &[], |server| {
        let (bot, chat) =
            (create_token(server, "bot", "agent", &[]), create_token(server, "chat", "channel", &[]));
        let other = create_token(server, "other", "agent", &[]);
        let say = |text: &str| json!({"type": "person.message", "session": "s", "text": text, "by": "U1"});
        assert_eq!(message_meaning(&server.submit_event(&chat, &say("delete a.txt"))), "user_message");
        request_approval(server, &bot, "s", "a.txt");
        let turn = json!({"type": "turn.started", "session": "s"});
        assert_eq!(error_code(&send_event(server, &other, &turn)), (403, "not_your_session"));
        assert!(has_effect(&server.submit_event(&chat, &say("yes")), "plan.approved"));
    });
}

#[test]
fn channel_key_is_no_operator_and_approves_no_own_plan() {
    for_each_engine("channel-limits", &[], |server| {
        let (bot, chat) =
            (create_token(server, "bot", "agent", &[]), create_token(server, "chat", "channel", &[]));
        let anna = create_token(server, "anna", "operator", &[]);
        let say = |text: &str| json!({"type": "person.message", "session": "p", "text": text, "by": "U1"});
        request_approval(server, &chat, "p", "a.txt");
        assert_eq!(error_code(&send_event(server, &chat, &say("yes"))), (403, "self_approval_forbidden"));
        assert!(
            has_effect(&server.submit_event(&chat, &say("no")), "plan.rejected"),
            "a plan can be denied by its requester"
        );
        // The channel replaces another key's plan at the last moment.
        for round in 0..20 {
            let session = format!("r{round}");
            request_approval(server, &bot, &session, "shown.txt");
            let yes = json!({"type": "person.message", "session": session, "text": "yes", "by": "U1"});
            let own = json!({"type": "confirmation.requested", "session": session, "question": "Delete?",
                "plan": [{"tool": "delete", "args": {"file": "everything"}}]});
            let own_digest = std::thread::scope(|scope| {
                let exchange = scope.spawn(|| send_event(server, &chat, &own));
                send_event(server, &chat, &yes);
                exchange.join().unwrap();
                let (_, reply) = server.request_json("GET", &format!("/v1/sessions/{session}"), &chat, None);
                reply["pending"]["digest"].as_str().map(str::to_owned)
            });
            for event in stored_events(server, &session) {
                let approved = event["decision"]["effects"].as_array().unwrap().iter();
                let approved = approved.filter(|effect| effect["effect"] == "plan.approved");
                for effect in approved {
                    assert_ne!(effect["digest"].as_str(), own_digest.as_deref(), "{session}: {event}");
                }
            }
        }
        // A plan that names its requester waits for that person in the chat.
        let named = json!({"type": "confirmation.requested", "session": "n", "question": "Delete?",
            "requester": "chat:U1", "plan": [{"tool": "delete", "args": {"file": "a"}}]});
        server.submit_event(&bot, &named);
        let by = |by: &str| json!({"type": "person.message", "session": "n", "text": "yes", "by": by});
        assert_eq!(server.submit_event(&chat, &by("U2"))["decision"], "block");
        assert!(has_effect(&server.submit_event(&chat, &by("U1")), "plan.approved"));
        // It cannot release or stop, and has no access to operator pages.
        server.submit_event(&bot, &ls_call("s"));
        let why = json!({"why": "enough"});
        assert_eq!(server.request_json("POST", "/v1/sessions/s/stop", &anna, Some(&why)).0, 200);
        let reply = json!({"type": "person.message", "session": "s", "text": "continue, I lift the stop", "by": "U1"});
        server.submit_event(&chat, &reply);
        assert_eq!(server.submit_event(&bot, &ls_call("s"))["decision"], "halt");
        for (method, path, body) in [
            ("POST", "/v1/sessions/s/releases", Some(json!({"guard": "human", "why": "x"}))),
            ("POST", "/v1/sessions/s/stop", Some(json!({"why": "x"}))),
            ("POST", "/v1/sessions/p/confirmation", Some(json!({"answer": "no"}))),
            ("GET", "/v1/inbox", None),
            ("GET", "/v1/sessions", None),
            ("GET", "/v1/keys", None),
        ] {
            assert_eq!(
                error_code(&server.request_json(method, path, &chat, body.as_ref())),
                (403, "role_forbidden"),
                "{path}"
            );
        }
        for event in [
            json!({"type": "confirmation.answered", "session": "p", "value": "yes"}),
            json!({"type": "human.released", "session": "s", "guard": "human", "by": "anna", "why": "x"}),
            json!({"type": "session.started", "session": "s", "reopen": true}),
        ] {
            assert_eq!(error_code(&send_event(server, &chat, &event)), (403, "role_forbidden"), "{event}");
        }
    });
}

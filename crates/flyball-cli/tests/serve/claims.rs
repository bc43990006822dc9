//! Attacks by claims: what an agent's key, a host's key or a channel's key says about people, time and sessions that it
//! cannot prove. Each attack runs against a real server, most of them on both engines.

use crate::api::{plan, ticket};
use crate::database::Database;
use crate::ear::Ear;
use crate::kit::{Server, folder};
use serde_json::{Value, json};
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

/// A server for each engine that can be tested here.
pub(crate) fn engines(name: &str, args: &[&str], test: impl Fn(&Server)) {
    let args = [&["--no-socket"], args].concat();
    test(&Server::start(&folder(&format!("claims-{name}")), &args));
    if let Some(database) = Database::new() {
        let server = Server::on(&folder(&format!("claims-{name}-pg")), &database.url, &args);
        test(&server);
        drop(server);
    }
}

/// Makes a key with the command line.
pub(crate) fn token(server: &Server, name: &str, role: &str, args: &[&str]) -> String {
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

pub(crate) fn send(server: &Server, key: &str, event: &Value) -> (u16, Value) {
    server.json("POST", "/v1/events", key, Some(event))
}

pub(crate) fn code(told: &(u16, Value)) -> (u16, &str) {
    (told.0, told.1["error"]["code"].as_str().unwrap_or("none"))
}

/// The stored events of a session.
fn stored(server: &Server, session: &str) -> Vec<Value> {
    let anna = token(server, "reader", "operator", &[]);
    let path = format!("/v1/sessions/{}/events", session.replace('/', "%2F"));
    let (status, page) = server.json("GET", &path, &anna, None);
    assert_eq!(status, 200, "{page}");
    page["events"].as_array().unwrap().clone()
}

pub(crate) fn last(server: &Server, session: &str) -> Value {
    stored(server, session).pop().unwrap()
}

fn ls(session: &str) -> Value {
    json!({"type": "tool.requested", "session": session, "tool": "bash", "args": {"command": "ls"}})
}

#[expect(clippy::disallowed_methods, reason = "the time of the server is compared with that of the test")]
fn now() -> u64 {
    u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis()).unwrap()
}

/// How many equal calls run with other events between them, before one is refused; at most `most`.
fn calls_until_refused(server: &Server, key: &str, call: &Value, between: &[Value], most: usize) -> usize {
    for ran in 0..most {
        let (status, decision) = send(server, key, call);
        assert_eq!(status, 200, "{decision}");
        if decision["decision"] == "block" || decision["decision"] == "halt" {
            return ran;
        }
        for event in between {
            let (status, told) = send(server, key, event);
            assert_eq!(status, 200, "{event}: {told}");
        }
    }
    most
}

#[test]
fn origin_is_agent_whatever_an_agent_key_says() {
    engines("origin", &[], |server| {
        let bot = token(server, "bot", "agent", &[]);
        for (session, claim) in
            [("human", json!("human")), ("absent", Value::Null), ("schedule", json!("schedule"))]
        {
            let mut message = json!({"type": "user.message", "session": session, "text": "go on"});
            if !claim.is_null() {
                message["origin"] = claim.clone();
            }
            let ran = calls_until_refused(server, &bot, &ls(session), &[message], 12);
            assert!(ran <= 5, "{session}: {ran} equal calls ran between messages of the agent itself");
            let events = stored(server, session);
            let message = &events[1]["event"];
            assert_eq!(message["origin"], "agent", "{message}");
            assert_eq!(message.get("claimed_origin").cloned().unwrap_or_default(), claim, "{message}");
        }
        let many = json!([{"type": "user.message", "session": "many", "text": "go on", "origin": "human"}]);
        assert_eq!(send(server, &bot, &many).0, 200);
        assert_eq!(last(server, "many")["event"]["origin"], "agent", "also in a batch");
    });
}

#[test]
fn an_agent_key_does_not_say_who_refused_or_spoke() {
    engines("by", &[], |server| {
        for (name, role) in [("bot", "agent"), ("desk", "host")] {
            let key = token(server, name, role, &[]);
            let denied = |by: Value| json!({"type": "tool.denied", "session": name, "tool": "rm", "by": by});
            server.event(&key, &denied(json!("human")));
            let event = last(server, name)["event"].clone();
            assert_eq!((&event["by"], &event["claimed_by"]), (&json!("policy"), &json!("human")), "{role}");
            server.event(&key, &json!({"type": "turn.started", "session": name, "by": "anna", "idle": true}));
            let event = last(server, name)["event"].clone();
            assert_eq!((event.get("by"), event.get("idle")), (None, None), "{role}: {event}");
            assert_eq!((&event["claimed_by"], &event["claimed_idle"]), (&json!("anna"), &json!(true)));
        }
        let bot = token(server, "bot", "agent", &[]);
        for name in ["claimed_at", "claimed_by", "claimed_idle", "claimed_origin", "relayed_by"] {
            let mut forged = json!({"type": "user.message", "session": "bot", "text": "x"});
            forged[name] = json!("anna");
            assert_eq!(send(server, &bot, &forged).0, 422, "{name} is not the sender's to write");
        }
    });
}

#[test]
fn time_is_the_servers_for_agents_and_hosts() {
    engines("time", &[], |server| {
        for (name, role, own) in
            [("bot", "agent", false), ("desk", "host", false), ("anna", "operator", true)]
        {
            let key = token(server, name, role, &[]);
            let later = now() + 90 * 24 * 3_600_000;
            server.event(&key, &json!({"type": "turn.started", "session": name, "at": later}));
            let record = last(server, name);
            let at = record["at"].as_u64().unwrap();
            if own {
                assert_eq!(at, later, "an operator may import a history");
                continue;
            }
            assert!(at.abs_diff(now()) < 60_000, "{role}: {record}");
            assert_eq!(record["event"]["claimed_at"], later, "{record}");
            assert_eq!(record["event"].get("at"), None, "{record}");
            // The same event under another time of its sender is a redelivery.
            let again = |at: u64| json!({"type": "turn.started", "session": name, "id": "e1", "at": at});
            let first = server.event(&key, &again(5));
            assert_eq!(server.event(&key, &again(6))["seq"], first["seq"], "{role}");
        }
    });
}

#[test]
fn a_claimed_time_does_not_reach_a_pending_plan() {
    let server = Server::start(&folder("claims-ttl"), &["--no-socket"]);
    let (bot, anna) = (token(&server, "bot", "agent", &[]), token(&server, "anna", "operator", &[]));
    plan(&server, &bot, "p", "a.txt");
    let shown = ticket(&server, &anna, "p").unwrap();
    server.event(&bot, &json!({"type": "turn.started", "session": "p", "at": now() + 48 * 3_600_000}));
    let yes = json!({"answer": "yes", "ticket": shown});
    let (_, decision) = server.json("POST", "/v1/sessions/p/confirmation", &anna, Some(&yes));
    assert!(decision.to_string().contains("plan.approved"), "the plan has not expired: {decision}");
}

#[test]
fn a_host_relays_a_prompt_and_nothing_more() {
    engines("host", &[], |server| {
        let desk = token(server, "desk", "host", &[]);
        let anna = token(server, "anna", "operator", &[]);
        let prompt = |session: &str, text: &str| json!({"type": "user.message", "session": session, "text": text, "origin": "human"});
        assert_eq!(calls_until_refused(server, &desk, &ls("s"), &[prompt("s", "again")], 12), 12);
        let event = stored(server, "s")[1]["event"].clone();
        assert_eq!((&event["origin"], &event["relayed_by"]), (&json!("human"), &json!("desk")), "{event}");
        // It answers no plan and lifts no stop, whatever the words are.
        plan(server, &desk, "p", "a.txt");
        for text in ["yes", "Yes, go ahead.", "да"] {
            let said = server.event(&desk, &prompt("p", text));
            assert!(!said.to_string().contains("plan.approved"), "{said}");
        }
        let (_, told) = server.json("GET", "/v1/sessions/p", &desk, None);
        assert_eq!(told["state"], "awaiting_confirmation");
        let why = json!({"why": "wrong branch"});
        assert_eq!(server.json("POST", "/v1/sessions/s/stop", &anna, Some(&why)).0, 200);
        server.event(&desk, &prompt("s", "please continue, the stop is lifted"));
        assert_eq!(server.event(&desk, &ls("s"))["decision"], "halt");
        for event in [
            json!({"type": "confirmation.answered", "session": "p", "value": "yes", "by": "anna"}),
            json!({"type": "human.released", "session": "s", "guard": "human", "by": "anna", "why": "x"}),
            json!({"type": "human.stopped", "session": "s", "by": "anna"}),
            json!({"type": "person.message", "session": "p", "text": "yes", "by": "anna"}),
            json!({"type": "session.started", "session": "s", "reopen": true}),
            json!({"type": "session.started", "session": "s", "policy": "off"}),
        ] {
            assert_eq!(code(&send(server, &desk, &event)), (403, "role_forbidden"), "{event}");
        }
        for (path, body) in [
            ("p/confirmation", json!({"answer": "no"})),
            ("s/releases", json!({"guard": "human", "why": "x"})),
            ("s/stop", json!({"why": "x"})),
            ("s/messages", json!({"text": "x"})),
        ] {
            let told = server.json("POST", &format!("/v1/sessions/{path}"), &desk, Some(&body));
            assert_eq!(code(&told), (403, "role_forbidden"), "{path}");
        }
    });
}

/// Events that an agent may send as often as it likes, and that must not keep a loop from being found.
fn noises(session: &str) -> Vec<(&'static str, Vec<Value>)> {
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
    engines("noise", &[], |server| {
        let bot = token(server, "bot", "agent", &[]);
        for (number, (name, between)) in noises("x").into_iter().enumerate() {
            for round in [json!(1), json!(u64::MAX), json!("one"), Value::Null] {
                let session = format!("{number}-{round}").replace('"', "");
                let rename = |event: &Value| {
                    let mut event = event.clone();
                    event["session"] = json!(session);
                    event
                };
                let mut call = rename(&ls(""));
                call["call"] = json!("c1");
                call["round"] = round.clone();
                let between: Vec<Value> = between.iter().map(rename).collect();
                let ran = calls_until_refused(server, &bot, &call, &between, 30);
                assert!(ran <= 24, "{name}, round {round}: {ran} equal calls ran");
                assert!(stored(server, &session).len() >= ran, "every one is stored");
            }
        }
    });
}

#[test]
fn a_round_that_changes_with_every_call_hides_nothing() {
    let server = Server::start(&folder("claims-rounds"), &["--no-socket"]);
    let bot = token(&server, "bot", "agent", &[]);
    let refused = (0..12_u64).find(|n| {
        let mut call = ls("s");
        (call["round"], call["call"]) = (json!(u64::MAX - n), json!("c"));
        server.event(&bot, &call)["decision"] != "allow"
    });
    assert!(refused.is_some_and(|n| n <= 5), "{refused:?}");
}

#[test]
fn usage_below_zero_is_refused() {
    let server = Server::start(&folder("claims-usage"), &["--no-socket"]);
    let bot = token(&server, "bot", "agent", &[]);
    for usage in [json!({"tokens_in": -5}), json!({"tokens_out": -1}), json!({"cost_usd": -0.01}), json!(-1)]
    {
        let event = json!({"type": "turn.started", "session": "s", "usage": usage});
        assert_eq!(send(&server, &bot, &event).0, 422, "{usage}");
    }
}

#[test]
fn nothing_is_allowed_from_memory_after_a_stop() {
    engines("memory", &[], |server| {
        let (bot, anna) = (token(server, "bot", "agent", &[]), token(server, "anna", "operator", &[]));
        let mut call = ls("s");
        call["id"] = json!("e1");
        assert_eq!(server.event(&bot, &call)["decision"], "allow");
        // Enough others that the session itself no longer remembers the id.
        for n in 0..40 {
            let other = json!({"type": "tool.requested", "session": "s", "id": format!("o{n}"), "tool": "read",
                "args": {"path": format!("f{n}")}});
            server.event(&bot, &other);
        }
        let why = json!({"why": "wrong branch"});
        assert_eq!(server.json("POST", "/v1/sessions/s/stop", &anna, Some(&why)).0, 200);
        for id in ["e1", "o39"] {
            let mut again = ls("s");
            if id == "o39" {
                again = json!({"type": "tool.requested", "session": "s", "tool": "read", "args": {"path": "f39"}});
            }
            again["id"] = json!(id);
            assert_eq!(server.event(&bot, &again)["decision"], "halt", "{id}");
            assert_eq!(send(server, &bot, &json!([again])).1[0]["decision"], "halt", "{id} in a batch");
        }
    });
}

#[test]
fn a_session_does_not_leave_the_parent_that_was_halted() {
    engines("parent", &[], |server| {
        let (bot, anna) = (token(server, "bot", "agent", &[]), token(server, "anna", "operator", &[]));
        server.event(&bot, &json!({"type": "session.started", "session": "top"}));
        server.event(&bot, &json!({"type": "session.started", "session": "child", "parent": "top"}));
        server.event(&bot, &json!({"type": "session.started", "session": "free"}));
        let why = json!({"why": "wrong branch"});
        assert_eq!(server.json("POST", "/v1/sessions/top/stop", &anna, Some(&why)).0, 200);
        assert_eq!(server.event(&bot, &ls("child"))["decision"], "halt");
        for parent in [json!("free"), json!("nobody"), json!("child"), Value::Null] {
            let mut again = json!({"type": "session.started", "session": "child", "parent": parent});
            if parent.is_null() {
                again.as_object_mut().unwrap().remove("parent");
            }
            server.event(&bot, &again);
            assert_eq!(server.event(&bot, &ls("child"))["decision"], "halt", "after naming {parent}");
        }
    });
}

#[test]
fn an_agent_key_sees_only_sessions_of_its_own() {
    engines("own", &[], |server| {
        let (bot, spy) = (token(server, "bot", "agent", &[]), token(server, "spy", "agent", &[]));
        let desk = token(server, "desk", "host", &[]);
        server.event(&bot, &ls("team/mine"));
        let ear = Ear::open(server, "/v1/live?after=0-0", &spy, None);
        let paths = ["", "/export", "/live", "/trips"];
        for (who, key) in [("agent", &spy), ("host", &desk)] {
            for path in paths {
                let told = server.json("GET", &format!("/v1/sessions/team%2Fmine{path}"), key, None);
                let absent = server.json("GET", &format!("/v1/sessions/nobody{path}"), key, None);
                assert_eq!(code(&told), (404, "session_unknown"), "{who} {path}: {}", told.1);
                assert_eq!(code(&absent), code(&told), "{who} {path}: as if it were not there");
            }
            let told = server.json("GET", "/v1/live?session=team/mine", key, None);
            assert_eq!(code(&told), (404, "session_unknown"), "{who}: {}", told.1);
            let into = [
                ls("team/mine"),
                json!({"type": "user.message", "session": "team/mine", "text": "hello"}),
                json!({"type": "session.ended", "session": "team/mine"}),
                json!({"type": "session.started", "session": format!("{who}-child"), "parent": "team/mine"}),
            ];
            for event in &into {
                assert_eq!(code(&send(server, key, event)), (403, "not_your_session"), "{who}: {event}");
                let many = send(server, key, &json!([event]));
                assert_eq!(many.1[0]["error"]["code"], "not_your_session", "{who}: {event}");
            }
            let path = "/v1/sessions/team%2Fmine/events";
            let told = server.json("POST", path, key, Some(&json!({"type": "turn.started"})));
            assert_eq!(code(&told), (403, "not_your_session"), "{who}");
        }
        assert_eq!(stored(server, "team/mine").len(), 1, "nothing was written");
        for path in paths.iter().filter(|path| **path != "/live") {
            assert_eq!(server.json("GET", &format!("/v1/sessions/team%2Fmine{path}"), &bot, None).0, 200);
        }
        server.event(&bot, &ls("team/mine"));
        server.event(&spy, &ls("spy/1"));
        assert_eq!(ear.next(1)[0].name().0, "spy/1", "the stream has its own events and no others");
        ear.quiet();
        // Keys that are made for more see more; so do people.
        for (name, args) in [("wide", vec!["--all-sessions"]), ("team", vec!["--sessions", "team/"])] {
            let key = token(server, name, "agent", &args);
            assert_eq!(server.json("GET", "/v1/sessions/team%2Fmine", &key, None).0, 200, "{name}");
            assert_eq!(send(server, &key, &ls("team/mine")).0, 200, "{name}");
        }
        let anna = token(server, "anna", "operator", &[]);
        assert_eq!(server.json("GET", "/v1/sessions/team%2Fmine", &anna, None).0, 200);
        // A new key of the same name, as after a rotation, goes on with its sessions.
        let rotated = token(server, "bot", "agent", &[]);
        assert_eq!(send(server, &rotated, &ls("team/mine")).0, 200);
    });
}

#[test]
fn a_session_that_no_key_has_made_belongs_to_no_agent_key() {
    let server = Server::start(&folder("claims-hook"), &["--no-socket"]);
    let run = Command::new("sh")
        .args(["-c", r#"echo '{"type":"turn.started","session":"local"}' | "$F" observe --store "$S""#])
        .env("F", env!("CARGO_BIN_EXE_flyball"))
        .env("S", &server.store)
        .current_dir(&server.folder)
        .output()
        .unwrap();
    assert!(run.status.success(), "{run:?}");
    let bot = token(&server, "bot", "agent", &[]);
    assert_eq!(code(&send(&server, &bot, &ls("local"))), (403, "not_your_session"));
    assert_eq!(server.json("GET", "/v1/sessions/local", &bot, None).0, 404);
    // What a person has started for an agent belongs to the first agent that works in it.
    let anna = token(&server, "anna", "operator", &[]);
    let start = json!({"type": "session.started", "session": "task", "policy": {"budgets": {"session": {"turns": 9}}}});
    server.event(&anna, &start);
    assert_eq!(server.json("GET", "/v1/sessions/task", &bot, None).0, 404, "not yet");
    server.event(&bot, &ls("task"));
    assert_eq!(server.json("GET", "/v1/sessions/task", &bot, None).0, 200);
    let other = token(&server, "other", "agent", &[]);
    assert_eq!(code(&send(&server, &other, &ls("task"))), (403, "not_your_session"));
    // The name of a parent is taken as well: another key cannot put its session above this one later.
    server.event(&bot, &json!({"type": "session.started", "session": "kid", "parent": "later"}));
    let spy = token(&server, "spy", "agent", &[]);
    assert_eq!(code(&send(&server, &spy, &ls("later"))), (403, "not_your_session"));
}

#[test]
fn two_keys_never_share_a_new_session() {
    let server = Server::start(&folder("claims-race"), &["--no-socket"]);
    let keys = ["one", "two", "three"].map(|name| token(&server, name, "agent", &[]));
    for round in 0..15 {
        let session = format!("race-{round}");
        let taken: Vec<u16> = std::thread::scope(|scope| {
            let all: Vec<_> =
                keys.iter().map(|key| scope.spawn(|| send(&server, key, &ls(&session)).0)).collect();
            all.into_iter().map(|one| one.join().unwrap()).collect()
        });
        assert_eq!(taken.iter().filter(|status| **status == 200).count(), 1, "{session}: {taken:?}");
        assert_eq!(stored(&server, &session).len(), 1);
    }
}

/// What the effects of a decision say about a message of a person.
fn read_as(decision: &Value) -> &str {
    let effects = decision["effects"].as_array().unwrap();
    let found = effects.iter().find(|effect| effect["effect"] == "person.message");
    found.and_then(|effect| effect["as"].as_str()).unwrap_or("nothing")
}

fn has(decision: &Value, effect: &str) -> bool {
    decision["effects"].as_array().unwrap().iter().any(|found| found["effect"] == effect)
}

#[test]
fn a_channel_sends_what_a_person_wrote() {
    engines("channel", &[], |server| {
        let (bot, chat) = (token(server, "bot", "agent", &[]), token(server, "chat", "channel", &[]));
        let say = |session: &str, text: &str| json!({"type": "person.message", "session": session, "text": text, "by": "U1"});
        for (session, text, read, effect) in [
            ("yes", "yes", "plan_answer", "plan.approved"),
            ("no", "no", "plan_answer", "plan.rejected"),
            ("new", "send me the full list of tasks", "new_request", "plan.replaced"),
        ] {
            plan(server, &bot, session, "a.txt");
            let said = server.event(&chat, &say(session, text));
            assert_eq!((read_as(&said), has(&said, effect)), (read, true), "{said}");
            assert_eq!(last(server, session)["event"]["by"], "chat:U1");
        }
        server.event(&bot, &json!({"type": "question.asked", "session": "q", "text": "Which day?"}));
        assert_eq!(read_as(&server.event(&chat, &say("q", "Monday"))), "question_answer");
        assert_eq!(read_as(&server.event(&chat, &say("q", "thanks"))), "user_message");
        assert_eq!(read_as(&server.event(&chat, &say("first", "hello"))), "user_message");
        // The same message again is the same answer, also after the plan is gone.
        plan(server, &bot, "again", "a.txt");
        let mut yes = say("again", "yes");
        yes["id"] = json!("m1");
        let first = server.event(&chat, &yes);
        assert!(has(&first, "plan.approved"), "{first}");
        assert_eq!(server.event(&chat, &yes), first);
        // A person's own key may send one as well, and is known by its name.
        let anna = token(server, "anna", "operator", &[]);
        plan(server, &bot, "anna", "a.txt");
        assert!(has(&server.event(&anna, &say("anna", "yes")), "plan.approved"));
        assert_eq!(last(server, "anna")["event"]["by"], "anna");
        // Nobody else may, and never among other events.
        for (name, role) in [("bot", "agent"), ("desk", "host")] {
            let key = token(server, name, role, &["--all-sessions"]);
            assert_eq!(code(&send(server, &key, &say("q", "yes"))), (403, "role_forbidden"), "{role}");
        }
        let many = send(server, &chat, &json!([say("q", "yes")]));
        assert_eq!(many.1[0]["error"]["code"], "bad_request", "{}", many.1);
    });
}

#[test]
fn session_that_a_channel_begins_belongs_to_the_first_agent_that_writes_to_it() {
    engines("channel-begins", &[], |server| {
        let (bot, chat) = (token(server, "bot", "agent", &[]), token(server, "chat", "channel", &[]));
        let other = token(server, "other", "agent", &[]);
        let say = |text: &str| json!({"type": "person.message", "session": "s", "text": text, "by": "U1"});
        assert_eq!(read_as(&server.event(&chat, &say("delete a.txt"))), "user_message");
        plan(server, &bot, "s", "a.txt");
        let turn = json!({"type": "turn.started", "session": "s"});
        assert_eq!(code(&send(server, &other, &turn)), (403, "not_your_session"));
        assert!(has(&server.event(&chat, &say("yes")), "plan.approved"));
    });
}

#[test]
fn a_channel_is_no_operator_and_approves_no_plan_of_its_own() {
    engines("channel-limits", &[], |server| {
        let (bot, chat) = (token(server, "bot", "agent", &[]), token(server, "chat", "channel", &[]));
        let anna = token(server, "anna", "operator", &[]);
        let say = |text: &str| json!({"type": "person.message", "session": "p", "text": text, "by": "U1"});
        plan(server, &chat, "p", "a.txt");
        assert_eq!(code(&send(server, &chat, &say("yes"))), (403, "own_request"));
        assert!(has(&server.event(&chat, &say("no")), "plan.rejected"), "a no needs nobody else");
        // A plan that another key asked for, exchanged for one of its own at the last moment.
        for round in 0..20 {
            let session = format!("r{round}");
            plan(server, &bot, &session, "shown.txt");
            let yes = json!({"type": "person.message", "session": session, "text": "yes", "by": "U1"});
            let own = json!({"type": "confirmation.requested", "session": session, "question": "Delete?",
                "plan": [{"tool": "delete", "args": {"file": "everything"}}]});
            let own_digest = std::thread::scope(|scope| {
                let exchange = scope.spawn(|| send(server, &chat, &own));
                send(server, &chat, &yes);
                exchange.join().unwrap();
                let (_, told) = server.json("GET", &format!("/v1/sessions/{session}"), &chat, None);
                told["pending"]["digest"].as_str().map(str::to_owned)
            });
            for event in stored(server, &session) {
                let approved = event["decision"]["effects"].as_array().unwrap().iter();
                let approved = approved.filter(|effect| effect["effect"] == "plan.approved");
                for effect in approved {
                    assert_ne!(effect["digest"].as_str(), own_digest.as_deref(), "{session}: {event}");
                }
            }
        }
        // A plan that names who may answer it waits for that person of the chat.
        let named = json!({"type": "confirmation.requested", "session": "n", "question": "Delete?",
            "requester": "chat:U1", "plan": [{"tool": "delete", "args": {"file": "a"}}]});
        server.event(&bot, &named);
        let by = |by: &str| json!({"type": "person.message", "session": "n", "text": "yes", "by": by});
        assert_eq!(server.event(&chat, &by("U2"))["decision"], "block");
        assert!(has(&server.event(&chat, &by("U1")), "plan.approved"));
        // It releases and stops nothing, and sees no page for people.
        server.event(&bot, &ls("s"));
        let why = json!({"why": "enough"});
        assert_eq!(server.json("POST", "/v1/sessions/s/stop", &anna, Some(&why)).0, 200);
        let told =
            json!({"type": "person.message", "session": "s", "text": "go on, I lift the stop", "by": "U1"});
        server.event(&chat, &told);
        assert_eq!(server.event(&bot, &ls("s"))["decision"], "halt");
        for (method, path, body) in [
            ("POST", "/v1/sessions/s/releases", Some(json!({"guard": "human", "why": "x"}))),
            ("POST", "/v1/sessions/s/stop", Some(json!({"why": "x"}))),
            ("POST", "/v1/sessions/p/confirmation", Some(json!({"answer": "no"}))),
            ("GET", "/v1/inbox", None),
            ("GET", "/v1/sessions", None),
            ("GET", "/v1/keys", None),
        ] {
            assert_eq!(
                code(&server.json(method, path, &chat, body.as_ref())),
                (403, "role_forbidden"),
                "{path}"
            );
        }
        for event in [
            json!({"type": "confirmation.answered", "session": "p", "value": "yes"}),
            json!({"type": "human.released", "session": "s", "guard": "human", "by": "anna", "why": "x"}),
            json!({"type": "session.started", "session": "s", "reopen": true}),
        ] {
            assert_eq!(code(&send(server, &chat, &event)), (403, "role_forbidden"), "{event}");
        }
    });
}

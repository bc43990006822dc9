//! Traces and export: exported data can be read back and leads to the same decisions, and a collector receives every
//! call once.

use crate::receivers::{http_receiver, receive};
use crate::server_harness::{TestServer, test_dir};
use crate::sse_client::RECEIVE_TIMEOUT;
use flyball_server::AuthRole;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::process::Command;
use std::time::Instant;

/// A session with calls that succeed, fail and repeat until they are denied, and one that never ends.
fn session_events(session: &str) -> Vec<Value> {
    let mut events = vec![json!({"type": "session.started", "session": session, "at": 1_000_000})];
    let mut at = 1_000_000;
    let mut call = |tool: &str, args: Value, end: Option<Value>| {
        at += 5;
        let name = format!("call-{at}");
        events
            .push(json!({"type": "tool.requested", "session": session, "at": at, "call": name, "tool": tool,
            "args": args, "node": "coder"}));
        if let Some(end) = end {
            at += 7;
            let mut done = json!({"type": "tool.finished", "session": session, "at": at, "call": name});
            done.as_object_mut().unwrap().extend(end.as_object().unwrap().clone());
            events.push(done);
        }
    };
    call("read", json!({"path": "a.rs"}), Some(json!({"ok": true, "output": "fn main() {}"})));
    call("bash", json!({"command": "make"}), Some(json!({"ok": false, "error": "no rule"})));
    for _ in 0..5 {
        call("bash", json!({"command": "ls"}), Some(json!({"ok": true, "output": "a.rs"})));
    }
    call("bash", json!({"command": "ls"}), None);
    call("bash", json!({"command": "ls"}), None);
    call("write", json!({"path": "b.rs", "text": "x"}), None);
    events
}

fn submit(server: &TestServer, key: &str, events: &[Value]) -> Vec<Value> {
    events.iter().map(|event| server.submit_event(key, event)).collect()
}

/// The decisions on the calls, in order.
fn verdicts(events: &[Value], decisions: &[Value]) -> Vec<(String, String)> {
    let calls = events.iter().zip(decisions).filter(|(event, _)| event["type"] == "tool.requested");
    let word = |value: &Value| value.as_str().unwrap().to_owned();
    calls.map(|(event, decision)| (word(&event["call"]), word(&decision["decision"]))).collect()
}

fn replay_file(server: &TestServer, file: &str, format: &[&str]) -> Vec<Value> {
    let run = Command::new(env!("CARGO_BIN_EXE_flyball"))
        .args(["replay", file, "--json"])
        .args(format)
        .current_dir(&server.folder)
        .output()
        .unwrap();
    let text = String::from_utf8(run.stdout).unwrap();
    assert!(!text.is_empty(), "{}", String::from_utf8_lossy(&run.stderr));
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn exported_session_replays_with_the_same_decisions() {
    let server = TestServer::start(&test_dir("export"), &["--no-socket"]);
    let agent = server.create_key("bot", AuthRole::Agent);
    let events = session_events("deep/work");
    let decisions = submit(&server, &agent, &events);
    let words: Vec<&str> = decisions.iter().map(|decision| decision["decision"].as_str().unwrap()).collect();
    assert!(words.contains(&"block"), "{words:?}");
    let (status, lines) = server.request("GET", "/v1/sessions/deep%2Fwork/export", Some(&agent), None);
    assert_eq!(status, 200, "{lines}");
    std::fs::write(server.folder.join("out.jsonl"), &lines).unwrap();
    assert_eq!(replay_file(&server, "out.jsonl", &[]), decisions, "byte for byte");
    let first: Value = serde_json::from_str(lines.lines().nth(1).unwrap()).unwrap();
    assert_eq!((&first["seq"], &first["decision"]), (&json!(2), &decisions[1]));

    let (status, traces) =
        server.request("GET", "/v1/sessions/deep%2Fwork/export?format=otlp", Some(&agent), None);
    assert_eq!(status, 200, "{traces}");
    std::fs::write(server.folder.join("out.json"), &traces).unwrap();
    let again = replay_file(&server, "out.json", &["--format", "otlp-json"]);
    // The reader emits a request and an end for every span; those of calls are at the same positions.
    let asked: Vec<&Value> = again.iter().filter(|decision| decision["session"] == "deep/work").collect();
    let verdicts = verdicts(&events, &decisions);
    let counted: BTreeMap<&str, usize> = asked.iter().fold(BTreeMap::new(), |mut all, decision| {
        *all.entry(decision["decision"].as_str().unwrap()).or_default() += 1;
        all
    });
    let blocked = verdicts.iter().filter(|(_, word)| word == "block").count();
    assert_eq!(counted.get("block"), Some(&blocked), "{again:#?}");
    let reasons = |all: &[Value]| -> Vec<(String, Value)> {
        let trips = all.iter().flat_map(|decision| decision["trips"].as_array().unwrap());
        trips.map(|trip| (trip["reason"].as_str().unwrap().to_owned(), trip["count"].clone())).collect()
    };
    assert_eq!(reasons(&again), reasons(&decisions), "the same findings, in the same order");

    for (path, status, code) in [
        ("/v1/sessions/none/export", 404, "session_unknown"),
        ("/v1/sessions/deep%2Fwork/export?format=xml", 422, "bad_export_format"),
    ] {
        let (found, body) = server.request("GET", path, Some(&agent), None);
        assert_eq!((found, body.contains(code)), (status, true), "{body}");
    }
}

fn attribute(span: &Value, key: &str) -> Option<String> {
    let all = span["attributes"].as_array().unwrap();
    let found = all.iter().find(|attribute| attribute["key"] == key)?;
    let value = found["value"].as_object().unwrap().values().next().unwrap();
    Some(value.as_str().map_or_else(|| value.to_string(), str::to_owned))
}

#[test]
fn collector_gets_every_call_once_after_an_outage() {
    let folder = test_dir("otlp");
    // The first post is rejected.
    let (collector, posts) = http_receiver(&[503]);
    let args = ["--no-socket", "--otlp", &collector];
    let (first, second) = (TestServer::start(&folder, &args), TestServer::start(&folder, &args));
    let agent = first.create_key("anna", AuthRole::Operator);
    // An exporter that starts later sends only new events.
    let began = Instant::now();
    let standing = || {
        let store = rusqlite::Connection::open(folder.join("flyball.db")).unwrap();
        store
            .query_row("SELECT count(*) FROM flyball_notes WHERE shelf = 'otlp'", [], |row| {
                row.get::<_, i64>(0)
            })
            .unwrap()
    };
    while standing() == 0 {
        assert!(began.elapsed() < RECEIVE_TIMEOUT);
    }
    let events = session_events("traced");
    let decisions: Vec<Value> =
        events
            .iter()
            .enumerate()
            .map(|(n, event)| {
                if n % 2 == 0 {
                    first.submit_event(&agent, event)
                } else {
                    second.submit_event(&agent, event)
                }
            })
            .collect();
    first.submit_event(&agent, &json!({"type": "session.ended", "session": "traced", "at": 2_000_000}));
    let calls = verdicts(&events, &decisions);
    let mut spans: BTreeMap<String, Value> = BTreeMap::new();
    let mut refused = 0;
    while spans.len() < calls.len() {
        let post = receive(&posts);
        assert_eq!(post.path, "/v1/traces");
        assert_eq!(post.header("content-type"), Some("application/json"));
        refused += 1;
        if refused == 1 {
            continue;
        }
        let document: Value = serde_json::from_str(&post.body).unwrap();
        let resource = &document["resourceSpans"][0];
        for span in resource["scopeSpans"][0]["spans"].as_array().unwrap() {
            assert_eq!(
                (span["traceId"].as_str().unwrap().len(), span["spanId"].as_str().unwrap().len()),
                (32, 16)
            );
            let Some(call) = attribute(span, "gen_ai.tool.call.id") else { continue };
            assert!(spans.insert(call.clone(), span.clone()).is_none(), "{call} came twice");
        }
    }
    for (call, verdict) in &calls {
        let span = &spans[call];
        assert_eq!(attribute(span, "flyball.decision").as_ref(), Some(verdict));
        assert_eq!(attribute(span, "gen_ai.operation.name").unwrap(), "execute_tool");
        assert_eq!(attribute(span, "gen_ai.conversation.id").unwrap(), "traced");
        assert_eq!(
            attribute(span, "gen_ai.tool.call.arguments"),
            None,
            "content is not exported unless requested"
        );
        if verdict == "block" {
            assert_eq!(attribute(span, "flyball.guard").unwrap(), "repetition");
            assert_eq!(attribute(span, "flyball.limit").unwrap(), "5");
            assert_eq!(span["events"][0]["name"], "flyball.trip");
            assert_eq!(span["status"]["code"], 2);
        }
    }
    let lasted = |span: &Value| {
        let nanos = |key: &str| span[key].as_str().unwrap().parse::<u64>().unwrap();
        (nanos("endTimeUnixNano") - nanos("startTimeUnixNano")) / 1_000_000
    };
    assert_eq!(lasted(&spans[&calls[0].0]), 7, "from the request to its end");
    let traces: Vec<&Value> = spans.values().map(|span| &span["traceId"]).collect();
    assert!(traces.windows(2).all(|pair| pair[0] == pair[1]), "one session, one trace");
}

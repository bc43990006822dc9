//! Outbox delivery after the commit: at least once, with a key, retried, and visible as dead when it finally fails.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a panic is how a test fails")]

mod common;

use common::{SqliteTestStore, TestStore, event, test_dir};
use flyball::policy::{PolicyLayer, ValueOrigin};
use flyball::{PolicySource, Preset};
use flyball_store::{
    AdminStore, DispatchReport, FailpointHook, OutboxDispatcher, OutboxState, Recorder, RecorderOptions,
};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::sync::Arc;

fn source(deliver: &Value) -> PolicySource {
    let tree = json!({"journal": {"deliver": deliver}});
    PolicySource::new(
        vec![PolicyLayer::from_value(ValueOrigin::File { name: "test".to_owned() }, tree)],
        Preset::Agent,
    )
    .unwrap()
}

/// Records a session in which a plan is approved.
fn approve_plan(store: &Arc<dyn AdminStore>, source: &PolicySource) {
    let recorder = Recorder::new(Arc::clone(store), source.clone(), RecorderOptions::default());
    for line in [
        r#"{"type":"confirmation.requested","session":"s","at":1000,"plan":[{"tool":"task_delete","args":{"uid":"t1"}}],"question":"Sure?"}"#,
        r#"{"type":"confirmation.answered","session":"s","at":2000,"text":"yes"}"#,
        r#"{"type":"confirmation.answered","session":"s","at":3000,"text":"yes"}"#,
    ] {
        recorder.submit(event(line)).unwrap();
    }
}

fn dispatcher(store: &Arc<dyn AdminStore>, source: &PolicySource) -> OutboxDispatcher {
    OutboxDispatcher::new(Arc::clone(store), &source.base().journal, FailpointHook::default())
}

#[test]
fn command_receives_the_approved_plan_once() {
    let test_store = SqliteTestStore::new("command");
    let folder = test_dir("command-out");
    let out = folder.join("got.jsonl");
    let script = format!("cat >> {0}; printf '\\n' >> {0}; echo \"$FLYBALL_KEY\" >> {0}", out.display());
    let source = source(&json!([{"effects": ["plan.approved"], "command": ["sh", "-c", script]}]));
    let store = test_store.open();
    approve_plan(&store, &source);
    drop(store);
    let store = test_store.open();
    assert_eq!(
        dispatcher(&store, &source).deliver_due(10).unwrap(),
        DispatchReport { done: 1, ..DispatchReport::default() }
    );
    assert_eq!(dispatcher(&store, &source).deliver_due(10).unwrap(), DispatchReport::default());
    let text = std::fs::read_to_string(&out).unwrap();
    let (payload, key) = text.trim().split_once('\n').unwrap();
    let payload: Value = serde_json::from_str(payload).unwrap();
    assert_eq!(payload["effect"], "plan.approved");
    assert_eq!(payload["key"], key);
    assert_eq!(payload["plan"], json!([{"tool": "task_delete", "args": {"uid": "t1"}}]));
    assert_eq!(store.outbox_messages(OutboxState::Done, 10).unwrap().len(), 1);
}

#[test]
fn failed_deliveries_are_retried_then_dead() {
    let test_store = SqliteTestStore::new("fails");
    let source = source(&json!([
        {"effects": ["plan.approved"], "command": ["sh", "-c", "echo no luck >&2; exit 3"], "attempts": 1},
        {"effects": ["plan.approved"], "command": ["sh", "-c", "exit 4"], "attempts": 2},
        {"effects": ["plan.approved"], "command": ["sleep", "30"], "attempts": 1, "timeout": "50ms"},
        {"effects": ["plan.approved"], "command": ["/no/such/program"], "attempts": 1},
    ]));
    let store = test_store.open();
    approve_plan(&store, &source);
    let told = dispatcher(&store, &source).deliver_due(10).unwrap();
    assert_eq!(told, DispatchReport { done: 0, retried: 1, dead: 3 });
    let dead = store.outbox_messages(OutboxState::Dead, 10).unwrap();
    let errors: Vec<_> = dead.iter().filter_map(|message| message.error.clone()).collect();
    for part in ["no luck", "took longer than 50 ms", "/no/such/program"] {
        assert!(errors.iter().any(|error| error.contains(part)), "{part}: {errors:?}");
    }
    assert_eq!(
        store.outbox_messages(OutboxState::Waiting, 10).unwrap().len(),
        1,
        "the second waits for its retry"
    );
    assert!(store.retry_outbox(&dead.first().unwrap().key).unwrap());
}

#[test]
fn webhook_retries_carry_the_same_idempotency_key() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}/hook", listener.local_addr().unwrap());
    let server = std::thread::spawn(move || {
        let mut keys = Vec::new();
        for answer in ["503 Service Unavailable", "204 No Content"] {
            let (mut stream, _) = listener.accept().unwrap();
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            let (mut length, mut key, mut line) = (0, String::new(), String::new());
            while reader.read_line(&mut line).unwrap() > 2 {
                let (name, value) = line.split_once(':').unwrap_or((&line, ""));
                match name.to_lowercase().as_str() {
                    "content-length" => length = value.trim().parse().unwrap(),
                    "idempotency-key" => key = value.trim().to_owned(),
                    _ => {}
                }
                line.clear();
            }
            let mut body = vec![0; length];
            reader.read_exact(&mut body).unwrap();
            let body: Value = serde_json::from_slice(&body).unwrap();
            assert_eq!(body["key"], key);
            keys.push(key);
            write!(stream, "HTTP/1.1 {answer}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n").unwrap();
        }
        keys
    });
    let test_store = SqliteTestStore::new("webhook");
    let source = source(&json!([{"effects": ["plan.approved"], "webhook": address}]));
    let store = test_store.open();
    approve_plan(&store, &source);
    let mut all = DispatchReport::default();
    let began = std::time::Instant::now();
    while all.done == 0 && began.elapsed().as_secs() < 60 {
        let told = dispatcher(&store, &source).deliver_due(10).unwrap();
        all = DispatchReport {
            done: all.done + told.done,
            retried: all.retried + told.retried,
            dead: all.dead + told.dead,
        };
    }
    assert_eq!(all, DispatchReport { done: 1, retried: 1, dead: 0 });
    let keys = server.join().unwrap();
    assert_eq!(keys.first(), keys.last(), "the same key both times");
}

#[test]
fn delivery_removed_from_the_policy_is_dead() {
    let test_store = SqliteTestStore::new("gone");
    let with = source(&json!([{"effects": ["plan.approved"], "command": ["true"]}]));
    let store = test_store.open();
    approve_plan(&store, &with);
    let other = source(&json!([{"effects": ["notify"], "command": ["echo"]}]));
    assert_eq!(dispatcher(&store, &other).deliver_due(10).unwrap().dead, 1);
    assert!(!store.outbox_messages(OutboxState::Dead, 1).unwrap().is_empty());
}

#[test]
fn no_deliveries_means_empty_outbox() {
    let test_store = SqliteTestStore::new("none");
    let store = test_store.open();
    approve_plan(&store, &PolicySource::preset(Preset::Agent));
    assert!(store.outbox_messages(OutboxState::Waiting, 10).unwrap().is_empty());
}

//! Effects leave the store after the commit: at least once, with a key, tried again, and given up where people see it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "in a test that is how a failure is told"
)]

mod kit;

use flyball::policy::{Layer, Origin};
use flyball::{PolicySource, Preset};
use flyball_journal::{Courier, Delivered, Desk, ErrandState, Probe, Recorder, RecorderOptions};
use kit::{InFile, Place, event, folder};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::sync::Arc;

fn source(deliver: &Value) -> PolicySource {
    let tree = json!({"journal": {"deliver": deliver}});
    PolicySource::new(vec![Layer::from_value(Origin::File { name: "test".to_owned() }, tree)], Preset::Agent)
        .unwrap()
}

/// A session in which a plan is approved.
fn approved(store: &Arc<dyn Desk>, source: &PolicySource) {
    let recorder = Recorder::new(Arc::clone(store), source.clone(), RecorderOptions::default());
    for line in [
        r#"{"type":"confirmation.requested","session":"s","at":1000,"plan":[{"tool":"task_delete","args":{"uid":"t1"}}],"question":"Sure?"}"#,
        r#"{"type":"confirmation.answered","session":"s","at":2000,"text":"yes"}"#,
        r#"{"type":"confirmation.answered","session":"s","at":3000,"text":"yes"}"#,
    ] {
        recorder.submit(event(line)).unwrap();
    }
}

fn courier(store: &Arc<dyn Desk>, source: &PolicySource) -> Courier {
    Courier::new(Arc::clone(store), &source.base().journal, Probe::default())
}

#[test]
fn a_command_gets_the_plan_once() {
    let place = InFile::new("command");
    let folder = folder("command-out");
    let out = folder.join("got.jsonl");
    let script = format!("cat >> {0}; printf '\\n' >> {0}; echo \"$FLYBALL_KEY\" >> {0}", out.display());
    let source = source(&json!([{"effects": ["plan.approved"], "command": ["sh", "-c", script]}]));
    let store = place.open();
    approved(&store, &source);
    drop(store);
    let store = place.open();
    assert_eq!(courier(&store, &source).deliver(10).unwrap(), Delivered { done: 1, ..Delivered::default() });
    assert_eq!(courier(&store, &source).deliver(10).unwrap(), Delivered::default());
    let text = std::fs::read_to_string(&out).unwrap();
    let (payload, key) = text.trim().split_once('\n').unwrap();
    let payload: Value = serde_json::from_str(payload).unwrap();
    assert_eq!(payload["effect"], "plan.approved");
    assert_eq!(payload["key"], key);
    assert_eq!(payload["plan"], json!([{"tool": "task_delete", "args": {"uid": "t1"}}]));
    assert_eq!(store.errands(ErrandState::Done, 10).unwrap().len(), 1);
}

#[test]
fn what_fails_is_tried_again_and_given_up() {
    let place = InFile::new("fails");
    let source = source(&json!([
        {"effects": ["plan.approved"], "command": ["sh", "-c", "echo no luck >&2; exit 3"], "attempts": 1},
        {"effects": ["plan.approved"], "command": ["sh", "-c", "exit 4"], "attempts": 2},
        {"effects": ["plan.approved"], "command": ["sleep", "30"], "attempts": 1, "timeout": "50ms"},
        {"effects": ["plan.approved"], "command": ["/no/such/program"], "attempts": 1},
    ]));
    let store = place.open();
    approved(&store, &source);
    let told = courier(&store, &source).deliver(10).unwrap();
    assert_eq!(told, Delivered { done: 0, again: 1, dead: 3 });
    let dead = store.errands(ErrandState::Dead, 10).unwrap();
    let errors: Vec<_> = dead.iter().filter_map(|errand| errand.error.clone()).collect();
    for part in ["no luck", "took longer than 50 ms", "/no/such/program"] {
        assert!(errors.iter().any(|error| error.contains(part)), "{part}: {errors:?}");
    }
    assert_eq!(
        store.errands(ErrandState::Waiting, 10).unwrap().len(),
        1,
        "the second waits for its next try"
    );
    assert!(store.retry(&dead.first().unwrap().key).unwrap());
}

#[test]
fn a_webhook_gets_a_key_with_every_try() {
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
    let place = InFile::new("webhook");
    let source = source(&json!([{"effects": ["plan.approved"], "webhook": address}]));
    let store = place.open();
    approved(&store, &source);
    let mut all = Delivered::default();
    let began = std::time::Instant::now();
    while all.done == 0 && began.elapsed().as_secs() < 60 {
        let told = courier(&store, &source).deliver(10).unwrap();
        all = Delivered {
            done: all.done + told.done,
            again: all.again + told.again,
            dead: all.dead + told.dead,
        };
    }
    assert_eq!(all, Delivered { done: 1, again: 1, dead: 0 });
    let keys = server.join().unwrap();
    assert_eq!(keys.first(), keys.last(), "the same key both times");
}

#[test]
fn a_delivery_that_is_gone_from_the_policy_is_given_up() {
    let place = InFile::new("gone");
    let with = source(&json!([{"effects": ["plan.approved"], "command": ["true"]}]));
    let store = place.open();
    approved(&store, &with);
    let other = source(&json!([{"effects": ["notify"], "command": ["echo"]}]));
    assert_eq!(courier(&store, &other).deliver(10).unwrap().dead, 1);
    assert!(!store.errands(ErrandState::Dead, 1).unwrap().is_empty());
}

#[test]
fn without_deliveries_nothing_is_written() {
    let place = InFile::new("none");
    let store = place.open();
    approved(&store, &PolicySource::preset(Preset::Agent));
    assert!(store.errands(ErrandState::Waiting, 10).unwrap().is_empty());
}

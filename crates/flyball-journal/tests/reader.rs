//! Looking at a SQLite store while somebody writes: nobody waits, and only what is committed is seen.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "in a test that is how a failure is told")]

use flyball::{PolicySource, Preset};
use flyball_journal::{
    Address, Desk, If, Incoming, Journal, Note, Point, Probe, Recorder, RecorderOptions, Shelf, Sqlite,
    SqliteOptions, Which,
};
use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

fn event(id: &str) -> Incoming {
    let line = format!(
        r#"{{"type":"tool.requested","session":"s","id":"{id}","tool":"bash","args":{{"command":"make {id}"}}}}"#
    );
    Incoming::read(line, Some(1_763_200_000_000)).unwrap()
}

#[test]
fn whoever_looks_does_not_wait_for_a_commit() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("reader-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    let (looked, seen) = channel::<(usize, usize)>();
    let (go, wait) = channel::<()>();
    let seen = Mutex::new(seen);
    let armed = Arc::new(Mutex::new(None));
    let (at, found) = (Arc::clone(&armed), Arc::new(Mutex::new(None)));
    let result = Arc::clone(&found);
    // In the middle of a transaction, with the writer's connection in use, somebody looks.
    let probe = Probe::new(move |point| {
        if point == Point::InTransaction && at.lock().unwrap().take() == Some(()) {
            go.send(()).unwrap();
            *result.lock().unwrap() = Some(seen.lock().unwrap().recv_timeout(Duration::from_secs(20)));
        }
    });
    let path = folder.join("flyball.db");
    let store = Arc::new(Sqlite::open(&path, SqliteOptions { probe, ..SqliteOptions::default() }).unwrap());
    let recorder = Recorder::new(
        Arc::clone(&store) as Arc<dyn Desk>,
        PolicySource::preset(Preset::Agent),
        RecorderOptions::default(),
    );
    recorder.submit(event("e1")).unwrap();
    *armed.lock().unwrap() = Some(());
    std::thread::scope(|scope| {
        let store = &store;
        scope.spawn(move || {
            wait.recv().unwrap();
            let heads = store.heads(Which::All, 10).unwrap();
            let records = store.records("s", 1, 10).unwrap();
            looked.send((heads.len(), records.len())).unwrap();
        });
        recorder.submit(event("e2")).unwrap();
    });
    assert_eq!(
        found.lock().unwrap().clone(),
        Some(Ok::<_, RecvTimeoutError>((1, 1))),
        "what was committed before"
    );
    assert_eq!(store.records("s", 1, 10).unwrap().len(), 2, "and afterwards all of it");
    let note = Note { shelf: "x".to_owned(), key: "k".to_owned(), text: "t".to_owned(), until: None };
    assert!(store.put(&note, If::New).unwrap());
    assert_eq!(store.note("x", "k").unwrap(), Some(note), "one's own note is seen at once");
    let other = Address::File(path).open().unwrap();
    assert!(other.take("x", "k").unwrap().is_some());
    assert!(store.note("x", "k").unwrap().is_none(), "what others do as well");
}

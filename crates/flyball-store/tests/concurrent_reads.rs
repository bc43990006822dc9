//! Reading a SQLite store during a write: reads do not wait, and see only committed data.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a panic is how a test fails")]

use flyball::{PolicySource, Preset};
use flyball_store::{
    AdminStore, EventStore, Failpoint, FailpointHook, KvEntry, KvStore, Precondition, Recorder,
    RecorderOptions, SessionFilter, SqliteOptions, SqliteStore, StoreAddress, Submission,
};
use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

fn event(id: &str) -> Submission {
    let line = format!(
        r#"{{"type":"tool.requested","session":"s","id":"{id}","tool":"bash","args":{{"command":"make {id}"}}}}"#
    );
    Submission::parse(line, Some(1_763_200_000_000)).unwrap()
}

#[test]
fn reads_do_not_wait_for_a_commit() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("reader-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    let (looked, seen) = channel::<(usize, usize)>();
    let (go, wait) = channel::<()>();
    let seen = Mutex::new(seen);
    let armed = Arc::new(Mutex::new(None));
    let (at, found) = (Arc::clone(&armed), Arc::new(Mutex::new(None)));
    let result = Arc::clone(&found);
    // Reads in the middle of a transaction, while the writer's connection is in use.
    let probe = FailpointHook::new(move |point| {
        if point == Failpoint::InTransaction && at.lock().unwrap().take() == Some(()) {
            go.send(()).unwrap();
            *result.lock().unwrap() = Some(seen.lock().unwrap().recv_timeout(Duration::from_secs(20)));
        }
    });
    let path = folder.join("flyball.db");
    let store = Arc::new(
        SqliteStore::open(&path, SqliteOptions { failpoints: probe, ..SqliteOptions::default() }).unwrap(),
    );
    let recorder = Recorder::new(
        Arc::clone(&store) as Arc<dyn AdminStore>,
        PolicySource::preset(Preset::Agent),
        RecorderOptions::default(),
    );
    recorder.submit(event("e1")).unwrap();
    *armed.lock().unwrap() = Some(());
    std::thread::scope(|scope| {
        let store = &store;
        scope.spawn(move || {
            wait.recv().unwrap();
            let heads = store.list_sessions(SessionFilter::All, 10).unwrap();
            let records = store.records("s", 1, 10).unwrap();
            looked.send((heads.len(), records.len())).unwrap();
        });
        recorder.submit(event("e2")).unwrap();
    });
    assert_eq!(
        found.lock().unwrap().clone(),
        Some(Ok::<_, RecvTimeoutError>((1, 1))),
        "only earlier commits are visible"
    );
    assert_eq!(store.records("s", 1, 10).unwrap().len(), 2, "and afterwards all of it");
    let note =
        KvEntry { namespace: "x".to_owned(), key: "k".to_owned(), value: "t".to_owned(), expires_at: None };
    assert!(store.kv_put(&note, Precondition::Absent).unwrap());
    assert_eq!(store.kv_get("x", "k").unwrap(), Some(note), "one's own note is seen at once");
    let other = StoreAddress::File(path).open().unwrap();
    assert!(other.kv_take("x", "k").unwrap().is_some());
    assert!(store.kv_get("x", "k").unwrap().is_none(), "what others do as well");
}

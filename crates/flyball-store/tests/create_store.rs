//! Creating a store is atomic, wherever the process is killed.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a panic is how a test fails")]

mod common;

use common::{event, recorder, test_dir};
use flyball_store::{
    AdminStore, EventStore, Failpoint, FailpointHook, HighWaterMarks, SqliteOptions, SqliteStore,
    StoreErrorKind, restore,
};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

const LINE: &str =
    r#"{"type":"tool.requested","session":"s","call":"c","tool":"bash","args":{"command":"ls"}}"#;

fn file_names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

fn open(path: &Path, marks: &HighWaterMarks) -> flyball_store::StoreResult<Arc<dyn AdminStore>> {
    let options = SqliteOptions { high_water_marks: Some(marks.clone()), ..SqliteOptions::default() };
    Ok(Arc::new(SqliteStore::open(path, options)?))
}

#[test]
fn interrupted_creation_leaves_no_partial_store() {
    let passes = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&passes);
    let count = FailpointHook::new(move |point| {
        counted.fetch_add(u32::from(point == Failpoint::InMigration), Ordering::SeqCst);
    });
    let path = test_dir("create-count").join("flyball.db");
    drop(SqliteStore::open(&path, SqliteOptions { failpoints: count, ..SqliteOptions::default() }).unwrap());
    let passes = passes.load(Ordering::SeqCst);
    assert!(passes >= 4, "{passes}");
    for last in 1..=passes {
        let folder = test_dir("create-ended");
        let path = folder.join("flyball.db");
        let left = AtomicU32::new(last);
        let end = FailpointHook::new(move |point| {
            if point == Failpoint::InMigration && left.fetch_sub(1, Ordering::SeqCst) == 1 {
                panic!("the process ends here");
            }
        });
        let options = SqliteOptions { failpoints: end, ..SqliteOptions::default() };
        let ended = catch_unwind(AssertUnwindSafe(|| SqliteStore::open(&path, options)));
        assert!(ended.is_err(), "at step {last}");
        if path.exists() {
            let existing = SqliteOptions { must_exist: true, ..SqliteOptions::default() };
            drop(
                SqliteStore::open(&path, existing).unwrap_or_else(|error| panic!("at step {last}: {error}")),
            );
        }
        let store = Arc::new(SqliteStore::open(&path, SqliteOptions::default()).unwrap());
        recorder(store.clone()).submit(event(LINE)).unwrap();
        assert!(store.verify(&mut |_| ()).unwrap().is_empty());
        assert!(!file_names(&folder).iter().any(|name| name.contains("-new")), "{:?}", file_names(&folder));
    }
}

#[test]
fn store_ids_are_unique_and_stable() {
    let (a, b) = (test_dir("create-a").join("a.db"), test_dir("create-b").join("b.db"));
    let id = |path: &Path| {
        let store = SqliteStore::open(path, SqliteOptions::default()).unwrap();
        store.identity().unwrap().unwrap().id
    };
    assert_eq!(id(&a).len(), 32);
    assert_eq!(id(&a), id(&a));
    assert_ne!(id(&a), id(&b));
}

#[test]
fn rollback_journal_database_is_switched_to_wal() {
    let folder = test_dir("create-no-log");
    let (path, copy) = (folder.join("flyball.db"), folder.join("copy.db"));
    let store = Arc::new(SqliteStore::open(&path, SqliteOptions::default()).unwrap());
    recorder(store.clone()).submit(event(LINE)).unwrap();
    let sql = rusqlite::Connection::open(&path).unwrap();
    sql.execute("VACUUM INTO ?1", [copy.to_str().unwrap()]).unwrap();
    assert_journal_mode(&copy, "delete");
    let again = Arc::new(SqliteStore::open(&copy, SqliteOptions::default()).unwrap());
    recorder(again.clone()).submit(event(LINE)).unwrap();
    assert_eq!(again.load("s").unwrap().unwrap().head.seq, 2);
    assert_journal_mode(&copy, "wal");
}

#[track_caller]
fn assert_journal_mode(path: &PathBuf, expected: &str) {
    let sql = rusqlite::Connection::open(path).unwrap();
    let mode: String = sql.query_row("PRAGMA journal_mode", [], |row| row.get(0)).unwrap();
    assert_eq!(mode, expected);
}

#[test]
fn high_water_mark_detects_removed_and_rolled_back_stores() {
    let folder = test_dir("create-marks");
    let marks = HighWaterMarks::in_dir(folder.join("marks"));
    let path = folder.join("flyball.db");
    let store = open(&path, &marks).unwrap();
    let recorder = recorder(Arc::clone(&store));
    recorder.submit(event(LINE)).unwrap();
    store.backup(&folder.join("old.db"), false).unwrap();
    for call in 0..20 {
        recorder.submit(event(&LINE.replace("\"c\"", &format!("\"c{call}\"")))).unwrap();
    }
    drop((recorder, store));
    std::fs::rename(&path, folder.join("away.db")).unwrap();
    let gone = open(&path, &marks).err().unwrap();
    assert_eq!(gone.kind, StoreErrorKind::Replaced);
    assert!(
        gone.message.contains("21 events") && gone.message.contains("held for an operator (s)"),
        "{}",
        gone.message
    );
    std::fs::copy(folder.join("old.db"), &path).unwrap();
    for ending in ["-wal", "-shm"] {
        let _ = std::fs::remove_file(folder.join(format!("flyball.db{ending}")));
    }
    let older = open(&path, &marks).err().unwrap();
    assert_eq!(older.kind, StoreErrorKind::Replaced);
    assert!(older.message.contains("older copy"), "{}", older.message);
    // An operator restores it deliberately.
    std::fs::remove_file(&path).unwrap();
    let restored = restore(&path, &folder.join("old.db"), false, Some(&marks)).unwrap();
    assert_eq!((restored.contents.events, restored.replaced_store), (1, None));
    assert!(open(&path, &marks).is_ok());
}

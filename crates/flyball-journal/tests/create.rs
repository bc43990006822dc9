//! Making a store: at once or not at all, wherever the process ends.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "in a test that is how a failure is told"
)]

mod kit;

use flyball_journal::{Desk, Journal, Marks, Point, Probe, Sqlite, SqliteOptions, Trouble, restore};
use kit::{event, folder, recorder};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

const LINE: &str =
    r#"{"type":"tool.requested","session":"s","call":"c","tool":"bash","args":{"command":"ls"}}"#;

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

fn open(path: &Path, marks: &Marks) -> flyball_journal::Result<Arc<dyn Desk>> {
    let options = SqliteOptions { marks: Some(marks.clone()), ..SqliteOptions::default() };
    Ok(Arc::new(Sqlite::open(path, options)?))
}

#[test]
fn a_store_is_complete_or_absent_wherever_its_maker_ends() {
    let passes = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&passes);
    let count = Probe::new(move |point| {
        counted.fetch_add(u32::from(point == Point::InMigration), Ordering::SeqCst);
    });
    let path = folder("create-count").join("flyball.db");
    drop(Sqlite::open(&path, SqliteOptions { probe: count, ..SqliteOptions::default() }).unwrap());
    let passes = passes.load(Ordering::SeqCst);
    assert!(passes >= 4, "{passes}");
    for last in 1..=passes {
        let folder = folder("create-ended");
        let path = folder.join("flyball.db");
        let left = AtomicU32::new(last);
        let end = Probe::new(move |point| {
            if point == Point::InMigration && left.fetch_sub(1, Ordering::SeqCst) == 1 {
                panic!("the process ends here");
            }
        });
        let options = SqliteOptions { probe: end, ..SqliteOptions::default() };
        let ended = catch_unwind(AssertUnwindSafe(|| Sqlite::open(&path, options)));
        assert!(ended.is_err(), "at step {last}");
        if path.exists() {
            let existing = SqliteOptions { existing: true, ..SqliteOptions::default() };
            drop(Sqlite::open(&path, existing).unwrap_or_else(|error| panic!("at step {last}: {error}")));
        }
        let store = Arc::new(Sqlite::open(&path, SqliteOptions::default()).unwrap());
        recorder(store.clone()).submit(event(LINE)).unwrap();
        assert!(store.verify(&mut |_| ()).unwrap().is_empty());
        assert!(!names(&folder).iter().any(|name| name.contains("-new")), "{:?}", names(&folder));
    }
}

#[test]
fn stores_have_ids_of_their_own_and_keep_them() {
    let (a, b) = (folder("create-a").join("a.db"), folder("create-b").join("b.db"));
    let id = |path: &Path| {
        let store = Sqlite::open(path, SqliteOptions::default()).unwrap();
        store.identity().unwrap().unwrap().id
    };
    assert_eq!(id(&a).len(), 32);
    assert_eq!(id(&a), id(&a));
    assert_ne!(id(&a), id(&b));
}

#[test]
fn a_database_without_a_log_is_given_one() {
    let folder = folder("create-no-log");
    let (path, copy) = (folder.join("flyball.db"), folder.join("copy.db"));
    let store = Arc::new(Sqlite::open(&path, SqliteOptions::default()).unwrap());
    recorder(store.clone()).submit(event(LINE)).unwrap();
    let sql = rusqlite::Connection::open(&path).unwrap();
    sql.execute("VACUUM INTO ?1", [copy.to_str().unwrap()]).unwrap();
    sql_mode(&copy, "delete");
    let again = Arc::new(Sqlite::open(&copy, SqliteOptions::default()).unwrap());
    recorder(again.clone()).submit(event(LINE)).unwrap();
    assert_eq!(again.load("s").unwrap().unwrap().head.seq, 2);
    sql_mode(&copy, "wal");
}

#[track_caller]
fn sql_mode(path: &PathBuf, expected: &str) {
    let sql = rusqlite::Connection::open(path).unwrap();
    let mode: String = sql.query_row("PRAGMA journal_mode", [], |row| row.get(0)).unwrap();
    assert_eq!(mode, expected);
}

#[test]
fn a_mark_outside_tells_that_a_store_was_removed_or_rolled_back() {
    let folder = folder("create-marks");
    let marks = Marks::at(folder.join("marks"));
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
    assert_eq!(gone.trouble, Trouble::Replaced);
    assert!(gone.what.contains("21 events") && gone.what.contains("held for a person (s)"), "{}", gone.what);
    std::fs::copy(folder.join("old.db"), &path).unwrap();
    for ending in ["-wal", "-shm"] {
        let _ = std::fs::remove_file(folder.join(format!("flyball.db{ending}")));
    }
    let older = open(&path, &marks).err().unwrap();
    assert_eq!(older.trouble, Trouble::Replaced);
    assert!(older.what.contains("old copy"), "{}", older.what);
    // A person puts it back on purpose.
    std::fs::remove_file(&path).unwrap();
    let restored = restore(&path, &folder.join("old.db"), false, Some(&marks)).unwrap();
    assert_eq!((restored.contents.events, restored.aside), (1, None));
    assert!(open(&path, &marks).is_ok());
}

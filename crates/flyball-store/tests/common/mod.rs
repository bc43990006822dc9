//! Shared by the store's tests: directories, engines, fixtures.

#![allow(dead_code, clippy::expect_used, reason = "each test uses a part of it; a panic is how a test fails")]

pub(crate) mod test_database;

use flyball::{Decision, PolicySource, Preset};
use flyball_store::{
    AdminStore, MemoryStore, Recorder, RecorderOptions, SqliteOptions, SqliteStore, Submission,
};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A new, empty directory.
pub(crate) fn test_dir(name: &str) -> PathBuf {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}-{number}", std::process::id()));
    let _ = std::fs::remove_dir_all(&path);
    std::fs::create_dir_all(&path).expect("a folder");
    path
}

/// A store that can be closed and reopened.
pub(crate) trait TestStore {
    /// Opens the store.
    fn open(&self) -> Arc<dyn AdminStore>;
}

/// A memory store: closing it only drops the recorder's cache.
pub(crate) struct MemoryTestStore(Arc<MemoryStore>);

impl MemoryTestStore {
    pub(crate) fn new() -> Self {
        MemoryTestStore(Arc::new(MemoryStore::default()))
    }
}

impl TestStore for MemoryTestStore {
    fn open(&self) -> Arc<dyn AdminStore> {
        Arc::clone(&self.0) as Arc<dyn AdminStore>
    }
}

/// A store in a file.
pub(crate) struct SqliteTestStore(pub(crate) PathBuf);

impl SqliteTestStore {
    pub(crate) fn new(name: &str) -> Self {
        SqliteTestStore(test_dir(name).join("flyball.db"))
    }
}

impl TestStore for SqliteTestStore {
    fn open(&self) -> Arc<dyn AdminStore> {
        Arc::new(SqliteStore::open(&self.0, SqliteOptions::default()).expect("the store opens"))
    }
}

/// A store in a new database on the test server.
pub(crate) struct PostgresTestStore(test_database::TestDatabase);

impl PostgresTestStore {
    /// Deletes all sessions, which is faster than creating another database.
    pub(crate) fn truncate(&self) {
        self.0.sql().execute(
            "TRUNCATE flyball_sessions, flyball_snapshots, flyball_events, flyball_ids, flyball_outbox, \
             flyball_labels, flyball_set_aside, session_state CASCADE",
        );
    }
}

impl TestStore for PostgresTestStore {
    fn open(&self) -> Arc<dyn AdminStore> {
        Arc::new(self.0.open())
    }
}

/// A store on the test server; `None` if there is no server.
pub(crate) fn postgres_test_store() -> Option<PostgresTestStore> {
    test_database::TestDatabase::new().map(PostgresTestStore)
}

/// A recorder with the preset `agent`.
pub(crate) fn recorder(store: Arc<dyn AdminStore>) -> Recorder {
    recorder_with(store, PolicySource::preset(Preset::Agent))
}

/// A recorder with a policy.
pub(crate) fn recorder_with(store: Arc<dyn AdminStore>, source: PolicySource) -> Recorder {
    Recorder::new(store, source, RecorderOptions::default())
}

/// Opens the store, decides one event and closes it, as one process per event would.
pub(crate) fn submit(test_store: &dyn TestStore, line: &str) -> Decision {
    recorder(test_store.open()).submit(event(line)).expect("a decision")
}

/// Parses an event.
pub(crate) fn event(line: &str) -> Submission {
    Submission::parse(line, None).expect("an event")
}

/// Every recorded history with its decisions, by name.
pub(crate) fn recorded_histories() -> Vec<(String, Vec<String>, Vec<String>)> {
    let mut all = Vec::new();
    for part in ["guards", "original-systems"] {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures").join(part);
        let entries = std::fs::read_dir(&folder).expect("the fixtures");
        for path in entries.map(|entry| entry.expect("an entry").path()) {
            let name = path.file_name().expect("a name").to_string_lossy().into_owned();
            let decided = folder.join(name.replace(".jsonl", ".decisions.jsonl"));
            if name.ends_with(".decisions.jsonl") || !decided.is_file() {
                continue;
            }
            let lines = |path: &Path| -> Vec<String> {
                let text = std::fs::read_to_string(path).expect("a fixture");
                text.lines().filter(|line| !line.trim().is_empty()).map(str::to_owned).collect()
            };
            all.push((name, lines(&path), lines(&decided)));
        }
    }
    all.sort();
    assert!(all.len() > 70, "the fixtures exist");
    all
}

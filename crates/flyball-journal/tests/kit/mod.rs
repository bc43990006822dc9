//! What the tests of the journal share: folders, engines, fixtures.

#![allow(
    dead_code,
    clippy::expect_used,
    reason = "each test uses a part of it; a failure is told by a panic"
)]

pub(crate) mod server;

use flyball::{Decision, PolicySource, Preset};
use flyball_journal::{Desk, Incoming, Memory, Recorder, RecorderOptions, Sqlite, SqliteOptions};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A folder of its own, empty at the start.
pub(crate) fn folder(name: &str) -> PathBuf {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}-{number}", std::process::id()));
    let _ = std::fs::remove_dir_all(&path);
    std::fs::create_dir_all(&path).expect("a folder");
    path
}

/// A store that can be closed and opened again.
pub(crate) trait Place {
    /// Opens it.
    fn open(&self) -> Arc<dyn Desk>;
}

/// A store in memory: "closing" it loses only what the recorder has in memory.
pub(crate) struct InMemory(Arc<Memory>);

impl InMemory {
    pub(crate) fn new() -> Self {
        InMemory(Arc::new(Memory::default()))
    }
}

impl Place for InMemory {
    fn open(&self) -> Arc<dyn Desk> {
        Arc::clone(&self.0) as Arc<dyn Desk>
    }
}

/// A store in a file.
pub(crate) struct InFile(pub(crate) PathBuf);

impl InFile {
    pub(crate) fn new(name: &str) -> Self {
        InFile(folder(name).join("flyball.db"))
    }
}

impl Place for InFile {
    fn open(&self) -> Arc<dyn Desk> {
        Arc::new(Sqlite::open(&self.0, SqliteOptions::default()).expect("the store opens"))
    }
}

/// A store on the server of the tests, in a database of its own.
pub(crate) struct OnServer(server::Database);

impl OnServer {
    /// Takes all sessions away: quicker than another database.
    pub(crate) fn empty(&self) {
        self.0.sql().run(
            "TRUNCATE flyball_sessions, flyball_snapshots, flyball_events, flyball_ids, flyball_outbox, \
             flyball_labels, flyball_set_aside, session_state CASCADE",
        );
    }
}

impl Place for OnServer {
    fn open(&self) -> Arc<dyn Desk> {
        Arc::new(self.0.open())
    }
}

/// A store on the server; nothing if there is no server.
pub(crate) fn on_server() -> Option<OnServer> {
    server::Database::new().map(OnServer)
}

/// A recorder with the preset `agent`.
pub(crate) fn recorder(store: Arc<dyn Desk>) -> Recorder {
    recorder_with(store, PolicySource::preset(Preset::Agent))
}

/// A recorder with a policy.
pub(crate) fn recorder_with(store: Arc<dyn Desk>, source: PolicySource) -> Recorder {
    Recorder::new(store, source, RecorderOptions::default())
}

/// Opens the store, decides upon one event, and closes it: a process for each event.
pub(crate) fn submit(place: &dyn Place, line: &str) -> Decision {
    recorder(place.open()).submit(event(line)).expect("a decision")
}

/// An event from its line.
pub(crate) fn event(line: &str) -> Incoming {
    Incoming::read(line, None).expect("an event")
}

/// Every recorded history with its decisions, by name.
pub(crate) fn histories() -> Vec<(String, Vec<String>, Vec<String>)> {
    let mut all = Vec::new();
    for part in ["guards", "seeds"] {
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
    assert!(all.len() > 70, "the fixtures are there");
    all
}

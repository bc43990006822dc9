//! Runs for tests: a workflow as text, a store of its own, people who answer from a list.
#![allow(
    dead_code,
    clippy::unwrap_used,
    clippy::panic,
    reason = "each test file uses its own part; a failure here is a failed test"
)]

use flyball::{Event, Kind, PolicySource, Preset};
use flyball_journal::{Address, Desk, Recorder, RecorderOptions};
use flyball_run::engine::{Asker, Book, CutOff, End, Past, Run, Surroundings, Watcher};
use flyball_run::process::Cancel;
use flyball_run::workflow::{Plan, read};
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

static NUMBER: AtomicU64 = AtomicU64::new(0);

/// A folder that is removed in the end.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new() -> Self {
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("flyball-run-test-{}-{number}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Keeps everything it is told.
#[derive(Default)]
pub(crate) struct Seen {
    pub(crate) live: Mutex<Vec<Past>>,
    pub(crate) replayed: AtomicU64,
    pub(crate) notes: Mutex<Vec<String>>,
}

impl Watcher for Seen {
    fn event(&self, past: &Past, live: bool) {
        if live {
            self.live.lock().unwrap().push(past.clone());
        } else {
            self.replayed.fetch_add(1, Ordering::Relaxed);
        }
    }
    fn output(&self, _session: &str, _node: &str, _text: &str) {}
    fn note(&self, text: &str) {
        self.notes.lock().unwrap().push(text.to_owned());
    }
}

/// Answers from a list, and then no more.
#[derive(Default)]
pub(crate) struct Answers(pub(crate) Mutex<VecDeque<String>>);

impl Asker for Answers {
    fn ask(&self, _session: &str, _question: &str, _about: Option<&flyball::Decision>) -> Option<String> {
        self.0.lock().unwrap().pop_front()
    }
}

/// A place to run workflows in.
pub(crate) struct Place {
    pub(crate) folder: Folder,
    pub(crate) seen: Arc<Seen>,
    pub(crate) cut_off: CutOff,
    answers: Vec<String>,
    /// The time, in milliseconds.
    pub(crate) now: Arc<AtomicU64>,
    pub(crate) cancel: Cancel,
}

impl Place {
    pub(crate) fn new() -> Self {
        Place {
            folder: Folder::new(),
            seen: Arc::default(),
            cut_off: CutOff::Ask,
            answers: Vec::new(),
            now: Arc::new(AtomicU64::new(1_763_200_000_000)),
            cancel: Cancel::new(),
        }
    }

    pub(crate) fn answering(mut self, answers: &[&str]) -> Self {
        self.answers = answers.iter().map(|text| (*text).to_owned()).collect();
        self
    }

    pub(crate) fn plan(&self, text: &str) -> Plan {
        read(text, "workflow.yaml", self.folder.path()).unwrap_or_else(|wrong| panic!("{wrong:#?}"))
    }

    fn source(plan: &Plan) -> PolicySource {
        PolicySource::new(plan.policy.iter().cloned().collect(), Preset::Workflow).unwrap()
    }

    pub(crate) fn desk(&self) -> Arc<dyn Desk> {
        let store = format!("sqlite:{}", self.folder.path().join("store.db").display());
        Address::read(&store, self.folder.path()).unwrap().open().unwrap()
    }

    pub(crate) fn recorder(&self, plan: &Plan) -> Recorder {
        Recorder::new(self.desk(), Self::source(plan), RecorderOptions::default())
    }

    fn around(&self, book: Book) -> Surroundings {
        Surroundings {
            book: Arc::new(book),
            watcher: Arc::clone(&self.seen) as Arc<dyn Watcher>,
            asker: Arc::new(Answers(Mutex::new(self.answers.iter().cloned().collect()))),
            cancel: self.cancel.clone(),
            files: self.folder.path().join("files"),
            outputs: self.folder.path().join("outputs"),
            env: Arc::new(|_| None),
            cut_off: self.cut_off,
            origin: None,
        }
    }

    fn clock(&self) -> flyball_run::engine::Clock {
        let now = Arc::clone(&self.now);
        Arc::new(move || now.fetch_add(10, Ordering::Relaxed))
    }

    /// Runs, or takes up again.
    pub(crate) fn run(&self, text: &str) -> End {
        self.try_run(text).unwrap_or_else(|failure| panic!("{failure}"))
    }

    pub(crate) fn try_run(&self, text: &str) -> Result<End, flyball_run::Failure> {
        let plan = self.plan(text);
        std::fs::create_dir_all(self.folder.path().join("files")).unwrap();
        let book = Book::kept(self.recorder(&plan), self.clock())?;
        Run::new(plan, "s", self.around(book))?.go("test")
    }

    /// Runs and keeps nothing.
    pub(crate) fn run_bare(&self, text: &str) -> End {
        let plan = self.plan(text);
        std::fs::create_dir_all(self.folder.path().join("files")).unwrap();
        let book = Book::bare(Self::source(&plan), self.clock());
        Run::new(plan, "s", self.around(book)).unwrap().go("test").unwrap()
    }

    /// A person's event, sent from outside.
    pub(crate) fn send(&self, text: &str, kind: Kind) {
        let recorder = self.recorder(&self.plan(text));
        let mut event = Event::new("s", kind);
        event.at = Some(self.now.fetch_add(10, Ordering::Relaxed));
        recorder.submit(flyball_journal::Incoming::new(event)).unwrap();
    }

    pub(crate) fn says(&self, text: &str, words: &str) {
        self.send(text, Kind::UserMessage { text: words.to_owned(), origin: flyball::Origin::Human });
    }

    /// The ways that were taken in a session, in order.
    pub(crate) fn trail(&self, session: &str) -> Vec<String> {
        let records = self.desk().records(session, 1, u64::MAX).unwrap();
        let way = |record: flyball_journal::Record| match Event::from_json(&record.text).unwrap().kind {
            Kind::TransitionRequested { to, .. } if record.verdict < flyball::Verdict::Block => Some(to),
            _ => None,
        };
        records.into_iter().filter_map(way).collect()
    }

    /// The types of all events of a session.
    pub(crate) fn types(&self, session: &str) -> Vec<String> {
        let records = self.desk().records(session, 1, u64::MAX).unwrap();
        records.iter().map(|record| Event::from_json(&record.text).unwrap().kind.name().to_owned()).collect()
    }

    pub(crate) fn file(&self, name: &str) -> String {
        std::fs::read_to_string(self.folder.path().join(name)).unwrap_or_default()
    }
}

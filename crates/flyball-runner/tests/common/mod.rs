//! Test harness for runs: a workflow as text, a temporary store, and scripted answers of a person.
#![allow(
    dead_code,
    clippy::unwrap_used,
    clippy::panic,
    reason = "each test file uses a part of it; a failure here fails the test"
)]

use flyball::{Event, EventKind, PolicySource, Preset};
use flyball_runner::engine::{
    EventSink, HumanInput, InterruptedStepPolicy, RecordedEvent, RunEnd, RunListener, RunOptions, WorkflowRun,
};
use flyball_runner::process::CancelToken;
use flyball_runner::workflow::{WorkflowPlan, parse_workflow};
use flyball_store::{AdminStore, Recorder, RecorderOptions, StoreAddress};
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

static NEXT_DIR: AtomicU64 = AtomicU64::new(0);

/// A folder that is removed at the end.
pub(crate) struct RunTestDir(PathBuf);

impl RunTestDir {
    pub(crate) fn new() -> Self {
        let number = NEXT_DIR.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("flyball-run-test-{}-{number}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        RunTestDir(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for RunTestDir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Records everything it receives.
#[derive(Default)]
pub(crate) struct RecordingListener {
    pub(crate) live_events: Mutex<Vec<RecordedEvent>>,
    pub(crate) replayed: AtomicU64,
    pub(crate) notes: Mutex<Vec<String>>,
}

impl RunListener for RecordingListener {
    fn on_event(&self, past: &RecordedEvent, live: bool) {
        if live {
            self.live_events.lock().unwrap().push(past.clone());
        } else {
            self.replayed.fetch_add(1, Ordering::Relaxed);
        }
    }
    fn on_output(&self, _session: &str, _node: &str, _text: &str) {}
    fn on_note(&self, text: &str) {
        self.notes.lock().unwrap().push(text.to_owned());
    }
}

/// Returns answers from a list, then none.
#[derive(Default)]
pub(crate) struct ScriptedInput(pub(crate) Mutex<VecDeque<String>>);

impl HumanInput for ScriptedInput {
    fn ask(&self, _session: &str, _question: &str, _about: Option<&flyball::Decision>) -> Option<String> {
        self.0.lock().unwrap().pop_front()
    }
}

/// An environment for running workflows.
pub(crate) struct RunHarness {
    pub(crate) folder: RunTestDir,
    pub(crate) listener: Arc<RecordingListener>,
    pub(crate) on_interrupted_step: InterruptedStepPolicy,
    answers: Vec<String>,
    /// Current time in milliseconds.
    pub(crate) now: Arc<AtomicU64>,
    pub(crate) cancel: CancelToken,
}

impl RunHarness {
    pub(crate) fn new() -> Self {
        RunHarness {
            folder: RunTestDir::new(),
            listener: Arc::default(),
            on_interrupted_step: InterruptedStepPolicy::Ask,
            answers: Vec::new(),
            now: Arc::new(AtomicU64::new(1_763_200_000_000)),
            cancel: CancelToken::new(),
        }
    }

    pub(crate) fn with_answers(mut self, answers: &[&str]) -> Self {
        self.answers = answers.iter().map(|text| (*text).to_owned()).collect();
        self
    }

    pub(crate) fn plan(&self, text: &str) -> WorkflowPlan {
        parse_workflow(text, "workflow.yaml", self.folder.path()).unwrap_or_else(|wrong| panic!("{wrong:#?}"))
    }

    fn source(plan: &WorkflowPlan) -> PolicySource {
        PolicySource::new(plan.policy.iter().cloned().collect(), Preset::Workflow).unwrap()
    }

    pub(crate) fn admin_store(&self) -> Arc<dyn AdminStore> {
        let store = format!("sqlite:{}", self.folder.path().join("store.db").display());
        StoreAddress::parse(&store, self.folder.path()).unwrap().open().unwrap()
    }

    pub(crate) fn recorder(&self, plan: &WorkflowPlan) -> Recorder {
        Recorder::new(self.admin_store(), Self::source(plan), RecorderOptions::default())
    }

    fn run_options(&self, book: EventSink) -> RunOptions {
        RunOptions {
            sink: Arc::new(book),
            listener: Arc::clone(&self.listener) as Arc<dyn RunListener>,
            human_input: Arc::new(ScriptedInput(Mutex::new(self.answers.iter().cloned().collect()))),
            cancel: self.cancel.clone(),
            run_dir: self.folder.path().join("files"),
            outputs: self.folder.path().join("outputs"),
            env: Arc::new(|_| None),
            on_interrupted_step: self.on_interrupted_step,
            workflow_file: None,
        }
    }

    fn clock(&self) -> flyball_runner::engine::Clock {
        let now = Arc::clone(&self.now);
        Arc::new(move || now.fetch_add(10, Ordering::Relaxed))
    }

    /// Starts or resumes a run.
    pub(crate) fn run(&self, text: &str) -> RunEnd {
        self.try_run(text).unwrap_or_else(|failure| panic!("{failure}"))
    }

    pub(crate) fn try_run(&self, text: &str) -> Result<RunEnd, flyball_runner::RunError> {
        let plan = self.plan(text);
        std::fs::create_dir_all(self.folder.path().join("files")).unwrap();
        let book = EventSink::durable(self.recorder(&plan), self.clock())?;
        WorkflowRun::new(plan, "s", self.run_options(book))?.execute("test")
    }

    /// Runs without a store.
    pub(crate) fn run_ephemeral(&self, text: &str) -> RunEnd {
        let plan = self.plan(text);
        std::fs::create_dir_all(self.folder.path().join("files")).unwrap();
        let book = EventSink::ephemeral(Self::source(&plan), self.clock());
        WorkflowRun::new(plan, "s", self.run_options(book)).unwrap().execute("test").unwrap()
    }

    /// Records an event from a person.
    pub(crate) fn send(&self, text: &str, kind: EventKind) {
        let recorder = self.recorder(&self.plan(text));
        let mut event = Event::new("s", kind);
        event.at = Some(self.now.fetch_add(10, Ordering::Relaxed));
        recorder.submit(flyball_store::Submission::from_event(event)).unwrap();
    }

    /// Stores the start of a run and these events of a node, as if the process had died after the last one.
    pub(crate) fn store_interrupted_run(&self, text: &str, node: &str, kinds: Vec<EventKind>) {
        let plan = self.plan(text);
        let started = EventKind::SessionStarted {
            policy: None,
            workflow: Some(plan.graph.clone()),
            parent: None,
            labels: serde_json::Map::new(),
            goal: None,
            reopen: false,
        };
        let events = kinds.into_iter().map(|kind| Event::new("s", kind).node(node.to_owned()));
        for (at, mut event) in [Event::new("s", started)].into_iter().chain(events).enumerate() {
            event.extra.insert("run".to_owned(), serde_json::json!(at + 1));
            event.at = Some(self.now.fetch_add(10, Ordering::Relaxed));
            self.recorder(&plan).submit(flyball_store::Submission::from_event(event)).unwrap();
        }
    }

    pub(crate) fn send_message(&self, text: &str, words: &str) {
        self.send(
            text,
            EventKind::UserMessage { text: words.to_owned(), origin: flyball::MessageOrigin::Human },
        );
    }

    /// Transitions of a session, in order.
    pub(crate) fn transitions(&self, session: &str) -> Vec<String> {
        let records = self.admin_store().records(session, 1, u64::MAX).unwrap();
        let way = |record: flyball_store::EventRecord| match Event::from_json(&record.text).unwrap().kind {
            EventKind::TransitionRequested { to, .. } if record.verdict < flyball::Verdict::Block => Some(to),
            _ => None,
        };
        records.into_iter().filter_map(way).collect()
    }

    /// Event types of a session.
    pub(crate) fn event_types(&self, session: &str) -> Vec<String> {
        let records = self.admin_store().records(session, 1, u64::MAX).unwrap();
        records.iter().map(|record| Event::from_json(&record.text).unwrap().kind.name().to_owned()).collect()
    }

    pub(crate) fn file(&self, name: &str) -> String {
        std::fs::read_to_string(self.folder.path().join(name)).unwrap_or_default()
    }
}

//! A chat with a run, in one process or in a separate process per message, with a real store.

use flyball::{Decision, Event, EventKind, MessageOrigin, PolicySource, Preset};
use flyball_runner::engine::{
    Clock, EventSink, HumanInput, InterruptedStepPolicy, RecordedEvent, RunEnd, RunListener, RunOptions,
    RunStop, WorkflowRun,
};
use flyball_runner::process::CancelToken;
use flyball_runner::workflow::{WorkflowPlan, parse_workflow};
use flyball_store::{
    AdminStore, Recorder, RecorderOptions, SqliteOptions, SqliteStore, Submission, SyncMode,
};
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// Session of every chat.
pub(crate) const SESSION: &str = "telegram:916542313";

/// A folder that is removed at the end.
struct ChatDir(PathBuf);

impl Drop for ChatDir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Simulates a killed process after a number of stored events.
struct KillAfterEvents(AtomicU64);

impl RunListener for KillAfterEvents {
    fn on_event(&self, _past: &RecordedEvent, live: bool) {
        if live && self.0.fetch_sub(1, Ordering::Relaxed) == 1 {
            std::panic::resume_unwind(Box::new("the process was killed"));
        }
    }
    fn on_output(&self, _session: &str, _node: &str, _text: &str) {}
    fn on_note(&self, _text: &str) {}
}

/// Answers from a list and records the questions.
struct ScriptedUser {
    answers: Mutex<VecDeque<String>>,
    asked: Arc<Mutex<Vec<String>>>,
}

impl HumanInput for ScriptedUser {
    fn ask(&self, _session: &str, question: &str, _about: Option<&flyball::Decision>) -> Option<String> {
        let answer = self.answers.lock().expect("the answers").pop_front();
        self.asked.lock().expect("the questions").push(question.to_owned());
        answer
    }
}

/// A chat with a run.
pub(crate) struct ChatHarness {
    text: String,
    /// Folder of the workflow file.
    home: PathBuf,
    folder: ChatDir,
    /// Current time in milliseconds; advances with every event.
    now: Arc<AtomicU64>,
    /// All questions, in order.
    asked: Arc<Mutex<Vec<String>>>,
}

impl ChatHarness {
    /// A chat with an inline workflow.
    pub(crate) fn new(text: &str) -> Self {
        let folder = chat_dir();
        ChatHarness {
            text: text.to_owned(),
            home: folder.0.clone(),
            folder,
            now: clock_start(),
            asked: Arc::default(),
        }
    }

    /// A chat with an example.
    pub(crate) fn example(name: &str) -> Self {
        let home = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(name);
        let text = std::fs::read_to_string(home.join("workflow.yaml")).expect("the example");
        ChatHarness { text, home, folder: chat_dir(), now: clock_start(), asked: Arc::default() }
    }

    /// Replaces text in the workflow file.
    pub(crate) fn with(mut self, old: &str, new: &str) -> Self {
        assert!(self.text.contains(old), "{old}");
        self.text = self.text.replace(old, new);
        self
    }

    pub(crate) fn home(&self) -> &Path {
        &self.home
    }

    fn plan(&self) -> WorkflowPlan {
        parse_workflow(&self.text, "workflow.yaml", &self.home).unwrap_or_else(|wrong| panic!("{wrong:#?}"))
    }

    pub(crate) fn admin_store(&self) -> Arc<dyn AdminStore> {
        // A killed process loses nothing without sync; power loss is tested elsewhere.
        let options = SqliteOptions { sync: SyncMode::Off, ..SqliteOptions::default() };
        Arc::new(SqliteStore::open(&self.folder.0.join("store.db"), options).expect("a store"))
    }

    fn recorder(&self, plan: &WorkflowPlan) -> Recorder {
        let source = PolicySource::new(plan.policy.iter().cloned().collect(), Preset::Workflow);
        Recorder::new(self.admin_store(), source.expect("a policy"), RecorderOptions::default())
    }

    /// Starts or resumes the run with a person who gives these answers and then none. Everything is reopened.
    pub(crate) fn run(&self, answers: &[&str]) -> RunEnd {
        self.run_until(answers, u64::MAX)
    }

    /// Runs in a process that is killed after a number of events, then in another one. Returns whether it was killed.
    pub(crate) fn run_with_kill(&self, events: u64) -> (RunEnd, bool) {
        let first = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| self.run_until(&[], events)));
        match first {
            Ok(end) => (end, false),
            Err(_) => (self.run(&[]), true),
        }
    }

    fn run_until(&self, answers: &[&str], events: u64) -> RunEnd {
        let plan = self.plan();
        let now = Arc::clone(&self.now);
        let clock: Clock = Arc::new(move || now.fetch_add(10, Ordering::Relaxed));
        let files = self.folder.0.join("files");
        std::fs::create_dir_all(&files).expect("a folder");
        let around = RunOptions {
            sink: Arc::new(EventSink::durable(self.recorder(&plan), clock).expect("an event sink")),
            listener: Arc::new(KillAfterEvents(AtomicU64::new(events))),
            human_input: Arc::new(ScriptedUser {
                answers: Mutex::new(answers.iter().map(|text| (*text).to_owned()).collect()),
                asked: Arc::clone(&self.asked),
            }),
            cancel: CancelToken::new(),
            outputs: files.join("outputs"),
            run_dir: files,
            env: Arc::new(|_| None),
            // A requested call that was never made is made.
            on_interrupted_step: InterruptedStepPolicy::Rerun,
            workflow_file: None,
        };
        let run = WorkflowRun::new(plan, SESSION, around).unwrap_or_else(|failure| panic!("{failure}"));
        run.execute("test").unwrap_or_else(|failure| panic!("{failure}"))
    }

    /// Records an event from a person, as `flyball send` does, without running.
    pub(crate) fn record(&self, session: &str, kind: EventKind) -> Decision {
        let mut event = Event::new(session, kind);
        event.at = Some(self.now.fetch_add(10, Ordering::Relaxed));
        self.recorder(&self.plan()).submit(Submission::from_event(event)).expect("a decision")
    }

    /// Records a message, as `flyball send` does: an answer if a plan is pending.
    pub(crate) fn send(&self, text: &str) -> Decision {
        let waits = self.admin_store().pending(SESSION).expect("the row").is_some();
        let text = text.to_owned();
        let kind = if waits {
            EventKind::ConfirmationAnswered { text: Some(text), value: None, by: None, digest: None }
        } else {
            EventKind::UserMessage { text, origin: MessageOrigin::Human }
        };
        self.record(SESSION, kind)
    }

    /// Runs the chat with a restart after every message.
    pub(crate) fn run_per_message(&self, messages: &[&str]) -> RunEnd {
        let mut end = self.run(&[]);
        for message in messages {
            self.send(message);
            end = self.run(&[]);
        }
        end
    }

    /// Releases a stopped session.
    pub(crate) fn release(&self, session: &str, guard: &str) {
        self.record(
            session,
            EventKind::HumanReleased {
                guard: Some(guard.to_owned()),
                trip: None,
                mode: flyball::ReleaseMode::Grant,
                n: None,
                by: Some("somebody".to_owned()),
                why: Some("looked at it".to_owned()),
            },
        );
    }

    /// Advances the clock.
    pub(crate) fn advance_clock(&self, millis: u64) {
        self.now.fetch_add(millis, Ordering::Relaxed);
    }

    /// Events of a session.
    pub(crate) fn events(&self, session: &str) -> Vec<Event> {
        let records = self.admin_store().records(session, 1, u64::MAX).expect("records");
        records.iter().map(|record| Event::from_json(&record.text).expect("an event")).collect()
    }

    /// Stored decisions of a session.
    pub(crate) fn decisions(&self, session: &str) -> Vec<String> {
        let records = self.admin_store().records(session, 1, u64::MAX).expect("records");
        records.iter().map(|record| record.decision_json.clone()).collect()
    }

    /// State session of the first conversation of a node.
    pub(crate) fn states_of(node: &str) -> String {
        format!("{SESSION}/{node}.dialogue.1")
    }

    /// States that a conversation went through.
    pub(crate) fn states(&self, node: &str) -> Vec<String> {
        let way = |event: Event| match event.kind {
            EventKind::TransitionRequested { to, .. } => Some(to),
            _ => None,
        };
        self.events(&ChatHarness::states_of(node)).into_iter().filter_map(way).collect()
    }

    /// All text sent to the person, in order, including text from guards.
    pub(crate) fn said(&self) -> Vec<String> {
        let mut said = Vec::new();
        for record in self.admin_store().records(SESSION, 1, u64::MAX).expect("records") {
            match Event::from_json(&record.text).expect("an event").kind {
                EventKind::AssistantMessage { text, .. } | EventKind::QuestionAsked { text } => {
                    said.push(text)
                }
                _ => {}
            }
            let decision: Decision = serde_json::from_str(&record.decision_json).expect("a decision");
            let says = decision.effects.iter().filter(|effect| effect.effect == "say");
            said.extend(says.filter_map(|effect| Some(effect.fields.get("text")?.as_str()?.to_owned())));
        }
        said
    }

    /// Results of the operations: `confirmation -`, `confirmation +`.
    pub(crate) fn operations(&self) -> Vec<String> {
        let result_text = |event: Event| match event.kind {
            EventKind::OperationFailed { operation, .. } => Some(format!("{operation} -")),
            EventKind::OperationSucceeded { operation, .. } => Some(format!("{operation} +")),
            _ => None,
        };
        self.events(SESSION).into_iter().filter_map(result_text).collect()
    }

    /// Outcome and structured output of the last finished turn of a node.
    pub(crate) fn outcome(&self, node: &str) -> (String, serde_json::Value) {
        let finished = self.events(SESSION).into_iter().rev().find_map(|event| {
            let outcome = event.extra.get("outcome")?.as_str()?.to_owned();
            let EventKind::TurnFinished { structured, .. } = event.kind else { return None };
            (event.node.as_deref() == Some(node)).then(|| (outcome, structured.unwrap_or_default()))
        });
        finished.expect("a finished turn")
    }

    /// A file of the workspace.
    pub(crate) fn file(&self, name: &str) -> String {
        std::fs::read_to_string(self.folder.0.join("files/workspace").join(name)).unwrap_or_default()
    }

    /// Questions asked while a person was available.
    pub(crate) fn asked(&self) -> Vec<String> {
        self.asked.lock().expect("the questions").clone()
    }
}

/// Question that a run waits for.
pub(crate) fn question(end: &RunEnd) -> &str {
    match end {
        RunEnd::Stopped(RunStop::AwaitingInput(question)) => question,
        other => panic!("not a question: {other:?}"),
    }
}

fn chat_dir() -> ChatDir {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let name = format!("dialogue-{}-{number}", std::process::id());
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&path);
    std::fs::create_dir_all(&path).expect("a folder");
    ChatDir(path)
}

fn clock_start() -> Arc<AtomicU64> {
    Arc::new(AtomicU64::new(1_763_200_000_000))
}

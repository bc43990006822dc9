//! A chat with a run: in one go, or in a process of its own for every message, over a real store.

use flyball::{Decision, Event, Kind, Origin, PolicySource, Preset};
use flyball_journal::{Desk, Incoming, Recorder, RecorderOptions, Sqlite, SqliteOptions, Sync};
use flyball_run::engine::{Asker, Book, Clock, CutOff, End, Past, Run, Stop, Surroundings, Watcher};
use flyball_run::process::Cancel;
use flyball_run::workflow::{Plan, read};
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// The session of every chat.
pub(crate) const SESSION: &str = "telegram:916542313";

/// A folder that is removed in the end.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Ends the process, as far as a run can tell, when so many events were stored.
struct Fuse(AtomicU64);

impl Watcher for Fuse {
    fn event(&self, _past: &Past, live: bool) {
        if live && self.0.fetch_sub(1, Ordering::Relaxed) == 1 {
            std::panic::resume_unwind(Box::new("the process was killed"));
        }
    }
    fn output(&self, _session: &str, _node: &str, _text: &str) {}
    fn note(&self, _text: &str) {}
}

/// Answers from a list, and keeps the questions.
struct Person {
    answers: Mutex<VecDeque<String>>,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Asker for Person {
    fn ask(&self, _session: &str, question: &str, _about: Option<&flyball::Decision>) -> Option<String> {
        let answer = self.answers.lock().expect("the answers").pop_front();
        self.asked.lock().expect("the questions").push(question.to_owned());
        answer
    }
}

/// A chat.
pub(crate) struct Chat {
    text: String,
    /// The folder of the workflow file.
    home: PathBuf,
    folder: Folder,
    /// The time in milliseconds; it goes on with every event.
    now: Arc<AtomicU64>,
    /// Everything that was asked, in order.
    asked: Arc<Mutex<Vec<String>>>,
}

impl Chat {
    /// A chat with a workflow that is written here; files are found in the folder of the chat.
    pub(crate) fn new(text: &str) -> Self {
        let folder = folder();
        Chat {
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
        Chat { text, home, folder: folder(), now: clock_start(), asked: Arc::default() }
    }

    /// The same chat with other words in its file.
    pub(crate) fn with(mut self, old: &str, new: &str) -> Self {
        assert!(self.text.contains(old), "{old}");
        self.text = self.text.replace(old, new);
        self
    }

    pub(crate) fn home(&self) -> &Path {
        &self.home
    }

    fn plan(&self) -> Plan {
        read(&self.text, "workflow.yaml", &self.home).unwrap_or_else(|wrong| panic!("{wrong:#?}"))
    }

    pub(crate) fn desk(&self) -> Arc<dyn Desk> {
        // A process that ends loses nothing by this; what a power loss takes is tested elsewhere.
        let options = SqliteOptions { sync: Sync::Off, ..SqliteOptions::default() };
        Arc::new(Sqlite::open(&self.folder.0.join("store.db"), options).expect("a store"))
    }

    fn recorder(&self, plan: &Plan) -> Recorder {
        let source = PolicySource::new(plan.policy.iter().cloned().collect(), Preset::Workflow);
        Recorder::new(self.desk(), source.expect("a policy"), RecorderOptions::default())
    }

    /// Runs, or takes up, with a person who says these words and then nothing. Everything is made anew.
    pub(crate) fn go(&self, answers: &[&str]) -> End {
        self.walk(answers, u64::MAX)
    }

    /// The same in a process that is killed after so many events, and then in another one. Says whether it was killed.
    pub(crate) fn go_killed(&self, events: u64) -> (End, bool) {
        let first = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| self.walk(&[], events)));
        match first {
            Ok(end) => (end, false),
            Err(_) => (self.go(&[]), true),
        }
    }

    fn walk(&self, answers: &[&str], events: u64) -> End {
        let plan = self.plan();
        let now = Arc::clone(&self.now);
        let clock: Clock = Arc::new(move || now.fetch_add(10, Ordering::Relaxed));
        let files = self.folder.0.join("files");
        std::fs::create_dir_all(&files).expect("a folder");
        let around = Surroundings {
            book: Arc::new(Book::kept(self.recorder(&plan), clock).expect("a book")),
            watcher: Arc::new(Fuse(AtomicU64::new(events))),
            asker: Arc::new(Person {
                answers: Mutex::new(answers.iter().map(|text| (*text).to_owned()).collect()),
                asked: Arc::clone(&self.asked),
            }),
            cancel: Cancel::new(),
            outputs: files.join("outputs"),
            files,
            env: Arc::new(|_| None),
            // A call that was asked for and never made is made.
            cut_off: CutOff::Rerun,
            origin: None,
        };
        let run = Run::new(plan, SESSION, around).unwrap_or_else(|failure| panic!("{failure}"));
        run.go("test").unwrap_or_else(|failure| panic!("{failure}"))
    }

    /// A person's event, recorded as `flyball send` does; nothing runs.
    pub(crate) fn record(&self, session: &str, kind: Kind) -> Decision {
        let mut event = Event::new(session, kind);
        event.at = Some(self.now.fetch_add(10, Ordering::Relaxed));
        self.recorder(&self.plan()).submit(Incoming::new(event)).expect("a decision")
    }

    /// A message, as `flyball send` records it: an answer if a plan waits for one.
    pub(crate) fn send(&self, text: &str) -> Decision {
        let waits = self.desk().pending(SESSION).expect("the row").is_some();
        let text = text.to_owned();
        let kind = if waits {
            Kind::ConfirmationAnswered { text: Some(text), value: None, by: None, digest: None }
        } else {
            Kind::UserMessage { text, origin: Origin::Human }
        };
        self.record(SESSION, kind)
    }

    /// The chat in pieces: the run is dropped after every message and taken up again.
    pub(crate) fn in_pieces(&self, messages: &[&str]) -> End {
        let mut end = self.go(&[]);
        for message in messages {
            self.send(message);
            end = self.go(&[]);
        }
        end
    }

    /// Lets a stopped session go on.
    pub(crate) fn release(&self, session: &str, guard: &str) {
        self.record(
            session,
            Kind::HumanReleased {
                guard: Some(guard.to_owned()),
                trip: None,
                mode: flyball::ReleaseMode::Grant,
                n: None,
                by: Some("somebody".to_owned()),
                why: Some("looked at it".to_owned()),
            },
        );
    }

    /// Time passes.
    pub(crate) fn wait(&self, millis: u64) {
        self.now.fetch_add(millis, Ordering::Relaxed);
    }

    /// The events of a session.
    pub(crate) fn events(&self, session: &str) -> Vec<Event> {
        let records = self.desk().records(session, 1, u64::MAX).expect("records");
        records.iter().map(|record| Event::from_json(&record.text).expect("an event")).collect()
    }

    /// The decisions of a session, as they are stored.
    pub(crate) fn decisions(&self, session: &str) -> Vec<String> {
        let records = self.desk().records(session, 1, u64::MAX).expect("records");
        records.iter().map(|record| record.decision.clone()).collect()
    }

    /// The session of the states of the first conversation of a node.
    pub(crate) fn states_of(node: &str) -> String {
        format!("{SESSION}/{node}.dialogue.1")
    }

    /// The states that a conversation went through.
    pub(crate) fn states(&self, node: &str) -> Vec<String> {
        let way = |event: Event| match event.kind {
            Kind::TransitionRequested { to, .. } => Some(to),
            _ => None,
        };
        self.events(&Chat::states_of(node)).into_iter().filter_map(way).collect()
    }

    /// Everything that was said to the person, in order, the guards' words included.
    pub(crate) fn said(&self) -> Vec<String> {
        let mut said = Vec::new();
        for record in self.desk().records(SESSION, 1, u64::MAX).expect("records") {
            match Event::from_json(&record.text).expect("an event").kind {
                Kind::AssistantMessage { text, .. } | Kind::QuestionAsked { text } => said.push(text),
                _ => {}
            }
            let decision: Decision = serde_json::from_str(&record.decision).expect("a decision");
            let says = decision.effects.iter().filter(|effect| effect.effect == "say");
            said.extend(says.filter_map(|effect| Some(effect.fields.get("text")?.as_str()?.to_owned())));
        }
        said
    }

    /// How the operations went: `confirmation - `, `confirmation +`.
    pub(crate) fn operations(&self) -> Vec<String> {
        let told = |event: Event| match event.kind {
            Kind::OperationFailed { operation, .. } => Some(format!("{operation} -")),
            Kind::OperationSucceeded { operation, .. } => Some(format!("{operation} +")),
            _ => None,
        };
        self.events(SESSION).into_iter().filter_map(told).collect()
    }

    /// What the last finished turn of a node gave: its outcome and its data.
    pub(crate) fn outcome(&self, node: &str) -> (String, serde_json::Value) {
        let finished = self.events(SESSION).into_iter().rev().find_map(|event| {
            let outcome = event.extra.get("outcome")?.as_str()?.to_owned();
            let Kind::TurnFinished { structured, .. } = event.kind else { return None };
            (event.node.as_deref() == Some(node)).then(|| (outcome, structured.unwrap_or_default()))
        });
        finished.expect("a finished turn")
    }

    /// A file of the workspace.
    pub(crate) fn file(&self, name: &str) -> String {
        std::fs::read_to_string(self.folder.0.join("files/workspace").join(name)).unwrap_or_default()
    }

    /// The questions that were put while somebody was there to answer.
    pub(crate) fn asked(&self) -> Vec<String> {
        self.asked.lock().expect("the questions").clone()
    }
}

/// The question that a run waits with.
pub(crate) fn question(end: &End) -> &str {
    match end {
        End::Stopped(Stop::Asks(question)) => question,
        other => panic!("it asks nothing: {other:?}"),
    }
}

fn folder() -> Folder {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let name = format!("dialogue-{}-{number}", std::process::id());
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&path);
    std::fs::create_dir_all(&path).expect("a folder");
    Folder(path)
}

fn clock_start() -> Arc<AtomicU64> {
    Arc::new(AtomicU64::new(1_763_200_000_000))
}

//! Where a stored run stands: the run that a session belongs to, the question that waits in it, and what stands still
//! below it.

use crate::heads::as_json;
use crate::session_status::SessionActivity;
use flyball::limits::TREE_DEPTH;
use flyball::{Event, Kind, State, Status, Verdict};
use flyball_journal::{Desk, Head, StoreError, Which};
use serde_json::{Value, json};
use std::path::PathBuf;

/// How many of the last events are looked at to find a question.
const LAST: u64 = 30;
/// How many sessions that wait are looked at to find those below one.
const WAITING: usize = 1_000;

/// The run that a session is, or is a branch of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    /// The session that `flyball resume` takes.
    pub session: String,
    /// The workflow file.
    pub file: PathBuf,
}

/// Where a session stands, if it belongs to a run.
#[derive(Debug)]
pub struct Whereabouts {
    /// The run.
    pub run: Run,
    /// The question that nobody has answered yet.
    pub question: Option<String>,
    /// Sessions below it that stand still or wait.
    pub below: Vec<Head>,
}

impl Whereabouts {
    /// Where it stands; nothing if the session was not started by `flyball run`.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn of(desk: &dyn Desk, session: &str, state: &State) -> Result<Option<Self>, StoreError> {
        let Some(run) = run_of(desk, session)? else { return Ok(None) };
        let running = state.status() == Status::Running;
        let question = if running { question(desk, session, state.seq())? } else { None };
        Ok(Some(Whereabouts { run, question, below: below(desk, session)? }))
    }

    /// The same as JSON.
    #[must_use]
    pub fn as_json(&self) -> Value {
        let below: Vec<Value> =
            self.below.iter().map(|head| as_json(head, &SessionActivity::stored(head))).collect();
        json!({"session": self.run.session, "file": self.run.file, "question": self.question, "below": below})
    }
}

/// The workflow file that a session was started from.
///
/// # Errors
/// If it cannot be read.
pub fn file_of(desk: &dyn Desk, session: &str) -> Result<Option<PathBuf>, StoreError> {
    let first = desk.records(session, 1, 1)?.pop();
    let event = first.and_then(|record| Event::from_json(&record.text).ok());
    let file = event.and_then(|event| event.extra.get("file").and_then(Value::as_str).map(PathBuf::from));
    Ok(file)
}

/// The run that a session belongs to; nothing if somebody else drives it.
///
/// # Errors
/// If it cannot be read.
pub fn run_of(desk: &dyn Desk, session: &str) -> Result<Option<Run>, StoreError> {
    let mut name = session.to_owned();
    for _ in 0..=TREE_DEPTH {
        if let Some(file) = file_of(desk, &name)? {
            return Ok(Some(Run { session: name, file }));
        }
        match parent_of(desk, &name)? {
            Some(parent) => name = parent,
            None => return Ok(None),
        }
    }
    Ok(None)
}

fn parent_of(desk: &dyn Desk, session: &str) -> Result<Option<String>, StoreError> {
    let first = desk.records(session, 1, 1)?.pop();
    let first = first.and_then(|record| Event::from_json(&record.text).ok());
    Ok(match first.map(|event| event.kind) {
        Some(Kind::SessionStarted { parent, .. }) => parent,
        _ => None,
    })
}

/// The question to a person that nobody has answered yet; `newest` is the number of the session's last event.
///
/// # Errors
/// If it cannot be read.
pub fn question(desk: &dyn Desk, session: &str, newest: u64) -> Result<Option<String>, StoreError> {
    // The newest event alone rules a question out, most of the time.
    let Some(last) = desk.records(session, newest, newest)?.pop() else { return Ok(None) };
    if !Event::from_json(&last.text).is_ok_and(|event| may_ask(&event)) {
        return Ok(None);
    }
    let records = desk.records(session, newest.saturating_sub(LAST - 1).max(1), newest)?;
    let events = records.iter().rev().filter_map(|record| {
        let event = Event::from_json(&record.text).ok()?;
        Some((event, record.verdict))
    });
    Ok(open_question(events))
}

/// Whether an event, as the last one of its session, may be a question to a person.
fn may_ask(event: &Event) -> bool {
    matches!(event.kind, Kind::QuestionAsked { .. } | Kind::AssistantMessage { is_final: true, .. })
}

/// The question that stands, in events from the newest to the oldest.
fn open_question(mut events: impl Iterator<Item = (Event, Verdict)>) -> Option<String> {
    let (event, verdict) = events.next()?;
    match event.kind {
        Kind::QuestionAsked { text } if verdict < Verdict::Block => Some(text),
        // Words of a run to a person, which it speaks without a model, in a turn that is not over: it listens.
        Kind::AssistantMessage { text, is_final: true, .. }
            if event.extra.contains_key("run") && !event.extra.contains_key("reply") =>
        {
            let turn = events.find_map(|(before, _)| match before.kind {
                Kind::TurnStarted {} => Some(before.node == event.node),
                Kind::TurnFinished { .. } => Some(false),
                _ => None,
            });
            (turn == Some(true)).then_some(text)
        }
        _ => None,
    }
}

/// The sessions below one that stand still or wait for a yes.
fn below(desk: &dyn Desk, session: &str) -> Result<Vec<Head>, StoreError> {
    let mut found = Vec::new();
    for which in [Which::Blocked, Which::Waiting] {
        let all = desk.heads(which, WAITING)?;
        let inside = |name: &str| name.strip_prefix(session).is_some_and(|rest| rest.starts_with('/'));
        // A branch that has ended keeps nobody from continuing.
        found.extend(all.into_iter().filter(|head| head.glance.status != Status::Ended).filter(|head| {
            head.glance.parent.as_deref().is_some_and(|parent| parent == session || inside(parent))
        }));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    //! When a person is waited for, and when not.

    use super::open_question;
    use flyball::{Event, Verdict};

    fn asked(newest_first: &[&str]) -> Option<String> {
        let event = |line: &&str| (Event::from_json(line).expect("an event"), Verdict::Allow);
        open_question(newest_first.iter().map(event))
    }

    #[test]
    fn a_question_stands_until_something_comes_after_it() {
        let question = r#"{"type":"question.asked","node":"ask","text":"Which day?"}"#;
        assert_eq!(asked(&[question]).as_deref(), Some("Which day?"));
        assert_eq!(asked(&[r#"{"type":"user.message","text":"Friday"}"#, question]), None);
        assert_eq!(asked(&[]), None);
    }

    #[test]
    fn words_to_a_person_are_a_question_only_inside_a_turn_of_a_run() {
        let said = r#"{"type":"assistant.message","node":"ask","text":"Which day?","final":true,"run":3}"#;
        let begun = r#"{"type":"turn.started","node":"ask","run":2}"#;
        let ended = r#"{"type":"turn.finished","node":"ask","run":2}"#;
        assert_eq!(asked(&[said, begun]).as_deref(), Some("Which day?"));
        assert_eq!(asked(&[said, ended, begun]), None, "a node that only says something");
        let model =
            r#"{"type":"assistant.message","node":"ask","text":"Done.","final":true,"run":3,"reply":{}}"#;
        assert_eq!(asked(&[model, begun]), None, "the answer of a model");
        let other = r#"{"type":"assistant.message","node":"ask","text":"Which day?","final":true}"#;
        assert_eq!(asked(&[other, begun]), None, "an agent that somebody else drives");
    }
}

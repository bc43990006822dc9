//! Status of a stored run: the run that a session belongs to, its unanswered question, and the stopped or waiting
//! sessions below it.

use crate::session_list::session_json;
use crate::session_status::SessionActivity;
use flyball::limits::TREE_DEPTH;
use flyball::{Event, EventKind, SessionPhase, SessionState, Verdict};
use flyball_store::{AdminStore, SessionFilter, SessionRow, StoreError};
use serde_json::{Value, json};
use std::path::PathBuf;

/// Number of recent events searched for a question.
const MAX_SEARCHED_EVENTS: u64 = 30;
/// Number of blocked or waiting sessions searched for descendants.
const MAX_WAITING_SESSIONS: usize = 1_000;

/// The run that a session is or belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunRef {
    /// The session to pass to `flyball resume`.
    pub session: String,
    /// The workflow file.
    pub file: PathBuf,
}

/// Run status of a session.
#[derive(Debug)]
pub struct RunStatus {
    /// The run.
    pub run: RunRef,
    /// The question that has not been answered.
    pub question: Option<String>,
    /// Child sessions that are stopped or waiting.
    pub waiting_children: Vec<SessionRow>,
}

impl RunStatus {
    /// Loads the status; `None` if the session does not belong to a `flyball run`.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn load(
        store: &dyn AdminStore,
        session: &str,
        state: &SessionState,
    ) -> Result<Option<Self>, StoreError> {
        let Some(run) = run_of(store, session)? else { return Ok(None) };
        let running = state.status() == SessionPhase::Running;
        let question = if running { unanswered_question(store, session, state.seq())? } else { None };
        Ok(Some(RunStatus { run, question, waiting_children: waiting_children(store, session)? }))
    }

    /// The same as JSON.
    #[must_use]
    pub fn as_json(&self) -> Value {
        let below: Vec<Value> = self
            .waiting_children
            .iter()
            .map(|head| session_json(head, &SessionActivity::from_stored(head)))
            .collect();
        json!({"session": self.run.session, "file": self.run.file, "question": self.question, "below": below})
    }
}

/// The workflow file that a session was started from.
///
/// # Errors
/// If it cannot be read.
pub fn workflow_file_of(store: &dyn AdminStore, session: &str) -> Result<Option<PathBuf>, StoreError> {
    let first = store.records(session, 1, 1)?.pop();
    let event = first.and_then(|record| Event::from_json(&record.text).ok());
    let file = event.and_then(|event| event.extra.get("file").and_then(Value::as_str).map(PathBuf::from));
    Ok(file)
}

/// The run that a session belongs to; `None` if another program drives it.
///
/// # Errors
/// If it cannot be read.
pub fn run_of(store: &dyn AdminStore, session: &str) -> Result<Option<RunRef>, StoreError> {
    let mut name = session.to_owned();
    for _ in 0..=TREE_DEPTH {
        if let Some(file) = workflow_file_of(store, &name)? {
            return Ok(Some(RunRef { session: name, file }));
        }
        match parent_of(store, &name)? {
            Some(parent) => name = parent,
            None => return Ok(None),
        }
    }
    Ok(None)
}

fn parent_of(store: &dyn AdminStore, session: &str) -> Result<Option<String>, StoreError> {
    let first = store.records(session, 1, 1)?.pop();
    let first = first.and_then(|record| Event::from_json(&record.text).ok());
    Ok(match first.map(|event| event.kind) {
        Some(EventKind::SessionStarted { parent, .. }) => parent,
        _ => None,
    })
}

/// The unanswered question to a person, if any; `newest` is the session's last sequence number.
///
/// # Errors
/// If it cannot be read.
pub fn unanswered_question(
    store: &dyn AdminStore,
    session: &str,
    newest: u64,
) -> Result<Option<String>, StoreError> {
    // Most of the time, the newest event alone rules out a question.
    let Some(last) = store.records(session, newest, newest)?.pop() else { return Ok(None) };
    if !Event::from_json(&last.text).is_ok_and(|event| may_ask(&event)) {
        return Ok(None);
    }
    let records = store.records(session, newest.saturating_sub(MAX_SEARCHED_EVENTS - 1).max(1), newest)?;
    let events = records.iter().rev().filter_map(|record| {
        let event = Event::from_json(&record.text).ok()?;
        Some((event, record.verdict))
    });
    Ok(open_question(events))
}

/// Whether an event can be an open question if it is the last one of its session.
fn may_ask(event: &Event) -> bool {
    matches!(event.kind, EventKind::QuestionAsked { .. } | EventKind::AssistantMessage { is_final: true, .. })
}

/// The open question, in events from newest to oldest.
fn open_question(mut events: impl Iterator<Item = (Event, Verdict)>) -> Option<String> {
    let (event, verdict) = events.next()?;
    match event.kind {
        EventKind::QuestionAsked { text } if verdict < Verdict::Block => Some(text),
        // A run's message that no model wrote, in a turn that has not finished: the run is waiting for a reply.
        EventKind::AssistantMessage { text, is_final: true, .. }
            if event.extra.contains_key("run") && !event.extra.contains_key("reply") =>
        {
            let turn = events.find_map(|(before, _)| match before.kind {
                EventKind::TurnStarted {} => Some(before.node == event.node),
                EventKind::TurnFinished { .. } => Some(false),
                _ => None,
            });
            (turn == Some(true)).then_some(text)
        }
        _ => None,
    }
}

/// The child sessions that are stopped or awaiting approval.
fn waiting_children(store: &dyn AdminStore, session: &str) -> Result<Vec<SessionRow>, StoreError> {
    let mut found = Vec::new();
    for which in [SessionFilter::Blocked, SessionFilter::Waiting] {
        let all = store.list_sessions(which, MAX_WAITING_SESSIONS)?;
        let inside = |name: &str| name.strip_prefix(session).is_some_and(|rest| rest.starts_with('/'));
        // An ended branch does not hold up its run.
        found.extend(all.into_iter().filter(|head| head.summary.status != SessionPhase::Ended).filter(
            |head| head.summary.parent.as_deref().is_some_and(|parent| parent == session || inside(parent)),
        ));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    //! Which events count as an open question.

    use super::open_question;
    use flyball::{Event, Verdict};

    fn question_in(newest_first: &[&str]) -> Option<String> {
        let event = |line: &&str| (Event::from_json(line).expect("an event"), Verdict::Allow);
        open_question(newest_first.iter().map(event))
    }

    #[test]
    fn question_is_open_until_the_next_event() {
        let question = r#"{"type":"question.asked","node":"ask","text":"Which day?"}"#;
        assert_eq!(question_in(&[question]).as_deref(), Some("Which day?"));
        assert_eq!(question_in(&[r#"{"type":"user.message","text":"Friday"}"#, question]), None);
        assert_eq!(question_in(&[]), None);
    }

    #[test]
    fn final_message_is_a_question_only_inside_a_run_turn() {
        let said = r#"{"type":"assistant.message","node":"ask","text":"Which day?","final":true,"run":3}"#;
        let begun = r#"{"type":"turn.started","node":"ask","run":2}"#;
        let ended = r#"{"type":"turn.finished","node":"ask","run":2}"#;
        assert_eq!(question_in(&[said, begun]).as_deref(), Some("Which day?"));
        assert_eq!(question_in(&[said, ended, begun]), None, "the turn is over");
        let model =
            r#"{"type":"assistant.message","node":"ask","text":"Done.","final":true,"run":3,"reply":{}}"#;
        assert_eq!(question_in(&[model, begun]), None, "a model's reply");
        let other = r#"{"type":"assistant.message","node":"ask","text":"Which day?","final":true}"#;
        assert_eq!(question_in(&[other, begun]), None, "not a Flyball run");
    }
}

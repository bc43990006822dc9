//! Where a stored run stands: the run that a session belongs to, the question that waits in it, and what stands still
//! below it.

use crate::commands::list::as_json;
use crate::commands::run::file_of;
use crate::fail::Failure;
use crate::paint::{Style, paint_out};
use crate::words::line;
use flyball::limits::TREE_DEPTH;
use flyball::{Event, Kind, LoopReport, Report, State, Status, Verdict};
use flyball_journal::{Desk, Head, Which};
use serde_json::{Value, json};
use std::io::Write;
use std::path::PathBuf;

/// How many of the last events are looked at to find a question.
const LAST: u64 = 30;
/// How many sessions that wait are looked at to find those below one.
const WAITING: usize = 1_000;

/// The run that a session is, or is a branch of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Run {
    /// The session that `flyball resume` takes.
    pub(crate) session: String,
    /// The workflow file.
    pub(crate) file: PathBuf,
}

/// Where a session stands, if it belongs to a run.
pub(crate) struct Whereabouts {
    pub(crate) run: Run,
    /// The question that nobody has answered yet.
    pub(crate) question: Option<String>,
    /// Sessions below it that stand still or wait.
    pub(crate) below: Vec<Head>,
}

impl Whereabouts {
    /// Where it stands; nothing if the session was not started by `flyball run`.
    pub(crate) fn of(desk: &dyn Desk, session: &str, state: &State) -> Result<Option<Self>, Failure> {
        let Some(run) = run_of(desk, session)? else { return Ok(None) };
        let running = state.status() == Status::Running;
        let question = if running { question(desk, session, state.seq())? } else { None };
        Ok(Some(Whereabouts { run, question, below: below(desk, session)? }))
    }

    /// The same as JSON.
    pub(crate) fn as_json(&self) -> Value {
        let below: Vec<Value> = self.below.iter().map(as_json).collect();
        json!({"session": self.run.session, "file": self.run.file, "question": self.question, "below": below})
    }

    /// Prints it, with the node and the loops that it is in.
    pub(crate) fn print(&self, out: &mut impl Write, report: &Report) -> std::io::Result<()> {
        writeln!(out, "\n{}", paint_out(Style::Strong, "Where the run stands"))?;
        let inside =
            |found: &&LoopReport| report.node.as_ref().is_some_and(|node| found.nodes.contains(node));
        let badges: String =
            report.loops.iter().filter(inside).map(|found| format!(", {}", found.badge)).collect();
        let node = report.node.as_deref().unwrap_or("its start");
        writeln!(out, "  at {}{badges}", line(node, 80))?;
        if let Some(question) = &self.question {
            writeln!(out, "  it asks: {}", line(question, 400))?;
        } else if report.status == Status::Running && self.below.is_empty() {
            writeln!(
                out,
                "  it goes on in the process that runs it; if that is gone, it can be taken up again"
            )?;
        }
        for head in &self.below {
            let why = head.glance.stopped_by.as_deref().unwrap_or("a plan waits for a yes");
            let (name, state) = (line(&head.session, 100), head.glance.status.as_str());
            writeln!(out, "  below it {name} is {state}: {}", line(why, 200))?;
        }
        writeln!(out, "  workflow {}", line(&self.run.file.display().to_string(), 300))
    }
}

/// The run that a session belongs to; nothing if somebody else drives it.
pub(crate) fn run_of(desk: &dyn Desk, session: &str) -> Result<Option<Run>, Failure> {
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

fn parent_of(desk: &dyn Desk, session: &str) -> Result<Option<String>, Failure> {
    let first = desk.records(session, 1, 1)?.pop();
    let first = first.and_then(|record| Event::from_json(&record.text).ok());
    Ok(match first.map(|event| event.kind) {
        Some(Kind::SessionStarted { parent, .. }) => parent,
        _ => None,
    })
}

/// The question to a person that nobody has answered yet; `newest` is the number of the session's last event.
pub(crate) fn question(desk: &dyn Desk, session: &str, newest: u64) -> Result<Option<String>, Failure> {
    let records = desk.records(session, newest.saturating_sub(LAST - 1).max(1), newest)?;
    let events = records.iter().rev().filter_map(|record| {
        let event = Event::from_json(&record.text).ok()?;
        Some((event, record.verdict))
    });
    Ok(open_question(events))
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
fn below(desk: &dyn Desk, session: &str) -> Result<Vec<Head>, Failure> {
    let mut found = Vec::new();
    for which in [Which::Blocked, Which::Waiting] {
        let all = desk.heads(which, WAITING)?;
        let inside = |name: &str| name.strip_prefix(session).is_some_and(|rest| rest.starts_with('/'));
        found.extend(all.into_iter().filter(|head| {
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

//! `flyball activity`: events of the sessions in a store, one line each, by kind.

use super::metrics::{for_each_event, next_batch};
use crate::args::ActivityArgs as Args;
use crate::color::{TextStyle, style_stdout};
use crate::error::{CliError, Exit};
use crate::evidence::describe;
use crate::formatting::{local_time, single_line};
use crate::store;
use flyball::{Decision, Event, EventKind, TripSeverity};
use serde_json::json;
use std::collections::VecDeque;
use std::io::Write;
use std::time::Duration;

/// Poll interval of `--follow`.
const FOLLOW_POLL_INTERVAL: Duration = Duration::from_millis(300);

/// Kind of an activity line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
#[value(rename_all = "snake_case")]
pub(crate) enum ActivityKind {
    /// Message from a user
    UserMessage,
    /// Message from the agent, or the end of its turn
    AssistantResponse,
    /// Tool call
    ToolCall,
    /// Tool result
    ToolResult,
    /// The agent reports completion
    CompletionSignal,
    /// Transition between nodes
    Transition,
    /// Progress measurement
    Progress,
    /// Result of tests, lint, build or a checklist
    QualityGate,
    /// Finding of a guard
    LoopHealth,
    /// Question to a person, or a person's decision
    Decision,
    /// All other events
    Debug,
}

impl ActivityKind {
    const fn as_str(self) -> &'static str {
        match self {
            ActivityKind::UserMessage => "user_message",
            ActivityKind::AssistantResponse => "assistant_response",
            ActivityKind::ToolCall => "tool_call",
            ActivityKind::ToolResult => "tool_result",
            ActivityKind::CompletionSignal => "completion_signal",
            ActivityKind::Transition => "transition",
            ActivityKind::Progress => "progress",
            ActivityKind::QualityGate => "quality_gate",
            ActivityKind::LoopHealth => "loop_health",
            ActivityKind::Decision => "decision",
            ActivityKind::Debug => "debug",
        }
    }

    const fn from_event(kind: &EventKind) -> Self {
        match kind {
            EventKind::UserMessage { .. } | EventKind::PersonMessage { .. } => ActivityKind::UserMessage,
            EventKind::AssistantMessage { .. } | EventKind::TurnFinished { .. } => {
                ActivityKind::AssistantResponse
            }
            EventKind::ToolRequested { .. } => ActivityKind::ToolCall,
            EventKind::ToolFinished { .. } | EventKind::ToolDenied { .. } => ActivityKind::ToolResult,
            EventKind::CompletionRequested { .. } => ActivityKind::CompletionSignal,
            EventKind::TransitionRequested { .. } => ActivityKind::Transition,
            EventKind::Progress { .. } => ActivityKind::Progress,
            EventKind::GateChecked { .. } => ActivityKind::QualityGate,
            EventKind::ConfirmationRequested { .. }
            | EventKind::ConfirmationAnswered { .. }
            | EventKind::QuestionAsked { .. }
            | EventKind::HumanReleased { .. }
            | EventKind::HumanStopped { .. }
            | EventKind::PolicyChanged { .. } => ActivityKind::Decision,
            _ => ActivityKind::Debug,
        }
    }
}

/// One activity line.
struct ActivityLine {
    session: String,
    seq: u64,
    at: Option<u64>,
    kind: ActivityKind,
    severity: Option<TripSeverity>,
    text: String,
}

/// The lines of an event: the event itself and the guards' findings.
fn activity_lines(session: &str, event: &Event, decision: &Decision) -> Vec<ActivityLine> {
    let of = |what, severity, text| ActivityLine {
        session: session.to_owned(),
        seq: decision.seq,
        at: event.at,
        kind: what,
        severity,
        text,
    };
    let mut all = vec![of(ActivityKind::from_event(&event.kind), None, describe(event))];
    for trip in &decision.trips {
        let what = if trip.guard == "gate" { ActivityKind::QualityGate } else { ActivityKind::LoopHealth };
        all.push(of(what, Some(trip.severity), format!("{} ({})", trip.message, trip.guard)));
    }
    all
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> Result<Exit, CliError> {
    let store = store::open(&args.store)?;
    let wanted = |line: &ActivityLine| {
        args.session.as_ref().is_none_or(|session| *session == line.session)
            && (args.kind.is_empty() || args.kind.contains(&line.kind))
    };
    let mut last: VecDeque<ActivityLine> = VecDeque::new();
    let mut cursor = for_each_event(store.as_ref(), |session, event, decision, _| {
        for line in activity_lines(session, event, decision).into_iter().filter(&wanted) {
            if last.len() == args.limit {
                last.pop_front();
            }
            last.push_back(line);
        }
        Ok(())
    })?;
    let mut out = crate::terminal::stdout();
    for line in last.into_iter().take(args.limit) {
        print_line(&mut out, &line, args.json)?;
    }
    if !args.follow {
        return Ok(Exit::Success);
    }
    loop {
        out.flush()?;
        out.check_open()?;
        std::thread::park_timeout(FOLLOW_POLL_INTERVAL);
        (cursor, _) = next_batch(store.as_ref(), cursor, |session, event, decision, _| {
            for line in activity_lines(session, event, decision).iter().filter(|line| wanted(line)) {
                print_line(&mut out, line, args.json)?;
            }
            Ok(())
        })?;
    }
}

fn print_line(out: &mut impl Write, entry: &ActivityLine, as_json: bool) -> Result<(), CliError> {
    let ActivityLine { session, seq, at, kind: what, severity, text } = entry;
    if as_json {
        let severity = severity.map(TripSeverity::as_str);
        let object = json!({"session": session, "seq": seq, "at": at, "kind": what.as_str(),
            "severity": severity, "text": text});
        writeln!(out, "{object}")?;
        return Ok(());
    }
    let time = at.map_or_else(|| "unknown time".to_owned(), local_time);
    let mark = severity.map_or_else(String::new, |severity| format!("{}: ", severity.as_str()));
    let text = format!("{mark}{}", single_line(text, 160));
    let text = match severity {
        Some(severity) if *severity >= TripSeverity::Block => style_stdout(TextStyle::Error, &text),
        Some(_) => style_stdout(TextStyle::Warning, &text),
        None => text,
    };
    writeln!(out, "{time}  {}  {:<18} {text}", single_line(session, 40), what.as_str())?;
    Ok(())
}

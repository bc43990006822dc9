//! `flyball activity`: what happens in the sessions of a store, one line each, by kind.

use super::metrics::{each, portion};
use crate::args::Activity as Args;
use crate::evidence::describe;
use crate::fail::{Exit, Failure};
use crate::paint::{Style, paint_out};
use crate::store;
use crate::words::{line, moment};
use flyball::{Decision, Event, Kind, Severity};
use serde_json::json;
use std::collections::VecDeque;
use std::io::Write;
use std::time::Duration;

/// How often the store is looked at with `--follow`.
const EVERY: Duration = Duration::from_millis(300);

/// The kinds of lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
#[value(rename_all = "snake_case")]
pub(crate) enum What {
    /// Somebody spoke to the agent.
    UserMessage,
    /// The agent spoke, or ended a turn.
    AssistantResponse,
    /// A tool was asked for.
    ToolCall,
    /// A tool answered.
    ToolResult,
    /// The agent says that it is done.
    CompletionSignal,
    /// One node hands over to the next.
    Transition,
    /// A measure of progress.
    Progress,
    /// Tests, lint, build, checklist: what they said, and what follows.
    QualityGate,
    /// A guard found something.
    LoopHealth,
    /// A person was asked, or decided.
    Decision,
    /// Everything else.
    Debug,
}

impl What {
    const fn as_str(self) -> &'static str {
        match self {
            What::UserMessage => "user_message",
            What::AssistantResponse => "assistant_response",
            What::ToolCall => "tool_call",
            What::ToolResult => "tool_result",
            What::CompletionSignal => "completion_signal",
            What::Transition => "transition",
            What::Progress => "progress",
            What::QualityGate => "quality_gate",
            What::LoopHealth => "loop_health",
            What::Decision => "decision",
            What::Debug => "debug",
        }
    }

    const fn of(kind: &Kind) -> Self {
        match kind {
            Kind::UserMessage { .. } | Kind::PersonMessage { .. } => What::UserMessage,
            Kind::AssistantMessage { .. } | Kind::TurnFinished { .. } => What::AssistantResponse,
            Kind::ToolRequested { .. } => What::ToolCall,
            Kind::ToolFinished { .. } | Kind::ToolDenied { .. } => What::ToolResult,
            Kind::CompletionRequested { .. } => What::CompletionSignal,
            Kind::TransitionRequested { .. } => What::Transition,
            Kind::Progress { .. } => What::Progress,
            Kind::GateChecked { .. } => What::QualityGate,
            Kind::ConfirmationRequested { .. }
            | Kind::ConfirmationAnswered { .. }
            | Kind::QuestionAsked { .. }
            | Kind::HumanReleased { .. }
            | Kind::HumanStopped { .. }
            | Kind::PolicyChanged { .. } => What::Decision,
            _ => What::Debug,
        }
    }
}

/// One line.
struct Line {
    session: String,
    seq: u64,
    at: Option<u64>,
    what: What,
    severity: Option<Severity>,
    text: String,
}

/// The lines of an event: itself, and what the guards found.
fn lines(session: &str, event: &Event, decision: &Decision) -> Vec<Line> {
    let of = |what, severity, text| Line {
        session: session.to_owned(),
        seq: decision.seq,
        at: event.at,
        what,
        severity,
        text,
    };
    let mut all = vec![of(What::of(&event.kind), None, describe(event))];
    for trip in &decision.trips {
        let what = if trip.guard == "gate" { What::QualityGate } else { What::LoopHealth };
        all.push(of(what, Some(trip.severity), format!("{} ({})", trip.message, trip.guard)));
    }
    all
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> Result<Exit, Failure> {
    let desk = store::open(&args.store)?;
    let wanted = |line: &Line| {
        args.session.as_ref().is_none_or(|session| *session == line.session)
            && (args.kind.is_empty() || args.kind.contains(&line.what))
    };
    let mut last: VecDeque<Line> = VecDeque::new();
    let mut cursor = each(desk.as_ref(), |session, event, decision, _| {
        for line in lines(session, event, decision).into_iter().filter(&wanted) {
            if last.len() == args.limit {
                last.pop_front();
            }
            last.push_back(line);
        }
        Ok(())
    })?;
    let mut out = crate::terminal::stdout();
    for line in last.into_iter().take(args.limit) {
        print(&mut out, &line, args.json)?;
    }
    if !args.follow {
        return Ok(Exit::Done);
    }
    loop {
        out.flush()?;
        std::thread::park_timeout(EVERY);
        (cursor, _) = portion(desk.as_ref(), cursor, |session, event, decision, _| {
            for line in lines(session, event, decision).iter().filter(|line| wanted(line)) {
                print(&mut out, line, args.json)?;
            }
            Ok(())
        })?;
    }
}

fn print(out: &mut impl Write, entry: &Line, as_json: bool) -> Result<(), Failure> {
    let Line { session, seq, at, what, severity, text } = entry;
    if as_json {
        let severity = severity.map(Severity::as_str);
        let told = json!({"session": session, "seq": seq, "at": at, "kind": what.as_str(),
            "severity": severity, "text": text});
        writeln!(out, "{told}")?;
        return Ok(());
    }
    let time = at.map_or_else(|| "at no time".to_owned(), moment);
    let mark = severity.map_or_else(String::new, |severity| format!("{}: ", severity.as_str()));
    let text = format!("{mark}{}", line(text, 160));
    let text = match severity {
        Some(severity) if *severity >= Severity::Block => paint_out(Style::Bad, &text),
        Some(_) => paint_out(Style::Warn, &text),
        None => text,
    };
    writeln!(out, "{time}  {}  {:<18} {text}", line(session, 40), what.as_str())?;
    Ok(())
}

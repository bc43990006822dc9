//! `flyball replay`: shows the decisions a policy would have made on recorded events or another tool's transcript.

use crate::args::ReplayArgs;
use crate::color::{TextStyle, style_stdout};
use crate::error::{CliError, Exit};
use crate::event_file::EventFileReader;
use crate::formatting::plural;
use crate::policy_loader;
use crate::session_tally::{self, SessionTally};
use flyball::{Decision, PolicySource, Preset, Session, Sessions, Verdict};
use flyball_integrations::transcript::TranscriptSummary;
use std::io::{BufWriter, Write};

fn print_summary(
    tally: &SessionTally,
    sessions: &Sessions,
    file: &str,
    out: &mut impl Write,
) -> std::io::Result<()> {
    let notable: Vec<_> = tally.sessions.iter().filter(|(_, story)| !story.notes.is_empty()).collect();
    for (name, story) in &notable {
        let events = plural(story.events, "event");
        writeln!(out, "{}  {events}, {}", style_stdout(TextStyle::Heading, name), story.state.as_str())?;
        for note in &story.notes {
            session_tally::print_note(note, out)?;
        }
        if let Some(line) = sessions.get(name).and_then(loop_progress) {
            writeln!(out, "  {line}")?;
        }
    }
    writeln!(
        out,
        "{file}: {}, {}: {} halted, {} blocked, {} warned, {} untouched",
        plural(tally.events, "event"),
        plural(tally.sessions.len() as u64, "session"),
        tally.count_by_verdict(Verdict::Halt),
        tally.count_by_verdict(Verdict::Block),
        tally.count_by_verdict(Verdict::Warn),
        tally.count_by_verdict(Verdict::Allow),
    )?;
    if !notable.is_empty() && file != "<stdin>" {
        writeln!(out, "Next: flyball explain {file}")?;
    }
    Ok(())
}

/// Progress of a session's loops: badges and trends.
fn loop_progress(session: &Session) -> Option<String> {
    let report = session.state().report(session.policy());
    let mut parts: Vec<String> =
        report.loops.iter().map(|found| format!("{} at {}", found.badge, found.header)).collect();
    for (name, values) in report.trends.iter().filter(|(_, values)| !values.is_empty()) {
        let values: Vec<String> = values.iter().map(i64::to_string).collect();
        parts.push(format!("{name} {}", values.join(" → ")));
    }
    (!parts.is_empty()).then(|| parts.join(", "))
}

/// Evaluates a file's events and calls a function with each decision. Stops at the first invalid line of Flyball's own
/// events; invalid lines of other formats are skipped and counted.
pub(crate) fn replay_events(
    recording: &mut EventFileReader,
    sessions: &mut Sessions,
    mut each: impl FnMut(&Decision) -> Result<(), CliError>,
) -> Result<TranscriptSummary, CliError> {
    let mut any = false;
    let summary = recording.for_each_event(|item, file| {
        any = true;
        let wrong = |error| CliError::from_core(format!("{file}:{}", item.line), &error);
        let decision = sessions.step(&item.event).map_err(wrong)?;
        each(&decision)
    })?;
    if any {
        return Ok(summary);
    }
    Err(CliError::new(
        flyball::ErrorCode::EmptyInput.as_str(),
        recording.name(),
        "the file contains no events",
        "write one JSON object per line, for example {\"type\":\"session.started\"}",
    ))
}

/// Runs the command.
pub(crate) fn run(args: &ReplayArgs) -> Result<Exit, CliError> {
    let source = policy_loader::source(&args.policy, Preset::Agent)?;
    let mut worst = Exit::Success;
    for path in &args.files {
        match replay_file(path, &source, args) {
            Ok(exit) => worst = worst.max(exit),
            Err(failure) if failure.is_stdout_closed() => return Err(failure),
            Err(failure) => {
                // Decisions before the invalid line count, and the other files are still read.
                failure.print();
                worst = Exit::Error;
                if args.files.len() == 1 {
                    return Ok(worst);
                }
            }
        }
    }
    Ok(worst)
}

fn replay_file(path: &std::path::Path, source: &PolicySource, args: &ReplayArgs) -> Result<Exit, CliError> {
    let mut recording = EventFileReader::open(path, args.format)?.with_redaction(source.base())?;
    let mut sessions = Sessions::new(source.clone());
    let mut tally = SessionTally::default();
    let mut out = BufWriter::with_capacity(1 << 16, crate::terminal::stdout());
    let folded = replay_events(&mut recording, &mut sessions, |decision| {
        if args.json {
            writeln!(out, "{}", decision.to_json())?;
        }
        tally.push(decision);
        Ok(())
    });
    if !args.json && (folded.is_ok() || tally.events > 0) {
        print_summary(&tally, &sessions, recording.name(), &mut out)?;
        if let Ok(summary) = &folded {
            print_gaps(summary, &mut out)?;
        }
    } else if let Ok(summary) = &folded {
        print_gaps(summary, &mut std::io::stderr())?;
    }
    out.flush()?;
    folded.map(|_| tally.exit())
}

/// Reports the parts of a file that could not be read.
fn print_gaps(summary: &TranscriptSummary, out: &mut impl Write) -> std::io::Result<()> {
    if summary.broken > 0 {
        let lines = plural(summary.broken, "line");
        writeln!(out, "{lines} could not be read as {}: skipped", summary.format.name())?;
    }
    if summary.unfinished {
        writeln!(out, "the last line is incomplete; everything before it was read")?;
    }
    Ok(())
}

//! `flyball replay`: what the policy would have decided on recorded events, or on another tool's transcript.

use crate::args::Replay;
use crate::fail::{Exit, Failure};
use crate::load;
use crate::paint::{Style, paint_out};
use crate::recording::Recording;
use crate::story::{self, Tally};
use crate::words::plural;
use flyball::{Decision, PolicySource, Preset, Session, Sessions, Verdict};
use flyball_adapt::source::Summary;
use std::io::{BufWriter, Write};

fn print(tally: &Tally, sessions: &Sessions, file: &str, out: &mut impl Write) -> std::io::Result<()> {
    let notable: Vec<_> = tally.sessions.iter().filter(|(_, story)| !story.notes.is_empty()).collect();
    for (name, story) in &notable {
        let events = plural(story.events, "event");
        writeln!(out, "{}  {events}, {}", paint_out(Style::Strong, name), story.state.as_str())?;
        for note in &story.notes {
            story::print(note, out)?;
        }
        if let Some(line) = sessions.get(name).and_then(progress) {
            writeln!(out, "  {line}")?;
        }
    }
    writeln!(
        out,
        "{file}: {}, {}: {} halted, {} blocked, {} warned, {} untouched",
        plural(tally.events, "event"),
        plural(tally.sessions.len() as u64, "session"),
        tally.count(Verdict::Halt),
        tally.count(Verdict::Block),
        tally.count(Verdict::Warn),
        tally.count(Verdict::Allow),
    )?;
    if !notable.is_empty() && file != "<stdin>" {
        writeln!(out, "Next: flyball explain {file}")?;
    }
    Ok(())
}

/// How far the loops of a session's workflow have come: badges and trends.
fn progress(session: &Session) -> Option<String> {
    let report = session.state().report(session.policy());
    let mut parts: Vec<String> =
        report.loops.iter().map(|found| format!("{} at {}", found.badge, found.header)).collect();
    for (name, values) in report.trends.iter().filter(|(_, values)| !values.is_empty()) {
        let values: Vec<String> = values.iter().map(i64::to_string).collect();
        parts.push(format!("{name} {}", values.join(" → ")));
    }
    (!parts.is_empty()).then(|| parts.join(", "))
}

/// Folds a file's events, handing each decision on. Stops at the first bad line of Flyball's own events; another
/// tool's bad lines are passed over and counted.
pub(crate) fn fold(
    recording: &mut Recording,
    sessions: &mut Sessions,
    mut each: impl FnMut(&Decision) -> Result<(), Failure>,
) -> Result<Summary, Failure> {
    let mut any = false;
    let summary = recording.each(|item, file| {
        any = true;
        let wrong = |error| Failure::at(format!("{file}:{}", item.line), &error);
        let decision = sessions.step(&item.event).map_err(wrong)?;
        each(&decision)
    })?;
    if any {
        return Ok(summary);
    }
    Err(Failure::new(
        flyball::Code::EmptyInput.as_str(),
        recording.name(),
        "there is no event in it",
        "write one JSON object a line, for example {\"type\":\"session.started\"}",
    ))
}

/// Runs the command.
pub(crate) fn run(args: &Replay) -> Result<Exit, Failure> {
    let source = load::source(&args.policy, Preset::Agent)?;
    let mut worst = Exit::Done;
    for path in &args.files {
        match file(path, &source, args) {
            Ok(exit) => worst = worst.max(exit),
            Err(failure) => {
                // What was decided before the bad line stands, and the other files are read all the same.
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

fn file(path: &std::path::Path, source: &PolicySource, args: &Replay) -> Result<Exit, Failure> {
    let mut recording = Recording::open(path, args.format)?.behind(source.base())?;
    let mut sessions = Sessions::new(source.clone());
    let mut tally = Tally::default();
    let mut out = BufWriter::with_capacity(1 << 16, crate::terminal::stdout());
    let folded = fold(&mut recording, &mut sessions, |decision| {
        if args.json {
            writeln!(out, "{}", decision.to_json())?;
        }
        tally.take(decision);
        Ok(())
    });
    if !args.json && (folded.is_ok() || tally.events > 0) {
        print(&tally, &sessions, recording.name(), &mut out)?;
        if let Ok(summary) = &folded {
            print_gaps(summary, &mut out)?;
        }
    } else if let Ok(summary) = &folded {
        print_gaps(summary, &mut std::io::stderr())?;
    }
    out.flush()?;
    folded.map(|_| tally.exit())
}

/// Says what of a file could not be read.
fn print_gaps(summary: &Summary, out: &mut impl Write) -> std::io::Result<()> {
    if summary.broken > 0 {
        let lines = plural(summary.broken, "line");
        writeln!(out, "{lines} could not be read as {}: passed over", summary.format.name())?;
    }
    if summary.unfinished {
        writeln!(out, "the end is only half written; everything before it was read")?;
    }
    Ok(())
}

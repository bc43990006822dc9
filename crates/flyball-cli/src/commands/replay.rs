//! `flyball replay`: what the policy would have decided on recorded events.

use crate::args::Replay;
use crate::fail::{Exit, Failure};
use crate::input::Lines;
use crate::load;
use crate::paint::{Style, paint_out};
use flyball::{Decision, PolicySource, Preset, Sessions, Severity, Status, Verdict};
use std::collections::BTreeMap;
use std::io::{BufWriter, Write};

/// How the events of a file went.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    events: u64,
    sessions: BTreeMap<String, Story>,
    gate: bool,
}

/// How one session went: its notable decisions, in order, equal ones folded.
#[derive(Debug, Default)]
struct Story {
    events: u64,
    worst: Verdict,
    state: Status,
    notes: Vec<Note>,
}

#[derive(Debug)]
struct Note {
    seq: u64,
    severity: Severity,
    guard: String,
    reason: String,
    message: String,
    times: u64,
}

impl Tally {
    /// Takes one decision.
    pub(crate) fn take(&mut self, decision: &Decision) {
        self.events += 1;
        let story = self.sessions.entry(decision.session.clone()).or_default();
        story.events += 1;
        story.worst = story.worst.max(decision.decision);
        story.state = decision.state;
        for trip in &decision.trips {
            if trip.guard == "gate" && trip.severity == Severity::Block {
                self.gate = true;
            }
            let same = |note: &&mut Note| {
                note.severity == trip.severity && note.guard == trip.guard && note.reason == trip.reason
            };
            match story.notes.last_mut().filter(same) {
                Some(note) => {
                    note.times += 1;
                    note.message.clone_from(&trip.message);
                }
                None => story.notes.push(Note {
                    seq: decision.seq,
                    severity: trip.severity,
                    guard: trip.guard.clone(),
                    reason: trip.reason.clone(),
                    message: trip.message.clone(),
                    times: 1,
                }),
            }
        }
    }

    /// The exit code that says how it went.
    pub(crate) fn exit(&self) -> Exit {
        let any = |test: fn(&Story) -> bool| self.sessions.values().any(test);
        if any(|story| story.worst == Verdict::Halt) {
            Exit::Stopped
        } else if any(|story| matches!(story.state, Status::AwaitingConfirmation | Status::Blocked)) {
            Exit::Waits
        } else if self.gate {
            Exit::Gate
        } else if any(|story| story.worst == Verdict::Block) {
            Exit::Stopped
        } else {
            Exit::Done
        }
    }

    fn print(&self, file: &str, out: &mut impl Write) -> std::io::Result<()> {
        let notable: Vec<_> = self.sessions.iter().filter(|(_, story)| !story.notes.is_empty()).collect();
        for (name, story) in &notable {
            writeln!(
                out,
                "{}  {} events, {}",
                paint_out(Style::Strong, name),
                story.events,
                story.state.as_str()
            )?;
            for note in &story.notes {
                let times = if note.times > 1 { format!(" (× {})", note.times) } else { String::new() };
                let word = severity_word(note.severity);
                writeln!(out, "  event {:<5} {word} {}{times}", note.seq, note.message)?;
                let why = format!("              {} / {}", note.guard, note.reason);
                writeln!(out, "{}", paint_out(Style::Dim, &why))?;
            }
        }
        let count = |verdict: Verdict| self.sessions.values().filter(|story| story.worst == verdict).count();
        writeln!(
            out,
            "{file}: {}, {}: {} halted, {} blocked, {} warned, {} untouched",
            plural(self.events, "event"),
            plural(self.sessions.len() as u64, "session"),
            count(Verdict::Halt),
            count(Verdict::Block),
            count(Verdict::Warn),
            count(Verdict::Allow),
        )?;
        if !notable.is_empty() && file != "<stdin>" {
            writeln!(out, "Next: flyball explain {file}")?;
        }
        Ok(())
    }
}

fn plural(count: u64, word: &str) -> String {
    if count == 1 { format!("1 {word}") } else { format!("{count} {word}s") }
}

/// A severity as a word of even width, coloured.
pub(crate) fn severity_word(severity: Severity) -> String {
    match severity {
        Severity::Observe => paint_out(Style::Dim, "seen "),
        Severity::Warn => paint_out(Style::Warn, "warn "),
        Severity::Block => paint_out(Style::Bad, "block"),
        Severity::Halt => paint_out(Style::Bad, "halt "),
    }
}

/// Folds a file's events, handing each decision on. Stops at the first bad line.
pub(crate) fn fold(
    lines: &mut Lines,
    sessions: &mut Sessions,
    mut each: impl FnMut(&Decision, &Lines) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut any = false;
    while let Some(event) = lines.next_event()? {
        any = true;
        let decision = event
            .and_then(|event| sessions.step(&event))
            .map_err(|error| Failure::at(lines.place(), &error))?;
        each(&decision, lines)?;
    }
    if any {
        return Ok(());
    }
    Err(Failure::new(
        flyball::Code::EmptyInput.as_str(),
        lines.name(),
        "there is no event in it",
        "write one JSON object a line, for example {\"type\":\"session.started\"}",
    ))
}

/// Runs the command.
pub(crate) fn run(args: &Replay) -> Result<Exit, Failure> {
    let source = load::source(&args.policy, Preset::Agent)?;
    let mut worst = Exit::Done;
    for path in &args.files {
        match file(path, &source, args.json) {
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

fn file(path: &std::path::Path, source: &PolicySource, json: bool) -> Result<Exit, Failure> {
    let mut lines = Lines::open(path)?;
    let mut sessions = Sessions::new(source.clone());
    let mut tally = Tally::default();
    let mut out = BufWriter::with_capacity(1 << 16, std::io::stdout().lock());
    let folded = fold(&mut lines, &mut sessions, |decision, _| {
        if json {
            writeln!(out, "{}", decision.to_json())?;
        }
        tally.take(decision);
        Ok(())
    });
    if !json && (folded.is_ok() || tally.events > 0) {
        tally.print(lines.name(), &mut out)?;
    }
    out.flush()?;
    folded.map(|()| tally.exit())
}

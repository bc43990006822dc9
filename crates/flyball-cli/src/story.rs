//! How sessions went, for a terminal and for the exit code.

use crate::fail::Exit;
use crate::paint::{Style, paint_out};
use flyball::{Decision, Severity, Status, Verdict};
pub(crate) use flyball_view::story::{Note, Story};
use std::collections::BTreeMap;
use std::io::Write;

/// Prints the note on one line, and its guard and reason on the next.
pub(crate) fn print(note: &Note, out: &mut impl Write) -> std::io::Result<()> {
    let seq =
        if note.last > note.seq { format!("{}–{}", note.seq, note.last) } else { note.seq.to_string() };
    let times = if note.times > 1 { format!(" (× {})", note.times) } else { String::new() };
    writeln!(out, "  event {seq:<7} {} {}{times}", severity_word(note.severity), note.message)?;
    if note.guard.is_empty() {
        return Ok(());
    }
    let why = format!("                {} / {}", note.guard, note.reason);
    writeln!(out, "{}", paint_out(Style::Dim, &why))
}

/// How all sessions of a file or a pipe went.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) events: u64,
    pub(crate) sessions: BTreeMap<String, Story>,
    gate: bool,
}

impl Tally {
    /// Takes one decision.
    pub(crate) fn take(&mut self, decision: &Decision) {
        self.story(decision).take(decision);
    }

    /// Takes only what the exit code depends on: for a pipe that may run for ever.
    pub(crate) fn glance(&mut self, decision: &Decision) {
        self.story(decision).count(decision);
    }

    fn story(&mut self, decision: &Decision) -> &mut Story {
        self.events += 1;
        self.gate |=
            decision.trips.iter().any(|trip| trip.guard == "gate" && trip.severity == Severity::Block);
        self.sessions.entry(decision.session.clone()).or_default()
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

    /// How many sessions came to this at worst.
    pub(crate) fn count(&self, verdict: Verdict) -> usize {
        self.sessions.values().filter(|story| story.worst == verdict).count()
    }
}

/// A severity as a word of even width, coloured; an effect is what is to be done.
fn severity_word(severity: Option<Severity>) -> String {
    match severity {
        None => paint_out(Style::Good, "do   "),
        Some(Severity::Observe) => paint_out(Style::Dim, "seen "),
        Some(Severity::Warn) => paint_out(Style::Warn, "warn "),
        Some(Severity::Block) => paint_out(Style::Bad, "block"),
        Some(Severity::Halt) => paint_out(Style::Bad, "halt "),
    }
}

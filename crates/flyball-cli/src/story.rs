//! How a session went: its notable decisions in order, equal ones folded, and what that means for the exit code.

use crate::fail::Exit;
use crate::paint::{Style, paint_out};
use flyball::{Decision, Severity, Status, Verdict};
use std::collections::BTreeMap;
use std::io::Write;

/// One finding or effect, and how often it came in a row.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub(crate) struct Note {
    pub(crate) seq: u64,
    pub(crate) last: u64,
    /// How grave a finding is; an effect has none.
    pub(crate) severity: Option<Severity>,
    pub(crate) guard: String,
    pub(crate) reason: String,
    pub(crate) message: String,
    pub(crate) times: u64,
}

impl Note {
    /// Prints the note on one line, and its guard and reason on the next.
    pub(crate) fn print(&self, out: &mut impl Write) -> std::io::Result<()> {
        let seq =
            if self.last > self.seq { format!("{}–{}", self.seq, self.last) } else { self.seq.to_string() };
        let times = if self.times > 1 { format!(" (× {})", self.times) } else { String::new() };
        writeln!(out, "  event {seq:<7} {} {}{times}", severity_word(self.severity), self.message)?;
        if self.guard.is_empty() {
            return Ok(());
        }
        let why = format!("                {} / {}", self.guard, self.reason);
        writeln!(out, "{}", paint_out(Style::Dim, &why))
    }

    /// Whether another note says the same, so that both are told as one.
    fn folds(&self, other: &Note) -> bool {
        let digits = |text: &str| text.chars().filter(|c| !c.is_ascii_digit()).collect::<String>();
        self.severity == other.severity
            && self.guard == other.guard
            && self.reason == other.reason
            && digits(&self.message) == digits(&other.message)
    }
}

/// How one session went.
#[derive(Debug, Default)]
pub(crate) struct Story {
    pub(crate) events: u64,
    pub(crate) worst: Verdict,
    pub(crate) state: Status,
    pub(crate) notes: Vec<Note>,
}

/// How all sessions of a file or a pipe went.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) events: u64,
    pub(crate) sessions: BTreeMap<String, Story>,
    gate: bool,
}

impl Story {
    /// Takes what the exit code depends on.
    fn count(&mut self, decision: &Decision) {
        self.events += 1;
        self.worst = self.worst.max(decision.decision);
        self.state = decision.state;
    }

    /// Takes one decision.
    pub(crate) fn take(&mut self, decision: &Decision) {
        self.count(decision);
        for trip in &decision.trips {
            self.note(Note {
                seq: decision.seq,
                last: decision.seq,
                severity: Some(trip.severity),
                guard: trip.guard.clone(),
                reason: trip.reason.clone(),
                message: trip.message.clone(),
                times: 1,
            });
        }
        for effect in decision.effects.iter().filter(|effect| effect.effect != "loop.halted") {
            let detail = ["text", "label", "digest"].iter().find_map(|key| effect.fields.get(*key)?.as_str());
            self.note(Note {
                seq: decision.seq,
                last: decision.seq,
                severity: None,
                guard: String::new(),
                reason: String::new(),
                message: format!("{} {}", effect.effect, detail.unwrap_or_default()).trim_end().to_owned(),
                times: 1,
            });
        }
    }

    fn note(&mut self, note: Note) {
        match self.notes.last_mut().filter(|last| last.folds(&note)) {
            Some(last) => {
                last.times += 1;
                last.last = note.seq;
                last.message = note.message;
            }
            None => self.notes.push(note),
        }
    }
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

//! Outcomes of sessions, for display and for the exit code.

use crate::color::{TextStyle, style_stdout};
use crate::error::Exit;
use flyball::{Decision, SessionPhase, TripSeverity, Verdict};
pub(crate) use flyball_view::decision_history::{DecisionHistory, DecisionNote};
use std::collections::BTreeMap;
use std::io::Write;

/// Prints the note on one line and its guard and reason on the next.
pub(crate) fn print_note(note: &DecisionNote, out: &mut impl Write) -> std::io::Result<()> {
    let seq =
        if note.last > note.seq { format!("{}–{}", note.seq, note.last) } else { note.seq.to_string() };
    let times = if note.times > 1 { format!(" (× {})", note.times) } else { String::new() };
    writeln!(out, "  event {seq:<7} {} {}{times}", severity_label(note.severity), note.message)?;
    if note.guard.is_empty() {
        return Ok(());
    }
    let why = format!("                {} / {}", note.guard, note.reason);
    writeln!(out, "{}", style_stdout(TextStyle::Dim, &why))
}

/// Outcomes of all sessions in a file or a pipe.
#[derive(Debug, Default)]
pub(crate) struct SessionTally {
    pub(crate) events: u64,
    pub(crate) sessions: BTreeMap<String, DecisionHistory>,
    gate_failed: bool,
}

impl SessionTally {
    /// Adds a decision.
    pub(crate) fn push(&mut self, decision: &Decision) {
        self.history_mut(decision).push(decision);
    }

    /// Adds only what the exit code depends on, for a pipe that may run forever.
    pub(crate) fn push_outcome(&mut self, decision: &Decision) {
        self.history_mut(decision).count_decision(decision);
    }

    fn history_mut(&mut self, decision: &Decision) -> &mut DecisionHistory {
        self.events += 1;
        self.gate_failed |=
            decision.trips.iter().any(|trip| trip.guard == "gate" && trip.severity == TripSeverity::Block);
        self.sessions.entry(decision.session.clone()).or_default()
    }

    /// The exit code for these outcomes.
    pub(crate) fn exit(&self) -> Exit {
        let any = |test: fn(&DecisionHistory) -> bool| self.sessions.values().any(test);
        if any(|history| history.worst == Verdict::Halt) {
            Exit::Stopped
        } else if any(|history| {
            matches!(history.state, SessionPhase::AwaitingConfirmation | SessionPhase::Blocked)
        }) {
            Exit::Waiting
        } else if self.gate_failed {
            Exit::GateFailed
        } else if any(|history| history.worst == Verdict::Block) {
            Exit::Stopped
        } else {
            Exit::Success
        }
    }

    /// The number of sessions whose worst verdict is this one.
    pub(crate) fn count_by_verdict(&self, verdict: Verdict) -> usize {
        self.sessions.values().filter(|history| history.worst == verdict).count()
    }
}

/// A severity as a colored label of fixed width; `None` is an effect to perform.
fn severity_label(severity: Option<TripSeverity>) -> String {
    match severity {
        None => style_stdout(TextStyle::Success, "do   "),
        Some(TripSeverity::Observe) => style_stdout(TextStyle::Dim, "seen "),
        Some(TripSeverity::Warn) => style_stdout(TextStyle::Warning, "warn "),
        Some(TripSeverity::Block) => style_stdout(TextStyle::Error, "block"),
        Some(TripSeverity::Halt) => style_stdout(TextStyle::Error, "halt "),
    }
}

//! A loop in progress, and the checks for false alarms.

use super::finding::{LoopEnd, LoopFinding, StopPoint};
use super::spend::Spend;
use flyball::{Trip, TripSeverity, normalize};
use serde_json::Value;
use std::borrow::Cow;

/// A loop that ended without intervention within this many calls may be a false alarm.
const MAX_DOUBTFUL_CALLS: u64 = 2;
/// Number of calls without a finding after which an ended loop counts as recovered.
const MIN_RECOVERY_CALLS: u64 = 5;

/// A loop in progress.
pub(super) struct OpenLoop {
    pub(super) finding: LoopFinding,
    /// The call at which it was noticed or stopped.
    pub(super) call: (String, Value),
    /// Calls since the last finding.
    pub(super) quiet_calls: u32,
}

impl OpenLoop {
    /// Whether this is the call at which it would have been stopped.
    pub(super) fn is_stopped_call(&self, tool: &str, args: &Value) -> bool {
        self.finding.stop.is_some() && self.call.0 == tool && self.call.1 == *args
    }

    /// Adds spend that a stop would have saved.
    pub(super) fn add_waste(&mut self, tool: &str, spent: &Spend) {
        if self.finding.stop.is_none() {
            return;
        }
        self.finding.wasted.add(spent);
        match self.finding.tools.get_mut(tool) {
            Some(known) => known.add(spent),
            None => {
                self.finding.tools.insert(tool.to_owned(), *spent);
            }
        }
    }

    /// Adds another finding of the same loop.
    pub(super) fn extend(&mut self, trip: &Trip, line: u64) {
        self.quiet_calls = 0;
        self.finding.last = line;
        if trip.guard == self.finding.guard {
            self.finding.count = self.finding.count.max(trip.count);
            self.finding.period = trip.evidence.period.or(self.finding.period);
            self.finding.repeats = trip.evidence.repeats.or(self.finding.repeats);
        }
    }

    /// Records the point where it would have been stopped.
    pub(super) fn mark_stopped(
        &mut self,
        trip: &Trip,
        severity: TripSeverity,
        stop: (u64, u64, Option<u64>),
    ) {
        let (line, seq, at) = stop;
        let decision = severity.verdict().as_str();
        self.finding.guard.clone_from(&trip.guard);
        self.finding.reason.clone_from(&trip.reason);
        self.finding.sign = trip.scope.get("sign").cloned();
        self.finding.message.clone_from(&trip.message);
        self.finding.count = trip.count;
        self.finding.period = trip.evidence.period;
        self.finding.repeats = trip.evidence.repeats;
        self.finding.stop = Some(StopPoint { decision, line, seq, at, count: trip.count, limit: trip.limit });
    }
}

/// The calls after a loop.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct LoopAftermath {
    /// Calls without a finding.
    pub(super) calls: u64,
    /// Calls without a finding that changed something.
    pub(super) writes: u64,
    /// Whether the run reports success.
    pub(super) succeeded: bool,
}

/// The reason why a stop may have been a false alarm, if any.
pub(super) fn false_alarm_reason(found: &LoopFinding, aftermath: &LoopAftermath) -> Option<String> {
    found.stop.as_ref()?;
    let more = match found.wasted.calls {
        1 => "1 more call".to_owned(),
        count => format!("{count} more calls"),
    };
    match found.end {
        LoopEnd::NewResult => {
            Some(format!("the repeated call returned a new result after {more}: it was polling"))
        }
        LoopEnd::MovedOn
            if found.wasted.calls <= MAX_DOUBTFUL_CALLS
                && aftermath.calls >= MIN_RECOVERY_CALLS
                && (aftermath.writes > 0 || aftermath.succeeded) =>
        {
            let then = if aftermath.succeeded {
                "the run succeeded".to_owned()
            } else {
                format!("{} of the {} calls after it changed something", aftermath.writes, aftermath.calls)
            };
            Some(format!("it ended without intervention after {more}, and {then}"))
        }
        _ => None,
    }
}

/// Whether a result contains something that the previous one did not.
pub(super) fn is_new_result(before: &Value, now: &Value) -> bool {
    before != now && normalize(&value_text(before)) != normalize(&value_text(now))
}

fn value_text(value: &Value) -> Cow<'_, str> {
    match value {
        Value::String(text) => Cow::Borrowed(text),
        Value::Null => Cow::Borrowed(""),
        other => Cow::Owned(other.to_string()),
    }
}

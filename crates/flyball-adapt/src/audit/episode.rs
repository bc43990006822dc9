//! A loop while it goes on, and the doubts about one that is over.

use super::finding::{End, Loop, Stop};
use super::spend::Spend;
use flyball::{Severity, Trip, normalised};
use serde_json::Value;
use std::borrow::Cow;

/// A loop that left off by itself within so many calls may have been none.
const FEW: u64 = 2;
/// So many calls without a finding must follow before a loop that left off counts as left behind.
const SETTLED: u64 = 5;

/// A loop that goes on.
pub(super) struct Episode {
    pub(super) found: Loop,
    /// The call that it was noticed or stopped at.
    pub(super) call: (String, Value),
    /// Calls without a finding since the last one with.
    pub(super) calm: u32,
}

impl Episode {
    /// Whether this is the very call that it would have been stopped at.
    pub(super) fn is_stopped_call(&self, tool: &str, args: &Value) -> bool {
        self.found.stop.is_some() && self.call.0 == tool && self.call.1 == *args
    }

    /// Counts what belongs to the loop and would have been saved.
    pub(super) fn waste(&mut self, tool: &str, spent: &Spend) {
        if self.found.stop.is_none() {
            return;
        }
        self.found.after.add(spent);
        match self.found.tools.get_mut(tool) {
            Some(known) => known.add(spent),
            None => {
                self.found.tools.insert(tool.to_owned(), *spent);
            }
        }
    }

    /// Takes one more finding of the same loop.
    pub(super) fn goes_on(&mut self, trip: &Trip, line: u64) {
        self.calm = 0;
        self.found.last = line;
        if trip.guard == self.found.guard {
            self.found.count = self.found.count.max(trip.count);
            self.found.period = trip.evidence.period.or(self.found.period);
            self.found.repeats = trip.evidence.repeats.or(self.found.repeats);
        }
    }

    /// The point where it would have been stopped.
    pub(super) fn stops(&mut self, trip: &Trip, severity: Severity, stop: (u64, u64, Option<u64>)) {
        let (line, seq, at) = stop;
        let decision = severity.verdict().as_str();
        self.found.guard.clone_from(&trip.guard);
        self.found.reason.clone_from(&trip.reason);
        self.found.sign = trip.scope.get("sign").cloned();
        self.found.message.clone_from(&trip.message);
        self.found.count = trip.count;
        self.found.period = trip.evidence.period;
        self.found.repeats = trip.evidence.repeats;
        self.found.stop = Some(Stop { decision, line, seq, at, count: trip.count, limit: trip.limit });
    }
}

/// What followed a loop.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Sequel {
    /// Calls without a finding.
    pub(super) calls: u64,
    /// Those of them that changed something.
    pub(super) writes: u64,
    /// The run says that it ended well.
    pub(super) well: bool,
}

/// Why a stop may have been a false alarm.
pub(super) fn doubt(found: &Loop, sequel: &Sequel) -> Option<String> {
    found.stop.as_ref()?;
    let more = match found.after.calls {
        1 => "1 more call".to_owned(),
        count => format!("{count} more calls"),
    };
    match found.end {
        End::NewResult => Some(format!(
            "the call that was repeated told something new after {more}: it waited for something"
        )),
        End::MovedOn
            if found.after.calls <= FEW && sequel.calls >= SETTLED && (sequel.writes > 0 || sequel.well) =>
        {
            let then = if sequel.well {
                "the run ended well".to_owned()
            } else {
                format!("{} of the {} calls that followed changed something", sequel.writes, sequel.calls)
            };
            Some(format!("it left off by itself after {more}, and {then}"))
        }
        _ => None,
    }
}

/// Whether a result tells something that the one before did not.
pub(super) fn tells_new(before: &Value, now: &Value) -> bool {
    before != now && normalised(&text(before)) != normalised(&text(now))
}

fn text(value: &Value) -> Cow<'_, str> {
    match value {
        Value::String(text) => Cow::Borrowed(text),
        Value::Null => Cow::Borrowed(""),
        other => Cow::Owned(other.to_string()),
    }
}

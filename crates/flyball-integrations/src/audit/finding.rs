//! Audit findings: loops, the points where Flyball would have stopped them, and how they ended.

use super::spend::Spend;
use serde::Serialize;
use std::collections::BTreeMap;

/// The point at which Flyball would have stopped a loop.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StopPoint {
    /// `block` or `halt`.
    pub decision: &'static str,
    /// The line of the transcript.
    pub line: u64,
    /// The event's sequence number in its session.
    pub seq: u64,
    /// Unix time in milliseconds, if the transcript has timestamps.
    pub at: Option<u64>,
    /// The loop's length at that point, as the guard counts.
    pub count: u64,
    /// The guard's limit.
    pub limit: u64,
}

/// How a loop ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LoopEnd {
    /// The run ended.
    WithTheRun,
    /// The agent continued with something else.
    MovedOn,
    /// The repeated call finally returned a new result.
    NewResult,
    /// A person sent a message.
    Person,
}

impl LoopEnd {
    /// The name used in reports.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            LoopEnd::WithTheRun => "with_the_run",
            LoopEnd::MovedOn => "moved_on",
            LoopEnd::NewResult => "new_result",
            LoopEnd::Person => "person",
        }
    }
}

/// One loop: consecutive findings with few other calls in between.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LoopFinding {
    /// The file, as named on the command line or found.
    pub file: String,
    /// The session in that file.
    pub session: String,
    /// The guard that would have stopped it, or the first one that warned.
    pub guard: String,
    /// The detailed reason.
    pub reason: String,
    /// The signal that gave the loop away, for guards with several.
    pub sign: Option<String>,
    /// The repeated tool, if it is a tool.
    pub tool: Option<String>,
    /// The repeated call or message, truncated and redacted.
    pub preview: String,
    /// The line of the first warning or stop.
    pub noticed: u64,
    /// The point where it would have been stopped; `None` if there were only warnings.
    pub stop: Option<StopPoint>,
    /// The guard's message at that point.
    pub message: String,
    /// The length of the repeating block.
    pub period: Option<u64>,
    /// The final number of consecutive repeats.
    pub repeats: Option<u64>,
    /// The loop's final length, as the guard counts.
    pub count: u64,
    /// The last line of the loop.
    pub last: u64,
    /// The lines that the stop is based on, oldest first.
    pub lines: Vec<u64>,
    /// Spend of the loop after the point where it would have been stopped.
    #[serde(rename = "after")]
    pub wasted: Spend,
    /// The wasted spend by tool.
    pub tools: BTreeMap<String, Spend>,
    /// How it ended.
    pub end: LoopEnd,
    /// Calls without a finding that followed, up to the next loop or the end.
    pub calls_after: u64,
    /// The reason why this stop may have been a false alarm, if any.
    pub doubt: Option<String>,
}

/// How often a run called a tool.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct ToolCallCounts {
    /// All calls.
    pub calls: u64,
    /// Calls with the same arguments as the previous call.
    #[serde(rename = "again")]
    pub repeated: u64,
}

impl ToolCallCounts {
    /// Adds `other` to these counts.
    pub fn add(&mut self, other: &ToolCallCounts) {
        self.calls = self.calls.saturating_add(other.calls);
        self.repeated = self.repeated.saturating_add(other.repeated);
    }
}

/// The audit of one run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AuditedRun {
    /// The session's name.
    pub session: String,
    /// Whether it is a sub-agent of another run.
    pub is_sub_agent: bool,
    /// Number of events.
    pub events: u64,
    /// Total spend.
    pub spend: Spend,
    /// Start time, in milliseconds since 1970.
    pub started_at: Option<u64>,
    /// Its loops, in order.
    pub loops: Vec<LoopFinding>,
    /// Whether a budget of the policy would have ended it.
    pub over_budget: bool,
    /// Call counts by tool.
    pub tools: BTreeMap<String, ToolCallCounts>,
}

impl AuditedRun {
    /// Loops that would have been stopped, without doubtful ones.
    pub fn stopped_loops(&self) -> impl Iterator<Item = &LoopFinding> {
        self.loops.iter().filter(|found| found.stop.is_some() && found.doubt.is_none())
    }

    /// Loops whose stop may have been a false alarm.
    pub fn doubtful_loops(&self) -> impl Iterator<Item = &LoopFinding> {
        self.loops.iter().filter(|found| found.stop.is_some() && found.doubt.is_some())
    }

    /// Spend of its loops after the points where they would have been stopped.
    #[must_use]
    pub fn savings(&self) -> Spend {
        let mut all = Spend::default();
        self.stopped_loops().for_each(|found| all.add(&found.wasted));
        all
    }
}

//! What an audit finds: loops, where each would have been stopped, how it went on, and how it ended.

use super::spend::Spend;
use serde::Serialize;
use std::collections::BTreeMap;

/// Where Flyball would have stopped a loop.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Stop {
    /// `block` or `halt`.
    pub decision: &'static str,
    /// The line of the transcript.
    pub line: u64,
    /// The number of the event in its session.
    pub seq: u64,
    /// When, in milliseconds since 1970, if the transcript says so.
    pub at: Option<u64>,
    /// How long the loop had become by then, as the guard counts.
    pub count: u64,
    /// What the guard allows.
    pub limit: u64,
}

/// How a loop ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// With the run.
    WithTheRun,
    /// The agent went on to something else.
    MovedOn,
    /// The call that was repeated told something new at last.
    NewResult,
    /// A person spoke.
    Person,
}

impl End {
    /// The word as it is printed.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            End::WithTheRun => "with_the_run",
            End::MovedOn => "moved_on",
            End::NewResult => "new_result",
            End::Person => "person",
        }
    }
}

/// One loop: a row of findings with little between them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Loop {
    /// The file, as it was named or found.
    pub file: String,
    /// The session inside it.
    pub session: String,
    /// The guard that stops it, or that warned first if nothing stops it.
    pub guard: String,
    /// The fine reason.
    pub reason: String,
    /// What gave it away, where a guard knows several signs.
    pub sign: Option<String>,
    /// The tool that goes round, if it is a tool.
    pub tool: Option<String>,
    /// What was called or said, shortened, without what looks like a secret.
    pub preview: String,
    /// The line of the first warning or stop.
    pub noticed: u64,
    /// Where it would have been stopped; a loop that was only warned of has none.
    pub stop: Option<Stop>,
    /// The guard's sentence at that point.
    pub message: String,
    /// The length of the block that repeats.
    pub period: Option<u64>,
    /// How often it stood in a row in the end.
    pub repeats: Option<u64>,
    /// How long it became in the end, as the guard counts.
    pub count: u64,
    /// The last line that belongs to it.
    pub last: u64,
    /// The lines that the stop rests on, oldest first.
    pub lines: Vec<u64>,
    /// What the loop itself used up after the point where it would have been stopped.
    pub after: Spend,
    /// The same by tool.
    pub tools: BTreeMap<String, Spend>,
    /// How it ended.
    pub end: End,
    /// Calls without any finding that followed, up to the next loop or the end.
    pub calls_after: u64,
    /// Why a stop here may have been a false alarm, if it may.
    pub doubt: Option<String>,
}

/// What one tool was used for in a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Habit {
    /// All its calls.
    pub calls: u64,
    /// Calls with the same arguments as the call before.
    pub again: u64,
}

impl Habit {
    /// Adds another to this one.
    pub fn add(&mut self, other: &Habit) {
        self.calls = self.calls.saturating_add(other.calls);
        self.again = self.again.saturating_add(other.again);
    }
}

/// How one run went.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Run {
    /// The session's name.
    pub session: String,
    /// It is a sub-agent of another.
    pub child: bool,
    /// Events of it.
    pub events: u64,
    /// All that it used up.
    pub spend: Spend,
    /// When it began, in milliseconds since 1970.
    pub began: Option<u64>,
    /// Its loops, in order.
    pub loops: Vec<Loop>,
    /// A budget of the policy would have ended it.
    pub over_budget: bool,
    /// Its tools.
    pub tools: BTreeMap<String, Habit>,
}

impl Run {
    /// Loops that would have been stopped, doubtful ones left out.
    pub fn stopped(&self) -> impl Iterator<Item = &Loop> {
        self.loops.iter().filter(|found| found.stop.is_some() && found.doubt.is_none())
    }

    /// Loops that would have been stopped and may be none.
    pub fn doubtful(&self) -> impl Iterator<Item = &Loop> {
        self.loops.iter().filter(|found| found.stop.is_some() && found.doubt.is_some())
    }

    /// What its loops used up after the points where they would have been stopped.
    #[must_use]
    pub fn saved(&self) -> Spend {
        let mut all = Spend::default();
        self.stopped().for_each(|found| all.add(&found.after));
        all
    }
}

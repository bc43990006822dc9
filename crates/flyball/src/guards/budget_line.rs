//! One budget as it stands: its name, its limit, what is used of it, and how that is said.

use super::Cx;
use crate::decision::{Severity, Trip};
use crate::fingerprint::Fingerprint;
use crate::limits::NAME_BYTES;
use crate::window::cut;
use serde::{Deserialize, Serialize};

/// One budget as it stands.
pub(super) struct Line<'a> {
    pub(super) scope: &'a str,
    pub(super) name: &'a str,
    pub(super) reason: &'a str,
    pub(super) limit: Option<u64>,
    pub(super) used: u64,
    /// The node, loop or session it belongs to.
    pub(super) whose: &'a str,
    /// A count is refused before it is exceeded; an amount is noticed after.
    pub(super) count: bool,
    pub(super) severity: Severity,
}

impl<'a> Line<'a> {
    /// An amount, noticed after it was used: time, tokens, money.
    pub(super) fn amount(scope: &'a str, name: &'a str, reason: &'a str) -> Self {
        Line { count: false, ..Line::count(scope, name, reason) }
    }

    /// A count, refused before it is exceeded. What one message may use ends with the message, so it is no halt.
    pub(super) fn count(scope: &'a str, name: &'a str, reason: &'a str) -> Self {
        let severity = if scope == "message" { Severity::Block } else { Severity::Halt };
        Line { scope, name, reason, limit: None, used: 0, whose: "", count: true, severity }
    }

    /// The node, loop or session it belongs to.
    pub(super) fn of(self, whose: &'a str) -> Self {
        Line { whose, ..self }
    }

    /// What is used, of what is allowed.
    pub(super) fn uses(self, used: u64, limit: Option<u64>) -> Self {
        Line { used, limit, ..self }
    }

    /// What is remembered when this was told, so that it is told once.
    pub(super) fn key(&self, stage: u8) -> Fingerprint {
        let whose = Fingerprint::of_text(self.whose).with(Fingerprint::of(&[stage]));
        Fingerprint::of_text(self.scope).with(Fingerprint::of_text(self.name)).with(whose)
    }
}

pub(super) fn raised_key(scope: &str, name: &str, whose: &str) -> Fingerprint {
    Fingerprint::of_text(scope).with(Fingerprint::of_text(name)).with(Fingerprint::of_text(whose))
}

/// A budget that stopped the session, as a release needs to know it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Tripped {
    pub(super) scope: String,
    pub(super) name: String,
    /// The node, loop or session it belongs to.
    pub(super) whose: String,
    pub(super) limit: u64,
    pub(super) used: u64,
}

impl Tripped {
    /// What a trip says of its budget.
    pub(crate) fn of(trip: &Trip) -> Option<Self> {
        let budget = trip.budget.as_ref()?;
        let whose =
            trip.scope.get(&budget.scope).filter(|whose| **whose != budget.name).cloned().unwrap_or_default();
        let whose = cut(&whose, NAME_BYTES).to_owned();
        Some(Tripped {
            scope: budget.scope.clone(),
            name: budget.name.clone(),
            whose,
            limit: budget.limit,
            used: budget.used,
        })
    }
}

/// How much of a budget is used, with its unit, for a sentence.
pub(crate) fn share(name: &str, used: u64, limit: u64) -> String {
    let dollars = |micro: u64| format!("${}.{:02}", micro / 1_000_000, micro % 1_000_000 / 10_000);
    match name {
        "runtime_ms" | "wall_ms" | "timeout_ms" => format!("{} of {}", duration(used), duration(limit)),
        "cost_micro_usd" => format!("{} of {}", dollars(used), dollars(limit)),
        "tool_calls" => format!("{used} of {limit} tool calls"),
        other => format!("{used} of {limit} {other}"),
    }
}

/// A duration in the two largest units that say something.
fn duration(ms: u64) -> String {
    let seconds = ms / 1000;
    match seconds {
        0 => format!("{ms}ms"),
        1..60 => format!("{seconds}s"),
        60..3600 => format!("{}m{}s", seconds / 60, seconds % 60),
        _ => format!("{}h{}m", seconds / 3600, seconds % 3600 / 60),
    }
}

pub(super) fn sentence(cx: &Cx<'_>, line: &Line<'_>, limit: u64) -> String {
    let share = share(line.name, line.used, limit);
    match (line.scope, line.name) {
        ("session", "runtime_ms" | "wall_ms") => {
            format!("session terminated: max runtime exceeded ({})", duration(limit))
        }
        ("session", _) => format!("the session has used {share}"),
        ("turn", "timeout_ms") => format!("the turn took {share}"),
        ("turn", _) => format!("the turn has used {share}"),
        ("node", _) => format!("node '{}' has used {share}", cx.label(line.whose)),
        ("loop", "iterations") => {
            format!("loop {} has gone round {} of {limit} times", line.whose, line.used)
        }
        ("loop", _) => format!("loop {} has used {share}", line.whose),
        ("message", _) => format!("{share} for one message are used"),
        _ => format!("the session '{}' above this one has used {share}", cx.label(line.whose)),
    }
}

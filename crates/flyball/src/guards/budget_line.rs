//! One budget as it stands: its name, its limit, what is used of it, and how that is said.

use super::Cx;
use crate::decision::{Severity, Trip};
use crate::fingerprint::Fingerprint;
use crate::limits::NAME_BYTES;
use crate::window::cut;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeMap;

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

/// What a grant is kept under. Not every event of a turn names its node, so a grant for a turn holds for all of them.
pub(super) fn granted_key(scope: &str, name: &str, whose: &str) -> Fingerprint {
    raised_key(scope, name, if scope == "turn" { "" } else { whose })
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
    /// Whether it is an amount (time, tokens, money), and not a count of acts.
    pub(super) fn is_amount(&self) -> bool {
        matches!(self.name.as_str(), "runtime_ms" | "wall_ms" | "tokens" | "cost_micro_usd" | "timeout_ms")
    }

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

/// What a release has granted.
pub(crate) struct Granted {
    pub(super) of: Tripped,
    /// How much more.
    pub(super) step: u64,
    /// How much in all.
    pub(super) limit: u64,
}

impl Granted {
    /// The fields of the effect `budget.raised`.
    pub(crate) fn fields(&self) -> BTreeMap<String, Value> {
        let Tripped { scope, name, whose, used, .. } = &self.of;
        let mut fields = BTreeMap::from([
            ("scope".to_owned(), json!(scope)),
            ("name".to_owned(), json!(name)),
            ("granted".to_owned(), json!(self.step)),
            ("limit".to_owned(), json!(self.limit)),
            ("used".to_owned(), json!(used)),
            ("text".to_owned(), json!(self.text())),
        ]);
        if !whose.is_empty() {
            fields.insert("of".to_owned(), json!(whose));
        }
        fields
    }

    /// What was granted, in the unit of the budget.
    fn text(&self) -> String {
        let Tripped { scope, name, whose, used, .. } = &self.of;
        let owner = match scope.as_str() {
            "turn" if whose.is_empty() => "the turn".to_owned(),
            "turn" => format!("a turn of node '{whose}'"),
            "node" => format!("node '{whose}'"),
            "loop" => whose.clone(),
            "message" => "the message".to_owned(),
            "tree" => format!("the session '{whose}' above this one"),
            _ => "the session".to_owned(),
        };
        let more = granted_amount(name, self.step).unwrap_or_else(|| format!("{} more", self.step));
        let (limit, used) = (amount(name, self.limit), amount(name, *used));
        format!("granted {more} to {owner}: {limit} in all, {used} used")
    }
}

/// How much more of a budget a release has granted, in its unit: `10m0s more runtime`, `3 more turns`. `None` if there is
/// no budget of this name.
#[must_use]
pub fn granted_amount(name: &str, step: u64) -> Option<String> {
    let noun = match name {
        "runtime_ms" => " runtime",
        "wall_ms" => " wall-clock time",
        "timeout_ms" => " time",
        "cost_micro_usd" => "",
        "tool_calls" => " tool calls",
        "tokens" => " tokens",
        "turns" => " turns",
        "iterations" => " iterations",
        "transitions" => " transitions",
        _ => return None,
    };
    let noun = if step == 1 { noun.trim_end_matches('s') } else { noun };
    Some(format!("{} more{noun}", amount(name, step)))
}

/// A value of a budget in its unit.
fn amount(name: &str, value: u64) -> String {
    match name {
        "runtime_ms" | "wall_ms" | "timeout_ms" => duration(value),
        "cost_micro_usd" => dollars(value),
        _ => value.to_string(),
    }
}

fn dollars(micro: u64) -> String {
    format!("${}.{:02}", micro / 1_000_000, micro % 1_000_000 / 10_000)
}

/// How much of a budget is used, with its unit, for a sentence.
pub(crate) fn share(name: &str, used: u64, limit: u64) -> String {
    match name {
        "runtime_ms" | "wall_ms" | "timeout_ms" | "cost_micro_usd" => {
            format!("{} of {}", amount(name, used), amount(name, limit))
        }
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

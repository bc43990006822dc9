//! One budget check: name, limit, usage and messages.

use super::GuardContext;
use crate::bounded_map::truncate_bytes;
use crate::decision::{Trip, TripSeverity};
use crate::fingerprint::Fingerprint;
use crate::limits::NAME_BYTES;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// One budget check.
pub(super) struct BudgetCheck<'a> {
    pub(super) scope: &'a str,
    pub(super) name: &'a str,
    pub(super) reason: &'a str,
    pub(super) limit: Option<u64>,
    pub(super) used: u64,
    /// The node, loop or session it belongs to.
    pub(super) owner: &'a str,
    /// Whether it is a count, checked before use, or an amount, checked after use.
    pub(super) count: bool,
    pub(super) severity: TripSeverity,
}

impl<'a> BudgetCheck<'a> {
    /// An amount, checked after use: time, tokens, money.
    pub(super) fn amount(scope: &'a str, name: &'a str, reason: &'a str) -> Self {
        BudgetCheck { count: false, ..BudgetCheck::count(scope, name, reason) }
    }

    /// A count, checked before use. A message budget ends with the message, so exceeding it blocks instead of halting.
    pub(super) fn count(scope: &'a str, name: &'a str, reason: &'a str) -> Self {
        let severity = if scope == "message" { TripSeverity::Block } else { TripSeverity::Halt };
        BudgetCheck { scope, name, reason, limit: None, used: 0, owner: "", count: true, severity }
    }

    /// Sets the node, loop or session that the budget belongs to.
    pub(super) fn for_owner(self, whose: &'a str) -> Self {
        BudgetCheck { owner: whose, ..self }
    }

    /// Sets the usage and the limit.
    pub(super) fn with_usage(self, used: u64, limit: Option<u64>) -> Self {
        BudgetCheck { used, limit, ..self }
    }

    /// Key under which an issued warning or trip is remembered, so that it is issued once.
    pub(super) fn key(&self, stage: u8) -> Fingerprint {
        let whose = Fingerprint::of_text(self.owner).combine(Fingerprint::of(&[stage]));
        Fingerprint::of_text(self.scope).combine(Fingerprint::of_text(self.name)).combine(whose)
    }
}

pub(super) fn raised_key(scope: &str, name: &str, whose: &str) -> Fingerprint {
    Fingerprint::of_text(scope).combine(Fingerprint::of_text(name)).combine(Fingerprint::of_text(whose))
}

/// Key of a grant. Not every event of a turn names its node, so a grant for a turn applies to all nodes.
pub(super) fn grant_key(scope: &str, name: &str, whose: &str) -> Fingerprint {
    raised_key(scope, name, if scope == "turn" { "" } else { whose })
}

/// An exhausted budget that halted the session; a release raises it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ExhaustedBudget {
    pub(super) scope: String,
    pub(super) name: String,
    /// The node, loop or session it belongs to.
    pub(super) owner: String,
    pub(super) limit: u64,
    pub(super) used: u64,
}

impl ExhaustedBudget {
    /// Whether it is an amount (time, tokens, money) rather than a count.
    pub(super) fn is_amount(&self) -> bool {
        matches!(self.name.as_str(), "runtime_ms" | "wall_ms" | "tokens" | "cost_micro_usd" | "timeout_ms")
    }

    /// The budget of a trip, if it has one.
    pub(crate) fn from_trip(trip: &Trip) -> Option<Self> {
        let budget = trip.budget.as_ref()?;
        let whose =
            trip.scope.get(&budget.scope).filter(|whose| **whose != budget.name).cloned().unwrap_or_default();
        let whose = truncate_bytes(&whose, NAME_BYTES).to_owned();
        Some(ExhaustedBudget {
            scope: budget.scope.clone(),
            name: budget.name.clone(),
            owner: whose,
            limit: budget.limit,
            used: budget.used,
        })
    }
}

/// A grant made by a release.
pub(crate) struct BudgetGrant {
    pub(super) budget: ExhaustedBudget,
    /// Granted amount.
    pub(super) step: u64,
    /// New total limit.
    pub(super) limit: u64,
}

impl BudgetGrant {
    /// The fields of the effect `budget.raised`.
    pub(crate) fn fields(&self) -> BTreeMap<String, Value> {
        let ExhaustedBudget { scope, name, owner: whose, used, .. } = &self.budget;
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

    /// Text of the grant, in the unit of the budget.
    fn text(&self) -> String {
        let ExhaustedBudget { scope, name, owner: whose, used, .. } = &self.budget;
        let owner = match scope.as_str() {
            "turn" if whose.is_empty() => "the turn".to_owned(),
            "turn" => format!("a turn of node '{whose}'"),
            "node" => format!("node '{whose}'"),
            "loop" => whose.clone(),
            "message" => "the message".to_owned(),
            "tree" => format!("the ancestor session '{whose}'"),
            _ => "the session".to_owned(),
        };
        let more = granted_amount(name, self.step).unwrap_or_else(|| format!("{} more", self.step));
        let (limit, used) = (format_amount(name, self.limit), format_amount(name, *used));
        format!("granted {more} to {owner}: {limit} in total, {used} used")
    }
}

/// Text for an amount granted by a release, in its unit: `10m0s more runtime`, `3 more turns`. `None` if there is no
/// budget of this name.
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
    Some(format!("{} more{noun}", format_amount(name, step)))
}

/// Formats a budget value in its unit.
fn format_amount(name: &str, value: u64) -> String {
    match name {
        "runtime_ms" | "wall_ms" | "timeout_ms" => format_duration(value),
        "cost_micro_usd" => format_usd(value),
        _ => value.to_string(),
    }
}

fn format_usd(micro: u64) -> String {
    format!("${}.{:02}", micro / 1_000_000, micro % 1_000_000 / 10_000)
}

/// Formats budget usage with its unit, for a sentence.
pub(crate) fn format_usage(name: &str, used: u64, limit: u64) -> String {
    match name {
        "runtime_ms" | "wall_ms" | "timeout_ms" | "cost_micro_usd" => {
            format!("{} of {}", format_amount(name, used), format_amount(name, limit))
        }
        "tool_calls" => format!("{used} of {limit} tool calls"),
        other => format!("{used} of {limit} {other}"),
    }
}

/// A duration in the two largest units. Not `units::format_duration`: these texts are in stored decisions, which never
/// change.
fn format_duration(ms: u64) -> String {
    let seconds = ms / 1000;
    match seconds {
        0 => format!("{ms}ms"),
        1..60 => format!("{seconds}s"),
        60..3600 => format!("{}m{}s", seconds / 60, seconds % 60),
        _ => format!("{}h{}m", seconds / 3600, seconds % 3600 / 60),
    }
}

pub(super) fn trip_message(cx: &GuardContext<'_>, line: &BudgetCheck<'_>, limit: u64) -> String {
    let share = format_usage(line.name, line.used, limit);
    match (line.scope, line.name) {
        ("session", "runtime_ms" | "wall_ms") => {
            format!("session terminated: max runtime exceeded ({})", format_duration(limit))
        }
        ("session", _) => format!("the session has used {share}"),
        ("turn", "timeout_ms") => format!("the turn took {share}"),
        ("turn", _) => format!("the turn has used {share}"),
        ("node", _) => format!("node '{}' has used {share}", cx.safe_name(line.owner)),
        ("loop", "iterations") => {
            let (owner, used) = (line.owner, line.used);
            cx.rules.wording(
                format!("loop {owner} has gone round {used} of {limit} times"),
                format!("loop {owner} has used {used} of {limit} iterations"),
            )
        }
        ("loop", _) => format!("loop {} has used {share}", line.owner),
        ("message", _) => cx
            .rules
            .wording(format!("{share} for one message are used"), format!("one message has used {share}")),
        _ => {
            let owner = cx.safe_name(line.owner);
            cx.rules.wording(
                format!("the session '{owner}' above this one has used {share}"),
                format!("the ancestor session '{owner}' has used {share}"),
            )
        }
    }
}

//! The report as its three forms need it: lists in their order, and the sentence that it opens with.

use super::figures::{amount, grouped, money, share};
use crate::words::plural;
use flyball_adapt::audit::{End, Line, Loop, Spend, Survey, ToolLine};

/// A survey with what it was made with.
pub(super) struct Report<'a> {
    pub(super) survey: &'a Survey,
    /// The preset of the policy.
    pub(super) preset: &'static str,
    /// The day of the price list.
    pub(super) dated: &'a str,
    /// How it was called, for the commands that are told.
    pub(super) paths: Vec<String>,
}

impl Report<'_> {
    /// The answer in one line.
    pub(super) fn answer(&self) -> String {
        let Survey { all, spent, .. } = self.survey;
        match (all.runs, all.looped) {
            (0, _) => "No transcript was found.".to_owned(),
            (1, 0) => "The one run did not loop.".to_owned(),
            (runs, 0) => format!("None of {} looped.", plural(runs, "run")),
            (runs, looped) => {
                let saved = saved(&all.saved, spent);
                format!("{} of {} looped; a stop would have saved {saved}.", grouped(looped), runs_of(runs))
            }
        }
    }

    /// The tools that loops are made of, the most wasteful first.
    pub(super) fn tools(&self) -> Vec<(&str, &ToolLine)> {
        let mut tools: Vec<(&str, &ToolLine)> =
            self.survey.tools.iter().map(|(name, line)| (name.as_str(), line)).collect();
        tools.sort_by_key(|(name, line)| (std::cmp::Reverse(order(&line.saved, line.loops)), *name));
        tools
    }

    /// The guards that found loops, the most saving first.
    pub(super) fn guards(&self) -> Vec<(&str, &Line)> {
        let mut guards: Vec<(&str, &Line)> =
            self.survey.guards.iter().map(|(name, line)| (name.as_str(), line)).collect();
        guards.sort_by_key(|(name, line)| (std::cmp::Reverse(order(&line.saved, line.loops)), *name));
        guards
    }

    /// Whether any money is known of.
    pub(super) fn priced(&self) -> bool {
        self.survey.spent.cost_micro_usd > 0
    }
}

fn order(saved: &Spend, loops: u64) -> [u64; 4] {
    [saved.cost_micro_usd, saved.tokens, saved.calls, loops]
}

fn runs_of(runs: u64) -> String {
    if runs == 1 { "1 run".to_owned() } else { format!("{} runs", grouped(runs)) }
}

/// What was saved, of what was spent: calls, and tokens and money if they are known.
fn saved(saved: &Spend, spent: &Spend) -> String {
    let calls =
        if saved.calls == 1 { "1 call".to_owned() } else { format!("{} calls", grouped(saved.calls)) };
    let mut parts = vec![format!("{calls} ({})", share(saved.calls, spent.calls))];
    if spent.tokens > 0 {
        parts.push(format!("{} tokens ({})", amount(saved.tokens), share(saved.tokens, spent.tokens)));
    }
    if spent.cost_micro_usd > 0 {
        let part = share(saved.cost_micro_usd, spent.cost_micro_usd);
        parts.push(format!("{} ({part})", money(saved.cost_micro_usd)));
    }
    parts.join(", ")
}

/// What a tool is called in a report.
pub(super) fn tool_name(name: &str) -> &str {
    if name.is_empty() { "(no tool)" } else { name }
}

/// How a loop went on and ended, in words.
pub(super) fn ending(found: &Loop) -> String {
    let long = match (found.period, found.repeats) {
        (Some(period), Some(repeats)) if period > 1 => format!("{repeats} passes of {period} calls"),
        _ => format!("{} in a row", found.count),
    };
    let end = match found.end {
        End::WithTheRun => "the run ended in it",
        End::MovedOn => "the agent went on to something else",
        End::NewResult => "the call told something new at last",
        End::Person => "a person stepped in",
    };
    match found.guard.as_str() {
        "repetition" | "cycle" => format!("it came to {long}, then {end}"),
        _ => format!("it went on up to line {}, then {end}", found.last),
    }
}

/// A day as it is written: `2026-11-10`.
pub(super) fn day(day: u64) -> String {
    crate::words::moment(day.saturating_mul(24 * 60 * 60 * 1000)).get(..10).unwrap_or_default().to_owned()
}

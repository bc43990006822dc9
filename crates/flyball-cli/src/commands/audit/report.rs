//! Report data shared by the three output formats: sorted lists and the headline.

use crate::formatting::plural;
use crate::formatting::{format_amount, format_count, format_dollars, format_percent};
use flyball_integrations::audit::{AuditSummary, LoopEnd, LoopFinding, LoopTotals, Spend, ToolTotals};

/// An audit summary with the settings it was made with.
pub(super) struct AuditReport<'a> {
    pub(super) audit_summary: &'a AuditSummary,
    /// The preset of the policy.
    pub(super) preset: &'static str,
    /// The date of the price list.
    pub(super) prices_date: &'a str,
    /// The command-line paths, for printed commands.
    pub(super) paths: Vec<String>,
}

impl AuditReport<'_> {
    /// The result in one line.
    pub(super) fn headline(&self) -> String {
        let AuditSummary { totals: all, spent, .. } = self.audit_summary;
        match (all.runs, all.looped_runs) {
            (0, _) => "No transcripts found.".to_owned(),
            (1, 0) => "The only run did not loop.".to_owned(),
            (runs, 0) => format!("None of {} looped.", plural(runs, "run")),
            (runs, looped) => {
                let saved = savings_text(&all.saved, spent);
                format!(
                    "{} of {} looped; stopping the loops would have saved {saved}.",
                    format_count(looped),
                    plural_runs(runs)
                )
            }
        }
    }

    /// Tools found in loops, the most wasteful first.
    pub(super) fn tools_by_waste(&self) -> Vec<(&str, &ToolTotals)> {
        let mut tools: Vec<(&str, &ToolTotals)> =
            self.audit_summary.tools.iter().map(|(name, line)| (name.as_str(), line)).collect();
        tools.sort_by_key(|(name, line)| (std::cmp::Reverse(savings_rank(&line.saved, line.loops)), *name));
        tools
    }

    /// Guards that found loops, by savings.
    pub(super) fn guards_by_savings(&self) -> Vec<(&str, &LoopTotals)> {
        let mut guards: Vec<(&str, &LoopTotals)> =
            self.audit_summary.guards.iter().map(|(name, line)| (name.as_str(), line)).collect();
        guards.sort_by_key(|(name, line)| (std::cmp::Reverse(savings_rank(&line.saved, line.loops)), *name));
        guards
    }

    /// Whether any cost is known.
    pub(super) fn has_costs(&self) -> bool {
        self.audit_summary.spent.cost_micro_usd > 0
    }
}

fn savings_rank(saved: &Spend, loops: u64) -> [u64; 4] {
    [saved.cost_micro_usd, saved.tokens, saved.calls, loops]
}

fn plural_runs(runs: u64) -> String {
    if runs == 1 { "1 run".to_owned() } else { format!("{} runs", format_count(runs)) }
}

/// The savings and their share of the total: calls, and tokens and cost if known.
fn savings_text(saved: &Spend, spent: &Spend) -> String {
    let calls =
        if saved.calls == 1 { "1 call".to_owned() } else { format!("{} calls", format_count(saved.calls)) };
    let mut parts = vec![format!("{calls} ({})", format_percent(saved.calls, spent.calls))];
    if spent.tokens > 0 {
        parts.push(format!(
            "{} tokens ({})",
            format_amount(saved.tokens),
            format_percent(saved.tokens, spent.tokens)
        ));
    }
    if spent.cost_micro_usd > 0 {
        let part = format_percent(saved.cost_micro_usd, spent.cost_micro_usd);
        parts.push(format!("{} ({part})", format_dollars(saved.cost_micro_usd)));
    }
    parts.join(", ")
}

/// The displayed name of a tool.
pub(super) fn tool_name(name: &str) -> &str {
    if name.is_empty() { "(no tool)" } else { name }
}

/// How a loop continued and ended, in words.
pub(super) fn loop_outcome_text(found: &LoopFinding) -> String {
    let long = match (found.period, found.repeats) {
        (Some(period), Some(repeats)) if period > 1 => format!("{repeats} passes of {period} calls"),
        _ => format!("{} in a row", found.count),
    };
    let end = match found.end {
        LoopEnd::WithTheRun => "the run ended",
        LoopEnd::MovedOn => "the agent moved on",
        LoopEnd::NewResult => "the call returned something new",
        LoopEnd::Person => "a person stepped in",
    };
    match found.guard.as_str() {
        "repetition" | "cycle" => format!("it reached {long}, then {end}"),
        _ => format!("it continued to line {}, then {end}", found.last),
    }
}

/// A day in ISO format: `2026-11-10`.
pub(super) fn format_day(day: u64) -> String {
    crate::formatting::utc_time(day.saturating_mul(24 * 60 * 60 * 1000))
        .get(..10)
        .unwrap_or_default()
        .to_owned()
}

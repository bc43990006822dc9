//! Suggests a policy for the audited runs: limits just above the longest harmless streaks, polling tools declared as
//! such, and budgets above the usage of healthy runs.
//!
//! A limit is raised only if every observed loop is still stopped. If harmless streaks were as long as loops, the limit
//! is kept, and the policy file says so.

use super::summary::{AuditSummary, RunUsage, StreakLengths};
use flyball::Policy;
use std::collections::BTreeMap;

/// Minimum number of healthy runs for suggesting budgets.
const MIN_HEALTHY_RUNS: usize = 10;
/// Default number of identical calls allowed for a polling tool.
const DEFAULT_POLL_LIMIT: u64 = 20;
/// Minimum suggested session runtime.
const MIN_RUNTIME_MINUTES: u64 = 15;

/// A suggested policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SuggestedPolicy {
    /// The policy file, with comments.
    pub text: String,
    /// Number of changed values.
    pub changes: usize,
    /// Harmless streaks as long as loops.
    pub inseparable: Vec<String>,
}

/// A suggested value: the resulting limit, its YAML and the reason.
type SuggestedValue = (u64, String, String);

/// Suggested values by guard and key; a guard set as a whole has one value with an empty key.
type SuggestedValues = BTreeMap<&'static str, BTreeMap<&'static str, SuggestedValue>>;

/// Values for the policy file.
#[derive(Debug, Default)]
struct SuggestionDraft {
    guards: SuggestedValues,
    tools: BTreeMap<String, SuggestedValues>,
    inseparable: Vec<String>,
}

/// Computes a policy from an audit.
#[must_use]
pub fn suggest_policy(summary: &AuditSummary, policy: &Policy) -> SuggestedPolicy {
    let mut draft = SuggestionDraft::default();
    for ((guard, sign, tool), reach) in &summary.streaks {
        if let Some(harmless) = reach.longest_harmless {
            draft.widen_limit(summary, policy, (guard, sign, tool), harmless, reach);
        }
    }
    let budgets = budgets(&summary.healthy_usage);
    let values = draft.tools.values().chain([&draft.guards]).flat_map(BTreeMap::values);
    let changes = values.map(BTreeMap::len).sum::<usize>() + budgets.len();
    let text = draft.render(summary, policy, &budgets);
    SuggestedPolicy { text, changes, inseparable: draft.inseparable }
}

impl SuggestionDraft {
    /// Raises a limit above harmless streaks, if every loop is still stopped.
    fn widen_limit(
        &mut self,
        summary: &AuditSummary,
        policy: &Policy,
        (guard, sign, tool): (&str, &str, &str),
        harmless: u64,
        reach: &StreakLengths,
    ) {
        let why = match reach.shortest_loop {
            Some(harmful) => format!("harmless streaks reached {harmless}, loops started at {harmful}"),
            None => format!("harmless streaks reached {harmless}, and none was a loop"),
        };
        let below = |limit: u64| reach.shortest_loop.is_none_or(|harmful| limit < harmful);
        let upto = |limit: u64| reach.shortest_loop.is_none_or(|harmful| limit <= harmful);
        let waits = summary.tools.get(tool).is_some_and(|line| line.counts.repeated * 2 >= line.counts.calls);
        let room =
            (harmless + harmless.div_ceil(4)).min(reach.shortest_loop.unwrap_or(u64::MAX).saturating_sub(1));
        match (guard, sign) {
            ("repetition", _)
                if reach.ended_with_new_result > 0 && waits && below(room.max(DEFAULT_POLL_LIMIT)) =>
            {
                self.set_value(tool, "effect", "", (0, "poll".to_owned(), format!("it polls: {why}")));
                if room > DEFAULT_POLL_LIMIT {
                    self.set_value(tool, "repetition", "poll_limit", (room, room.to_string(), why));
                }
            }
            ("repetition", _) if below(harmless) => {
                self.set_value(tool, "repetition", "limit", (room, room.to_string(), why));
            }
            // A cycle spans several tools, so its limit is raised globally.
            ("cycle", "cycle_detected") if !tool.is_empty() && upto(harmless + 1) => {
                let repeats = harmless + 1;
                self.set_value("", "cycle", "calls", (repeats, format!("{{repeats: {repeats}}}"), why));
            }
            ("recurrence", "recurrence") if harmless < 60 && upto(harmless + 1) => {
                let stale = harmless + 1;
                let window = policy.guards.recurrence.window.max(stale + 5).min(64);
                self.set_value(tool, "recurrence", "stale", (stale, stale.to_string(), why));
                self.set_value(tool, "recurrence", "window", (window, window.to_string(), String::new()));
            }
            ("recurrence", "drift") if upto(harmless + 1) => {
                let drift = harmless + 1;
                self.set_value(tool, "recurrence", "drift", (drift, drift.to_string(), why));
            }
            ("error_streak", "consecutive_failures") if upto(harmless + 1) => {
                let any = harmless / 2 + 1;
                self.set_value("", "error_streak", "any", (any, any.to_string(), why));
            }
            // Three identical failures are stopped regardless of the limits; only the guard's mode can allow them.
            ("error_streak", "repeated_error") if !tool.is_empty() && reach.shortest_loop.is_none() => {
                self.set_value(tool, "error_streak", "", (0, "warn".to_owned(), why));
            }
            ("monologue", _) if upto(harmless + 1) => {
                let limit = harmless / 2 + 1;
                self.set_value("", "monologue", "limit", (limit, limit.to_string(), why));
            }
            _ => {
                let whose = if tool.is_empty() { String::new() } else { format!(" of {tool}") };
                self.inseparable.push(format!("{guard}{whose}: {why}"));
            }
        }
    }

    /// Sets a value for a tool, or for all tools if the name is empty. The widest of several values wins.
    fn set_value(&mut self, tool: &str, guard: &'static str, key: &'static str, value: SuggestedValue) {
        let values = match tool {
            "" => &mut self.guards,
            tool => self.tools.entry(tool.to_owned()).or_default(),
        };
        let known = values.entry(guard).or_default().entry(key).or_insert_with(|| value.clone());
        if known.0 < value.0 {
            *known = value;
        }
    }

    fn render(&self, summary: &AuditSummary, policy: &Policy, budgets: &[(String, String)]) -> String {
        let mut text = format!(
            "# Policy suggested by an audit: {} runs, {} of them looped, {} stops looked like false \
             alarms.\n# Written by `flyball audit --write-policy`. Review it with `flyball check` and \
             `flyball config --policy`.\nversion: 1\npreset: {}\n",
            summary.totals.runs,
            summary.totals.looped_runs,
            summary.doubtful_count,
            policy.preset.as_str(),
        );
        if summary.healthy_usage.len() < MIN_HEALTHY_RUNS {
            text.push_str(&format!(
                "\n# No budgets: {} healthy runs are too few to estimate usage (at least {MIN_HEALTHY_RUNS} \
                 are needed).\n",
                summary.healthy_usage.len()
            ));
        }
        if !budgets.is_empty() {
            text.push_str("\nbudgets:\n  session:\n");
            for (value, why) in budgets {
                text.push_str(&format!("    {value}  # {why}\n"));
            }
        }
        if !self.guards.is_empty() {
            text.push_str("\nguards:\n");
            write_values(&mut text, &self.guards, "  ");
        }
        if !self.tools.is_empty() {
            text.push_str("\ntools:\n");
            for (tool, values) in &self.tools {
                text.push_str(&format!("  {}:\n", yaml_key(tool)));
                write_values(&mut text, values, "    ");
            }
        }
        if !self.inseparable.is_empty() {
            text.push_str("\n# Harmless streaks as long as loops; nothing is changed for these:\n");
            for what in &self.inseparable {
                text.push_str(&format!("#   {}\n", one_line(what)));
            }
        }
        text
    }
}

/// Writes the guards' values, each below a comment with its reason.
fn write_values(text: &mut String, values: &SuggestedValues, indent: &str) {
    for (guard, keys) in values {
        for (_, _, why) in keys.values().filter(|(_, _, why)| !why.is_empty()) {
            text.push_str(&format!("{indent}# {}\n", one_line(why)));
        }
        let fields = keys.iter().filter(|(key, _)| !key.is_empty());
        let fields: Vec<String> = fields.map(|(key, (_, value, _))| format!("{key}: {value}")).collect();
        let whole = keys.get("").map(|(_, value, _)| value.clone());
        let value = whole.unwrap_or_else(|| format!("{{{}}}", fields.join(", ")));
        text.push_str(&format!("{indent}{guard}: {value}\n"));
    }
}

/// Budgets: the 99th percentile of healthy runs plus 50 %.
fn budgets(used: &[RunUsage]) -> Vec<(String, String)> {
    let mut found = Vec::new();
    if used.len() < MIN_HEALTHY_RUNS {
        return found;
    }
    let at = |which: usize| {
        let mut values: Vec<u64> = used.iter().filter_map(|run| run.get(which).copied()).collect();
        values.sort_unstable();
        let rank = (values.len() * 99).div_ceil(100).max(1);
        values.get(rank - 1).copied().unwrap_or(0)
    };
    let why = |what: String| format!("99 % of healthy runs use at most {what}; plus 50 %");
    let [tokens, cost, time, calls] = [at(0), at(1), at(2), at(3)];
    if tokens > 0 {
        found.push((format!("tokens: {}", round_up(with_margin(tokens))), why(tokens.to_string())));
    }
    if cost > 0 {
        let cents = round_up(with_margin(cost).div_ceil(10_000));
        let shown = format!("${}.{:02}", cost / 1_000_000, cost % 1_000_000 / 10_000);
        found.push((format!("cost_usd: {}.{:02}", cents / 100, cents % 100), why(shown)));
    }
    if time >= 60_000 {
        // A session limit must not be shorter than a typical turn.
        let minutes = round_up(with_margin(time).div_ceil(60_000)).max(MIN_RUNTIME_MINUTES);
        found.push((format!("runtime: {minutes}m"), why(format!("{} minutes", time.div_ceil(60_000)))));
    }
    if calls > 0 {
        found.push((format!("tool_calls: {}", round_up(with_margin(calls))), why(calls.to_string())));
    }
    found
}

fn with_margin(value: u64) -> u64 {
    value.saturating_add(value.div_ceil(2))
}

/// Rounds up to two significant digits.
fn round_up(value: u64) -> u64 {
    let mut unit = 1_u64;
    while value / unit >= 100 {
        unit *= 10;
    }
    value.div_ceil(unit).saturating_mul(unit)
}

/// A name as a YAML key, quoted if necessary.
fn yaml_key(name: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    let letter = name.starts_with(|c: char| c.is_ascii_alphabetic());
    // Words with a special meaning in YAML are short and have no capital letters.
    if letter && name.len() > 5 && name.chars().all(plain) {
        return name.to_owned();
    }
    serde_json::to_string(name).unwrap_or_default()
}

fn one_line(text: &str) -> String {
    text.chars().map(|c| if flyball::is_deceptive(c) { ' ' } else { c }).collect()
}

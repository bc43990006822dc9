//! A policy that fits what was seen: limits just above the longest rows that did no harm, tools that wait for
//! something named as such, and budgets with room above what healthy runs use.
//!
//! A limit is raised only as far as every loop that was seen is still stopped. Where harmless rows were as long as
//! loops, nothing is raised, and the policy says so.

use super::survey::{Reach, Survey, Used};
use flyball::Policy;
use std::collections::BTreeMap;

/// Fewer healthy runs than this say little about what runs use.
const ENOUGH_RUNS: usize = 10;
/// How often a tool that waits may be called with the same arguments, if the policy says nothing else.
const POLL_LIMIT: u64 = 20;
/// No session is given less time than this.
const SHORTEST_MINUTES: u64 = 15;

/// A policy that fits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fit {
    /// The file, with its comments.
    pub text: String,
    /// How many values it changes.
    pub changes: usize,
    /// Rows that could not be told from loops by their length.
    pub inseparable: Vec<String>,
}

/// One value: how wide it makes the limit, how it is written, and why.
type Value = (u64, String, String);

/// The values of guards, by guard and key; a guard that is set as a whole has one with an empty key.
type Values = BTreeMap<&'static str, BTreeMap<&'static str, Value>>;

/// What is put into the file.
#[derive(Debug, Default)]
struct Draft {
    guards: Values,
    tools: BTreeMap<String, Values>,
    inseparable: Vec<String>,
}

/// Works out the policy.
#[must_use]
pub fn fit(survey: &Survey, policy: &Policy) -> Fit {
    let mut draft = Draft::default();
    for ((guard, sign, tool), reach) in &survey.reaches {
        if let Some(harmless) = reach.harmless {
            draft.row(survey, policy, (guard, sign, tool), harmless, reach);
        }
    }
    let budgets = budgets(&survey.used);
    let values = draft.tools.values().chain([&draft.guards]).flat_map(BTreeMap::values);
    let changes = values.map(BTreeMap::len).sum::<usize>() + budgets.len();
    let text = draft.write(survey, policy, &budgets);
    Fit { text, changes, inseparable: draft.inseparable }
}

impl Draft {
    /// Makes room for one kind of row, if that lets no loop through.
    fn row(
        &mut self,
        survey: &Survey,
        policy: &Policy,
        (guard, sign, tool): (&str, &str, &str),
        harmless: u64,
        reach: &Reach,
    ) {
        let why = match reach.harmful {
            Some(harmful) => format!("harmless rows went to {harmless}, loops began at {harmful}"),
            None => format!("harmless rows went to {harmless}, none of them was a loop"),
        };
        let below = |limit: u64| reach.harmful.is_none_or(|harmful| limit < harmful);
        let upto = |limit: u64| reach.harmful.is_none_or(|harmful| limit <= harmful);
        let waits = survey.tools.get(tool).is_some_and(|line| line.habit.again * 2 >= line.habit.calls);
        let room = (harmless + harmless.div_ceil(4)).min(reach.harmful.unwrap_or(u64::MAX).saturating_sub(1));
        match (guard, sign) {
            ("repetition", _) if reach.waited > 0 && waits && below(room.max(POLL_LIMIT)) => {
                self.put(
                    tool,
                    "effect",
                    "",
                    (0, "poll".to_owned(), format!("it waits for something: {why}")),
                );
                if room > POLL_LIMIT {
                    self.put(tool, "repetition", "poll_limit", (room, room.to_string(), why));
                }
            }
            ("repetition", _) if below(harmless) => {
                self.put(tool, "repetition", "limit", (room, room.to_string(), why));
            }
            // The calls of a circle are of several tools: it is made room for as a whole.
            ("cycle", "cycle_detected") if !tool.is_empty() && upto(harmless + 1) => {
                let repeats = harmless + 1;
                self.put("", "cycle", "calls", (repeats, format!("{{repeats: {repeats}}}"), why));
            }
            ("recurrence", "recurrence") if harmless < 60 && upto(harmless + 1) => {
                let stale = harmless + 1;
                let window = policy.guards.recurrence.window.max(stale + 5).min(64);
                self.put(tool, "recurrence", "stale", (stale, stale.to_string(), why));
                self.put(tool, "recurrence", "window", (window, window.to_string(), String::new()));
            }
            ("recurrence", "drift") if upto(harmless + 1) => {
                let drift = harmless + 1;
                self.put(tool, "recurrence", "drift", (drift, drift.to_string(), why));
            }
            ("error_streak", "consecutive_failures") if upto(harmless + 1) => {
                let any = harmless / 2 + 1;
                self.put("", "error_streak", "any", (any, any.to_string(), why));
            }
            // The very same failure three times is stopped whatever the limits say; only the mode spares it.
            ("error_streak", "repeated_error") if !tool.is_empty() && reach.harmful.is_none() => {
                self.put(tool, "error_streak", "", (0, "warn".to_owned(), why));
            }
            ("monologue", _) if upto(harmless + 1) => {
                let limit = harmless / 2 + 1;
                self.put("", "monologue", "limit", (limit, limit.to_string(), why));
            }
            _ => {
                let whose = if tool.is_empty() { String::new() } else { format!(" of {tool}") };
                self.inseparable.push(format!("{guard}{whose}: {why}"));
            }
        }
    }

    /// Puts a value under a tool, or under all if it has no name. Of several the widest wins.
    fn put(&mut self, tool: &str, guard: &'static str, key: &'static str, value: Value) {
        let values = match tool {
            "" => &mut self.guards,
            tool => self.tools.entry(tool.to_owned()).or_default(),
        };
        let known = values.entry(guard).or_default().entry(key).or_insert_with(|| value.clone());
        if known.0 < value.0 {
            *known = value;
        }
    }

    fn write(&self, survey: &Survey, policy: &Policy, budgets: &[(String, String)]) -> String {
        let mut text = format!(
            "# A policy that fits a history: {} runs, {} of them looped, {} stops looked like false alarms.\n\
             # Written by `flyball audit --write-policy`. Look at it with `flyball check` and `flyball config --policy`.\n\
             version: 1\n\
             preset: {}\n",
            survey.all.runs,
            survey.all.looped,
            survey.doubtful,
            policy.preset.as_str(),
        );
        if survey.used.len() < ENOUGH_RUNS {
            text.push_str(&format!(
                "\n# No budgets: {} healthy runs are too few to say what a run uses (at least {ENOUGH_RUNS}).\n",
                survey.used.len()
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
                text.push_str(&format!("  {}:\n", quoted(tool)));
                write_values(&mut text, values, "    ");
            }
        }
        if !self.inseparable.is_empty() {
            text.push_str("\n# Harmless, but not to be told from loops by their length; nothing is changed for these:\n");
            for what in &self.inseparable {
                text.push_str(&format!("#   {}\n", one_line(what)));
            }
        }
        text
    }
}

/// The values of guards, each with its reason above it.
fn write_values(text: &mut String, values: &Values, indent: &str) {
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

/// Budgets: what 99 of 100 healthy runs stay below, and half as much again.
fn budgets(used: &[Used]) -> Vec<(String, String)> {
    let mut found = Vec::new();
    if used.len() < ENOUGH_RUNS {
        return found;
    }
    let at = |which: usize| {
        let mut values: Vec<u64> = used.iter().filter_map(|run| run.get(which).copied()).collect();
        values.sort_unstable();
        let rank = (values.len() * 99).div_ceil(100).max(1);
        values.get(rank - 1).copied().unwrap_or(0)
    };
    let why = |what: String| format!("99 of 100 healthy runs stay at or below {what}; half as much again");
    let [tokens, cost, time, calls] = [at(0), at(1), at(2), at(3)];
    if tokens > 0 {
        found.push((format!("tokens: {}", round(more(tokens))), why(tokens.to_string())));
    }
    if cost > 0 {
        let cents = round(more(cost).div_ceil(10_000));
        let shown = format!("${}.{:02}", cost / 1_000_000, cost % 1_000_000 / 10_000);
        found.push((format!("cost_usd: {}.{:02}", cents / 100, cents % 100), why(shown)));
    }
    if time >= 60_000 {
        // A session shorter than a turn may take makes no sense.
        let minutes = round(more(time).div_ceil(60_000)).max(SHORTEST_MINUTES);
        found.push((format!("runtime: {minutes}m"), why(format!("{} minutes", time.div_ceil(60_000)))));
    }
    if calls > 0 {
        found.push((format!("tool_calls: {}", round(more(calls))), why(calls.to_string())));
    }
    found
}

fn more(value: u64) -> u64 {
    value.saturating_add(value.div_ceil(2))
}

/// Rounded up to two digits that count.
fn round(value: u64) -> u64 {
    let mut unit = 1_u64;
    while value / unit >= 100 {
        unit *= 10;
    }
    value.div_ceil(unit).saturating_mul(unit)
}

/// A name as a key of YAML, whatever is in it.
fn quoted(name: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    let letter = name.starts_with(|c: char| c.is_ascii_alphabetic());
    // Words that YAML takes for something else have no capital letters and few letters.
    if letter && name.len() > 5 && name.chars().all(plain) {
        return name.to_owned();
    }
    serde_json::to_string(name).unwrap_or_default()
}

fn one_line(text: &str) -> String {
    text.chars().map(|c| if flyball::is_deceptive(c) { ' ' } else { c }).collect()
}

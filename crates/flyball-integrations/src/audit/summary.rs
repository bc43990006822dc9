//! Sums over all files of an audit. The result does not depend on their order, so threads can each sum a share.

use super::auditor::FileFindings;
use super::finding::{AuditedRun, LoopFinding, ToolCallCounts};
use super::spend::Spend;
use super::top_loops::TopLoops;
use crate::transcript::TranscriptSummary;
use flyball::Fingerprint;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// Number of worst loops kept.
const MAX_WORST_LOOPS: usize = 10;
/// Number of doubtful loops kept.
const MAX_DOUBTFUL_LOOPS: usize = 10;
/// Number of unreadable files listed.
const MAX_LISTED_FILES: usize = 20;
/// Maximum number of distinct tools, models and days; the rest are counted as one group.
const MAX_GROUPS: usize = 20_000;
/// The group for the rest.
const OTHER_GROUP: &str = "(others)";
const DAY_MS: u64 = 24 * 60 * 60 * 1000;

/// Totals of a group: runs, loops and savings.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct LoopTotals {
    /// Runs.
    pub runs: u64,
    /// Runs that looped.
    #[serde(rename = "looped")]
    pub looped_runs: u64,
    /// Loops that would have been stopped.
    pub loops: u64,
    /// Spend that a stop would have saved.
    pub saved: Spend,
}

impl LoopTotals {
    fn add(&mut self, other: &LoopTotals) {
        self.runs += other.runs;
        self.looped_runs += other.looped_runs;
        self.loops += other.loops;
        self.saved.add(&other.saved);
    }
}

/// Totals of a tool.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct ToolTotals {
    /// Its call counts.
    #[serde(flatten)]
    pub counts: ToolCallCounts,
    /// Loops that involve it.
    pub loops: u64,
    /// Spend that a stop would have saved.
    pub saved: Spend,
}

/// Days since 1970, in UTC.
pub type UnixDay = u64;

/// Totals of the audited files.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct FileTotals {
    /// Transcripts.
    pub read: u64,
    /// Size of all files, in bytes.
    pub bytes: u64,
    /// Files of unknown format.
    #[serde(rename = "foreign")]
    pub unknown_format: u64,
    /// Files that could not be read completely.
    pub broken: u64,
    /// Transcripts whose last line is incomplete.
    pub unfinished: u64,
}

/// A file that could not be read completely.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct UnreadableFile {
    /// The file, and the line if known.
    #[serde(rename = "place")]
    pub location: String,
    /// The error code.
    pub code: String,
    /// The error message.
    #[serde(rename = "what")]
    pub message: String,
}

/// Streak lengths of a guard and tool.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct StreakLengths {
    /// The longest harmless streak, that is, a doubtful loop.
    pub(super) longest_harmless: Option<u64>,
    /// Number of harmless streaks that ended with a new result.
    pub(super) ended_with_new_result: u64,
    /// The shortest loop.
    pub(super) shortest_loop: Option<u64>,
}

/// The usage of one run, for percentiles.
pub(super) type RunUsage = [u64; 4];

/// Sums over all files of an audit.
#[derive(Debug, Clone)]
pub struct AuditSummary {
    /// File totals.
    pub files: FileTotals,
    /// Events that could not be evaluated.
    pub skipped_events: u64,
    /// Totals over all runs.
    pub totals: LoopTotals,
    /// Runs that are sub-agents.
    pub sub_agent_runs: u64,
    /// Runs with warnings only.
    pub warned_runs: u64,
    /// Runs that a budget would have ended.
    pub over_budget_runs: u64,
    /// Events of all runs.
    pub events: u64,
    /// Spend of all runs.
    pub spent: Spend,
    /// By guard.
    pub guards: BTreeMap<String, LoopTotals>,
    /// By tool; the empty name collects loops without a tool.
    pub tools: BTreeMap<String, ToolTotals>,
    /// By format.
    pub formats: BTreeMap<&'static str, LoopTotals>,
    /// By day: runs by start, loops by stop.
    pub days: BTreeMap<UnixDay, LoopTotals>,
    /// Tokens without a known price, by model.
    pub unpriced: BTreeMap<String, u64>,
    /// Number of doubtful loops.
    pub doubtful_count: u64,
    /// The most significant doubtful loops.
    pub top_doubtful: TopLoops,
    /// The first files of unknown format.
    pub unknown_files: BTreeSet<String>,
    /// The first unreadable files.
    pub broken_files: BTreeSet<UnreadableFile>,
    /// Runs that looped, as fingerprints of file and session.
    pub looped_runs: BTreeSet<Fingerprint>,
    /// Runs with doubtful stops, as fingerprints of file and session.
    pub doubtful_runs: BTreeSet<Fingerprint>,
    worst: [TopLoops; 3],
    pub(super) streaks: BTreeMap<(String, String, String), StreakLengths>,
    pub(super) healthy_usage: Vec<RunUsage>,
}

impl Default for AuditSummary {
    fn default() -> Self {
        AuditSummary {
            files: FileTotals::default(),
            skipped_events: 0,
            totals: LoopTotals::default(),
            sub_agent_runs: 0,
            warned_runs: 0,
            over_budget_runs: 0,
            events: 0,
            spent: Spend::default(),
            guards: BTreeMap::new(),
            tools: BTreeMap::new(),
            formats: BTreeMap::new(),
            days: BTreeMap::new(),
            unpriced: BTreeMap::new(),
            doubtful_count: 0,
            top_doubtful: TopLoops::by_calls(MAX_DOUBTFUL_LOOPS),
            unknown_files: BTreeSet::new(),
            broken_files: BTreeSet::new(),
            looped_runs: BTreeSet::new(),
            doubtful_runs: BTreeSet::new(),
            worst: [
                TopLoops::by_cost(MAX_WORST_LOOPS),
                TopLoops::by_tokens(MAX_WORST_LOOPS),
                TopLoops::by_calls(MAX_WORST_LOOPS),
            ],
            streaks: BTreeMap::new(),
            healthy_usage: Vec::new(),
        }
    }
}

impl AuditSummary {
    /// Adds a transcript.
    pub fn add_file(&mut self, findings: &FileFindings, summary: &TranscriptSummary, bytes: u64) {
        self.files.read += 1;
        self.files.bytes += bytes;
        self.files.unfinished += u64::from(summary.unfinished);
        self.add_runs(findings, Some(summary.format.name()));
    }

    /// Adds the part that was read from a broken file.
    pub fn add_broken_file(&mut self, findings: &FileFindings, why: UnreadableFile, bytes: u64) {
        self.files.broken += 1;
        self.files.bytes += bytes;
        keep_first(&mut self.broken_files, why);
        self.add_runs(findings, None);
    }

    /// Adds a file of unknown format.
    pub fn add_unknown_file(&mut self, file: String, bytes: u64) {
        self.files.unknown_format += 1;
        self.files.bytes += bytes;
        keep_first(&mut self.unknown_files, file);
    }

    /// Adds another summary.
    pub fn merge(&mut self, other: AuditSummary) {
        let FileTotals { read, bytes, unknown_format: foreign, broken, unfinished } = other.files;
        self.files.read += read;
        self.files.bytes += bytes;
        self.files.unknown_format += foreign;
        self.files.broken += broken;
        self.files.unfinished += unfinished;
        self.skipped_events += other.skipped_events;
        self.totals.add(&other.totals);
        self.sub_agent_runs += other.sub_agent_runs;
        self.warned_runs += other.warned_runs;
        self.over_budget_runs += other.over_budget_runs;
        self.events += other.events;
        self.spent.add(&other.spent);
        other.guards.into_iter().for_each(|(name, line)| self.guards.entry(name).or_default().add(&line));
        other.tools.into_iter().for_each(|(name, line)| add_tool(&mut self.tools, &name, &line));
        other.formats.into_iter().for_each(|(name, line)| self.formats.entry(name).or_default().add(&line));
        other.days.into_iter().for_each(|(day, line)| self.days.entry(day).or_default().add(&line));
        other.unpriced.into_iter().for_each(|(model, tokens)| self.add_unpriced(&model, tokens));
        self.doubtful_count += other.doubtful_count;
        other.top_doubtful.as_slice().iter().for_each(|found| self.top_doubtful.insert(found));
        other.unknown_files.into_iter().for_each(|file| keep_first(&mut self.unknown_files, file));
        other.broken_files.into_iter().for_each(|file| keep_first(&mut self.broken_files, file));
        for (mine, theirs) in self.worst.iter_mut().zip(&other.worst) {
            theirs.as_slice().iter().for_each(|found| mine.insert(found));
        }
        for (key, reach) in other.streaks {
            self.streaks.entry(key).or_default().add(&reach);
        }
        self.looped_runs.extend(other.looped_runs);
        self.doubtful_runs.extend(other.doubtful_runs);
        self.healthy_usage.extend(other.healthy_usage);
    }

    /// Merges the streak lengths of an audit under another policy, to suggest a policy again.
    pub fn merge_streaks(&mut self, other: &AuditSummary) {
        for (key, reach) in &other.streaks {
            self.streaks.entry(key.clone()).or_default().add(reach);
        }
    }

    /// The worst loops: by cost if every price is known, otherwise by tokens or calls.
    #[must_use]
    pub fn worst_loops(&self) -> &[LoopFinding] {
        let [by_cost, by_tokens, by_calls] = &self.worst;
        let priced = self.totals.saved.cost_micro_usd > 0 && self.unpriced.is_empty();
        let best = if priced {
            by_cost
        } else if self.totals.saved.tokens > 0 {
            by_tokens
        } else {
            by_calls
        };
        best.as_slice()
    }

    fn add_runs(&mut self, findings: &FileFindings, format: Option<&'static str>) {
        self.skipped_events += findings.skipped_events;
        findings.unpriced.iter().for_each(|(model, tokens)| self.add_unpriced(model, *tokens));
        for run in &findings.runs {
            self.add_run(run, format);
        }
    }

    fn add_run(&mut self, run: &AuditedRun, format: Option<&'static str>) {
        let looped = run.stopped_loops().next().is_some();
        let loops = run.stopped_loops().count() as u64;
        let line = LoopTotals { runs: 1, looped_runs: u64::from(looped), loops, saved: run.savings() };
        self.totals.add(&line);
        self.events += run.events;
        self.sub_agent_runs += u64::from(run.is_sub_agent);
        self.over_budget_runs += u64::from(run.over_budget);
        self.warned_runs += u64::from(!looped && run.loops.iter().any(|found| found.stop.is_none()));
        self.spent.add(&run.spend);
        if let Some(format) = format {
            self.formats.entry(format).or_default().add(&line);
        }
        if let Some(at) = run.started_at {
            let began = LoopTotals { runs: 1, looped_runs: u64::from(looped), ..LoopTotals::default() };
            self.days.entry(at / DAY_MS).or_default().add(&began);
        }
        for (tool, habit) in &run.tools {
            add_tool(&mut self.tools, tool, &ToolTotals { counts: *habit, ..ToolTotals::default() });
        }
        if !looped {
            self.healthy_usage.push([
                run.spend.tokens,
                run.spend.cost_micro_usd,
                run.spend.time_ms,
                run.spend.calls,
            ]);
        }
        let mut guards: BTreeSet<&str> = BTreeSet::new();
        for found in run.stopped_loops() {
            let first = guards.insert(&found.guard);
            self.add_stopped_loop(found, first, run.started_at);
        }
        let key = |found: &LoopFinding| {
            Fingerprint::of_text(&found.file).combine(Fingerprint::of_text(&found.session))
        };
        self.looped_runs.extend(run.stopped_loops().map(key));
        self.doubtful_runs.extend(run.doubtful_loops().map(key));
        for found in run.doubtful_loops() {
            self.doubtful_count += 1;
            self.top_doubtful.insert(found);
        }
        run.loops.iter().for_each(|found| self.add_streak(found));
    }

    fn add_stopped_loop(&mut self, found: &LoopFinding, first: bool, began: Option<u64>) {
        let line = LoopTotals {
            runs: u64::from(first),
            looped_runs: u64::from(first),
            loops: 1,
            saved: found.wasted,
        };
        self.guards.entry(found.guard.clone()).or_default().add(&line);
        let at = found.stop.as_ref().and_then(|stop| stop.at).or(began);
        if let Some(at) = at {
            let line = LoopTotals { loops: 1, saved: found.wasted, ..LoopTotals::default() };
            self.days.entry(at / DAY_MS).or_default().add(&line);
        }
        for (tool, saved) in &found.tools {
            add_tool(&mut self.tools, tool, &ToolTotals { loops: 1, saved: *saved, ..ToolTotals::default() });
        }
        if found.tools.is_empty() {
            // Stopped at its last step: nothing is saved, but the loop counts for this tool.
            let tool = found.tool.as_deref().unwrap_or_default();
            add_tool(&mut self.tools, tool, &ToolTotals { loops: 1, ..ToolTotals::default() });
        }
        self.worst.iter_mut().for_each(|top| top.insert(found));
    }

    /// Records the length of a streak and whether it was harmless.
    fn add_streak(&mut self, found: &LoopFinding) {
        if found.stop.is_none() {
            return;
        }
        let harmless = found.doubt.is_some();
        let reach = StreakLengths {
            longest_harmless: harmless.then_some(found.count),
            ended_with_new_result: u64::from(harmless && found.end == super::finding::LoopEnd::NewResult),
            shortest_loop: (!harmless).then_some(found.count),
        };
        let tool = found.tool.clone().unwrap_or_default();
        let sign = found.sign.clone().unwrap_or_else(|| found.reason.clone());
        self.streaks.entry((found.guard.clone(), sign, tool)).or_default().add(&reach);
    }

    fn add_unpriced(&mut self, model: &str, tokens: u64) {
        let name = group_name(&self.unpriced, model);
        let known = self.unpriced.entry(name.to_owned()).or_default();
        *known = known.saturating_add(tokens);
    }
}

impl StreakLengths {
    fn add(&mut self, other: &StreakLengths) {
        self.longest_harmless = self.longest_harmless.max(other.longest_harmless);
        self.ended_with_new_result += other.ended_with_new_result;
        self.shortest_loop = match (self.shortest_loop, other.shortest_loop) {
            (Some(left), Some(right)) => Some(left.min(right)),
            (left, right) => left.or(right),
        };
    }
}

fn add_tool(tools: &mut BTreeMap<String, ToolTotals>, name: &str, line: &ToolTotals) {
    let known = tools.entry(group_name(tools, name).to_owned()).or_default();
    known.counts.add(&line.counts);
    known.loops += line.loops;
    known.saved.add(&line.saved);
}

/// The group of a name: the name itself if it is known or the limit is not reached, otherwise the group for the rest.
fn group_name<'a, V>(map: &BTreeMap<String, V>, name: &'a str) -> &'a str {
    if map.len() < MAX_GROUPS || map.contains_key(name) { name } else { OTHER_GROUP }
}

/// Inserts a value and keeps only the first few.
fn keep_first<T: Ord>(set: &mut BTreeSet<T>, value: T) {
    set.insert(value);
    if set.len() > MAX_LISTED_FILES {
        set.pop_last();
    }
}

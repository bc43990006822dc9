//! All files of an audit added up. The sum does not depend on the order in which they come, so that any number of
//! threads may each add up their own share.

use super::auditor::Findings;
use super::finding::{Habit, Loop, Run};
use super::spend::Spend;
use super::top::Top;
use crate::source::Summary;
use flyball::Fingerprint;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// How many of the worst are kept.
const WORST: usize = 10;
/// How many doubtful loops are kept.
const DOUBTFUL: usize = 10;
/// How many files that could not be read are named.
const NAMED: usize = 20;
/// How many tools, models and days are told apart; further ones are counted together.
const KINDS: usize = 20_000;
/// Where further ones are counted.
const OTHERS: &str = "(others)";
const DAY_MS: u64 = 24 * 60 * 60 * 1000;

/// A line of a table: loops, the runs they are in, and what a stop would have saved.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Line {
    /// Runs.
    pub runs: u64,
    /// Runs that looped.
    pub looped: u64,
    /// Loops that would have been stopped.
    pub loops: u64,
    /// What a stop would have saved.
    pub saved: Spend,
}

impl Line {
    fn add(&mut self, other: &Line) {
        self.runs += other.runs;
        self.looped += other.looped;
        self.loops += other.loops;
        self.saved.add(&other.saved);
    }
}

/// A line of the table of tools.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct ToolLine {
    /// How it is used.
    #[serde(flatten)]
    pub habit: Habit,
    /// Loops that it is part of.
    pub loops: u64,
    /// What a stop would have saved.
    pub saved: Spend,
}

/// Days since 1970, in UTC.
pub type Day = u64;

/// Files that were looked at.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct FileTotals {
    /// Transcripts.
    pub read: u64,
    /// Bytes of all files.
    pub bytes: u64,
    /// Files of no known format.
    pub foreign: u64,
    /// Files that could not be read, or not to their end.
    pub broken: u64,
    /// Transcripts whose last line is only half written.
    pub unfinished: u64,
}

/// A file that could not be read, or not to its end.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Unread {
    /// The file, and the line if there is one.
    pub place: String,
    /// The stable code.
    pub code: String,
    /// What is wrong.
    pub what: String,
}

/// How long rows of a guard and a tool became.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Reach {
    /// The longest that were harmless: doubtful ones.
    pub(super) harmless: Option<u64>,
    /// Rows of these that ended with a new result.
    pub(super) waited: u64,
    /// The shortest that were loops.
    pub(super) harmful: Option<u64>,
}

/// What one run used up, for the percentiles.
pub(super) type Used = [u64; 4];

/// All files added up.
#[derive(Debug, Clone)]
pub struct Survey {
    /// The files.
    pub files: FileTotals,
    /// Events that could not be counted.
    pub left_out: u64,
    /// Runs, those that looped, their loops, and what a stop would have saved.
    pub all: Line,
    /// Runs that are sub-agents of others.
    pub children: u64,
    /// Runs that were only warned.
    pub warned: u64,
    /// Runs that a budget of the policy would have ended.
    pub over_budget: u64,
    /// Events of all runs.
    pub events: u64,
    /// All that all runs used up.
    pub spent: Spend,
    /// By guard.
    pub guards: BTreeMap<String, Line>,
    /// By tool; an empty name stands for loops without a tool.
    pub tools: BTreeMap<String, ToolLine>,
    /// By format.
    pub formats: BTreeMap<&'static str, Line>,
    /// By day: runs by their beginning, loops by their stop.
    pub days: BTreeMap<Day, Line>,
    /// Tokens that no price is known for, by model.
    pub unpriced: BTreeMap<String, u64>,
    /// How many doubtful loops there are.
    pub doubtful: u64,
    /// The doubtful ones that matter most.
    pub doubts: Top,
    /// The first files of no known format.
    pub foreign: BTreeSet<String>,
    /// The first files that could not be read.
    pub broken: BTreeSet<Unread>,
    /// The runs that looped, each by the fingerprint of its file and session.
    pub looped_runs: BTreeSet<Fingerprint>,
    /// The runs with doubtful stops, in the same way.
    pub doubtful_runs: BTreeSet<Fingerprint>,
    worst: [Top; 3],
    pub(super) reaches: BTreeMap<(String, String, String), Reach>,
    pub(super) used: Vec<Used>,
}

impl Default for Survey {
    fn default() -> Self {
        Survey {
            files: FileTotals::default(),
            left_out: 0,
            all: Line::default(),
            children: 0,
            warned: 0,
            over_budget: 0,
            events: 0,
            spent: Spend::default(),
            guards: BTreeMap::new(),
            tools: BTreeMap::new(),
            formats: BTreeMap::new(),
            days: BTreeMap::new(),
            unpriced: BTreeMap::new(),
            doubtful: 0,
            doubts: Top::by_calls(DOUBTFUL),
            foreign: BTreeSet::new(),
            broken: BTreeSet::new(),
            looped_runs: BTreeSet::new(),
            doubtful_runs: BTreeSet::new(),
            worst: [Top::by_cost(WORST), Top::by_tokens(WORST), Top::by_calls(WORST)],
            reaches: BTreeMap::new(),
            used: Vec::new(),
        }
    }
}

impl Survey {
    /// Adds a transcript.
    pub fn take(&mut self, findings: &Findings, summary: &Summary, bytes: u64) {
        self.files.read += 1;
        self.files.bytes += bytes;
        self.files.unfinished += u64::from(summary.unfinished);
        self.runs(findings, Some(summary.format.name()));
    }

    /// Adds what was read of a file that breaks off.
    pub fn take_broken(&mut self, findings: &Findings, why: Unread, bytes: u64) {
        self.files.broken += 1;
        self.files.bytes += bytes;
        first_few(&mut self.broken, why);
        self.runs(findings, None);
    }

    /// Adds a file of no known format.
    pub fn take_foreign(&mut self, file: String, bytes: u64) {
        self.files.foreign += 1;
        self.files.bytes += bytes;
        first_few(&mut self.foreign, file);
    }

    /// Adds another survey.
    pub fn merge(&mut self, other: Survey) {
        let FileTotals { read, bytes, foreign, broken, unfinished } = other.files;
        self.files.read += read;
        self.files.bytes += bytes;
        self.files.foreign += foreign;
        self.files.broken += broken;
        self.files.unfinished += unfinished;
        self.left_out += other.left_out;
        self.all.add(&other.all);
        self.children += other.children;
        self.warned += other.warned;
        self.over_budget += other.over_budget;
        self.events += other.events;
        self.spent.add(&other.spent);
        other.guards.into_iter().for_each(|(name, line)| self.guards.entry(name).or_default().add(&line));
        other.tools.into_iter().for_each(|(name, line)| add_tool(&mut self.tools, &name, &line));
        other.formats.into_iter().for_each(|(name, line)| self.formats.entry(name).or_default().add(&line));
        other.days.into_iter().for_each(|(day, line)| self.days.entry(day).or_default().add(&line));
        other.unpriced.into_iter().for_each(|(model, tokens)| self.unpriced(&model, tokens));
        self.doubtful += other.doubtful;
        other.doubts.list().iter().for_each(|found| self.doubts.take(found));
        other.foreign.into_iter().for_each(|file| first_few(&mut self.foreign, file));
        other.broken.into_iter().for_each(|file| first_few(&mut self.broken, file));
        for (mine, theirs) in self.worst.iter_mut().zip(&other.worst) {
            theirs.list().iter().for_each(|found| mine.take(found));
        }
        for (key, reach) in other.reaches {
            self.reaches.entry(key).or_default().add(&reach);
        }
        self.looped_runs.extend(other.looped_runs);
        self.doubtful_runs.extend(other.doubtful_runs);
        self.used.extend(other.used);
    }

    /// Takes over how long rows became under another policy, so that a policy can be fitted once more.
    pub fn learn(&mut self, other: &Survey) {
        for (key, reach) in &other.reaches {
            self.reaches.entry(key.clone()).or_default().add(reach);
        }
    }

    /// The worst loops: by money if a price is known for everything, else by tokens, else by calls.
    #[must_use]
    pub fn worst(&self) -> &[Loop] {
        let [by_cost, by_tokens, by_calls] = &self.worst;
        let priced = self.all.saved.cost_micro_usd > 0 && self.unpriced.is_empty();
        let best = if priced {
            by_cost
        } else if self.all.saved.tokens > 0 {
            by_tokens
        } else {
            by_calls
        };
        best.list()
    }

    fn runs(&mut self, findings: &Findings, format: Option<&'static str>) {
        self.left_out += findings.left_out;
        findings.unpriced.iter().for_each(|(model, tokens)| self.unpriced(model, *tokens));
        for run in &findings.runs {
            self.run(run, format);
        }
    }

    fn run(&mut self, run: &Run, format: Option<&'static str>) {
        let looped = run.stopped().next().is_some();
        let loops = run.stopped().count() as u64;
        let line = Line { runs: 1, looped: u64::from(looped), loops, saved: run.saved() };
        self.all.add(&line);
        self.events += run.events;
        self.children += u64::from(run.child);
        self.over_budget += u64::from(run.over_budget);
        self.warned += u64::from(!looped && run.loops.iter().any(|found| found.stop.is_none()));
        self.spent.add(&run.spend);
        if let Some(format) = format {
            self.formats.entry(format).or_default().add(&line);
        }
        if let Some(at) = run.began {
            let began = Line { runs: 1, looped: u64::from(looped), ..Line::default() };
            self.days.entry(at / DAY_MS).or_default().add(&began);
        }
        for (tool, habit) in &run.tools {
            add_tool(&mut self.tools, tool, &ToolLine { habit: *habit, ..ToolLine::default() });
        }
        if !looped {
            self.used.push([run.spend.tokens, run.spend.cost_micro_usd, run.spend.time_ms, run.spend.calls]);
        }
        let mut guards: BTreeSet<&str> = BTreeSet::new();
        for found in run.stopped() {
            let first = guards.insert(&found.guard);
            self.stopped(found, first, run.began);
        }
        let key = |found: &Loop| Fingerprint::of_text(&found.file).with(Fingerprint::of_text(&found.session));
        self.looped_runs.extend(run.stopped().map(key));
        self.doubtful_runs.extend(run.doubtful().map(key));
        for found in run.doubtful() {
            self.doubtful += 1;
            self.doubts.take(found);
        }
        run.loops.iter().for_each(|found| self.reach(found));
    }

    fn stopped(&mut self, found: &Loop, first: bool, began: Option<u64>) {
        let line = Line { runs: u64::from(first), looped: u64::from(first), loops: 1, saved: found.after };
        self.guards.entry(found.guard.clone()).or_default().add(&line);
        let at = found.stop.as_ref().and_then(|stop| stop.at).or(began);
        if let Some(at) = at {
            let line = Line { loops: 1, saved: found.after, ..Line::default() };
            self.days.entry(at / DAY_MS).or_default().add(&line);
        }
        for (tool, saved) in &found.tools {
            add_tool(&mut self.tools, tool, &ToolLine { loops: 1, saved: *saved, ..ToolLine::default() });
        }
        if found.tools.is_empty() {
            // It was stopped at its last step: nothing is saved, but it is a loop of this tool.
            let tool = found.tool.as_deref().unwrap_or_default();
            add_tool(&mut self.tools, tool, &ToolLine { loops: 1, ..ToolLine::default() });
        }
        self.worst.iter_mut().for_each(|top| top.take(found));
    }

    /// Remembers how long a row became, and whether it was harmless.
    fn reach(&mut self, found: &Loop) {
        if found.stop.is_none() {
            return;
        }
        let harmless = found.doubt.is_some();
        let reach = Reach {
            harmless: harmless.then_some(found.count),
            waited: u64::from(harmless && found.end == super::finding::End::NewResult),
            harmful: (!harmless).then_some(found.count),
        };
        let tool = found.tool.clone().unwrap_or_default();
        let sign = found.sign.clone().unwrap_or_else(|| found.reason.clone());
        self.reaches.entry((found.guard.clone(), sign, tool)).or_default().add(&reach);
    }

    fn unpriced(&mut self, model: &str, tokens: u64) {
        let name = room(&self.unpriced, model);
        let known = self.unpriced.entry(name.to_owned()).or_default();
        *known = known.saturating_add(tokens);
    }
}

impl Reach {
    fn add(&mut self, other: &Reach) {
        self.harmless = self.harmless.max(other.harmless);
        self.waited += other.waited;
        self.harmful = match (self.harmful, other.harmful) {
            (Some(left), Some(right)) => Some(left.min(right)),
            (left, right) => left.or(right),
        };
    }
}

fn add_tool(tools: &mut BTreeMap<String, ToolLine>, name: &str, line: &ToolLine) {
    let known = tools.entry(room(tools, name).to_owned()).or_default();
    known.habit.add(&line.habit);
    known.loops += line.loops;
    known.saved.add(&line.saved);
}

/// The name, if it is known or there is room for one more.
fn room<'a, V>(map: &BTreeMap<String, V>, name: &'a str) -> &'a str {
    if map.len() < KINDS || map.contains_key(name) { name } else { OTHERS }
}

/// Keeps the first few in order.
fn first_few<T: Ord>(set: &mut BTreeSet<T>, value: T) {
    set.insert(value);
    if set.len() > NAMED {
        set.pop_last();
    }
}

//! Reads a tool's results, whatever they are written in, into findings.
//!
//! The way of the data: the results file or the standard output -> the reader of its format -> [`Reading`]. What
//! cannot be read as what it should be is read as text, and the reading says so; it is then not whole, and a check
//! with a reading that is not whole never passes.

mod cargo;
mod eslint;
mod go;
mod jest;
mod junit;
mod libtest;
mod plain;
mod plain_js;
mod plain_tests;
mod pytest;
mod ruff;
mod rust_text;
mod sarif;
mod tap;

use super::finding::{Finding, without_doubles};
use super::format::{Format, sniff};
use super::text::{Place, is_own, relative};
use flyball::CheckKind;
use flyball::text::without_codes;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// What a tool left behind when it ended.
#[derive(Debug, Clone, Copy)]
pub struct Raw<'a> {
    /// What it printed.
    pub stdout: &'a str,
    /// What it complained about.
    pub stderr: &'a str,
    /// What stands in its results file, if it has one and wrote it.
    pub results: Option<&'a str>,
    /// Whether it was to write a results file.
    pub wants_results: bool,
    /// Whether a part of the output was not kept.
    pub truncated: bool,
    /// What the gate looks at.
    pub kind: CheckKind,
    /// The folder that files are named from; empty if it is not known.
    pub root: &'a Path,
    /// The module of a Go project, as its `go.mod` names it.
    pub module: Option<&'a str>,
}

impl Raw<'_> {
    /// A file as seen from the workspace's folder.
    fn relative(&self, file: &str) -> String {
        relative(self.root, file)
    }

    /// A place, if it lies in the workspace and is the project's own. If the folder is not known, a full path may be.
    fn own(&self, at: &Place<'_>) -> Option<(String, Option<u32>)> {
        let file = self.relative(at.file);
        let is_full = file.starts_with('/') || file.get(1..3) == Some(":\\");
        let outside = file.starts_with('<') || file.starts_with("..") || is_full && self.has_root();
        (!outside && is_own(at.file)).then_some((file, Some(at.line)))
    }

    /// Whether the folder that files are named from is known.
    fn has_root(&self) -> bool {
        !self.root.as_os_str().is_empty()
    }

    /// Everything that was printed for people: no lines of JSON, no colours.
    fn words(&self) -> String {
        let mut out = String::new();
        for line in without_codes(self.stdout).lines().chain(without_codes(self.stderr).lines()) {
            let is_json = line.starts_with('{') && line.trim_end().ends_with('}');
            if !is_json {
                out.push_str(line);
                out.push('\n');
            }
        }
        out
    }
}

/// How many tests there were.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Those that passed.
    pub passed: u64,
    /// Those that failed or could not run.
    pub failed: u64,
    /// Those that were left out on purpose.
    pub skipped: u64,
}

impl Counts {
    /// All of them.
    #[must_use]
    pub const fn total(&self) -> u64 {
        self.passed.saturating_add(self.failed).saturating_add(self.skipped)
    }

    fn add(&mut self, other: Counts) {
        self.passed = self.passed.saturating_add(other.passed);
        self.failed = self.failed.saturating_add(other.failed);
        self.skipped = self.skipped.saturating_add(other.skipped);
    }
}

/// What was read out of a tool's results.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reading {
    /// What it was read as.
    pub format: Format,
    /// What was found.
    pub findings: Vec<Finding>,
    /// How many tests there were, if the results say.
    pub tests: Option<Counts>,
    /// Tests that failed and then passed when the tool itself tried them again.
    pub flaky: Vec<String>,
    /// Whether some tests could not run at all, so that the number of failing ones says little.
    pub partial: bool,
    /// Whether the results were there to their end.
    pub whole: bool,
    /// The output in words for people.
    pub text: String,
    /// What the words of the output hint at. Counts only if the command failed and nothing else says why.
    pub hints: Vec<Finding>,
    /// What a reader of the report should know about the reading itself.
    pub notes: Vec<String>,
}

/// The most findings of one gate; nobody reads more, and a run that finds more is broken in one place.
const MOST: usize = 5_000;

/// Why results could not be read, in words that go on after "could not be read as …: ".
struct Broken(String);

impl Broken {
    fn new(why: impl Into<String>) -> Self {
        Broken(why.into())
    }
}

/// What a reader of one format found.
#[derive(Default)]
struct Parsed {
    findings: Vec<Finding>,
    tests: Option<Counts>,
    flaky: Vec<String>,
    partial: bool,
    /// The output in words, if it is not what was printed anyway.
    text: Option<String>,
    /// What is missing, if the results end too early.
    missing: Option<String>,
}

/// Reads the results in a format; `Auto` finds out which.
#[must_use]
pub fn read(format: Format, raw: &Raw<'_>) -> Reading {
    let source = raw.results.unwrap_or(if raw.wants_results { "" } else { raw.stdout });
    let wanted = if format == Format::Auto { sniff(source) } else { format };
    if wanted == Format::Plain {
        return plainly(raw, format == Format::Plain || !raw.truncated);
    }
    let parsed = if raw.wants_results && raw.results.is_none() {
        Err(Broken::new("no results file was written"))
    } else if raw.truncated && raw.results.is_none() {
        Err(Broken::new("the output was too long to be kept whole"))
    } else {
        parse(wanted, source, raw)
    };
    match parsed {
        Ok(parsed) => accepted(wanted, parsed, raw),
        Err(Broken(why)) => fallen_back(wanted, &why, raw),
    }
}

fn parse(format: Format, source: &str, raw: &Raw<'_>) -> Result<Parsed, Broken> {
    match format {
        Format::Cargo => cargo::read(source, raw),
        Format::Junit => junit::read(source, raw),
        Format::GoTest => go::read(source, raw),
        Format::Jest => jest::read(source, raw),
        Format::Eslint => eslint::read(source, raw),
        Format::Ruff => ruff::read(source, raw),
        Format::Sarif => sarif::read(source, raw),
        Format::Tap => tap::read(source, raw),
        Format::Libtest => libtest::read(source, raw),
        Format::Auto | Format::Plain => Ok(plain::read(raw)),
    }
}

fn accepted(format: Format, parsed: Parsed, raw: &Raw<'_>) -> Reading {
    let mut reading = Reading {
        format,
        findings: parsed.findings,
        tests: parsed.tests,
        flaky: parsed.flaky,
        partial: parsed.partial || parsed.missing.is_some(),
        whole: parsed.missing.is_none(),
        text: parsed.text.unwrap_or_else(|| raw.words()),
        hints: Vec::new(),
        notes: Vec::new(),
    };
    from_here(&mut reading.findings, raw.root);
    without_doubles(&mut reading.findings);
    if reading.findings.len() > MOST {
        reading.notes.push(format!("{} more findings are not listed", reading.findings.len() - MOST));
        reading.findings.truncate(MOST);
        reading.partial = true;
    }
    if format != Format::Plain && !reading.findings.iter().any(Finding::is_failure) {
        reading.hints = plain::read(raw).findings;
        reading.hints.retain(Finding::is_failure);
        from_here(&mut reading.hints, raw.root);
        without_doubles(&mut reading.hints);
    }
    if let Some(missing) = parsed.missing {
        reading.notes.push(format!("the results are not whole: {missing}"));
    }
    reading
}

/// The results are not what they should be: whatever else the output holds is read, and the reading says so.
fn fallen_back(wanted: Format, why: &str, raw: &Raw<'_>) -> Reading {
    let printed = Raw { results: None, wants_results: false, ..*raw };
    let other = sniff(raw.stdout);
    let second =
        if other.is_machine() && !raw.truncated { parse(other, raw.stdout, &printed).ok() } else { None };
    let mut reading = match second {
        Some(parsed) if !parsed.findings.is_empty() => accepted(other, parsed, &printed),
        _ => plainly(&printed, false),
    };
    let note = format!(
        "the results could not be read as {}: {why}; read as {} instead",
        wanted.words(),
        reading.format.words()
    );
    reading.notes.insert(0, note);
    (reading.whole, reading.partial) = (false, true);
    reading
}

fn plainly(raw: &Raw<'_>, whole: bool) -> Reading {
    let parsed = plain::read(raw);
    let mut reading = accepted(Format::Plain, parsed, raw);
    reading.whole = whole;
    reading
}

/// Messages name files as the findings do: from the workspace's folder.
fn from_here(findings: &mut [Finding], root: &Path) {
    let Some(prefix) = root.to_str().filter(|root| root.len() > 1).map(|root| format!("{root}/")) else {
        return;
    };
    for finding in findings.iter_mut().filter(|finding| finding.message.contains(&prefix)) {
        finding.message = finding.message.replace(&format!("file://{prefix}"), "").replace(&prefix, "");
    }
}

/// Findings in words, one a line: for tools that print nothing else.
fn listed(findings: &[Finding]) -> String {
    findings.iter().map(|finding| format!("{finding}\n")).collect()
}

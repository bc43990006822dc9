//! Parses a tool's results in any supported format into findings.
//!
//! The results file or standard output is passed to the parser of its format, which returns [`ParsedResults`]. Results
//! that do not match the expected format are parsed as text. The results then say so and are incomplete, and a check
//! with incomplete results never passes.

mod cargo;
mod eslint;
mod go_test;
mod jest;
mod junit;
mod libtest;
mod plain;
mod plain_js;
mod plain_test_runners;
mod pytest;
mod ruff;
mod rust_text;
mod sarif;
mod tap;

use super::finding::{CheckFinding, dedup_findings};
use super::format::{ResultsFormat, detect_format};
use super::source_location::{SourceLocation, is_project_file, relative_to};
use flyball::CheckKind;
use flyball::text::strip_ansi;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// The output of a finished tool.
#[derive(Debug, Clone, Copy)]
pub struct RawResults<'a> {
    /// Standard output.
    pub stdout: &'a str,
    /// Standard error.
    pub stderr: &'a str,
    /// The contents of the results file, if there is one.
    pub results: Option<&'a str>,
    /// Whether a results file was expected.
    pub wants_results: bool,
    /// Whether part of the output was dropped.
    pub truncated: bool,
    /// The kind of check.
    pub kind: CheckKind,
    /// The folder that file names are relative to; empty if unknown.
    pub root: &'a Path,
    /// The Go module name from `go.mod`.
    pub module: Option<&'a str>,
}

impl RawResults<'_> {
    /// A file name relative to the workspace folder.
    fn relative(&self, file: &str) -> String {
        relative_to(self.root, file)
    }

    /// A location, if it is in the workspace and belongs to the project. If the folder is unknown, absolute paths are
    /// accepted.
    fn project_location(&self, at: &SourceLocation<'_>) -> Option<(String, Option<u32>)> {
        let file = self.relative(at.file);
        let is_full = file.starts_with('/') || file.get(1..3) == Some(":\\");
        let outside = file.starts_with('<') || file.starts_with("..") || is_full && self.has_root();
        (!outside && is_project_file(at.file)).then_some((file, Some(at.line)))
    }

    /// Whether the workspace folder is known.
    fn has_root(&self) -> bool {
        !self.root.as_os_str().is_empty()
    }

    /// The human-readable output, without JSON lines and colors.
    fn human_output(&self) -> String {
        let mut out = String::new();
        for line in strip_ansi(self.stdout).lines().chain(strip_ansi(self.stderr).lines()) {
            let is_json = line.starts_with('{') && line.trim_end().ends_with('}');
            if !is_json {
                out.push_str(line);
                out.push('\n');
            }
        }
        out
    }
}

/// Test counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TestCounts {
    /// Passed tests.
    pub passed: u64,
    /// Tests that failed or could not run.
    pub failed: u64,
    /// Skipped tests.
    pub skipped: u64,
}

impl TestCounts {
    /// All tests.
    #[must_use]
    pub const fn total(&self) -> u64 {
        self.passed.saturating_add(self.failed).saturating_add(self.skipped)
    }

    fn add(&mut self, other: TestCounts) {
        self.passed = self.passed.saturating_add(other.passed);
        self.failed = self.failed.saturating_add(other.failed);
        self.skipped = self.skipped.saturating_add(other.skipped);
    }
}

/// The results parsed from a tool's output.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ParsedResults {
    /// The format they were parsed as.
    pub format: ResultsFormat,
    /// The findings.
    pub findings: Vec<CheckFinding>,
    /// The test counts, if known.
    pub tests: Option<TestCounts>,
    /// Tests that failed and then passed when the tool retried them.
    pub flaky: Vec<String>,
    /// Whether some tests could not run at all, so that the number of failures is not meaningful.
    pub partial: bool,
    /// Whether the results are complete.
    pub complete: bool,
    /// The human-readable output.
    pub text: String,
    /// Possible findings in the text. Used only if the command failed and nothing else explains it.
    pub hints: Vec<CheckFinding>,
    /// Notes about the parsing itself, for the report.
    pub notes: Vec<String>,
}

/// Maximum number of findings per check; more usually have one common cause.
const MAX_FINDINGS: usize = 5_000;

/// The reason why results could not be parsed; completes "could not be read as …: ".
struct ParseFailure(String);

impl ParseFailure {
    fn new(why: impl Into<String>) -> Self {
        ParseFailure(why.into())
    }
}

/// The output of one format's parser.
#[derive(Default)]
struct ParserOutput {
    findings: Vec<CheckFinding>,
    tests: Option<TestCounts>,
    flaky: Vec<String>,
    partial: bool,
    /// The human-readable output, if it differs from the printed one.
    text: Option<String>,
    /// The missing part, if the results are truncated.
    missing: Option<String>,
}

/// Parses results in a format; `Auto` detects it.
#[must_use]
pub fn read(format: ResultsFormat, raw: &RawResults<'_>) -> ParsedResults {
    let source = raw.results.unwrap_or(if raw.wants_results { "" } else { raw.stdout });
    let wanted = if format == ResultsFormat::Auto { detect_format(source) } else { format };
    if wanted == ResultsFormat::Plain {
        return parse_plain(raw, format == ResultsFormat::Plain || !raw.truncated);
    }
    let parsed = if raw.wants_results && raw.results.is_none() {
        Err(ParseFailure::new("no results file was written"))
    } else if raw.truncated && raw.results.is_none() {
        Err(ParseFailure::new("the output was too long to keep"))
    } else {
        parse_format(wanted, source, raw)
    };
    match parsed {
        Ok(parsed) => from_parser_output(wanted, parsed, raw),
        Err(ParseFailure(why)) => parse_fallback(wanted, &why, raw),
    }
}

fn parse_format(
    format: ResultsFormat,
    source: &str,
    raw: &RawResults<'_>,
) -> Result<ParserOutput, ParseFailure> {
    match format {
        ResultsFormat::Cargo => cargo::parse_cargo(source, raw),
        ResultsFormat::Junit => junit::parse_junit(source, raw),
        ResultsFormat::GoTest => go_test::parse_go_test(source, raw),
        ResultsFormat::Jest => jest::parse_jest(source, raw),
        ResultsFormat::Eslint => eslint::parse_eslint(source, raw),
        ResultsFormat::Ruff => ruff::parse_ruff(source, raw),
        ResultsFormat::Sarif => sarif::parse_sarif(source, raw),
        ResultsFormat::Tap => tap::parse_tap(source, raw),
        ResultsFormat::Libtest => libtest::parse_libtest(source, raw),
        ResultsFormat::Auto | ResultsFormat::Plain => Ok(plain::parse_plain_text(raw)),
    }
}

fn from_parser_output(format: ResultsFormat, parsed: ParserOutput, raw: &RawResults<'_>) -> ParsedResults {
    let mut reading = ParsedResults {
        format,
        findings: parsed.findings,
        tests: parsed.tests,
        flaky: parsed.flaky,
        partial: parsed.partial || parsed.missing.is_some(),
        complete: parsed.missing.is_none(),
        text: parsed.text.unwrap_or_else(|| raw.human_output()),
        hints: Vec::new(),
        notes: Vec::new(),
    };
    relativize_messages(&mut reading.findings, raw.root);
    dedup_findings(&mut reading.findings);
    if reading.findings.len() > MAX_FINDINGS {
        reading.notes.push(format!("{} more findings are not listed", reading.findings.len() - MAX_FINDINGS));
        reading.findings.truncate(MAX_FINDINGS);
        reading.partial = true;
    }
    if format != ResultsFormat::Plain && !reading.findings.iter().any(CheckFinding::is_failure) {
        reading.hints = plain::parse_plain_text(raw).findings;
        reading.hints.retain(CheckFinding::is_failure);
        relativize_messages(&mut reading.hints, raw.root);
        dedup_findings(&mut reading.hints);
    }
    if let Some(missing) = parsed.missing {
        reading.notes.push(format!("the results are incomplete: {missing}"));
    }
    reading
}

/// Parses output that is not in the expected format by detecting its format, and adds a note.
fn parse_fallback(wanted: ResultsFormat, why: &str, raw: &RawResults<'_>) -> ParsedResults {
    let printed = RawResults { results: None, wants_results: false, ..*raw };
    let other = detect_format(raw.stdout);
    let second = if other.is_machine() && !raw.truncated {
        parse_format(other, raw.stdout, &printed).ok()
    } else {
        None
    };
    let mut reading = match second {
        Some(parsed) if !parsed.findings.is_empty() => from_parser_output(other, parsed, &printed),
        _ => parse_plain(&printed, false),
    };
    let note = format!(
        "the results could not be read as {}: {why}; read as {} instead",
        wanted.label(),
        reading.format.label()
    );
    reading.notes.insert(0, note);
    (reading.complete, reading.partial) = (false, true);
    reading
}

fn parse_plain(raw: &RawResults<'_>, whole: bool) -> ParsedResults {
    let parsed = plain::parse_plain_text(raw);
    let mut reading = from_parser_output(ResultsFormat::Plain, parsed, raw);
    reading.complete = whole;
    reading
}

/// Makes file names in messages relative to the workspace folder, as in findings.
fn relativize_messages(findings: &mut [CheckFinding], root: &Path) {
    let Some(prefix) = root.to_str().filter(|root| root.len() > 1).map(|root| format!("{root}/")) else {
        return;
    };
    for finding in findings.iter_mut().filter(|finding| finding.message.contains(&prefix)) {
        finding.message = finding.message.replace(&format!("file://{prefix}"), "").replace(&prefix, "");
    }
}

/// Lists findings as text, one per line, for tools without human-readable output.
fn list_findings(findings: &[CheckFinding]) -> String {
    findings.iter().map(|finding| format!("{finding}\n")).collect()
}

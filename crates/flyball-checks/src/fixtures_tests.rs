//! Recorded output of every supported tool in `fixtures/gates`, and the findings expected from it.
//!
//! Each folder contains `run.json` (the command and how it ended), the tool's output, and `expected.json`.
//! `FLYBALL_BLESS=1` regenerates the latter; review the diff before committing it.

use super::check_outcome::{CheckOutcome, determine_outcome};
use super::finding::CheckFinding;
use super::format::{ResultsFormat, detect_format};
use super::parsers::{ParsedResults, RawResults, TestCounts, read};
use flyball::CheckKind;
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::{Path, PathBuf};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RecordedGateRun {
    #[serde(rename = "argv")]
    _argv: Vec<String>,
    kind: CheckKind,
    format: ResultsFormat,
    exit: i32,
    results: Option<String>,
    module: Option<String>,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ExpectedResults {
    #[serde(flatten)]
    outcome: CheckOutcome,
    read_as: ResultsFormat,
    whole: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tests: Option<TestCounts>,
    failing: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    flaky: Vec<String>,
    partial: bool,
    findings: Vec<CheckFinding>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    notes: Vec<String>,
}

/// One recorded run.
struct GateFixture {
    name: String,
    folder: PathBuf,
    run: RecordedGateRun,
    stdout: String,
    stderr: String,
    results: Option<String>,
}

impl GateFixture {
    fn load(folder: PathBuf, name: String) -> Self {
        let text = |file: &str| fs::read_to_string(folder.join(file)).ok();
        let run: RecordedGateRun =
            serde_json::from_str(&text("run.json").expect("run.json")).expect("a valid run.json");
        let results = run.results.as_deref().and_then(text);
        let (stdout, stderr) =
            (text("stdout.txt").unwrap_or_default(), text("stderr.txt").unwrap_or_default());
        GateFixture { name, run, stdout, stderr, results, folder }
    }

    fn raw(&self) -> RawResults<'_> {
        RawResults {
            stdout: &self.stdout,
            stderr: &self.stderr,
            results: self.results.as_deref(),
            wants_results: self.run.results.is_some(),
            truncated: false,
            kind: self.run.kind,
            root: Path::new("/project"),
            module: self.run.module.as_deref(),
        }
    }

    fn outcome_for(&self, raw: &RawResults<'_>, exit: i32) -> (CheckOutcome, ParsedResults) {
        let mut reading = read(self.run.format, raw);
        (determine_outcome(self.run.kind.as_str(), self.run.kind, exit, &mut reading), reading)
    }

    /// The machine-readable output.
    fn source(&self) -> &str {
        self.results.as_deref().unwrap_or(&self.stdout)
    }
}

fn cases() -> Vec<GateFixture> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/gates");
    let mut found = Vec::new();
    let below = |folder: &Path| {
        let mut names: Vec<PathBuf> =
            fs::read_dir(folder).expect("a folder").flatten().map(|e| e.path()).collect();
        names.retain(|path| path.is_dir());
        names.sort();
        names
    };
    for tool in below(&root) {
        for case in below(&tool) {
            let name = case.strip_prefix(&root).expect("below").to_string_lossy().into_owned();
            found.push(GateFixture::load(case, name));
        }
    }
    assert!(found.len() > 70, "only {} recorded runs", found.len());
    found
}

#[test]
fn recorded_runs_match_expected_results() {
    let bless = std::env::var_os("FLYBALL_BLESS").is_some();
    let mut wrong = Vec::new();
    for case in cases() {
        let (outcome, reading) = case.outcome_for(&case.raw(), case.run.exit);
        let mut failing: Vec<String> = reading
            .findings
            .iter()
            .filter(|found| found.is_test_failure())
            .map(|found| found.name.clone())
            .collect();
        failing.sort();
        failing.dedup();
        let got = ExpectedResults {
            outcome,
            read_as: reading.format,
            whole: reading.complete,
            tests: reading.tests,
            failing,
            flaky: reading.flaky,
            partial: reading.partial,
            findings: reading.findings,
            notes: reading.notes,
        };
        let path = case.folder.join("expected.json");
        let pretty = serde_json::to_string_pretty(&got).expect("JSON") + "\n";
        if bless {
            fs::write(&path, &pretty).expect("a writable expected.json");
        } else if fs::read_to_string(&path).unwrap_or_default() != pretty {
            wrong.push(format!("{}: got\n{pretty}", case.name));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn format_of_recorded_runs_is_detected() {
    for case in cases() {
        let source = case.source();
        if !case.run.format.is_machine()
            || source.trim().is_empty()
            || case.results.is_none() && case.run.results.is_some()
        {
            continue;
        }
        let sniffed = detect_format(source);
        // Without a cargo message, a truncation cannot be detected.
        let told = source.contains("\"reason\"") || case.run.format != ResultsFormat::Cargo;
        if told {
            assert_eq!(sniffed, case.run.format, "{}", case.name);
        }
    }
}

/// The last character boundary at or before a byte offset.
fn boundary(text: &str, mut at: usize) -> usize {
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

#[test]
fn truncated_results_never_pass() {
    let mut cuts = 0;
    for case in cases().iter().filter(|case| case.run.format.is_machine() && !case.source().trim().is_empty())
    {
        let source = case.source().trim_end();
        // Output after a test program's summary does not affect the result.
        let source = source.rfind(" filtered out").map_or(source, |end| source.split_at(end).0);
        for part in 0..32 {
            let end = boundary(source, source.len() * part / 32);
            let cut = source.get(..end).unwrap_or_default();
            let mut raw = case.raw();
            match case.results {
                Some(_) => raw.results = Some(cut),
                None => raw.stdout = cut,
            }
            let (outcome, reading) = case.outcome_for(&raw, 0);
            assert!(
                !outcome.is_passed(),
                "{} passed with {end} of {} bytes: {reading:?}",
                case.name,
                source.len()
            );
            cuts += 1;
        }
    }
    assert!(cuts > 1_000, "{cuts}");
}

#[test]
fn recorded_failure_fails_even_with_exit_code_0() {
    for case in cases() {
        let (outcome, _) = case.outcome_for(&case.raw(), case.run.exit);
        let (with_0, _) = case.outcome_for(&case.raw(), 0);
        // A successful exit code overrides plain text, unless the text names a failed test.
        if outcome.is_failed() && case.run.format.is_machine() && case.name != "vitest/late_error" {
            assert!(!with_0.is_passed(), "{}", case.name);
        }
    }
}

#[test]
fn recorded_pass_fails_with_exit_code_1() {
    for case in cases() {
        let (outcome, _) = case.outcome_for(&case.raw(), case.run.exit);
        if outcome.is_passed() {
            let (with_1, reading) = case.outcome_for(&case.raw(), 1);
            assert!(with_1.is_failed(), "{}", case.name);
            assert!(
                reading.findings.iter().any(CheckFinding::is_failure),
                "{} has no failure finding",
                case.name
            );
        }
    }
}

#[test]
fn missing_or_garbled_results_never_pass_or_panic() {
    let garbled = [
        "",
        "\u{0}\u{1b}[31m",
        "{",
        "[",
        "<testsuites",
        "{\"runs\":[]}",
        "[1,2]",
        "{\"reason\":\"x\"}",
        "ok\nok\n",
    ];
    let formats = [
        ResultsFormat::Cargo,
        ResultsFormat::Junit,
        ResultsFormat::GoTest,
        ResultsFormat::Jest,
        ResultsFormat::Eslint,
        ResultsFormat::Ruff,
        ResultsFormat::Sarif,
        ResultsFormat::Tap,
        ResultsFormat::Libtest,
    ];
    for format in formats {
        for text in garbled {
            for in_file in [true, false] {
                let raw = RawResults {
                    stdout: if in_file { "" } else { text },
                    stderr: "",
                    results: in_file.then_some(text),
                    wants_results: in_file,
                    truncated: false,
                    kind: CheckKind::Tests,
                    root: Path::new("/project"),
                    module: None,
                };
                let mut reading = read(format, &raw);
                let outcome = determine_outcome("tests", CheckKind::Tests, 0, &mut reading);
                assert!(!outcome.is_passed(), "{format:?} of {text:?} passed: {reading:?}");
            }
        }
    }
}

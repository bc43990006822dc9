//! Real output of every supported tool, recorded in `fixtures/gates`, and what must be read out of it.
//!
//! Each folder holds `run.json` (how it was run and how it ended), what the tool left behind, and `expected.json`.
//! `FLYBALL_BLESS=1` writes the latter anew; read the difference before you keep it.

use super::finding::Finding;
use super::format::{Format, sniff};
use super::judge::{Outcome, judge};
use super::read::{Counts, Raw, Reading, read};
use flyball::CheckKind;
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::{Path, PathBuf};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Run {
    #[serde(rename = "argv")]
    _argv: Vec<String>,
    kind: CheckKind,
    format: Format,
    exit: i32,
    results: Option<String>,
    module: Option<String>,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Expected {
    #[serde(flatten)]
    outcome: Outcome,
    read_as: Format,
    whole: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tests: Option<Counts>,
    failing: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    flaky: Vec<String>,
    partial: bool,
    findings: Vec<Finding>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    notes: Vec<String>,
}

/// One recorded run.
struct Case {
    name: String,
    folder: PathBuf,
    run: Run,
    stdout: String,
    stderr: String,
    results: Option<String>,
}

impl Case {
    fn load(folder: PathBuf, name: String) -> Self {
        let text = |file: &str| fs::read_to_string(folder.join(file)).ok();
        let run: Run = serde_json::from_str(&text("run.json").expect("run.json")).expect("run.json is right");
        let results = run.results.as_deref().and_then(text);
        let (stdout, stderr) =
            (text("stdout.txt").unwrap_or_default(), text("stderr.txt").unwrap_or_default());
        Case { name, run, stdout, stderr, results, folder }
    }

    fn raw(&self) -> Raw<'_> {
        Raw {
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

    fn judged(&self, raw: &Raw<'_>, exit: i32) -> (Outcome, Reading) {
        let mut reading = read(self.run.format, raw);
        (judge(self.run.kind.as_str(), self.run.kind, exit, &mut reading), reading)
    }

    /// What is written for programs, and where it stands.
    fn source(&self) -> &str {
        self.results.as_deref().unwrap_or(&self.stdout)
    }
}

fn cases() -> Vec<Case> {
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
            found.push(Case::load(case, name));
        }
    }
    assert!(found.len() > 70, "only {} recorded runs", found.len());
    found
}

#[test]
fn recorded_runs_are_read_as_expected() {
    let bless = std::env::var_os("FLYBALL_BLESS").is_some();
    let mut wrong = Vec::new();
    for case in cases() {
        let (outcome, reading) = case.judged(&case.raw(), case.run.exit);
        let mut failing: Vec<String> = reading
            .findings
            .iter()
            .filter(|found| found.is_of_a_test())
            .map(|found| found.name.clone())
            .collect();
        failing.sort();
        failing.dedup();
        let got = Expected {
            outcome,
            read_as: reading.format,
            whole: reading.whole,
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
            fs::write(&path, &pretty).expect("expected.json is written");
        } else if fs::read_to_string(&path).unwrap_or_default() != pretty {
            wrong.push(format!("{}: got\n{pretty}", case.name));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_format_of_a_recorded_run_is_found_out() {
    for case in cases() {
        let source = case.source();
        if !case.run.format.is_machine()
            || source.trim().is_empty()
            || case.results.is_none() && case.run.results.is_some()
        {
            continue;
        }
        let sniffed = sniff(source);
        // Without a message of cargo there is nothing that could be told apart.
        let told = source.contains("\"reason\"") || case.run.format != Format::Cargo;
        if told {
            assert_eq!(sniffed, case.run.format, "{}", case.name);
        }
    }
}

/// A character boundary at or before a place.
fn boundary(text: &str, mut at: usize) -> usize {
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

#[test]
fn results_that_are_cut_off_never_pass() {
    let mut cuts = 0;
    for case in cases().iter().filter(|case| case.run.format.is_machine() && !case.source().trim().is_empty())
    {
        let source = case.source().trim_end();
        // What a test program says after its sums tells nothing more.
        let source = source.rfind(" filtered out").map_or(source, |end| source.split_at(end).0);
        for part in 0..32 {
            let end = boundary(source, source.len() * part / 32);
            let cut = source.get(..end).unwrap_or_default();
            let mut raw = case.raw();
            match case.results {
                Some(_) => raw.results = Some(cut),
                None => raw.stdout = cut,
            }
            let (outcome, reading) = case.judged(&raw, 0);
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
fn a_recorded_failure_stays_one_if_the_command_says_0() {
    for case in cases() {
        let (outcome, _) = case.judged(&case.raw(), case.run.exit);
        let (with_0, _) = case.judged(&case.raw(), 0);
        // Text alone does not outweigh a command that is content, unless it names a test.
        if outcome.is_failed() && case.run.format.is_machine() && case.name != "vitest/late_error" {
            assert!(!with_0.is_passed(), "{}", case.name);
        }
    }
}

#[test]
fn a_recorded_pass_fails_if_the_command_says_1() {
    for case in cases() {
        let (outcome, _) = case.judged(&case.raw(), case.run.exit);
        if outcome.is_passed() {
            let (with_1, reading) = case.judged(&case.raw(), 1);
            assert!(with_1.is_failed(), "{}", case.name);
            assert!(reading.findings.iter().any(Finding::is_failure), "{} does not say why", case.name);
        }
    }
}

#[test]
fn what_is_missing_or_garbled_never_passes_and_never_panics() {
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
        Format::Cargo,
        Format::Junit,
        Format::GoTest,
        Format::Jest,
        Format::Eslint,
        Format::Ruff,
        Format::Sarif,
        Format::Tap,
        Format::Libtest,
    ];
    for format in formats {
        for text in garbled {
            for in_file in [true, false] {
                let raw = Raw {
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
                let outcome = judge("tests", CheckKind::Tests, 0, &mut reading);
                assert!(!outcome.is_passed(), "{format:?} of {text:?} passed: {reading:?}");
            }
        }
    }
}

//! The formats in which tools write their results, and how one is told from another.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How a tool writes its results.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "ResultsFormat")]
#[serde(rename_all = "snake_case")]
pub enum Format {
    /// Found out from what it wrote.
    #[default]
    Auto,
    /// `cargo … --message-format=json`, with the text of the test programs between the messages.
    Cargo,
    /// JUnit XML: nextest, pytest, vitest, Maven and many others.
    Junit,
    /// `go test -json`.
    GoTest,
    /// The JSON of jest, which vitest writes too.
    Jest,
    /// `eslint -f json`.
    Eslint,
    /// `ruff check --output-format json`.
    Ruff,
    /// SARIF 2.1.0.
    Sarif,
    /// The Test Anything Protocol.
    Tap,
    /// The text of Rust's own test programs.
    Libtest,
    /// Any other text.
    Plain,
}

impl Format {
    /// Its name for people.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Format::Auto => "a known format",
            Format::Cargo => "cargo's JSON messages",
            Format::Junit => "JUnit XML",
            Format::GoTest => "the JSON of `go test -json`",
            Format::Jest => "the JSON of jest or vitest",
            Format::Eslint => "ESLint's JSON",
            Format::Ruff => "Ruff's JSON",
            Format::Sarif => "SARIF",
            Format::Tap => "TAP",
            Format::Libtest => "the text of Rust's test programs",
            Format::Plain => "plain text",
        }
    }

    /// Whether it is one document, and not a sequence of lines.
    #[must_use]
    pub const fn is_document(self) -> bool {
        matches!(self, Format::Junit | Format::Jest | Format::Eslint | Format::Ruff | Format::Sarif)
    }

    /// Whether a program wrote it for programs, so that a part of it that is missing shows.
    #[must_use]
    pub const fn is_machine(self) -> bool {
        !matches!(self, Format::Auto | Format::Plain)
    }
}

/// How many lines are looked at.
const LINES: usize = 400;

/// Finds out in which format a text is written; text that is none of them is plain.
#[must_use]
pub fn sniff(text: &str) -> Format {
    let start = text.trim_start_matches(['\u{feff}', ' ', '\n', '\r', '\t']);
    if start.starts_with("<?xml") || start.starts_with("<testsuite") {
        return if start.contains("<testsuite") { Format::Junit } else { Format::Plain };
    }
    if let Some(format) = lines_format(start) {
        return format;
    }
    if start.starts_with(['{', '[']) {
        return document_format(start);
    }
    Format::Plain
}

fn lines_format(text: &str) -> Option<Format> {
    let mut libtest = false;
    for line in text.lines().take(LINES) {
        if line.starts_with("{\"reason\":\"") {
            return Some(Format::Cargo);
        }
        if line.starts_with('{') && line.contains("\"Action\":\"") {
            return Some(Format::GoTest);
        }
        let first_point = line.starts_with("ok 1 ") || line.starts_with("not ok 1 ");
        if line.starts_with("TAP version 1") || first_point || is_plan(line) {
            return Some(Format::Tap);
        }
        libtest |= line
            .strip_prefix("running ")
            .is_some_and(|rest| rest.ends_with(" test") || rest.ends_with(" tests"));
    }
    libtest.then_some(Format::Libtest)
}

/// `1..4`
fn is_plan(line: &str) -> bool {
    let last = line.strip_prefix("1..").map(|rest| rest.split(' ').next().unwrap_or_default());
    last.is_some_and(|last| !last.is_empty() && last.bytes().all(|b| b.is_ascii_digit()))
}

/// Which of the documents it is, by the names of its keys; only its beginning is looked at.
fn document_format(text: &str) -> Format {
    let mut end = text.len().min(4096);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let head = text.get(..end).unwrap_or_default();
    let has = |key: &str| head.contains(&format!("\"{key}\""));
    if text.starts_with('[') {
        let empty = text.trim_end().strip_prefix('[').is_some_and(|rest| rest.trim_start() == "]");
        return if has("filePath") && has("messages") {
            Format::Eslint
        } else if empty || has("filename") && has("location") {
            Format::Ruff
        } else {
            Format::Plain
        };
    }
    if has("testResults") || has("numTotalTests") || has("numFailedTests") {
        Format::Jest
    } else if has("runs") || head.contains("sarif") {
        Format::Sarif
    } else {
        Format::Plain
    }
}

//! Result formats of tools, and their detection.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The format of a tool's results.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "ResultsFormat")]
#[serde(rename_all = "snake_case")]
pub enum ResultsFormat {
    /// Detected from the output.
    #[default]
    Auto,
    /// `cargo … --message-format=json`, with the output of test programs between the messages.
    Cargo,
    /// JUnit XML: nextest, pytest, vitest, Maven and many others.
    Junit,
    /// `go test -json`.
    GoTest,
    /// Jest's JSON, which vitest writes too.
    Jest,
    /// `eslint -f json`.
    Eslint,
    /// `ruff check --output-format json`.
    Ruff,
    /// SARIF 2.1.0.
    Sarif,
    /// The Test Anything Protocol.
    Tap,
    /// The text output of Rust's test harness.
    Libtest,
    /// Any other text.
    Plain,
}

impl ResultsFormat {
    /// The display name.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            ResultsFormat::Auto => "a known format",
            ResultsFormat::Cargo => "cargo's JSON messages",
            ResultsFormat::Junit => "JUnit XML",
            ResultsFormat::GoTest => "`go test -json` output",
            ResultsFormat::Jest => "jest or vitest JSON",
            ResultsFormat::Eslint => "ESLint's JSON",
            ResultsFormat::Ruff => "Ruff's JSON",
            ResultsFormat::Sarif => "SARIF",
            ResultsFormat::Tap => "TAP",
            ResultsFormat::Libtest => "Rust test output",
            ResultsFormat::Plain => "plain text",
        }
    }

    /// Whether it is one document and not a sequence of lines.
    #[must_use]
    pub const fn is_document(self) -> bool {
        matches!(
            self,
            ResultsFormat::Junit
                | ResultsFormat::Jest
                | ResultsFormat::Eslint
                | ResultsFormat::Ruff
                | ResultsFormat::Sarif
        )
    }

    /// Whether it is machine-readable, so that missing parts can be detected.
    #[must_use]
    pub const fn is_machine(self) -> bool {
        !matches!(self, ResultsFormat::Auto | ResultsFormat::Plain)
    }
}

/// Number of lines inspected for detection.
const MAX_SNIFFED_LINES: usize = 400;

/// Detects the format of a text; unrecognized text is plain.
#[must_use]
pub fn detect_format(text: &str) -> ResultsFormat {
    let start = text.trim_start_matches(['\u{feff}', ' ', '\n', '\r', '\t']);
    if start.starts_with("<?xml") || start.starts_with("<testsuite") {
        return if start.contains("<testsuite") { ResultsFormat::Junit } else { ResultsFormat::Plain };
    }
    if let Some(format) = detect_line_format(start) {
        return format;
    }
    if start.starts_with(['{', '[']) {
        return detect_document_format(start);
    }
    ResultsFormat::Plain
}

fn detect_line_format(text: &str) -> Option<ResultsFormat> {
    let mut libtest = false;
    for line in text.lines().take(MAX_SNIFFED_LINES) {
        if line.starts_with("{\"reason\":\"") {
            return Some(ResultsFormat::Cargo);
        }
        if line.starts_with('{') && line.contains("\"Action\":\"") {
            return Some(ResultsFormat::GoTest);
        }
        let first_point = line.starts_with("ok 1 ") || line.starts_with("not ok 1 ");
        if line.starts_with("TAP version 1") || first_point || is_tap_plan(line) {
            return Some(ResultsFormat::Tap);
        }
        libtest |= line
            .strip_prefix("running ")
            .is_some_and(|rest| rest.ends_with(" test") || rest.ends_with(" tests"));
    }
    libtest.then_some(ResultsFormat::Libtest)
}

/// Whether a line is a TAP plan such as `1..4`.
fn is_tap_plan(line: &str) -> bool {
    let last = line.strip_prefix("1..").map(|rest| rest.split(' ').next().unwrap_or_default());
    last.is_some_and(|last| !last.is_empty() && last.bytes().all(|b| b.is_ascii_digit()))
}

/// Detects a document's format from the keys at its beginning.
fn detect_document_format(text: &str) -> ResultsFormat {
    let mut end = text.len().min(4096);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let head = text.get(..end).unwrap_or_default();
    let has = |key: &str| head.contains(&format!("\"{key}\""));
    if text.starts_with('[') {
        let empty = text.trim_end().strip_prefix('[').is_some_and(|rest| rest.trim_start() == "]");
        return if has("filePath") && has("messages") {
            ResultsFormat::Eslint
        } else if empty || has("filename") && has("location") {
            ResultsFormat::Ruff
        } else {
            ResultsFormat::Plain
        };
    }
    if has("testResults") || has("numTotalTests") || has("numFailedTests") {
        ResultsFormat::Jest
    } else if has("runs") || head.contains("sarif") {
        ResultsFormat::Sarif
    } else {
        ResultsFormat::Plain
    }
}

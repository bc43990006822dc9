//! Jest's JSON, which vitest writes too: files, each with its tests and their enclosing titles.

use super::junit::{line_of_file, stack_location};
use super::plain_js::{code_frame_line, strip_code_frames};
use super::{ParseFailure, ParserOutput, RawResults, TestCounts};
use crate::finding::{CheckFinding, FindingKind};
use flyball::text::strip_ansi;
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct JestReport {
    num_total_tests: u64,
    num_failed_tests: u64,
    success: Option<bool>,
    test_results: Vec<JestFile>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct JestFile {
    name: String,
    status: String,
    #[serde(default)]
    message: String,
    #[serde(default)]
    assertion_results: Vec<JestTest>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct JestTest {
    #[serde(default)]
    ancestor_titles: Vec<String>,
    title: String,
    status: String,
    #[serde(default)]
    failure_messages: Option<Vec<String>>,
    #[serde(default)]
    location: Option<JestLocation>,
    #[serde(default)]
    invocations: Option<u32>,
}

#[derive(Deserialize)]
struct JestLocation {
    line: u32,
}

pub(super) fn parse_jest(source: &str, raw: &RawResults<'_>) -> Result<ParserOutput, ParseFailure> {
    // A wrapper may print a line before or after the document.
    let start = source.find('{').unwrap_or(0);
    let end = source.rfind('}').map_or(source.len(), |end| end + 1);
    let results: JestReport = serde_json::from_str(source.get(start..end).unwrap_or_default())
        .map_err(|error| ParseFailure::new(error.to_string()))?;
    let mut parsed = ParserOutput::default();
    let mut counts = TestCounts::default();
    for file in &results.test_results {
        let path = raw.relative(&file.name);
        for test in &file.assertion_results {
            match test.status.as_str() {
                "passed" => {
                    counts.passed += 1;
                    if test.invocations.is_some_and(|times| times > 1) {
                        parsed.flaky.push(test_name(&path, test));
                    }
                }
                "failed" => {
                    counts.failed += 1;
                    parsed.findings.push(test_finding(&path, test, raw));
                }
                _ => counts.skipped += 1,
            }
        }
        let has_failing = file.assertion_results.iter().any(|test| test.status == "failed");
        if file.status == "failed" && !has_failing {
            parsed.findings.push(file_finding(&path, file, raw));
            parsed.partial = true;
        }
    }
    if counts.failed < results.num_failed_tests || counts.total() < results.num_total_tests {
        parsed.missing = Some(format!(
            "it reports {} tests, {} of them failing, but lists {} and {}",
            results.num_total_tests,
            results.num_failed_tests,
            counts.total(),
            counts.failed
        ));
    }
    let is_empty = results.test_results.is_empty();
    if results.success == Some(false) && parsed.findings.is_empty() && !is_empty {
        parsed.findings.push(CheckFinding::new(FindingKind::Other, "", "the run failed outside its tests"));
    }
    parsed.tests = Some(counts);
    Ok(parsed)
}

fn test_name(path: &str, test: &JestTest) -> String {
    let titles = test.ancestor_titles.iter().map(String::as_str).filter(|title| !title.is_empty());
    let parts: Vec<&str> = [path].into_iter().chain(titles).chain([test.title.as_str()]).collect();
    parts.join(" > ")
}

/// A message without its stack trace.
fn without_stack(message: &str) -> String {
    let lines = message.lines().take_while(|line| !line.trim_start().starts_with("at "));
    lines.collect::<Vec<_>>().join("\n")
}

fn test_finding(path: &str, test: &JestTest, raw: &RawResults<'_>) -> CheckFinding {
    let first = test.failure_messages.iter().flatten().next().map_or("", String::as_str);
    let first = strip_ansi(first);
    let said = without_stack(&first);
    let message = if said.trim().is_empty() { "failed without a message" } else { said.trim() };
    let line = test.location.as_ref().map(|location| location.line);
    let at = stack_location(&first, raw).unwrap_or_else(|| (path.to_owned(), line));
    CheckFinding::new(FindingKind::Test, test_name(path, test), message).at_optional(Some(at))
}

/// A file that failed although none of its tests did: an import, a syntax error or a hook.
fn file_finding(path: &str, file: &JestFile, raw: &RawResults<'_>) -> CheckFinding {
    let clean = strip_ansi(&file.message);
    let after = clean.split_once("●").and_then(|(_, rest)| rest.split_once('\n'));
    let said = strip_code_frames(after.map_or(&clean, |(_, rest)| rest));
    let message = match said.is_empty() {
        true => "the file failed outside its tests, in a hook or while loading",
        false => &said,
    };
    let named = line_of_file(&clean, path).map(|line| (path.to_owned(), Some(line)));
    let at = named.or_else(|| stack_location(&clean, raw).filter(|(file, _)| file == path));
    let at = at.unwrap_or((path.to_owned(), code_frame_line(&clean)));
    CheckFinding::new(FindingKind::Setup, path, message).at_optional(Some(at))
}

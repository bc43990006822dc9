//! The JSON of jest, which vitest writes too: files, and in each the tests with their outer titles.

use super::junit::{said_line, stack_place};
use super::plain_js::{pictured_line, without_pictures};
use super::{Broken, Counts, Parsed, Raw};
use crate::finding::{Finding, FindingKind};
use flyball::text::without_codes;
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Results {
    num_total_tests: u64,
    num_failed_tests: u64,
    success: Option<bool>,
    test_results: Vec<File>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct File {
    name: String,
    status: String,
    #[serde(default)]
    message: String,
    #[serde(default)]
    assertion_results: Vec<Test>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Test {
    #[serde(default)]
    ancestor_titles: Vec<String>,
    title: String,
    status: String,
    #[serde(default)]
    failure_messages: Option<Vec<String>>,
    #[serde(default)]
    location: Option<Location>,
    #[serde(default)]
    invocations: Option<u32>,
}

#[derive(Deserialize)]
struct Location {
    line: u32,
}

pub(super) fn read(source: &str, raw: &Raw<'_>) -> Result<Parsed, Broken> {
    // A wrapper may print a line of its own around the document.
    let start = source.find('{').unwrap_or(0);
    let end = source.rfind('}').map_or(source.len(), |end| end + 1);
    let results: Results = serde_json::from_str(source.get(start..end).unwrap_or_default())
        .map_err(|error| Broken::new(error.to_string()))?;
    let mut parsed = Parsed::default();
    let mut counts = Counts::default();
    for file in &results.test_results {
        let path = raw.relative(&file.name);
        for test in &file.assertion_results {
            match test.status.as_str() {
                "passed" => {
                    counts.passed += 1;
                    if test.invocations.is_some_and(|times| times > 1) {
                        parsed.flaky.push(name(&path, test));
                    }
                }
                "failed" => {
                    counts.failed += 1;
                    parsed.findings.push(of_test(&path, test, raw));
                }
                _ => counts.skipped += 1,
            }
        }
        let has_failing = file.assertion_results.iter().any(|test| test.status == "failed");
        if file.status == "failed" && !has_failing {
            parsed.findings.push(of_file(&path, file, raw));
            parsed.partial = true;
        }
    }
    if counts.failed < results.num_failed_tests || counts.total() < results.num_total_tests {
        parsed.missing = Some(format!(
            "it counts {} tests, {} of them failing, and lists {} and {}",
            results.num_total_tests,
            results.num_failed_tests,
            counts.total(),
            counts.failed
        ));
    }
    let is_empty = results.test_results.is_empty();
    if results.success == Some(false) && parsed.findings.is_empty() && !is_empty {
        parsed.findings.push(Finding::new(FindingKind::Other, "", "the run failed outside its tests"));
    }
    parsed.tests = Some(counts);
    Ok(parsed)
}

fn name(path: &str, test: &Test) -> String {
    let titles = test.ancestor_titles.iter().map(String::as_str).filter(|title| !title.is_empty());
    let parts: Vec<&str> = [path].into_iter().chain(titles).chain([test.title.as_str()]).collect();
    parts.join(" > ")
}

/// A message without its stack.
fn without_stack(message: &str) -> String {
    let lines = message.lines().take_while(|line| !line.trim_start().starts_with("at "));
    lines.collect::<Vec<_>>().join("\n")
}

fn of_test(path: &str, test: &Test, raw: &Raw<'_>) -> Finding {
    let first = test.failure_messages.iter().flatten().next().map_or("", String::as_str);
    let first = without_codes(first);
    let said = without_stack(&first);
    let message = if said.trim().is_empty() { "failed without a word" } else { said.trim() };
    let line = test.location.as_ref().map(|location| location.line);
    let at = stack_place(&first, raw).unwrap_or_else(|| (path.to_owned(), line));
    Finding::new(FindingKind::Test, name(path, test), message).maybe_at(Some(at))
}

/// A file that failed though none of its tests did: an import, a syntax error, a hook.
fn of_file(path: &str, file: &File, raw: &Raw<'_>) -> Finding {
    let clean = without_codes(&file.message);
    let after = clean.split_once("●").and_then(|(_, rest)| rest.split_once('\n'));
    let said = without_pictures(after.map_or(&clean, |(_, rest)| rest));
    let message = match said.is_empty() {
        true => "the file failed outside its tests: in a hook or while it was loaded",
        false => &said,
    };
    let named = said_line(&clean, path).map(|line| (path.to_owned(), Some(line)));
    let at = named.or_else(|| stack_place(&clean, raw).filter(|(file, _)| file == path));
    let at = at.unwrap_or((path.to_owned(), pictured_line(&clean)));
    Finding::new(FindingKind::Setup, path, message).maybe_at(Some(at))
}

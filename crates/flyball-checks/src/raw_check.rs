//! Parses checks with raw tool output, so that every path to the governor gets the same findings.
//!
//! A check `{"name": "tests", "kind": "cargo-test", "output": "…"}` becomes a parsed one: `passed`, `skipped`,
//! `skip_reason` and `details` are filled in, `output` is shortened, and `parsed` names the detected format. `passed`
//! or `exit_code` from the client is used as the command's exit status: a success that lists failures has failed.

use super::check_outcome::{
    CheckOutcome, determine_outcome, failed_because, no_tests_reason, push_failure_finding,
};
use super::check_tool::CheckTool;
use super::finding::{CheckFinding, details};
use super::format::{ResultsFormat, detect_format};
use super::parsers::{ParsedResults, RawResults, read};
use flyball::text::elide_middle;
use flyball::{Error, ErrorCode};
use serde_json::{Map, Value, json};
use std::path::Path;

/// Number of characters of the output kept in a check.
const MAX_OUTPUT_CHARS: usize = 10_000;
/// Number of lines at which a document start is tried.
const MAX_DOCUMENT_STARTS: usize = 64;

/// Parses the checks of a `gate.checked` event that have a `kind` and are not parsed yet. Returns whether there were
/// any.
///
/// # Errors
/// If a kind is unknown, or a field of such a check has the wrong type.
pub fn parse_raw_checks(checks: &mut [Value]) -> Result<bool, Error> {
    let mut any = false;
    for (at, check) in checks.iter_mut().enumerate() {
        let Some(check) = check.as_object_mut() else { continue };
        if !is_raw(check) {
            continue;
        }
        parse_check(check, at)?;
        any = true;
    }
    Ok(any)
}

fn is_raw(check: &Map<String, Value>) -> bool {
    let given = |key: &str| check.get(key).is_some_and(|value| !value.is_null());
    let has_details = check.get("details").and_then(Value::as_array).is_some_and(|list| !list.is_empty());
    let is_skipped = check.get("skipped") == Some(&Value::Bool(true));
    given("kind") && !given("parsed") && !has_details && !is_skipped
}

fn parse_check(check: &mut Map<String, Value>, at: usize) -> Result<(), Error> {
    let tool = check_tool(check, at)?;
    let output = match check.get("output") {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(_) => return Err(wrong_type_error(at, "output", "the tool's output as a string")),
    };
    let code = exit_code(check, at)?;
    let name = check.get("name").and_then(Value::as_str).unwrap_or(tool.name).to_owned();
    let (outcome, reading) = parse_and_judge(tool, &name, &output, code);
    let failures = reading.findings.iter().filter(|found| found.is_failure() && outcome.is_failed());
    check.insert("passed".to_owned(), json!(outcome.is_passed()));
    check.insert("details".to_owned(), json!(details(failures)));
    check.insert("output".to_owned(), json!(elide_middle(&output, MAX_OUTPUT_CHARS)));
    check.insert("kind".to_owned(), json!(tool.kind));
    check.insert("parsed".to_owned(), json!(reading.format));
    if let CheckOutcome::Skipped { reason } = outcome {
        check.insert("skipped".to_owned(), json!(true));
        check.insert("skip_reason".to_owned(), json!(reason));
    }
    Ok(())
}

fn check_tool(check: &Map<String, Value>, at: usize) -> Result<CheckTool, Error> {
    let Some(Value::String(kind)) = check.get("kind") else {
        return Err(wrong_type_error(at, "kind", "the name of a tool, for example \"cargo-test\""));
    };
    CheckTool::from_name(kind).ok_or_else(|| {
        let shown: String = kind.chars().take(60).collect();
        let near = flyball::closest(kind, CheckTool::names())
            .map_or_else(String::new, |near| format!("did you mean `{near}`? "));
        let known: Vec<&str> = CheckTool::names().collect();
        Error::new(
            ErrorCode::UnknownCheckKind,
            format!("`checks[{at}].kind` is `{shown}`, which is not a known tool"),
            format!("{near}use `auto`, or one of {}", known.join(", ")),
        )
    })
}

/// The command's exit status from the client: its code, or derived from `passed`.
fn exit_code(check: &Map<String, Value>, at: usize) -> Result<Option<i32>, Error> {
    match check.get("exit_code") {
        None | Some(Value::Null) => {}
        Some(code) => {
            let code = code.as_i64().and_then(|code| i32::try_from(code).ok());
            return code
                .map(Some)
                .ok_or_else(|| wrong_type_error(at, "exit_code", "the exit code as an integer"));
        }
    }
    match check.get("passed") {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Bool(passed)) => Ok(Some(i32::from(!passed))),
        Some(_) => Err(wrong_type_error(at, "passed", "true or false")),
    }
}

fn parse_and_judge(
    tool: CheckTool,
    name: &str,
    output: &str,
    code: Option<i32>,
) -> (CheckOutcome, ParsedResults) {
    let raw = RawResults {
        stdout: output,
        stderr: "",
        results: None,
        wants_results: false,
        truncated: false,
        kind: tool.kind,
        root: Path::new(""),
        module: None,
    };
    let mut reading = read(tool.format, &raw);
    if let Some(document) = find_embedded_document(output).filter(|_| has_no_results(&reading)) {
        reading = read(tool.format, &RawResults { results: Some(document), ..raw });
    }
    let outcome = match code {
        Some(code) => determine_outcome(name, tool.kind, code, &mut reading),
        None => outcome_without_exit_code(tool, name, output, &mut reading),
    };
    // The parsed results belong to something else, such as the build before the tests.
    let ran = matches!(outcome, CheckOutcome::Skipped { .. }) && tool.reports_success(output);
    (if ran { CheckOutcome::Passed } else { outcome }, reading)
}

/// Whether neither a failure nor a test was found.
fn has_no_results(reading: &ParsedResults) -> bool {
    let no_failure =
        !reading.findings.iter().any(CheckFinding::is_failure) || reading.format == ResultsFormat::Plain;
    no_failure && reading.tests.is_none_or(|counts| counts.total() == 0)
}

/// The outcome from the output alone. Without a sign of success, the check has not passed.
fn outcome_without_exit_code(
    tool: CheckTool,
    name: &str,
    output: &str,
    reading: &mut ParsedResults,
) -> CheckOutcome {
    if reading.findings.iter().any(CheckFinding::is_failure) {
        return CheckOutcome::Failed;
    }
    let is_machine = reading.format.is_machine();
    if is_machine
        && reading.hints.iter().any(CheckFinding::is_failure)
        && reading.tests.is_none_or(|counts| counts.passed == 0)
    {
        push_failure_finding(name, "it failed", reading);
        return CheckOutcome::Failed;
    }
    if let Some(reason) =
        no_tests_reason(tool.kind, 1, reading).or_else(|| no_tests_reason(tool.kind, 0, reading))
    {
        return CheckOutcome::Skipped { reason };
    }
    if reading.complete && (is_machine || tool.reports_success(output)) {
        return CheckOutcome::Passed;
    }
    if !reading.complete {
        let note = reading.notes.first().cloned().unwrap_or_else(|| "the results are incomplete".to_owned());
        return failed_because(name, &note, reading);
    }
    push_failure_finding(
        name,
        "its output does not say whether it passed (send `passed` or `exit_code`)",
        reading,
    );
    CheckOutcome::Failed
}

/// Finds a document of a known format inside other output, such as a linter's JSON after the lines of `npm run`.
fn find_embedded_document(output: &str) -> Option<&str> {
    let mut at = 0;
    let mut starts = Vec::new();
    for line in output.split_inclusive('\n') {
        match line.trim_end() {
            line if line.starts_with("<?xml") || line.starts_with("<testsuite") => starts.push((at, '>')),
            line if line.starts_with('{') && (!line.ends_with('}') || detect_format(line).is_document()) => {
                starts.push((at, '}'));
            }
            line if line.starts_with('[') => starts.push((at, ']')),
            _ => {}
        }
        at += line.len();
    }
    starts.into_iter().take(MAX_DOCUMENT_STARTS).find_map(|(start, closing)| {
        let rest = output.get(start..)?;
        let document = rest.get(..rest.rfind(closing)? + 1)?;
        detect_format(document).is_document().then_some(document)
    })
}

fn wrong_type_error(at: usize, field: &str, wanted: &str) -> Error {
    Error::new(
        ErrorCode::WrongType,
        format!("`checks[{at}].{field}` of `gate.checked` has the wrong type"),
        format!("give {wanted}"),
    )
}

#[cfg(test)]
#[path = "raw_check_tests.rs"]
mod tests;

//! Checks that come with the raw output of a tool: read here, so that every path to the governor gets the same findings.
//!
//! A check `{"name": "tests", "kind": "cargo-test", "output": "…"}` becomes a parsed one: `passed`, `skipped`,
//! `skip_reason` and `details` are filled in, `output` is shortened, and `parsed` names the format that was found. `passed`
//! or `exit_code` of the client count as the end of the command: a success that lists failures has failed.

use super::finding::{Finding, details};
use super::format::{Format, sniff};
use super::judge::{Outcome, explain, failed_because, judge, nothing_ran};
use super::read::{Raw, Reading, read};
use super::tool::Tool;
use flyball::text::shortened;
use flyball::{Code, Error};
use serde_json::{Map, Value, json};
use std::path::Path;

/// How many characters of an output are kept in its check.
const OUTPUT_CHARS: usize = 10_000;
/// At how many lines a document is looked for.
const MOST_STARTS: usize = 64;

/// Reads the checks of a `gate.checked` event that have a `kind` and are not parsed yet. Says whether there were any.
///
/// # Errors
/// If a kind is not known, or a field of such a check has the wrong type.
pub fn parse_raw_checks(checks: &mut [Value]) -> Result<bool, Error> {
    let mut any = false;
    for (at, check) in checks.iter_mut().enumerate() {
        let Some(check) = check.as_object_mut() else { continue };
        if !is_raw(check) {
            continue;
        }
        parse(check, at)?;
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

fn parse(check: &mut Map<String, Value>, at: usize) -> Result<(), Error> {
    let tool = tool(check, at)?;
    let output = match check.get("output") {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(_) => return Err(wrong(at, "output", "the tool's output as a text")),
    };
    let code = exit_code(check, at)?;
    let name = check.get("name").and_then(Value::as_str).unwrap_or(tool.name).to_owned();
    let (outcome, reading) = outcome(tool, &name, &output, code);
    let failures = reading.findings.iter().filter(|found| found.is_failure() && outcome.is_failed());
    check.insert("passed".to_owned(), json!(outcome.is_passed()));
    check.insert("details".to_owned(), json!(details(failures)));
    check.insert("output".to_owned(), json!(shortened(&output, OUTPUT_CHARS)));
    check.insert("kind".to_owned(), json!(tool.kind));
    check.insert("parsed".to_owned(), json!(reading.format));
    if let Outcome::Skipped { reason } = outcome {
        check.insert("skipped".to_owned(), json!(true));
        check.insert("skip_reason".to_owned(), json!(reason));
    }
    Ok(())
}

fn tool(check: &Map<String, Value>, at: usize) -> Result<Tool, Error> {
    let Some(Value::String(kind)) = check.get("kind") else {
        return Err(wrong(at, "kind", "the name of a tool, for example \"cargo-test\""));
    };
    Tool::named(kind).ok_or_else(|| {
        let shown: String = kind.chars().take(60).collect();
        let near = flyball::closest(kind, Tool::names())
            .map_or_else(String::new, |near| format!("did you mean `{near}`? "));
        let known: Vec<&str> = Tool::names().collect();
        Error::new(
            Code::UnknownCheckKind,
            format!("`checks[{at}].kind` is `{shown}`, and no tool of that name is known"),
            format!("{near}use `auto`, or one of {}", known.join(", ")),
        )
    })
}

/// How the command ended, as far as the client says: its code, or whether it passed.
fn exit_code(check: &Map<String, Value>, at: usize) -> Result<Option<i32>, Error> {
    match check.get("exit_code") {
        None | Some(Value::Null) => {}
        Some(code) => {
            let code = code.as_i64().and_then(|code| i32::try_from(code).ok());
            return code.map(Some).ok_or_else(|| wrong(at, "exit_code", "the exit code as a whole number"));
        }
    }
    match check.get("passed") {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Bool(passed)) => Ok(Some(i32::from(!passed))),
        Some(_) => Err(wrong(at, "passed", "true or false")),
    }
}

fn outcome(tool: Tool, name: &str, output: &str, code: Option<i32>) -> (Outcome, Reading) {
    let raw = Raw {
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
    if let Some(document) = embedded(output).filter(|_| says_little(&reading)) {
        reading = read(tool.format, &Raw { results: Some(document), ..raw });
    }
    let outcome = match code {
        Some(code) => judge(name, tool.kind, code, &mut reading),
        None => judge_without_code(tool, name, output, &mut reading),
    };
    // The results that were found are of something else, such as the build before the tests.
    let ran = matches!(outcome, Outcome::Skipped { .. }) && tool.is_content(output);
    (if ran { Outcome::Passed } else { outcome }, reading)
}

/// Whether neither a failure nor a test was found.
fn says_little(reading: &Reading) -> bool {
    let no_failure = !reading.findings.iter().any(Finding::is_failure) || reading.format == Format::Plain;
    no_failure && reading.tests.is_none_or(|counts| counts.total() == 0)
}

/// The outcome by the output alone. What does not say that all is well has not passed.
fn judge_without_code(tool: Tool, name: &str, output: &str, reading: &mut Reading) -> Outcome {
    if reading.findings.iter().any(Finding::is_failure) {
        return Outcome::Failed;
    }
    let is_machine = reading.format.is_machine();
    if is_machine
        && reading.hints.iter().any(Finding::is_failure)
        && reading.tests.is_none_or(|counts| counts.passed == 0)
    {
        explain(name, "it failed", reading);
        return Outcome::Failed;
    }
    if let Some(reason) = nothing_ran(tool.kind, 1, reading).or_else(|| nothing_ran(tool.kind, 0, reading)) {
        return Outcome::Skipped { reason };
    }
    if reading.whole && (is_machine || tool.is_content(output)) {
        return Outcome::Passed;
    }
    if !reading.whole {
        let note = reading.notes.first().cloned().unwrap_or_else(|| "the results are not whole".to_owned());
        return failed_because(name, &note, reading);
    }
    explain(name, "its output does not say whether it passed (send `passed` or `exit_code`)", reading);
    Outcome::Failed
}

/// A document of a known format inside other output, such as the JSON of a linter below the lines of `npm run`.
fn embedded(output: &str) -> Option<&str> {
    let mut at = 0;
    let mut starts = Vec::new();
    for line in output.split_inclusive('\n') {
        match line.trim_end() {
            line if line.starts_with("<?xml") || line.starts_with("<testsuite") => starts.push((at, '>')),
            line if line.starts_with('{') && (!line.ends_with('}') || sniff(line).is_document()) => {
                starts.push((at, '}'));
            }
            line if line.starts_with('[') => starts.push((at, ']')),
            _ => {}
        }
        at += line.len();
    }
    starts.into_iter().take(MOST_STARTS).find_map(|(start, closing)| {
        let rest = output.get(start..)?;
        let document = rest.get(..rest.rfind(closing)? + 1)?;
        sniff(document).is_document().then_some(document)
    })
}

fn wrong(at: usize, field: &str, wanted: &str) -> Error {
    Error::new(
        Code::WrongType,
        format!("`checks[{at}].{field}` of `gate.checked` cannot be used"),
        format!("give {wanted}"),
    )
}

#[cfg(test)]
#[path = "raw_check_tests.rs"]
mod tests;

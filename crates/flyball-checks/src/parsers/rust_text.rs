//! Text output of the Rust compiler, and panic messages.

use super::RawResults;
use crate::finding::{CheckFinding, FindingKind};
use crate::source_location::{SourceLocation, parse_location};

/// Cargo's summary lines, which repeat earlier errors.
const SUMMARIES: [&str; 9] = [
    "could not compile",
    "aborting due to",
    "test failed, to rerun",
    "doctest failed, to rerun",
    "test run failed",
    "build failed",
    "no tests to run",
    "target failed",
    "targets failed",
];

/// The message and location of a failed test, from its output.
pub(super) fn failure_message_and_location(
    text: &str,
    raw: &RawResults<'_>,
) -> (String, Option<(String, Option<u32>)>) {
    if let Some((message, at)) = panic_message(text) {
        return (message, at.and_then(|at| raw.project_location(&at)));
    }
    let said = text.lines().map(str::trim).filter(|line| !line.is_empty() && !is_noise(line));
    let error = text.lines().find(|line| line.starts_with("Error: ") || line.starts_with("error"));
    let message = error.map_or_else(|| said.take(4).collect::<Vec<_>>().join("\n"), str::to_owned);
    let message = message.strip_prefix("note: ").unwrap_or(&message).to_owned();
    let at = message.rsplit_once(" at ").and_then(|(_, rest)| parse_location(rest));
    let at = at.and_then(|at| raw.project_location(&at));
    let message = match (&at, message.rsplit_once(" at ")) {
        (Some(_), Some((before, _))) => before.to_owned(),
        _ => message,
    };
    (message, at)
}

fn is_noise(line: &str) -> bool {
    line.starts_with("note: run with `RUST_BACKTRACE") || line == "stack backtrace:"
}

/// Parses `panicked at src/lib.rs:9:5:` and the message below, or the older `panicked at 'message', src/lib.rs:9:5`.
fn panic_message(text: &str) -> Option<(String, Option<SourceLocation<'_>>)> {
    let (_, rest) = text.split_once("panicked at ")?;
    if let Some(old) = rest.strip_prefix('\'') {
        let (message, after) = old.split_once("', ")?;
        return Some((message.to_owned(), parse_location(after)));
    }
    let (first, below) = rest.split_once('\n').unwrap_or((rest, ""));
    let at = parse_location(first);
    let message: Vec<&str> =
        below.lines().take_while(|line| !is_noise(line) && !line.starts_with("---- ")).collect();
    let message = message.join("\n");
    Some((if message.trim().is_empty() { first.to_owned() } else { message }, at))
}

/// The errors in the human-readable output of the compiler or cargo.
pub(super) fn compile_errors(text: &str, raw: &RawResults<'_>) -> Vec<CheckFinding> {
    let mut found = Vec::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        let Some((code, message)) = parse_error_line(line) else { continue };
        if SUMMARIES.iter().any(|summary| message.contains(summary)) {
            continue;
        }
        let mut said = message.to_owned();
        let mut at = None;
        while let Some(next) = lines.next_if(|next| !next.is_empty() || at.is_none()) {
            let trimmed = next.trim_start();
            if let Some(arrow) = trimmed.strip_prefix("--> ") {
                at = parse_location(arrow).map(|at| (raw.relative(at.file), Some(at.line)));
                break;
            }
            if parse_error_line(next).is_some() || !next.starts_with([' ', 'C']) && !next.is_empty() {
                break;
            }
            // Cargo prints the causes below: `Caused by:` and an indented line.
            if !trimmed.is_empty() && trimmed != "Caused by:" {
                said.push('\n');
                said.push_str(trimmed);
            }
        }
        found.push(CheckFinding::new(FindingKind::Build, code, &said).at_optional(at));
    }
    found
}

/// Parses `error[E0425]: cannot find …` and `error: …`.
fn parse_error_line(line: &str) -> Option<(&str, &str)> {
    let rest = line.strip_prefix("error")?;
    if let Some(coded) = rest.strip_prefix('[') {
        return coded.split_once("]: ");
    }
    rest.strip_prefix(": ").map(|message| ("", message))
}

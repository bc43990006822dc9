//! What Rust's compiler and panics say in words.

use super::Raw;
use crate::finding::{Finding, FindingKind};
use crate::text::{Place, place};

/// Lines of cargo that only sum up what was said before.
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

/// The message and the place of a failed test, from what it printed.
pub(super) fn failure(text: &str, raw: &Raw<'_>) -> (String, Option<(String, Option<u32>)>) {
    if let Some((message, at)) = panic(text) {
        return (message, at.and_then(|at| raw.own(&at)));
    }
    let said = text.lines().map(str::trim).filter(|line| !line.is_empty() && !is_noise(line));
    let error = text.lines().find(|line| line.starts_with("Error: ") || line.starts_with("error"));
    let message = error.map_or_else(|| said.take(4).collect::<Vec<_>>().join("\n"), str::to_owned);
    let message = message.strip_prefix("note: ").unwrap_or(&message).to_owned();
    let at = message.rsplit_once(" at ").and_then(|(_, rest)| place(rest));
    let at = at.and_then(|at| raw.own(&at));
    let message = match (&at, message.rsplit_once(" at ")) {
        (Some(_), Some((before, _))) => before.to_owned(),
        _ => message,
    };
    (message, at)
}

fn is_noise(line: &str) -> bool {
    line.starts_with("note: run with `RUST_BACKTRACE") || line == "stack backtrace:"
}

/// `panicked at src/lib.rs:9:5:` and the message below, or the older `panicked at 'message', src/lib.rs:9:5`.
fn panic(text: &str) -> Option<(String, Option<Place<'_>>)> {
    let (_, rest) = text.split_once("panicked at ")?;
    if let Some(old) = rest.strip_prefix('\'') {
        let (message, after) = old.split_once("', ")?;
        return Some((message.to_owned(), place(after)));
    }
    let (first, below) = rest.split_once('\n').unwrap_or((rest, ""));
    let at = place(first);
    let message: Vec<&str> =
        below.lines().take_while(|line| !is_noise(line) && !line.starts_with("---- ")).collect();
    let message = message.join("\n");
    Some((if message.trim().is_empty() { first.to_owned() } else { message }, at))
}

/// The errors in what the compiler or cargo wrote for people.
pub(super) fn compile_errors(text: &str, raw: &Raw<'_>) -> Vec<Finding> {
    let mut found = Vec::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        let Some((code, message)) = error_line(line) else { continue };
        if SUMMARIES.iter().any(|summary| message.contains(summary)) {
            continue;
        }
        let mut said = message.to_owned();
        let mut at = None;
        while let Some(next) = lines.next_if(|next| !next.is_empty() || at.is_none()) {
            let trimmed = next.trim_start();
            if let Some(arrow) = trimmed.strip_prefix("--> ") {
                at = place(arrow).map(|at| (raw.relative(at.file), Some(at.line)));
                break;
            }
            if error_line(next).is_some() || !next.starts_with([' ', 'C']) && !next.is_empty() {
                break;
            }
            // Cargo gives its reasons below: `Caused by:` and an indented line.
            if !trimmed.is_empty() && trimmed != "Caused by:" {
                said.push('\n');
                said.push_str(trimmed);
            }
        }
        found.push(Finding::new(FindingKind::Build, code, &said).maybe_at(at));
    }
    found
}

/// `error[E0425]: cannot find …`, `error: …`.
fn error_line(line: &str) -> Option<(&str, &str)> {
    let rest = line.strip_prefix("error")?;
    if let Some(coded) = rest.strip_prefix('[') {
        return coded.split_once("]: ");
    }
    rest.strip_prefix(": ").map(|message| ("", message))
}

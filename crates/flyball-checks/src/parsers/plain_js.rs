//! Failures in the text output of vitest, jest, node and ESLint.

use super::RawResults;
use super::junit::{is_script, line_of_file, stack_location};
use crate::finding::{CheckFinding, FindingKind};
use crate::source_location::{parse_leading_number, parse_location};

/// Whether a line belongs to a code frame: `> 8 | expect(…)`, `   | ^`, `4:   const a = ;`.
fn is_code_frame(line: &str) -> bool {
    let rest = line.trim_start().trim_start_matches('>').trim_start();
    match parse_leading_number(rest) {
        Some((_, ":")) => true,
        Some((_, rest)) => rest.trim_start().starts_with('|') || rest.starts_with(": "),
        None => rest.starts_with('|') || rest.trim_end() == "^",
    }
}

/// Strips code frames and the stack trace from a message; if it has a `Details:` line, only the text after it is kept.
pub(super) fn strip_code_frames(text: &str) -> String {
    let text = text.split_once("\n    Details:\n").map_or(text, |(_, details)| details);
    let is_stack = |line: &str| line.starts_with("at ") || line.starts_with('❯');
    let is_said =
        |line: &&str| !is_code_frame(line) && !line.starts_with("At file: ") && !line.starts_with("File: ");
    let lines = text.lines().map(str::trim).take_while(|line| !is_stack(line)).filter(is_said);
    lines.filter(|line| !line.is_empty()).collect::<Vec<_>>().join("\n")
}

/// The line that a code frame points at: `> 2 |   const a = ;`.
pub(super) fn code_frame_line(text: &str) -> Option<u32> {
    let arrow = text
        .lines()
        .filter(|line| is_code_frame(line))
        .find_map(|line| line.trim_start().strip_prefix('>'))?;
    parse_leading_number(arrow.trim_start()).map(|(line, _)| line)
}

/// Parses ` FAIL  test/a.test.js > outer > inner`, the message below it, and `❯ test/a.test.js:9:23`.
pub(super) fn vitest(text: &str, raw: &RawResults<'_>) -> Vec<CheckFinding> {
    let mut found = Vec::new();
    for block in text.split("\n FAIL  ").skip(1) {
        let (title, body) = block.split_once('\n').unwrap_or((block, ""));
        let body = body.split("\n⎯⎯").next().unwrap_or_default();
        // A file that could not be loaded: `test/a.test.js [ test/a.test.js ]`.
        let (name, whole_file) = match title.split_once(" [ ") {
            Some((file, _)) => (file, true),
            None => (title, false),
        };
        let message = body.lines().take_while(|line| !line.trim_start().starts_with('❯')).collect::<Vec<_>>();
        let message =
            message.split(|line| line.starts_with("- Expected")).next().unwrap_or_default().join("\n");
        let message = strip_code_frames(&message);
        let line = line_of_file(body, name.trim());
        let at = line.map(|line| (name.trim().to_owned(), Some(line))).or_else(|| stack_location(body, raw));
        let kind = if whole_file { FindingKind::Setup } else { FindingKind::Test };
        found.push(CheckFinding::new(kind, name.trim(), &message).at_optional(at));
    }
    found
}

/// Parses `FAIL test/a.test.js` and below it `  ● outer › inner` with an indented message and stack trace.
pub(super) fn jest(text: &str, raw: &RawResults<'_>) -> Vec<CheckFinding> {
    let mut found: Vec<CheckFinding> = Vec::new();
    let mut file = String::new();
    let mut title: Option<String> = None;
    let mut body = String::new();
    let mut flush = |file: &str, title: Option<String>, body: &mut String| {
        let body = std::mem::take(body);
        if let Some(title) = title.filter(|_| !file.is_empty()) {
            found.push(jest_finding(file, &title, &body, raw));
        }
    };
    for line in text.lines() {
        if let Some(name) = line.strip_prefix("FAIL ") {
            flush(&file, title.take(), &mut body);
            file = raw.relative(name.split(" (").next().unwrap_or(name).trim());
        } else if let Some(name) = line.strip_prefix("  ● ") {
            flush(&file, title.take(), &mut body);
            title = Some(name.trim().to_owned());
        } else if line.starts_with("Test Suites:") || line.starts_with("Summary of all failing") {
            flush(&file, title.take(), &mut body);
        } else if title.is_some() {
            body.push('\n');
            body.push_str(line);
        }
    }
    flush(&file, title.take(), &mut body);
    found
}

fn jest_finding(file: &str, title: &str, body: &str, raw: &RawResults<'_>) -> CheckFinding {
    let message = strip_code_frames(body);
    if title == "Test suite failed to run" {
        let at = stack_location(body, raw).filter(|(at, _)| at == file);
        let at = at.unwrap_or((file.to_owned(), code_frame_line(body)));
        return CheckFinding::new(FindingKind::Setup, file, &message).at_optional(Some(at));
    }
    let name = format!("{file} > {}", title.split(" › ").collect::<Vec<_>>().join(" > "));
    CheckFinding::new(FindingKind::Test, name, &message).at_optional(stack_location(body, raw))
}

/// Parses the list at the end: `test at calc.test.js:5:1`, `✖ title (2.1ms)`, and the error below.
pub(super) fn node(text: &str, raw: &RawResults<'_>) -> Vec<CheckFinding> {
    let Some((_, list)) = text.split_once("✖ failing tests:") else { return Vec::new() };
    let mut found = Vec::new();
    for block in list.split("\ntest at ").skip(1) {
        let mut lines = block.lines();
        let at = lines.next().and_then(parse_location);
        let Some(title) = lines.next().and_then(|line| line.strip_prefix("✖ ")) else { continue };
        let (title, rest) = title.rsplit_once(" (").unwrap_or((title, ""));
        if rest.contains("# TODO") {
            continue;
        }
        let body: Vec<&str> = lines.collect();
        let message = strip_code_frames(&body.join("\n"));
        let message = message.trim_matches('\'');
        let at = stack_location(&body.join("\n"), raw).or_else(|| raw.project_location(&at?));
        let name = raw.relative(title);
        let kind = if is_script(&name) { FindingKind::Setup } else { FindingKind::Test };
        found.push(CheckFinding::new(kind, name, message).at_optional(at));
    }
    found
}

/// Parses ESLint's default format: the file on a separate line, then `  1:7  error  message  rule`.
pub(super) fn eslint(text: &str, raw: &RawResults<'_>) -> Vec<CheckFinding> {
    let mut found = Vec::new();
    let mut file = "";
    for line in text.lines() {
        if line.starts_with(['/', '.']) || line.get(1..3) == Some(":\\") {
            file = line.trim();
            continue;
        }
        let Some((at, rest)) = line.trim_start().split_once("  ").filter(|_| line.starts_with("  ")) else {
            continue;
        };
        let Some((row, column)) = at.split_once(':') else { continue };
        let Ok(row) = row.parse::<u32>() else { continue };
        let rest = rest.trim_start();
        let (level, rest) = rest.split_once("  ").unwrap_or((rest, ""));
        if file.is_empty() || column.parse::<u32>().is_err() || !matches!(level, "error" | "warning") {
            continue;
        }
        let (message, rule) = rest.trim().rsplit_once("  ").unwrap_or((rest.trim(), ""));
        let kind = if message.starts_with("Parsing error") { FindingKind::Build } else { FindingKind::Lint };
        let finding = CheckFinding::new(kind, rule.trim(), message.trim()).at(raw.relative(file), Some(row));
        found.push(if level == "error" { finding } else { finding.warning() });
    }
    found
}

//! Plain text: the fallback, sufficient for most tools.
//!
//! Tool-specific failure formats are tried first. If none matches, anything of the form `file:line: message` is used.

use super::{
    ParserOutput, RawResults, junit::stack_location, libtest, plain_js, plain_test_runners, rust_text,
};
use crate::finding::{CheckFinding, FindingKind};
use crate::source_location::{SourceLocation, parse_leading_number, parse_location};
use flyball::CheckKind;
use flyball::text::strip_ansi;

/// Maximum number of findings per output.
pub(super) const MAX_FINDINGS: usize = 500;
/// Number of bytes inspected at the beginning and at the end of a text.
const MAX_TEXT_BYTES: usize = 1024 * 1024;

pub(super) fn parse_plain_text(raw: &RawResults<'_>) -> ParserOutput {
    let (stdout, stderr) = (strip_ansi(raw.stdout), strip_ansi(raw.stderr));
    let raw = &RawResults { stdout: &stdout, stderr: &stderr, ..*raw };
    let text = head_and_tail(raw.human_output());
    let mut parsed = ParserOutput::default();
    let has_programs = stdout.contains("\ntest result: ") || stdout.starts_with("running ");
    if has_programs || stdout.contains("\nrunning ") && stdout.contains("\ntest ") {
        libtest::parse_libtest_into(&stdout, raw, &mut parsed);
    }
    parsed.findings.extend(plain_test_runners::go(&text, raw));
    parsed.findings.extend(plain_test_runners::pytest(&text, raw));
    parsed.findings.extend(plain_test_runners::unittest(&text, raw));
    parsed.findings.extend(plain_js::vitest(&text, raw));
    parsed.findings.extend(plain_js::jest(&text, raw));
    parsed.findings.extend(plain_js::node(&text, raw));
    parsed.findings.extend(plain_js::eslint(&text, raw));
    parsed.findings.extend(typescript(&text, raw));
    parsed.findings.extend(rust_text::compile_errors(&text, raw));
    if parsed.findings.is_empty() {
        parsed.findings = located_messages(&text, raw);
    }
    if parsed.findings.is_empty() {
        parsed.findings.extend(uncaught_error(&text, raw));
    }
    parsed.findings.truncate(MAX_FINDINGS);
    parsed.partial = parsed.findings.iter().any(|found| found.kind != FindingKind::Test);
    parsed
}

/// The beginning and the end of a text, one of which usually contains the error.
fn head_and_tail(text: String) -> String {
    if text.len() <= 2 * MAX_TEXT_BYTES {
        return text;
    }
    let (mut head, mut tail) = (MAX_TEXT_BYTES, text.len() - MAX_TEXT_BYTES);
    while !text.is_char_boundary(head) {
        head -= 1;
    }
    while !text.is_char_boundary(tail) {
        tail += 1;
    }
    format!("{}\n{}", text.get(..head).unwrap_or_default(), text.get(tail..).unwrap_or_default())
}

/// The kind of a finding with a location, derived from the kind of check.
fn finding_kind(raw: &RawResults<'_>) -> FindingKind {
    match raw.kind {
        CheckKind::Build | CheckKind::Tests => FindingKind::Build,
        CheckKind::Lint => FindingKind::Lint,
        CheckKind::Custom => FindingKind::Other,
    }
}

/// Parses `calc.ts(2,3): error TS2322: …` and `calc.ts:2:3 - error TS2322: …`.
fn typescript(text: &str, raw: &RawResults<'_>) -> Vec<CheckFinding> {
    let found = text.lines().filter_map(|line| {
        let (before, rest) = line.split_once(": error TS").or_else(|| line.split_once(" - error TS"))?;
        let (code, message) = rest.split_once(": ")?;
        let (file, line) = match before.split_once('(') {
            Some((file, at)) => (file, parse_leading_number(at)?.0),
            None => parse_location(before).map(|at| (at.file, at.line))?,
        };
        let finding = CheckFinding::new(FindingKind::Build, format!("TS{code}"), message);
        Some(finding.at(raw.relative(file), Some(line)))
    });
    found.collect()
}

/// Parses any message with a location: compilers, `go vet`, mypy, flake8 and similar tools.
fn located_messages(text: &str, raw: &RawResults<'_>) -> Vec<CheckFinding> {
    let found = text.lines().filter(|line| !line.starts_with([' ', '\t'])).filter_map(|line| {
        let line = line.strip_prefix("vet: ").unwrap_or(line);
        let at = parse_location(line)?;
        let (file, row) = raw.project_location(&at)?;
        let said = at.rest;
        let is_note = said.is_empty() || said.starts_with("note:") || said.starts_with("in ");
        if is_note {
            return None;
        }
        let (said, is_warning) = match said.strip_prefix("warning: ") {
            Some(rest) => (rest, true),
            None => (said.strip_prefix("fatal ").unwrap_or(said).trim_start_matches("error: "), false),
        };
        let (name, said) = split_rule(said);
        let found = CheckFinding::new(finding_kind(raw), name, said).at(file, row);
        Some(if is_warning { found.warning() } else { found })
    });
    found.collect()
}

/// Splits off a rule before (`F401 unused`) or after (`wrong type  [assignment]`) the message.
fn split_rule(said: &str) -> (String, &str) {
    if let Some((message, rule)) = said.strip_suffix(']').and_then(|said| said.rsplit_once(" ["))
        && !rule.contains(' ')
    {
        return (rule.to_owned(), message.trim_end());
    }
    if let Some((first, message)) = said.split_once(' ') {
        let letters = first.bytes().take_while(u8::is_ascii_uppercase).count();
        let digits = first.bytes().skip(letters).all(|b| b.is_ascii_digit());
        if (1..=4).contains(&letters) && (letters + 2..=letters + 5).contains(&first.len()) && digits {
            return (first.to_owned(), message);
        }
    }
    (String::new(), said)
}

/// An uncaught error of a program: the last line of a traceback, or the first of a stack trace.
fn uncaught_error(text: &str, raw: &RawResults<'_>) -> Option<CheckFinding> {
    let is_error = |line: &&str| {
        let (name, rest) = line.split_once(": ").unwrap_or((line, ""));
        let name = name.split(' ').next().unwrap_or_default();
        let known = name.ends_with("Error") || name.ends_with("Exception") || name == "panic";
        known && !rest.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '_' || c == '.')
    };
    let lines: Vec<&str> = text.lines().collect();
    let (at, line) = lines.iter().enumerate().rev().find(|(_, line)| is_error(line))?;
    let above = lines.get(..at).unwrap_or_default().iter().rev().find_map(|line| {
        let (file, rest) = line.trim().strip_prefix("File \"")?.split_once("\", line ")?;
        raw.project_location(&SourceLocation { file, line: parse_leading_number(rest)?.0, rest: "" })
    });
    let below = lines.get(at..).unwrap_or_default().join("\n");
    Some(
        CheckFinding::new(FindingKind::Other, "", line)
            .at_optional(above.or_else(|| stack_location(&below, raw))),
    )
}

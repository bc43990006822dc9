//! Text that was written for people: the last resort, and good enough for most tools.
//!
//! Each tool's own way of naming failures is tried first; only if none of them is there, anything that looks like
//! `file:line: message` is taken.

use super::{Parsed, Raw, junit::stack_place, libtest, plain_js, plain_tests, rust_text};
use crate::finding::{Finding, FindingKind};
use crate::text::{Place, number, place};
use flyball::CheckKind;
use flyball::text::without_codes;

/// The most findings of one output.
pub(super) const MOST: usize = 500;
/// How much of the beginning and of the end of a text is looked at, in bytes.
const TEXT: usize = 1024 * 1024;

pub(super) fn read(raw: &Raw<'_>) -> Parsed {
    let (stdout, stderr) = (without_codes(raw.stdout), without_codes(raw.stderr));
    let raw = &Raw { stdout: &stdout, stderr: &stderr, ..*raw };
    let text = bounded(raw.words());
    let mut parsed = Parsed::default();
    let has_programs = stdout.contains("\ntest result: ") || stdout.starts_with("running ");
    if has_programs || stdout.contains("\nrunning ") && stdout.contains("\ntest ") {
        libtest::read_into(&stdout, raw, &mut parsed);
    }
    parsed.findings.extend(plain_tests::go(&text, raw));
    parsed.findings.extend(plain_tests::pytest(&text, raw));
    parsed.findings.extend(plain_tests::unittest(&text, raw));
    parsed.findings.extend(plain_js::vitest(&text, raw));
    parsed.findings.extend(plain_js::jest(&text, raw));
    parsed.findings.extend(plain_js::node(&text, raw));
    parsed.findings.extend(plain_js::eslint(&text, raw));
    parsed.findings.extend(typescript(&text, raw));
    parsed.findings.extend(rust_text::compile_errors(&text, raw));
    if parsed.findings.is_empty() {
        parsed.findings = places(&text, raw);
    }
    if parsed.findings.is_empty() {
        parsed.findings.extend(uncaught(&text, raw));
    }
    parsed.findings.truncate(MOST);
    parsed.partial = parsed.findings.iter().any(|found| found.kind != FindingKind::Test);
    parsed
}

/// The beginning and the end of a text: what is wrong stands in one of them.
fn bounded(text: String) -> String {
    if text.len() <= 2 * TEXT {
        return text;
    }
    let (mut head, mut tail) = (TEXT, text.len() - TEXT);
    while !text.is_char_boundary(head) {
        head -= 1;
    }
    while !text.is_char_boundary(tail) {
        tail += 1;
    }
    format!("{}\n{}", text.get(..head).unwrap_or_default(), text.get(tail..).unwrap_or_default())
}

/// What a message with a place is, going by what the gate looks at.
fn kind_of(raw: &Raw<'_>) -> FindingKind {
    match raw.kind {
        CheckKind::Build | CheckKind::Tests => FindingKind::Build,
        CheckKind::Lint => FindingKind::Lint,
        CheckKind::Custom => FindingKind::Other,
    }
}

/// `calc.ts(2,3): error TS2322: …` and `calc.ts:2:3 - error TS2322: …`.
fn typescript(text: &str, raw: &Raw<'_>) -> Vec<Finding> {
    let found = text.lines().filter_map(|line| {
        let (before, rest) = line.split_once(": error TS").or_else(|| line.split_once(" - error TS"))?;
        let (code, message) = rest.split_once(": ")?;
        let (file, line) = match before.split_once('(') {
            Some((file, at)) => (file, number(at)?.0),
            None => place(before).map(|at| (at.file, at.line))?,
        };
        let finding = Finding::new(FindingKind::Build, format!("TS{code}"), message);
        Some(finding.at(raw.relative(file), Some(line)))
    });
    found.collect()
}

/// Anything with a place: compilers, `go vet`, mypy, flake8 and their like.
fn places(text: &str, raw: &Raw<'_>) -> Vec<Finding> {
    let found = text.lines().filter(|line| !line.starts_with([' ', '\t'])).filter_map(|line| {
        let line = line.strip_prefix("vet: ").unwrap_or(line);
        let at = place(line)?;
        let (file, row) = raw.own(&at)?;
        let said = at.rest;
        let is_note = said.is_empty() || said.starts_with("note:") || said.starts_with("in ");
        if is_note {
            return None;
        }
        let (said, is_warning) = match said.strip_prefix("warning: ") {
            Some(rest) => (rest, true),
            None => (said.strip_prefix("fatal ").unwrap_or(said).trim_start_matches("error: "), false),
        };
        let (name, said) = rule(said);
        let found = Finding::new(kind_of(raw), name, said).at(file, row);
        Some(if is_warning { found.warning() } else { found })
    });
    found.collect()
}

/// A rule before (`F401 unused`) or behind (`wrong type  [assignment]`) the message.
fn rule(said: &str) -> (String, &str) {
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

/// A program that died of an error nobody caught: the last line of a traceback, or the first of a stack.
fn uncaught(text: &str, raw: &Raw<'_>) -> Option<Finding> {
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
        raw.own(&Place { file, line: number(rest)?.0, rest: "" })
    });
    let below = lines.get(at..).unwrap_or_default().join("\n");
    Some(Finding::new(FindingKind::Other, "", line).maybe_at(above.or_else(|| stack_place(&below, raw))))
}

//! The Test Anything Protocol, with subtests in the format of node (indented, parent last) and vitest (in braces,
//! parent first).

use super::junit::{is_script, stack_location};
use super::{ParseFailure, ParserOutput, RawResults, TestCounts};
use crate::finding::{CheckFinding, FindingKind};
use crate::source_location::{parse_leading_number, parse_location};
use std::collections::BTreeSet;

/// One `ok` or `not ok` line.
#[derive(Default)]
struct TapPoint {
    ok: bool,
    /// The titles, outermost first.
    path: Vec<String>,
    /// Whether it is marked `SKIP` or `TODO`.
    excused: bool,
    skipped: bool,
    indent: usize,
    details: Vec<String>,
}

#[derive(Default)]
struct TapStream {
    points: Vec<TapPoint>,
    /// Enclosing titles with their indentation.
    scopes: Vec<(usize, String)>,
    plan: Option<u32>,
    bailed: Option<String>,
    in_details: bool,
}

impl TapStream {
    fn push_line(&mut self, line: &str) {
        let trimmed = line.trim_start();
        let indent = line.len() - trimmed.len();
        if self.in_details {
            self.in_details = trimmed.trim_end() != "...";
            if let Some(point) = self.points.last_mut().filter(|_| self.in_details) {
                point.details.push(line.to_owned());
            }
        } else if trimmed.trim_end() == "---" {
            self.in_details = true;
        } else if let Some(title) = trimmed.strip_prefix("# Subtest: ") {
            self.scopes.retain(|(at, _)| *at < indent);
            self.scopes.push((indent, unescape(title)));
        } else if let Some(rest) = trimmed.strip_prefix("1..") {
            self.plan = if indent == 0 { parse_leading_number(rest).map(|(n, _)| n) } else { self.plan };
        } else if let Some(why) = trimmed.strip_prefix("Bail out!") {
            self.bailed = Some(why.trim().to_owned());
        } else if let Some(rest) = trimmed.strip_prefix("not ok") {
            self.push_point(false, rest, indent);
        } else if let Some(rest) = trimmed.strip_prefix("ok") {
            self.push_point(true, rest, indent);
        } else if let Some(point) = self.points.last_mut().filter(|point| !point.ok && indent > point.indent)
        {
            // Older writers omit the markers around the details.
            if !matches!(trimmed, "}" | "") {
                point.details.push(line.to_owned());
            }
        }
    }

    fn push_point(&mut self, ok: bool, rest: &str, indent: usize) {
        if !(rest.is_empty() || rest.starts_with(' ')) {
            return;
        }
        let rest = rest.trim_start();
        let rest = parse_leading_number(rest).map_or(rest, |(_, rest)| rest).trim_start();
        let (rest, opens) = match rest.trim_end().strip_suffix('{') {
            Some(inner) => (inner.trim_end(), true),
            None => (rest.trim_end(), false),
        };
        let (title, directive) = split_directive(rest.strip_prefix("- ").unwrap_or(rest));
        let word = directive.to_ascii_uppercase();
        self.scopes.retain(|(at, _)| *at < indent);
        let title = unescape(title.trim());
        let path = self.scopes.iter().map(|(_, title)| title.clone()).chain([title.clone()]).collect();
        let (skipped, todo) = (word.starts_with("SKIP"), word.starts_with("TODO"));
        self.points.push(TapPoint {
            ok,
            path,
            excused: skipped || todo,
            skipped: skipped || todo,
            indent,
            details: Vec::new(),
        });
        if opens {
            self.scopes.push((indent, title));
        }
    }
}

/// Splits the title from the directive after an unescaped `#`.
fn split_directive(text: &str) -> (&str, &str) {
    for (at, _) in text.match_indices(" #") {
        let (title, rest) = text.split_at(at);
        if !title.ends_with('\\') {
            return (title, rest.trim_start_matches([' ', '#']));
        }
    }
    (text, "")
}

fn unescape(text: &str) -> String {
    text.replace("\\#", "#").replace("\\\\", "\\")
}

pub(super) fn parse_tap(source: &str, raw: &RawResults<'_>) -> Result<ParserOutput, ParseFailure> {
    let mut stream = TapStream::default();
    source.lines().for_each(|line| stream.push_line(line));
    if stream.points.is_empty() && stream.plan.is_none() {
        return Err(ParseFailure::new("it contains no test"));
    }
    let mut parsed = ParserOutput { missing: missing_reason(&stream), ..ParserOutput::default() };
    // All paths with a point below them, and those with a failing one below.
    let (mut parents, mut failed) = (BTreeSet::new(), BTreeSet::new());
    for point in &stream.points {
        for end in 1..point.path.len() {
            let above = point.path.get(..end).unwrap_or_default();
            parents.insert(above);
            if !point.ok && !point.excused {
                failed.insert(above);
            }
        }
    }
    let mut counts = TestCounts::default();
    for point in &stream.points {
        let is_parent = parents.contains(point.path.as_slice());
        match (is_parent, point.skipped, point.ok) {
            (true, ..) => {}
            (false, true, _) => counts.skipped += 1,
            (false, false, true) => counts.passed += 1,
            (false, false, false) => counts.failed += 1,
        }
        if point.ok || point.excused || is_parent && failed.contains(point.path.as_slice()) && !is_hook(point)
        {
            continue;
        }
        let found = point_finding(point, is_parent, raw);
        parsed.partial |= found.kind == FindingKind::Setup;
        parsed.findings.push(found);
    }
    if let Some(why) = &stream.bailed {
        parsed.findings.push(CheckFinding::new(FindingKind::Setup, "", &format!("bailed out: {why}")));
        parsed.partial = true;
    }
    parsed.tests = Some(counts);
    Ok(parsed)
}

fn missing_reason(stream: &TapStream) -> Option<String> {
    let top = stream.points.iter().filter(|point| point.indent == 0).count();
    match stream.plan {
        _ if stream.bailed.is_some() => None,
        None => Some("the plan, such as `1..4`, is missing".to_owned()),
        Some(plan) if usize::try_from(plan).ok() != Some(top) => {
            Some(format!("{plan} tests are planned and {top} reported"))
        }
        Some(_) if stream.in_details => Some("the details of a test are truncated".to_owned()),
        Some(_) => None,
    }
}

fn is_hook(point: &TapPoint) -> bool {
    let of_node = detail_value(point, "failureType:").is_some_and(|kind| kind.contains("hookFailed"));
    // mocha: `adding "before all" hook for "adds"`.
    of_node
        || point
            .path
            .last()
            .is_some_and(|title| title.contains("\" hook for \"") || title.ends_with("\" hook"))
}

fn point_finding(point: &TapPoint, is_parent: bool, raw: &RawResults<'_>) -> CheckFinding {
    let name = raw.relative(&point.path.join(" > "));
    let around = is_parent || is_hook(point) || is_script(&name);
    let kind = if around { FindingKind::Setup } else { FindingKind::Test };
    let mut message = point_message(point);
    if message.is_empty() {
        message =
            if is_parent { "it failed outside its tests" } else { "failed without a message" }.to_owned();
    }
    let below = point.details.iter().skip_while(|line| !line.trim().starts_with("stack:")).skip(1);
    let stack: String = below.map(|line| format!("at {}\n", line.trim())).collect();
    let named = detail_value(point, "at:").or_else(|| detail_value(point, "location:"));
    let at = stack_location(&stack, raw).or_else(|| stack_location(&point.details.join("\n"), raw));
    let at = at.or_else(|| raw.project_location(&parse_location(named.as_deref()?)?));
    CheckFinding::new(kind, name, &message).at_optional(at)
}

/// The value of a key in the details, unquoted.
fn detail_value(point: &TapPoint, key: &str) -> Option<String> {
    let text = point.details.iter().find_map(|line| line.trim().strip_prefix(key))?.trim();
    let quote = text.chars().next().filter(|c| matches!(c, '\'' | '"'));
    let bare =
        quote.map(|quote| text.strip_prefix(quote).map(|rest| rest.strip_suffix(quote).unwrap_or(rest)));
    Some(bare.flatten().unwrap_or(text).replace("\\\"", "\""))
}

fn point_message(point: &TapPoint) -> String {
    let name = detail_value(point, "name:").filter(|name| name != "Error" && name.ends_with("Error"));
    let said = match detail_value(point, "message:").or_else(|| detail_value(point, "error:")) {
        Some(mark) if mark.starts_with('|') || mark.starts_with('>') => detail_block(point, "error:"),
        Some(said) => said,
        None => point.details.first().map(|line| line.trim().to_owned()).unwrap_or_default(),
    };
    match name {
        Some(name) if !said.is_empty() && !said.starts_with(&name) => format!("{name}: {said}"),
        _ => said,
    }
}

/// The lines below a key that are indented more than the key.
fn detail_block(point: &TapPoint, key: &str) -> String {
    let indent = |line: &str| line.len() - line.trim_start().len();
    let mut lines = point.details.iter().skip_while(|line| !line.trim().starts_with(key));
    let own = lines.next().map_or(0, |line| indent(line));
    let below: Vec<&str> = lines
        .take_while(|line| line.trim().is_empty() || indent(line) > own)
        .map(|line| line.trim())
        .collect();
    below.join("\n")
}

//! The Test Anything Protocol, with subtests as node (indented, the parent last) and vitest (in braces, the parent
//! first) write them.

use super::junit::{is_script, stack_place};
use super::{Broken, Counts, Parsed, Raw};
use crate::finding::{Finding, FindingKind};
use crate::text::{number, place};
use std::collections::BTreeSet;

/// One `ok` or `not ok`.
#[derive(Default)]
struct Point {
    ok: bool,
    /// The titles from the outside in.
    path: Vec<String>,
    /// `SKIP` or `TODO`.
    excused: bool,
    skipped: bool,
    indent: usize,
    details: Vec<String>,
}

#[derive(Default)]
struct Stream {
    points: Vec<Point>,
    /// Outer titles with the indent they were written at.
    scopes: Vec<(usize, String)>,
    plan: Option<u32>,
    bailed: Option<String>,
    in_details: bool,
}

impl Stream {
    fn take(&mut self, line: &str) {
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
            self.scopes.push((indent, unescaped(title)));
        } else if let Some(rest) = trimmed.strip_prefix("1..") {
            self.plan = if indent == 0 { number(rest).map(|(n, _)| n) } else { self.plan };
        } else if let Some(why) = trimmed.strip_prefix("Bail out!") {
            self.bailed = Some(why.trim().to_owned());
        } else if let Some(rest) = trimmed.strip_prefix("not ok") {
            self.point(false, rest, indent);
        } else if let Some(rest) = trimmed.strip_prefix("ok") {
            self.point(true, rest, indent);
        } else if let Some(point) = self.points.last_mut().filter(|point| !point.ok && indent > point.indent)
        {
            // Older writers put the details below without marks around them.
            if !matches!(trimmed, "}" | "") {
                point.details.push(line.to_owned());
            }
        }
    }

    fn point(&mut self, ok: bool, rest: &str, indent: usize) {
        if !(rest.is_empty() || rest.starts_with(' ')) {
            return;
        }
        let rest = rest.trim_start();
        let rest = number(rest).map_or(rest, |(_, rest)| rest).trim_start();
        let (rest, opens) = match rest.trim_end().strip_suffix('{') {
            Some(inner) => (inner.trim_end(), true),
            None => (rest.trim_end(), false),
        };
        let (title, directive) = directive(rest.strip_prefix("- ").unwrap_or(rest));
        let word = directive.to_ascii_uppercase();
        self.scopes.retain(|(at, _)| *at < indent);
        let title = unescaped(title.trim());
        let path = self.scopes.iter().map(|(_, title)| title.clone()).chain([title.clone()]).collect();
        let (skipped, todo) = (word.starts_with("SKIP"), word.starts_with("TODO"));
        self.points.push(Point {
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

/// The title and what stands behind a `#` that is not escaped.
fn directive(text: &str) -> (&str, &str) {
    for (at, _) in text.match_indices(" #") {
        let (title, rest) = text.split_at(at);
        if !title.ends_with('\\') {
            return (title, rest.trim_start_matches([' ', '#']));
        }
    }
    (text, "")
}

fn unescaped(text: &str) -> String {
    text.replace("\\#", "#").replace("\\\\", "\\")
}

pub(super) fn read(source: &str, raw: &Raw<'_>) -> Result<Parsed, Broken> {
    let mut stream = Stream::default();
    source.lines().for_each(|line| stream.take(line));
    if stream.points.is_empty() && stream.plan.is_none() {
        return Err(Broken::new("it holds no test"));
    }
    let mut parsed = Parsed { missing: missing(&stream), ..Parsed::default() };
    // Every path that some other point lies below, and those with a failing one below.
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
    let mut counts = Counts::default();
    for point in &stream.points {
        let is_parent = parents.contains(point.path.as_slice());
        match (is_parent, point.skipped, point.ok) {
            (true, ..) => {}
            (false, true, _) => counts.skipped += 1,
            (false, false, true) => counts.passed += 1,
            (false, false, false) => counts.failed += 1,
        }
        if point.ok || point.excused || is_parent && failed.contains(point.path.as_slice()) && !of_hook(point)
        {
            continue;
        }
        let found = finding(point, is_parent, raw);
        parsed.partial |= found.kind == FindingKind::Setup;
        parsed.findings.push(found);
    }
    if let Some(why) = &stream.bailed {
        parsed.findings.push(Finding::new(FindingKind::Setup, "", &format!("bailed out: {why}")));
        parsed.partial = true;
    }
    parsed.tests = Some(counts);
    Ok(parsed)
}

fn missing(stream: &Stream) -> Option<String> {
    let top = stream.points.iter().filter(|point| point.indent == 0).count();
    match stream.plan {
        _ if stream.bailed.is_some() => None,
        None => Some("the plan, such as `1..4`, is missing".to_owned()),
        Some(plan) if usize::try_from(plan).ok() != Some(top) => {
            Some(format!("{plan} tests are planned and {top} reported"))
        }
        Some(_) if stream.in_details => Some("the details of a test are cut off".to_owned()),
        Some(_) => None,
    }
}

fn of_hook(point: &Point) -> bool {
    let of_node = value(point, "failureType:").is_some_and(|kind| kind.contains("hookFailed"));
    // mocha: `adding "before all" hook for "adds"`.
    of_node
        || point
            .path
            .last()
            .is_some_and(|title| title.contains("\" hook for \"") || title.ends_with("\" hook"))
}

fn finding(point: &Point, is_parent: bool, raw: &Raw<'_>) -> Finding {
    let name = raw.relative(&point.path.join(" > "));
    let around = is_parent || of_hook(point) || is_script(&name);
    let kind = if around { FindingKind::Setup } else { FindingKind::Test };
    let mut message = message(point);
    if message.is_empty() {
        message = if is_parent { "it failed outside its tests" } else { "failed without a word" }.to_owned();
    }
    let below = point.details.iter().skip_while(|line| !line.trim().starts_with("stack:")).skip(1);
    let stack: String = below.map(|line| format!("at {}\n", line.trim())).collect();
    let named = value(point, "at:").or_else(|| value(point, "location:"));
    let at = stack_place(&stack, raw).or_else(|| stack_place(&point.details.join("\n"), raw));
    let at = at.or_else(|| raw.own(&place(named.as_deref()?)?));
    Finding::new(kind, name, &message).maybe_at(at)
}

/// The value of a key of the details, without its quotes.
fn value(point: &Point, key: &str) -> Option<String> {
    let text = point.details.iter().find_map(|line| line.trim().strip_prefix(key))?.trim();
    let quote = text.chars().next().filter(|c| matches!(c, '\'' | '"'));
    let bare =
        quote.map(|quote| text.strip_prefix(quote).map(|rest| rest.strip_suffix(quote).unwrap_or(rest)));
    Some(bare.flatten().unwrap_or(text).replace("\\\"", "\""))
}

fn message(point: &Point) -> String {
    let name = value(point, "name:").filter(|name| name != "Error" && name.ends_with("Error"));
    let said = match value(point, "message:").or_else(|| value(point, "error:")) {
        Some(mark) if mark.starts_with('|') || mark.starts_with('>') => block(point, "error:"),
        Some(said) => said,
        None => point.details.first().map(|line| line.trim().to_owned()).unwrap_or_default(),
    };
    match name {
        Some(name) if !said.is_empty() && !said.starts_with(&name) => format!("{name}: {said}"),
        _ => said,
    }
}

/// The lines below a key, as far as they are indented more than the key.
fn block(point: &Point, key: &str) -> String {
    let indent = |line: &str| line.len() - line.trim_start().len();
    let mut lines = point.details.iter().skip_while(|line| !line.trim().starts_with(key));
    let own = lines.next().map_or(0, |line| indent(line));
    let below: Vec<&str> = lines
        .take_while(|line| line.trim().is_empty() || indent(line) > own)
        .map(|line| line.trim())
        .collect();
    below.join("\n")
}

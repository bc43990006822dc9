//! Failures in the text output of `go test`, pytest and unittest.

use super::RawResults;
use super::plain::MAX_FINDINGS;
use crate::finding::{CheckFinding, FindingKind};
use crate::source_location::{SourceLocation, parse_leading_number, parse_location};

/// Parses `--- FAIL: TestTable/one (0.00s)` and the indented lines below; the package comes last, after `FAIL` and a
/// tab.
pub(super) fn go(text: &str, raw: &RawResults<'_>) -> Vec<CheckFinding> {
    let mut found: Vec<CheckFinding> = Vec::new();
    let mut open: Vec<GoTestBlock> = Vec::new();
    for line in text.lines() {
        let trimmed = line.trim_start();
        let indent = line.len() - trimmed.len();
        if let Some(rest) = trimmed.strip_prefix("--- FAIL: ") {
            let name = rest.rsplit_once(" (").map_or(rest, |(name, _)| name);
            open.push(GoTestBlock { name: name.to_owned(), indent, lines: Vec::new() });
        } else if let Some(rest) = line.strip_prefix("FAIL\t") {
            let package = rest.split(['\t', ' ']).next().unwrap_or_default();
            found.extend(go_tests(&mut open, package, raw));
            if rest.contains(" failed]") {
                found.push(CheckFinding::new(FindingKind::Build, package, "the package does not build"));
            }
        } else if let Some(test) = open.iter_mut().rev().find(|test| indent > test.indent || indent == 0) {
            test.lines.push(line.to_owned());
        }
    }
    found.extend(go_tests(&mut open, "", raw));
    let is_go = !found.is_empty();
    if is_go {
        found.splice(0..0, go_errors(text, raw));
        let has_errors =
            found.iter().any(|finding| finding.kind == FindingKind::Build && finding.file.is_some());
        found.retain(|finding| !has_errors || finding.kind != FindingKind::Build || finding.file.is_some());
    }
    found
}

struct GoTestBlock {
    name: String,
    indent: usize,
    lines: Vec<String>,
}

fn go_tests(open: &mut Vec<GoTestBlock>, package: &str, raw: &RawResults<'_>) -> Vec<CheckFinding> {
    let tests = std::mem::take(open);
    let below =
        raw.module.and_then(|module| package.strip_prefix(module)).and_then(|rest| rest.strip_prefix('/'));
    let folder = below.map(|below| format!("{below}/")).unwrap_or_default();
    let mut found = Vec::new();
    for test in &tests {
        let prefix = format!("{}/", test.name);
        let is_parent = tests.iter().any(|other| other.name.starts_with(&prefix));
        let said: Vec<_> = test
            .lines
            .iter()
            .filter_map(|line| parse_location(line))
            .filter(|at| at.file.ends_with(".go"))
            .collect();
        let panic = test.lines.iter().find(|line| line.starts_with("panic: "));
        let name = if package.is_empty() { test.name.clone() } else { format!("{package}.{}", test.name) };
        let finding = if let Some(panic) = panic {
            let panic = panic.replace(" [recovered, repanicked]", "").replace(" [recovered]", "");
            let stack = test.lines.iter().filter_map(|line| parse_location(line.strip_prefix('\t')?));
            let own = stack.filter(|at| at.file.contains('/')).find_map(|at| raw.project_location(&at));
            CheckFinding::new(FindingKind::Test, name, &panic).at_optional(own)
        } else if let Some(first) = said.first() {
            let message: Vec<&str> = said.iter().map(|at| at.rest).collect();
            let file = format!("{folder}{}", first.file);
            CheckFinding::new(FindingKind::Test, name, &message.join("\n")).at(file, Some(first.line))
        } else if is_parent {
            continue;
        } else {
            let printed: Vec<&str> =
                test.lines.iter().map(|line| line.trim()).filter(|line| *line != "FAIL").collect();
            let message = printed.join("\n");
            let message = if message.trim().is_empty() { "failed without a message" } else { &message };
            CheckFinding::new(FindingKind::Test, name, message)
        };
        found.push(finding);
    }
    found
}

fn go_errors(text: &str, raw: &RawResults<'_>) -> Vec<CheckFinding> {
    let lines = text.lines().filter(|line| !line.starts_with([' ', '\t']));
    let errors =
        lines.filter_map(parse_location).filter(|at| at.file.ends_with(".go") && !at.rest.is_empty());
    errors
        .map(|at| CheckFinding::new(FindingKind::Build, "", at.rest).at(raw.relative(at.file), Some(at.line)))
        .collect()
}

/// Parses the short summary at the end: `FAILED tests/test_a.py::test_b - message`. The locations are above it.
pub(super) fn pytest(text: &str, raw: &RawResults<'_>) -> Vec<CheckFinding> {
    let Some((above, summary)) = text.split_once("= short test summary info =") else {
        return pytest_import(text, raw).into_iter().collect();
    };
    let mut found = Vec::new();
    for line in summary.lines() {
        if found.len() == MAX_FINDINGS {
            break;
        }
        let (kind, rest) = match (line.strip_prefix("FAILED "), line.strip_prefix("ERROR ")) {
            (Some(rest), _) => (FindingKind::Test, rest),
            (_, Some(rest)) => (FindingKind::Setup, rest),
            _ => continue,
        };
        let (name, message) = rest.split_once(" - ").unwrap_or((rest, ""));
        let (message, at) = pytest_block(above, name, message, raw);
        let at = at.or_else(|| name.split("::").next().map(|file| (file.to_owned(), None)));
        found.push(CheckFinding::new(kind, name, &message).at_optional(at));
    }
    found
}

/// Finds the block of one test: `____ test_b ____`, `E   message`, `tests/test_a.py:3: Error`.
fn pytest_block(
    text: &str,
    name: &str,
    short: &str,
    raw: &RawResults<'_>,
) -> (String, Option<(String, Option<u32>)>) {
    let file = name.split("::").next().unwrap_or_default();
    let test = name.split_once("::").map_or("", |(_, test)| test);
    // Colons in brackets belong to a parameter.
    let (path, parameters) = test.split_at(test.find('[').unwrap_or(test.len()));
    let title = format!("{}{parameters}", path.replace("::", "."));
    let is_title = |line: &&str| {
        let inner = line.trim_matches('_').trim();
        let own = inner == title || inner.ends_with(&format!(" of {title}"));
        line.starts_with("__") && !title.is_empty() && own || inner == format!("ERROR collecting {file}")
    };
    let block: Vec<&str> = text
        .lines()
        .skip_while(|line| !is_title(line))
        .skip(1)
        .take_while(|line| !line.starts_with("___") && !line.starts_with("==="))
        .collect();
    let errors: Vec<&str> = block.iter().filter_map(|line| line.strip_prefix("E ")).map(str::trim).collect();
    let places = block
        .iter()
        .rev()
        .filter(|line| !line.starts_with([' ', '>', 'E']))
        .filter_map(|line| parse_location(line));
    let own = || places.filter(|at| at.file.ends_with(".py")).find_map(|at| raw.project_location(&at));
    let at = syntax_error_location(&errors, raw).or_else(own);
    let collecting =
        block.iter().any(|line| line.contains("importtestmodule") || line.contains("importing test module"));
    let message = match (short.is_empty() || collecting, errors.last()) {
        (true, Some(last)) => (*last).to_owned(),
        (true, None) => "failed".to_owned(),
        (false, _) if errors.is_empty() => short.to_owned(),
        (false, _) => errors.join("\n"),
    };
    (message, at)
}

fn syntax_error_location(errors: &[&str], raw: &RawResults<'_>) -> Option<(String, Option<u32>)> {
    let (file, rest) =
        errors.iter().find_map(|line| line.strip_prefix("File \"")?.split_once("\", line "))?;
    Some((raw.relative(file), parse_leading_number(rest).map(|(line, _)| line)))
}

/// Parses `ImportError while loading conftest`, after which pytest prints no summary.
fn pytest_import(text: &str, raw: &RawResults<'_>) -> Option<CheckFinding> {
    let (_, rest) = text.split_once("ImportError while loading conftest ")?;
    let file = rest.lines().next()?.trim_matches(['\'', '"', '.']);
    let message = rest.lines().rev().find_map(|line| line.strip_prefix("E "))?.trim();
    let at =
        rest.lines().skip(1).filter_map(parse_location).filter_map(|at| raw.project_location(&at)).last();
    let line = at.and_then(|(_, line)| line);
    let file = raw.relative(file);
    Some(CheckFinding::new(FindingKind::Setup, file.clone(), message).at(file, line))
}

/// Parses `FAIL: test_add (tests.test_calc.TestOld.test_add)` between two rulers, with a traceback below.
pub(super) fn unittest(text: &str, raw: &RawResults<'_>) -> Vec<CheckFinding> {
    let mut found = Vec::new();
    for block in
        text.split("\n======================================================================\n").skip(1)
    {
        let mut lines = block.lines();
        let title = lines.next().unwrap_or_default();
        let (kind, rest) = match (title.strip_prefix("FAIL: "), title.strip_prefix("ERROR: ")) {
            (Some(rest), _) => (FindingKind::Test, rest),
            (_, Some(rest)) => (FindingKind::Setup, rest),
            _ => continue,
        };
        let name = match rest.split_once(" (") {
            Some((method, place)) => {
                let place = place.split(')').next().unwrap_or_default();
                if place.ends_with(&format!(".{method}")) {
                    place.to_owned()
                } else {
                    format!("{place}.{method}")
                }
            }
            None => rest.to_owned(),
        };
        let body: Vec<&str> = lines.take_while(|line| !line.starts_with("Ran ")).collect();
        let at = body.iter().rev().find_map(|line| {
            let (file, rest) = line.trim().strip_prefix("File \"")?.split_once("\", line ")?;
            raw.project_location(&SourceLocation { file, line: parse_leading_number(rest)?.0, rest: "" })
        });
        let last = body.iter().rev().find(|line| !line.trim().is_empty() && !line.starts_with(['-', ' ']));
        found.push(CheckFinding::new(kind, name, last.unwrap_or(&"failed")).at_optional(at));
    }
    found
}

//! The text in which `go test`, pytest and unittest name what failed.

use super::Raw;
use super::plain::MOST;
use crate::finding::{Finding, FindingKind};
use crate::text::{Place, number, place};

/// `--- FAIL: TestTable/one (0.00s)` and the indented lines below; the package comes last, after
/// a `FAIL` and a tab.
pub(super) fn go(text: &str, raw: &Raw<'_>) -> Vec<Finding> {
    let mut found: Vec<Finding> = Vec::new();
    let mut open: Vec<GoTest> = Vec::new();
    for line in text.lines() {
        let trimmed = line.trim_start();
        let indent = line.len() - trimmed.len();
        if let Some(rest) = trimmed.strip_prefix("--- FAIL: ") {
            let name = rest.rsplit_once(" (").map_or(rest, |(name, _)| name);
            open.push(GoTest { name: name.to_owned(), indent, lines: Vec::new() });
        } else if let Some(rest) = line.strip_prefix("FAIL\t") {
            let package = rest.split(['\t', ' ']).next().unwrap_or_default();
            found.extend(go_tests(&mut open, package, raw));
            if rest.contains(" failed]") {
                found.push(Finding::new(FindingKind::Build, package, "the package does not build"));
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

struct GoTest {
    name: String,
    indent: usize,
    lines: Vec<String>,
}

fn go_tests(open: &mut Vec<GoTest>, package: &str, raw: &Raw<'_>) -> Vec<Finding> {
    let tests = std::mem::take(open);
    let below =
        raw.module.and_then(|module| package.strip_prefix(module)).and_then(|rest| rest.strip_prefix('/'));
    let folder = below.map(|below| format!("{below}/")).unwrap_or_default();
    let mut found = Vec::new();
    for test in &tests {
        let prefix = format!("{}/", test.name);
        let is_parent = tests.iter().any(|other| other.name.starts_with(&prefix));
        let said: Vec<_> =
            test.lines.iter().filter_map(|line| place(line)).filter(|at| at.file.ends_with(".go")).collect();
        let panic = test.lines.iter().find(|line| line.starts_with("panic: "));
        let name = if package.is_empty() { test.name.clone() } else { format!("{package}.{}", test.name) };
        let finding = if let Some(panic) = panic {
            let panic = panic.replace(" [recovered, repanicked]", "").replace(" [recovered]", "");
            let stack = test.lines.iter().filter_map(|line| place(line.strip_prefix('\t')?));
            let own = stack.filter(|at| at.file.contains('/')).find_map(|at| raw.own(&at));
            Finding::new(FindingKind::Test, name, &panic).maybe_at(own)
        } else if let Some(first) = said.first() {
            let message: Vec<&str> = said.iter().map(|at| at.rest).collect();
            let file = format!("{folder}{}", first.file);
            Finding::new(FindingKind::Test, name, &message.join("\n")).at(file, Some(first.line))
        } else if is_parent {
            continue;
        } else {
            let printed: Vec<&str> =
                test.lines.iter().map(|line| line.trim()).filter(|line| *line != "FAIL").collect();
            let message = printed.join("\n");
            let message = if message.trim().is_empty() { "failed without a word" } else { &message };
            Finding::new(FindingKind::Test, name, message)
        };
        found.push(finding);
    }
    found
}

fn go_errors(text: &str, raw: &Raw<'_>) -> Vec<Finding> {
    let lines = text.lines().filter(|line| !line.starts_with([' ', '\t']));
    let errors = lines.filter_map(place).filter(|at| at.file.ends_with(".go") && !at.rest.is_empty());
    errors
        .map(|at| Finding::new(FindingKind::Build, "", at.rest).at(raw.relative(at.file), Some(at.line)))
        .collect()
}

/// The short summary at the end: `FAILED tests/test_a.py::test_b - message`. The places stand above it.
pub(super) fn pytest(text: &str, raw: &Raw<'_>) -> Vec<Finding> {
    let Some((above, summary)) = text.split_once("= short test summary info =") else {
        return pytest_import(text, raw).into_iter().collect();
    };
    let mut found = Vec::new();
    for line in summary.lines() {
        if found.len() == MOST {
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
        found.push(Finding::new(kind, name, &message).maybe_at(at));
    }
    found
}

/// What the block of one test says: `____ test_b ____`, `E   message`, `tests/test_a.py:3: Error`.
fn pytest_block(
    text: &str,
    name: &str,
    short: &str,
    raw: &Raw<'_>,
) -> (String, Option<(String, Option<u32>)>) {
    let file = name.split("::").next().unwrap_or_default();
    let test = name.split_once("::").map_or("", |(_, test)| test);
    // Colons inside the brackets belong to a parameter.
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
    let places =
        block.iter().rev().filter(|line| !line.starts_with([' ', '>', 'E'])).filter_map(|line| place(line));
    let own = || places.filter(|at| at.file.ends_with(".py")).find_map(|at| raw.own(&at));
    let at = in_file(&errors, raw).or_else(own);
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

fn in_file(errors: &[&str], raw: &Raw<'_>) -> Option<(String, Option<u32>)> {
    let (file, rest) =
        errors.iter().find_map(|line| line.strip_prefix("File \"")?.split_once("\", line "))?;
    Some((raw.relative(file), number(rest).map(|(line, _)| line)))
}

/// `ImportError while loading conftest`: pytest did not get as far as a summary.
fn pytest_import(text: &str, raw: &Raw<'_>) -> Option<Finding> {
    let (_, rest) = text.split_once("ImportError while loading conftest ")?;
    let file = rest.lines().next()?.trim_matches(['\'', '"', '.']);
    let message = rest.lines().rev().find_map(|line| line.strip_prefix("E "))?.trim();
    let at = rest.lines().skip(1).filter_map(place).filter_map(|at| raw.own(&at)).last();
    let line = at.and_then(|(_, line)| line);
    let file = raw.relative(file);
    Some(Finding::new(FindingKind::Setup, file.clone(), message).at(file, line))
}

/// `FAIL: test_add (tests.test_calc.TestOld.test_add)` between two rules, with a traceback below.
pub(super) fn unittest(text: &str, raw: &Raw<'_>) -> Vec<Finding> {
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
            raw.own(&Place { file, line: number(rest)?.0, rest: "" })
        });
        let last = body.iter().rev().find(|line| !line.trim().is_empty() && !line.starts_with(['-', ' ']));
        found.push(Finding::new(kind, name, last.unwrap_or(&"failed")).maybe_at(at));
    }
    found
}

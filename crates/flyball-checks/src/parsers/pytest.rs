//! pytest's JUnit dialect: node ids as accepted on pytest's command line, and tracebacks.

use super::RawResults;
use crate::finding::{CheckFinding, FindingKind};
use crate::source_location::{SourceLocation, parse_location};
use roxmltree::Node;

/// The node id, such as `tests/test_calc.py::TestMore::test_raises[1-2]`.
pub(super) fn node_id(case: Node<'_, '_>, body: &str) -> String {
    let name = case.attribute("name").unwrap_or_default();
    let class = case.attribute("classname").unwrap_or_default();
    let file = case.attribute("file").map(str::to_owned);
    if class.is_empty() {
        // A module that could not be collected is listed as a test with the module's name.
        return file.unwrap_or_else(|| format!("{}.py", name.replace('.', "/")));
    }
    let file = file.or_else(|| file_of(class, body)).unwrap_or_else(|| guess_file(class));
    let module = file.strip_suffix(".py").unwrap_or(&file).replace(['/', '\\'], ".");
    let classes = class.strip_prefix(&module).unwrap_or_default().trim_start_matches('.');
    if classes.is_empty() {
        format!("{file}::{name}")
    } else {
        format!("{file}::{}::{name}", classes.replace('.', "::"))
    }
}

/// The file of a class, from the traceback; newer reports do not name it.
fn file_of(class: &str, body: &str) -> Option<String> {
    traceback_locations(body).map(|at| at.file.to_owned()).find(|file| {
        let module = file.strip_suffix(".py").unwrap_or(file).replace('/', ".");
        class == module || class.strip_prefix(&module).is_some_and(|rest| rest.starts_with('.'))
    })
}

/// Guesses the file: class names start with a capital letter, module names do not.
fn guess_file(class: &str) -> String {
    let modules = class.split('.').take_while(|part| !part.starts_with(char::is_uppercase));
    format!("{}.py", modules.collect::<Vec<_>>().join("/"))
}

/// Locations in lines such as `tests/test_calc.py:13: AssertionError` and `calc.py:2: in add`.
fn traceback_locations(body: &str) -> impl DoubleEndedIterator<Item = SourceLocation<'_>> {
    body.lines().filter(|line| !line.starts_with([' ', '>', 'E'])).filter_map(|line| {
        let at = parse_location(line)?;
        at.file.ends_with(".py").then_some(at)
    })
}

pub(super) fn case_finding(
    case: Node<'_, '_>,
    name: &str,
    title: &str,
    body: &str,
    raw: &RawResults<'_>,
) -> CheckFinding {
    let collecting = title == "collection failure";
    let around = title.starts_with("failed on setup") || title.starts_with("failed on teardown");
    let kind = if collecting || around { FindingKind::Setup } else { FindingKind::Test };
    let errors: Vec<&str> = body.lines().filter_map(|line| line.strip_prefix("E ")).map(str::trim).collect();
    let message = if collecting || title.trim().is_empty() {
        let last = errors.iter().rev().find(|line| !line.is_empty()).copied();
        last.or(body.lines().find(|line| !line.trim().is_empty())).unwrap_or(title)
    } else {
        title.trim()
    };
    let at = syntax_error_location(&errors, raw)
        .or_else(|| traceback_locations(body).rev().find_map(|at| raw.project_location(&at)));
    // The line of a test starts at 0 here.
    let of_test = || {
        let line = case.attribute("line").and_then(|line| line.parse::<u32>().ok()).map(|line| line + 1);
        case.attribute("file").map(|file| (file.to_owned(), line))
    };
    CheckFinding::new(kind, name, message).at_optional(at.or_else(of_test))
}

/// Parses `File "/p/tests/test_syntax.py", line 1`.
fn syntax_error_location(errors: &[&str], raw: &RawResults<'_>) -> Option<(String, Option<u32>)> {
    let (file, rest) =
        errors.iter().find_map(|line| line.strip_prefix("File \"")?.split_once("\", line "))?;
    Some((raw.relative(file), rest.split(',').next().and_then(|line| line.trim().parse().ok())))
}

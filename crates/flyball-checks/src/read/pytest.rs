//! pytest's dialect of JUnit: the names that pytest itself takes on its command line, and what its tracebacks say.

use super::Raw;
use crate::finding::{Finding, FindingKind};
use crate::text::{Place, place};
use roxmltree::Node;

/// `tests/test_calc.py::TestMore::test_raises[1-2]`, which pytest takes as an argument.
pub(super) fn node_id(case: Node<'_, '_>, body: &str) -> String {
    let name = case.attribute("name").unwrap_or_default();
    let class = case.attribute("classname").unwrap_or_default();
    let file = case.attribute("file").map(str::to_owned);
    if class.is_empty() {
        // A module that could not be collected is a test of its own, named like the module.
        return file.unwrap_or_else(|| format!("{}.py", name.replace('.', "/")));
    }
    let file = file.or_else(|| file_of(class, body)).unwrap_or_else(|| guessed(class));
    let module = file.strip_suffix(".py").unwrap_or(&file).replace(['/', '\\'], ".");
    let classes = class.strip_prefix(&module).unwrap_or_default().trim_start_matches('.');
    if classes.is_empty() {
        format!("{file}::{name}")
    } else {
        format!("{file}::{}::{name}", classes.replace('.', "::"))
    }
}

/// The file of the traceback that the class lies in; newer reports do not name it.
fn file_of(class: &str, body: &str) -> Option<String> {
    places(body).map(|at| at.file.to_owned()).find(|file| {
        let module = file.strip_suffix(".py").unwrap_or(file).replace('/', ".");
        class == module || class.strip_prefix(&module).is_some_and(|rest| rest.starts_with('.'))
    })
}

/// Classes begin with a capital, modules do not.
fn guessed(class: &str) -> String {
    let modules = class.split('.').take_while(|part| !part.starts_with(char::is_uppercase));
    format!("{}.py", modules.collect::<Vec<_>>().join("/"))
}

/// Lines such as `tests/test_calc.py:13: AssertionError` and `calc.py:2: in add`.
fn places(body: &str) -> impl DoubleEndedIterator<Item = Place<'_>> {
    body.lines().filter(|line| !line.starts_with([' ', '>', 'E'])).filter_map(|line| {
        let at = place(line)?;
        at.file.ends_with(".py").then_some(at)
    })
}

pub(super) fn finding(case: Node<'_, '_>, name: &str, title: &str, body: &str, raw: &Raw<'_>) -> Finding {
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
    let at = syntax_place(&errors, raw).or_else(|| places(body).rev().find_map(|at| raw.own(&at)));
    // The line of a test counts from 0 here.
    let of_test = || {
        let line = case.attribute("line").and_then(|line| line.parse::<u32>().ok()).map(|line| line + 1);
        case.attribute("file").map(|file| (file.to_owned(), line))
    };
    Finding::new(kind, name, message).maybe_at(at.or_else(of_test))
}

/// `File "/p/tests/test_syntax.py", line 1`
fn syntax_place(errors: &[&str], raw: &Raw<'_>) -> Option<(String, Option<u32>)> {
    let (file, rest) =
        errors.iter().find_map(|line| line.strip_prefix("File \"")?.split_once("\", line "))?;
    Some((raw.relative(file), rest.split(',').next().and_then(|line| line.trim().parse().ok())))
}

//! Checks that `docs/requirements.md` is true: it lists every requirement with its code, a test and where it is visible.
//!
//! In a cell, a path in backticks is followed by names in backticks that must be in that file. A test is the name of a
//! test function after its file, or a recorded history.

use super::assert_no_violations;
use super::files::{read_file, repo_root};

const PAGE: &str = "docs/requirements.md";

/// The parts of the requirements list, with the last item of each.
const REQUIREMENT_PARTS: [(&str, u32); 16] = [
    ("M-BUD", 10),
    ("M-CNT", 20),
    ("M-CYC", 29),
    ("M-STL", 36),
    ("M-REP", 40),
    ("M-VAL", 43),
    ("M-LRG", 44),
    ("M-GATE", 50),
    ("M-CNF", 60),
    ("M-PER", 66),
    ("M-HITL", 72),
    ("M-EV", 77),
    ("M-CFG", 82),
    ("M-MET", 87),
    ("M-UX", 91),
    ("M-TST", 99),
];

/// Allowed prefixes of paths on the page.
const PATH_PREFIXES: [&str; 8] =
    ["crates/", "fixtures/", "examples/", "docs/", "xtask/", "torture/", "bench/", "fuzz/"];

/// One row of the table.
struct RequirementRow {
    number: u32,
    part: String,
    place: String,
    test: String,
    visible_in: String,
}

/// The rows of all parts; tables with three columns list rejected requirements and are skipped.
fn parse_rows(page: &str) -> Vec<RequirementRow> {
    let mut part = String::new();
    let mut rows = Vec::new();
    for line in page.lines() {
        if let Some(heading) = line.strip_prefix("## ") {
            heading.split(':').next().unwrap_or_default().clone_into(&mut part);
        }
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        if let [number, _, place, test, seen] = cells.as_slice()
            && let Ok(number) = number.parse()
        {
            let (place, test, seen) = ((*place).to_owned(), (*test).to_owned(), (*seen).to_owned());
            rows.push(RequirementRow { number, part: part.clone(), place, test, visible_in: seen });
        }
    }
    rows
}

/// The texts in backticks.
fn code_spans(cell: &str) -> impl Iterator<Item = &str> {
    cell.split('`').skip(1).step_by(2)
}

fn is_path(text: &str) -> bool {
    PATH_PREFIXES.iter().any(|room| text.starts_with(room)) && !text.contains(' ')
}

/// Each path in a cell with the names after it; names without a path get an empty one.
fn cited_names(cell: &str) -> Vec<(&str, Vec<&str>)> {
    let mut found: Vec<(&str, Vec<&str>)> = Vec::new();
    for span in code_spans(cell) {
        match found.last_mut() {
            _ if is_path(span) => found.push((span, Vec::new())),
            Some((_, names)) => names.push(span),
            None => found.push(("", vec![span])),
        }
    }
    found
}

/// Whether a name is in a text as a whole word.
fn contains_word(text: &str, name: &str) -> bool {
    let part = |c: char| c.is_alphanumeric() || c == '_';
    text.split(|c: char| !part(c)).any(|word| word == name)
}

/// Whether a name is a test in a file. The cases of the conformance suite are tests of each engine.
fn is_test(path: &str, text: &str, name: &str) -> bool {
    if path.contains("/tests/cases/") {
        return contains_word(&read_file("crates/flyball-store/tests/conformance.rs"), name);
    }
    let before = text.split_once(&format!("fn {name}(")).map(|(before, _)| before.trim_end());
    before.is_some_and(|before| before.ends_with("#[test]"))
}

/// Errors in the paths and names of a cell. With `tests`, a name must be a test.
fn cell_errors(row: &RequirementRow, cell: &str, tests: bool) -> Vec<String> {
    let mut found = Vec::new();
    for (path, names) in cited_names(cell) {
        let file = repo_root().join(path);
        if path.is_empty() || !file.exists() {
            found.push(format!("item {}: no {path:?} before {names:?}", row.number));
            continue;
        }
        let text = std::fs::read_to_string(&file).unwrap_or_default();
        let there =
            |name: &&&str| if tests { is_test(path, &text, name) } else { contains_word(&text, name) };
        let missing = names.iter().filter(|name| !there(name));
        found.extend(missing.map(|name| format!("item {}: {path} has no {name}", row.number)));
        if tests && path.ends_with(".rs") && names.is_empty() {
            found.push(format!("item {}: no test after {path}", row.number));
        }
    }
    found
}

#[test]
fn every_requirement_is_listed_once_in_its_part() {
    let rows = parse_rows(&read_file(PAGE));
    let numbers: Vec<u32> = rows.iter().map(|row| row.number).collect();
    assert_eq!(numbers, (1..=99).collect::<Vec<_>>(), "each number once, in order");
    let part = |number: u32| {
        REQUIREMENT_PARTS.iter().find(|(_, last)| number <= *last).map_or("", |(name, _)| *name)
    };
    let astray = rows.iter().filter(|row| row.part != part(row.number));
    assert_no_violations(
        &astray.map(|row| format!("item {} is listed under {}", row.number, row.part)).collect::<Vec<_>>(),
    );
}

#[test]
fn every_path_test_and_command_on_the_page_exists() {
    let mut found = Vec::new();
    for row in parse_rows(&read_file(PAGE)) {
        found.extend(cell_errors(&row, &row.place, false));
        found.extend(cell_errors(&row, &row.test, true));
        let words = code_spans(&row.visible_in).flat_map(str::split_whitespace).filter(|word| is_path(word));
        let gone = words.filter(|word| !repo_root().join(word).exists());
        found.extend(gone.map(|word| format!("item {}: no {word}", row.number)));
        if row.visible_in.is_empty() || row.place.is_empty() {
            found.push(format!("item {}: empty cell", row.number));
        }
    }
    assert_no_violations(&found);
}

#[test]
fn every_requirement_has_a_test() {
    let rows = parse_rows(&read_file(PAGE));
    let mut found = Vec::new();
    for row in &rows {
        let shown = cited_names(&row.test).iter().any(|(path, _)| !path.is_empty());
        if !shown {
            found.push(format!("item {}: no test", row.number));
        }
    }
    assert_no_violations(&found);
}

#[test]
fn cell_is_parsed_as_paths_with_names() {
    let cell = "`crates/a.rs` `one`, `two`; `fixtures/original-systems/x.jsonl`; later: WAITS";
    assert_eq!(
        cited_names(cell),
        [("crates/a.rs", vec!["one", "two"]), ("fixtures/original-systems/x.jsonl", vec![])]
    );
    assert_eq!(cited_names("`alone`"), [("", vec!["alone"])]);
    assert!(contains_word("fn long_name() {}", "long_name") && !contains_word("fn long_name() {}", "long"));
    let page =
        "## M-X: y\n\n| no | what | place | test | seen |\n|---|---|---|---|---|\n| 7 | a | `b` | c | d |\n";
    let found = parse_rows(page);
    assert_eq!((found.len(), found[0].number, found[0].part.as_str()), (1, 7, "M-X"));
}

//! `docs/seeds.md` stays true: all items of the merged list, each with a place, a test and where it is seen.
//!
//! In a cell a path stands in backticks, followed by names, in backticks too, that must be in that file. A test is the
//! name of a test function behind its file, or a recorded history.

use super::files::{read, root};
use super::none;

const PAGE: &str = "docs/seeds.md";

/// The merged list: its parts, and the last item of each.
const PARTS: [(&str, u32); 16] = [
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

/// Where the paths that the page may name begin.
const ROOMS: [&str; 8] =
    ["crates/", "fixtures/", "examples/", "docs/", "xtask/", "torture/", "bench/", "fuzz/"];

/// One row of the table.
struct Row {
    number: u32,
    part: String,
    place: String,
    test: String,
    seen: String,
}

/// The rows of the parts; what is decided against is told in a table of three columns, which has none.
fn rows(page: &str) -> Vec<Row> {
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
            rows.push(Row { number, part: part.clone(), place, test, seen });
        }
    }
    rows
}

/// What stands in backticks.
fn spans(cell: &str) -> impl Iterator<Item = &str> {
    cell.split('`').skip(1).step_by(2)
}

fn is_path(text: &str) -> bool {
    ROOMS.iter().any(|room| text.starts_with(room)) && !text.contains(' ')
}

/// Each path of a cell with the names that stand behind it; names without a path come with an empty one.
fn cited(cell: &str) -> Vec<(&str, Vec<&str>)> {
    let mut found: Vec<(&str, Vec<&str>)> = Vec::new();
    for span in spans(cell) {
        match found.last_mut() {
            _ if is_path(span) => found.push((span, Vec::new())),
            Some((_, names)) => names.push(span),
            None => found.push(("", vec![span])),
        }
    }
    found
}

/// Whether a name is in a text as a whole word.
fn holds(text: &str, name: &str) -> bool {
    let part = |c: char| c.is_alphanumeric() || c == '_';
    text.split(|c: char| !part(c)).any(|word| word == name)
}

/// Whether a name is a test of a file. The cases of the conformance suite are tests of each engine.
fn is_test(path: &str, text: &str, name: &str) -> bool {
    if path.contains("/tests/cases/") {
        return holds(&read("crates/flyball-journal/tests/conformance.rs"), name);
    }
    let before = text.split_once(&format!("fn {name}(")).map(|(before, _)| before.trim_end());
    before.is_some_and(|before| before.ends_with("#[test]"))
}

/// What is wrong with the paths and names of a cell. With `tests`, a name must be a test.
fn wrong(row: &Row, cell: &str, tests: bool) -> Vec<String> {
    let mut found = Vec::new();
    for (path, names) in cited(cell) {
        let file = root().join(path);
        if path.is_empty() || !file.exists() {
            found.push(format!("item {}: there is no {path:?} before {names:?}", row.number));
            continue;
        }
        let text = std::fs::read_to_string(&file).unwrap_or_default();
        let there = |name: &&&str| if tests { is_test(path, &text, name) } else { holds(&text, name) };
        let missing = names.iter().filter(|name| !there(name));
        found.extend(missing.map(|name| format!("item {}: {path} has no {name}", row.number)));
        if tests && path.ends_with(".rs") && names.is_empty() {
            found.push(format!("item {}: {path} names no test", row.number));
        }
    }
    found
}

#[test]
fn every_item_of_the_merged_list_stands_once_and_in_its_part() {
    let rows = rows(&read(PAGE));
    let numbers: Vec<u32> = rows.iter().map(|row| row.number).collect();
    assert_eq!(numbers, (1..=99).collect::<Vec<_>>(), "each number once, in order");
    let part = |number: u32| PARTS.iter().find(|(_, last)| number <= *last).map_or("", |(name, _)| *name);
    let astray = rows.iter().filter(|row| row.part != part(row.number));
    none(&astray.map(|row| format!("item {} stands under {}", row.number, row.part)).collect::<Vec<_>>());
}

#[test]
fn every_place_test_and_command_that_the_page_names_is_there() {
    let mut found = Vec::new();
    for row in rows(&read(PAGE)) {
        found.extend(wrong(&row, &row.place, false));
        found.extend(wrong(&row, &row.test, true));
        let words = spans(&row.seen).flat_map(str::split_whitespace).filter(|word| is_path(word));
        let gone = words.filter(|word| !root().join(word).exists());
        found.extend(gone.map(|word| format!("item {}: there is no {word}", row.number)));
        if row.seen.is_empty() || row.place.is_empty() {
            found.push(format!("item {}: a cell is empty", row.number));
        }
    }
    none(&found);
}

#[test]
fn no_item_is_without_a_test() {
    let rows = rows(&read(PAGE));
    let mut found = Vec::new();
    for row in &rows {
        let shown = cited(&row.test).iter().any(|(path, _)| !path.is_empty());
        if !shown {
            found.push(format!("item {}: no test shows it", row.number));
        }
    }
    none(&found);
}

#[test]
fn a_cell_is_read_as_paths_with_names() {
    let cell = "`crates/a.rs` `one`, `two`; `fixtures/seeds/x.jsonl`; later: WAITS";
    assert_eq!(cited(cell), [("crates/a.rs", vec!["one", "two"]), ("fixtures/seeds/x.jsonl", vec![])]);
    assert_eq!(cited("`alone`"), [("", vec!["alone"])]);
    assert!(holds("fn long_name() {}", "long_name") && !holds("fn long_name() {}", "long"));
    let page =
        "## M-X: y\n\n| no | what | place | test | seen |\n|---|---|---|---|---|\n| 7 | a | `b` | c | d |\n";
    let found = rows(page);
    assert_eq!((found.len(), found[0].number, found[0].part.as_str()), (1, 7, "M-X"));
}

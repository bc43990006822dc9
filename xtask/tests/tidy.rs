//! Tidiness is a test: what keeps the house readable, checked on every file of the repository.

#![allow(clippy::expect_used, clippy::panic, reason = "a test may stop at what it cannot read")]

#[path = "tidy/code.rs"]
mod code;
#[path = "tidy/files.rs"]
mod files;
#[path = "tidy/seeds.rs"]
mod seeds;

use code::{blanked, functions, outside_tests};
use files::{File, all, root};

/// The longest file without tests, the longest test file, the longest function, in lines.
const FILE_LINES: usize = 500;
const TEST_FILE_LINES: usize = 900;
const FUNCTION_LINES: usize = 70;
/// The largest file, in bytes.
const FILE_BYTES: usize = 400 * 1024;

/// Everything that the core depends on, each with its reason. A new one is a decision, not an accident.
const CORE_DEPENDENCIES: [(&str, &str); 11] = [
    ("blake3", "digests of states and policies that may be compared across machines"),
    ("cel", "custom rules"),
    ("jiff", "RFC 3339 times in events"),
    ("petgraph", "strongly connected parts of a workflow"),
    ("postcard", "the encoded state"),
    ("saphyr-parser", "policy files in YAML, with the place of each key"),
    ("schemars", "the JSON schema of policy files"),
    ("serde", "reading and writing events, decisions and states"),
    ("serde_json", "events and decisions"),
    ("toml", "policy files in TOML, with the place of each key"),
    ("xxhash-rust", "fingerprints"),
];

/// Fails with all complaints at once, one a line.
fn none(complaints: &[String]) {
    assert!(complaints.is_empty(), "\n{}\n", complaints.join("\n"));
}

fn rust() -> Vec<File> {
    all().into_iter().filter(|file| file.has_ending("rs")).collect()
}

#[test]
fn every_rust_file_says_why_it_exists() {
    let bare = |file: &File| {
        let first = file.text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
        let said = first.strip_prefix("//!").is_some_and(|rest| rest.trim().len() > 10);
        (!said).then(|| format!("{}: the first line is not a `//!` header", file.path))
    };
    none(&rust().iter().filter_map(bare).collect::<Vec<_>>());
}

#[test]
fn files_are_short_enough_to_be_read() {
    let long = |file: &File| {
        let (lines, most) = if file.is_test() {
            (file.text.lines().count(), TEST_FILE_LINES)
        } else {
            (outside_tests(&file.text).lines().count(), FILE_LINES)
        };
        (lines > most).then(|| format!("{}: {lines} lines, {most} are allowed", file.path))
    };
    none(&rust().iter().filter_map(long).collect::<Vec<_>>());
}

#[test]
fn functions_are_short_enough_to_be_read() {
    let mut long = Vec::new();
    // A table of cases is a function by form only.
    for file in rust().into_iter().filter(|file| !file.is_test()) {
        for (name, line, lines) in functions(&blanked(&file.text)) {
            if lines > FUNCTION_LINES {
                long.push(format!(
                    "{}:{line}: {name} has {lines} lines, {FUNCTION_LINES} are allowed",
                    file.path
                ));
            }
        }
    }
    none(&long);
}

#[test]
fn nothing_outside_tests_can_panic_by_choice() {
    let mut found = Vec::new();
    // A fuzz target reports by panicking.
    for file in rust().iter().filter(|file| !file.is_test() && !file.path.starts_with("fuzz/")) {
        let code = blanked(outside_tests(&file.text));
        for (at, line) in code.lines().enumerate() {
            for word in [".unwrap()", ".expect(", "panic!(", "todo!(", "unimplemented!(", "unreachable!("] {
                if line.contains(word) {
                    found.push(format!("{}:{}: {word}", file.path, at + 1));
                }
            }
        }
    }
    none(&found);
}

#[test]
fn the_core_has_no_map_without_an_order() {
    let mut found = Vec::new();
    for file in rust().iter().filter(|file| file.path.starts_with("crates/flyball/src/")) {
        for (at, line) in blanked(&file.text).lines().enumerate() {
            if line.contains("HashMap") || line.contains("HashSet") {
                found.push(format!("{}:{}: use BTreeMap or BTreeSet", file.path, at + 1));
            }
        }
    }
    none(&found);
}

#[test]
fn the_core_depends_on_exactly_what_is_listed_here() {
    let manifest = files::read("crates/flyball/Cargo.toml");
    let section = manifest.lines().skip_while(|line| *line != "[dependencies]").skip(1);
    let section = section.take_while(|line| !line.starts_with('['));
    let names = section.filter_map(|line| line.split(['.', ' ', '=']).next()).filter(|name| !name.is_empty());
    let listed: Vec<&str> = CORE_DEPENDENCIES.iter().map(|(name, _)| *name).collect();
    assert_eq!(names.collect::<Vec<_>>(), listed, "say in this test why a dependency is there");
}

#[test]
fn no_file_names_a_path_of_a_machine() {
    // Put together here, so that this file does not name one itself.
    let roots = ["root", "work", "home"].map(|name| format!("/{name}/"));
    let mut found = Vec::new();
    for file in all() {
        for (at, line) in file.text.lines().enumerate() {
            for path in &roots {
                let from_the_top = |at: usize| {
                    let before = line.get(..at).and_then(|text| text.chars().next_back());
                    before.is_none_or(|c| !c.is_alphanumeric() && !"_.-/*$}~".contains(c))
                };
                if line.match_indices(path.as_str()).any(|(at, _)| from_the_top(at)) {
                    found.push(format!("{}:{}: {path}", file.path, at + 1));
                }
            }
        }
    }
    none(&found);
}

#[test]
fn no_file_is_large() {
    let large = |file: &File| {
        (file.bytes > FILE_BYTES)
            .then(|| format!("{}: {} bytes, {FILE_BYTES} are allowed", file.path, file.bytes))
    };
    none(&all().iter().filter_map(large).collect::<Vec<_>>());
}

#[test]
fn no_page_is_left_unfinished() {
    // Put together here, so that a search for them does not end in this file.
    let words = ["TO", "TB", "FIX", "XX"].into_iter().zip(["DO", "D", "ME", "X"]);
    let words: Vec<String> = words.map(|(head, tail)| format!("{head}{tail}")).collect();
    let phrases = ["lorem ipsum", "to be written", "coming soon", "insert text here", "<your "];
    let mut found = Vec::new();
    for file in all().iter().filter(|file| file.has_ending("md") || file.has_ending("rs") && !is_this(file)) {
        let page = file.has_ending("md");
        let told = |line: &str| page || line.starts_with("//!");
        for (at, line) in file.text.lines().enumerate().filter(|(_, line)| told(line)) {
            let small = line.to_lowercase();
            let mut parts = line.split(|c: char| !c.is_alphanumeric());
            if parts.any(|part| words.iter().any(|word| word == part))
                || phrases.iter().any(|phrase| small.contains(phrase))
            {
                found.push(format!("{}:{}: {line}", file.path, at + 1));
            }
        }
    }
    none(&found);
}

fn is_this(file: &File) -> bool {
    file.path == "xtask/tests/tidy.rs"
}

#[test]
fn every_path_that_a_page_names_is_there() {
    let mut missing = Vec::new();
    for page in ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"] {
        if !root().join(page).is_file() {
            missing.push(format!("{page} itself"));
            continue;
        }
        for path in paths_in(&files::read(page)) {
            if !root().join(&path).exists() {
                missing.push(format!("{page} names {path}"));
            }
        }
    }
    none(&missing);
}

/// The paths below `docs`, `fixtures` and `examples` in a text. A path with a gap such as `<name>` ends before it.
fn paths_in(text: &str) -> Vec<String> {
    let part = |c: char| c.is_alphanumeric() || "_-./".contains(c);
    let words =
        text.split(|c: char| !part(c)).map(|word| word.trim_start_matches("./").trim_end_matches(['.', '-']));
    let below = |word: &&str| ["docs/", "fixtures/", "examples/"].iter().any(|room| word.starts_with(room));
    words.filter(below).map(str::to_owned).collect()
}

#[test]
fn paths_are_found_in_a_text() {
    let text = "See `docs/errors.md`, [x](./examples/ralph/events.jsonl). Not a/docs/b; fixtures/guards/<name>.jsonl";
    assert_eq!(paths_in(text), ["docs/errors.md", "examples/ralph/events.jsonl", "fixtures/guards/"]);
}

/// Words of a text that look like the path of a test: parts joined by `::` or `/`, reduced to the last part.
fn test_names(text: &str) -> impl Iterator<Item = &str> {
    let is_part = |c: char| c.is_alphanumeric() || "_-./:".contains(c);
    let words = text.split(move |c| !is_part(c)).filter(|word| word.contains("::"));
    words.filter_map(|word| word.trim_end_matches(['.', ':']).rsplit("::").next())
}

#[test]
fn every_test_named_in_the_threat_model_exists() {
    let page = all().into_iter().find(|file| file.path == "docs/security.md").expect("docs/security.md");
    let code: String = all()
        .iter()
        .filter(|file| file.has_ending("rs") || file.has_ending("mjs"))
        .map(|file| file.text.as_str())
        .collect();
    let mut complaints = Vec::new();
    for row in page.text.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| threat")) {
        let shown = row.trim_end_matches('|').rsplit('|').next().unwrap_or_default();
        let names: Vec<&str> = test_names(shown).collect();
        if names.is_empty() {
            complaints.push(format!("docs/security.md: a row names no test: {row}"));
        }
        let missing = names
            .into_iter()
            .filter(|name| !code.contains(&format!(" {name}(")) && !code.contains(&format!("mod {name};")));
        complaints.extend(missing.map(|name| format!("docs/security.md: there is no test '{name}'")));
    }
    none(&complaints);
}

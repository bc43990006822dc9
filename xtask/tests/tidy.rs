//! Repository hygiene as tests: size limits, comments, dependencies and references, checked in every file.

#![allow(clippy::expect_used, clippy::panic, reason = "a test may panic on a file it cannot read")]

#[path = "tidy/architecture.rs"]
mod architecture;
#[allow(dead_code, reason = "shared with the prose test")]
#[path = "tidy/code.rs"]
mod code;
#[path = "tidy/durable_steps.rs"]
mod durable_steps;
#[path = "tidy/files.rs"]
mod files;
#[path = "tidy/navigation.rs"]
mod navigation;
#[path = "tidy/requirements.rs"]
mod requirements;
#[path = "tidy/rust_version.rs"]
mod rust_version;

use code::{blank_literals, function_lengths, without_tests};
use files::{RepoFile, all_files, repo_root};

/// Maximum lengths of a source file, a test file and a function, in lines. The limit for files catches those that grew
/// without notice; a file is split by purpose, never to satisfy it.
const MAX_FILE_LINES: usize = 600;
const MAX_TEST_FILE_LINES: usize = 900;
const MAX_FUNCTION_LINES: usize = 70;
/// Maximum file size in bytes.
const MAX_FILE_BYTES: usize = 400 * 1024;

/// All dependencies of the core, each with its reason. Adding one is a deliberate decision.
const CORE_DEPENDENCIES: [(&str, &str); 11] = [
    ("blake3", "digests of states and policies that are comparable across machines"),
    ("cel", "custom rules"),
    ("jiff", "RFC 3339 times in events"),
    ("petgraph", "strongly connected parts of a workflow"),
    ("postcard", "the encoded state"),
    ("saphyr-parser", "policy files in YAML, with the position of each key"),
    ("schemars", "the JSON schema of policy files"),
    ("serde", "reading and writing events, decisions and states"),
    ("serde_json", "events and decisions"),
    ("toml", "policy files in TOML, with the position of each key"),
    ("xxhash-rust", "fingerprints"),
];

/// Fails with all violations at once, one per line.
fn assert_no_violations(complaints: &[String]) {
    assert!(complaints.is_empty(), "\n{}\n", complaints.join("\n"));
}

fn rust_files() -> Vec<RepoFile> {
    all_files().into_iter().filter(|file| file.has_ending("rs")).collect()
}

#[test]
fn every_rust_file_has_a_module_comment() {
    let bare = |file: &RepoFile| {
        let first = file.text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
        let said = first.strip_prefix("//!").is_some_and(|rest| rest.trim().len() > 10);
        (!said).then(|| format!("{}: the first line is not a `//!` header", file.path))
    };
    assert_no_violations(&rust_files().iter().filter_map(bare).collect::<Vec<_>>());
}

#[test]
fn files_stay_within_the_line_limit() {
    let long = |file: &RepoFile| {
        let (lines, most) = if file.is_test() {
            (file.text.lines().count(), MAX_TEST_FILE_LINES)
        } else {
            (without_tests(&file.text).lines().count(), MAX_FILE_LINES)
        };
        (lines > most).then(|| format!("{}: {lines} lines, the maximum is {most}", file.path))
    };
    assert_no_violations(&rust_files().iter().filter_map(long).collect::<Vec<_>>());
}

#[test]
fn functions_stay_within_the_line_limit() {
    let mut long = Vec::new();
    // Tests are excluded: a table of cases is a function only in form.
    for file in rust_files().into_iter().filter(|file| !file.is_test()) {
        for (name, line, lines) in function_lengths(&blank_literals(&file.text)) {
            if lines > MAX_FUNCTION_LINES {
                long.push(format!(
                    "{}:{line}: {name} has {lines} lines, the maximum is {MAX_FUNCTION_LINES}",
                    file.path
                ));
            }
        }
    }
    assert_no_violations(&long);
}

#[test]
fn no_explicit_panics_outside_tests() {
    let mut found = Vec::new();
    // A fuzz target reports findings by panicking.
    for file in rust_files().iter().filter(|file| !file.is_test() && !file.path.starts_with("fuzz/")) {
        let code = blank_literals(without_tests(&file.text));
        for (at, line) in code.lines().enumerate() {
            for word in [".unwrap()", ".expect(", "panic!(", "todo!(", "unimplemented!(", "unreachable!("] {
                if line.contains(word) {
                    found.push(format!("{}:{}: {word}", file.path, at + 1));
                }
            }
        }
    }
    assert_no_violations(&found);
}

#[test]
fn core_uses_no_unordered_maps() {
    let mut found = Vec::new();
    for file in rust_files().iter().filter(|file| file.path.starts_with("crates/flyball/src/")) {
        for (at, line) in blank_literals(&file.text).lines().enumerate() {
            if line.contains("HashMap") || line.contains("HashSet") {
                found.push(format!("{}:{}: use BTreeMap or BTreeSet", file.path, at + 1));
            }
        }
    }
    assert_no_violations(&found);
}

#[test]
fn core_dependencies_match_the_list() {
    let manifest = files::read_file("crates/flyball/Cargo.toml");
    let section = manifest.lines().skip_while(|line| *line != "[dependencies]").skip(1);
    let section = section.take_while(|line| !line.starts_with('['));
    let names = section.filter_map(|line| line.split(['.', ' ', '=']).next()).filter(|name| !name.is_empty());
    let listed: Vec<&str> = CORE_DEPENDENCIES.iter().map(|(name, _)| *name).collect();
    assert_eq!(names.collect::<Vec<_>>(), listed, "add the dependency to this test with its reason");
}

#[test]
fn no_file_contains_machine_specific_paths() {
    // Concatenated here, so that this file does not contain them.
    let roots = ["root", "work", "home"].map(|name| format!("/{name}/"));
    let mut found = Vec::new();
    for file in all_files() {
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
    assert_no_violations(&found);
}

#[test]
fn no_file_exceeds_the_size_limit() {
    let large = |file: &RepoFile| {
        (file.bytes > MAX_FILE_BYTES)
            .then(|| format!("{}: {} bytes, the maximum is {MAX_FILE_BYTES}", file.path, file.bytes))
    };
    assert_no_violations(&all_files().iter().filter_map(large).collect::<Vec<_>>());
}

#[test]
fn no_page_contains_placeholders() {
    // Concatenated here, so that a search for them does not find this file.
    let words = ["TO", "TB", "FIX", "XX"].into_iter().zip(["DO", "D", "ME", "X"]);
    let words: Vec<String> = words.map(|(head, tail)| format!("{head}{tail}")).collect();
    let phrases = ["lorem ipsum", "to be written", "coming soon", "insert text here", "<your "];
    let mut found = Vec::new();
    for file in all_files()
        .iter()
        .filter(|file| file.has_ending("md") || file.has_ending("rs") && !is_this_test(file))
    {
        let page = file.has_ending("md");
        let is_prose = |line: &str| page || line.starts_with("//!");
        for (at, line) in file.text.lines().enumerate().filter(|(_, line)| is_prose(line)) {
            let small = line.to_lowercase();
            let mut parts = line.split(|c: char| !c.is_alphanumeric());
            if parts.any(|part| words.iter().any(|word| word == part))
                || phrases.iter().any(|phrase| small.contains(phrase))
            {
                found.push(format!("{}:{}: {line}", file.path, at + 1));
            }
        }
    }
    assert_no_violations(&found);
}

fn is_this_test(file: &RepoFile) -> bool {
    file.path == "xtask/tests/tidy.rs"
}

#[test]
fn every_path_in_the_docs_exists() {
    let mut missing = Vec::new();
    for page in ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"] {
        if !repo_root().join(page).is_file() {
            missing.push(format!("{page} itself"));
            continue;
        }
        for path in paths_in(&files::read_file(page)) {
            if !repo_root().join(&path).exists() {
                missing.push(format!("{page} names {path}"));
            }
        }
    }
    assert_no_violations(&missing);
}

/// The paths below `docs`, `fixtures` and `examples` in a text. A path with a placeholder (`<name>`) ends before it.
fn paths_in(text: &str) -> Vec<String> {
    let part = |c: char| c.is_alphanumeric() || "_-./".contains(c);
    let words =
        text.split(|c: char| !part(c)).map(|word| word.trim_start_matches("./").trim_end_matches(['.', '-']));
    let below = |word: &&str| ["docs/", "fixtures/", "examples/"].iter().any(|room| word.starts_with(room));
    words.filter(below).map(str::to_owned).collect()
}

#[test]
fn paths_are_extracted_from_text() {
    let text = "See `docs/errors.md`, [x](./examples/ralph/events.jsonl). Not a/docs/b; fixtures/guards/<name>.jsonl";
    assert_eq!(paths_in(text), ["docs/errors.md", "examples/ralph/events.jsonl", "fixtures/guards/"]);
}

/// Words that look like the path of a test, with parts joined by `::` or `/`; only the last part is returned.
fn test_names(text: &str) -> impl Iterator<Item = &str> {
    let is_part = |c: char| c.is_alphanumeric() || "_-./:".contains(c);
    let words = text.split(move |c| !is_part(c)).filter(|word| word.contains("::"));
    words.filter_map(|word| word.trim_end_matches(['.', ':']).rsplit("::").next())
}

#[test]
fn every_test_named_in_the_threat_model_exists() {
    let page =
        all_files().into_iter().find(|file| file.path == "docs/security.md").expect("docs/security.md");
    let code: String = all_files()
        .iter()
        .filter(|file| file.has_ending("rs") || file.has_ending("mjs"))
        .map(|file| file.text.as_str())
        .collect();
    let mut complaints = Vec::new();
    for row in page.text.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| threat")) {
        let shown = row.trim_end_matches('|').rsplit('|').next().unwrap_or_default();
        let names: Vec<&str> = test_names(shown).collect();
        if names.is_empty() {
            complaints.push(format!("docs/security.md: no test in row: {row}"));
        }
        let missing = names
            .into_iter()
            .filter(|name| !code.contains(&format!(" {name}(")) && !code.contains(&format!("mod {name};")));
        complaints.extend(missing.map(|name| format!("docs/security.md: no test '{name}'")));
    }
    assert_no_violations(&complaints);
}

/// Type names that may be defined more than twice, with the reason.
const COMMON_TYPE_NAMES: [(&str, &str); 0] = [];

#[test]
fn type_names_are_unique_or_qualified() {
    let mut places = std::collections::BTreeMap::<String, Vec<String>>::new();
    for file in rust_files() {
        for line in blank_literals(&file.text).lines() {
            let words: Vec<&str> =
                line.split([' ', '<', '(', '{', ';', ':']).filter(|word| !word.is_empty()).collect();
            let at = words.iter().position(|word| ["struct", "enum", "trait", "union"].contains(word));
            let visible = |word: &&str| {
                word.starts_with("pub") || ["crate)", "super)", "crate", "super", ")"].contains(word)
            };
            if let Some(at) = at
                && words.iter().take(at).all(visible)
                && let Some(name) = words.get(at + 1)
                // Not the variable of a macro.
                && !name.starts_with('$')
            {
                places.entry((*name).to_owned()).or_default().push(file.path.clone());
            }
        }
    }
    assert!(places.len() > 1_000, "only {} type names were found", places.len());
    let repeated = |(name, files): (&String, &Vec<String>)| {
        let allowed = COMMON_TYPE_NAMES.iter().any(|(common, _)| common == name);
        (files.len() > 2 && !allowed)
            .then(|| format!("{name} is defined {} times: {}", files.len(), files.join(", ")))
    };
    assert_no_violations(&places.iter().filter_map(repeated).collect::<Vec<_>>());
}

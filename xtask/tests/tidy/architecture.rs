//! Files, folders and items that ARCHITECTURE.md names exist.

use super::assert_no_violations;
use super::files::{RepoFile, all_files, read_file};

/// The texts in backticks, without those in code blocks.
fn code_spans(page: &str) -> Vec<&str> {
    page.lines().flat_map(|line| line.split('`').skip(1).step_by(2)).collect()
}

/// Whether a path, relative to the root, a crate's sources or a folder in them, is a file or a folder.
fn is_path(files: &[RepoFile], path: &str) -> bool {
    let path = path.trim_end_matches("*.rs").trim_end_matches('/');
    let inside = format!("/{path}/");
    let end = format!("/{path}");
    files
        .iter()
        .map(|file| format!("/{}", file.path))
        .any(|file| file.ends_with(&end) || file.contains(&inside))
}

/// Whether an item is defined or, as a variable or a field, used in the sources.
fn is_item(files: &[RepoFile], item: &str) -> bool {
    let name = item.rsplit("::").next().unwrap_or(item);
    let is_type = name.starts_with(|c: char| c.is_ascii_uppercase());
    let words = if is_type { ["struct", "enum", "trait", "type"] } else { ["fn", "mod", "let", "pub"] };
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    let defines = |text: &str| {
        words.iter().any(|word| {
            text.match_indices(&format!("{word} {name}"))
                .any(|(at, found)| !text[at + found.len()..].starts_with(is_part))
        })
    };
    files
        .iter()
        .filter(|file| file.has_ending("rs") && !file.path.contains("/tests/"))
        .any(|file| defines(&file.text))
}

#[test]
fn everything_that_the_architecture_page_names_exists() {
    let page = read_file("ARCHITECTURE.md");
    let files = all_files();
    let is_word = |c: char| c.is_ascii_alphanumeric() || "_-./*".contains(c);
    let is_name = |text: &str| text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == ':');
    let (mut checked, mut missing) = (0, Vec::new());
    for span in code_spans(&page) {
        let is_file = span.chars().all(is_word)
            && (span.contains('/') || span.ends_with(".rs"))
            && !span.starts_with('/');
        let is_symbol = is_name(span)
            && (span.contains("::") || span.starts_with(|c: char| c.is_ascii_uppercase()))
            && span != "HashMap";
        let exists = match (is_file, is_symbol) {
            (true, _) => is_path(&files, span),
            (_, true) => is_item(&files, span),
            _ => continue,
        };
        checked += 1;
        if !exists {
            missing.push(format!("ARCHITECTURE.md names `{span}`, which does not exist"));
        }
    }
    assert!(checked > 80, "only {checked} names found");
    assert_no_violations(&missing);
}

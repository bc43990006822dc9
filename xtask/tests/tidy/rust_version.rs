//! The minimum Rust version is stated once and is the same everywhere.

use super::assert_no_violations;
use super::files::{all_files, read_file};

/// Pages that state the minimum version to people.
const PAGES: [&str; 2] = ["README.md", "CONTRIBUTING.md"];

/// The value of a key, from a line that starts with it.
fn value<'t>(text: &'t str, key: &str) -> Option<&'t str> {
    text.lines().find_map(|line| line.strip_prefix(key)?.trim_start().strip_prefix('=')).map(str::trim)
}

/// Every version in a text that follows the word Rust: `Rust 1.95`.
fn stated_versions(text: &str) -> Vec<&str> {
    let after = text.split("Rust ").skip(1);
    let versions =
        after.map(|rest| rest.split(|c: char| !c.is_ascii_digit() && c != '.').next().unwrap_or_default());
    versions.map(|version| version.trim_end_matches('.')).filter(|version| version.contains('.')).collect()
}

/// Whether a manifest belongs to this workspace: examples and fixtures contain projects for agents to work on.
fn is_member(path: &str) -> bool {
    !["examples/", "fixtures/"].iter().any(|folder| path.starts_with(folder))
}

#[test]
fn minimum_rust_version_is_stated_and_inherited_by_every_crate() {
    let workspace = read_file("Cargo.toml");
    let version = value(&workspace, "rust-version").unwrap_or_default().trim_matches('"');
    assert!(version.starts_with("1."), "Cargo.toml has no rust-version in [workspace.package]: {version:?}");
    let mut wrong = Vec::new();
    for page in PAGES {
        let text = read_file(page);
        let stated = stated_versions(&text);
        if stated.is_empty() || stated.iter().any(|stated| *stated != version) {
            wrong.push(format!("{page} states {stated:?}, Cargo.toml has rust-version {version}"));
        }
    }
    let manifests: Vec<_> = all_files()
        .into_iter()
        .filter(|file| file.path.ends_with("/Cargo.toml") && file.text.contains("[package]"))
        .collect();
    assert!(manifests.len() > 10, "only {} manifests found", manifests.len());
    for manifest in manifests.iter().filter(|file| is_member(&file.path)) {
        // A workspace of its own cannot inherit.
        let own_workspace = manifest.text.lines().any(|line| line == "[workspace]");
        let inherits = value(&manifest.text, "rust-version.workspace") == Some("true");
        let equal = value(&manifest.text, "rust-version").map(|own| own.trim_matches('"')) == Some(version);
        if !(inherits || own_workspace && equal) {
            wrong.push(format!("{}: write `rust-version.workspace = true`", manifest.path));
        }
    }
    assert_no_violations(&wrong);
}

#[test]
fn no_toolchain_file_makes_rustup_download_a_compiler() {
    let names = ["rust-toolchain", "rust-toolchain.toml"];
    let found = all_files()
        .into_iter()
        .filter(|file| file.path.rsplit('/').next().is_some_and(|name| names.contains(&name)));
    assert_no_violations(
        &found.map(|file| format!("{}: state rust-version instead", file.path)).collect::<Vec<_>>(),
    );
}

#[test]
fn stated_versions_are_found_in_text() {
    assert_eq!(stated_versions("Rust 1.95 or newer. Rust crates, Rust 1.96."), ["1.95", "1.96"]);
    assert_eq!(value("a = 1\nrust-version = \"1.95\"", "rust-version"), Some("\"1.95\""));
    assert_eq!(value("rust-version.workspace = true", "rust-version"), None);
}

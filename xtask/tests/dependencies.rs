//! Checks licenses, sources, wildcards and duplicate versions of all dependencies against `deny.toml`.
//!
//! These are the checks of `cargo deny check licenses bans sources`, done with `cargo metadata`: building cargo-deny
//! would take longer than a test run can afford.

#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test may panic on input it cannot read"
)]

use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

const CRATES_IO: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// One package of the dependency graph.
#[derive(Debug, Clone)]
struct Package {
    name: String,
    version: String,
    license: Option<String>,
    /// `None` for the crates of this workspace.
    source: Option<String>,
    /// Requirements on other packages: name and version requirement.
    requires: Vec<(String, String)>,
}

fn repo_root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

fn packages() -> Vec<Package> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--format-version", "1", "--locked", "--all-features"])
        .current_dir(repo_root())
        .output()
        .expect("cargo metadata runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let package = |package: &Value| Package {
        name: text(&package["name"]).unwrap(),
        version: text(&package["version"]).unwrap(),
        license: text(&package["license"]),
        source: text(&package["source"]),
        requires: package["dependencies"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|dependency| dependency["path"].is_null())
            .map(|dependency| (text(&dependency["name"]).unwrap(), text(&dependency["req"]).unwrap()))
            .collect(),
    };
    metadata["packages"].as_array().unwrap().iter().map(package).collect()
}

/// The parts of `deny.toml` that are checked here.
struct DenyRules {
    licenses: Vec<String>,
    /// Name and version prefix of accepted duplicates.
    skip: Vec<(String, String)>,
}

fn read_rules() -> DenyRules {
    let deny: toml::Table = std::fs::read_to_string(repo_root().join("deny.toml")).unwrap().parse().unwrap();
    assert_eq!(deny["bans"]["multiple-versions"].as_str(), Some("deny"));
    assert_eq!(deny["bans"]["wildcards"].as_str(), Some("deny"));
    assert_eq!(deny["sources"]["unknown-registry"].as_str(), Some("deny"));
    assert_eq!(deny["sources"]["unknown-git"].as_str(), Some("deny"));
    let licenses = deny["licenses"]["allow"].as_array().unwrap();
    let skip = deny["bans"]["skip"].as_array().unwrap().iter().map(|entry| {
        assert!(entry["reason"].as_str().is_some_and(|reason| !reason.is_empty()), "{entry:?}: no reason");
        let (name, version) = entry["crate"].as_str().unwrap().split_once('@').unwrap();
        (name.to_owned(), version.to_owned())
    });
    DenyRules {
        licenses: licenses.iter().map(|license| license.as_str().unwrap().to_owned()).collect(),
        skip: skip.collect(),
    }
}

/// Whether `version` is `prefix` or starts with it at a dot.
fn matches_prefix(version: &str, prefix: &str) -> bool {
    version.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// All violations in a set of packages.
fn violations(packages: &[Package], rules: &DenyRules) -> Vec<String> {
    let mut found = Vec::new();
    let mut versions: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for package in packages {
        let named = format!("{} {}", package.name, package.version);
        versions.entry(&package.name).or_default().push(&package.version);
        if package.source.as_deref().is_some_and(|source| source != CRATES_IO) {
            found.push(format!("{named}: comes from {:?}, not from crates.io", package.source));
        }
        if package.source.is_none() {
            let wild = package.requires.iter().filter(|(_, requirement)| requirement == "*");
            found.extend(wild.map(|(name, _)| format!("{named}: requires any version of {name}")));
        } else if !is_licensed(package.license.as_deref(), &rules.licenses) {
            found.push(format!("{named}: license {:?} is not allowed", package.license));
        }
    }
    for (name, mut all) in versions {
        all.sort_unstable();
        let skipped = |version: &&str| {
            rules.skip.iter().any(|(skip, prefix)| skip == name && matches_prefix(version, prefix))
        };
        if all.iter().filter(|version| !skipped(version)).count() > 1 {
            found.push(format!(
                "{name}: several versions ({}); drop one, or justify it in deny.toml",
                all.join(", ")
            ));
        }
    }
    found
}

fn is_licensed(license: Option<&str>, allowed: &[String]) -> bool {
    let Some(license) = license else { return false };
    let Ok(expression) = spdx::Expression::parse_mode(license, spdx::ParseMode::LAX) else { return false };
    expression.evaluate(|requirement| allowed.iter().any(|allowed| *allowed == requirement.to_string()))
}

#[test]
fn dependencies_follow_deny_toml() {
    let found = violations(&packages(), &read_rules());
    assert!(found.is_empty(), "\n{}\n", found.join("\n"));
}

#[test]
fn every_accepted_duplicate_still_exists() {
    let packages = packages();
    for (name, prefix) in read_rules().skip {
        let versions = packages.iter().filter(|package| package.name == name);
        let all: Vec<&str> = versions.map(|package| package.version.as_str()).collect();
        let listed = all.iter().any(|version| matches_prefix(version, &prefix));
        assert!(listed && all.len() > 1, "deny.toml accepts {name}@{prefix}, but there is only {all:?}");
    }
}

#[test]
fn each_rule_can_fail() {
    let rules =
        DenyRules { licenses: vec!["MIT".to_owned()], skip: vec![("old".to_owned(), "1".to_owned())] };
    let package = |name: &str, version: &str, license: &str, source: Option<&str>| Package {
        name: name.to_owned(),
        version: version.to_owned(),
        license: Some(license.to_owned()),
        source: source.map(str::to_owned),
        requires: vec![("anything".to_owned(), "*".to_owned())],
    };
    let fine = [
        package("old", "1.2.0", "MIT", Some(CRATES_IO)),
        package("old", "2.0.0", "MIT/Apache-2.0", Some(CRATES_IO)),
    ];
    assert_eq!(violations(&fine, &rules), Vec::<String>::new());
    for wrong in [
        vec![package("gpl", "1.0.0", "GPL-3.0-only", Some(CRATES_IO))],
        vec![package("both", "1.0.0", "MIT AND GPL-3.0-only", Some(CRATES_IO))],
        vec![package("git", "1.0.0", "MIT", Some("git+https://example.org/git"))],
        vec![package("own", "1.0.0", "MIT", None)],
        vec![
            package("twice", "1.0.0", "MIT", Some(CRATES_IO)),
            package("twice", "2.0.0", "MIT", Some(CRATES_IO)),
        ],
        vec![
            package("old", "10.0.0", "MIT", Some(CRATES_IO)),
            package("old", "2.0.0", "MIT", Some(CRATES_IO)),
        ],
    ] {
        assert_eq!(violations(&wrong, &rules).len(), 1, "{wrong:?}");
    }
}

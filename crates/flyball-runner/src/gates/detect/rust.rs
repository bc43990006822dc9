//! Rust: `cargo build`, `cargo clippy`, and the tests with nextest if installed, otherwise with cargo.
//!
//! Tests and lint depend on the build. That loses nothing: cargo runs no test of a workspace that does not compile, and
//! would only repeat its errors.

use super::probe::ProjectProbe;
use crate::gates::gate::QualityGate;
use flyball_checks::CheckKind;
use flyball_checks::ResultsFormat;
use serde::Deserialize;

/// Nextest profile for this run only: keeps the project's settings, and writes output to the scratch folder.
const NEXTEST_CONFIG: &str =
    "[store]\ndir = '{scratch}/store'\n\n[profile.'@tool:flyball:gate'.junit]\npath = '{results}'\n";

#[derive(Deserialize)]
struct CargoMetadata {
    packages: Vec<CargoPackage>,
}

#[derive(Deserialize)]
struct CargoPackage {
    targets: Vec<CargoTarget>,
}

#[derive(Deserialize)]
struct CargoTarget {
    #[serde(default)]
    doctest: bool,
}

pub(super) fn gates(probe: &ProjectProbe) -> Option<Vec<QualityGate>> {
    if !probe.has(&["Cargo.toml"]) {
        return None;
    }
    if !probe.works(&["cargo", "--version"]) {
        let none = |name, kind| QualityGate::skipped(name, kind, "cargo is not installed");
        return Some(vec![
            none("build", CheckKind::Build),
            none("tests", CheckKind::Tests),
            none("lint", CheckKind::Lint),
        ]);
    }
    let build = QualityGate::new(
        "build",
        CheckKind::Build,
        &["cargo", "build", "--workspace", "--message-format=json"],
    );
    let mut gates = vec![build.format(ResultsFormat::Cargo)];
    if probe.works(&["cargo", "nextest", "--version"]) {
        gates.push(nextest_gate());
        gates.push(doctest_gate(probe));
    } else {
        let argv = ["cargo", "test", "--workspace", "--no-fail-fast", "--message-format=json"];
        gates.push(
            QualityGate::new("tests", CheckKind::Tests, &argv).format(ResultsFormat::Cargo).needs("build"),
        );
    }
    gates.push(if probe.works(&["cargo", "clippy", "--version"]) {
        let argv = [
            "cargo",
            "clippy",
            "--workspace",
            "--all-targets",
            "--message-format=json",
            "--",
            "-D",
            "warnings",
        ];
        QualityGate::new("lint", CheckKind::Lint, &argv).format(ResultsFormat::Cargo).needs("build")
    } else {
        QualityGate::skipped(
            "lint",
            CheckKind::Lint,
            "clippy is not installed: `rustup component add clippy`",
        )
    });
    Some(gates.into_iter().map(|gate| gate.env("CARGO_TERM_COLOR", "never")).collect())
}

fn nextest_gate() -> QualityGate {
    let argv = [
        "cargo",
        "nextest",
        "run",
        "--workspace",
        "--no-fail-fast",
        "--cargo-message-format=json",
        "--profile",
        "@tool:flyball:gate",
        "--tool-config-file",
        "flyball:{scratch}/nextest.toml",
    ];
    let mut gate = QualityGate::new("tests", CheckKind::Tests, &argv)
        .format(ResultsFormat::Junit)
        .results_in("junit.xml")
        .needs("build");
    gate.scratch_files.push(("nextest.toml".to_owned(), NEXTEST_CONFIG.to_owned()));
    gate
}

/// nextest does not run doctests, so they are a separate gate that counts as tests.
fn doctest_gate(probe: &ProjectProbe) -> QualityGate {
    let said = probe.output_of(&["cargo", "metadata", "--no-deps", "--format-version", "1"]);
    let known = said.and_then(|said| serde_json::from_str::<CargoMetadata>(&said).ok());
    let any = known
        .is_some_and(|all| all.packages.iter().flat_map(|one| &one.targets).any(|target| target.doctest));
    if !any {
        return QualityGate::skipped("doctests", CheckKind::Tests, "no library target with doctests");
    }
    let argv = ["cargo", "test", "--workspace", "--doc", "--no-fail-fast", "--message-format=json"];
    QualityGate::new("doctests", CheckKind::Tests, &argv).format(ResultsFormat::Cargo).needs("build")
}

//! Rust: `cargo build`, `cargo clippy`, and the tests by nextest if it is there, otherwise by cargo itself.
//!
//! Tests and lint need the build. That loses nothing: cargo runs no test of a workspace that does not compile, and
//! would only say the same again.

use super::probe::Probe;
use crate::gates::gate::Gate;
use flyball_checks::CheckKind;
use flyball_checks::Format;
use serde::Deserialize;

/// A profile of nextest that only this run knows: the project's own settings stay, what is written goes to our folder.
const NEXTEST: &str =
    "[store]\ndir = '{scratch}/store'\n\n[profile.'@tool:flyball:gate'.junit]\npath = '{results}'\n";

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    targets: Vec<Target>,
}

#[derive(Deserialize)]
struct Target {
    #[serde(default)]
    doctest: bool,
}

pub(super) fn gates(probe: &Probe) -> Option<Vec<Gate>> {
    if !probe.has(&["Cargo.toml"]) {
        return None;
    }
    if !probe.works(&["cargo", "--version"]) {
        let none = |name, kind| Gate::skipped(name, kind, "cargo is not installed");
        return Some(vec![
            none("build", CheckKind::Build),
            none("tests", CheckKind::Tests),
            none("lint", CheckKind::Lint),
        ]);
    }
    let build =
        Gate::new("build", CheckKind::Build, &["cargo", "build", "--workspace", "--message-format=json"]);
    let mut gates = vec![build.format(Format::Cargo)];
    if probe.works(&["cargo", "nextest", "--version"]) {
        gates.push(nextest());
        gates.push(doctests(probe));
    } else {
        let argv = ["cargo", "test", "--workspace", "--no-fail-fast", "--message-format=json"];
        gates.push(Gate::new("tests", CheckKind::Tests, &argv).format(Format::Cargo).needs("build"));
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
        Gate::new("lint", CheckKind::Lint, &argv).format(Format::Cargo).needs("build")
    } else {
        Gate::skipped("lint", CheckKind::Lint, "clippy is not installed: `rustup component add clippy`")
    });
    Some(gates.into_iter().map(|gate| gate.env("CARGO_TERM_COLOR", "never")).collect())
}

fn nextest() -> Gate {
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
    let mut gate = Gate::new("tests", CheckKind::Tests, &argv)
        .format(Format::Junit)
        .results_in("junit.xml")
        .needs("build");
    gate.scratch_files.push(("nextest.toml".to_owned(), NEXTEST.to_owned()));
    gate
}

/// nextest leaves the examples in the documentation out, so they are a gate of their own, counted with the tests.
fn doctests(probe: &Probe) -> Gate {
    let said = probe.ask(&["cargo", "metadata", "--no-deps", "--format-version", "1"]);
    let known = said.and_then(|said| serde_json::from_str::<Metadata>(&said).ok());
    let any = known
        .is_some_and(|all| all.packages.iter().flat_map(|one| &one.targets).any(|target| target.doctest));
    if !any {
        return Gate::skipped(
            "doctests",
            CheckKind::Tests,
            "no library whose documentation could have tests",
        );
    }
    let argv = ["cargo", "test", "--workspace", "--doc", "--no-fail-fast", "--message-format=json"];
    Gate::new("doctests", CheckKind::Tests, &argv).format(Format::Cargo).needs("build")
}

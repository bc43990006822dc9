//! Real tools on small real projects, from detection to the report. Tests of missing tools are skipped with a message.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

use flyball::backpressure::{BlockingEvent, TASK_COMPLETE};
use flyball::policy::GatePolicy as Limits;
use flyball_runner::gates::{
    CheckKind, CheckOutcome, FindingKind, GateOptions, GateReport, GateVerdict, QualityGate, ResultsFormat,
    detect, run_gates,
};
use flyball_runner::process::CancelToken;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

static NEXT: AtomicU32 = AtomicU32::new(0);

/// A temporary project, with a build folder outside of it.
struct GateTestProject(PathBuf);

impl GateTestProject {
    fn new(files: &[(&str, &str)]) -> Self {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("flyball-gates-live-{}-{number}", std::process::id()));
        let project = GateTestProject(path);
        for (name, text) in files {
            project.write(name, text);
        }
        project
    }

    fn folder(&self) -> PathBuf {
        self.0.join("project")
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.folder().join(name);
        fs::create_dir_all(path.parent().unwrap()).expect("folders");
        fs::write(path, text).expect("a file");
    }

    fn gates(&self) -> Vec<QualityGate> {
        let mut gates = detect(&self.folder());
        for gate in &mut gates {
            let place = |name: &str| self.0.join(name).to_string_lossy().into_owned();
            gate.deadline = Duration::from_secs(600);
            gate.env.insert("CARGO_TARGET_DIR".to_owned(), place("target"));
            gate.env.insert("CARGO_NET_OFFLINE".to_owned(), "true".to_owned());
            gate.env.insert("GOCACHE".to_owned(), place("go-cache"));
            gate.env.insert("GOFLAGS".to_owned(), "-mod=mod".to_owned());
            gate.env.insert("GOTOOLCHAIN".to_owned(), "local".to_owned());
        }
        gates
    }

    fn report(&self, gates: &[QualityGate]) -> GateReport {
        let options = GateOptions { rerun: false, ..GateOptions::default() };
        run_gates(gates, &self.folder(), &options, &CancelToken::new(), &mut |_| {}).expect("a report")
    }
}

impl Drop for GateTestProject {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn outcome<'a>(report: &'a GateReport, name: &str) -> &'a CheckOutcome {
    &report.gates.iter().find(|gate| gate.name == name).expect("a gate").outcome
}

fn is_off(gates: &[QualityGate], name: &str) -> bool {
    let skip = gates.iter().find(|gate| gate.name == name).expect("a gate").skip.as_deref();
    if let Some(reason) = skip {
        // Straight to the terminal: a skipped test must not look like a passed one.
        writeln!(std::io::stderr(), "SKIPPED: {reason}").expect("a terminal");
    }
    skip.is_some()
}

/// Failures of a kind, as text.
fn failure_lines(report: &GateReport, kind: FindingKind) -> Vec<String> {
    report.findings.iter().filter(|found| found.kind == kind).map(ToString::to_string).collect()
}

const MANIFEST: &str = "[package]\nname = \"calc\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n[workspace]\n";
const ADD: &str = "//! A calculator.\n\n/// Adds.\npub fn add(a: i64, b: i64) -> i64 {\n    a + b\n}\n";

const FAILING_TEST: &str = r"
#[cfg(test)]
mod tests {
    #[test]
    fn adds() {
        assert_eq!(super::add(2, 2), 5);
    }
}
";

const FAILING_EXAMPLE: &str = "//! A calculator.

/// Adds.
///
/// ```
/// assert_eq!(calc::add(1, 1), 3);
/// ```
pub fn add(a: i64, b: i64) -> i64 {
    return a + b;
}
";

const PYTEST: &str = r#"import pytest
from calc import add


@pytest.mark.parametrize("a,b,c", [(1, 1, 2), (1, 2, 4)])
def test_add(a, b, c):
    assert add(a, b) == c
"#;

const GO_TEST: &str = r#"package sub

import "testing"

func TestAdd(t *testing.T) {
    t.Run("two", func(t *testing.T) {
        t.Errorf("got %d", Add(1, 1))
    })
}
"#;

const NODE_TEST: &str = r#"import assert from "node:assert/strict";
import { describe, it } from "node:test";

describe("adding", () => {
  it("adds", () => assert.equal(1 + 1, 2));
  it("adds wrong", () => assert.equal(2 + 2, 5));
});
"#;

fn rust(body: &str) -> GateTestProject {
    GateTestProject::new(&[("Cargo.toml", MANIFEST), ("src/lib.rs", &format!("{ADD}{body}"))])
}

#[test]
fn rust_project_with_failing_test_is_blocked_by_tests() {
    let project = rust(FAILING_TEST);
    let gates = project.gates();
    let report = project.report(&gates);
    assert_eq!(report.verdict, GateVerdict::Failed);
    assert_eq!(*outcome(&report, "build"), CheckOutcome::Passed);
    let with_nextest = gates.iter().any(|gate| gate.argv.contains(&"nextest".to_owned()));
    let name = if with_nextest { "calc tests::adds" } else { "tests::adds" };
    assert_eq!(report.failing, [name]);
    let line = format!("{name}: assertion `left == right` failed; left: 4; right: 5 (src/lib.rs:12)");
    assert_eq!(failure_lines(&report, FindingKind::Test), std::slice::from_ref(&line));
    let text = BlockingEvent::from_checks(&report.checks, TASK_COMPLETE, &Limits::default())
        .expect("blocked")
        .text();
    assert!(text.starts_with("## Completion Blocked: tests failed\n"), "{text}");
    assert!(text.contains(&format!("### Issues Found\n- {line}\n")), "{text}");
    assert!(report.progress().is_some());
    assert!(!project.folder().join("target").exists(), "nothing is left in the workspace");
    // The same without nextest, with the format detected from cargo's output.
    let argv = ["cargo", "test", "--workspace", "--no-fail-fast", "--message-format=json"];
    let mut plain = QualityGate::new("tests", CheckKind::Tests, &argv);
    plain.env = gates[0].env.clone();
    let report = project.report(&[plain]);
    assert_eq!(
        (report.failing.clone(), report.gates[0].format),
        (vec!["tests::adds".to_owned()], ResultsFormat::Cargo)
    );
}

#[test]
fn rust_project_that_does_not_compile_is_blocked_by_build() {
    let project = rust("\n/// Broken.\npub fn broken() -> u32 {\n    missing\n}\n");
    let gates = project.gates();
    let report = project.report(&gates);
    assert_eq!(
        failure_lines(&report, FindingKind::Build),
        ["src/lib.rs:10: cannot find value `missing` in this scope [E0425]"]
    );
    let because = CheckOutcome::Skipped { reason: "skipped: build failed".to_owned() };
    assert_eq!(*outcome(&report, "tests"), because);
    assert!(report.progress().is_none());
    let event =
        BlockingEvent::from_checks(&report.checks, TASK_COMPLETE, &Limits::default()).expect("blocked");
    assert_eq!((event.blocked_by.as_str(), event.details.len()), ("build", 1));
    // Fixed, with a failing doctest and a lint finding.
    project.write("src/lib.rs", FAILING_EXAMPLE);
    let report = project.report(&gates);
    assert_eq!(*outcome(&report, "build"), CheckOutcome::Passed);
    assert_eq!(report.failing, ["src/lib.rs - add (line 5)"]);
    if !is_off(&gates, "lint") {
        let lint = ["src/lib.rs:9: unneeded `return` statement [clippy::needless_return]"];
        assert_eq!(failure_lines(&report, FindingKind::Lint), lint);
    }
}

#[test]
fn rust_project_without_tests_skips_the_tests_gate() {
    let project = rust("");
    let report = project.report(&project.gates());
    let none = CheckOutcome::Skipped { reason: "no tests were found".to_owned() };
    assert_eq!((outcome(&report, "tests"), report.verdict), (&none, GateVerdict::Passed));
    assert!(report.progress().is_none(), "no test is no progress");
}

#[test]
fn python_project_is_tested_with_pytest() {
    let project = GateTestProject::new(&[
        ("pyproject.toml", "[tool.pytest.ini_options]\npythonpath = [\".\"]\n"),
        ("calc.py", "def add(a, b):\n    return a + b\n"),
        ("tests/test_calc.py", PYTEST),
    ]);
    let gates = project.gates();
    if is_off(&gates, "tests") {
        return;
    }
    let report = project.report(&gates);
    assert_eq!(report.failing, ["tests/test_calc.py::test_add[1-2-4]"]);
    assert_eq!(report.findings[0].line, Some(7));
}

#[test]
fn go_module_is_built_vetted_and_tested() {
    let project = GateTestProject::new(&[
        ("go.mod", "module example.com/calc\n\ngo 1.19\n"),
        (
            "sub/calc.go",
            "// Package sub adds.\npackage sub\n\n// Add adds.\nfunc Add(a, b int) int { return a + b }\n",
        ),
        ("sub/calc_test.go", GO_TEST),
    ]);
    let gates = project.gates();
    if is_off(&gates, "tests") {
        return;
    }
    let report = project.report(&gates);
    assert_eq!(*outcome(&report, "build"), CheckOutcome::Passed);
    assert_eq!(*outcome(&report, "lint"), CheckOutcome::Passed);
    assert_eq!(
        failure_lines(&report, FindingKind::Test),
        ["example.com/calc/sub.TestAdd/two: got 2 (sub/calc_test.go:7)"]
    );
    project.write("sub/calc.go", "package sub\n\nfunc Add(a, b int) int { return missing }\n");
    let report = project.report(&gates);
    assert_eq!(failure_lines(&report, FindingKind::Build), ["sub/calc.go:3: undefined: missing"]);
    assert_eq!(*outcome(&report, "build"), CheckOutcome::Failed);
}

#[test]
fn npm_package_is_tested_with_node_test_runner() {
    let project = GateTestProject::new(&[
        (
            "package.json",
            r#"{"name": "calc", "type": "module", "scripts": {"test": "node --test calc.test.js"}}"#,
        ),
        ("calc.test.js", NODE_TEST),
    ]);
    let gates = project.gates();
    if is_off(&gates, "tests") {
        return;
    }
    let report = project.report(&gates);
    assert_eq!(report.failing, ["adding > adds wrong"]);
    assert_eq!(
        (report.findings[0].file.as_deref(), report.findings[0].line),
        (Some("calc.test.js"), Some(6))
    );
    assert_eq!(
        *outcome(&report, "build"),
        CheckOutcome::Skipped { reason: "package.json has no `build` script".to_owned() }
    );
    assert!(Path::new(&project.folder()).join("package.json").exists());
}

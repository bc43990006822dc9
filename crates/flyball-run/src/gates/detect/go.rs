//! Go: `go build`, `go vet` and `go test -json`, each over all packages.
//!
//! None needs another: Go tests the packages that compile even if one does not.

use super::probe::Probe;
use crate::gates::format::Format;
use crate::gates::gate::{Gate, GateKind};

pub(super) fn gates(probe: &Probe) -> Option<Vec<Gate>> {
    if !probe.has(&["go.mod"]) {
        return None;
    }
    let kinds = [("build", GateKind::Build), ("tests", GateKind::Tests), ("lint", GateKind::Lint)];
    if !probe.works(&["go", "version"]) {
        return Some(kinds.map(|(name, kind)| Gate::skipped(name, kind, "go is not installed")).into());
    }
    // Without a place for the output a single program would be left in the workspace.
    let build = Gate::new("build", GateKind::Build, &["go", "build", "-o", "/dev/null", "./..."]);
    let tests = if probe.any_file(&|name| name.ends_with("_test.go")) {
        Gate::new("tests", GateKind::Tests, &["go", "test", "-json", "./..."]).format(Format::GoTest)
    } else {
        Gate::skipped("tests", GateKind::Tests, "no tests: there is no file named *_test.go")
    };
    let lint = Gate::new("lint", GateKind::Lint, &["go", "vet", "./..."]);
    Some(vec![build.format(Format::Plain), tests, lint.format(Format::Plain)])
}

//! Go: `go build`, `go vet` and `go test -json`, each over all packages.
//!
//! None needs another: Go tests the packages that compile even if one does not.

use super::probe::Probe;
use crate::gates::gate::Gate;
use flyball_checks::CheckKind;
use flyball_checks::Format;

pub(super) fn gates(probe: &Probe) -> Option<Vec<Gate>> {
    if !probe.has(&["go.mod"]) {
        return None;
    }
    let kinds = [("build", CheckKind::Build), ("tests", CheckKind::Tests), ("lint", CheckKind::Lint)];
    if !probe.works(&["go", "version"]) {
        return Some(kinds.map(|(name, kind)| Gate::skipped(name, kind, "go is not installed")).into());
    }
    // Without a place for the output a single program would be left in the workspace.
    let build = Gate::new("build", CheckKind::Build, &["go", "build", "-o", "/dev/null", "./..."]);
    let tests = if probe.any_file(&|name| name.ends_with("_test.go")) {
        Gate::new("tests", CheckKind::Tests, &["go", "test", "-json", "./..."]).format(Format::GoTest)
    } else {
        Gate::skipped("tests", CheckKind::Tests, "no tests: there is no file named *_test.go")
    };
    let lint = Gate::new("lint", CheckKind::Lint, &["go", "vet", "./..."]);
    Some(vec![build.format(Format::Plain), tests, lint.format(Format::Plain)])
}

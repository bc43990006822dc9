//! Go: `go build`, `go vet` and `go test -json` over all packages.
//!
//! None depends on another: Go tests the packages that compile even if others do not.

use super::probe::ProjectProbe;
use crate::gates::gate::QualityGate;
use flyball_checks::CheckKind;
use flyball_checks::ResultsFormat;

pub(super) fn gates(probe: &ProjectProbe) -> Option<Vec<QualityGate>> {
    if !probe.has(&["go.mod"]) {
        return None;
    }
    let kinds = [("build", CheckKind::Build), ("tests", CheckKind::Tests), ("lint", CheckKind::Lint)];
    if !probe.works(&["go", "version"]) {
        return Some(
            kinds.map(|(name, kind)| QualityGate::skipped(name, kind, "go is not installed")).into(),
        );
    }
    // Without an output path, a single binary would be left in the workspace.
    let build = QualityGate::new("build", CheckKind::Build, &["go", "build", "-o", "/dev/null", "./..."]);
    let tests = if probe.any_file(&|name| name.ends_with("_test.go")) {
        QualityGate::new("tests", CheckKind::Tests, &["go", "test", "-json", "./..."])
            .format(ResultsFormat::GoTest)
    } else {
        QualityGate::skipped("tests", CheckKind::Tests, "no tests: no file matches *_test.go")
    };
    let lint = QualityGate::new("lint", CheckKind::Lint, &["go", "vet", "./..."]);
    Some(vec![build.format(ResultsFormat::Plain), tests, lint.format(ResultsFormat::Plain)])
}

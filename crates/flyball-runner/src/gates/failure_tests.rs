//! Tests of failure identity and trends.

use super::{FailureChanges, collect_failures, fingerprint_all, trend};
use flyball_checks::{CheckFinding, FindingKind};

fn set(findings: &[CheckFinding]) -> Vec<super::GateFailure> {
    collect_failures(&[("tests", findings.iter())])
}

fn failing(name: &str, line: u32, message: &str) -> CheckFinding {
    CheckFinding::new(FindingKind::Test, name, message).at("src/lib.rs", Some(line))
}

#[test]
fn fingerprint_ignores_lines_times_and_addresses() {
    let one = set(&[failing("a", 3, "took 1.2s at 0x7fb49dce2a50"), failing("b", 9, "left: 1")]);
    let other = set(&[failing("b", 90, "left: 1"), failing("a", 4, "took 3.4s at 0x7f687e6e2d10")]);
    assert_eq!(fingerprint_all(&one), fingerprint_all(&other));
    assert!(fingerprint_all(&one).is_some());
    assert_eq!(fingerprint_all(&[]), None);
    let new = set(&[failing("a", 3, "took 1.2s at 0x7fb49dce2a50"), failing("b", 9, "left: 2")]);
    assert_ne!(fingerprint_all(&one), fingerprint_all(&new));
}

#[test]
fn same_and_new_failures_are_distinguished() {
    let before: Vec<_> =
        set(&[failing("a", 1, "x"), failing("b", 2, "x")]).iter().map(|f| f.fingerprint).collect();
    let changes = FailureChanges::between(&before, &set(&[failing("b", 7, "x"), failing("c", 2, "x")]));
    assert_eq!(changes.same.iter().map(|f| f.identity.as_str()).collect::<Vec<_>>(), ["b: x"]);
    assert_eq!(changes.new.iter().map(|f| f.identity.as_str()).collect::<Vec<_>>(), ["c: x"]);
    assert_eq!(changes.gone, 1);
}

#[test]
fn error_reported_by_two_checks_is_one_failure() {
    let error = [CheckFinding::new(FindingKind::Build, "E0425", "not found").at("src/lib.rs", Some(3))];
    let both = collect_failures(&[("build", error.iter()), ("lint", error.iter())]);
    assert_eq!(both.len(), 1);
    assert_eq!(both[0].check, "build");
}

#[test]
fn trend_is_rendered_on_one_line() {
    assert_eq!(trend("failing tests", &[7, 4, 2]), "failing tests 7 -> 4 -> 2");
    assert_eq!(trend("failing tests", &[7]), "failing tests 7");
    let long: Vec<u64> = (0..12).rev().collect();
    assert_eq!(trend("failing tests", &long), "failing tests ... -> 7 -> 6 -> 5 -> 4 -> 3 -> 2 -> 1 -> 0");
}

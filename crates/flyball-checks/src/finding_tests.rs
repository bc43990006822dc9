//! Formatting and identity of findings.

use super::{CheckFinding, FindingKind, dedup_findings};

fn test(line: u32, message: &str) -> CheckFinding {
    CheckFinding::new(FindingKind::Test, "tests::adds", message).at("src/lib.rs", Some(line))
}

#[test]
fn display_uses_test_name_or_location() {
    assert_eq!(
        test(28, "assertion failed\n left: 1").to_string(),
        "tests::adds: assertion failed; left: 1 (src/lib.rs:28)"
    );
    let error = CheckFinding::new(FindingKind::Build, "E0425", "not found").at("src/lib.rs", Some(3));
    assert_eq!(error.to_string(), "src/lib.rs:3: not found [E0425]");
    let bare = CheckFinding::new(FindingKind::Other, "", "exited with code 1");
    assert_eq!(bare.to_string(), "exited with code 1");
    assert_eq!(CheckFinding::new(FindingKind::Lint, "x", "y").at("", Some(1)).file, None);
}

#[test]
fn identity_ignores_line_numbers() {
    let (one, other) = (test(28, "left: 4"), test(40, "left: 4"));
    assert_eq!(one.identity(), other.identity());
    assert_ne!(one.identity(), test(28, "left: 5").identity());
    let lint = |line| CheckFinding::new(FindingKind::Lint, "F401", "`os` unused").at("a.py", Some(line));
    assert_eq!(lint(1).identity(), lint(2).identity());
    assert_eq!(lint(1).identity(), "a.py: `os` unused [F401]");
    let elsewhere = CheckFinding::new(FindingKind::Lint, "F401", "`os` unused").at("b.py", Some(1));
    assert_ne!(lint(1).identity(), elsewhere.identity());
}

#[test]
fn only_test_findings_count_as_failing_tests() {
    assert!(test(1, "x").is_test_failure());
    assert!(!test(1, "x").warning().is_test_failure());
    assert!(!CheckFinding::new(FindingKind::Setup, "", "x").is_test_failure());
    assert!(!CheckFinding::new(FindingKind::Build, "E1", "x").is_test_failure());
}

#[test]
fn duplicates_are_removed_in_order() {
    let mut all = vec![test(2, "b"), test(1, "a"), test(2, "b"), test(3, "b")];
    dedup_findings(&mut all);
    assert_eq!(all, [test(2, "b"), test(1, "a"), test(3, "b")]);
}

#[test]
fn message_is_one_bounded_line() {
    let long = CheckFinding::new(FindingKind::Test, "t", &"x".repeat(10_000));
    assert_eq!(long.message.chars().count(), 400);
    assert!(
        !CheckFinding::new(FindingKind::Test, "t", "a\nb\r\n\u{1b}[31mc")
            .message
            .contains(['\n', '\r', '\u{1b}'])
    );
}

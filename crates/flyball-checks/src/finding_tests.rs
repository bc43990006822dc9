//! Tests of how a finding is shown and known.

use super::{Finding, FindingKind, without_doubles};

fn test(line: u32, message: &str) -> Finding {
    Finding::new(FindingKind::Test, "tests::adds", message).at("src/lib.rs", Some(line))
}

#[test]
fn a_test_is_shown_by_name_and_the_rest_by_place() {
    assert_eq!(
        test(28, "assertion failed\n left: 1").to_string(),
        "tests::adds: assertion failed; left: 1 (src/lib.rs:28)"
    );
    let error = Finding::new(FindingKind::Build, "E0425", "not found").at("src/lib.rs", Some(3));
    assert_eq!(error.to_string(), "src/lib.rs:3: not found [E0425]");
    let bare = Finding::new(FindingKind::Other, "", "ended with code 1");
    assert_eq!(bare.to_string(), "ended with code 1");
    assert_eq!(Finding::new(FindingKind::Lint, "x", "y").at("", Some(1)).file, None);
}

#[test]
fn the_same_failure_in_another_line_is_the_same() {
    let (one, other) = (test(28, "left: 4"), test(40, "left: 4"));
    assert_eq!(one.identity(), other.identity());
    assert_ne!(one.identity(), test(28, "left: 5").identity());
    let lint = |line| Finding::new(FindingKind::Lint, "F401", "`os` unused").at("a.py", Some(line));
    assert_eq!(lint(1).identity(), lint(2).identity());
    assert_eq!(lint(1).identity(), "a.py: `os` unused [F401]");
    let elsewhere = Finding::new(FindingKind::Lint, "F401", "`os` unused").at("b.py", Some(1));
    assert_ne!(lint(1).identity(), elsewhere.identity());
}

#[test]
fn only_what_belongs_to_a_test_counts_as_a_failing_test() {
    assert!(test(1, "x").is_of_a_test());
    assert!(!test(1, "x").warning().is_of_a_test());
    assert!(!Finding::new(FindingKind::Setup, "", "x").is_of_a_test());
    assert!(!Finding::new(FindingKind::Build, "E1", "x").is_of_a_test());
}

#[test]
fn doubles_go_and_order_stays() {
    let mut all = vec![test(2, "b"), test(1, "a"), test(2, "b"), test(3, "b")];
    without_doubles(&mut all);
    assert_eq!(all, [test(2, "b"), test(1, "a"), test(3, "b")]);
}

#[test]
fn a_message_is_one_line_of_bounded_length() {
    let long = Finding::new(FindingKind::Test, "t", &"x".repeat(10_000));
    assert_eq!(long.message.chars().count(), 400);
    assert!(
        !Finding::new(FindingKind::Test, "t", "a\nb\r\n\u{1b}[31mc").message.contains(['\n', '\r', '\u{1b}'])
    );
}

//! What holds for the list of guards itself: every name is documented by fixtures, and the ladder climbs once.

use super::{Watch, ladder};
use crate::decision::Severity;
use crate::policy::Guards;
use std::path::Path;

#[test]
fn every_guard_has_its_fixtures() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/guards");
    for name in Watch::NAMES {
        for suffix in ["", ".quiet", ".decisions"] {
            let path = folder.join(format!("{name}{suffix}.jsonl"));
            assert!(
                path.is_file(),
                "{} is missing: run the guard tests with FLYBALL_BLESS=1",
                path.display()
            );
        }
    }
}

#[test]
fn every_fixture_belongs_to_a_guard() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/guards");
    for entry in std::fs::read_dir(folder).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let guard = name.split('.').next().unwrap_or_default();
        assert!(Watch::NAMES.contains(&guard), "{name} belongs to no guard");
    }
}

/// `budget` and `rule` have sections of their own in a policy; `large_response` looks at outputs on their way out.
#[test]
fn the_guards_that_run_are_those_that_a_policy_can_name() {
    for name in Watch::NAMES.iter().filter(|name| !["budget", "rule"].contains(name)) {
        assert!(Guards::NAMES.contains(name), "{name} cannot be configured");
    }
    for name in Guards::NAMES.iter().filter(|name| **name != "large_response") {
        assert!(Watch::NAMES.contains(name), "{name} is configured but never runs");
    }
}

#[test]
fn the_ladder_blocks_until_the_block_with_its_number_halts() {
    for (vetoes, most, severity) in [
        (0, Some(3), Severity::Block),
        (1, Some(3), Severity::Block),
        (2, Some(3), Severity::Halt),
        (9, Some(3), Severity::Halt),
        (0, Some(1), Severity::Halt),
        (0, None, Severity::Block),
        (u32::MAX, None, Severity::Block),
    ] {
        assert_eq!(ladder(vetoes, most), severity, "{vetoes} vetoes of {most:?}");
    }
}

//! Tests of the guard list: every guard has fixtures and policy settings, and severity escalates once.

use super::{GuardStates, escalated_severity, guards};
use crate::decision::TripSeverity;
use crate::policy::GuardPolicies;
use std::path::Path;

#[test]
fn every_guard_has_fixtures() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/guards");
    for name in GuardStates::NAMES {
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
        assert!(GuardStates::NAMES.contains(&guard), "{name} belongs to no guard");
    }
}

/// A file that `mod.rs` does not list is not compiled, so its guard would never run.
#[test]
fn every_guard_file_is_listed() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/guards");
    let list = std::fs::read_to_string(folder.join("mod.rs")).unwrap();
    let mut found = 0;
    for entry in std::fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        if !std::fs::read_to_string(&path).unwrap().contains("\npub(super) const INFO: GuardInfo =") {
            continue;
        }
        let file = path.file_stem().unwrap().to_str().unwrap();
        assert!(list.contains(&format!(": {file}::")), "{file}.rs is not listed in guards/mod.rs");
        found += 1;
    }
    assert_eq!(found, guards().count());
}

#[test]
fn every_guard_describes_itself_and_its_reasons() {
    for (name, info) in guards() {
        assert!(
            info.summary.ends_with('.') && !info.detects.is_empty() && !info.reaction.is_empty(),
            "{name}"
        );
        // An output that is too large is stored; nothing trips.
        assert_eq!(info.reasons.is_empty(), name == "large_response", "{name}");
        let meanings = info.reasons.iter().filter_map(|reason| reason.meaning);
        assert!(meanings.into_iter().all(|meaning| meaning.ends_with('.')), "{name}");
    }
}

/// `budget` and `rule` have separate policy sections; `large_response` applies to outputs, not to requests.
#[test]
fn running_guards_match_configurable_guards() {
    for name in GuardStates::NAMES.iter().filter(|name| !["budget", "rule"].contains(name)) {
        assert!(GuardPolicies::NAMES.contains(name), "{name} cannot be configured");
    }
    for name in GuardPolicies::NAMES.iter().filter(|name| **name != "large_response") {
        assert!(GuardStates::NAMES.contains(name), "{name} is configured but never runs");
    }
}

#[test]
fn severity_escalates_to_halt_at_the_block_limit() {
    for (vetoes, most, severity) in [
        (0, Some(3), TripSeverity::Block),
        (1, Some(3), TripSeverity::Block),
        (2, Some(3), TripSeverity::Halt),
        (9, Some(3), TripSeverity::Halt),
        (0, Some(1), TripSeverity::Halt),
        (0, None, TripSeverity::Block),
        (u32::MAX, None, TripSeverity::Block),
    ] {
        assert_eq!(escalated_severity(vetoes, most), severity, "{vetoes} vetoes of {most:?}");
    }
}

//! Parses the output of tests, linters and compilers into findings.
//!
//! Data flow: a tool's output ([`RawResults`]) is parsed by [`read`] according to its [`ResultsFormat`] into
//! [`ParsedResults`], from which [`determine_outcome`] derives passed, failed or skipped. [`parse_raw_checks`] does all
//! of this for the checks of a `gate.checked` event that contain raw output and the kind of tool.
//!
//! Invariant: this crate runs nothing, opens no file and reads no clock; the same text gives the same findings.
//!
//! Invariant: skipped is not passed, and results that cannot be parsed are not passed.

mod check_outcome;
mod check_tool;
mod finding;
mod format;
mod parsers;
mod raw_check;
mod source_location;

pub use check_outcome::{CheckOutcome, determine_outcome, failed_because};
pub use check_tool::CheckTool;
pub use finding::{CheckFinding, FindingKind, FindingSeverity, dedup_findings, details};
pub use flyball::CheckKind;
pub use format::{ResultsFormat, detect_format};
pub use parsers::{ParsedResults, RawResults, TestCounts, read};
pub use raw_check::parse_raw_checks;
pub use source_location::relative_to;

#[cfg(test)]
#[path = "fixtures_tests.rs"]
mod fixtures_tests;

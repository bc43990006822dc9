//! Reads the output of tests, linters and compilers into findings.
//!
//! The data flow: what a tool left behind ([`Raw`]) -> [`read`] in the [`Format`] it is written in -> [`Reading`] ->
//! [`judge`]: passed, failed or skipped. [`parse_raw_checks`] does all of it for the checks of a `gate.checked` event that
//! carry raw output and the kind of tool.
//!
//! Invariant: this crate runs nothing, opens no file and reads no clock: the same text gives the same findings.
//!
//! Invariant: skipped is not passed, and results that cannot be read are not passed.

mod finding;
mod format;
mod judge;
mod raw_check;
mod read;
mod text;
mod tool;

pub use finding::{Finding, FindingKind, Severity, details, without_doubles};
pub use flyball::CheckKind;
pub use format::{Format, sniff};
pub use judge::{Outcome, failed_because, judge};
pub use raw_check::parse_raw_checks;
pub use read::{Counts, Raw, Reading, read};
pub use text::relative;
pub use tool::Tool;

#[cfg(test)]
#[path = "fixtures_tests.rs"]
mod fixtures_tests;

//! Quality gates: whether work that is said to be done is done, and if not, what is wrong in words that help (seed
//! 002).
//!
//! The way of the data: [`detect`] or [`GatesConfig`] -> [`Gate`]s -> [`run`]: each command under its deadline, its
//! results [`read`] from what the tool writes for programs, judged against how it ended -> [`Report`] -> the event
//! `gate.checked` for the governor, [`BlockingEvent`] for the one who must go on.
//!
//! Invariant: skipped is not passed, and results that cannot be read are not passed.

mod attempt;
mod blocking;
mod checklist;
mod config;
mod detect;
mod error;
mod failure;
mod finding;
mod format;
mod gate;
mod judge;
mod options;
mod order;
mod read;
mod report;
mod run;
mod scratch;
mod text;

pub use attempt::Line;
pub use blocking::{BlockingEvent, GateResult, TASK_COMPLETE};
pub use config::{GateConfig, GatesConfig, Span};
pub use detect::detect;
pub use error::GateError;
pub use failure::{Changes, Failure, trend};
pub use finding::{Finding, FindingKind, Severity};
pub use format::{Format, sniff};
pub use gate::{Gate, GateKind, RESULTS, Results, SCRATCH};
pub use judge::Outcome;
pub use options::{Flaky, Options};
pub use order::{depend, validate};
pub use read::{Counts, Raw, Reading, read};
pub use report::{GateRun, Report, Verdict};
pub use run::run;

#[cfg(test)]
#[path = "fixtures_tests.rs"]
mod fixtures_tests;

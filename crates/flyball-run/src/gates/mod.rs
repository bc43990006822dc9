//! Quality gates: whether work that is said to be done is done, and if not, what is wrong in words that help (seed
//! 002).
//!
//! The data flow: [`detect`] or [`GatesConfig`] -> [`Gate`]s -> [`run`]: each command under its deadline, its results read
//! by `flyball-checks` from what the tool writes for programs, judged against how it ended -> [`Report`] -> the event
//! `gate.checked` for the governor, whose decision carries the text for the agent that must continue.
//!
//! Invariant: skipped is not passed, and results that cannot be read are not passed.

mod attempt;
mod checklist;
mod config;
mod detect;
mod error;
mod failure;
mod gate;
mod options;
mod order;
mod report;
mod run;
mod scratch;

pub use attempt::Line;
pub use config::{GateConfig, GatesConfig, Span};
pub use detect::detect;
pub use error::GateError;
pub use failure::{Changes, Failure, trend};
pub use flyball_checks::{CheckKind, Counts, Finding, FindingKind, Format, Outcome, Severity};
pub use gate::{Gate, RESULTS, Results, SCRATCH};
pub use options::{Flaky, Options};
pub use order::{depend, validate};
pub use report::{GateRun, Report, Verdict};
pub use run::run;

//! Quality gates: check whether work reported as done is done, and if not, explain what is wrong.
//!
//! Data flow: [`detect`] or [`GatesConfig`] -> [`QualityGate`]s -> [`run_gates`] runs each command under its deadline,
//! and `flyball-checks` reads the machine-readable results and combines them with the exit status -> [`GateReport`] ->
//! the event `gate.checked` for the governor, whose decision contains the text for the agent that must continue.
//!
//! Invariant: a skipped gate or unreadable results never count as passed.

mod attempt;
mod checklist;
mod detect;
mod failure;
mod gate;
mod gate_error;
mod gates_config;
mod options;
mod order;
mod report;
mod run;
mod scratch;

pub use attempt::GateLine;
pub use detect::detect;
pub use failure::{FailureChanges, GateFailure, trend};
pub use flyball_checks::{
    CheckFinding, CheckKind, CheckOutcome, FindingKind, FindingSeverity, ResultsFormat, TestCounts,
};
pub use gate::{QualityGate, RESULTS_PLACEHOLDER, ResultsLocation, SCRATCH_PLACEHOLDER};
pub use gate_error::GateError;
pub use gates_config::{GateConfig, GateDuration, GatesConfig};
pub use options::{FlakyPolicy, GateOptions};
pub use order::{add_dependencies, validate};
pub use report::{GateReport, GateRun, GateVerdict};
pub use run::run_gates;

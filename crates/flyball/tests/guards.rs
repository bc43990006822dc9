//! Guard tests through the public API: event lines in, decisions out.
//!
//! One module per guard. Each has a table of histories that must trip, a table of histories that must not, its modes,
//! and its overrides. The first case of each table is stored under `fixtures/guards`.

#[path = "guards/harness.rs"]
mod harness;

#[path = "guards/budget.rs"]
mod budget;
#[path = "guards/budget_scopes.rs"]
mod budget_scopes;
#[path = "guards/confirmation.rs"]
mod confirmation;
#[path = "guards/cycle.rs"]
mod cycle;
#[path = "guards/cycle_transitions.rs"]
mod cycle_transitions;
#[path = "guards/denial.rs"]
mod denial;
#[path = "guards/error_streak.rs"]
mod error_streak;
#[path = "guards/gate.rs"]
mod gate;
#[path = "guards/monologue.rs"]
mod monologue;
#[path = "guards/oscillation.rs"]
mod oscillation;
#[path = "guards/question.rs"]
mod question;
#[path = "guards/recurrence.rs"]
mod recurrence;
#[path = "guards/repetition.rs"]
mod repetition;
#[path = "guards/retry.rs"]
mod retry;
#[path = "guards/rule.rs"]
mod rule;
#[path = "guards/stall.rs"]
mod stall;
#[path = "guards/transitions.rs"]
mod transitions;
#[path = "guards/validation.rs"]
mod validation;
#[path = "guards/visits.rs"]
mod visits;
#[path = "guards/workflow.rs"]
mod workflow;

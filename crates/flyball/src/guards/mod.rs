//! The guards: each watches events, keeps a small bounded state, and may trip. One guard per file, with everything that
//! belongs to it: settings, reasons, texts, state and check. This file only lists them.
//!
//! A request (a call, a transition, a turn) is passed to `check` of every guard and counted only after all of them
//! allow it. Accepted requests and facts are passed to `record`, which may also trip. Denied requests are passed to
//! `on_denied`, so that a guard can count its own denials and nothing else.

mod approval;
mod budget;
mod budget_check;
mod confirmation;
mod cycle;
mod declared_workflow;
mod denial;
mod drift;
mod error_streak;
mod gate;
mod guard;
mod info;
mod large_response;
mod monologue;
mod oscillation;
mod plan_request;
mod question;
mod recurrence;
mod registry;
mod repetition;
mod retry;
mod rule;
mod stall;
mod transitions;
mod trip_builder;
mod validation;
mod visits;

pub use approval::APPROVED_BY;
pub(crate) use budget::BudgetPosition;
pub use budget::{Ancestor, Ancestors};
pub use budget_check::granted_amount;
pub(crate) use budget_check::{ExhaustedBudget, format_usage};
pub(crate) use confirmation::nothing_pending_text;
pub(crate) use declared_workflow::{list_names, open_destinations};
pub(crate) use guard::{Guard, GuardContext, escalated_severity};
pub use info::GuardInfo;
pub(crate) use info::ScopeKind;
pub(crate) use retry::{BREAKER_SCOPE, OPENED_SCOPE};
pub(crate) use trip_builder::{TripBuilder, Trips};

use crate::policy::settings::{PolicySection, SchemaKeys, SectionReader, Settings, object_schema};
use crate::policy::{GuardMode, Preset, section_keys};

registry::guards! {
    // In evaluation order.
    evaluated {
        budget: budget::BudgetGuard,
        workflow: declared_workflow::DeclaredWorkflowGuard,
        visits: visits::VisitsGuard,
        transitions: transitions::TransitionsGuard,
        cycle: cycle::CycleGuard,
        repetition: repetition::RepetitionGuard,
        recurrence: recurrence::RecurrenceGuard,
        stall: stall::StallGuard,
        oscillation: oscillation::OscillationGuard,
        error_streak: error_streak::ErrorStreakGuard,
        validation: validation::ValidationGuard,
        retry: retry::RetryGuard,
        gate: gate::GateGuard,
        confirmation: confirmation::ConfirmationGuard,
        question: question::QuestionGuard,
        denial: denial::DenialGuard,
        monologue: monologue::MonologueGuard,
        rule: rule::RuleGuard,
    }
    // In the order of the policy and its schema.
    configured {
        repetition: repetition::RepetitionPolicy,
        cycle: cycle::CyclePolicy,
        recurrence: recurrence::RecurrencePolicy,
        workflow: declared_workflow::DeclaredWorkflowPolicy,
        visits: visits::VisitsPolicy,
        transitions: transitions::TransitionsPolicy,
        stall: stall::StallPolicy,
        oscillation: oscillation::OscillationPolicy,
        error_streak: error_streak::ErrorStreakPolicy,
        validation: validation::ValidationPolicy,
        retry: retry::RetryPolicy,
        gate: gate::GatePolicy,
        confirmation: confirmation::ConfirmationPolicy,
        question: question::QuestionPolicy,
        denial: denial::DenialPolicy,
        monologue: monologue::MonologuePolicy,
        large_response: large_response::LargeResponsePolicy,
    }
}

#[cfg(test)]
#[path = "guards_tests.rs"]
mod tests;

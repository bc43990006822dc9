//! All reasons of trips and runners, with the kind of ending each indicates.
//!
//! A halt has one of five coarse reasons ([`crate::HaltReason`]) that describe the failure. This table classifies
//! endings for statistics: success, exhaustion, external decision, error.

use serde::Serialize;

/// Kind of ending that a reason indicates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum EndingKind {
    /// The work is done, or continues elsewhere.
    Success,
    /// A budget or limit is exhausted.
    Exhaustion,
    /// An external decision: by a person, a rule or a check.
    External,
    /// A technical error.
    Error,
}

/// All reasons with their kind of ending. `completed`, `transition` and `error` are set by the sender of the session
/// end; all others are trip reasons.
pub const REASONS: [(&str, EndingKind); 41] = [
    ("completed", EndingKind::Success),
    ("transition", EndingKind::Success),
    ("max_runtime", EndingKind::Exhaustion),
    ("max_turns", EndingKind::Exhaustion),
    ("max_iterations", EndingKind::Exhaustion),
    ("max_tokens", EndingKind::Exhaustion),
    ("max_cost", EndingKind::Exhaustion),
    ("max_steps", EndingKind::Exhaustion),
    ("turn_timeout", EndingKind::Exhaustion),
    ("node_budget", EndingKind::Exhaustion),
    ("max_cycle_iterations", EndingKind::Exhaustion),
    ("visit_limit", EndingKind::Exhaustion),
    ("transition_limit", EndingKind::Exhaustion),
    ("cycle_detected", EndingKind::Exhaustion),
    ("repetition_loop", EndingKind::Exhaustion),
    ("recurrence", EndingKind::Exhaustion),
    ("stalled", EndingKind::Exhaustion),
    ("oscillating", EndingKind::Exhaustion),
    ("repeated_error", EndingKind::Exhaustion),
    ("consecutive_failures", EndingKind::Exhaustion),
    ("error_rate", EndingKind::Exhaustion),
    ("validation_failure", EndingKind::Exhaustion),
    ("retries_exhausted", EndingKind::Exhaustion),
    ("loop_thrashing", EndingKind::Exhaustion),
    ("quality_gate_exhausted", EndingKind::Exhaustion),
    ("confirmation_aborted", EndingKind::Exhaustion),
    ("repeated_question", EndingKind::Exhaustion),
    ("repeated_denial", EndingKind::Exhaustion),
    ("monologue", EndingKind::Exhaustion),
    ("no_progress", EndingKind::Exhaustion),
    ("transition_not_allowed", EndingKind::External),
    ("quality_gate_blocked", EndingKind::External),
    ("confirmation_expired", EndingKind::External),
    ("confirmation_unclear", EndingKind::External),
    ("confirmation_refused", EndingKind::External),
    ("approval_required", EndingKind::External),
    ("release_refused", EndingKind::External),
    ("policy_waits", EndingKind::External),
    ("rule", EndingKind::External),
    ("user_stop", EndingKind::External),
    ("error", EndingKind::Error),
];

/// The kind of ending that a reason indicates; `None` for an unknown reason.
#[must_use]
pub fn ending_kind(reason: &str) -> Option<EndingKind> {
    REASONS.iter().find(|(known, _)| *known == reason).map(|(_, ending)| *ending)
}

#[cfg(test)]
mod tests {
    use super::{EndingKind, REASONS, ending_kind};
    use std::collections::BTreeSet;

    #[test]
    fn reasons_are_unique_and_cover_every_ending_kind() {
        let names: BTreeSet<&str> = REASONS.iter().map(|(name, _)| *name).collect();
        assert_eq!(names.len(), REASONS.len());
        for (reason, expected) in [
            ("completed", Some(EndingKind::Success)),
            ("max_runtime", Some(EndingKind::Exhaustion)),
            ("repetition_loop", Some(EndingKind::Exhaustion)),
            ("validation_failure", Some(EndingKind::Exhaustion)),
            ("user_stop", Some(EndingKind::External)),
            ("error", Some(EndingKind::Error)),
            ("no such reason", None),
        ] {
            assert_eq!(ending_kind(reason), expected, "{reason}");
        }
    }
}

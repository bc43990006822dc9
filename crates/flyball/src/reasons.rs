//! Every reason that a trip or a runner can give, and what kind of end it means.
//!
//! A halt has one of five coarse reasons ([`crate::HaltReason`]), which say what went wrong. This table says how to
//! count it: work that came to its end, work that used something up, work that somebody stopped, work that broke.

use serde::Serialize;

/// What kind of end a reason means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// The work is done, or goes on elsewhere.
    Success,
    /// A budget, a limit or patience is used up.
    Exhaustion,
    /// Somebody or something outside decided: a person, a rule, a check.
    External,
    /// Something broke.
    Error,
}

/// Every reason with its kind of end. `completed`, `transition` and `error` are said by whoever ends a session; all
/// others are reasons of trips.
pub const REASONS: [(&str, Ending); 41] = [
    ("completed", Ending::Success),
    ("transition", Ending::Success),
    ("max_runtime", Ending::Exhaustion),
    ("max_turns", Ending::Exhaustion),
    ("max_iterations", Ending::Exhaustion),
    ("max_tokens", Ending::Exhaustion),
    ("max_cost", Ending::Exhaustion),
    ("max_steps", Ending::Exhaustion),
    ("turn_timeout", Ending::Exhaustion),
    ("node_budget", Ending::Exhaustion),
    ("max_cycle_iterations", Ending::Exhaustion),
    ("visit_limit", Ending::Exhaustion),
    ("transition_limit", Ending::Exhaustion),
    ("cycle_detected", Ending::Exhaustion),
    ("repetition_loop", Ending::Exhaustion),
    ("recurrence", Ending::Exhaustion),
    ("stalled", Ending::Exhaustion),
    ("oscillating", Ending::Exhaustion),
    ("repeated_error", Ending::Exhaustion),
    ("consecutive_failures", Ending::Exhaustion),
    ("error_rate", Ending::Exhaustion),
    ("validation_failure", Ending::Exhaustion),
    ("retries_exhausted", Ending::Exhaustion),
    ("loop_thrashing", Ending::Exhaustion),
    ("quality_gate_exhausted", Ending::Exhaustion),
    ("confirmation_aborted", Ending::Exhaustion),
    ("repeated_question", Ending::Exhaustion),
    ("repeated_denial", Ending::Exhaustion),
    ("monologue", Ending::Exhaustion),
    ("no_progress", Ending::Exhaustion),
    ("transition_not_allowed", Ending::External),
    ("quality_gate_blocked", Ending::External),
    ("confirmation_expired", Ending::External),
    ("confirmation_unclear", Ending::External),
    ("confirmation_refused", Ending::External),
    ("approval_required", Ending::External),
    ("release_refused", Ending::External),
    ("policy_waits", Ending::External),
    ("rule", Ending::External),
    ("user_stop", Ending::External),
    ("error", Ending::Error),
];

/// The kind of end that a reason means; nothing for a reason that is not known.
#[must_use]
pub fn ending(reason: &str) -> Option<Ending> {
    REASONS.iter().find(|(known, _)| *known == reason).map(|(_, ending)| *ending)
}

#[cfg(test)]
mod tests {
    use super::{Ending, REASONS, ending};
    use std::collections::BTreeSet;

    #[test]
    fn every_reason_stands_once_and_every_kind_of_end_is_there() {
        let names: BTreeSet<&str> = REASONS.iter().map(|(name, _)| *name).collect();
        assert_eq!(names.len(), REASONS.len());
        for (reason, expected) in [
            ("completed", Some(Ending::Success)),
            ("max_runtime", Some(Ending::Exhaustion)),
            ("repetition_loop", Some(Ending::Exhaustion)),
            ("validation_failure", Some(Ending::Exhaustion)),
            ("user_stop", Some(Ending::External)),
            ("error", Some(Ending::Error)),
            ("no such reason", None),
        ] {
            assert_eq!(ending(reason), expected, "{reason}");
        }
    }
}

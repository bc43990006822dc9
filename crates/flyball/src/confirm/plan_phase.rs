//! Life cycle of a plan that needs approval, as a transition table.

use serde::{Deserialize, Serialize};

/// Phase of a plan.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PlanPhase {
    /// No plan.
    #[default]
    Idle,
    /// The question was asked.
    Awaiting,
    /// Approved by a clear answer.
    Approved,
    /// Its first step was requested.
    Executing,
    /// All its steps have finished.
    Done,
    /// Rejected by a clear answer, or replaced by a new request.
    Rejected,
    /// The answer came too late.
    Expired,
    /// Aborted after too many unclear answers, which counts as a rejection.
    Aborted,
}

/// An input to a plan's life cycle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlanInput {
    /// The person was asked about a plan.
    Requested,
    /// A clear approval by someone who may give it.
    Yes,
    /// A clear rejection, a cancellation, or a request to change the plan. After an approval it revokes the steps that
    /// have not run.
    No,
    /// An unclear answer, with attempts left.
    Unclear,
    /// An unclear answer, with no attempts left.
    AttemptsExhausted,
    /// The person requested something else instead of answering.
    NewRequest,
    /// An answer after the expiry time.
    Expired,
    /// The first step of the plan was requested.
    Started,
    /// The last step of the plan has finished.
    Finished,
}

/// All transitions. Any other input changes nothing: a repeated approval, an answer without a plan, a late step.
pub const PLAN_TRANSITIONS: [(PlanPhase, PlanInput, PlanPhase); 18] = [
    (PlanPhase::Idle, PlanInput::Requested, PlanPhase::Awaiting),
    (PlanPhase::Awaiting, PlanInput::Requested, PlanPhase::Awaiting),
    (PlanPhase::Awaiting, PlanInput::Yes, PlanPhase::Approved),
    (PlanPhase::Awaiting, PlanInput::No, PlanPhase::Rejected),
    (PlanPhase::Awaiting, PlanInput::Unclear, PlanPhase::Awaiting),
    (PlanPhase::Awaiting, PlanInput::AttemptsExhausted, PlanPhase::Aborted),
    (PlanPhase::Awaiting, PlanInput::NewRequest, PlanPhase::Rejected),
    (PlanPhase::Awaiting, PlanInput::Expired, PlanPhase::Expired),
    (PlanPhase::Approved, PlanInput::Started, PlanPhase::Executing),
    (PlanPhase::Approved, PlanInput::Requested, PlanPhase::Awaiting),
    (PlanPhase::Approved, PlanInput::No, PlanPhase::Rejected),
    (PlanPhase::Executing, PlanInput::Finished, PlanPhase::Done),
    (PlanPhase::Executing, PlanInput::Requested, PlanPhase::Awaiting),
    (PlanPhase::Executing, PlanInput::No, PlanPhase::Rejected),
    (PlanPhase::Done, PlanInput::Requested, PlanPhase::Awaiting),
    (PlanPhase::Rejected, PlanInput::Requested, PlanPhase::Awaiting),
    (PlanPhase::Expired, PlanInput::Requested, PlanPhase::Awaiting),
    (PlanPhase::Aborted, PlanInput::Requested, PlanPhase::Awaiting),
];

impl PlanPhase {
    /// The phase after an input; `None` if the input does not apply.
    #[must_use]
    pub fn after(self, input: PlanInput) -> Option<PlanPhase> {
        PLAN_TRANSITIONS.iter().find(|(from, when, _)| *from == self && *when == input).map(|(_, _, to)| *to)
    }
}

#[cfg(test)]
mod tests {
    use super::{PLAN_TRANSITIONS, PlanInput, PlanPhase};

    #[test]
    fn only_an_awaiting_plan_can_be_approved_and_only_an_approved_one_runs() {
        for (from, input, to) in PLAN_TRANSITIONS {
            if to == PlanPhase::Approved {
                assert_eq!((from, input), (PlanPhase::Awaiting, PlanInput::Yes));
            }
            if to == PlanPhase::Executing {
                assert_eq!((from, input), (PlanPhase::Approved, PlanInput::Started));
            }
        }
    }

    #[test]
    fn plan_transitions_are_unambiguous() {
        for (at, (from, input, _)) in PLAN_TRANSITIONS.iter().enumerate() {
            assert!(
                !PLAN_TRANSITIONS.iter().skip(at + 1).any(|(other, when, _)| other == from && when == input)
            );
        }
    }

    #[test]
    fn a_second_yes_changes_nothing() {
        for phase in [
            PlanPhase::Idle,
            PlanPhase::Approved,
            PlanPhase::Executing,
            PlanPhase::Done,
            PlanPhase::Rejected,
            PlanPhase::Expired,
            PlanPhase::Aborted,
        ] {
            assert_eq!(phase.after(PlanInput::Yes), None);
        }
    }
}

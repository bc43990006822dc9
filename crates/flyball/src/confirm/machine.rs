//! The life of a plan that needs a person's yes, as a table that a reader can check.

use serde::{Deserialize, Serialize};

/// Where a plan is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// No plan.
    #[default]
    Idle,
    /// The question was put.
    Awaiting,
    /// A clear yes was given.
    Approved,
    /// Its first step was asked for.
    Executing,
    /// All its steps have ended.
    Done,
    /// A clear no, or a new request in its place.
    Rejected,
    /// The answer came too late.
    Expired,
    /// Given up after too many unclear answers: that means no.
    Aborted,
}

/// What can happen to a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Input {
    /// A plan was put to the person.
    Asked,
    /// A clear yes by somebody who may give it.
    Yes,
    /// A clear no, a cancel, or the wish to change it. After a yes it takes back what has not run yet.
    No,
    /// An answer that is neither, with asking again left.
    Unclear,
    /// An unclear answer too many.
    GaveUp,
    /// The person asked for something else instead of answering.
    NewRequest,
    /// An answer after the time was over.
    Late,
    /// The first step of the plan was asked for.
    Started,
    /// The last step of the plan has ended.
    Finished,
}

/// Every step there is. What is not here changes nothing: a second yes, an answer to nothing, a late step.
pub const TABLE: [(Phase, Input, Phase); 18] = [
    (Phase::Idle, Input::Asked, Phase::Awaiting),
    (Phase::Awaiting, Input::Asked, Phase::Awaiting),
    (Phase::Awaiting, Input::Yes, Phase::Approved),
    (Phase::Awaiting, Input::No, Phase::Rejected),
    (Phase::Awaiting, Input::Unclear, Phase::Awaiting),
    (Phase::Awaiting, Input::GaveUp, Phase::Aborted),
    (Phase::Awaiting, Input::NewRequest, Phase::Rejected),
    (Phase::Awaiting, Input::Late, Phase::Expired),
    (Phase::Approved, Input::Started, Phase::Executing),
    (Phase::Approved, Input::Asked, Phase::Awaiting),
    (Phase::Approved, Input::No, Phase::Rejected),
    (Phase::Executing, Input::Finished, Phase::Done),
    (Phase::Executing, Input::Asked, Phase::Awaiting),
    (Phase::Executing, Input::No, Phase::Rejected),
    (Phase::Done, Input::Asked, Phase::Awaiting),
    (Phase::Rejected, Input::Asked, Phase::Awaiting),
    (Phase::Expired, Input::Asked, Phase::Awaiting),
    (Phase::Aborted, Input::Asked, Phase::Awaiting),
];

impl Phase {
    /// Where the plan is after this, or nothing if it does not apply.
    #[must_use]
    pub fn after(self, input: Input) -> Option<Phase> {
        TABLE.iter().find(|(from, when, _)| *from == self && *when == input).map(|(_, _, to)| *to)
    }
}

#[cfg(test)]
mod tests {
    use super::{Input, Phase, TABLE};

    #[test]
    fn only_an_awaiting_plan_can_be_approved_and_only_an_approved_one_runs() {
        for (from, input, to) in TABLE {
            if to == Phase::Approved {
                assert_eq!((from, input), (Phase::Awaiting, Input::Yes));
            }
            if to == Phase::Executing {
                assert_eq!((from, input), (Phase::Approved, Input::Started));
            }
        }
    }

    #[test]
    fn the_table_says_one_thing_for_each_case() {
        for (at, (from, input, _)) in TABLE.iter().enumerate() {
            assert!(!TABLE.iter().skip(at + 1).any(|(other, when, _)| other == from && when == input));
        }
    }

    #[test]
    fn a_second_yes_changes_nothing() {
        for phase in [
            Phase::Idle,
            Phase::Approved,
            Phase::Executing,
            Phase::Done,
            Phase::Rejected,
            Phase::Expired,
            Phase::Aborted,
        ] {
            assert_eq!(phase.after(Input::Yes), None);
        }
    }
}

//! The states of a conversation, and every step that there is between them, as a table that a reader can check.
//!
//! A conversation that takes a step which is not here has a mistake in it. That is told as an error at once: it is
//! cheaper than to find the loop that the mistake would make later.

use crate::fail::Failure;

/// Where a conversation is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// Nothing is under way.
    #[default]
    Idle,
    /// A message is being read, or the person was asked what to change.
    Understanding,
    /// The question for a slot is open.
    WaitingForSlot,
    /// What a message holds is being checked.
    ValidatingSlot,
    /// Everything is there, and the person is to be asked whether it is right.
    ReadyForConfirmation,
    /// The person was asked whether it is right.
    Confirming,
    /// Everything is there, and right.
    ReadyForAction,
    /// It is being done.
    ExecutingAction,
    /// It was done; the person is told.
    GeneratingResponse,
    /// The end.
    Completed,
    /// A guard gave up, or the action failed.
    Error,
    /// A person takes over.
    Fallback,
}

use State::{
    Completed, Confirming, Error, ExecutingAction, Fallback, GeneratingResponse, Idle, ReadyForAction,
    ReadyForConfirmation, Understanding, ValidatingSlot, WaitingForSlot,
};

/// Every step there is, with the reason for it.
pub const TABLE: [(State, State, &str); 25] = [
    (Idle, Understanding, "somebody said something"),
    (Idle, WaitingForSlot, "nobody said anything yet, so the first question is put"),
    (WaitingForSlot, Understanding, "an answer"),
    (Confirming, Understanding, "an answer"),
    (Understanding, WaitingForSlot, "nothing of use in it, or it is open what a slot shall become"),
    (Understanding, ValidatingSlot, "there are values in it"),
    (Understanding, Confirming, "neither yes nor no: asked again"),
    (Understanding, ReadyForAction, "yes"),
    (Understanding, Idle, "cancelled"),
    (Understanding, Error, "not understood too often"),
    (Understanding, Fallback, "a person is wanted, or it does not get on"),
    (ValidatingSlot, WaitingForSlot, "a value does not fit, or the next one is missing"),
    (ValidatingSlot, ReadyForConfirmation, "everything is there"),
    (ValidatingSlot, ReadyForAction, "everything is there, and nobody wants to be asked"),
    (ValidatingSlot, Error, "it did not fit too often"),
    (ValidatingSlot, Fallback, "it was changed too often"),
    (ReadyForConfirmation, Confirming, "asked whether it is right"),
    (ReadyForAction, ExecutingAction, "it is done"),
    (ReadyForAction, Completed, "there is nothing to do here"),
    (ExecutingAction, GeneratingResponse, "it went well"),
    (ExecutingAction, Error, "it went wrong"),
    (GeneratingResponse, Completed, "the person was told"),
    (Error, Idle, "it starts over"),
    (Error, Fallback, "it was given up too often"),
    (Fallback, Understanding, "a person let it go on"),
];

impl State {
    /// All of them.
    pub const ALL: [State; 12] = [
        Idle,
        Understanding,
        WaitingForSlot,
        ValidatingSlot,
        ReadyForConfirmation,
        Confirming,
        ReadyForAction,
        ExecutingAction,
        GeneratingResponse,
        Completed,
        Error,
        Fallback,
    ];

    /// Its name in events and results.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Idle => "idle",
            Understanding => "understanding",
            WaitingForSlot => "waiting_for_slot",
            ValidatingSlot => "validating_slot",
            ReadyForConfirmation => "ready_for_confirmation",
            Confirming => "confirming",
            ReadyForAction => "ready_for_action",
            ExecutingAction => "executing_action",
            GeneratingResponse => "generating_response",
            Completed => "completed",
            Error => "error",
            Fallback => "fallback",
        }
    }

    /// The next state, if the table has that step.
    ///
    /// # Errors
    /// With code `dialogue_illegal_transition`, if it does not.
    pub fn to(self, next: State) -> Result<State, Failure> {
        if TABLE.iter().any(|(from, to, _)| *from == self && *to == next) {
            return Ok(next);
        }
        let ways: Vec<&str> =
            TABLE.iter().filter(|(from, ..)| *from == self).map(|(_, to, _)| to.as_str()).collect();
        let (from, to) = (self.as_str(), next.as_str());
        let what = format!("a conversation cannot go from '{from}' to '{to}'");
        let advice = format!("this is a mistake in the runner; from there lead: {}", ways.join(", "));
        Err(Failure::new("dialogue_illegal_transition", what, advice))
    }
}

#[cfg(test)]
mod tests {
    use super::{State, TABLE};

    #[test]
    fn a_step_that_is_not_in_the_table_is_an_error_and_all_others_are_taken() {
        let mut legal = 0;
        for from in State::ALL {
            for to in State::ALL {
                let in_table = TABLE.iter().any(|(a, b, _)| (*a, *b) == (from, to));
                match from.to(to) {
                    Ok(next) => {
                        assert!(in_table && next == to, "{from:?} -> {to:?}");
                        legal += 1;
                    }
                    Err(failure) => {
                        assert!(!in_table, "{from:?} -> {to:?}");
                        assert_eq!(failure.code, "dialogue_illegal_transition");
                        assert!(failure.what.contains(from.as_str()) && failure.what.contains(to.as_str()));
                    }
                }
            }
        }
        assert_eq!(legal, TABLE.len(), "a step stands in the table twice");
    }

    #[test]
    fn every_state_can_be_reached_and_only_the_end_cannot_be_left() {
        let mut reached = vec![State::Idle];
        let mut at = 0;
        while let Some(from) = reached.get(at).copied() {
            for (_, to, _) in TABLE.iter().filter(|(a, ..)| *a == from) {
                if !reached.contains(to) {
                    reached.push(*to);
                }
            }
            at += 1;
        }
        for state in State::ALL {
            assert!(reached.contains(&state), "{state:?}");
            let leaves = TABLE.iter().any(|(from, ..)| *from == state);
            assert_eq!(leaves, state != State::Completed, "{state:?}");
        }
    }

    #[test]
    fn nothing_is_done_without_a_yes_or_a_last_value() {
        for (from, to, _) in TABLE {
            if to == State::ExecutingAction {
                assert_eq!(from, State::ReadyForAction);
            }
            if to == State::ReadyForAction {
                assert!(matches!(from, State::Understanding | State::ValidatingSlot));
            }
        }
    }
}

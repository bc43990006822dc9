//! States of a conversation and the table of all transitions between them.
//!
//! A transition that is not in the table is a bug. Reporting it at once is cheaper than finding the loop it would cause
//! later.

use crate::run_error::RunError;

/// State of a conversation.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum DialogueState {
    /// Nothing is in progress.
    #[default]
    Idle,
    /// Interprets a message, or has asked what to change.
    Understanding,
    /// Has asked for a slot.
    WaitingForSlot,
    /// Validates the values of a message.
    ValidatingSlot,
    /// All slots are filled; the confirmation comes next.
    ReadyForConfirmation,
    /// Has asked for confirmation.
    Confirming,
    /// All slots are filled and confirmed.
    ReadyForAction,
    /// The action is running.
    ExecutingAction,
    /// The action succeeded; the response comes next.
    GeneratingResponse,
    /// Final state.
    Completed,
    /// A guard gave up, or the action failed.
    Error,
    /// A person takes over.
    Fallback,
}

use DialogueState::{
    Completed, Confirming, Error, ExecutingAction, Fallback, GeneratingResponse, Idle, ReadyForAction,
    ReadyForConfirmation, Understanding, ValidatingSlot, WaitingForSlot,
};

/// All transitions, each with its reason.
pub const TRANSITIONS: [(DialogueState, DialogueState, &str); 25] = [
    (Idle, Understanding, "first message"),
    (Idle, WaitingForSlot, "no message yet, so the first question is asked"),
    (WaitingForSlot, Understanding, "an answer"),
    (Confirming, Understanding, "an answer"),
    (Understanding, WaitingForSlot, "nothing usable, or the new value of a slot is missing"),
    (Understanding, ValidatingSlot, "contains values"),
    (Understanding, Confirming, "neither yes nor no, asked again"),
    (Understanding, ReadyForAction, "confirmed"),
    (Understanding, Idle, "cancelled"),
    (Understanding, Error, "too many unclear messages"),
    (Understanding, Fallback, "the user asked for a person, or there is no progress"),
    (ValidatingSlot, WaitingForSlot, "a value is invalid, or the next one is missing"),
    (ValidatingSlot, ReadyForConfirmation, "all slots filled"),
    (ValidatingSlot, ReadyForAction, "all slots filled, no confirmation required"),
    (ValidatingSlot, Error, "too many invalid values"),
    (ValidatingSlot, Fallback, "too many changes"),
    (ReadyForConfirmation, Confirming, "confirmation requested"),
    (ReadyForAction, ExecutingAction, "action started"),
    (ReadyForAction, Completed, "no action configured"),
    (ExecutingAction, GeneratingResponse, "action succeeded"),
    (ExecutingAction, Error, "action failed"),
    (GeneratingResponse, Completed, "response sent"),
    (Error, Idle, "restart"),
    (Error, Fallback, "too many aborts"),
    (Fallback, Understanding, "released by a person"),
];

impl DialogueState {
    /// All states.
    pub const ALL: [DialogueState; 12] = [
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

    /// Name in events and results.
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

    /// Returns the next state if the table has the transition.
    ///
    /// # Errors
    /// `dialogue_illegal_transition` if it does not.
    pub fn transition(self, next: DialogueState) -> Result<DialogueState, RunError> {
        if TRANSITIONS.iter().any(|(from, to, _)| *from == self && *to == next) {
            return Ok(next);
        }
        let targets: Vec<&str> =
            TRANSITIONS.iter().filter(|(from, ..)| *from == self).map(|(_, to, _)| to.as_str()).collect();
        let (from, to) = (self.as_str(), next.as_str());
        let what = format!("illegal dialogue transition from '{from}' to '{to}'");
        let advice = format!("this is a bug in flyball; allowed targets: {}", targets.join(", "));
        Err(RunError::new("dialogue_illegal_transition", what, advice))
    }
}

#[cfg(test)]
mod tests {
    use super::{DialogueState, TRANSITIONS};

    #[test]
    fn only_listed_transitions_are_allowed() {
        let mut legal = 0;
        for from in DialogueState::ALL {
            for to in DialogueState::ALL {
                let in_table = TRANSITIONS.iter().any(|(a, b, _)| (*a, *b) == (from, to));
                match from.transition(to) {
                    Ok(next) => {
                        assert!(in_table && next == to, "{from:?} -> {to:?}");
                        legal += 1;
                    }
                    Err(failure) => {
                        assert!(!in_table, "{from:?} -> {to:?}");
                        assert_eq!(failure.code, "dialogue_illegal_transition");
                        assert!(
                            failure.message.contains(from.as_str()) && failure.message.contains(to.as_str())
                        );
                    }
                }
            }
        }
        assert_eq!(legal, TRANSITIONS.len(), "the table has a duplicate transition");
    }

    #[test]
    fn all_states_are_reachable_and_only_completed_is_terminal() {
        let mut reached = vec![DialogueState::Idle];
        let mut at = 0;
        while let Some(from) = reached.get(at).copied() {
            for (_, to, _) in TRANSITIONS.iter().filter(|(a, ..)| *a == from) {
                if !reached.contains(to) {
                    reached.push(*to);
                }
            }
            at += 1;
        }
        for state in DialogueState::ALL {
            assert!(reached.contains(&state), "{state:?}");
            let leaves = TRANSITIONS.iter().any(|(from, ..)| *from == state);
            assert_eq!(leaves, state != DialogueState::Completed, "{state:?}");
        }
    }

    #[test]
    fn action_requires_confirmation_or_the_last_value() {
        for (from, to, _) in TRANSITIONS {
            if to == DialogueState::ExecutingAction {
                assert_eq!(from, DialogueState::ReadyForAction);
            }
            if to == DialogueState::ReadyForAction {
                assert!(matches!(from, DialogueState::Understanding | DialogueState::ValidatingSlot));
            }
        }
    }
}

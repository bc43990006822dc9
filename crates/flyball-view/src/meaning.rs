//! Findings in plain words: what a reason means, and what each suggested action asks a person to do.

use flyball::{Decision, State, SuggestedAction, Trip};
use flyball_journal::{Desk, StoreError};

/// A message as a sentence.
#[must_use]
pub fn sentence(message: &str) -> String {
    let mut chars = message.chars();
    let first: String = chars.next().map(|c| c.to_uppercase().collect()).unwrap_or_default();
    let end = if message.ends_with(['.', '!', '?']) { "" } else { "." };
    format!("{first}{}{end}", chars.as_str())
}

/// What a reason means, for somebody who sees it for the first time.
#[must_use]
pub fn meaning(reason: &str) -> Option<&'static str> {
    Some(match reason {
        "repetition_loop" => {
            "The same call with the same arguments gives the same result; calling it again cannot help."
        }
        "cycle_detected" => {
            "The same steps with the same results follow each other in the same order: it goes in a circle."
        }
        "recurrence" => {
            "Calls whose answers are already known are made again, and nothing is changed in between."
        }
        "repeated_error" => "The same failure comes back; trying again in the same way will fail again.",
        "consecutive_failures" | "error_rate" => "Most attempts fail; something basic is probably wrong.",
        "stalled" | "no_progress" => "Work is done, but none of the signs of progress has moved.",
        "oscillating" => "Two states take turns, so each step undoes the one before.",
        "visit_limit" | "transition_limit" => {
            "The workflow comes back to the same place more often than it should need to."
        }
        "max_runtime"
        | "max_turns"
        | "max_iterations"
        | "max_tokens"
        | "max_cost"
        | "max_steps"
        | "turn_timeout"
        | "node_budget"
        | "max_cycle_iterations" => "A budget is used up; a person may raise it.",
        "validation_failure" => "The model's answers cannot be read; asking again has not helped.",
        "retries_exhausted" => "An operation failed too often; it is switched off for a while.",
        "quality_gate_exhausted" | "quality_gate_blocked" | "loop_thrashing" => {
            "The work was declared done, but the checks say otherwise."
        }
        "confirmation_aborted" | "confirmation_expired" => {
            "No clear yes was given in time, and giving up means no."
        }
        "confirmation_unclear" => "The answer was neither a clear yes nor a clear no, so the plan waits on.",
        "confirmation_refused" => {
            "Somebody else than the one who asked for it has answered; that does not count."
        }
        "repeated_question" => {
            "The person was asked the same again and again; the answer does not get through."
        }
        "repeated_denial" => "Somebody said no, and the same was asked for again.",
        "monologue" => "The agent repeats itself instead of doing something.",
        "user_stop" => "A person stopped it.",
        "rule" => "A rule of the policy file holds: it says itself what it is for.",
        "transition_not_allowed" => {
            "The workflow or the policy declares where this node may lead, and this is not among it."
        }
        _ => return None,
    })
}

/// What a person can do about what holds a session: the suggestions of the guard that stopped it, and how to lift a
/// person's stop. Nothing if nothing holds it.
///
/// # Errors
/// If the store cannot be read.
pub fn hold_actions(
    desk: &dyn Desk,
    session: &str,
    state: &State,
) -> Result<Vec<SuggestedAction>, StoreError> {
    let mut found = Vec::new();
    if let Some(hold) = state.guard_hold() {
        let record = desk.records(session, hold.seq, hold.seq)?.pop();
        let decision = record.and_then(|record| serde_json::from_str::<Decision>(&record.decision).ok());
        let trips = decision.map(|decision| decision.trips).unwrap_or_default();
        found = match trips.iter().find(|trip| trip.guard == hold.guard) {
            Some(trip) => actions(trip, session),
            // The event was pruned; the session can be released all the same.
            None => SuggestedAction::of("release", session, Some(hold.guard)).into_iter().collect(),
        };
    }
    let stopped = state.operator_stops().next().is_some();
    found.extend(SuggestedAction::of("lift_stop", session, None).filter(|_| stopped));
    Ok(found)
}

/// The suggested actions of a trip, with words and commands for its session. One that nobody knows is left out.
#[must_use]
pub fn actions(trip: &Trip, session: &str) -> Vec<SuggestedAction> {
    let known = |name: &String| SuggestedAction::of(name, session, Some(&trip.guard));
    trip.suggested_actions.iter().filter_map(known).collect()
}

#[cfg(test)]
mod tests {
    //! Words for everything that a guard may say.

    use super::meaning;
    use flyball::action_text as action;
    use std::path::Path;

    #[test]
    fn every_action_and_reason_of_the_recorded_histories_has_words() {
        let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures");
        let (mut actions, mut reasons) = (0, 0);
        for folder in ["guards", "seeds"] {
            for entry in std::fs::read_dir(fixtures.join(folder)).expect("fixtures") {
                let path = entry.expect("an entry").path();
                if !path.to_string_lossy().ends_with(".decisions.jsonl") {
                    continue;
                }
                for line in std::fs::read_to_string(&path).expect("a fixture").lines() {
                    let decision: flyball::Decision = serde_json::from_str(line).expect("a decision");
                    for trip in &decision.trips {
                        for name in &trip.suggested_actions {
                            assert!(action(name).is_some(), "{name} in {}", path.display());
                            actions += 1;
                        }
                        assert!(meaning(&trip.reason).is_some(), "{} in {}", trip.reason, path.display());
                        reasons += 1;
                    }
                }
            }
        }
        assert!(actions > 100 && reasons > 100, "{actions} actions, {reasons} reasons");
    }
}

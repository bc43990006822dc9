//! Plain-English explanations of reasons and of the actions a person can take.

use flyball::{Decision, SessionState, SuggestedAction, Trip};
use flyball_store::{AdminStore, StoreError};

/// Capitalizes a message and ends it with a period.
#[must_use]
pub fn sentence(message: &str) -> String {
    let mut chars = message.chars();
    let first: String = chars.next().map(|c| c.to_uppercase().collect()).unwrap_or_default();
    let end = if message.ends_with(['.', '!', '?']) { "" } else { "." };
    format!("{first}{}{end}", chars.as_str())
}

/// Explains a reason to a reader who sees it for the first time.
#[must_use]
pub fn explain_reason(reason: &str) -> Option<&'static str> {
    Some(match reason {
        "repetition_loop" => {
            "The same call with the same arguments gives the same result; calling it again cannot help."
        }
        "cycle_detected" => "The same sequence of steps repeats with the same results.",
        "recurrence" => {
            "Calls are repeated although their results are known and nothing has changed in between."
        }
        "repeated_error" => "The same error keeps occurring; retrying the same way will fail again.",
        "consecutive_failures" | "error_rate" => {
            "Most attempts fail; something fundamental is probably wrong."
        }
        "stalled" | "no_progress" => "The agent is active, but no progress signal has changed.",
        "oscillating" => "The work alternates between two states: each step undoes the previous one.",
        "visit_limit" | "transition_limit" => {
            "The workflow returned to the same place more often than its limit allows."
        }
        "max_runtime"
        | "max_turns"
        | "max_iterations"
        | "max_tokens"
        | "max_cost"
        | "max_steps"
        | "turn_timeout"
        | "node_budget"
        | "max_cycle_iterations" => "A budget is used up. An operator can raise it.",
        "validation_failure" => "The model's output does not validate, and retries have not helped.",
        "retries_exhausted" => "An operation failed too often and is disabled for a while.",
        "quality_gate_exhausted" | "quality_gate_blocked" | "loop_thrashing" => {
            "The work was declared done, but the checks fail."
        }
        "confirmation_aborted" | "confirmation_expired" => {
            "The plan was not clearly approved in time, so it was denied."
        }
        "confirmation_unclear" => {
            "The answer was neither a clear yes nor a clear no. The plan is still awaiting approval."
        }
        "confirmation_refused" => {
            "Only the requester can approve the plan; an answer from anyone else is ignored."
        }
        "repeated_question" => "The agent keeps asking the same question although it was answered.",
        "repeated_denial" => "A denied request was made again.",
        "monologue" => "The agent repeats itself instead of acting.",
        "user_stop" => "An operator stopped the session.",
        "rule" => "A rule in the policy file matched; its message gives the reason.",
        "transition_not_allowed" => "The workflow or policy does not allow this transition from this node.",
        _ => return None,
    })
}

/// The actions that can lift a session's hold: the suggestions of the guard that stopped it, and how to lift an
/// operator's stop. Empty if nothing holds the session.
///
/// # Errors
/// If the store cannot be read.
pub fn hold_actions(
    store: &dyn AdminStore,
    session: &str,
    state: &SessionState,
) -> Result<Vec<SuggestedAction>, StoreError> {
    let mut found = Vec::new();
    if let Some(hold) = state.guard_hold() {
        let record = store.records(session, hold.seq, hold.seq)?.pop();
        let decision = record.and_then(|record| serde_json::from_str::<Decision>(&record.decision_json).ok());
        let trips = decision.map(|decision| decision.trips).unwrap_or_default();
        found = match trips.iter().find(|trip| trip.guard == hold.guard) {
            Some(trip) => actions(trip, session),
            // The event was pruned, but the session can still be released.
            None => SuggestedAction::from_name("release", session, Some(hold.guard)).into_iter().collect(),
        };
    }
    let stopped = state.operator_stops().next().is_some();
    found.extend(SuggestedAction::from_name("lift_stop", session, None).filter(|_| stopped));
    Ok(found)
}

/// The suggested actions of a trip, with text and command for its session. Unknown action names are skipped.
#[must_use]
pub fn actions(trip: &Trip, session: &str) -> Vec<SuggestedAction> {
    let known = |name: &String| SuggestedAction::from_name(name, session, Some(&trip.guard));
    trip.suggested_actions.iter().filter_map(known).collect()
}

#[cfg(test)]
mod tests {
    //! Every recorded action and reason has an explanation.

    use super::explain_reason;
    use flyball::action_text as action;
    use std::path::Path;

    #[test]
    fn every_recorded_action_and_reason_has_an_explanation() {
        let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures");
        let (mut actions, mut reasons) = (0, 0);
        for folder in ["guards", "original-systems"] {
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
                        assert!(
                            explain_reason(&trip.reason).is_some(),
                            "{} in {}",
                            trip.reason,
                            path.display()
                        );
                        reasons += 1;
                    }
                }
            }
        }
        assert!(actions > 100 && reasons > 100, "{actions} actions, {reasons} reasons");
    }
}

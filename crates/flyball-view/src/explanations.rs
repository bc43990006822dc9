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
    flyball::reason(reason)?.meaning
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

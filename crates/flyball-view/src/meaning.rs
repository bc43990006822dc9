//! Findings in plain words: what a reason means, and what each suggested action asks a person to do.

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
        _ => return None,
    })
}

/// What a suggested action asks a person to do. Every name that a guard gives has words here.
#[must_use]
pub fn action(name: &str) -> Option<&'static str> {
    Some(match name {
        "switch_to_interactive" => "take over: mend by hand what it cannot, then let it go on",
        "hand_over_to_a_person" => "let a person do this step",
        "spawn_reconciliation_node" => {
            "let another node look at it: `reviewer:` and `on_stall: spawn_reviewer`"
        }
        "retry_with_new_provider" => {
            "let another model try: `fallback_provider:` and `on_stall: retry_with_new_provider`"
        }
        "tighten_context_pack" => {
            "give it less to read and a smaller task: shorten the prompt to what matters now"
        }
        "update_docs_contract" => {
            "see whether goal, tests and docs want the same; correct the one that is wrong"
        }
        "raise_budget" => "raise the budget, if it was getting somewhere",
        "raise_max_visits" | "raise_max_transitions" => "allow it more often, if that is how the work goes",
        "raise_releases_ceiling_in_the_policy_file" => {
            "raise `releases.ceiling`, if it may be released still more often"
        }
        "try_different_approach" => "tell it another way to go; this one leads back to the same place",
        "read_the_error" => "read the error itself: it is the same each time",
        "fix_the_cause" => "mend what fails before anything tries it again",
        "fix_the_failing_check" => "mend the check that fails, or the work that it complains about",
        "configure_a_check" => {
            "set up a check that can be run: without one nobody knows whether the work is done"
        }
        "check_the_model_output" => {
            "look at what the model answers, and at the format that it was told to keep"
        }
        "check_that_answers_are_stored" => {
            "see whether the answer reaches the agent: it asks as if it had none"
        }
        "check_the_workflow" | "change_the_workflow" => {
            "look at the workflow: an edge leads back where it should lead on"
        }
        "choose_another_path" => "let it go another way from here",
        "find_the_bounce" => "find the two steps that send the work to each other",
        "review_the_trail" => "look at the way that it went",
        "analyse_why_it_repeats" | "find_why_it_repeats" => {
            "find out what keeps it from being done the first time"
        }
        "see_the_policy" => "look at the rule: flyball config --origin",
        "respect_the_refusal" => "leave it: somebody has said no",
        "ask_the_person_why" | "ask_again" => "ask the person again, in other words",
        "release" => "look at it, then release it",
        "lift_stop" => {
            "ask the person who stopped it, then lift the stop: flyball release SESSION --guard human"
        }
        "start_over" => "begin anew, with what is known now",
        "pause" => "leave it standing until somebody has looked at it",
        "stop" => "leave it stopped",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    //! Words for everything that a guard may say.

    use super::{action, meaning};
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

//! Suggested actions: the identifiers that trips and `loop.halted` carry, each with words for people and, where one
//! command does it, that command.

/// What a suggested action asks a person to do.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct SuggestedAction {
    /// The identifier, as trips and effects carry it.
    pub name: String,
    /// What to do, in words.
    pub text: &'static str,
    /// The command that does it, or that shows what is needed for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
}

impl SuggestedAction {
    /// The action with this identifier for a session that a guard has stopped; nothing if nobody knows it.
    #[must_use]
    pub fn of(name: &str, session: &str, guard: Option<&str>) -> Option<Self> {
        let (text, command) = known(name)?;
        Some(SuggestedAction { name: name.to_owned(), text, command: command.for_session(session, guard) })
    }

    /// The words, and after them the command.
    #[must_use]
    pub fn sentence(&self) -> String {
        match &self.command {
            Some(command) => format!("{}: {command}", self.text),
            None => self.text.to_owned(),
        }
    }
}

/// The words for a suggested action.
#[must_use]
pub fn action_text(name: &str) -> Option<&'static str> {
    known(name).map(|(text, _)| text)
}

/// A command with the session and the guard filled in.
#[derive(Clone, Copy)]
enum Command {
    /// Releases the guard, and hands the reason to the agent.
    Release,
    /// Releases the guard, and says how much more it allows.
    Grant,
    /// Lifts a person's stop.
    LiftStop,
    /// Says something to the agent.
    Send,
    /// Approves the plan that waits.
    Approve,
    /// Stops the session for good.
    Stop,
    /// Shows the evidence.
    Explain,
    /// Shows the graph with its loops.
    Graph,
    /// Takes a looser policy over.
    AcceptPolicy,
    /// A command that needs no session.
    Plain(&'static str),
    /// No command does it.
    None,
}

impl Command {
    fn for_session(self, session: &str, guard: Option<&str>) -> Option<String> {
        let name = shell_word(session);
        let of_guard = guard.map_or_else(String::new, |guard| format!(" --guard {}", shell_word(guard)));
        Some(match self {
            Command::Release => format!("flyball release {name}{of_guard} --why \"…\""),
            Command::Grant => format!("flyball release {name}{of_guard} --n 3 --why \"…\""),
            Command::LiftStop => format!("flyball release {name} --guard human --why \"…\""),
            Command::Send => format!("flyball send {name} \"…\""),
            Command::Approve => format!("flyball approve {name}"),
            Command::Stop => format!("flyball stop {name} --why \"…\""),
            Command::Explain => format!("flyball explain {name}"),
            Command::Graph => format!("flyball graph {name}"),
            Command::AcceptPolicy => format!("flyball policy accept {name} --why \"…\""),
            Command::Plain(command) => command.to_owned(),
            Command::None => return None,
        })
    }
}

fn known(name: &str) -> Option<(&'static str, Command)> {
    Some(match name {
        "switch_to_interactive" => {
            ("fix it manually or tell it what to do differently, then release the session", Command::Release)
        }
        "hand_over_to_a_person" => ("do this step manually, then release the session", Command::Release),
        "spawn_reconciliation_node" => (
            "let another node review it: write `reviewer:` in the workflow and `on_stall: spawn_reviewer` in its policy",
            Command::None,
        ),
        "retry_with_new_provider" => (
            "let another model try: write `fallback_provider:` in the workflow and `on_stall: retry_with_new_provider` \
             in its policy",
            Command::None,
        ),
        "tighten_context_pack" => {
            ("give it a smaller task and only the context it needs, and tell it so", Command::Send)
        }
        "update_docs_contract" => {
            ("compare the goal, the tests and the docs; correct the one that is wrong", Command::Explain)
        }
        "raise_budget" => ("raise the budget if it was making progress", Command::Grant),
        "raise_max_visits" => ("allow more visits if the work needs them", Command::Grant),
        "raise_max_transitions" => ("allow more transitions if the work needs them", Command::Grant),
        "raise_releases_ceiling_in_the_policy_file" => {
            ("raise `releases.ceiling` in the policy file if it may be released more often", Command::None)
        }
        "try_different_approach" => ("tell it another approach; this one repeats itself", Command::Send),
        "read_the_error" => ("read the error: it is the same each time", Command::Explain),
        "fix_the_cause" => ("fix what fails, then release the session", Command::Release),
        "fix_the_failing_check" => (
            "fix the failing check, or the work it complains about, then release the session",
            Command::Release,
        ),
        "configure_a_check" => {
            ("configure a check that can run: without one the work is unverified", Command::None)
        }
        "check_the_model_output" => {
            ("compare what the model answers with the format it was asked for", Command::Explain)
        }
        "check_that_answers_are_stored" => (
            "check that answers reach the agent: it asks as if it had none",
            Command::Plain("flyball doctor"),
        ),
        "check_the_workflow" | "change_the_workflow" => {
            ("look at the graph for an edge that leads back where it should lead on", Command::Graph)
        }
        "choose_another_path" => ("choose another destination from here", Command::Graph),
        "find_the_bounce" => ("find the two steps that send the work to each other", Command::Explain),
        "review_the_trail" => ("look at the transitions that led here", Command::Explain),
        "analyse_why_it_repeats" | "find_why_it_repeats" => {
            ("find out why it was not done the first time", Command::Explain)
        }
        "see_the_policy" => {
            ("look at the rule and where it is written", Command::Plain("flyball config --origin"))
        }
        "ask_for_approval" => {
            ("look at exactly what the call would do, then approve it or deny it", Command::Approve)
        }
        "respect_the_refusal" => ("leave it: a person said no", Command::Stop),
        "ask_the_person_why" | "ask_again" => ("ask again in other words", Command::Send),
        "release" => ("look at the evidence, then release the session", Command::Release),
        "lift_stop" => ("ask the person who stopped it, then lift the stop", Command::LiftStop),
        "accept_policy" => ("read what the newer policy loosens, then accept it", Command::AcceptPolicy),
        "start_over" => ("start again with what is known now", Command::Stop),
        "pause" => ("leave it stopped until someone has looked at it", Command::Explain),
        "stop" => ("leave it stopped", Command::Stop),
        _ => return None,
    })
}

/// A name as it must be typed in a shell.
#[must_use]
pub fn shell_word(name: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "_-.:/@%+=,".contains(c);
    if !name.is_empty() && !name.starts_with('-') && name.chars().all(plain) {
        return name.to_owned();
    }
    format!("'{}'", name.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::SuggestedAction;
    use std::path::Path;

    /// Every identifier that the guards suggest, read from their source.
    fn suggested() -> Vec<String> {
        let mut found = Vec::new();
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        let guards = std::fs::read_dir(source.join("guards")).unwrap().map(|entry| entry.unwrap().path());
        for path in guards.chain([source.join("lifecycle.rs")]) {
            let text = std::fs::read_to_string(&path).unwrap();
            for part in text.split(".actions(&[").skip(1) {
                let list = part.split(']').next().unwrap_or_default();
                found.extend(list.split('"').skip(1).step_by(2).map(str::to_owned));
            }
        }
        found
    }

    #[test]
    fn every_action_that_a_guard_suggests_has_words() {
        let names = suggested();
        assert!(names.len() > 40, "{}", names.len());
        for name in names {
            let action = SuggestedAction::of(&name, "s 1", Some("stall"));
            assert!(action.is_some_and(|action| !action.text.is_empty()), "{name}");
        }
        assert_eq!(SuggestedAction::of("no_such_action", "s", None), None);
    }

    #[test]
    fn commands_name_the_session_and_the_guard_as_a_shell_takes_them() {
        let command = |name| SuggestedAction::of(name, "a b's", Some("stall")).unwrap().command.unwrap();
        assert_eq!(command("switch_to_interactive"), r#"flyball release 'a b'\''s' --guard stall --why "…""#);
        assert_eq!(command("lift_stop"), r#"flyball release 'a b'\''s' --guard human --why "…""#);
        let release = SuggestedAction::of("release", "s1", None).unwrap();
        assert_eq!(
            release.sentence(),
            r#"look at the evidence, then release the session: flyball release s1 --why "…""#
        );
    }
}

//! Suggested actions: the identifiers in trips and `loop.halted`, each with a text for people and, where available, a
//! command.

/// A suggested action for a person.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct SuggestedAction {
    /// Identifier used in trips and effects.
    pub name: String,
    /// Instruction for a person.
    pub text: &'static str,
    /// Command that performs the action or shows the information it needs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
}

impl SuggestedAction {
    /// The action with this identifier, for a session and the guard that stopped it; `None` if it is unknown.
    #[must_use]
    pub fn from_name(name: &str, session: &str, guard: Option<&str>) -> Option<Self> {
        let (text, command) = lookup(name)?;
        Some(SuggestedAction { name: name.to_owned(), text, command: command.for_session(session, guard) })
    }

    /// The text, followed by the command.
    #[must_use]
    pub fn sentence(&self) -> String {
        match &self.command {
            Some(command) => format!("{}: {command}", self.text),
            None => self.text.to_owned(),
        }
    }
}

/// The text of a suggested action.
#[must_use]
pub fn action_text(name: &str) -> Option<&'static str> {
    lookup(name).map(|(text, _)| text)
}

/// A command with the session and the guard filled in.
#[derive(Clone, Copy)]
enum ActionCommand {
    /// Releases the guard and passes the reason to the agent.
    Release,
    /// Releases the guard with an explicit allowance.
    Grant,
    /// Lifts a person's stop.
    LiftStop,
    /// Sends a message to the agent.
    Send,
    /// Approves the pending plan.
    Approve,
    /// Stops the session.
    Stop,
    /// Shows the evidence.
    Explain,
    /// Shows the graph with its loops.
    Graph,
    /// Accepts a looser policy.
    AcceptPolicy,
    /// A command without a session argument.
    Plain(&'static str),
    /// No command.
    None,
}

impl ActionCommand {
    fn for_session(self, session: &str, guard: Option<&str>) -> Option<String> {
        let name = shell_word(session);
        let of_guard = guard.map_or_else(String::new, |guard| format!(" --guard {}", shell_word(guard)));
        Some(match self {
            ActionCommand::Release => format!("flyball release {name}{of_guard} --why \"…\""),
            ActionCommand::Grant => format!("flyball release {name}{of_guard} --n 3 --why \"…\""),
            ActionCommand::LiftStop => format!("flyball release {name} --guard human --why \"…\""),
            ActionCommand::Send => format!("flyball send {name} \"…\""),
            ActionCommand::Approve => format!("flyball approve {name}"),
            ActionCommand::Stop => format!("flyball stop {name} --why \"…\""),
            ActionCommand::Explain => format!("flyball explain {name}"),
            ActionCommand::Graph => format!("flyball graph {name}"),
            ActionCommand::AcceptPolicy => format!("flyball policy accept {name} --why \"…\""),
            ActionCommand::Plain(command) => command.to_owned(),
            ActionCommand::None => return None,
        })
    }
}

/// The sentence and the command of every suggested action.
const ACTIONS: [(&str, &str, ActionCommand); 35] = [
    (
        "switch_to_interactive",
        "fix it manually or tell it what to do differently, then release the session",
        ActionCommand::Release,
    ),
    ("hand_over_to_a_person", "do this step manually, then release the session", ActionCommand::Release),
    (
        "spawn_reconciliation_node",
        "let another node review it: write `reviewer:` in the workflow and `on_stall: spawn_reviewer` in its policy",
        ActionCommand::None,
    ),
    (
        "retry_with_new_provider",
        "let another model try: write `fallback_provider:` in the workflow and `on_stall: retry_with_new_provider` \
             in its policy",
        ActionCommand::None,
    ),
    (
        "tighten_context_pack",
        "give it a smaller task and only the context it needs, and tell it so",
        ActionCommand::Send,
    ),
    (
        "update_docs_contract",
        "compare the goal, the tests and the docs; correct the one that is wrong",
        ActionCommand::Explain,
    ),
    ("raise_budget", "raise the budget if it was making progress", ActionCommand::Grant),
    ("raise_max_visits", "allow more visits if the work needs them", ActionCommand::Grant),
    ("raise_max_transitions", "allow more transitions if the work needs them", ActionCommand::Grant),
    (
        "raise_releases_ceiling_in_the_policy_file",
        "raise `releases.ceiling` in the policy file if it may be released more often",
        ActionCommand::None,
    ),
    ("try_different_approach", "suggest a different approach; this one repeats itself", ActionCommand::Send),
    ("read_the_error", "read the error: it is the same each time", ActionCommand::Explain),
    ("fix_the_cause", "fix the cause, then release the session", ActionCommand::Release),
    (
        "fix_the_failing_check",
        "fix the failing check, or the work it complains about, then release the session",
        ActionCommand::Release,
    ),
    (
        "configure_a_check",
        "configure a check that can run: without one the work is unverified",
        ActionCommand::None,
    ),
    (
        "check_the_model_output",
        "compare the model's output with the format it was asked for",
        ActionCommand::Explain,
    ),
    (
        "check_that_answers_are_stored",
        "check that answers reach the agent: it asks as if it had none",
        ActionCommand::Plain("flyball doctor"),
    ),
    (
        "check_the_workflow",
        "check the graph for an edge that loops back instead of moving on",
        ActionCommand::Graph,
    ),
    (
        "change_the_workflow",
        "check the graph for an edge that loops back instead of moving on",
        ActionCommand::Graph,
    ),
    ("choose_another_path", "choose another destination from here", ActionCommand::Graph),
    ("find_the_bounce", "find the two steps that hand the work back and forth", ActionCommand::Explain),
    ("review_the_trail", "look at the transitions that led here", ActionCommand::Explain),
    ("analyse_why_it_repeats", "find out why the first attempt was not enough", ActionCommand::Explain),
    ("find_why_it_repeats", "find out why the first attempt was not enough", ActionCommand::Explain),
    (
        "see_the_policy",
        "look at the rule and where it is defined",
        ActionCommand::Plain("flyball config --origin"),
    ),
    (
        "ask_for_approval",
        "look at exactly what the call would do, then approve it or deny it",
        ActionCommand::Approve,
    ),
    ("respect_the_refusal", "leave it: a person denied it", ActionCommand::Stop),
    ("ask_the_person_why", "ask again in other words", ActionCommand::Send),
    ("ask_again", "ask again in other words", ActionCommand::Send),
    ("release", "look at the evidence, then release the session", ActionCommand::Release),
    ("lift_stop", "ask the person who stopped it, then lift the stop", ActionCommand::LiftStop),
    ("accept_policy", "review what the newer policy loosens, then accept it", ActionCommand::AcceptPolicy),
    ("start_over", "start again with what is known now", ActionCommand::Stop),
    ("pause", "leave it stopped until someone has looked at it", ActionCommand::Explain),
    ("stop", "leave it stopped", ActionCommand::Stop),
];

fn lookup(name: &str) -> Option<(&'static str, ActionCommand)> {
    let (_, text, command) = ACTIONS.iter().find(|(known, ..)| *known == name)?;
    Some((text, *command))
}

/// Quotes a name for a shell if necessary.
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

    /// All identifiers that the guards suggest, extracted from their source.
    fn suggested_names() -> Vec<String> {
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
    fn every_suggested_action_has_a_text() {
        let names = suggested_names();
        assert!(names.len() > 40, "{}", names.len());
        for name in names {
            let action = SuggestedAction::from_name(&name, "s 1", Some("stall"));
            assert!(action.is_some_and(|action| !action.text.is_empty()), "{name}");
        }
        assert_eq!(SuggestedAction::from_name("no_such_action", "s", None), None);
    }

    #[test]
    fn commands_quote_the_session_and_the_guard() {
        let command =
            |name| SuggestedAction::from_name(name, "a b's", Some("stall")).unwrap().command.unwrap();
        assert_eq!(command("switch_to_interactive"), r#"flyball release 'a b'\''s' --guard stall --why "…""#);
        assert_eq!(command("lift_stop"), r#"flyball release 'a b'\''s' --guard human --why "…""#);
        let release = SuggestedAction::from_name("release", "s1", None).unwrap();
        assert_eq!(
            release.sentence(),
            r#"look at the evidence, then release the session: flyball release s1 --why "…""#
        );
    }
}

//! Actions outside the agent: events that its path does not see (`flyball tell`), and operator commands.

use crate::command_harness::{CommandOutput, run_flyball, test_dir};
use crate::compare::answer_error;
use crate::scenario_table::{ExpectedAnswer, Scenario, ScenarioStep};
use crate::store_rows::{DELIVERY_POLICY, StoreRows};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// Events of a person.
pub(crate) const PERSON_EVENTS: [&str; 4] =
    ["confirmation.answered", "person.message", "human.released", "human.stopped"];

/// Whether a person answers without a pending plan. The operator commands and routes report that and record nothing.
pub(crate) fn answers_without_a_plan(scenario: &Scenario) -> bool {
    let mut state = "running";
    scenario.steps.iter().any(|step| {
        let found = step.kind() == "confirmation.answered" && state != "awaiting_confirmation";
        if let ExpectedAnswer::Decision { state: after, .. } = &step.expected {
            state = after;
        }
        found
    })
}

/// Whether a plan is answered in free text with `confirmation.answered`. On other paths a person's text is a
/// `person.message`.
pub(crate) fn answers_in_words(scenario: &Scenario) -> bool {
    let in_words = |step: &ScenarioStep| step.event.get("value").is_none();
    scenario.steps.iter().any(|step| step.kind() == "confirmation.answered" && in_words(step))
}

/// Whether an answer is null, as a classifier reports an unclear answer.
pub(crate) fn answers_null(scenario: &Scenario) -> bool {
    let is_null = |step: &ScenarioStep| step.event.get("value").is_some_and(Value::is_null);
    scenario.steps.iter().any(|step| step.kind() == "confirmation.answered" && is_null(step))
}

/// A project for one scenario with the scenario's policy, which the user trusts. The user's own policy delivers every
/// effect.
pub(crate) fn project_dir(path: &str, scenario: &Scenario) -> PathBuf {
    let place = test_dir(&format!("conformance-{path}-{}", scenario.name));
    let config = config_dir(&place).join("flyball");
    let _ = std::fs::remove_dir_all(&config);
    std::fs::create_dir_all(&config).unwrap();
    std::fs::write(config.join("flyball.yaml"), DELIVERY_POLICY).unwrap();
    let policy = match &scenario.policy {
        Value::Null => return place,
        Value::String(preset) => json!({"preset": preset}),
        policy => policy.clone(),
    };
    std::fs::write(place.join("flyball.json"), policy.to_string()).unwrap();
    crate::command_harness::trust_policy(&place);
    place
}

/// The user's configuration folder, outside the project.
fn config_dir(project: &Path) -> PathBuf {
    let mut name = project.as_os_str().to_owned();
    name.push(".config");
    PathBuf::from(name)
}

/// The environment of a project's user.
pub(crate) fn environment(project: &Path) -> Vec<(String, String)> {
    let config = config_dir(project).to_str().unwrap().to_owned();
    let state = crate::command_harness::state_dir(project).to_str().unwrap().to_owned();
    let own =
        [("XDG_CONFIG_HOME", config), ("XDG_STATE_HOME", state), ("PATH", std::env::var("PATH").unwrap())];
    own.map(|(name, value)| (name.to_owned(), value)).to_vec()
}

/// The address of a project's store.
pub(crate) fn store_address(project: &Path) -> String {
    format!("sqlite:{}", project.join(".flyball/flyball.db").display())
}

/// A session in a project's store, accessed from outside the process under test.
pub(crate) struct OperatorSession {
    pub(crate) folder: PathBuf,
    /// The store address.
    pub(crate) store: String,
    pub(crate) session: String,
    env: Vec<(String, String)>,
    rows: StoreRows,
    /// The last inspected event of the session and of its child.
    last_seqs: [u64; 2],
}

impl OperatorSession {
    /// A session that may not exist yet, in an existing store.
    pub(crate) fn new(folder: &Path, session: &str) -> Self {
        let store = store_address(folder);
        let (rows, env) = (StoreRows::open(&store), environment(folder));
        let (folder, session) = (folder.to_owned(), session.to_owned());
        OperatorSession { folder, store, session, env, rows, last_seqs: [0, 0] }
    }

    /// The session name of a step.
    pub(crate) fn session_of(&self, step: &ScenarioStep) -> String {
        if step.child { format!("{}/child", self.session) } else { self.session.clone() }
    }

    fn run_command(&self, args: &[&str], input: &str) -> CommandOutput {
        let env: Vec<(&str, &str)> =
            self.env.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        run_flyball(&self.folder, &[args, &["--json"]].concat(), input.as_bytes(), &env)
    }

    /// Reports an event with `flyball tell`.
    pub(crate) fn tell_event(&self, step: &ScenarioStep) -> CommandOutput {
        let session = self.session_of(step);
        let mut event = step.with_session(&self.session);
        event.as_object_mut().unwrap().remove("session");
        self.run_command(&["tell", "-", "--session", &session], &event.to_string())
    }

    /// Runs the operator command for a step.
    pub(crate) fn run_operator_command(&self, step: &ScenarioStep) -> CommandOutput {
        let session = self.session_of(step);
        let text = |key: &str| step.event[key].as_str();
        let answer = &step.event["value"];
        let mut args: Vec<String> = match step.kind() {
            "human.stopped" => vec!["stop".into(), session],
            "human.released" if step.takes_label_off => vec!["unlabel".into(), session],
            "human.released" => vec!["release".into(), session],
            _ if answer == "yes" || answer == true => vec!["approve".into(), session],
            _ if answer == "no" || answer == false => vec!["deny".into(), session],
            _ => vec!["send".into(), session, text("text").unwrap_or_default().to_owned()],
        };
        for key in ["guard", "mode", "by", "why"] {
            let is_implied = key == "guard" && step.takes_label_off;
            if let Some(value) = text(key).filter(|_| !is_implied) {
                args.extend([format!("--{key}"), value.to_owned()]);
            }
        }
        if let Some(n) = step.event["n"].as_u64() {
            args.extend(["--n".to_owned(), n.to_string()]);
        }
        self.run_command(&args.iter().map(String::as_str).collect::<Vec<_>>(), "")
    }

    /// Submits a step that the path itself does not carry. Returns an error as an answer.
    pub(crate) fn submit(&self, step: &ScenarioStep) -> Option<Value> {
        let is_person = PERSON_EVENTS.contains(&step.kind()) || step.kind() == "user.message";
        let run = if is_person { self.run_operator_command(step) } else { self.tell_event(step) };
        let code =
            run.err.split_once("error[").and_then(|(_, rest)| rest.split_once(']')).map(|(code, _)| code);
        code.map(|code| json!({"error": {"code": code}}))
    }

    /// The events stored since the last call, with their decisions.
    pub(crate) fn new_events(&mut self, step: &ScenarioStep) -> Vec<(Value, Value)> {
        let session = self.session_of(step);
        let seen = &mut self.last_seqs[usize::from(step.child)];
        let news = self.rows.records(&session, *seen + 1);
        *seen += news.len() as u64;
        news
    }

    /// The errors in the events that a step left in the store: its own event must have the expected decision, and only
    /// events that the path adds may accompany it.
    pub(crate) fn event_errors(
        &mut self,
        step: &ScenarioStep,
        error: Option<&Value>,
        adds: &[&str],
    ) -> Vec<String> {
        let news = self.new_events(step);
        compare_events(step, error, &news, adds)
    }

    /// The errors in the final rows, which must follow from the stored decisions.
    pub(crate) fn row_errors(&self, scenario: &Scenario) -> Vec<String> {
        StoreRows::open(&self.store).errors_from_stored_decisions(scenario, &self.session)
    }
}

/// The errors in the events that one step left in the store.
pub(crate) fn compare_events(
    step: &ScenarioStep,
    error: Option<&Value>,
    news: &[(Value, Value)],
    adds: &[&str],
) -> Vec<String> {
    let kinds: Vec<&str> = news.iter().map(|(event, _)| event["type"].as_str().unwrap_or("?")).collect();
    if let Some(error) = error {
        let stored = (!news.is_empty()).then(|| format!("expected an error, but {kinds:?} was stored"));
        return answer_error(step, error, None).into_iter().chain(stored).collect();
    }
    if step.expected == ExpectedAnswer::SameAsBefore {
        let stored = (!news.is_empty()).then(|| format!("a repeated event stored {kinds:?} again"));
        return stored.into_iter().collect();
    }
    let Some(at) = news.iter().position(|(event, _)| is_event_of_step(step, event)) else {
        return vec![format!("{} was not stored, only {kinds:?}", crate::compare::event_text(&step.event))];
    };
    let mut found: Vec<String> = answer_error(step, &news[at].1, None).into_iter().collect();
    for (other, (event, _)) in news.iter().enumerate().filter(|(other, _)| *other != at) {
        let kind = event["type"].as_str().unwrap_or("?");
        if !adds.contains(&kind) {
            found.push(format!("{} stored an additional event {other}: {event}", step.kind()));
        }
    }
    found
}

/// Whether a stored event belongs to a step: same type and same subject.
pub(crate) fn is_event_of_step(step: &ScenarioStep, event: &Value) -> bool {
    const IDENTIFYING_FIELDS: [&str; 12] = [
        "type",
        "tool",
        "args",
        "node",
        "from",
        "to",
        "signal",
        "operation",
        "request",
        "guard",
        "ok",
        "text",
    ];
    IDENTIFYING_FIELDS.iter().all(|key| match step.event.get(*key) {
        None => true,
        // Fields missing from the stored event are not compared, because the path may use its own.
        Some(wanted) => event.get(*key).is_none_or(|found| found == wanted),
    })
}

/// Waits before a step if the program and not the sender sets the time.
#[expect(clippy::disallowed_methods, reason = "the decision depends on the time between two events")]
pub(crate) fn pause(ms: u64) {
    std::thread::sleep(std::time::Duration::from_millis(ms));
}

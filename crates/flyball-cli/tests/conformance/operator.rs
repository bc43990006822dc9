//! What is said beside an agent: events that its path does not see (`flyball tell`), and a person's commands.

use crate::compare::fault;
use crate::kit::{Run, flyball, folder};
use crate::rows::{EVERYTHING_IS_DELIVERED, Store};
use crate::table::{Scenario, Step, Want};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// What a person does.
pub(crate) const PEOPLE: [&str; 4] =
    ["confirmation.answered", "person.message", "human.released", "human.stopped"];

/// Whether a person answers where no plan waits. The commands and routes for people say so and record nothing.
pub(crate) fn answers_nothing(scenario: &Scenario) -> bool {
    let mut state = "running";
    scenario.steps.iter().any(|step| {
        let found = step.kind() == "confirmation.answered" && state != "awaiting_confirmation";
        if let Want::Decision { state: after, .. } = &step.want {
            state = after;
        }
        found
    })
}

/// Whether a plan is answered in words by an event of its own. People's words are a `person.message` elsewhere.
pub(crate) fn answers_in_words(scenario: &Scenario) -> bool {
    let in_words = |step: &Step| step.event.get("value").is_none();
    scenario.steps.iter().any(|step| step.kind() == "confirmation.answered" && in_words(step))
}

/// Whether an answer is what a classifier says of words that it cannot read.
pub(crate) fn answers_null(scenario: &Scenario) -> bool {
    let is_null = |step: &Step| step.event.get("value").is_some_and(Value::is_null);
    scenario.steps.iter().any(|step| step.kind() == "confirmation.answered" && is_null(step))
}

/// A project of its own for a scenario, with its policy, which the user trusts. The user's own policy sends every effect
/// somewhere.
pub(crate) fn project(path: &str, scenario: &Scenario) -> PathBuf {
    let place = folder(&format!("conformance-{path}-{}", scenario.name));
    let config = config_of(&place).join("flyball");
    let _ = std::fs::remove_dir_all(&config);
    std::fs::create_dir_all(&config).unwrap();
    std::fs::write(config.join("flyball.yaml"), EVERYTHING_IS_DELIVERED).unwrap();
    let policy = match &scenario.policy {
        Value::Null => return place,
        Value::String(preset) => json!({"preset": preset}),
        policy => policy.clone(),
    };
    std::fs::write(place.join("flyball.json"), policy.to_string()).unwrap();
    crate::kit::trusted(&place);
    place
}

/// Where the user of a project keeps their configuration: not inside of it.
fn config_of(project: &Path) -> PathBuf {
    let mut name = project.as_os_str().to_owned();
    name.push(".config");
    PathBuf::from(name)
}

/// The variables of the user of a project.
pub(crate) fn environment(project: &Path) -> Vec<(String, String)> {
    let config = config_of(project).to_str().unwrap().to_owned();
    let state = crate::kit::state(project).to_str().unwrap().to_owned();
    let own =
        [("XDG_CONFIG_HOME", config), ("XDG_STATE_HOME", state), ("PATH", std::env::var("PATH").unwrap())];
    own.map(|(name, value)| (name.to_owned(), value)).to_vec()
}

/// The address of a project's own store.
pub(crate) fn store_of(project: &Path) -> String {
    format!("sqlite:{}", project.join(".flyball/flyball.db").display())
}

/// One session of a project's store, seen from outside of the process that works in it.
pub(crate) struct Beside {
    pub(crate) folder: PathBuf,
    /// The address of the store.
    pub(crate) store: String,
    pub(crate) session: String,
    env: Vec<(String, String)>,
    rows: Store,
    /// The last event of the session, and of the one below it, that was looked at.
    seen: [u64; 2],
}

impl Beside {
    /// A session that may not be there yet, in a store that is.
    pub(crate) fn new(folder: &Path, session: &str) -> Self {
        let store = store_of(folder);
        let (rows, env) = (Store::open(&store), environment(folder));
        let (folder, session) = (folder.to_owned(), session.to_owned());
        Beside { folder, store, session, env, rows, seen: [0, 0] }
    }

    /// The name of the session that a step belongs to.
    pub(crate) fn session_of(&self, step: &Step) -> String {
        if step.child { format!("{}/child", self.session) } else { self.session.clone() }
    }

    fn run(&self, args: &[&str], input: &str) -> Run {
        let env: Vec<(&str, &str)> =
            self.env.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        flyball(&self.folder, &[args, &["--json"]].concat(), input.as_bytes(), &env)
    }

    /// Tells an event with `flyball tell`.
    pub(crate) fn tell(&self, step: &Step) -> Run {
        let session = self.session_of(step);
        let mut event = step.addressed(&self.session);
        event.as_object_mut().unwrap().remove("session");
        self.run(&["tell", "-", "--session", &session], &event.to_string())
    }

    /// Does what a person does, with the command that is there for it.
    pub(crate) fn person(&self, step: &Step) -> Run {
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
        self.run(&args.iter().map(String::as_str).collect::<Vec<_>>(), "")
    }

    /// Does or tells what the path itself does not carry; an error is one of the answers.
    pub(crate) fn say(&self, step: &Step) -> Option<Value> {
        let is_person = PEOPLE.contains(&step.kind()) || step.kind() == "user.message";
        let run = if is_person { self.person(step) } else { self.tell(step) };
        let code =
            run.err.split_once("error[").and_then(|(_, rest)| rest.split_once(']')).map(|(code, _)| code);
        code.map(|code| json!({"error": {"code": code}}))
    }

    /// The events that were stored since the last look, with their decisions.
    pub(crate) fn news(&mut self, step: &Step) -> Vec<(Value, Value)> {
        let session = self.session_of(step);
        let seen = &mut self.seen[usize::from(step.child)];
        let news = self.rows.records(&session, *seen + 1);
        *seen += news.len() as u64;
        news
    }

    /// What is wrong with what a step left in the store: the event itself, answered as wanted, and beside it only what the
    /// path adds.
    pub(crate) fn faults(&mut self, step: &Step, error: Option<&Value>, adds: &[&str]) -> Vec<String> {
        let news = self.news(step);
        judge(step, error, &news, adds)
    }

    /// The rows at the end, as they follow from the decisions that are stored.
    pub(crate) fn row_faults(&self, scenario: &Scenario) -> Vec<String> {
        Store::open(&self.store).faults_as_stored(scenario, &self.session)
    }
}

/// What is wrong with the events that one step left in the store.
pub(crate) fn judge(
    step: &Step,
    error: Option<&Value>,
    news: &[(Value, Value)],
    adds: &[&str],
) -> Vec<String> {
    let kinds: Vec<&str> = news.iter().map(|(event, _)| event["type"].as_str().unwrap_or("?")).collect();
    if let Some(error) = error {
        let stored = (!news.is_empty()).then(|| format!("an error, and yet {kinds:?} is stored"));
        return fault(step, error, None).into_iter().chain(stored).collect();
    }
    if step.want == Want::Again {
        let stored = (!news.is_empty()).then(|| format!("sent again, and {kinds:?} is stored anew"));
        return stored.into_iter().collect();
    }
    let Some(at) = news.iter().position(|(event, _)| is_event(step, event)) else {
        return vec![format!("{} is not stored, only {kinds:?}", crate::compare::brief(&step.event))];
    };
    let mut found: Vec<String> = fault(step, &news[at].1, None).into_iter().collect();
    for (other, (event, _)) in news.iter().enumerate().filter(|(other, _)| *other != at) {
        let kind = event["type"].as_str().unwrap_or("?");
        if !adds.contains(&kind) {
            found.push(format!("{} brought event {other} besides: {event}", step.kind()));
        }
    }
    found
}

/// Whether a stored event is the one of a step: of its type, and about the same thing.
pub(crate) fn is_event(step: &Step, event: &Value) -> bool {
    const ABOUT: [&str; 12] = [
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
    ABOUT.iter().all(|key| match step.event.get(*key) {
        None => true,
        // Where nothing is said of it, the path has its own words for the same.
        Some(wanted) => event.get(*key).is_none_or(|found| found == wanted),
    })
}

/// Lets the time of a step pass where the program, and not the sender, says what time it is.
#[expect(
    clippy::disallowed_methods,
    reason = "what is decided depends on the time that passes between two events"
)]
pub(crate) fn pause(ms: u64) {
    std::thread::sleep(std::time::Duration::from_millis(ms));
}

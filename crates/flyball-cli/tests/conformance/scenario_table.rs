//! The scenario table in `fixtures/conformance`, and the paths that support the scenarios.

use crate::command_harness::{fixture_files, repo_root};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// The time of the first event, on paths where the sender sets it.
const EPOCH_MS: u64 = 1_700_000_000_000;
/// Placeholder for the scenario's session.
const SESSION_PLACEHOLDER: &str = "$session";
/// Placeholder for a child session.
const CHILD_PLACEHOLDER: &str = "$child";

/// A path to Flyball.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ConformancePath {
    /// `flyball observe`, without a store.
    Observe,
    /// `flyball observe --store sqlite:…`, one process.
    Sqlite,
    /// `flyball observe --store sqlite:…`, one process per event.
    Restart,
    /// `flyball observe --store postgres://…`, one process per event.
    Postgres,
    /// `flyball replay --json FILE`.
    Replay,
    /// `flyball serve`: `POST /v1/events` and the operator routes.
    Http,
    /// `flyball hook claude-code`, with `flyball tell` for events that hosts do not send.
    Hook,
    /// `flyball mcp -- SERVER`, with `flyball tell` for events other than tool calls.
    Mcp,
    /// `flyball proxy`, with `flyball tell` for events that are not part of a model conversation.
    Proxy,
    /// `flyball run WORKFLOW`.
    Run,
}

impl ConformancePath {
    pub(crate) const ALL: [ConformancePath; 10] = [
        ConformancePath::Observe,
        ConformancePath::Sqlite,
        ConformancePath::Restart,
        ConformancePath::Postgres,
        ConformancePath::Replay,
        ConformancePath::Http,
        ConformancePath::Hook,
        ConformancePath::Mcp,
        ConformancePath::Proxy,
        ConformancePath::Run,
    ];

    /// The name in the table.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            ConformancePath::Observe => "observe",
            ConformancePath::Sqlite => "sqlite",
            ConformancePath::Restart => "restart",
            ConformancePath::Postgres => "postgres",
            ConformancePath::Replay => "replay",
            ConformancePath::Http => "http",
            ConformancePath::Hook => "hook",
            ConformancePath::Mcp => "mcp",
            ConformancePath::Proxy => "proxy",
            ConformancePath::Run => "run",
        }
    }

    /// The description for the page.
    pub(crate) const fn description(self) -> &'static str {
        match self {
            ConformancePath::Observe => "`flyball observe`: events on stdin, no store",
            ConformancePath::Sqlite => {
                "`flyball observe --store sqlite:…`: one process, then the stored rows"
            }
            ConformancePath::Restart => {
                "the same with a new process between any two events of a session, then the stored rows"
            }
            ConformancePath::Postgres => "like `restart`, on PostgreSQL (if the tests have a server)",
            ConformancePath::Replay => "`flyball replay --json FILE`",
            ConformancePath::Http => {
                "`flyball serve`: `POST /v1/events` and the operator routes; restarted in the middle of \
                 every scenario"
            }
            ConformancePath::Hook => {
                "`flyball hook claude-code`, one process per payload; `flyball tell` for events that the \
                 host does not send; operator commands (`flyball approve`, `release`, …)"
            }
            ConformancePath::Mcp => {
                "`flyball mcp -- SERVER` for tool calls, restarted in the middle of every scenario; \
                 `flyball tell` and operator commands for the rest"
            }
            ConformancePath::Proxy => {
                "`flyball proxy` for prompts, answers and tool calls, restarted in the middle of every \
                 scenario; `flyball tell` and operator commands for the rest"
            }
            ConformancePath::Run => "`flyball run WORKFLOW`, `resume`, and operator commands",
        }
    }
}

impl fmt::Display for ConformancePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A scenario as written in the file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawScenario {
    name: String,
    says: String,
    #[serde(default)]
    policy: Value,
    #[serde(default)]
    start: Map<String, Value>,
    steps: Vec<RawScenarioStep>,
    #[serde(default)]
    run: Option<RawScenarioRun>,
    #[serde(default)]
    not: BTreeMap<ConformancePath, String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawScenarioRun {
    workflow: Value,
    exit: i32,
    #[serde(default)]
    then: Vec<RunCommand>,
    find: Option<Vec<SendStep>>,
}

/// A command after a run, and its expected exit code.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RunCommand {
    pub(crate) args: Vec<String>,
    pub(crate) exit: i32,
}

/// A step as written in the file.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub(crate) enum RawScenarioStep {
    Wait(WaitStep),
    Call(CallStep),
    Send(SendStep),
    LabelOff(LabelStep),
}

/// Removal of the label that calls a person; on paths that carry only events, a release.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LabelStep {
    label_off: Value,
    #[serde(default = "allow")]
    want: String,
    #[serde(default)]
    has: Value,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct WaitStep {
    wait_ms: u64,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CallStep {
    call: String,
    #[serde(default)]
    args: Value,
    output: Option<String>,
    error: Option<String>,
    node: Option<String>,
    round: Option<String>,
    usage: Option<Value>,
    #[serde(default = "once")]
    times: u64,
    #[serde(default = "allow")]
    want: String,
    #[serde(default = "allow")]
    after: String,
    #[serde(default)]
    has: Value,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SendStep {
    send: Value,
    #[serde(default = "allow")]
    want: String,
    #[serde(default)]
    has: Value,
}

const fn once() -> u64 {
    1
}

fn allow() -> String {
    "allow".to_owned()
}

/// The expected answer to an event.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum ExpectedAnswer {
    /// A decision: the verdict, the reasons of its trips in order, its effects in order, and the state afterwards.
    Decision { verdict: String, reasons: Vec<String>, effects: Vec<String>, state: String },
    /// The earlier answer to the same id, byte for byte.
    SameAsBefore,
    /// An error with this code.
    Error(String),
}

/// One event of a scenario.
#[derive(Debug, Clone)]
pub(crate) struct ScenarioStep {
    /// The event without session and time.
    pub(crate) event: Value,
    /// Whether it belongs to a child session.
    pub(crate) child: bool,
    /// Delay before it, in milliseconds.
    pub(crate) wait_ms: u64,
    pub(crate) expected: ExpectedAnswer,
    /// Fields that the decision must contain in addition.
    pub(crate) expected_fields: Value,
    /// Whether the release is done by removing the label, if the path supports that.
    pub(crate) takes_label_off: bool,
}

impl ScenarioStep {
    pub(crate) fn kind(&self) -> &str {
        self.event["type"].as_str().unwrap_or_default()
    }

    /// The event with its session.
    pub(crate) fn with_session(&self, session: &str) -> Value {
        let child = format!("{session}/child");
        let mut event =
            substitute(&self.event, &[(SESSION_PLACEHOLDER, session), (CHILD_PLACEHOLDER, &child)]);
        event["session"] = json!(if self.child { &child } else { session });
        event
    }

    /// Whether the action is denied.
    pub(crate) fn is_refused(&self) -> bool {
        matches!(&self.expected, ExpectedAnswer::Decision { verdict, .. } if verdict == "block" || verdict == "halt")
    }
}

/// A scenario as a workflow run.
#[derive(Debug, Clone)]
pub(crate) struct ScenarioRun {
    /// The workflow file, without its policy.
    pub(crate) workflow: Value,
    /// The expected exit code of `flyball run`.
    pub(crate) exit: i32,
    /// Commands to run afterwards.
    pub(crate) follow_ups: Vec<RunCommand>,
    /// Events that must be stored in this order, with their decisions; other events may come between them.
    pub(crate) expected_events: Vec<ScenarioStep>,
}

/// A scenario.
#[derive(Debug, Clone)]
pub(crate) struct Scenario {
    pub(crate) name: String,
    /// A one-sentence summary.
    pub(crate) summary: String,
    /// The session's policy; null for the default.
    pub(crate) policy: Value,
    /// The steps; the first is `session.started`.
    pub(crate) steps: Vec<ScenarioStep>,
    /// An equivalent workflow, for the runner.
    pub(crate) run: Option<ScenarioRun>,
    /// Paths that do not support it, with the name of the reason.
    pub(crate) unsupported: BTreeMap<ConformancePath, String>,
}

impl Scenario {
    /// Whether it depends on exact times, which cannot be reproduced in real time.
    pub(crate) fn is_timed(&self) -> bool {
        self.steps.iter().any(|step| step.wait_ms >= 1_000)
    }

    /// The events for a path where the sender sets session and time.
    pub(crate) fn events(&self, session: &str, timed: bool) -> Vec<Value> {
        timed_events(&self.steps, session, timed)
    }

    /// Whether an event has one of these types.
    pub(crate) fn has_any(&self, kinds: &[&str]) -> bool {
        self.steps.iter().any(|step| kinds.contains(&step.kind()))
    }
}

/// The events of steps, with their session and, if the sender sets it, their time.
fn timed_events(steps: &[ScenarioStep], session: &str, timed: bool) -> Vec<Value> {
    let mut at = EPOCH_MS;
    let stamp = |step: &ScenarioStep| {
        at += step.wait_ms;
        let mut event = step.with_session(session);
        if timed {
            event["at"] = json!(at);
        }
        event
    };
    steps.iter().map(stamp).collect()
}

fn substitute(value: &Value, names: &[(&str, &str)]) -> Value {
    match value {
        Value::String(text) => {
            json!(names.iter().fold(text.clone(), |text, (from, to)| text.replace(from, to)))
        }
        Value::Array(all) => all.iter().map(|value| substitute(value, names)).collect(),
        Value::Object(map) => {
            map.iter().map(|(key, value)| (key.clone(), substitute(value, names))).collect()
        }
        other => other.clone(),
    }
}

/// Parses the steps of one scenario, one event each.
struct StepReader {
    steps: Vec<ScenarioStep>,
    calls: u64,
    wait_ms: u64,
    /// The current state of the session and of its child, so that only changes need to be written.
    states: [String; 2],
}

impl Default for StepReader {
    fn default() -> Self {
        let running = || "running".to_owned();
        StepReader { steps: Vec::new(), calls: 0, wait_ms: 0, states: [running(), running()] }
    }
}

impl StepReader {
    fn step(&mut self, step: &RawScenarioStep) -> Result<(), String> {
        match step {
            RawScenarioStep::Wait(step) => self.wait_ms += step.wait_ms,
            RawScenarioStep::Call(step) => {
                (1..=step.times).try_for_each(|number| self.push_call(step, number))?
            }
            RawScenarioStep::Send(step) => self.push_event(step.send.clone(), &step.want, &step.has)?,
            RawScenarioStep::LabelOff(step) => {
                self.push_event(step.label_off.clone(), &step.want, &step.has)?;
                self.steps.iter_mut().last().expect("the step just added").takes_label_off = true;
            }
        }
        Ok(())
    }

    fn push_event(&mut self, event: Value, want: &str, has: &Value) -> Result<(), String> {
        let child = event["session"] == CHILD_PLACEHOLDER;
        if !child && event.get("session").is_some() {
            return Err(format!("'session' of {event} must be {CHILD_PLACEHOLDER} or omitted"));
        }
        let state = &mut self.states[usize::from(child)];
        let expected = parse_expected(want, state)?;
        let wait_ms = std::mem::take(&mut self.wait_ms);
        self.steps.push(ScenarioStep {
            event,
            child,
            wait_ms,
            expected,
            expected_fields: has.clone(),
            takes_label_off: false,
        });
        Ok(())
    }

    fn push_call(&mut self, step: &CallStep, number: u64) -> Result<(), String> {
        self.calls += 1;
        let number = number.to_string();
        let named = |value: Value| substitute(&value, &[("$n", &number)]);
        let call = format!("c{}", self.calls);
        let mut asked = json!({"type": "tool.requested", "call": call, "tool": step.call, "args": named(step.args.clone())});
        let mut ended = json!({"type": "tool.finished", "call": call, "ok": step.error.is_none()});
        for (key, value) in [("output", &step.output), ("error", &step.error)] {
            if let Some(text) = value {
                ended[key] = named(json!(text));
            }
        }
        for (key, value) in [("node", &step.node), ("round", &step.round)] {
            if let Some(text) = value {
                asked[key] = named(json!(text));
                ended[key] = named(json!(text));
            }
        }
        if let Some(usage) = &step.usage {
            asked["usage"] = usage.clone();
        }
        self.push_event(asked, &step.want, &step.has)?;
        if self.steps.last().is_some_and(ScenarioStep::is_refused) {
            return Ok(());
        }
        if step.output.is_none() && step.error.is_none() {
            return Err(format!("the call of '{}' runs but has neither 'output' nor 'error'", step.call));
        }
        self.push_event(ended, &step.after, &Value::Null)
    }
}

/// Parses `VERDICT [REASON…] [+EFFECT…] [state=STATE]`, `again`, or `error CODE`.
fn parse_expected(text: &str, state: &mut String) -> Result<ExpectedAnswer, String> {
    let mut words = text.split_whitespace();
    let verdict = match words.next() {
        Some("again") => return Ok(ExpectedAnswer::SameAsBefore),
        Some("error") => return Ok(ExpectedAnswer::Error(words.collect::<Vec<_>>().join(" "))),
        Some(verdict @ ("allow" | "warn" | "block" | "halt")) => verdict.to_owned(),
        _ => return Err(format!("'{text}' starts with none of allow, warn, block, halt, again, error")),
    };
    let (mut reasons, mut effects) = (Vec::new(), Vec::new());
    for word in words {
        if let Some(effect) = word.strip_prefix('+') {
            effects.push(effect.to_owned());
        } else if let Some(new) = word.strip_prefix("state=") {
            new.clone_into(state);
        } else {
            reasons.push(word.to_owned());
        }
    }
    Ok(ExpectedAnswer::Decision { verdict, reasons, effects, state: state.clone() })
}

impl TryFrom<RawScenario> for Scenario {
    type Error = String;

    fn try_from(written: RawScenario) -> Result<Self, String> {
        let RawScenario { name, says, policy, start, steps, run, not } = written;
        let mut reader = StepReader::default();
        let mut first = json!({"type": "session.started"});
        first.as_object_mut().expect("an object").extend(start);
        reader.push_event(first, "allow", &Value::Null)?;
        steps.iter().try_for_each(|step| reader.step(step))?;
        let run = run.map(|run| parse_run(run, &reader.steps)).transpose()?;
        Ok(Scenario { name, summary: says, policy, steps: reader.steps, run, unsupported: not })
    }
}

/// Parses a run, which produces the scenario's events or its own events for the same reasons.
fn parse_run(run: RawScenarioRun, steps: &[ScenarioStep]) -> Result<ScenarioRun, String> {
    let RawScenarioRun { workflow, exit, then, find } = run;
    let Some(own) = find else {
        return Ok(ScenarioRun {
            workflow,
            exit,
            follow_ups: then,
            expected_events: steps.iter().skip(1).cloned().collect(),
        });
    };
    let mut reader = StepReader::default();
    for step in own {
        reader.push_event(step.send, &step.want, &step.has)?;
    }
    let (wanted, found) = (refusal_reasons(steps), refusal_reasons(&reader.steps));
    if wanted.is_subset(&found) {
        Ok(ScenarioRun { workflow, exit, follow_ups: then, expected_events: reader.steps })
    } else {
        Err(format!("the run is stopped for {found:?}, the scenario for {wanted:?}"))
    }
}

/// The reasons for which steps are denied.
fn refusal_reasons(steps: &[ScenarioStep]) -> BTreeSet<&str> {
    let reasons = steps.iter().filter(|step| step.is_refused()).filter_map(|step| match &step.expected {
        ExpectedAnswer::Decision { reasons, .. } => Some(reasons),
        _ => None,
    });
    reasons.flatten().map(String::as_str).collect()
}

#[allow(dead_code, reason = "used by the settings suite")]
/// The events of steps after the first one, in a session and with their times.
pub(crate) fn events_of(first: Value, steps: &[RawScenarioStep], session: &str) -> Vec<Value> {
    let mut reader = StepReader::default();
    let read = reader.push_event(first, "allow", &Value::Null);
    let read = read.and_then(|()| steps.iter().try_for_each(|step| reader.step(step)));
    read.unwrap_or_else(|error| panic!("{session}: {error}"));
    timed_events(&reader.steps, session, true)
}

/// All scenarios, in file order.
pub(crate) fn load_scenarios() -> Vec<Scenario> {
    let files =
        fixture_files("conformance", ".json").into_iter().filter(|path| !path.ends_with("reasons.json"));
    let mut all: Vec<Scenario> = Vec::new();
    for path in files {
        let text = std::fs::read_to_string(&path).unwrap();
        let written: Vec<RawScenario> =
            serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        for scenario in written {
            let name = scenario.name.clone();
            let read = Scenario::try_from(scenario).unwrap_or_else(|error| panic!("{name}: {error}"));
            assert!(all.iter().all(|other| other.name != name), "duplicate scenario name {name}");
            all.push(read);
        }
    }
    all
}

/// The reasons why paths do not support scenarios: name and description.
pub(crate) fn load_reasons() -> BTreeMap<String, String> {
    let path = repo_root().join("fixtures/conformance/reasons.json");
    let text = std::fs::read_to_string(&path).unwrap();
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The scenarios that a path supports; with `FLYBALL_SCENARIO`, only those whose names contain it.
pub(crate) fn supported_scenarios(path: ConformancePath) -> Vec<Scenario> {
    let wanted = std::env::var("FLYBALL_SCENARIO").unwrap_or_default();
    let carried =
        |scenario: &Scenario| !scenario.unsupported.contains_key(&path) && scenario.name.contains(&wanted);
    load_scenarios().into_iter().filter(carried).collect()
}

//! The table: scenarios as they are written in `fixtures/conformance`, and the paths that carry them.

use crate::kit::{fixtures, root};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// The time of the first event, where a path lets the sender say it.
const EPOCH_MS: u64 = 1_700_000_000_000;
/// Stands for the session of the scenario.
const SESSION: &str = "$session";
/// Stands for a session below it.
const CHILD: &str = "$child";

/// A way to reach Flyball.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Path {
    /// `flyball observe`, without a store.
    Observe,
    /// `flyball observe --store sqlite:…`, one process.
    Sqlite,
    /// `flyball observe --store sqlite:…`, a process for every event.
    Restart,
    /// `flyball observe --store postgres://…`, a process for every event.
    Postgres,
    /// `flyball replay --json FILE`.
    Replay,
    /// `flyball serve`, `POST /v1/events` and the routes for people.
    Http,
    /// `flyball hook claude-code`, with `flyball tell` for what hosts do not send.
    Hook,
    /// `flyball mcp -- SERVER`, with `flyball tell` for what is no tool call.
    Mcp,
    /// `flyball proxy`, with `flyball tell` for what is no part of a conversation with a model.
    Proxy,
    /// `flyball run WORKFLOW`.
    Run,
}

impl Path {
    pub(crate) const ALL: [Path; 10] = [
        Path::Observe,
        Path::Sqlite,
        Path::Restart,
        Path::Postgres,
        Path::Replay,
        Path::Http,
        Path::Hook,
        Path::Mcp,
        Path::Proxy,
        Path::Run,
    ];

    /// The name in the table.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Path::Observe => "observe",
            Path::Sqlite => "sqlite",
            Path::Restart => "restart",
            Path::Postgres => "postgres",
            Path::Replay => "replay",
            Path::Http => "http",
            Path::Hook => "hook",
            Path::Mcp => "mcp",
            Path::Proxy => "proxy",
            Path::Run => "run",
        }
    }

    /// What it is, for the page.
    pub(crate) const fn about(self) -> &'static str {
        match self {
            Path::Observe => "`flyball observe`: events on stdin, no store",
            Path::Sqlite => "`flyball observe --store sqlite:…`: one process, then the stored rows",
            Path::Restart => {
                "the same with a new process between any two events of a session, then the stored rows"
            }
            Path::Postgres => "as `restart`, on PostgreSQL (where the tests are given a server)",
            Path::Replay => "`flyball replay --json FILE`",
            Path::Http => {
                "`flyball serve`: `POST /v1/events` and the routes for people; restarted in the middle of every scenario"
            }
            Path::Hook => {
                "`flyball hook claude-code`, a process for every payload; `flyball tell` for events that the host does not send; \
                 `flyball approve`, `release`, … for people"
            }
            Path::Mcp => {
                "`flyball mcp -- SERVER` for tool calls, restarted in the middle of every scenario; `flyball tell` and the \
                 commands for people beside it"
            }
            Path::Proxy => {
                "`flyball proxy` for prompts, answers and tool calls, restarted in the middle of every scenario; `flyball tell` \
                 and the commands for people beside it"
            }
            Path::Run => "`flyball run WORKFLOW`, `resume`, and the commands for people",
        }
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A scenario as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    name: String,
    says: String,
    #[serde(default)]
    policy: Value,
    #[serde(default)]
    start: Map<String, Value>,
    steps: Vec<WrittenStep>,
    #[serde(default)]
    run: Option<WrittenRun>,
    #[serde(default)]
    not: BTreeMap<Path, String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenRun {
    workflow: Value,
    exit: i32,
    #[serde(default)]
    then: Vec<RunCommand>,
    find: Option<Vec<SendStep>>,
}

/// A command after a run, and how it must end.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RunCommand {
    pub(crate) args: Vec<String>,
    pub(crate) exit: i32,
}

/// A step as it is written.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub(crate) enum WrittenStep {
    Wait(WaitStep),
    Call(CallStep),
    Send(SendStep),
    LabelOff(LabelStep),
}

/// Somebody takes the label off that calls a person; where only events are sent, that is a release.
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

/// What an event must be answered with.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Want {
    /// A decision: the verdict, the reasons of its trips in order, its effects in order, and the state afterwards.
    Decision { verdict: String, reasons: Vec<String>, effects: Vec<String>, state: String },
    /// The answer that the same id got before, byte for byte.
    Again,
    /// An error with this code.
    Error(String),
}

/// One event of a scenario.
#[derive(Debug, Clone)]
pub(crate) struct Step {
    /// The event without its session and time.
    pub(crate) event: Value,
    /// It belongs to a session below that of the scenario.
    pub(crate) child: bool,
    /// Milliseconds to wait before it.
    pub(crate) wait_ms: u64,
    pub(crate) want: Want,
    /// What the decision must contain besides.
    pub(crate) has: Value,
    /// The release is done by taking the label off, where the path has a way for that.
    pub(crate) takes_label_off: bool,
}

impl Step {
    pub(crate) fn kind(&self) -> &str {
        self.event["type"].as_str().unwrap_or_default()
    }

    /// The event with its session.
    pub(crate) fn addressed(&self, session: &str) -> Value {
        let child = format!("{session}/child");
        let mut event = substitute(&self.event, &[(SESSION, session), (CHILD, &child)]);
        event["session"] = json!(if self.child { &child } else { session });
        event
    }

    /// Whether the act is refused.
    pub(crate) fn is_refused(&self) -> bool {
        matches!(&self.want, Want::Decision { verdict, .. } if verdict == "block" || verdict == "halt")
    }
}

/// A scenario as a run of a workflow.
#[derive(Debug, Clone)]
pub(crate) struct Run {
    /// The workflow file, without its policy.
    pub(crate) workflow: Value,
    /// How `flyball run` must end.
    pub(crate) exit: i32,
    /// What is done afterwards.
    pub(crate) then: Vec<RunCommand>,
    /// Events that must be stored in this order, with their decisions; between them there may be others.
    pub(crate) find: Vec<Step>,
}

/// A scenario.
#[derive(Debug, Clone)]
pub(crate) struct Scenario {
    pub(crate) name: String,
    /// What it shows, in one sentence.
    pub(crate) says: String,
    /// The policy of its session; null for the default one.
    pub(crate) policy: Value,
    /// The first is `session.started`.
    pub(crate) steps: Vec<Step>,
    /// A workflow that does the same, for the runner.
    pub(crate) run: Option<Run>,
    /// Paths that do not carry it, with the name of the reason.
    pub(crate) not: BTreeMap<Path, String>,
}

impl Scenario {
    /// Whether it waits for exact lengths of time: a limit of seconds is neither waited for nor met by chance.
    pub(crate) fn is_timed(&self) -> bool {
        self.steps.iter().any(|step| step.wait_ms >= 1_000)
    }

    /// The events as they are sent where the sender says session and time.
    pub(crate) fn events(&self, session: &str, timed: bool) -> Vec<Value> {
        timed_events(&self.steps, session, timed)
    }

    /// Whether any event is of one of these types.
    pub(crate) fn has_any(&self, kinds: &[&str]) -> bool {
        self.steps.iter().any(|step| kinds.contains(&step.kind()))
    }
}

/// The events of steps, with their session and, if it is the sender's to say, their time.
fn timed_events(steps: &[Step], session: &str, timed: bool) -> Vec<Value> {
    let mut at = EPOCH_MS;
    let stamp = |step: &Step| {
        at += step.wait_ms;
        let mut event = step.addressed(session);
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

/// Reads the steps of one scenario, one event each.
struct Reader {
    steps: Vec<Step>,
    calls: u64,
    wait_ms: u64,
    /// The state that the session and the one below it are in, so that only changes need to be written.
    states: [String; 2],
}

impl Default for Reader {
    fn default() -> Self {
        let running = || "running".to_owned();
        Reader { steps: Vec::new(), calls: 0, wait_ms: 0, states: [running(), running()] }
    }
}

impl Reader {
    fn step(&mut self, step: &WrittenStep) -> Result<(), String> {
        match step {
            WrittenStep::Wait(step) => self.wait_ms += step.wait_ms,
            WrittenStep::Call(step) => (1..=step.times).try_for_each(|number| self.call(step, number))?,
            WrittenStep::Send(step) => self.put(step.send.clone(), &step.want, &step.has)?,
            WrittenStep::LabelOff(step) => {
                self.put(step.label_off.clone(), &step.want, &step.has)?;
                self.steps.iter_mut().last().expect("just put").takes_label_off = true;
            }
        }
        Ok(())
    }

    fn put(&mut self, event: Value, want: &str, has: &Value) -> Result<(), String> {
        let child = event["session"] == CHILD;
        if !child && event.get("session").is_some() {
            return Err(format!("'session' of {event} is {CHILD} or left out"));
        }
        let state = &mut self.states[usize::from(child)];
        let want = read_want(want, state)?;
        let wait_ms = std::mem::take(&mut self.wait_ms);
        self.steps.push(Step { event, child, wait_ms, want, has: has.clone(), takes_label_off: false });
        Ok(())
    }

    fn call(&mut self, step: &CallStep, number: u64) -> Result<(), String> {
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
        self.put(asked, &step.want, &step.has)?;
        if self.steps.last().is_some_and(Step::is_refused) {
            return Ok(());
        }
        if step.output.is_none() && step.error.is_none() {
            return Err(format!("the call of '{}' runs and has neither 'output' nor 'error'", step.call));
        }
        self.put(ended, &step.after, &Value::Null)
    }
}

/// `VERDICT [REASON…] [+EFFECT…] [state=STATE]`, `again`, or `error CODE`.
fn read_want(text: &str, state: &mut String) -> Result<Want, String> {
    let mut words = text.split_whitespace();
    let verdict = match words.next() {
        Some("again") => return Ok(Want::Again),
        Some("error") => return Ok(Want::Error(words.collect::<Vec<_>>().join(" "))),
        Some(verdict @ ("allow" | "warn" | "block" | "halt")) => verdict.to_owned(),
        _ => return Err(format!("'{text}' begins with none of allow, warn, block, halt, again, error")),
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
    Ok(Want::Decision { verdict, reasons, effects, state: state.clone() })
}

impl TryFrom<Written> for Scenario {
    type Error = String;

    fn try_from(written: Written) -> Result<Self, String> {
        let Written { name, says, policy, start, steps, run, not } = written;
        let mut reader = Reader::default();
        let mut first = json!({"type": "session.started"});
        first.as_object_mut().expect("an object").extend(start);
        reader.put(first, "allow", &Value::Null)?;
        steps.iter().try_for_each(|step| reader.step(step))?;
        let run = run.map(|run| read_run(run, &reader.steps)).transpose()?;
        Ok(Scenario { name, says, policy, steps: reader.steps, run, not })
    }
}

/// A run finds the events of the scenario, or its own events for the same reasons.
fn read_run(run: WrittenRun, steps: &[Step]) -> Result<Run, String> {
    let WrittenRun { workflow, exit, then, find } = run;
    let Some(own) = find else {
        return Ok(Run { workflow, exit, then, find: steps.iter().skip(1).cloned().collect() });
    };
    let mut reader = Reader::default();
    for step in own {
        reader.put(step.send, &step.want, &step.has)?;
    }
    let (wanted, found) = (stops(steps), stops(&reader.steps));
    if wanted.is_subset(&found) {
        Ok(Run { workflow, exit, then, find: reader.steps })
    } else {
        Err(format!("the run stops for {found:?}, the scenario for {wanted:?}"))
    }
}

/// The reasons for which something is refused.
fn stops(steps: &[Step]) -> BTreeSet<&str> {
    let reasons = steps.iter().filter(|step| step.is_refused()).filter_map(|step| match &step.want {
        Want::Decision { reasons, .. } => Some(reasons),
        _ => None,
    });
    reasons.flatten().map(String::as_str).collect()
}

#[allow(dead_code, reason = "the suite of the settings uses it")]
/// The events of some steps after the first one, in a session and with their times.
pub(crate) fn events_of(first: Value, steps: &[WrittenStep], session: &str) -> Vec<Value> {
    let mut reader = Reader::default();
    let read = reader.put(first, "allow", &Value::Null);
    let read = read.and_then(|()| steps.iter().try_for_each(|step| reader.step(step)));
    read.unwrap_or_else(|error| panic!("{session}: {error}"));
    timed_events(&reader.steps, session, true)
}

/// All scenarios, in the order of the files.
pub(crate) fn scenarios() -> Vec<Scenario> {
    let files = fixtures("conformance", ".json").into_iter().filter(|path| !path.ends_with("reasons.json"));
    let mut all: Vec<Scenario> = Vec::new();
    for path in files {
        let text = std::fs::read_to_string(&path).unwrap();
        let written: Vec<Written> =
            serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        for scenario in written {
            let name = scenario.name.clone();
            let read = Scenario::try_from(scenario).unwrap_or_else(|error| panic!("{name}: {error}"));
            assert!(all.iter().all(|other| other.name != name), "two scenarios are called {name}");
            all.push(read);
        }
    }
    all
}

/// Why a path does not carry a scenario: the name of the reason, and its sentence.
pub(crate) fn reasons() -> BTreeMap<String, String> {
    let path = root().join("fixtures/conformance/reasons.json");
    let text = std::fs::read_to_string(&path).unwrap();
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The scenarios that a path carries; with `FLYBALL_SCENARIO`, only those whose names contain it.
pub(crate) fn carried_by(path: Path) -> Vec<Scenario> {
    let wanted = std::env::var("FLYBALL_SCENARIO").unwrap_or_default();
    let carried = |scenario: &Scenario| !scenario.not.contains_key(&path) && scenario.name.contains(&wanted);
    scenarios().into_iter().filter(carried).collect()
}

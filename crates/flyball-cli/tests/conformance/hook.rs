//! The hook of Claude Code: every payload a process of its own, as the host starts it. What the host does not send is told
//! with `flyball tell`, and people use their commands.

use crate::compare::run;
use crate::kit::flyball;
use crate::operator::{
    Beside, PEOPLE, answers_in_words, answers_nothing, answers_null, environment, pause, project,
};
use crate::table::{Path, Scenario, Step, Want, carried_by};
use crate::voice::{Ended, Said, Voice};
use flyball_adapt::hook::{Host, Understood, understood};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// What the hook stores beside the event of a step: that a call of a session which waits for a release was refused.
const ADDS: [&str; 1] = ["tool.denied"];

/// Why the hook does not carry a scenario.
pub(crate) fn refuses(scenario: &Scenario) -> Option<&'static str> {
    let says_round = |step: &Step| step.event.get("round").is_some();
    if scenario.has_any(&["policy.changed"]) {
        Some("recorded_by_flyball")
    } else if scenario.is_timed() {
        Some("own_clock")
    } else if scenario.steps[0].event.get("workflow").is_some() {
        Some("no_graph")
    } else if answers_in_words(scenario) {
        Some("answers_in_words")
    } else if scenario.steps.iter().any(says_round) {
        Some("no_rounds")
    } else if scenario
        .steps
        .iter()
        .any(|step| step.kind() == "tool.requested" && step.event.get("usage").is_some())
    {
        Some("no_usage")
    } else if answers_null(scenario) {
        Some("no_classifier")
    } else if answers_nothing(scenario) {
        Some("nothing_to_answer")
    } else if scenario.steps.iter().any(|step| step.want == Want::Error("event_conflict".to_owned())) {
        Some("own_ids")
    } else {
        None
    }
}

/// A host at work in one session.
struct HookHost {
    voice: Voice,
    folder: PathBuf,
    beside: Option<Beside>,
    calls: BTreeMap<String, (String, Value)>,
    stamp: u64,
}

impl HookHost {
    /// What the host writes for an event; nothing if it does not know of it.
    fn payload(&mut self, step: &Step) -> Option<Said> {
        self.stamp += 1;
        let (voice, stamp, event) = (&self.voice, self.stamp, &step.event);
        let text = |key: &str| event[key].as_str().unwrap_or_default();
        let call = text("call").to_owned();
        let said = match step.kind() {
            "session.started" if stamp == 1 => voice.start("startup"),
            "session.started" if step.child => (
                "SubagentStart",
                json!({"session_id": voice.session, "cwd": voice.folder, "hook_event_name": "SubagentStart",
                    "agent_id": "child", "agent_type": "general-purpose"}),
            ),
            "session.started" => voice.start("resume"),
            "session.ended" => {
                let (_, mut payload) = voice.start("x");
                payload["hook_event_name"] = json!("SessionEnd");
                payload["reason"] = event["outcome"].clone();
                ("SessionEnd", payload)
            }
            "compaction" => {
                let (_, mut payload) = voice.start("x");
                payload["hook_event_name"] = json!("PreCompact");
                ("PreCompact", payload)
            }
            "user.message" => {
                let source = match event["origin"].as_str() {
                    Some("schedule") => "schedule_wakeup",
                    Some("agent") => "sdk",
                    _ => "user",
                };
                voice.prompt(stamp, text("text"), source)
            }
            "assistant.message" if event["final"] == true => voice.spoke(stamp, text("text"))?,
            "tool.requested" => {
                let (tool, args) = (text("tool").to_owned(), event["args"].clone());
                let said = voice.before(stamp, &call, &tool, &args);
                self.calls.insert(call, (tool, args));
                said
            }
            "tool.finished" => {
                let (tool, args) = &self.calls[&call];
                let ended = if event["ok"] == false {
                    Ended::Badly(&event["error"])
                } else {
                    Ended::Well(&event["output"])
                };
                voice.after(stamp, &call, tool, args, &ended)
            }
            "tool.denied" if event["by"] == "policy" => {
                let (tool, args) = &self.calls[&call];
                let (_, mut payload) = voice.before(stamp, &call, tool, args);
                payload["hook_event_name"] = json!("PermissionDenied");
                ("PermissionDenied", payload)
            }
            "question.asked" => {
                let (tool, args) = voice.question(text("text"))?;
                voice.before(stamp, &format!("q{stamp}"), tool, &args)
            }
            _ => return None,
        };
        Some(said)
    }

    /// Starts the hook as the host does; gives what the host makes of the answer.
    fn hear(&self, (event, payload): &Said) -> Understood {
        let env = environment(&self.folder);
        let env: Vec<(&str, &str)> =
            env.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let args = ["hook", "--deadline", "60s", "claude-code"];
        let run = flyball(&self.folder, &args, payload.to_string().as_bytes(), &env);
        understood(Host::ClaudeCode, event, &run.out, &run.err, run.code)
    }

    fn step(&mut self, step: &Step) -> Vec<String> {
        pause(step.wait_ms);
        let said = if PEOPLE.contains(&step.kind()) { None } else { self.payload(step) };
        let heard = said.as_ref().map(|said| self.hear(said));
        let session = format!("claude-code:{}", self.voice.session);
        let beside = self.beside.get_or_insert_with(|| Beside::new(&self.folder, &session));
        let error = if heard.is_some() { None } else { beside.say(step) };
        let mut found = beside.faults(step, error.as_ref(), &ADDS);
        if let Some(heard) = heard {
            found.extend(answer_fault(step, &heard, &session));
        }
        found
    }
}

/// A call runs only if it is allowed and its session does not wait for a release; if it does, the person is told the command
/// that releases it.
fn answer_fault(step: &Step, heard: &Understood, session: &str) -> Option<String> {
    let Want::Decision { state, .. } = &step.want else { return None };
    let waits = state == "blocked" || state == "halted";
    let asks = state == "awaiting_confirmation";
    let (stopped, words) = match heard {
        Understood::Refuses(words) | Understood::Stops(words) => (true, words.as_str()),
        // Its user is asked for the approval that the call lacks.
        Understood::Asks(words) => (asks, words.as_str()),
        _ => (false, ""),
    };
    if step.kind() != "tool.requested" {
        return None;
    }
    let release = format!("flyball release {session} ");
    let right = stopped == (step.is_refused() || waits) && (!waits || words.contains(&release));
    (!right)
        .then(|| format!("{}: the host hears {heard:?} in state {state}", crate::compare::brief(&step.event)))
}

fn play(scenario: &Scenario) -> Vec<String> {
    let folder = project("hook", scenario);
    let (session, place) = (scenario.name.clone(), folder.to_str().unwrap().to_owned());
    let voice = Voice { host: Host::ClaudeCode, session, folder: place };
    let mut host = HookHost { voice, folder, beside: None, calls: BTreeMap::new(), stamp: 0 };
    let mut found: Vec<String> = scenario.steps.iter().flat_map(|step| host.step(step)).collect();
    found.extend(host.beside.iter().flat_map(|beside| beside.row_faults(scenario)));
    found
}

#[test]
fn hook() {
    run(Path::Hook, &carried_by(Path::Hook), play);
}

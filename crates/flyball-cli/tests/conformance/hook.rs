//! The Claude Code hook: every payload runs in a separate process, as the host starts it. Events that the host does not
//! send are reported with `flyball tell`, and people use the operator commands.

use crate::command_harness::run_flyball;
use crate::compare::run_scenarios;
use crate::host_payloads::{HostInput, HostPayloads, ToolCallEnd};
use crate::operator::{
    OperatorSession, PERSON_EVENTS, answers_in_words, answers_null, answers_without_a_plan, environment,
    pause, project_dir,
};
use crate::scenario_table::{ConformancePath, ExpectedAnswer, Scenario, ScenarioStep, supported_scenarios};
use flyball_integrations::hook::{Host, HostReaction, host_reaction};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Events that the hook stores in addition to a step's event: the denial of a call in a session that awaits a release.
const EXTRA_EVENTS: [&str; 1] = ["tool.denied"];

/// The reason why the hook does not support a scenario.
pub(crate) fn unsupported_reason(scenario: &Scenario) -> Option<&'static str> {
    let says_round = |step: &ScenarioStep| step.event.get("round").is_some();
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
    } else if answers_without_a_plan(scenario) {
        Some("nothing_to_answer")
    } else if scenario
        .steps
        .iter()
        .any(|step| step.expected == ExpectedAnswer::Error("event_conflict".to_owned()))
    {
        Some("own_ids")
    } else {
        None
    }
}

/// A simulated host in one session.
struct ScenarioHost {
    payloads: HostPayloads,
    folder: PathBuf,
    operator: Option<OperatorSession>,
    calls: BTreeMap<String, (String, Value)>,
    stamp: u64,
}

impl ScenarioHost {
    /// The host's payload for a step; `None` if the host has no event for it.
    fn payload(&mut self, step: &ScenarioStep) -> Option<HostInput> {
        self.stamp += 1;
        let (payloads, stamp, event) = (&self.payloads, self.stamp, &step.event);
        let text = |key: &str| event[key].as_str().unwrap_or_default();
        let call = text("call").to_owned();
        let said = match step.kind() {
            "session.started" if stamp == 1 => payloads.session_started("startup"),
            "session.started" if step.child => (
                "SubagentStart",
                json!({"session_id": payloads.session, "cwd": payloads.folder, "hook_event_name": "SubagentStart",
                    "agent_id": "child", "agent_type": "general-purpose"}),
            ),
            "session.started" => payloads.session_started("resume"),
            "session.ended" => {
                let (_, mut payload) = payloads.session_started("x");
                payload["hook_event_name"] = json!("SessionEnd");
                payload["reason"] = event["outcome"].clone();
                ("SessionEnd", payload)
            }
            "compaction" => {
                let (_, mut payload) = payloads.session_started("x");
                payload["hook_event_name"] = json!("PreCompact");
                ("PreCompact", payload)
            }
            "user.message" => {
                let source = match event["origin"].as_str() {
                    Some("schedule") => "schedule_wakeup",
                    Some("agent") => "sdk",
                    _ => "user",
                };
                payloads.prompt(stamp, text("text"), source)
            }
            "assistant.message" if event["final"] == true => payloads.turn_ended(stamp, text("text"))?,
            "tool.requested" => {
                let (tool, args) = (text("tool").to_owned(), event["args"].clone());
                let said = payloads.before_tool(stamp, &call, &tool, &args);
                self.calls.insert(call, (tool, args));
                said
            }
            "tool.finished" => {
                let (tool, args) = &self.calls[&call];
                let ended = if event["ok"] == false {
                    ToolCallEnd::Failed(&event["error"])
                } else {
                    ToolCallEnd::Succeeded(&event["output"])
                };
                payloads.after_tool(stamp, &call, tool, args, &ended)
            }
            "tool.denied" if event["by"] == "policy" => {
                let (tool, args) = &self.calls[&call];
                let (_, mut payload) = payloads.before_tool(stamp, &call, tool, args);
                payload["hook_event_name"] = json!("PermissionDenied");
                ("PermissionDenied", payload)
            }
            "question.asked" => {
                let (tool, args) = payloads.question(text("text"))?;
                payloads.before_tool(stamp, &format!("q{stamp}"), tool, &args)
            }
            _ => return None,
        };
        Some(said)
    }

    /// Starts the hook as the host does, and returns the host's reaction to its output.
    fn call_hook(&self, (event, payload): &HostInput) -> HostReaction {
        let env = environment(&self.folder);
        let env: Vec<(&str, &str)> =
            env.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let args = ["hook", "--deadline", "60s", "claude-code"];
        let run = run_flyball(&self.folder, &args, payload.to_string().as_bytes(), &env);
        host_reaction(Host::ClaudeCode, event, &run.out, &run.err, run.code)
    }

    fn step(&mut self, step: &ScenarioStep) -> Vec<String> {
        pause(step.wait_ms);
        let said = if PERSON_EVENTS.contains(&step.kind()) { None } else { self.payload(step) };
        let reaction = said.as_ref().map(|said| self.call_hook(said));
        let session = format!("claude-code:{}", self.payloads.session);
        let operator = self.operator.get_or_insert_with(|| OperatorSession::new(&self.folder, &session));
        let error = if reaction.is_some() { None } else { operator.submit(step) };
        let mut found = operator.event_errors(step, error.as_ref(), &EXTRA_EVENTS);
        if let Some(reaction) = reaction {
            found.extend(answer_error(step, &reaction, &session));
        }
        found
    }
}

/// A call runs only if it is allowed and its session does not await a release. If it does, the user must be shown the
/// release command.
fn answer_error(step: &ScenarioStep, reaction: &HostReaction, session: &str) -> Option<String> {
    let ExpectedAnswer::Decision { state, .. } = &step.expected else { return None };
    let waits = state == "blocked" || state == "halted";
    let asks = state == "awaiting_confirmation";
    let (stopped, words) = match reaction {
        HostReaction::Blocks(words) | HostReaction::Stops(words) => (true, words.as_str()),
        // The user is asked for the missing approval.
        HostReaction::AsksUser(words) => (asks, words.as_str()),
        _ => (false, ""),
    };
    if step.kind() != "tool.requested" {
        return None;
    }
    let release = format!("flyball release {session} ");
    let right = stopped == (step.is_refused() || waits) && (!waits || words.contains(&release));
    (!right).then(|| {
        format!(
            "{}: the host's reaction is {reaction:?} in state {state}",
            crate::compare::event_text(&step.event)
        )
    })
}

fn run_scenario(scenario: &Scenario) -> Vec<String> {
    let folder = project_dir("hook", scenario);
    let (session, place) = (scenario.name.clone(), folder.to_str().unwrap().to_owned());
    let payloads = HostPayloads { host: Host::ClaudeCode, session, folder: place };
    let mut host = ScenarioHost { payloads, folder, operator: None, calls: BTreeMap::new(), stamp: 0 };
    let mut found: Vec<String> = scenario.steps.iter().flat_map(|step| host.step(step)).collect();
    found.extend(host.operator.iter().flat_map(|operator| operator.row_errors(scenario)));
    found
}

#[test]
fn hook() {
    run_scenarios(ConformancePath::Hook, &supported_scenarios(ConformancePath::Hook), run_scenario);
}

//! The runner: a workflow whose run produces the events of a scenario. If a scenario consists only of tool calls, the
//! workflow is generated from them; otherwise the table contains one.

use crate::command_harness::run_flyball;
use crate::compare::{answer_error, event_text, run_scenarios};
use crate::operator::{environment, is_event_of_step, project_dir, store_address};
use crate::scenario_table::{
    ConformancePath, ExpectedAnswer, Scenario, ScenarioRun, ScenarioStep, supported_scenarios,
};
use crate::store_rows::StoreRows;
use serde_json::{Map, Value, json};
use std::path::Path as File;

/// The session name of a run.
const SESSION: &str = "s1";

/// The reason why the runner does not support a scenario.
pub(crate) fn unsupported_reason(scenario: &Scenario) -> Option<&'static str> {
    let made = |step: &ScenarioStep| step.kind() == "tool.requested" || step.kind() == "tool.finished";
    let later = || scenario.steps.iter().skip(1);
    // Calls of one answer run sequentially.
    let pairs = scenario.steps.windows(2).all(|pair| {
        pair[0].kind() != "tool.requested" || pair[0].is_refused() || pair[1].kind() == "tool.finished"
    });
    let carried =
        scenario.run.is_some() || (later().all(made) && pairs && !later().any(|step| step.wait_ms > 0));
    (!carried).then_some("no_such_workflow")
}

/// A workflow with one agent that makes the calls of a scenario. Its tools read their results from files, in order.
fn workflow_for_calls(scenario: &Scenario, place: &File) -> ScenarioRun {
    let mut replies: Vec<Value> = Vec::new();
    let mut tools = Map::new();
    let mut results = 0;
    std::fs::create_dir_all(place.join("results")).unwrap();
    let mut find = Vec::new();
    let mut halted = false;
    for step in scenario.steps.iter().skip(1) {
        let event = &step.event;
        if !halted {
            // A halted run makes no more requests.
            find.push(step.clone());
        }
        halted |= matches!(&step.expected, ExpectedAnswer::Decision { state, .. } if state == "halted");
        if step.kind() == "tool.finished" {
            let text = event["output"].as_str().or(event["error"].as_str()).unwrap();
            std::fs::write(place.join(format!("results/{results}")), text).unwrap();
            if event["ok"] == false {
                std::fs::write(place.join(format!("results/{results}.failed")), "").unwrap();
            }
            results += 1;
            continue;
        }
        let tool = event["tool"].as_str().unwrap();
        let mut reply = json!({"calls": [{"tool": tool, "args": event["args"]}]});
        if let Some(usage) = event.get("usage") {
            reply["usage"] = json!({"tokens_in": usage["tokens_in"], "tokens_out": usage["tokens_out"]});
        }
        replies.push(reply);
        let script = "n=$(cat next 2>/dev/null || echo 0); echo $((n + 1)) > next; \
                      if test -e results/$n.failed; then cat results/$n >&2; exit 1; fi; cat results/$n";
        let declared = json!({"description": "a tool", "schema": {"type": "object"}, "argv": ["sh", "-c", script], "risk": "safe"});
        tools.insert(tool.to_owned(), declared);
    }
    replies.push(json!("That is all."));
    let names: Vec<&String> = tools.keys().collect();
    let price = json!({"input_per_million_usd": 1, "output_per_million_usd": 1});
    let agent = json!({"name": "work", "kind": "agent", "provider": "main", "tools": names, "prompt": "work", "next": "done"});
    let workflow = json!({
        "providers": {"main": {"kind": "script", "replies": replies, "price": price}},
        "tools": tools,
        "nodes": [agent],
    });
    ScenarioRun { workflow, exit: if halted { 3 } else { 0 }, follow_ups: Vec::new(), expected_events: find }
}

/// The workflow file of a scenario, with the scenario's policy over the agent preset, as on every other path.
fn workflow_file(scenario: &Scenario, run: &ScenarioRun) -> Value {
    let mut policy = match &scenario.policy {
        Value::Null => json!({}),
        Value::String(preset) => json!({"preset": preset}),
        policy => policy.clone(),
    };
    if policy.get("preset").is_none() {
        policy["preset"] = json!("agent");
    }
    let mut file = run.workflow.clone();
    file["version"] = json!(1);
    file["name"] = json!("scenario");
    file["policy"] = policy;
    file
}

/// The errors in the events of a run: the expected ones must occur in order, and nothing else may be denied.
fn run_errors(run: &ScenarioRun, records: &[(Value, Value)]) -> Vec<String> {
    let mut found = Vec::new();
    let mut rest = records.iter();
    let stops = |decision: &Value| decision["decision"] == "block" || decision["decision"] == "halt";
    let refused = |(event, decision): &(Value, Value)| {
        stops(decision).then(|| {
            format!(
                "additionally, {} is answered {}",
                event_text(event),
                crate::compare::answer_text(decision)
            )
        })
    };
    for step in &run.expected_events {
        let mut passed = Vec::new();
        let record = rest.by_ref().find(|record| {
            // `*` matches the first denied event, for example when the time is up.
            let own = if step.kind() == "*" { stops(&record.1) } else { is_event_of_step(step, &record.0) };
            if !own {
                passed.extend(refused(record));
            }
            own
        });
        found.append(&mut passed);
        match record {
            Some((_, decision)) => found.extend(answer_error(step, decision, None)),
            None => {
                let kinds: Vec<&str> =
                    records.iter().map(|(event, _)| event["type"].as_str().unwrap()).collect();
                found.push(format!("{} is not among {kinds:?}", event_text(&step.event)));
                return found;
            }
        }
    }
    found.extend(rest.filter_map(refused));
    found
}

fn run_scenario(scenario: &Scenario) -> Vec<String> {
    let plain = Scenario { policy: Value::Null, ..scenario.clone() };
    let place = project_dir("run", &plain);
    let run = scenario.run.clone().unwrap_or_else(|| workflow_for_calls(scenario, &place));
    std::fs::write(place.join("workflow.json"), workflow_file(scenario, &run).to_string()).unwrap();
    let env = environment(&place);
    let env: Vec<(&str, &str)> = env.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let mut found = Vec::new();
    let mut command = |args: &[&str], exit: i32| {
        let run = run_flyball(&place, args, b"", &env);
        if run.code != exit {
            found.push(format!(
                "flyball {}: exit {}, expected {exit}: {}{}",
                args.join(" "),
                run.code,
                run.out,
                run.err
            ));
        }
    };
    command(&["run", "workflow.json", "--session", SESSION], run.exit);
    for then in &run.follow_ups {
        let args: Vec<String> = then.args.iter().map(|word| word.replace("$session", SESSION)).collect();
        command(&args.iter().map(String::as_str).collect::<Vec<_>>(), then.exit);
    }
    if !place.join(".flyball/flyball.db").exists() {
        return found;
    }
    let store = StoreRows::open(&store_address(&place));
    found.extend(run_errors(&run, &store.records(SESSION, 1)));
    found.extend(store.errors_from_stored_decisions(&plain, SESSION));
    found
}

#[test]
fn runner() {
    run_scenarios(ConformancePath::Run, &supported_scenarios(ConformancePath::Run), run_scenario);
}

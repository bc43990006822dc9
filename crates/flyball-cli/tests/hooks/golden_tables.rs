//! The golden tables (`fixtures/hooks`) through the real binary: host input on real stdin; stored events and
//! responses equal the table, byte for byte. The end of a turn is never denied in any state.

use crate::command_harness::{self, CommandOutput};
use crate::recorded_histories::stored_records;
use crate::scripted_host::install_hook;
use flyball_integrations::hook::{HookPhase, Host, HostReaction, host_reaction};
use serde_json::{Value, json};
use std::path::Path;

/// The feedback text of the tables, as the message of a policy rule.
const FEEDBACK: &str = "Tool call blocked: this call has returned the same result 5 times.";

fn golden_page(host: Host, event: &str) -> Value {
    let path = command_harness::repo_root().join(format!("fixtures/hooks/{}/{event}.json", host.as_str()));
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// The input of a table as the host would send it from this directory.
fn host_input(page: &Value, folder: &Path) -> Value {
    let mut input = page["input"].clone();
    for key in ["cwd", "working_dir", "directory", "workingDirectory"] {
        if input.get(key).is_some() {
            input[key] = json!(folder);
        }
    }
    if input.get("workspace_roots").is_some() {
        input["workspace_roots"] = json!([folder]);
    }
    input
}

fn run_hook(host: Host, event: &str, folder: &Path, input: &Value) -> CommandOutput {
    let args = ["hook", host.as_str(), "--event", event];
    command_harness::run_flyball(folder, &args, input.to_string().as_bytes(), &[])
}

/// The row of the table for a verdict at a phase; `None` if the text differs from the table's.
fn expected_row(moment: HookPhase, verdict: &str) -> Option<&str> {
    match (moment, verdict) {
        (HookPhase::BeforeTool | HookPhase::AfterTool, _) => Some(verdict),
        (HookPhase::Prompt, "block") => Some("warn"),
        (HookPhase::Prompt, _) => Some(verdict),
        (HookPhase::Stop, "warn" | "block") => None,
        _ => Some("allow"),
    }
}

#[test]
fn every_event_and_verdict_matches_the_golden_table() {
    for host in Host::ALL {
        for verdict in ["allow", "warn", "block"] {
            for (event, moment) in host.events() {
                let at = format!("{} {event} {verdict}", host.as_str());
                let folder = command_harness::test_dir(&format!("hooks-golden-{}", at.replace(' ', "-")));
                let rule = json!({"name": "r", "when": "true", "decision": verdict, "message": FEEDBACK});
                let rules = if verdict == "allow" { json!([]) } else { json!([rule]) };
                let policy = json!({"rules": rules});
                std::fs::write(folder.join("flyball.json"), policy.to_string()).unwrap();
                let page = golden_page(host, event);
                let run = run_hook(host, event, &folder, &host_input(&page, &folder));
                let events = page["events"].as_array().unwrap();
                if let Some(session) = events.first().map(|event| event["session"].as_str().unwrap()) {
                    let stored: Vec<Value> = stored_records(&folder, session)
                        .iter()
                        .map(|record| serde_json::from_str(&record.text).unwrap())
                        .collect();
                    assert_eq!(&stored, events, "{at}");
                }
                // Without an event there is no decision.
                let decided = if events.is_empty() { "allow" } else { verdict };
                let Some(row) = expected_row(*moment, decided) else { continue };
                let answer = json!({"stdout": run.out, "stderr": run.err, "exit": run.code});
                assert_eq!(answer, page["answers"][row], "{at}");
            }
        }
    }
}

/// Puts a session into a state before the end of a turn.
fn session_in_state(host: Host, folder: &Path, session: &str, state: &str) {
    let start =
        json!({"type": "session.started", "session": session, "policy": {"nodes": {"a": {"max_visits": 1}}}});
    let visit = json!({"type": "turn.started", "session": session, "node": "a"});
    let lines =
        format!("{start}\n{visit}\n{}", if state == "blocked" { visit.to_string() } else { String::new() });
    command_harness::run_flyball(folder, &["observe", "--store"], lines.as_bytes(), &[]);
    if state == "halted" {
        let run = command_harness::run_flyball(folder, &["stop", session, "--why", "enough"], b"", &[]);
        assert_eq!(run.code, 0, "{}", run.err);
    }
    let run = command_harness::run_flyball(folder, &["status", session, "--json"], b"", &[]);
    let now: Value = serde_json::from_str(&run.out).unwrap();
    assert_eq!(now["state"], state, "{}", host.as_str());
}

#[test]
fn no_session_state_prevents_a_host_from_ending_its_turn() {
    for host in Host::ALL {
        let ends = host.events().iter().filter(|(_, moment)| *moment == HookPhase::Stop);
        for (event, _) in ends {
            for state in ["running", "blocked", "halted"] {
                let at = format!("{} {event} {state}", host.as_str());
                let folder = install_hook(host, &format!("stop-{event}-{state}"));
                let page = golden_page(host, event);
                let ids = ["session_id", "sessionId", "conversation_id"];
                let id = ids.iter().find_map(|key| page["input"][key].as_str()).unwrap();
                let own = page["events"][0]["session"].as_str();
                let session = own.map_or_else(|| host.session_name(id), str::to_owned);
                session_in_state(host, &folder, &session, state);
                // A host would continue after `block`, so it must never get one, however often it asks.
                for _ in 0..4 {
                    let run = run_hook(host, event, &folder, &host_input(&page, &folder));
                    let result = host_reaction(host, event, &run.out, &run.err, run.code);
                    assert!(
                        !matches!(result, HostReaction::Blocks(_) | HostReaction::HookFailed(_)),
                        "{at}: {result:?}"
                    );
                    assert!(!run.out.contains("followup_message"), "{at}: {}", run.out);
                }
            }
        }
    }
}

//! The golden tables (`fixtures/hooks`) through the shipped program: what a host writes goes to the real stdin, what is
//! stored and what is answered is what the table says, byte for byte. And the end of a turn is refused in no state.

use crate::agent::installed;
use crate::kit::{self, Run};
use crate::shipped::stored;
use flyball_adapt::hook::{Host, Moment, Understood, understood};
use serde_json::{Value, json};
use std::path::Path;

/// The words of the tables, as a rule of the policy says them.
const FEEDBACK: &str = "Tool call blocked: this call has returned the same result 5 times.";

fn page(host: Host, event: &str) -> Value {
    let path = kit::root().join(format!("fixtures/hooks/{}/{event}.json", host.as_str()));
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// The input of a table as the host would send it from this folder.
fn input(page: &Value, folder: &Path) -> Value {
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

fn hook(host: Host, event: &str, folder: &Path, input: &Value) -> Run {
    let args = ["hook", host.as_str(), "--event", event];
    kit::flyball(folder, &args, input.to_string().as_bytes(), &[])
}

/// The row of the table that answers a verdict at a moment; `None` where the words are others than the table's.
fn row(moment: Moment, verdict: &str) -> Option<&str> {
    match (moment, verdict) {
        (Moment::BeforeTool | Moment::AfterTool, _) => Some(verdict),
        (Moment::Prompt, "block") => Some("warn"),
        (Moment::Prompt, _) => Some(verdict),
        (Moment::Stop, "warn" | "block") => None,
        _ => Some("allow"),
    }
}

#[test]
fn every_event_and_every_verdict_is_as_in_the_table_through_the_program() {
    for host in Host::ALL {
        for verdict in ["allow", "warn", "block"] {
            for (event, moment) in host.events() {
                let at = format!("{} {event} {verdict}", host.as_str());
                let folder = kit::folder(&format!("hooks-golden-{}", at.replace(' ', "-")));
                let rule = json!({"name": "r", "when": "true", "decision": verdict, "message": FEEDBACK});
                let rules = if verdict == "allow" { json!([]) } else { json!([rule]) };
                let policy = json!({"rules": rules});
                std::fs::write(folder.join("flyball.json"), policy.to_string()).unwrap();
                let page = page(host, event);
                let run = hook(host, event, &folder, &input(&page, &folder));
                let events = page["events"].as_array().unwrap();
                if let Some(session) = events.first().map(|event| event["session"].as_str().unwrap()) {
                    let stored: Vec<Value> = stored(&folder, session)
                        .iter()
                        .map(|record| serde_json::from_str(&record.text).unwrap())
                        .collect();
                    assert_eq!(&stored, events, "{at}");
                }
                // Without an event nothing was decided.
                let decided = if events.is_empty() { "allow" } else { verdict };
                let Some(row) = row(*moment, decided) else { continue };
                let answer = json!({"stdout": run.out, "stderr": run.err, "exit": run.code});
                assert_eq!(answer, page["answers"][row], "{at}");
            }
        }
    }
}

/// A session in a state, for the end of a turn to come.
fn standing(host: Host, folder: &Path, session: &str, state: &str) {
    let start =
        json!({"type": "session.started", "session": session, "policy": {"nodes": {"a": {"max_visits": 1}}}});
    let visit = json!({"type": "turn.started", "session": session, "node": "a"});
    let lines =
        format!("{start}\n{visit}\n{}", if state == "blocked" { visit.to_string() } else { String::new() });
    kit::flyball(folder, &["observe", "--store"], lines.as_bytes(), &[]);
    if state == "halted" {
        let run = kit::flyball(folder, &["stop", session, "--why", "enough"], b"", &[]);
        assert_eq!(run.code, 0, "{}", run.err);
    }
    let run = kit::flyball(folder, &["status", session, "--json"], b"", &[]);
    let now: Value = serde_json::from_str(&run.out).unwrap();
    assert_eq!(now["state"], state, "{}", host.as_str());
}

#[test]
fn no_state_of_a_session_keeps_a_host_from_ending_its_turn() {
    for host in Host::ALL {
        let ends = host.events().iter().filter(|(_, moment)| *moment == Moment::Stop);
        for (event, _) in ends {
            for state in ["running", "blocked", "halted"] {
                let at = format!("{} {event} {state}", host.as_str());
                let folder = installed(host, &format!("stop-{event}-{state}"));
                let page = page(host, event);
                let ids = ["session_id", "sessionId", "conversation_id"];
                let id = ids.iter().find_map(|key| page["input"][key].as_str()).unwrap();
                let own = page["events"][0]["session"].as_str();
                let session = own.map_or_else(|| host.session(id), str::to_owned);
                standing(host, &folder, &session, state);
                // A host that heard `block` would run on: it must not, however often it asks.
                for _ in 0..4 {
                    let run = hook(host, event, &folder, &input(&page, &folder));
                    let heard = understood(host, event, &run.out, &run.err, run.code);
                    assert!(
                        !matches!(heard, Understood::Refuses(_) | Understood::Broken(_)),
                        "{at}: {heard:?}"
                    );
                    assert!(!run.out.contains("followup_message"), "{at}: {}", run.out);
                }
            }
        }
    }
}

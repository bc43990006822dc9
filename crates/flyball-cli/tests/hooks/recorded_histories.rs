//! Every guard on every host, end to end: a scripted host replays the recorded histories through the installed
//! command line, and `flyball tell` reports what the host does not. The host must be stopped where the guard trips,
//! and nowhere else. The stored decisions equal those of `replay`.

use crate::command_harness::{self, CommandOutput};
use crate::host_payloads::{HostInput, ToolCallEnd};
use crate::scripted_host::{HookResult, ScriptedHost, install_hook};
use crate::tell_command::{expected_exit, tell_json};
use flyball::GUARD_NAMES;
use flyball_integrations::hook::{Host, HostReaction};
use flyball_store::{EventRecord, StoreAddress};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The reporter of an event, and the reply.
enum HistoryAnswer {
    /// The host, through its hook.
    Hook(HookResult),
    /// Another process, with `flyball tell`.
    Tell(CommandOutput),
    /// A user, with `flyball send`.
    Person,
}

/// Result of a history.
struct PlayedHistory {
    agent: ScriptedHost,
    answers: Vec<HistoryAnswer>,
    records: Vec<EventRecord>,
}

fn read_events(file: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(file).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The records of a session in the project store.
pub(crate) fn stored_records(folder: &Path, session: &str) -> Vec<EventRecord> {
    let store = StoreAddress::find_project(folder).open_existing().unwrap();
    let seq = store.load(session).unwrap().unwrap().head.seq;
    store.records(session, 1, seq).unwrap()
}

/// The calls of a history by their ids.
type CallsById = BTreeMap<String, (String, Value)>;

/// The host's input for an event; `None` if it does not report such events.
fn host_input(agent: &mut ScriptedHost, event: &Value, calls: &mut CallsById) -> Option<HostInput> {
    let stamp = agent.next_stamp();
    let payloads = &agent.payloads;
    let call = event["call"].as_str().unwrap_or_default();
    let text = event["text"].as_str().unwrap_or_default();
    match event["type"].as_str().unwrap() {
        "tool.requested" => {
            let (tool, args) = (event["tool"].as_str().unwrap(), event["args"].clone());
            calls.insert(call.to_owned(), (tool.to_owned(), args.clone()));
            Some(payloads.before_tool(stamp, call, tool, &args))
        }
        "tool.finished" => {
            let (tool, args) = &calls[call];
            let ended = match event["ok"].as_bool() {
                Some(false) => ToolCallEnd::Failed(&event["error"]),
                _ => ToolCallEnd::Succeeded(&event["output"]),
            };
            Some(payloads.after_tool(stamp, call, tool, args, &ended))
        }
        "tool.denied" => {
            let (tool, args) = &calls[call];
            payloads.tool_denied(stamp, call, tool, args)
        }
        "user.message" => Some(payloads.prompt(stamp, text, "user")),
        // A host only reports the message that ends a turn.
        "assistant.message" if event["final"] == true => payloads.turn_ended(stamp, text),
        "question.asked" => {
            let (tool, args) = payloads.question(text)?;
            Some(payloads.before_tool(stamp, &format!("q-{stamp}"), tool, &args))
        }
        _ => None,
    }
}

/// An event as another process reports it. For hosts without call ids it has the tool and its arguments instead.
fn tell_event(host: Host, event: &Value, calls: &CallsById) -> Value {
    let mut event = event.clone();
    let call = event["call"].as_str().map(str::to_owned);
    if let Some((tool, args)) = call.and_then(|call| calls.get(&call))
        && matches!(host, Host::Gemini | Host::Copilot)
    {
        (event["call"], event["tool"], event["args"]) = (Value::Null, json!(tool), args.clone());
    }
    event
}

/// A user answers with the event's text.
fn answer_as_person(agent: &ScriptedHost, event: &Value) {
    let mut event = event.clone();
    event["session"] = json!(agent.session());
    event["at"] = Value::Null;
    let run = command_harness::run_flyball(
        &agent.folder,
        &["observe", "--store"],
        event.to_string().as_bytes(),
        &[],
    );
    assert_eq!(run.err, "", "{}", run.out);
}

/// Plays a history: each event through its reporter.
fn play_history(host: Host, name: &str, history: &[Value], policy: Option<&Value>) -> PlayedHistory {
    let folder = install_hook(host, name);
    if let Some(policy) = policy {
        std::fs::write(folder.join("flyball.json"), policy.to_string()).unwrap();
        command_harness::trust_policy(&folder);
    }
    let mut agent = ScriptedHost::new(host, &folder);
    let mut calls = CallsById::new();
    let mut answers = vec![HistoryAnswer::Hook(agent.call_hook(&agent.payloads.session_started("startup")))];
    for event in history.iter().filter(|event| event["type"] != "session.started") {
        answers.push(if event["type"] == "confirmation.answered" {
            answer_as_person(&agent, event);
            HistoryAnswer::Person
        } else if let Some(payload) = host_input(&mut agent, event, &mut calls) {
            HistoryAnswer::Hook(agent.call_hook(&payload))
        } else {
            HistoryAnswer::Tell(tell_json(&folder, &tell_event(host, event, &calls)))
        });
    }
    let records = stored_records(&folder, &agent.session());
    assert_eq!(records.len(), answers.len(), "{name}: one event for each process");
    for (answer, record) in answers.iter().zip(&records) {
        if let HistoryAnswer::Tell(run) = answer {
            assert_eq!(run.err, "", "{name}");
            assert_eq!(run.out.trim_end(), record.decision_json, "{name}");
            assert_eq!(run.code, expected_exit(&decision(record)), "{name}: {}", run.out);
        }
    }
    PlayedHistory { agent, answers, records }
}

fn decision(record: &EventRecord) -> Value {
    serde_json::from_str(&record.decision_json).unwrap()
}

fn has_trip(decision: &Value, guard: &str) -> bool {
    decision["decision"] != "allow"
        && decision["trips"].as_array().unwrap().iter().any(|trip| trip["guard"] == guard)
}

/// Checks that the stored decisions equal those of `replay`, byte for byte.
fn assert_same_as_replay(name: &str, records: &[EventRecord], policy: Option<&Value>) {
    let folder = command_harness::test_dir(&format!("hooks-replay-{name}"));
    if let Some(policy) = policy {
        std::fs::write(folder.join("flyball.json"), policy.to_string()).unwrap();
        command_harness::trust_policy(&folder);
    }
    let mut lines = String::new();
    for record in records {
        let mut event: Value = serde_json::from_str(&record.text).unwrap();
        event["at"] = json!(record.at.unwrap());
        lines.push_str(&format!("{event}\n"));
    }
    std::fs::write(folder.join("events.jsonl"), lines).unwrap();
    let run = command_harness::run_flyball(&folder, &["replay", "--json", "events.jsonl"], b"", &[]);
    assert_eq!(run.err, "", "{name}");
    let stored: Vec<&str> = records.iter().map(|record| record.decision_json.as_str()).collect();
    assert_eq!(run.out.lines().collect::<Vec<_>>(), stored, "{name}");
}

/// The policy of a test: that of the history, with a short runtime budget where the history needs hours.
fn test_policy(guard: &str, history: &[Value], quiet: bool) -> Option<Value> {
    if guard == "budget" && !quiet {
        return Some(json!({"budgets": {"session": {"runtime": "1ms"}}}));
    }
    // A host cannot declare a workflow, so the project's policy declares the allowed transitions.
    if let Some(edges) = history.iter().find_map(|event| event.pointer("/workflow/edges")?.as_array()) {
        let mut nodes = json!({});
        for edge in edges {
            let allowed = &mut nodes[edge["from"].as_str().unwrap()]["allowed_destinations"];
            let list = allowed.as_array().cloned().unwrap_or_default();
            *allowed = list.into_iter().chain([edge["to"].clone()]).collect();
        }
        return Some(json!({"nodes": nodes}));
    }
    history.iter().find_map(|event| event.get("policy")).cloned()
}

fn fixture(guard: &str, ending: &str) -> PathBuf {
    command_harness::repo_root().join(format!("fixtures/guards/{guard}{ending}.jsonl"))
}

/// Further calls that fail with the same error.
fn more_failures(count: u64) -> Vec<Value> {
    let pair = |n: u64| {
        let call = format!("more-{n}");
        let args = json!({"command": format!("make more{n}")});
        [
            json!({"type": "tool.requested", "call": call, "tool": "bash", "args": args}),
            json!({"type": "tool.finished", "call": call, "ok": false, "error": "permission denied"}),
        ]
    };
    (0..count).flat_map(pair).collect()
}

/// Checks that there is no message before a trip, and that the host denies what is denied.
fn assert_answers_match_decisions(name: &str, played: &PlayedHistory) {
    for (answer, record) in played.answers.iter().zip(&played.records) {
        let (HistoryAnswer::Hook(result), decision) = (answer, decision(record)) else { continue };
        let stands = decision["state"] == "halted" || decision["state"] == "blocked";
        let asks = record.text.contains(".requested") || record.text.contains("question.asked");
        match decision["decision"].as_str().unwrap() {
            "allow" if !stands => {
                let quiet = matches!(result.reaction, HostReaction::Continues | HostReaction::AddsContext(_));
                assert!(quiet, "{name}: {:?}", result.reaction);
            }
            "block" | "halt" if asks => assert!(result.is_stopped(), "{name}: {:?}", result.reaction),
            "block" | "halt" if record.text.contains("tool.finished") => {
                let has_message = result.reaction != HostReaction::Continues || !result.err.is_empty();
                assert!(has_message, "{name}: {:?}", result.reaction);
            }
            _ => {}
        }
    }
}

/// Checks that the decisions equal the recorded ones.
fn assert_as_recorded(name: &str, file: &Path, decisions: &[Value]) {
    let essence = |decision: &Value| {
        let trips = decision["trips"].as_array().unwrap().iter();
        let trips = trips.map(|trip| json!([trip["guard"], trip["reason"], trip["severity"], trip["count"]]));
        json!({"decision": decision["decision"], "state": decision["state"], "trips": trips.collect::<Vec<_>>()})
    };
    let recorded = command_harness::recorded_decisions(file);
    assert!(decisions.len() >= recorded.len(), "{name}");
    for (now, follow_ups) in decisions.iter().zip(recorded) {
        let then: Value = serde_json::from_str(&follow_ups).unwrap();
        assert_eq!(essence(now), essence(&then), "{name}: {now} {then}");
    }
}

/// Checks the next call: a stopped session denies it and names the release command; any other session continues.
fn check_next_call(name: &str, played: &mut PlayedHistory) {
    let agent = &mut played.agent;
    let state = decision(played.records.last().unwrap())["state"].clone();
    let stamp = agent.next_stamp();
    let result = agent.call_hook(&agent.payloads.before_tool(
        stamp,
        &format!("next-{stamp}"),
        "look",
        &json!({"at": "it"}),
    ));
    if state == "halted" || state == "blocked" {
        assert!(result.is_stopped(), "{name} is {state}: {:?}", result.reaction);
        let release = format!("flyball release {} --why", agent.session());
        assert!(
            format!("{}{}", result.out, result.err).contains(&release),
            "{name}: {} {}",
            result.out,
            result.err
        );
    } else {
        assert!(!result.is_stopped(), "{name} is {state}: {:?}", result.reaction);
    }
    played.records = stored_records(&agent.folder, &agent.session());
}

fn check_every_guard_trips(host: Host) {
    for guard in GUARD_NAMES {
        let file = fixture(guard, "");
        let mut history = read_events(&file);
        if *guard == "error_streak" {
            // An agent that keeps failing is stopped before its next call.
            history.extend(more_failures(6));
        }
        let policy = test_policy(guard, &history, false);
        let name = format!("{}-{guard}", host.as_str());
        let mut played = play_history(host, guard, &history, policy.as_ref());
        let decisions: Vec<Value> = played.records.iter().map(decision).collect();
        assert!(decisions.iter().any(|decision| has_trip(decision, guard)), "{name} did not trip");
        assert_answers_match_decisions(&name, &played);
        if *guard != "budget" {
            assert_as_recorded(&name, &file, &decisions);
        }
        if *guard == "error_streak" {
            let mut acts = played.answers.iter();
            let stopped =
                acts.any(|answer| matches!(answer, HistoryAnswer::Hook(result) if result.is_stopped()));
            assert!(stopped, "{name}");
        }
        check_next_call(&name, &mut played);
        assert_same_as_replay(&name, &played.records, policy.as_ref());
    }
}

fn check_no_guard_trips(host: Host) {
    for guard in GUARD_NAMES {
        let history = read_events(&fixture(guard, ".quiet"));
        let policy = test_policy(guard, &history, true);
        let name = format!("{}-{guard}-quiet", host.as_str());
        let mut played = play_history(host, &format!("{guard}-quiet"), &history, policy.as_ref());
        // A first failed attempt or an invalid response only gets feedback, which is not a denial.
        let warns = ["retry", "validation"].contains(guard);
        for (answer, record) in played.answers.iter().zip(&played.records) {
            let decision = decision(record);
            let quiet = decision["decision"] == "allow" && decision["trips"] == json!([]);
            assert!(quiet || warns && decision["decision"] == "warn", "{name}: {decision}");
            if let HistoryAnswer::Hook(result) = answer {
                assert_eq!(result.reaction, HostReaction::Continues, "{name}");
                assert_eq!(result.err, "", "{name}");
            }
        }
        check_next_call(&name, &mut played);
        assert_same_as_replay(&name, &played.records, policy.as_ref());
    }
}

macro_rules! hosts {
    ($($name:ident: $host:expr,)*) => {
        #[test]
        fn no_host_is_left_out() {
            assert_eq!([$($host),*], Host::ALL);
        }

        $(mod $name {
            use flyball_integrations::hook::Host;

            #[test]
            fn every_guard_trips_through_the_installed_hook() {
                super::check_every_guard_trips($host);
            }

            #[test]
            fn nothing_is_said_where_no_guard_trips() {
                super::check_no_guard_trips($host);
            }
        })*
    };
}

hosts! {
    claude_code: Host::ClaudeCode,
    codex: Host::Codex,
    gemini: Host::Gemini,
    copilot: Host::Copilot,
    cursor: Host::Cursor,
    goose: Host::Goose,
    opencode: Host::Opencode,
}

//! The shipped path of every guard that a hook can see: the recorded histories are told by a scripted host through
//! the installed command line, and the host must be stopped where the guard trips, and nowhere else. What is stored
//! is what `replay` decides upon the same events.

use crate::agent::{Agent, Heard, installed};
use crate::kit;
use crate::voice::Ended;
use flyball_adapt::hook::{Host, Understood};
use flyball_journal::{Address, Record};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;

/// The guards whose histories consist of calls, results, messages, questions and refusals.
const GUARDS: [&str; 9] = [
    "budget",
    "cycle",
    "denial",
    "error_streak",
    "monologue",
    "question",
    "recurrence",
    "repetition",
    "rule",
];

/// What one history gave.
struct Played {
    heard: Vec<Heard>,
    records: Vec<Record>,
}

fn events(file: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(file).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The records of a session, read from the project's store.
fn stored(folder: &Path, session: &str) -> Vec<Record> {
    let desk = Address::project(folder).open_existing().unwrap();
    let seq = desk.load(session).unwrap().unwrap().head.seq;
    desk.records(session, 1, seq).unwrap()
}

/// Tells a history through the hook; `None` if this host does not tell one of its events.
fn play(host: Host, name: &str, history: &[Value], policy: Option<&Value>) -> Option<Played> {
    let folder = installed(host, name);
    let inline = history.iter().find_map(|event| event.get("policy"));
    if let Some(policy) = policy.or(inline) {
        std::fs::write(folder.join("flyball.json"), policy.to_string()).unwrap();
    }
    let mut agent = Agent::new(host, &folder);
    let mut calls: BTreeMap<String, (String, Value)> = BTreeMap::new();
    let mut heard = vec![agent.hear(&agent.voice.start("startup"))];
    for event in history.iter().filter(|event| event["type"] != "session.started") {
        let stamp = agent.tick();
        let call = event["call"].as_str().unwrap_or_default();
        let text = event["text"].as_str().unwrap_or_default();
        let voice = &agent.voice;
        let said = match event["type"].as_str().unwrap() {
            "tool.requested" => {
                let (tool, args) = (event["tool"].as_str().unwrap(), event["args"].clone());
                calls.insert(call.to_owned(), (tool.to_owned(), args.clone()));
                voice.before(stamp, call, tool, &args)
            }
            "tool.finished" => {
                let (tool, args) = &calls[call];
                let ended = match event["ok"].as_bool() {
                    Some(false) => Ended::Badly(&event["error"]),
                    _ => Ended::Well(&event["output"]),
                };
                voice.after(stamp, call, tool, args, &ended)
            }
            "tool.denied" => {
                let (tool, args) = &calls[call];
                voice.denied(stamp, call, tool, args)?
            }
            "user.message" => voice.prompt(stamp, text, "user"),
            "assistant.message" => voice.spoke(stamp, text)?,
            "question.asked" => {
                let (tool, args) = voice.question(text)?;
                voice.before(stamp, &format!("q-{stamp}"), tool, &args)
            }
            other => panic!("{name}: a hook does not see {other}"),
        };
        heard.push(agent.hear(&said));
    }
    Some(Played { heard, records: stored(&folder, &agent.session()) })
}

fn decision(record: &Record) -> Value {
    serde_json::from_str(&record.decision).unwrap()
}

fn tripped(decision: &Value, guard: &str) -> bool {
    decision["decision"] != "allow"
        && decision["trips"].as_array().unwrap().iter().any(|trip| trip["guard"] == guard)
}

/// What was stored is what `replay` decides, byte for byte.
fn same_as_replay(name: &str, records: &[Record], policy: Option<&Value>) {
    let folder = kit::folder(&format!("hooks-replay-{name}"));
    if let Some(policy) = policy {
        std::fs::write(folder.join("flyball.json"), policy.to_string()).unwrap();
    }
    let mut lines = String::new();
    for record in records {
        let mut event: Value = serde_json::from_str(&record.text).unwrap();
        event["at"] = json!(record.at.unwrap());
        lines.push_str(&format!("{event}\n"));
    }
    std::fs::write(folder.join("events.jsonl"), lines).unwrap();
    let run = kit::flyball(&folder, &["replay", "--json", "events.jsonl"], b"", &[]);
    assert_eq!(run.err, "", "{name}");
    let stored: Vec<&str> = records.iter().map(|record| record.decision.as_str()).collect();
    assert_eq!(run.out.lines().collect::<Vec<_>>(), stored, "{name}");
}

/// The policy of a test: the history's own, and a runtime that is over at once where the history needs hours.
fn policy(guard: &str, history: &[Value], quiet: bool) -> Option<Value> {
    if guard == "budget" && !quiet {
        return Some(json!({"budgets": {"session": {"runtime": "1ms"}}}));
    }
    history.iter().find_map(|event| event.get("policy")).cloned()
}

/// Other calls that fail with the same error.
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

fn every_guard_trips(host: Host) {
    let mut seen = 0;
    for guard in GUARDS {
        let file = kit::root().join(format!("fixtures/guards/{guard}.jsonl"));
        let mut history = events(&file);
        if guard == "error_streak" {
            history.extend(more_failures(6));
        }
        let policy = policy(guard, &history, false);
        let name = format!("{}-{guard}", host.as_str());
        let Some(played) = play(host, guard, &history, policy.as_ref()) else { continue };
        seen += 1;
        let decisions: Vec<Value> = played.records.iter().map(decision).collect();
        assert_eq!(decisions.len(), played.heard.len(), "{name}: one event for each call of the hook");
        let at = decisions.iter().position(|decision| tripped(decision, guard));
        let at = at.unwrap_or_else(|| panic!("{name} did not trip"));
        let first = decisions
            .iter()
            .position(|decision| decision["decision"] == "block" || decision["decision"] == "halt");
        // Before anything trips, nothing is said.
        for (heard, decision) in played.heard.iter().zip(&decisions) {
            if decision["decision"] == "allow" && decision["state"] != "halted" {
                let quiet = matches!(heard.means, Understood::GoesOn | Understood::Context(_));
                assert!(quiet, "{name}: {:?}", heard.means);
            }
        }
        // A refused act is refused by the host; what has happened, or was said, can only be answered with words.
        let first = first.unwrap_or(at);
        let heard = &played.heard[first];
        let kind = &played.records[first].text;
        if kind.contains(".requested") || kind.contains("question.asked") {
            assert!(heard.stopped(), "{name}: {:?}", heard.means);
        } else if kind.contains("tool.finished") {
            let told = heard.means != Understood::GoesOn || !heard.err.is_empty();
            assert!(told, "{name}: {:?}", heard.means);
        }
        if guard == "error_streak" {
            // Who goes on failing all the same is stopped before the next call.
            let acts = played.records.iter().zip(&played.heard);
            let mut acts = acts.filter(|(record, _)| record.text.contains("tool.requested"));
            assert!(acts.any(|(_, heard)| heard.stopped()), "{name}");
        }
        same_as_replay(&name, &played.records, policy.as_ref());
        if guard != "monologue" && guard != "budget" {
            // The recorded decisions say the same of the same events.
            for (now, then) in decisions.iter().zip(kit::recorded(&file)) {
                let then: Value = serde_json::from_str(&then).unwrap();
                assert_eq!(now["decision"], then["decision"], "{name}: {now} {then}");
            }
        }
    }
    assert!(seen >= 6, "{} tells too little", host.as_str());
}

fn no_guard_trips(host: Host) {
    for guard in GUARDS {
        let file = kit::root().join(format!("fixtures/guards/{guard}.quiet.jsonl"));
        let history = events(&file);
        let policy = policy(guard, &history, true);
        let name = format!("{}-{guard}-quiet", host.as_str());
        if guard == "monologue" {
            // Told at the end of turns the same words are another matter: `stall` is for that.
            continue;
        }
        let Some(played) = play(host, &format!("{guard}-quiet"), &history, policy.as_ref()) else { continue };
        for heard in &played.heard {
            assert_eq!(heard.means, Understood::GoesOn, "{name}");
            assert_eq!(heard.err, "", "{name}");
        }
        for record in &played.records {
            let decision = decision(record);
            assert_eq!(decision["decision"], "allow", "{name}: {decision}");
            assert_eq!(decision["trips"], json!([]), "{name}: {decision}");
        }
        same_as_replay(&name, &played.records, policy.as_ref());
    }
}

macro_rules! hosts {
    ($($name:ident: $host:expr,)*) => {
        $(mod $name {
            use flyball_adapt::hook::Host;

            #[test]
            fn every_guard_trips_through_the_installed_hook() {
                super::every_guard_trips($host);
            }

            #[test]
            fn nothing_is_said_where_no_guard_trips() {
                super::no_guard_trips($host);
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

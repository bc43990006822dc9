//! The shipped path of every guard, for every host: the recorded histories are told by a scripted host through the
//! installed command line, and what no host tells by `flyball tell`. The host must be stopped where the guard trips, and
//! nowhere else. What is stored is what `replay` decides upon the same events.

use crate::agent::{Agent, Heard, installed};
use crate::beside::{exit_of, tell};
use crate::kit::{self, Run};
use crate::voice::{Ended, Said};
use flyball::GUARDS;
use flyball_adapt::hook::{Host, Understood};
use flyball_journal::{Address, Record};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Who told an event, and what came back.
enum Answer {
    /// The host, through its hook.
    Hook(Heard),
    /// Something beside it, with `flyball tell`.
    Told(Run),
    /// A person, with `flyball send`.
    Person,
}

/// What one history gave.
struct Played {
    agent: Agent,
    answers: Vec<Answer>,
    records: Vec<Record>,
}

fn events(file: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(file).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The records of a session, read from the project's store.
pub(crate) fn stored(folder: &Path, session: &str) -> Vec<Record> {
    let desk = Address::project(folder).open_existing().unwrap();
    let seq = desk.load(session).unwrap().unwrap().head.seq;
    desk.records(session, 1, seq).unwrap()
}

/// The calls of a history by their ids.
type Calls = BTreeMap<String, (String, Value)>;

/// What the host says for an event; `None` if it tells no such thing.
fn of_host(agent: &mut Agent, event: &Value, calls: &mut Calls) -> Option<Said> {
    let stamp = agent.tick();
    let voice = &agent.voice;
    let call = event["call"].as_str().unwrap_or_default();
    let text = event["text"].as_str().unwrap_or_default();
    match event["type"].as_str().unwrap() {
        "tool.requested" => {
            let (tool, args) = (event["tool"].as_str().unwrap(), event["args"].clone());
            calls.insert(call.to_owned(), (tool.to_owned(), args.clone()));
            Some(voice.before(stamp, call, tool, &args))
        }
        "tool.finished" => {
            let (tool, args) = &calls[call];
            let ended = match event["ok"].as_bool() {
                Some(false) => Ended::Badly(&event["error"]),
                _ => Ended::Well(&event["output"]),
            };
            Some(voice.after(stamp, call, tool, args, &ended))
        }
        "tool.denied" => {
            let (tool, args) = &calls[call];
            voice.denied(stamp, call, tool, args)
        }
        "user.message" => Some(voice.prompt(stamp, text, "user")),
        // A host tells what ended a turn, and nothing of what was said before.
        "assistant.message" if event["final"] == true => voice.spoke(stamp, text),
        "question.asked" => {
            let (tool, args) = voice.question(text)?;
            Some(voice.before(stamp, &format!("q-{stamp}"), tool, &args))
        }
        _ => None,
    }
}

/// An event as somebody beside the agent knows it: hosts without ids of calls have a tool and its arguments instead.
fn beside(host: Host, event: &Value, calls: &Calls) -> Value {
    let mut event = event.clone();
    let call = event["call"].as_str().map(str::to_owned);
    if let Some((tool, args)) = call.and_then(|call| calls.get(&call))
        && matches!(host, Host::Gemini | Host::Copilot)
    {
        (event["call"], event["tool"], event["args"]) = (Value::Null, json!(tool), args.clone());
    }
    event
}

/// A person answers, whatever the words are.
fn answered(agent: &Agent, event: &Value) {
    let mut event = event.clone();
    event["session"] = json!(agent.session());
    event["at"] = Value::Null;
    let run = kit::flyball(&agent.folder, &["observe", "--store"], event.to_string().as_bytes(), &[]);
    assert_eq!(run.err, "", "{}", run.out);
}

/// Tells a history: each event by whoever knows of it.
fn play(host: Host, name: &str, history: &[Value], policy: Option<&Value>) -> Played {
    let folder = installed(host, name);
    if let Some(policy) = policy {
        std::fs::write(folder.join("flyball.json"), policy.to_string()).unwrap();
        kit::trusted(&folder);
    }
    let mut agent = Agent::new(host, &folder);
    let mut calls = Calls::new();
    let mut answers = vec![Answer::Hook(agent.hear(&agent.voice.start("startup")))];
    for event in history.iter().filter(|event| event["type"] != "session.started") {
        answers.push(if event["type"] == "confirmation.answered" {
            answered(&agent, event);
            Answer::Person
        } else if let Some(said) = of_host(&mut agent, event, &mut calls) {
            Answer::Hook(agent.hear(&said))
        } else {
            Answer::Told(tell(&folder, &beside(host, event, &calls)))
        });
    }
    let records = stored(&folder, &agent.session());
    assert_eq!(records.len(), answers.len(), "{name}: one event for each process");
    for (answer, record) in answers.iter().zip(&records) {
        if let Answer::Told(run) = answer {
            assert_eq!(run.err, "", "{name}");
            assert_eq!(run.out.trim_end(), record.decision, "{name}");
            assert_eq!(run.code, exit_of(&decision(record)), "{name}: {}", run.out);
        }
    }
    Played { agent, answers, records }
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
        kit::trusted(&folder);
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
    // A host cannot declare a workflow; the policy of its project says where each node may lead.
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
    kit::root().join(format!("fixtures/guards/{guard}{ending}.jsonl"))
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

/// Before anything trips nothing is said, and what is refused is refused by the host.
fn answered_as_decided(name: &str, played: &Played) {
    for (answer, record) in played.answers.iter().zip(&played.records) {
        let (Answer::Hook(heard), decision) = (answer, decision(record)) else { continue };
        let stands = decision["state"] == "halted" || decision["state"] == "blocked";
        let asks = record.text.contains(".requested") || record.text.contains("question.asked");
        match decision["decision"].as_str().unwrap() {
            "allow" if !stands => {
                let quiet = matches!(heard.means, Understood::GoesOn | Understood::Context(_));
                assert!(quiet, "{name}: {:?}", heard.means);
            }
            "block" | "halt" if asks => assert!(heard.stopped(), "{name}: {:?}", heard.means),
            "block" | "halt" if record.text.contains("tool.finished") => {
                let told = heard.means != Understood::GoesOn || !heard.err.is_empty();
                assert!(told, "{name}: {:?}", heard.means);
            }
            _ => {}
        }
    }
}

/// The recorded decisions say the same of the same events.
fn as_recorded(name: &str, file: &Path, decisions: &[Value]) {
    let essence = |decision: &Value| {
        let trips = decision["trips"].as_array().unwrap().iter();
        let trips = trips.map(|trip| json!([trip["guard"], trip["reason"], trip["severity"], trip["count"]]));
        json!({"decision": decision["decision"], "state": decision["state"], "trips": trips.collect::<Vec<_>>()})
    };
    let recorded = kit::recorded(file);
    assert!(decisions.len() >= recorded.len(), "{name}");
    for (now, then) in decisions.iter().zip(recorded) {
        let then: Value = serde_json::from_str(&then).unwrap();
        assert_eq!(essence(now), essence(&then), "{name}: {now} {then}");
    }
}

/// Whoever stands still makes no further call, and is told how a person lets it go on; everybody else goes on.
fn next_call(name: &str, played: &mut Played) {
    let agent = &mut played.agent;
    let state = decision(played.records.last().unwrap())["state"].clone();
    let stamp = agent.tick();
    let heard =
        agent.hear(&agent.voice.before(stamp, &format!("next-{stamp}"), "look", &json!({"at": "it"})));
    if state == "halted" || state == "blocked" {
        assert!(heard.stopped(), "{name} is {state}: {:?}", heard.means);
        let release = format!("flyball release {} --why", agent.session());
        assert!(
            format!("{}{}", heard.out, heard.err).contains(&release),
            "{name}: {} {}",
            heard.out,
            heard.err
        );
    } else {
        assert!(!heard.stopped(), "{name} is {state}: {:?}", heard.means);
    }
    played.records = stored(&agent.folder, &agent.session());
}

fn every_guard_trips(host: Host) {
    for guard in GUARDS {
        let file = fixture(guard, "");
        let mut history = events(&file);
        if *guard == "error_streak" {
            // Who goes on failing all the same is stopped before the next call.
            history.extend(more_failures(6));
        }
        let policy = policy(guard, &history, false);
        let name = format!("{}-{guard}", host.as_str());
        let mut played = play(host, guard, &history, policy.as_ref());
        let decisions: Vec<Value> = played.records.iter().map(decision).collect();
        assert!(decisions.iter().any(|decision| tripped(decision, guard)), "{name} did not trip");
        answered_as_decided(&name, &played);
        if *guard != "budget" {
            as_recorded(&name, &file, &decisions);
        }
        if *guard == "error_streak" {
            let mut acts = played.answers.iter();
            let stopped = acts.any(|answer| matches!(answer, Answer::Hook(heard) if heard.stopped()));
            assert!(stopped, "{name}");
        }
        next_call(&name, &mut played);
        same_as_replay(&name, &played.records, policy.as_ref());
    }
}

fn no_guard_trips(host: Host) {
    for guard in GUARDS {
        let history = events(&fixture(guard, ".quiet"));
        let policy = policy(guard, &history, true);
        let name = format!("{}-{guard}-quiet", host.as_str());
        let mut played = play(host, &format!("{guard}-quiet"), &history, policy.as_ref());
        // A first failed attempt, or an answer that cannot be read, is told to whoever told it: that is no refusal.
        let warns = ["retry", "validation"].contains(guard);
        for (answer, record) in played.answers.iter().zip(&played.records) {
            let decision = decision(record);
            let quiet = decision["decision"] == "allow" && decision["trips"] == json!([]);
            assert!(quiet || warns && decision["decision"] == "warn", "{name}: {decision}");
            if let Answer::Hook(heard) = answer {
                assert_eq!(heard.means, Understood::GoesOn, "{name}");
                assert_eq!(heard.err, "", "{name}");
            }
        }
        next_call(&name, &mut played);
        same_as_replay(&name, &played.records, policy.as_ref());
    }
}

macro_rules! hosts {
    ($($name:ident: $host:expr,)*) => {
        #[test]
        fn no_host_is_left_out() {
            assert_eq!([$($host),*], Host::ALL);
        }

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

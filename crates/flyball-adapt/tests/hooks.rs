//! Golden tables: for every host and event what is read from it, and for every verdict what is answered, byte for
//! byte. `FLYBALL_BLESS=1 cargo test -p flyball-adapt --test hooks` writes them anew; the diff is read by a person.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test stops at the first surprise")]

use flyball_adapt::hook::{Answer, Host, Moment, Reply, Say, Understood, decode, encode, understood};
use serde_json::{Map, Value, json};
use std::path::{Path, PathBuf};

const FEEDBACK: &str = "Tool call blocked: this call has returned the same result 5 times.";
const NOTICE: &str = "Flyball has halted this session. To let it go on: flyball release S --why TEXT";

fn folder(host: Host) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/hooks").join(host.as_str())
}

fn page(host: Host, event: &str) -> (PathBuf, Value) {
    let path = folder(host).join(format!("{event}.json"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    (path, serde_json::from_str(&text).unwrap())
}

/// The replies of the table: each verdict, and a failure of our own that stops nothing.
fn replies() -> Vec<(&'static str, Reply)> {
    let of = |say: Say| {
        let feedback = if say == Say::Allow { "" } else { FEEDBACK };
        let notice = (say == Say::Halt).then(|| NOTICE.to_owned());
        (say.as_str(), Reply { say, feedback: feedback.to_owned(), notice })
    };
    let mut all: Vec<_> = Say::ALL.into_iter().map(of).collect();
    let notice = Some("Flyball failed: the store is locked (store_busy).".to_owned());
    all.push(("failed", Reply { say: Say::Allow, feedback: String::new(), notice }));
    all
}

fn every_event() -> impl Iterator<Item = (Host, &'static str, Moment)> {
    Host::ALL
        .into_iter()
        .flat_map(|host| host.events().iter().map(move |(event, moment)| (host, *event, *moment)))
}

fn answered(host: Host, event: &str, moment: Moment) -> Value {
    let answer = |(name, reply): (&str, Reply)| {
        let Answer { stdout, stderr, exit } = encode(host, event, moment, &reply);
        (name.to_owned(), json!({"stdout": stdout, "stderr": stderr, "exit": exit}))
    };
    Value::Object(replies().into_iter().map(answer).collect::<Map<_, _>>())
}

#[test]
fn every_event_and_every_verdict_is_as_in_the_table() {
    let bless = std::env::var_os("FLYBALL_BLESS").is_some();
    for (host, event, moment) in every_event() {
        let (path, page) = page(host, event);
        let call = decode(host, Some(event), page["input"].to_string().as_bytes()).unwrap();
        let now =
            json!({"input": page["input"], "events": call.events, "answers": answered(host, event, moment)});
        if bless {
            let text = format!("{}\n", serde_json::to_string_pretty(&now).unwrap());
            std::fs::write(&path, text).unwrap();
        } else {
            assert!(now == page, "{} is old: {now:#}", path.display());
        }
    }
}

#[test]
fn there_is_no_table_of_an_event_that_nobody_listens_to() {
    for host in Host::ALL {
        for entry in std::fs::read_dir(folder(host)).unwrap() {
            let path = entry.unwrap().path();
            let event = path.file_stem().unwrap().to_string_lossy().into_owned();
            assert_ne!(host.moment(&event), Moment::Unknown, "{}", path.display());
        }
    }
}

/// What each host makes of each verdict: the table of the documentation, from the host's side.
#[test]
fn every_host_understands_what_was_meant() {
    for (host, event, moment) in every_event() {
        for (name, reply) in replies() {
            let Answer { stdout, stderr, exit } = encode(host, event, moment, &reply);
            let heard = understood(host, event, &stdout, &stderr, i32::from(exit));
            let at = format!("{} {event} {name}: {heard:?}", host.as_str());
            assert!(!matches!(heard, Understood::Broken(_)), "{at}");
            match (moment, name) {
                (_, "allow" | "failed") => assert_eq!(heard, Understood::GoesOn, "{at}"),
                (Moment::BeforeTool, "block") => {
                    assert_eq!(heard, Understood::Refuses(FEEDBACK.to_owned()), "{at}")
                }
                (Moment::BeforeTool, "halt") => {
                    assert!(matches!(heard, Understood::Stops(_) | Understood::Refuses(_)), "{at}");
                }
                (Moment::BeforeTool, "ask") if host.can_ask() => {
                    assert_eq!(heard, Understood::Asks(FEEDBACK.to_owned()), "{at}");
                }
                (Moment::BeforeTool, "ask") => assert!(matches!(heard, Understood::Refuses(_)), "{at}"),
                (Moment::BeforeTool, "warn") if host.hears_before() => {
                    assert_eq!(heard, Understood::Context(FEEDBACK.to_owned()), "{at}");
                }
                (Moment::AfterTool, "warn") if host != Host::Goose => {
                    assert_eq!(heard, Understood::Context(FEEDBACK.to_owned()), "{at}");
                }
                // Whoever has finished is never made to go on.
                (Moment::Stop, _) => assert!(!matches!(heard, Understood::Refuses(_)), "{at}"),
                _ => {}
            }
        }
    }
}

#[test]
fn halts_stop_the_host_where_it_can_be_stopped() {
    let (_, halt) = replies().into_iter().find(|(name, _)| *name == "halt").unwrap();
    for (host, event, stops) in [
        (Host::ClaudeCode, "PreToolUse", true),
        (Host::ClaudeCode, "PostToolUse", true),
        (Host::ClaudeCode, "PostToolBatch", true),
        (Host::ClaudeCode, "Stop", true),
        (Host::Codex, "PreToolUse", false),
        (Host::Codex, "PostToolUse", true),
        (Host::Codex, "Stop", true),
        (Host::Gemini, "BeforeTool", true),
        (Host::Copilot, "preToolUse", false),
        (Host::Copilot, "permissionRequest", true),
        (Host::Cursor, "preToolUse", false),
        (Host::Goose, "PreToolUse", false),
        (Host::Opencode, "tool.execute.before", true),
    ] {
        let answer = encode(host, event, host.moment(event), &halt);
        let heard = understood(host, event, &answer.stdout, &answer.stderr, i32::from(answer.exit));
        assert_eq!(matches!(heard, Understood::Stops(_)), stops, "{} {event}: {heard:?}", host.as_str());
    }
}

/// Codex publishes what it takes; anything else makes the hook fail, and then the call runs.
#[test]
fn codex_is_never_told_what_it_refuses_to_read() {
    for (event, moment) in Host::Codex.events() {
        for (name, reply) in replies() {
            let answer = encode(Host::Codex, event, *moment, &reply);
            if answer.stdout.is_empty() {
                continue;
            }
            let value: Value = serde_json::from_str(&answer.stdout).unwrap();
            if *moment == Moment::BeforeTool {
                for key in ["continue", "stopReason", "suppressOutput"] {
                    assert!(value.get(key).is_none(), "{event} {name}: {key}");
                }
            }
            let decision = value.pointer("/hookSpecificOutput/permissionDecision").and_then(Value::as_str);
            assert!(matches!(decision, None | Some("deny")), "{event} {name}: {decision:?}");
            if decision.is_some() || value.get("decision").is_some() {
                let reason = value.pointer("/hookSpecificOutput/permissionDecisionReason");
                let reason =
                    reason.or_else(|| value.get("reason")).and_then(Value::as_str).unwrap_or_default();
                assert!(!reason.trim().is_empty(), "{event} {name}");
            }
        }
    }
}

#[test]
fn garbage_is_an_error_that_knows_what_the_host_waits_for() {
    for host in Host::ALL {
        let (before, _) = host.events()[0];
        for input in [&b""[..], b"  \n", b"{", b"[]", b"nonsense", b"{\"a\":1}", b"\xff\xfe"] {
            let garbled = decode(host, Some(before), input).unwrap_err();
            assert_eq!(garbled.moment, Moment::BeforeTool, "{} {input:?}", host.as_str());
            assert!(!garbled.what.is_empty());
            assert_eq!(decode(host, None, input).map(|call| call.events.len()).unwrap_or(0), 0);
        }
        let unknown = json!({"hook_event_name": "PreFrobnicate", "event": "PreFrobnicate", "session_id": "s",
            "sessionId": "s", "conversation_id": "s"});
        let call = decode(host, None, unknown.to_string().as_bytes()).unwrap();
        assert_eq!((call.moment, call.events.len()), (Moment::Unknown, 0), "{}", host.as_str());
    }
}

//! Golden tables for hooks: the decoded events of every host's payloads, and the encoded reply for every verdict, byte
//! for byte. `FLYBALL_BLESS=1 cargo test -p flyball-integrations --test hooks` regenerates them; review the diff.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests may panic")]

use flyball_integrations::hook::{
    HookOutput, HookPhase, HookReply, HookVerdict, Host, HostReaction, decode, encode, host_reaction,
};
use serde_json::{Map, Value, json};
use std::path::{Path, PathBuf};

const FEEDBACK: &str = "Tool call blocked: this call has returned the same result 5 times.";
const NOTICE: &str = "Flyball has halted this session. To resume it: flyball release S --why TEXT";

fn folder(host: Host) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/hooks").join(host.as_str())
}

fn golden_table(host: Host, event: &str) -> (PathBuf, Value) {
    let path = folder(host).join(format!("{event}.json"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    (path, serde_json::from_str(&text).unwrap())
}

/// The replies in the tables: one per verdict, and an internal failure that blocks nothing.
fn replies() -> Vec<(&'static str, HookReply)> {
    let of = |say: HookVerdict| {
        let feedback = if say == HookVerdict::Allow { "" } else { FEEDBACK };
        let notice = (say == HookVerdict::Halt).then(|| NOTICE.to_owned());
        (say.as_str(), HookReply { verdict: say, feedback: feedback.to_owned(), notice })
    };
    let mut all: Vec<_> = HookVerdict::ALL.into_iter().map(of).collect();
    let notice = Some("Flyball failed: the store is locked (store_busy).".to_owned());
    all.push(("failed", HookReply { verdict: HookVerdict::Allow, feedback: String::new(), notice }));
    all
}

fn every_event() -> impl Iterator<Item = (Host, &'static str, HookPhase)> {
    Host::ALL
        .into_iter()
        .flat_map(|host| host.events().iter().map(move |(event, phase)| (host, *event, *phase)))
}

fn encoded_answers(host: Host, event: &str, phase: HookPhase) -> Value {
    let answer = |(name, reply): (&str, HookReply)| {
        let HookOutput { stdout, stderr, exit } = encode(host, event, phase, &reply);
        (name.to_owned(), json!({"stdout": stdout, "stderr": stderr, "exit": exit}))
    };
    Value::Object(replies().into_iter().map(answer).collect::<Map<_, _>>())
}

#[test]
fn every_event_and_verdict_matches_the_golden_table() {
    let bless = std::env::var_os("FLYBALL_BLESS").is_some();
    for (host, event, phase) in every_event() {
        let (path, page) = golden_table(host, event);
        let call = decode(host, Some(event), page["input"].to_string().as_bytes()).unwrap();
        let now = json!({"input": page["input"], "events": call.events, "answers": encoded_answers(host, event, phase)});
        if bless {
            let text = format!("{}\n", serde_json::to_string_pretty(&now).unwrap());
            std::fs::write(&path, text).unwrap();
        } else {
            assert!(now == page, "{} is out of date: {now:#}", path.display());
        }
    }
}

#[test]
fn every_golden_table_belongs_to_a_known_event() {
    for host in Host::ALL {
        for entry in std::fs::read_dir(folder(host)).unwrap() {
            let path = entry.unwrap().path();
            let event = path.file_stem().unwrap().to_string_lossy().into_owned();
            assert_ne!(host.phase(&event), HookPhase::Unknown, "{}", path.display());
        }
    }
}

/// Every host's reaction to each verdict, as documented.
#[test]
fn every_host_reacts_as_intended() {
    for (host, event, phase) in every_event() {
        for (name, reply) in replies() {
            let HookOutput { stdout, stderr, exit } = encode(host, event, phase, &reply);
            let reaction = host_reaction(host, event, &stdout, &stderr, i32::from(exit));
            let at = format!("{} {event} {name}: {reaction:?}", host.as_str());
            assert!(!matches!(reaction, HostReaction::HookFailed(_)), "{at}");
            match (phase, name) {
                (_, "allow" | "failed") => assert_eq!(reaction, HostReaction::Continues, "{at}"),
                (HookPhase::BeforeTool, "block") => {
                    assert_eq!(reaction, HostReaction::Blocks(FEEDBACK.to_owned()), "{at}")
                }
                (HookPhase::BeforeTool, "halt") => {
                    assert!(matches!(reaction, HostReaction::Stops(_) | HostReaction::Blocks(_)), "{at}");
                }
                (HookPhase::BeforeTool, "ask") if host.can_ask() => {
                    assert_eq!(reaction, HostReaction::AsksUser(FEEDBACK.to_owned()), "{at}");
                }
                (HookPhase::BeforeTool, "ask") => {
                    assert!(matches!(reaction, HostReaction::Blocks(_)), "{at}")
                }
                (HookPhase::BeforeTool, "warn") if host.shows_feedback_before_tool() => {
                    assert_eq!(reaction, HostReaction::AddsContext(FEEDBACK.to_owned()), "{at}");
                }
                (HookPhase::AfterTool, "warn") if host != Host::Goose => {
                    assert_eq!(reaction, HostReaction::AddsContext(FEEDBACK.to_owned()), "{at}");
                }
                // Ending a turn is never blocked.
                (HookPhase::Stop, _) => assert!(!matches!(reaction, HostReaction::Blocks(_)), "{at}"),
                _ => {}
            }
        }
    }
}

#[test]
fn halt_stops_hosts_that_support_it() {
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
        let answer = encode(host, event, host.phase(event), &halt);
        let reaction = host_reaction(host, event, &answer.stdout, &answer.stderr, i32::from(answer.exit));
        assert_eq!(
            matches!(reaction, HostReaction::Stops(_)),
            stops,
            "{} {event}: {reaction:?}",
            host.as_str()
        );
    }
}

/// Codex publishes the keys it supports; any other key makes the hook fail, and then the call runs.
#[test]
fn codex_output_uses_only_supported_keys() {
    for (event, phase) in Host::Codex.events() {
        for (name, reply) in replies() {
            let answer = encode(Host::Codex, event, *phase, &reply);
            if answer.stdout.is_empty() {
                continue;
            }
            let value: Value = serde_json::from_str(&answer.stdout).unwrap();
            if *phase == HookPhase::BeforeTool {
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
fn invalid_input_is_rejected_with_the_hook_phase() {
    for host in Host::ALL {
        let (before, _) = host.events()[0];
        for input in [&b""[..], b"  \n", b"{", b"[]", b"nonsense", b"{\"a\":1}", b"\xff\xfe"] {
            let garbled = decode(host, Some(before), input).unwrap_err();
            assert_eq!(garbled.phase, HookPhase::BeforeTool, "{} {input:?}", host.as_str());
            assert!(!garbled.message.is_empty());
            assert_eq!(decode(host, None, input).map(|call| call.events.len()).unwrap_or(0), 0);
        }
        let unknown = json!({"hook_event_name": "PreFrobnicate", "event": "PreFrobnicate", "session_id": "s",
            "sessionId": "s", "conversation_id": "s"});
        let call = decode(host, None, unknown.to_string().as_bytes()).unwrap();
        assert_eq!((call.phase, call.events.len()), (HookPhase::Unknown, 0), "{}", host.as_str());
    }
}

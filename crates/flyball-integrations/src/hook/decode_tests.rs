//! Decoding cases that the golden tables do not cover: missing fields, duplicate reports, questions and sub-agents.

use super::super::{HookPhase, Host};
use super::decode;
use flyball::{Event, MessageOrigin};
use serde_json::{Value, json};

fn events(host: Host, input: &Value) -> Vec<Value> {
    decode(host, None, input.to_string().as_bytes()).unwrap().events
}

#[test]
fn decoded_events_are_valid_flyball_events() {
    let long = "x".repeat(9_000);
    let inputs = [
        json!({"hook_event_name": "PreToolUse", "session_id": long, "tool_name": "t", "tool_use_id": long}),
        json!({"hook_event_name": "SubagentStop", "session_id": "s", "agent_id": long, "last_assistant_message": "m"}),
        json!({"hook_event_name": "PostToolUse", "session_id": "s", "tool_name": "t", "tool_response": [[[1]]]}),
        json!({"hook_event_name": "SessionEnd", "session_id": "a b\u{7}c", "reason": null}),
    ];
    for input in inputs {
        let made = events(Host::ClaudeCode, &input);
        assert!(!made.is_empty());
        for event in made {
            Event::from_json(&event.to_string()).unwrap_or_else(|error| panic!("{event}: {error:?}"));
        }
    }
}

#[test]
fn prompt_source_maps_to_origin() {
    for (source, origin) in [
        (json!("user"), MessageOrigin::Human),
        (json!("sdk"), MessageOrigin::Agent),
        (json!("something_new"), MessageOrigin::Agent),
        (json!(null), MessageOrigin::Human),
        (json!("system"), MessageOrigin::Schedule),
        (json!("loop_wakeup"), MessageOrigin::Schedule),
        (json!("schedule_wakeup"), MessageOrigin::Schedule),
        (json!("poll_event"), MessageOrigin::Schedule),
    ] {
        let input = json!({"hook_event_name": "UserPromptSubmit", "session_id": "s", "prompt": "p", "source": source});
        let call = decode(Host::ClaudeCode, None, input.to_string().as_bytes()).unwrap();
        assert_eq!((call.origin, call.phase), (origin, HookPhase::Prompt), "{source}");
    }
}

#[test]
fn resumed_session_is_not_restarted() {
    let start = |source: &str| {
        events(
            Host::ClaudeCode,
            &json!({"hook_event_name": "SessionStart", "session_id": "s", "source": source}),
        )
    };
    assert!(start("startup")[0]["id"].is_string());
    for source in ["resume", "clear", "fork"] {
        let made = start(source);
        assert!(made[0]["type"] == "session.started" && made[0].get("reopen").is_none(), "{source}");
        assert!(made[0].get("id").is_none(), "{source}");
    }
    assert!(start("compact").is_empty());
}

#[test]
fn sub_agent_start_event_has_a_stable_id() {
    let input = |call: &str| {
        json!({"hook_event_name": "PreToolUse", "session_id": "s", "agent_id": "a", "tool_name": "Read",
            "tool_input": {"path": "x"}, "tool_use_id": call})
    };
    let (first, second) = (events(Host::Codex, &input("1")), events(Host::Codex, &input("2")));
    assert_eq!(first[0], second[0]);
    assert_eq!((&first[0]["parent"], &first[0]["session"]), (&json!("codex:s"), &json!("codex:s/a")));
    assert_ne!(first[1]["id"], second[1]["id"]);
}

#[test]
fn question_tool_becomes_question_and_user_message() {
    let args = json!({"questions": [{"question": "Which one?"}, {"question": "When?"}]});
    let mut input = json!({"hook_event_name": "PreToolUse", "session_id": "s", "tool_name": "AskUserQuestion",
        "tool_input": args, "tool_use_id": "q"});
    let asked = events(Host::ClaudeCode, &input);
    assert_eq!(
        (&asked[0]["type"], &asked[0]["text"]),
        (&json!("question.asked"), &json!("Which one?\nWhen?"))
    );
    input["hook_event_name"] = json!("PostToolUse");
    input["tool_response"] = json!({"answers": {"Which one?": "the red one"}});
    let decoded = events(Host::ClaudeCode, &input);
    assert_eq!(decoded[0]["type"], "user.message");
    assert!(decoded[0]["text"].as_str().unwrap().contains("the red one"));
}

#[test]
fn codex_failures_are_detected_in_every_result_shape() {
    let codex = |response: Value| {
        let input = json!({"hook_event_name": "PostToolUse", "session_id": "s", "tool_name": "Bash",
            "tool_input": {}, "tool_use_id": "c", "tool_response": response});
        events(Host::Codex, &input)[0]["ok"] == true
    };
    assert!(codex(json!("fine")));
    assert!(codex(json!("Exit code: 0\nfine")));
    assert!(codex(json!({"output": "x", "metadata": {"exit_code": 0}})));
    for bad in [
        json!("Exit code: 2\nno"),
        json!({"exit_code": 1}),
        json!({"is_error": true}),
        json!({"isError": true}),
        json!({"success": false}),
        json!({"error": "no"}),
    ] {
        assert!(!codex(bad.clone()), "{bad}");
    }
}

#[test]
fn json_string_arguments_equal_object_arguments() {
    let input = |args: Value| json!({"sessionId": "s", "timestamp": 1, "toolName": "bash", "toolArgs": args});
    let call =
        |args: Value| decode(Host::Copilot, Some("preToolUse"), input(args).to_string().as_bytes()).unwrap();
    assert_eq!(call(json!("{\"a\": 1}")).events, call(json!({"a": 1})).events);
    assert_eq!(call(json!("not json")).tool.unwrap().args, json!("not json"));
}

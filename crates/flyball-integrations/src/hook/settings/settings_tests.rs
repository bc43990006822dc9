//! Tests of installed entries and of the handlers that a host would run.

use super::{HandlerCommand, HookCommand, HookHandler, HookReadiness, check_armed, install, uninstall};
use crate::hook::Host;
use serde_json::{Value, json};

/// Hosts with JSON settings.
fn json_hosts() -> impl Iterator<Item = Host> {
    Host::ALL.into_iter().filter(|host| *host != Host::Opencode)
}

#[test]
fn install_round_trips_every_event() {
    for host in json_hosts() {
        let text = install(host, None, &HookCommand::new("flyball"), false).unwrap().unwrap();
        let value: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value["hooks"].as_object().unwrap().len(), host.events().len(), "{}", host.as_str());
        let HookReadiness::Armed(handlers) = check_armed(host, &text, host.shell_tool()).unwrap() else {
            panic!("{}", host.as_str())
        };
        let events: Vec<&str> = handlers.iter().map(|handler: &HookHandler| handler.event.as_str()).collect();
        assert_eq!(events, host.events().iter().map(|(event, _)| *event).collect::<Vec<_>>());
        for handler in &handlers {
            let line = format!("flyball hook {} --event {}", host.as_str(), handler.event);
            assert_eq!(handler.command, HandlerCommand::Shell(line));
        }
        assert_eq!(install(host, Some(&text), &HookCommand::new("flyball"), false).unwrap(), None);
        assert_eq!(uninstall(host, &text).unwrap().map(|text| text.contains("flyball")), Some(false));
    }
}

#[test]
fn hook_timeouts_use_each_hosts_unit() {
    let timeout = |host: Host, pointer: &str| {
        let text = install(host, None, &HookCommand::new("flyball"), false).unwrap().unwrap();
        serde_json::from_str::<Value>(&text).unwrap().pointer(pointer).cloned()
    };
    assert_eq!(timeout(Host::ClaudeCode, "/hooks/PreToolUse/0/hooks/0/timeout"), Some(json!(10)));
    assert_eq!(timeout(Host::Gemini, "/hooks/BeforeTool/0/hooks/0/timeout"), Some(json!(10_000)));
    assert_eq!(timeout(Host::Copilot, "/hooks/preToolUse/0/timeoutSec"), Some(json!(10)));
}

#[test]
fn install_replaces_entries_with_another_program_path() {
    for host in json_hosts() {
        let old = install(host, None, &HookCommand::new("/old/flyball"), false).unwrap().unwrap();
        let new =
            install(host, Some(&old), &HookCommand::new("\"/new place/flyball\""), false).unwrap().unwrap();
        assert!(!new.contains("/old/"), "{new}");
        let HookReadiness::Armed(handlers) = check_armed(host, &new, host.shell_tool()).unwrap() else {
            panic!("{new}")
        };
        assert_eq!(handlers.len(), host.events().len());
    }
}

#[test]
fn handlers_of_other_hosts_and_programs_are_left_alone() {
    let text = r#"{"hooks": {"PreToolUse": [{"hooks": [
        {"type": "command", "command": "flyball hook codex --event PreToolUse"},
        {"type": "command", "command": "flyball-like hook claude-code"},
        {"type": "command", "command": "flyball hook claude-code-x"}]}]}}"#;
    assert_eq!(uninstall(Host::ClaudeCode, text).unwrap(), None);
    assert!(matches!(check_armed(Host::ClaudeCode, text, "Bash").unwrap(), HookReadiness::NotArmed(_)));
    assert!(matches!(check_armed(Host::Codex, text, "Bash").unwrap(), HookReadiness::Armed(_)));
}

#[test]
fn matcher_follows_each_hosts_rules() {
    let with = |matcher: &str| {
        json!({"hooks": {"PreToolUse": [{"matcher": matcher, "hooks": [
            {"type": "command", "command": "flyball hook HOST --event PreToolUse"}]}]}})
        .to_string()
    };
    for (host, matcher, tool, takes) in [
        (Host::ClaudeCode, "*", "Bash", true),
        (Host::ClaudeCode, "", "Bash", true),
        (Host::ClaudeCode, "Edit|Bash", "Bash", true),
        (Host::ClaudeCode, "Ba", "Bash", false),
        (Host::ClaudeCode, "Ba.*", "Bash", true),
        (Host::Codex, "Ba", "Bash", true),
        (Host::Goose, "*", "developer__shell", false),
        (Host::Goose, "developer__shell|x", "developer__shell", true),
    ] {
        let text = with(matcher).replace("HOST", host.as_str());
        let found = matches!(check_armed(host, &text, tool).unwrap(), HookReadiness::Armed(_));
        assert_eq!(found, takes, "{} {matcher}", host.as_str());
    }
}

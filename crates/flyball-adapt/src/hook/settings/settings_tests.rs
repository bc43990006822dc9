//! What stands in settings, and what a host would run of it.

use super::{Handler, HookCommand, Line, Ready, armed, install, uninstall};
use crate::hook::Host;
use serde_json::{Value, json};

/// The hosts with settings in JSON.
fn json_hosts() -> impl Iterator<Item = Host> {
    Host::ALL.into_iter().filter(|host| *host != Host::Opencode)
}

#[test]
fn every_event_of_the_host_is_installed_and_found_again() {
    for host in json_hosts() {
        let text = install(host, None, &HookCommand::new("flyball"), false).unwrap().unwrap();
        let value: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value["hooks"].as_object().unwrap().len(), host.events().len(), "{}", host.as_str());
        let Ready::Yes(handlers) = armed(host, &text, host.shell()).unwrap() else {
            panic!("{}", host.as_str())
        };
        let events: Vec<&str> = handlers.iter().map(|handler: &Handler| handler.event.as_str()).collect();
        assert_eq!(events, host.events().iter().map(|(event, _)| *event).collect::<Vec<_>>());
        for handler in &handlers {
            let line = format!("flyball hook {} --event {}", host.as_str(), handler.event);
            assert_eq!(handler.line, Line::Shell(line));
        }
        assert_eq!(install(host, Some(&text), &HookCommand::new("flyball"), false).unwrap(), None);
        assert_eq!(uninstall(host, &text).unwrap().map(|text| text.contains("flyball")), Some(false));
    }
}

#[test]
fn the_units_of_timeouts_are_the_hosts_own() {
    let timeout = |host: Host, pointer: &str| {
        let text = install(host, None, &HookCommand::new("flyball"), false).unwrap().unwrap();
        serde_json::from_str::<Value>(&text).unwrap().pointer(pointer).cloned()
    };
    assert_eq!(timeout(Host::ClaudeCode, "/hooks/PreToolUse/0/hooks/0/timeout"), Some(json!(10)));
    assert_eq!(timeout(Host::Gemini, "/hooks/BeforeTool/0/hooks/0/timeout"), Some(json!(10_000)));
    assert_eq!(timeout(Host::Copilot, "/hooks/preToolUse/0/timeoutSec"), Some(json!(10)));
}

#[test]
fn another_path_of_the_program_replaces_the_old_entry() {
    for host in json_hosts() {
        let old = install(host, None, &HookCommand::new("/old/flyball"), false).unwrap().unwrap();
        let new =
            install(host, Some(&old), &HookCommand::new("\"/new place/flyball\""), false).unwrap().unwrap();
        assert!(!new.contains("/old/"), "{new}");
        let Ready::Yes(handlers) = armed(host, &new, host.shell()).unwrap() else { panic!("{new}") };
        assert_eq!(handlers.len(), host.events().len());
    }
}

#[test]
fn handlers_of_others_are_not_ours() {
    let text = r#"{"hooks": {"PreToolUse": [{"hooks": [
        {"type": "command", "command": "flyball hook codex --event PreToolUse"},
        {"type": "command", "command": "flyball-like hook claude-code"},
        {"type": "command", "command": "flyball hook claude-code-x"}]}]}}"#;
    assert_eq!(uninstall(Host::ClaudeCode, text).unwrap(), None);
    assert!(matches!(armed(Host::ClaudeCode, text, "Bash").unwrap(), Ready::No(_)));
    assert!(matches!(armed(Host::Codex, text, "Bash").unwrap(), Ready::Yes(_)));
}

#[test]
fn a_matcher_is_read_as_the_host_reads_it() {
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
        let found = matches!(armed(host, &text, tool).unwrap(), Ready::Yes(_));
        assert_eq!(found, takes, "{} {matcher}", host.as_str());
    }
}

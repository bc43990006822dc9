//! Tool names and arguments of the hosts.

use super::super::call::Tool;
use super::super::host::Host;
use super::is_known_read_only;
use serde_json::{Value, json};

fn reads(host: Host, name: &str, args: Value) -> bool {
    is_known_read_only(host, &Tool { name: name.to_owned(), args })
}

#[test]
fn a_shell_tool_is_rated_by_its_command() {
    for host in Host::ALL {
        assert!(reads(host, host.shell(), json!({"command": "git status && ls"})), "{}", host.as_str());
        assert!(!reads(host, host.shell(), json!({"command": "git status && rm x"})), "{}", host.as_str());
        assert!(!reads(host, host.shell(), json!({})), "{}", host.as_str());
    }
}

#[test]
fn tools_that_are_not_listed_are_effects() {
    let names = [
        "mcp__server__get_x",
        "server__read",
        "MCP:read_file",
        "get_everything",
        "read",
        "PowerShell",
        "Write",
    ];
    for host in Host::ALL {
        for name in names {
            if !(host == Host::Opencode && name == "read") {
                assert!(!reads(host, name, json!({"command": "ls"})), "{} {name}", host.as_str());
            }
        }
    }
}

#[test]
fn arguments_that_change_what_runs_are_effects() {
    for more in [
        json!({"shell": "python3"}),
        json!({"env": {"PATH": "."}}),
        json!({"stdin": "rm x"}),
        json!({"cmd": "rm x"}),
        json!({"args": ["x"]}),
    ] {
        let mut args = json!({"command": "ls", "timeout": 5, "description": "List files"});
        assert!(reads(Host::Codex, "Bash", args.clone()));
        args.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        assert!(!reads(Host::Codex, "Bash", args.clone()), "{args}");
    }
    assert!(reads(Host::Codex, "shell", json!({"command": ["bash", "-lc", "ls"]})));
    assert!(!reads(Host::Codex, "shell", json!({"command": ["bash", "-lc", "rm x"]})));
    assert!(!reads(Host::Codex, "shell", json!({"command": ["ls", 7]})));
}

#[test]
fn arguments_that_were_shortened_are_effects() {
    let args = json!({"a": "x".repeat(200_000), "command": "ls"});
    assert!(!reads(Host::ClaudeCode, "Bash", args));
}

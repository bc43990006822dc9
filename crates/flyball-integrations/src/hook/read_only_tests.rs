//! Read-only classification by tool name and arguments, per host.

use super::super::host::Host;
use super::super::invocation::HookToolCall;
use super::is_known_read_only;
use serde_json::{Value, json};

fn reads(host: Host, name: &str, args: Value) -> bool {
    is_known_read_only(host, &HookToolCall { name: name.to_owned(), args })
}

#[test]
fn shell_tool_is_rated_by_its_command() {
    for host in Host::ALL {
        assert!(reads(host, host.shell_tool(), json!({"command": "git status && ls"})), "{}", host.as_str());
        assert!(
            !reads(host, host.shell_tool(), json!({"command": "git status && rm x"})),
            "{}",
            host.as_str()
        );
        assert!(!reads(host, host.shell_tool(), json!({})), "{}", host.as_str());
    }
}

#[test]
fn unlisted_tools_are_not_read_only() {
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
fn arguments_that_change_what_runs_are_not_read_only() {
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
fn oversized_arguments_are_not_read_only() {
    let args = json!({"a": "x".repeat(200_000), "command": "ls"});
    assert!(!reads(Host::ClaudeCode, "Bash", args));
}

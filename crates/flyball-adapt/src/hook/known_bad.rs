//! A sequence that must not pass: the same call with the same result, six times. `flyball hook HOST test` sends it
//! through the installed hook, in the host's own words.

use super::host::Host;
use serde_json::{Value, json};

/// One call of a hook.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// The event.
    pub event: &'static str,
    /// What is on stdin.
    pub input: Value,
}

/// How often the call is made: five times are allowed, the sixth is not.
const TIMES: u64 = 6;

/// The calls, in order. Only the last one, before the sixth run, must be refused.
#[must_use]
pub fn known_bad(host: Host, session: &str, folder: &str) -> Vec<Step> {
    let mut steps = Vec::new();
    for n in 1..=TIMES {
        let (before, after) = both(host, session, folder, n);
        steps.push(before);
        if n < TIMES {
            steps.push(after);
        }
    }
    steps
}

impl Host {
    /// The shell tool of the host, by its own name.
    #[must_use]
    pub const fn shell(self) -> &'static str {
        match self {
            Host::ClaudeCode | Host::Codex => "Bash",
            Host::Gemini => "run_shell_command",
            Host::Copilot | Host::Opencode => "bash",
            Host::Cursor => "Shell",
            Host::Goose => "developer__shell",
        }
    }
}

fn both(host: Host, session: &str, folder: &str, n: u64) -> (Step, Step) {
    let (tool, args, call) = (host.shell(), json!({"command": "ls"}), format!("call-{n}"));
    let told = "README.md";
    let (mut before, mut after) = match host {
        Host::ClaudeCode | Host::Codex => {
            let base = json!({"session_id": session, "cwd": folder, "tool_name": tool, "tool_input": args,
                "tool_use_id": call, "transcript_path": null, "permission_mode": "default"});
            (base.clone(), with(base, json!({"tool_response": {"stdout": told, "stderr": ""}})))
        }
        Host::Gemini => {
            let base = json!({"session_id": session, "cwd": folder, "transcript_path": "",
                "timestamp": format!("2026-01-01T00:00:{n:02}.000Z"), "tool_name": tool, "tool_input": args});
            (base.clone(), with(base, json!({"tool_response": {"llmContent": told}})))
        }
        Host::Copilot => {
            let base = json!({"sessionId": session, "cwd": folder, "timestamp": 1_767_225_600_000_u64 + n,
                "toolName": tool, "toolArgs": args.to_string()});
            let result = json!({"resultType": "success", "textResultForLlm": told});
            (base.clone(), with(base, json!({"toolResult": result})))
        }
        Host::Cursor => {
            let base = json!({"conversation_id": session, "generation_id": "g1", "workspace_roots": [folder],
                "tool_name": tool, "tool_input": args, "tool_use_id": call});
            (base.clone(), with(base, json!({"tool_output": json!({"output": told}).to_string()})))
        }
        Host::Goose => {
            let base = json!({"session_id": session, "working_dir": folder, "matcher_context": tool,
                "tool_name": tool, "tool_input": args, "tool_call_id": call});
            (base.clone(), base)
        }
        Host::Opencode => {
            let base = json!({"session_id": session, "directory": folder, "call_id": call, "tool": tool, "args": args});
            (base.clone(), with(base, json!({"output": told})))
        }
    };
    let [(first, _), (second, _), ..] = host.events() else {
        return (Step { event: "", input: before }, Step { event: "", input: after });
    };
    let name = if matches!(host, Host::Goose | Host::Opencode) { "event" } else { "hook_event_name" };
    if host != Host::Copilot {
        before = with(before, json!({name: first}));
        after = with(after, json!({name: second}));
    }
    (Step { event: first, input: before }, Step { event: second, input: after })
}

fn with(mut base: Value, more: Value) -> Value {
    if let (Value::Object(base), Value::Object(more)) = (&mut base, more) {
        base.extend(more);
    }
    base
}

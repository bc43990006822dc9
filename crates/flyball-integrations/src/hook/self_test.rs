//! Self-test sequence: the same call with the same result six times, which must be blocked. `flyball hook HOST test`
//! sends it through the installed hook in the host's format.

use super::host::Host;
use serde_json::{Value, json};

/// One hook call of the self-test.
#[derive(Debug, Clone, PartialEq)]
pub struct SelfTestStep {
    /// The event name.
    pub event: &'static str,
    /// The payload on stdin.
    pub input: Value,
}

/// Number of identical calls: five are allowed, the sixth is blocked.
const SELF_TEST_CALLS: u64 = 6;

/// The hook calls in order. Only the last one, before the sixth run, must be denied.
#[must_use]
pub fn self_test_steps(host: Host, session: &str, folder: &str) -> Vec<SelfTestStep> {
    let mut steps = Vec::new();
    for n in 1..=SELF_TEST_CALLS {
        let (before, after) = before_and_after(host, session, folder, n);
        steps.push(before);
        if n < SELF_TEST_CALLS {
            steps.push(after);
        }
    }
    steps
}

impl Host {
    /// The host's name for its shell tool.
    #[must_use]
    pub const fn shell_tool(self) -> &'static str {
        match self {
            Host::ClaudeCode | Host::Codex => "Bash",
            Host::Gemini => "run_shell_command",
            Host::Copilot | Host::Opencode => "bash",
            Host::Cursor => "Shell",
            Host::Goose => "developer__shell",
        }
    }
}

fn before_and_after(host: Host, session: &str, folder: &str, n: u64) -> (SelfTestStep, SelfTestStep) {
    let (tool, args, call) = (host.shell_tool(), json!({"command": "ls"}), format!("call-{n}"));
    let output = "README.md";
    let (mut before, mut after) = match host {
        Host::ClaudeCode | Host::Codex => {
            let base = json!({"session_id": session, "cwd": folder, "tool_name": tool, "tool_input": args,
                "tool_use_id": call, "transcript_path": null, "permission_mode": "default"});
            (base.clone(), merged(base, json!({"tool_response": {"stdout": output, "stderr": ""}})))
        }
        Host::Gemini => {
            let base = json!({"session_id": session, "cwd": folder, "transcript_path": "",
                "timestamp": format!("2026-01-01T00:00:{n:02}.000Z"), "tool_name": tool, "tool_input": args});
            (base.clone(), merged(base, json!({"tool_response": {"llmContent": output}})))
        }
        Host::Copilot => {
            let base = json!({"sessionId": session, "cwd": folder, "timestamp": 1_767_225_600_000_u64 + n,
                "toolName": tool, "toolArgs": args.to_string()});
            let result = json!({"resultType": "success", "textResultForLlm": output});
            (base.clone(), merged(base, json!({"toolResult": result})))
        }
        Host::Cursor => {
            let base = json!({"conversation_id": session, "generation_id": "g1", "workspace_roots": [folder],
                "tool_name": tool, "tool_input": args, "tool_use_id": call});
            (base.clone(), merged(base, json!({"tool_output": json!({"output": output}).to_string()})))
        }
        Host::Goose => {
            let base = json!({"session_id": session, "working_dir": folder, "matcher_context": tool,
                "tool_name": tool, "tool_input": args, "tool_call_id": call});
            (base.clone(), base)
        }
        Host::Opencode => {
            let base = json!({"session_id": session, "directory": folder, "call_id": call, "tool": tool, "args": args});
            (base.clone(), merged(base, json!({"output": output})))
        }
    };
    let [(first, _), (second, _), ..] = host.events() else {
        return (SelfTestStep { event: "", input: before }, SelfTestStep { event: "", input: after });
    };
    let name = if matches!(host, Host::Goose | Host::Opencode) { "event" } else { "hook_event_name" };
    if host != Host::Copilot {
        before = merged(before, json!({name: first}));
        after = merged(after, json!({name: second}));
    }
    (SelfTestStep { event: first, input: before }, SelfTestStep { event: second, input: after })
}

fn merged(mut base: Value, more: Value) -> Value {
    if let (Value::Object(base), Value::Object(more)) = (&mut base, more) {
        base.extend(more);
    }
    base
}

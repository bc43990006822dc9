//! Hook inputs of each host, as documented.

use flyball_integrations::hook::Host;
use serde_json::{Value, json};

/// A session of a host.
pub(crate) struct HostPayloads {
    pub(crate) host: Host,
    pub(crate) session: String,
    pub(crate) folder: String,
}

/// How a call ended.
pub(crate) enum ToolCallEnd<'a> {
    Succeeded(&'a Value),
    Failed(&'a Value),
}

/// An event and its payload.
pub(crate) type HostInput = (&'static str, Value);

impl HostPayloads {
    fn base(&self, event: &str, stamp: u64) -> Value {
        let (session, folder) = (&self.session, &self.folder);
        match self.host {
            Host::ClaudeCode | Host::Codex => {
                json!({"session_id": session, "cwd": folder, "hook_event_name": event,
                "transcript_path": null, "permission_mode": "default", "turn_id": format!("t-{stamp}")})
            }
            Host::Gemini => json!({"session_id": session, "cwd": folder, "hook_event_name": event,
                "transcript_path": "", "timestamp": format!("2026-01-01T00:00:00.{stamp:03}Z")}),
            Host::Copilot => {
                json!({"sessionId": session, "cwd": folder, "timestamp": 1_767_225_600_000 + stamp})
            }
            Host::Cursor => json!({"conversation_id": session, "workspace_roots": [folder],
                "hook_event_name": event, "generation_id": format!("g-{stamp}")}),
            Host::Goose => json!({"session_id": session, "working_dir": folder, "event": event}),
            Host::Opencode => json!({"session_id": session, "directory": folder, "event": event}),
        }
    }

    fn host_input(&self, event: &'static str, stamp: u64, more: Value) -> HostInput {
        let mut base = self.base(event, stamp);
        base.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        (event, base)
    }

    fn call_fields(&self, call: &str, tool: &str, args: &Value) -> Value {
        match self.host {
            Host::ClaudeCode | Host::Codex | Host::Cursor => {
                json!({"tool_name": tool, "tool_input": args, "tool_use_id": call})
            }
            Host::Gemini => json!({"tool_name": tool, "tool_input": args}),
            Host::Copilot => json!({"toolName": tool, "toolArgs": args.to_string()}),
            Host::Goose => json!({"tool_name": tool, "tool_input": args, "tool_call_id": call}),
            Host::Opencode => json!({"tool": tool, "args": args, "call_id": call}),
        }
    }

    /// A tool is about to run.
    pub(crate) fn before_tool(&self, stamp: u64, call: &str, tool: &str, args: &Value) -> HostInput {
        self.host_input(self.host.events()[0].0, stamp, self.call_fields(call, tool, args))
    }

    /// A tool has run.
    pub(crate) fn after_tool(
        &self,
        stamp: u64,
        call: &str,
        tool: &str,
        args: &Value,
        ended: &ToolCallEnd<'_>,
    ) -> HostInput {
        let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let (event, more) = match (self.host, ended) {
            (Host::ClaudeCode, ToolCallEnd::Succeeded(output)) => {
                ("PostToolUse", json!({"tool_response": output}))
            }
            (Host::ClaudeCode, ToolCallEnd::Failed(error)) => ("PostToolUseFailure", json!({"error": error})),
            (Host::Codex, ToolCallEnd::Succeeded(output)) => {
                ("PostToolUse", json!({"tool_response": output}))
            }
            (Host::Codex, ToolCallEnd::Failed(error)) => {
                ("PostToolUse", json!({"tool_response": {"error": error, "is_error": true}}))
            }
            (Host::Gemini, ToolCallEnd::Succeeded(output)) => {
                ("AfterTool", json!({"tool_response": {"llmContent": output}}))
            }
            (Host::Gemini, ToolCallEnd::Failed(error)) => {
                ("AfterTool", json!({"tool_response": {"llmContent": "", "error": {"message": error}}}))
            }
            (Host::Copilot, ToolCallEnd::Succeeded(output)) => (
                "postToolUse",
                json!({"toolResult": {"resultType": "success", "textResultForLlm": text(output)}}),
            ),
            (Host::Copilot, ToolCallEnd::Failed(error)) => {
                ("postToolUseFailure", json!({"error": text(error)}))
            }
            (Host::Cursor, ToolCallEnd::Succeeded(output)) => {
                ("postToolUse", json!({"tool_output": text(output)}))
            }
            (Host::Cursor, ToolCallEnd::Failed(error)) => {
                ("postToolUseFailure", json!({"error_message": error, "failure_type": "error"}))
            }
            (Host::Goose, ToolCallEnd::Succeeded(output)) => ("PostToolUse", json!({"tool_output": output})),
            (Host::Goose, ToolCallEnd::Failed(error)) => ("PostToolUseFailure", json!({"error": error})),
            (Host::Opencode, ToolCallEnd::Succeeded(output)) => {
                ("tool.execute.after", json!({"output": text(output)}))
            }
            (Host::Opencode, ToolCallEnd::Failed(error)) => {
                ("tool.execute.after", json!({"output": text(error), "metadata": {"exit": 1}}))
            }
        };
        let mut call = self.call_fields(call, tool, args);
        call.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        self.host_input(event, stamp, call)
    }

    /// The user denied a call; only some hosts report it.
    pub(crate) fn tool_denied(&self, stamp: u64, call: &str, tool: &str, args: &Value) -> Option<HostInput> {
        let more = match self.host {
            Host::ClaudeCode => json!({"error": "interrupted", "is_interrupt": true}),
            Host::Cursor => json!({"error_message": "no", "failure_type": "permission_denied"}),
            _ => return None,
        };
        let mut call = self.call_fields(call, tool, args);
        call.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let event = if self.host == Host::Cursor { "postToolUseFailure" } else { "PostToolUseFailure" };
        Some(self.host_input(event, stamp, call))
    }

    /// A prompt; `source` is Claude Code's name for its origin.
    pub(crate) fn prompt(&self, stamp: u64, text: &str, source: &str) -> HostInput {
        let event = match self.host {
            Host::ClaudeCode | Host::Codex | Host::Goose => "UserPromptSubmit",
            Host::Gemini => "BeforeAgent",
            Host::Copilot => "userPromptSubmitted",
            Host::Cursor => "beforeSubmitPrompt",
            Host::Opencode => "chat.message",
        };
        let more = match self.host {
            Host::ClaudeCode => json!({"prompt": text, "source": source}),
            Host::Goose => json!({"message": text}),
            Host::Opencode => json!({"text": text, "message_id": format!("m-{stamp}")}),
            _ => json!({"prompt": text}),
        };
        self.host_input(event, stamp, more)
    }

    /// The agent ends its turn with a message; not all hosts report the message.
    pub(crate) fn turn_ended(&self, stamp: u64, text: &str) -> Option<HostInput> {
        Some(match self.host {
            Host::ClaudeCode | Host::Codex | Host::Goose => self.host_input(
                "Stop",
                stamp,
                json!({"last_assistant_message": text, "stop_hook_active": false}),
            ),
            Host::Gemini => {
                self.host_input("AfterAgent", stamp, json!({"prompt": "", "prompt_response": text}))
            }
            Host::Cursor => self.host_input("afterAgentResponse", stamp, json!({"text": text})),
            Host::Opencode => self.host_input("session.idle", stamp, json!({"text": text})),
            Host::Copilot => return None,
        })
    }

    /// The session starts.
    pub(crate) fn session_started(&self, source: &str) -> HostInput {
        let event = match self.host {
            Host::Copilot | Host::Cursor => "sessionStart",
            Host::Opencode => "session.created",
            _ => "SessionStart",
        };
        self.host_input(event, 0, json!({"source": source}))
    }

    /// The tool with which the host asks its user a question.
    pub(crate) fn question(&self, text: &str) -> Option<(&'static str, Value)> {
        match self.host {
            Host::ClaudeCode => {
                Some(("AskUserQuestion", json!({"questions": [{"question": text, "options": []}]})))
            }
            Host::Codex => Some(("request_user_input", json!({"questions": [{"question": text}]}))),
            Host::Gemini => Some(("ask_user", json!({"questions": [{"question": text}]}))),
            Host::Copilot => Some(("ask_user", json!({"question": text}))),
            Host::Opencode => Some(("question", json!({"questions": [{"question": text}]}))),
            Host::Cursor | Host::Goose => None,
        }
    }
}

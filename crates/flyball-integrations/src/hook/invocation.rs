//! A decoded hook call and its phase.

use super::host::Host;
use flyball::MessageOrigin;
use serde_json::Value;
use std::sync::Arc;

/// The point in the host's work at which a hook runs; determines which replies are possible.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum HookPhase {
    /// A tool is about to run.
    BeforeTool,
    /// A tool has finished, successfully or not.
    AfterTool,
    /// All tool calls of one model response have finished.
    AfterBatch,
    /// A person prompts the agent, or a scheduler wakes it.
    Prompt,
    /// The agent or a sub-agent has ended its turn.
    Stop,
    /// A session starts or resumes.
    SessionStart,
    /// The host is about to ask its user for permission.
    Permission,
    /// An event that expects no reply.
    Notification,
    /// An event that Flyball does not know.
    Unknown,
}

/// A tool and its arguments.
#[derive(Debug, Clone, PartialEq)]
pub struct HookToolCall {
    /// The host's name for the tool.
    pub name: String,
    /// The arguments.
    pub args: Value,
}

/// A decoded hook call.
#[derive(Debug, Clone, PartialEq)]
pub struct HookInvocation {
    /// The host.
    pub host: Host,
    /// The event name, as the host writes it.
    pub event: String,
    /// The phase of the event.
    pub phase: HookPhase,
    /// The session: `HOST:ID`, or `HOST:ID/AGENT` for a sub-agent.
    pub session: String,
    /// The agent's working directory.
    pub cwd: Option<String>,
    /// The origin of a prompt.
    pub origin: MessageOrigin,
    /// The tool, for events before and after a call.
    pub tool: Option<Arc<HookToolCall>>,
    /// The events as JSON, in order and without timestamps.
    pub events: Vec<Value>,
    /// Prefix of the call id under which the request was stored, if the host does not provide call ids. The caller
    /// finds the request among the session's last events with [`super::find_open_request`].
    pub unpaired_call_prefix: Option<String>,
}

impl HookInvocation {
    /// Whether the tool asks the user a question.
    #[must_use]
    pub fn is_question(&self) -> bool {
        self.events.last().is_some_and(|event| event.get("type").is_some_and(|kind| kind == "question.asked"))
    }
}

/// Hook input that does not match the host's format.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HookInputError {
    /// The error message.
    pub message: String,
    /// The host's phase, if the command line names the event.
    pub phase: HookPhase,
}

impl HookInputError {
    /// The stable code of this error.
    pub const CODE: &'static str = "hook_input";
    /// Help text for this error.
    pub const HELP: &'static str =
        "this command is called by the host; to try it, run `flyball hook HOST test`";
}

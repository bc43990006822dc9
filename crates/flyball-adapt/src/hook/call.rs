//! One call of a hook: what the host has told, in the words of the contract.

use super::host::Host;
use flyball::Origin;
use serde_json::Value;
use std::sync::Arc;

/// Where in its work the host stands, and so what may be answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Moment {
    /// A tool is about to run.
    BeforeTool,
    /// A tool has run, well or badly.
    AfterTool,
    /// All tools of one answer of the model have run.
    AfterBatch,
    /// Somebody speaks to the agent, or a scheduler wakes it.
    Prompt,
    /// The agent, or a sub-agent, has ended its turn.
    Stop,
    /// A session begins or goes on.
    SessionStart,
    /// The host is about to ask its user for a permission.
    Permission,
    /// Something that is only told.
    Fact,
    /// An event that Flyball does not know.
    Unknown,
}

/// A tool with its arguments.
#[derive(Debug, Clone, PartialEq)]
pub struct Tool {
    /// The name as the host writes it.
    pub name: String,
    /// Its arguments.
    pub args: Value,
}

/// What a host has told.
#[derive(Debug, Clone, PartialEq)]
pub struct Call {
    /// The host.
    pub host: Host,
    /// The event, as the host writes it.
    pub event: String,
    /// What it stands for.
    pub moment: Moment,
    /// The session that its events belong to: `HOST:ID`, and `HOST:ID/AGENT` for a sub-agent.
    pub session: String,
    /// The folder that the agent works in.
    pub cwd: Option<String>,
    /// Who speaks, on a prompt.
    pub origin: Origin,
    /// The tool, before and after its run.
    pub tool: Option<Arc<Tool>>,
    /// The events, as JSON, in order. They name no time.
    pub events: Vec<Value>,
    /// The host gives its calls no ids: the beginning of the id that the request of this call was stored under. The
    /// caller looks for it among the session's last events, with [`super::pair`].
    pub unpaired: Option<String>,
}

impl Call {
    /// The tool is one by which the agent asks its user something.
    #[must_use]
    pub fn is_question(&self) -> bool {
        self.events.last().is_some_and(|event| event.get("type").is_some_and(|kind| kind == "question.asked"))
    }
}

/// What was on stdin was not what the host sends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Garbled {
    /// What is wrong with it.
    pub what: String,
    /// What the host was doing, as far as the command line says.
    pub moment: Moment,
}

impl Garbled {
    /// The stable code of this error.
    pub const CODE: &'static str = "hook_input";
    /// What to do about it.
    pub const ADVICE: &'static str =
        "the command is meant to be called by the host: see `flyball hook HOST test`";
}

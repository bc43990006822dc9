//! What is said to a model and what it answers, in words of our own that no protocol can change under us.
//!
//! A [`Message`] is stored in the journal and read back when a run goes on, so its JSON is kept stable by a test.

use super::limits::CHARS_A_TOKEN;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::time::Duration;

/// How much of a node's name goes into the id of a call; some providers take only short ones.
const ID_CHARS: usize = 20;

/// What a model is asked.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Request {
    /// Who asks: the node of the workflow.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Which turn of that node this is in its session, counted from 1; 0 means 1.
    pub turn: u64,
    /// Where this turn begins in `messages`: 0 if every turn is a conversation of its own.
    pub turn_from: usize,
    /// What the model is told before everything else.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system: Option<String>,
    /// The conversation so far.
    pub messages: Vec<Message>,
    /// The tools that it may call.
    pub tools: Vec<ToolSpec>,
    /// The most tokens that it may write.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u64>,
    /// What remains of the turn's budget: connecting, waiting and trying again all end with it.
    #[serde(skip)]
    pub deadline: Option<Duration>,
}

/// A tool that a model may call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolSpec {
    /// Its name: letters, digits, `_` and `-`.
    pub name: String,
    /// What it does, for the model.
    pub description: String,
    /// The JSON schema of its arguments: an object.
    pub schema: Value,
}

/// One message of a conversation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "snake_case")]
pub enum Message {
    /// From a person, or from the runner in a person's place.
    User {
        /// What it says.
        text: String,
    },
    /// From the model.
    Assistant {
        /// What it says.
        #[serde(default)]
        text: String,
        /// The tools that it calls.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        calls: Vec<Call>,
    },
    /// What became of a tool call.
    #[serde(rename = "tool")]
    ToolResult {
        /// The id of the call.
        call: String,
        /// What the tool said.
        text: String,
        /// Whether it succeeded.
        ok: bool,
    },
}

/// A tool call of a model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Call {
    /// Its id: unique inside one answer.
    pub id: String,
    /// The tool.
    pub name: String,
    /// The arguments: an object.
    pub args: Value,
}

impl Message {
    /// A message from a person.
    #[must_use]
    pub fn user(text: impl Into<String>) -> Self {
        Message::User { text: text.into() }
    }

    /// A message from the model, without tool calls.
    #[must_use]
    pub fn assistant(text: impl Into<String>) -> Self {
        Message::Assistant { text: text.into(), calls: Vec::new() }
    }

    /// The result of a tool call.
    #[must_use]
    pub fn result(call: impl Into<String>, ok: bool, text: impl Into<String>) -> Self {
        Message::ToolResult { call: call.into(), text: text.into(), ok }
    }

    /// What it says.
    #[must_use]
    pub fn text(&self) -> &str {
        match self {
            Message::User { text } | Message::Assistant { text, .. } | Message::ToolResult { text, .. } => {
                text
            }
        }
    }

    /// Whether the model said it.
    #[must_use]
    pub const fn is_assistant(&self) -> bool {
        matches!(self, Message::Assistant { .. })
    }
}

impl Request {
    /// A conversation that begins with one message.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        Request { messages: vec![Message::user(text)], ..Request::default() }
    }

    /// Which turn of its node this is, counted from 1.
    #[must_use]
    pub fn turn(&self) -> u64 {
        self.turn.max(1)
    }

    /// Which answer of this turn is asked for, counted from 1. It follows from the conversation alone, so a run that
    /// was killed and resumed asks for the same one.
    #[must_use]
    pub fn round(&self) -> usize {
        let this_turn = self.messages.get(self.turn_from..).unwrap_or_default();
        this_turn.iter().filter(|message| message.is_assistant()).count() + 1
    }

    /// An id for a call that came without one: the same for the same place in the conversation.
    #[must_use]
    pub(super) fn call_id(&self, index: usize) -> String {
        let plain = |c: &char| c.is_ascii_alphanumeric() || *c == '_' || *c == '-';
        let node: String =
            self.node.as_deref().unwrap_or("call").chars().filter(plain).take(ID_CHARS).collect();
        format!("{node}-{}-{}-{}", self.turn(), self.round(), index + 1)
    }

    /// How many tokens it may be, where nobody counts them for us.
    #[must_use]
    pub fn estimate(&self) -> u64 {
        let system = self.system.as_deref().map_or(0, chars);
        let said: u64 = self.messages.iter().map(said_chars).sum();
        let tool = |tool: &ToolSpec| chars(&tool.name) + chars(&tool.description) + json_chars(&tool.schema);
        let tools: u64 = self.tools.iter().map(tool).sum();
        (system + said + tools).div_ceil(CHARS_A_TOKEN)
    }
}

fn said_chars(message: &Message) -> u64 {
    let calls = match message {
        Message::Assistant { calls, .. } => calls.as_slice(),
        Message::User { .. } | Message::ToolResult { .. } => &[],
    };
    chars(message.text()) + calls.iter().map(|call| chars(&call.name) + json_chars(&call.args)).sum::<u64>()
}

fn chars(text: &str) -> u64 {
    text.chars().count() as u64
}

fn json_chars(value: &Value) -> u64 {
    chars(&value.to_string())
}

/// What a model answered.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Reply {
    /// What it said.
    pub text: String,
    /// The tools that it calls.
    pub calls: Vec<Call>,
    /// Why it stopped.
    pub stop: Stop,
    /// What it cost.
    pub usage: Usage,
    /// Which model answered, as it says itself.
    pub model: String,
    /// Tool calls that cannot be run, because their arguments are no JSON object. They are in none of `calls`.
    pub malformed: Vec<MalformedCall>,
}

/// A tool call whose arguments are no JSON object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MalformedCall {
    /// Its id.
    pub id: String,
    /// The tool.
    pub name: String,
    /// The arguments as they came.
    pub raw: String,
    /// What is wrong with them.
    pub error: String,
}

/// Why a model stopped.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Stop {
    /// It has said what it had to say.
    #[default]
    End,
    /// It wants tools to be called.
    ToolCalls,
    /// It may not write more tokens.
    MaxTokens,
    /// It refused, or a filter did.
    Refused,
    /// Something else, in the words of the provider.
    Other(String),
}

impl Stop {
    /// The word for it.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Stop::End => "end",
            Stop::ToolCalls => "tool_calls",
            Stop::MaxTokens => "max_tokens",
            Stop::Refused => "refused",
            Stop::Other(word) => word,
        }
    }

    /// The reason for a word: ours, OpenAI's or Anthropic's.
    #[must_use]
    pub fn from_word(word: &str) -> Self {
        match word {
            "end" | "stop" | "end_turn" | "stop_sequence" => Stop::End,
            "tool_calls" | "tool_use" | "function_call" => Stop::ToolCalls,
            "max_tokens" | "length" => Stop::MaxTokens,
            "refused" | "refusal" | "content_filter" => Stop::Refused,
            other => Stop::Other(other.to_owned()),
        }
    }
}

impl Serialize for Stop {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// What an answer cost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Usage {
    /// All tokens that went in, cached or not.
    pub tokens_in: u64,
    /// Tokens that came out.
    pub tokens_out: u64,
    /// Of those that went in, read from the provider's cache.
    pub cached_in: u64,
    /// Of those that went in, written to the provider's cache.
    pub cache_write_in: u64,
    /// Millionths of a dollar; nothing if the file gives no price.
    pub cost_micros: Option<u64>,
    /// Nobody counted: the tokens are the characters divided by four.
    pub estimated: bool,
}

impl Reply {
    /// The message to keep in the conversation.
    #[must_use]
    pub fn message(&self) -> Message {
        Message::Assistant { text: self.text.clone(), calls: self.calls.clone() }
    }
}

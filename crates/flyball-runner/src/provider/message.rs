//! Protocol-independent messages to and from a model.
//!
//! A [`ChatMessage`] is stored and read back when a run resumes, so a test keeps its JSON stable.

use super::limits::CHARS_PER_TOKEN;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::time::Duration;

/// Maximum length of the node name in a generated call id; some providers accept only short ids.
const MAX_ID_NODE_CHARS: usize = 20;

/// A request to a model.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct ModelRequest {
    /// Workflow node that asks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Turn number of the node in its session, starting at 1; 0 means 1.
    pub turn: u64,
    /// Index in `messages` where this turn starts; 0 if every turn is a separate conversation.
    pub turn_from: usize,
    /// System prompt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system: Option<String>,
    /// Conversation so far.
    pub messages: Vec<ChatMessage>,
    /// Tools it may call.
    pub tools: Vec<ModelToolSpec>,
    /// Maximum number of output tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u64>,
    /// Remaining time of the turn; it bounds connecting, waiting and retries.
    #[serde(skip)]
    pub deadline: Option<Duration>,
}

/// A tool that a model may call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModelToolSpec {
    /// Name: letters, digits, `_` and `-`.
    pub name: String,
    /// Description for the model.
    pub description: String,
    /// JSON Schema of its arguments: an object.
    pub schema: Value,
}

/// A message of a conversation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "snake_case")]
pub enum ChatMessage {
    /// From a person, or from the runner on behalf of a person.
    User {
        /// Text.
        text: String,
    },
    /// From the model.
    Assistant {
        /// Text.
        #[serde(default)]
        text: String,
        /// Tool calls.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        calls: Vec<ModelToolCall>,
    },
    /// Result of a tool call.
    #[serde(rename = "tool")]
    ToolResult {
        /// Call id.
        call: String,
        /// Output of the tool.
        text: String,
        /// Whether it succeeded.
        ok: bool,
    },
}

/// A tool call of a model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModelToolCall {
    /// Id, unique within a reply.
    pub id: String,
    /// Tool name.
    pub name: String,
    /// Arguments: an object.
    pub args: Value,
}

impl ChatMessage {
    /// A message from a person.
    #[must_use]
    pub fn user(text: impl Into<String>) -> Self {
        ChatMessage::User { text: text.into() }
    }

    /// A message from the model, without tool calls.
    #[must_use]
    pub fn assistant(text: impl Into<String>) -> Self {
        ChatMessage::Assistant { text: text.into(), calls: Vec::new() }
    }

    /// The result of a tool call.
    #[must_use]
    pub fn result(call: impl Into<String>, ok: bool, text: impl Into<String>) -> Self {
        ChatMessage::ToolResult { call: call.into(), text: text.into(), ok }
    }

    /// Text of the message.
    #[must_use]
    pub fn text(&self) -> &str {
        match self {
            ChatMessage::User { text }
            | ChatMessage::Assistant { text, .. }
            | ChatMessage::ToolResult { text, .. } => text,
        }
    }

    /// Whether it is from the model.
    #[must_use]
    pub const fn is_assistant(&self) -> bool {
        matches!(self, ChatMessage::Assistant { .. })
    }
}

impl ModelRequest {
    /// A conversation that starts with one message.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        ModelRequest { messages: vec![ChatMessage::user(text)], ..ModelRequest::default() }
    }

    /// Turn number of its node, starting at 1.
    #[must_use]
    pub fn turn(&self) -> u64 {
        self.turn.max(1)
    }

    /// Number of the requested reply in this turn, starting at 1. Derived from the conversation alone, so a resumed run
    /// requests the same one.
    #[must_use]
    pub fn round(&self) -> usize {
        let this_turn = self.messages.get(self.turn_from..).unwrap_or_default();
        this_turn.iter().filter(|message| message.is_assistant()).count() + 1
    }

    /// Generated id for a call without one; deterministic by position in the conversation.
    #[must_use]
    pub(super) fn call_id(&self, index: usize) -> String {
        let plain = |c: &char| c.is_ascii_alphanumeric() || *c == '_' || *c == '-';
        let node: String =
            self.node.as_deref().unwrap_or("call").chars().filter(plain).take(MAX_ID_NODE_CHARS).collect();
        format!("{node}-{}-{}-{}", self.turn(), self.round(), index + 1)
    }

    /// Estimated token count, if the provider does not report one.
    #[must_use]
    pub fn estimate_tokens(&self) -> u64 {
        let system = self.system.as_deref().map_or(0, chars);
        let said: u64 = self.messages.iter().map(message_chars).sum();
        let tool =
            |tool: &ModelToolSpec| chars(&tool.name) + chars(&tool.description) + json_chars(&tool.schema);
        let tools: u64 = self.tools.iter().map(tool).sum();
        (system + said + tools).div_ceil(CHARS_PER_TOKEN)
    }
}

fn message_chars(message: &ChatMessage) -> u64 {
    let calls = match message {
        ChatMessage::Assistant { calls, .. } => calls.as_slice(),
        ChatMessage::User { .. } | ChatMessage::ToolResult { .. } => &[],
    };
    chars(message.text()) + calls.iter().map(|call| chars(&call.name) + json_chars(&call.args)).sum::<u64>()
}

fn chars(text: &str) -> u64 {
    text.chars().count() as u64
}

fn json_chars(value: &Value) -> u64 {
    chars(&value.to_string())
}

/// A reply of a model.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct ModelReply {
    /// Text.
    pub text: String,
    /// Tool calls.
    pub calls: Vec<ModelToolCall>,
    /// Why the model stopped.
    pub stop: FinishReason,
    /// Tokens and cost.
    pub usage: ModelUsage,
    /// Model name, as reported.
    pub model: String,
    /// Tool calls whose arguments are not a JSON object; not included in `calls`.
    pub malformed: Vec<MalformedCall>,
}

/// A tool call whose arguments are not a JSON object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MalformedCall {
    /// Call id.
    pub id: String,
    /// Tool name.
    pub name: String,
    /// Raw arguments.
    pub raw: String,
    /// Parse error.
    pub error: String,
}

/// Why a model stopped.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum FinishReason {
    /// Finished.
    #[default]
    End,
    /// Requested tool calls.
    ToolCalls,
    /// Reached the token limit.
    MaxTokens,
    /// Refused, or a filter did.
    Refused,
    /// Another reason, as reported by the provider.
    Other(String),
}

impl FinishReason {
    /// Name as stored.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            FinishReason::End => "end",
            FinishReason::ToolCalls => "tool_calls",
            FinishReason::MaxTokens => "max_tokens",
            FinishReason::Refused => "refused",
            FinishReason::Other(word) => word,
        }
    }

    /// Parses a reason as written by Flyball, OpenAI or Anthropic.
    #[must_use]
    pub fn from_wire(word: &str) -> Self {
        match word {
            "end" | "stop" | "end_turn" | "stop_sequence" => FinishReason::End,
            "tool_calls" | "tool_use" | "function_call" => FinishReason::ToolCalls,
            "max_tokens" | "length" => FinishReason::MaxTokens,
            "refused" | "refusal" | "content_filter" => FinishReason::Refused,
            other => FinishReason::Other(other.to_owned()),
        }
    }
}

impl Serialize for FinishReason {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// Tokens and cost of a reply.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct ModelUsage {
    /// Input tokens, cached or not.
    pub tokens_in: u64,
    /// Output tokens.
    pub tokens_out: u64,
    /// Input tokens read from the provider's cache.
    pub cached_in: u64,
    /// Input tokens written to the provider's cache.
    pub cache_write_in: u64,
    /// Cost in millionths of a dollar; `None` without a configured price.
    pub cost_micros: Option<u64>,
    /// The counts are estimates: characters divided by four.
    pub estimated: bool,
}

impl ModelReply {
    /// The message for the conversation.
    #[must_use]
    pub fn message(&self) -> ChatMessage {
        ChatMessage::Assistant { text: self.text.clone(), calls: self.calls.clone() }
    }
}

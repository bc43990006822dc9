//! Conversation entries common to all three protocols: messages, tool calls and tool results.

use flyball::Fingerprint;
use serde_json::Value;

/// Prefix of answers written by the proxy, by which they are recognized when a client sends them back.
pub(super) const OWN_ANSWER_PREFIX: &str = "[flyball]";

/// A tool call in an answer.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ProxyToolCall {
    /// The provider's id; empty if there is none.
    pub(super) id: String,
    /// The tool name.
    pub(super) name: String,
    /// The arguments; the raw text if it is not JSON.
    pub(super) args: Value,
}

/// One entry of a conversation.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum ConversationEntry {
    /// A message to the model.
    User {
        /// The text.
        text: String,
        /// Whether it shares a message with tool results, which means that a program wrote it.
        with_tool_results: bool,
    },
    /// An answer of the model.
    Answer {
        /// The text.
        text: String,
        /// The tool calls.
        calls: Vec<ProxyToolCall>,
    },
    /// An answer that the proxy gave instead of the model, sent back by the client. It is not recorded.
    OwnAnswer,
    /// A tool result.
    ToolResult {
        /// The call id.
        call: String,
        /// Whether the call succeeded, if the protocol says so.
        ok: Option<bool>,
        /// The output.
        output: Value,
    },
}

impl ConversationEntry {
    /// An answer entry, if it has text or calls.
    pub(super) fn answer(text: String, calls: Vec<ProxyToolCall>) -> Option<Self> {
        if !calls.is_empty() {
            return Some(ConversationEntry::Answer { text, calls });
        }
        match text.trim() {
            "" => None,
            own if own.starts_with(OWN_ANSWER_PREFIX) => Some(ConversationEntry::OwnAnswer),
            _ => Some(ConversationEntry::Answer { text, calls }),
        }
    }

    /// The key that identifies the entry when a client sends it again. Results are identified by their call only,
    /// because clients shorten old results; answers with calls by the calls only, because clients trim their text.
    pub(super) fn key(&self) -> Fingerprint {
        match self {
            ConversationEntry::User { text, .. } => {
                Fingerprint::of_text("user").combine(text_fingerprint(text))
            }
            ConversationEntry::Answer { text, calls } if calls.is_empty() => {
                Fingerprint::of_text("answer").combine(text_fingerprint(text))
            }
            ConversationEntry::Answer { calls, .. } => {
                calls.iter().fold(Fingerprint::of_text("calls"), |sum, call| sum.combine(call.key()))
            }
            ConversationEntry::OwnAnswer => Fingerprint::of_text("own"),
            ConversationEntry::ToolResult { call, output, .. } if call.is_empty() => {
                Fingerprint::of_text("output").combine(Fingerprint::of_text(&output.to_string()))
            }
            ConversationEntry::ToolResult { call, .. } => {
                Fingerprint::of_text("result").combine(Fingerprint::of_text(call))
            }
        }
    }

    /// Whether the entry is unique: an answer with call ids.
    pub(super) fn is_unique(&self) -> bool {
        let ConversationEntry::Answer { calls, .. } = self else { return false };
        !calls.is_empty() && calls.iter().all(|call| !call.id.is_empty())
    }

    /// Whether it is an answer of the model or of the proxy.
    pub(super) const fn is_answer(&self) -> bool {
        matches!(self, ConversationEntry::Answer { .. } | ConversationEntry::OwnAnswer)
    }
}

impl ProxyToolCall {
    fn key(&self) -> Fingerprint {
        let args = Fingerprint::of_text(&flyball::canonical_json(&self.args));
        Fingerprint::of_text(&self.id).combine(Fingerprint::of_text(&self.name)).combine(args)
    }
}

/// Whether the user entry at `at` comes from a person: it starts the conversation, or follows an answer without calls
/// or another entry from a person. Text after tool results was added by a program.
pub(super) fn is_human(entries: &[ConversationEntry], at: usize) -> bool {
    for entry in entries.iter().take(at + 1).rev() {
        match entry {
            ConversationEntry::User { with_tool_results: false, .. } => {}
            ConversationEntry::Answer { calls, .. } => return calls.is_empty(),
            ConversationEntry::OwnAnswer => return true,
            ConversationEntry::User { .. } | ConversationEntry::ToolResult { .. } => return false,
        }
    }
    true
}

/// Parses call arguments from the model's text.
pub(super) fn parse_arguments(text: &str) -> Value {
    if text.trim().is_empty() {
        return Value::Object(serde_json::Map::new());
    }
    serde_json::from_str(text).unwrap_or_else(|_| Value::from(text))
}

/// The text of a content value, which is a string or a list of parts.
pub(super) fn text_of(content: Option<&Value>) -> String {
    match content {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(parts)) => {
            let texts: Vec<&str> = parts.iter().filter_map(part_text).collect();
            texts.join("\n")
        }
        _ => String::new(),
    }
}

fn part_text(part: &Value) -> Option<&str> {
    part.as_str().or_else(|| part.get("text").and_then(Value::as_str))
}

/// A string field of an object; empty if missing.
pub(super) fn str_field(value: &Value, key: &str) -> String {
    value.get(key).and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// A tool's output: its text, or else the raw value.
pub(super) fn tool_output(content: Option<&Value>) -> Value {
    let text = text_of(content);
    match content {
        Some(other) if text.is_empty() && !matches!(other, Value::String(_)) => other.clone(),
        _ => Value::from(text),
    }
}

/// Fingerprint of a text, ignoring whitespace.
fn text_fingerprint(text: &str) -> Fingerprint {
    let mut flat = String::with_capacity(text.len());
    for word in text.split_whitespace() {
        flat.push_str(word);
        flat.push(' ');
    }
    Fingerprint::of_text(&flat)
}

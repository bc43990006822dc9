//! Scripts: the server's replies, from a file or created in a test.

use crate::response_plan::ResponsePlan;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// The server's replies, request by request.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ServerScript {
    /// The key that every request must have; without one, any request is accepted.
    pub key: Option<String>,
    /// How the reply to a request is selected.
    pub pick: ReplySelection,
    /// Behavior after the last reply.
    pub repeat: RepeatMode,
    /// Parameters that this server rejects as unknown, as some compatible servers do: `stream_options`, `max_tokens`.
    pub refuse: Vec<String>,
    /// The replies.
    pub replies: Vec<ReplyBehavior>,
}

/// How the reply to a request is selected.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReplySelection {
    /// In order. Rejected requests (400, 401) do not count.
    #[default]
    Order,
    /// By the number of assistant messages in the request, so that a restarted client gets the same reply again.
    Conversation,
}

/// Behavior after the last reply.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RepeatMode {
    /// The request is rejected with 400.
    #[default]
    None,
    /// The last reply is repeated.
    Last,
}

/// One reply, with scripted faults.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ReplyBehavior {
    /// Text of the model.
    pub text: String,
    /// Tool calls of the model.
    pub calls: Vec<ScriptedCall>,
    /// Stop reason of the protocol; derived from the rest if absent.
    pub stop: Option<String>,
    /// Reported tokens.
    pub usage: ScriptedUsage,
    /// Report no tokens.
    pub no_usage: bool,
    /// Reported model name; the requested one if absent.
    pub model: Option<String>,

    /// HTTP status; from 400 on, the reply is an error.
    pub status: Option<u16>,
    /// Error message.
    pub error: Option<String>,
    /// Error type of the protocol (`insufficient_quota`, `overloaded_error`); derived from the status if absent.
    pub error_type: Option<String>,
    /// Additional headers, ordered by name.
    pub headers: BTreeMap<String, String>,
    /// The header `Retry-After`: seconds or an HTTP date.
    pub retry_after: Option<String>,
    /// Content type, if it differs from the correct one.
    pub content_type: Option<String>,

    /// `false`: the whole reply as one JSON object, even if a stream was requested.
    pub stream: Option<bool>,
    /// Characters of text or arguments per stream event; 0 means all.
    pub piece_chars: usize,
    /// Line ending of the stream.
    pub newline: Newline,
    /// Sends a comment and, with the Anthropic protocol, a ping before each event.
    pub chatter: bool,
    /// Breaks the JSON of the event with this number, counted from 0.
    pub spoil_event: Option<usize>,
    /// Omits this many events at the end.
    pub drop_last: usize,
    /// An error in mid-stream.
    pub error_event: Option<StreamErrorEvent>,

    /// The exact body, instead of a generated one.
    pub body: Option<String>,
    /// How the body is framed.
    pub framing: Framing,
    /// Bytes of the body per write; 0 means one event per write.
    pub write_bytes: usize,
    /// Closes the connection after this many bytes of the body.
    pub cut_at: Option<usize>,
    /// Delay before the first byte, in milliseconds.
    pub first_byte_ms: u64,
    /// Delay between two writes of the body, in milliseconds.
    pub gap_ms: u64,
    /// Closes the connection without a response.
    pub hang_up: bool,
    /// The whole response, byte by byte; replaces everything above.
    pub exact: Option<ResponsePlan>,
}

/// A tool call of the model.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ScriptedCall {
    /// Its id; derived from the numbers of the request and the call if absent.
    pub id: Option<String>,
    /// The tool.
    pub name: String,
    /// The arguments.
    pub args: Value,
    /// The raw arguments, for invalid JSON; replaces `args`.
    pub raw_args: Option<String>,
}

/// Reported tokens of a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ScriptedUsage {
    /// All input tokens.
    pub input: u64,
    /// Output tokens.
    pub output: u64,
    /// Input tokens read from the cache.
    pub cached: u64,
    /// Input tokens written to the cache.
    pub cache_write: u64,
}

impl Default for ScriptedUsage {
    fn default() -> Self {
        ScriptedUsage { input: 12, output: 7, cached: 0, cache_write: 0 }
    }
}

/// An error in mid-stream.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct StreamErrorEvent {
    /// Number of events before it.
    pub after: usize,
    /// Error type of the protocol: `overloaded_error`, `server_error`.
    pub kind: String,
    /// The message.
    pub message: String,
}

/// Line ending of a stream; the standard allows all three.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Newline {
    /// `\n`
    #[default]
    Lf,
    /// `\r\n`
    Crlf,
    /// `\r`
    Cr,
}

impl Newline {
    /// The bytes.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Newline::Lf => "\n",
            Newline::Crlf => "\r\n",
            Newline::Cr => "\r",
        }
    }
}

/// How a body is framed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Framing {
    /// `Transfer-Encoding: chunked`, one chunk per write.
    #[default]
    Chunked,
    /// `Content-Length`.
    Length,
    /// Neither: the body ends with the connection.
    Close,
}

impl ServerScript {
    /// A script of replies without a key.
    #[must_use]
    pub fn new(replies: impl IntoIterator<Item = ReplyBehavior>) -> Self {
        ServerScript { replies: replies.into_iter().collect(), ..ServerScript::default() }
    }

    /// Parses a script from a JSON value.
    ///
    /// # Errors
    /// If it is invalid, with a one-line message.
    pub fn from_value(value: Value) -> Result<Self, String> {
        serde_json::from_value(value).map_err(|error| format!("invalid script: {error}"))
    }

    /// Parses a script in YAML, TOML or JSON; `name` determines the format.
    ///
    /// # Errors
    /// If it is invalid, with line and column where known.
    pub fn parse(text: &str, name: &str) -> Result<Self, String> {
        let format = flyball::policy::PolicyFormat::guess(name, text);
        let layer = flyball::policy::parse(text, format, name).map_err(|errors| {
            let all: Vec<String> = errors.iter().map(ToString::to_string).collect();
            all.join("\n")
        })?;
        ServerScript::from_value(layer.tree)
    }

    /// The reply to accepted request `order`, which has `rounds` assistant messages.
    #[must_use]
    pub fn reply(&self, order: usize, rounds: usize) -> Option<&ReplyBehavior> {
        let at = match self.pick {
            ReplySelection::Order => order,
            ReplySelection::Conversation => rounds,
        };
        match self.repeat {
            RepeatMode::None => self.replies.get(at),
            RepeatMode::Last => self.replies.get(at).or(self.replies.last()),
        }
    }
}

impl ReplyBehavior {
    /// A reply with a text.
    #[must_use]
    pub fn text(text: &str) -> Self {
        ReplyBehavior { text: text.to_owned(), ..ReplyBehavior::default() }
    }

    /// An error reply with a status.
    #[must_use]
    pub fn status(status: u16) -> Self {
        ReplyBehavior { status: Some(status), ..ReplyBehavior::default() }
    }

    /// Adds a tool call.
    #[must_use]
    pub fn call(mut self, name: &str, args: Value) -> Self {
        self.calls.push(ScriptedCall { name: name.to_owned(), args, ..ScriptedCall::default() });
        self
    }
}

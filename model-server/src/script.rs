//! What the server is told to answer: the script, as it is written in a file or made in a test.

use crate::plan::Plan;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// What the server answers, request by request.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Script {
    /// The key that every request must carry; without one, any request is let in.
    pub key: Option<String>,
    /// How the answer to a request is found.
    pub pick: Pick,
    /// What follows on the last answer.
    pub repeat: Repeat,
    /// Parameters that this server refuses as unknown, as some compatible servers do: `stream_options`, `max_tokens`.
    pub refuse: Vec<String>,
    /// The answers.
    pub replies: Vec<Behaviour>,
}

/// How the answer to a request is found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pick {
    /// The first request gets the first answer, and so on. Refused requests (400, 401) do not count.
    #[default]
    Order,
    /// By the number of assistant messages in the request, so that a client that was killed gets the same answer again.
    Conversation,
}

/// What follows on the last answer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Repeat {
    /// Nothing: the request is refused with 400.
    #[default]
    None,
    /// The last answer again.
    Last,
}

/// One answer: what the model says, and everything that may go wrong on the way.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Behaviour {
    /// What the model says.
    pub text: String,
    /// The tools that it calls.
    pub calls: Vec<SaidCall>,
    /// Why it stopped, in the words of the protocol; worked out from the rest if absent.
    pub stop: Option<String>,
    /// The tokens that it reports.
    pub usage: Usage,
    /// Report no tokens at all.
    pub no_usage: bool,
    /// The name of the model that it reports; the one that was asked for if absent.
    pub model: Option<String>,

    /// The HTTP status; from 400 on, the answer is an error.
    pub status: Option<u16>,
    /// The message of the error.
    pub error: Option<String>,
    /// The protocol's word for the error (`insufficient_quota`, `overloaded_error`); by the status if absent.
    pub error_type: Option<String>,
    /// Further headers, in this order of names.
    pub headers: BTreeMap<String, String>,
    /// The header `Retry-After`: seconds or an HTTP date.
    pub retry_after: Option<String>,
    /// The content type, if it is to be another than the right one.
    pub content_type: Option<String>,

    /// `false`: the whole answer as one JSON object, even if a stream was asked for.
    pub stream: Option<bool>,
    /// How many characters of text or arguments an event of the stream carries; 0 is all of them.
    pub piece_chars: usize,
    /// What ends a line of the stream.
    pub newline: Newline,
    /// A comment and, with the Anthropic protocol, a ping before each event.
    pub chatter: bool,
    /// Break the JSON of the event with this number, counted from 0.
    pub spoil_event: Option<usize>,
    /// Leave out so many events at the end.
    pub drop_last: usize,
    /// An error in mid-stream.
    pub error_event: Option<ErrorEvent>,

    /// The body, exactly; instead of what the model says.
    pub body: Option<String>,
    /// How the body is framed.
    pub framing: Framing,
    /// How many bytes of the body are written at once; 0 is an event at a time.
    pub write_bytes: usize,
    /// Close the connection after so many bytes of the body.
    pub cut_at: Option<usize>,
    /// Wait before the first byte of the answer, in milliseconds.
    pub first_byte_ms: u64,
    /// Wait between two writes of the body, in milliseconds.
    pub gap_ms: u64,
    /// Close the connection without any answer.
    pub hang_up: bool,
    /// The whole answer, to the byte and the write; instead of everything above.
    pub exact: Option<Plan>,
}

/// A tool call of the model.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SaidCall {
    /// Its id; made from the number of the request and of the call if absent.
    pub id: Option<String>,
    /// The tool.
    pub name: String,
    /// The arguments.
    pub args: Value,
    /// The arguments as they are sent, for those that are no JSON; instead of `args`.
    pub raw_args: Option<String>,
}

/// The tokens that an answer reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Usage {
    /// All tokens that went in.
    pub input: u64,
    /// Tokens that came out.
    pub output: u64,
    /// Of those that went in, read from the cache.
    pub cached: u64,
    /// Of those that went in, written to the cache.
    pub cache_write: u64,
}

impl Default for Usage {
    fn default() -> Self {
        Usage { input: 12, output: 7, cached: 0, cache_write: 0 }
    }
}

/// An error in mid-stream.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ErrorEvent {
    /// After how many events it comes.
    pub after: usize,
    /// The protocol's word for it: `overloaded_error`, `server_error`.
    pub kind: String,
    /// The message.
    pub message: String,
}

/// What ends a line of a stream; the standard allows all three.
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
    /// `Transfer-Encoding: chunked`, a chunk for each write.
    #[default]
    Chunked,
    /// `Content-Length`.
    Length,
    /// Neither: the body ends with the connection.
    Close,
}

impl Script {
    /// A script of some answers, without a key.
    #[must_use]
    pub fn new(replies: impl IntoIterator<Item = Behaviour>) -> Self {
        Script { replies: replies.into_iter().collect(), ..Script::default() }
    }

    /// Reads a script from a tree of values.
    ///
    /// # Errors
    /// What is wrong with it, in one line.
    pub fn from_value(value: Value) -> Result<Self, String> {
        serde_json::from_value(value).map_err(|error| format!("the script cannot be used: {error}"))
    }

    /// Reads a script written in YAML, TOML or JSON; `name` tells which.
    ///
    /// # Errors
    /// What is wrong with it, with line and column where they are known.
    pub fn parse(text: &str, name: &str) -> Result<Self, String> {
        let format = flyball::policy::Format::guess(name, text);
        let layer = flyball::policy::parse(text, format, name).map_err(|errors| {
            let all: Vec<String> = errors.iter().map(ToString::to_string).collect();
            all.join("\n")
        })?;
        Script::from_value(layer.tree)
    }

    /// The answer to a request: the `order`th of those that were let in, with `rounds` assistant messages in it.
    #[must_use]
    pub fn reply(&self, order: usize, rounds: usize) -> Option<&Behaviour> {
        let at = match self.pick {
            Pick::Order => order,
            Pick::Conversation => rounds,
        };
        match self.repeat {
            Repeat::None => self.replies.get(at),
            Repeat::Last => self.replies.get(at).or(self.replies.last()),
        }
    }
}

impl Behaviour {
    /// The model says this.
    #[must_use]
    pub fn text(text: &str) -> Self {
        Behaviour { text: text.to_owned(), ..Behaviour::default() }
    }

    /// The answer is an error with this status.
    #[must_use]
    pub fn status(status: u16) -> Self {
        Behaviour { status: Some(status), ..Behaviour::default() }
    }

    /// Adds a tool call.
    #[must_use]
    pub fn call(mut self, name: &str, args: Value) -> Self {
        self.calls.push(SaidCall { name: name.to_owned(), args, ..SaidCall::default() });
        self
    }
}

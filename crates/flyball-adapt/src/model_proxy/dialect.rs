//! The three protocols, and what a request in one of them says.

use super::draft::Draft;
use super::entry::Entry;
use super::path::canonical_segments;
use super::{chat, messages, responses};
use serde_json::Value;

/// A protocol between agents and models.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dialect {
    /// OpenAI chat completions.
    Chat,
    /// OpenAI responses.
    Responses,
    /// Anthropic messages.
    Messages,
}

/// What a request asks, as far as it matters here.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Asked {
    /// The model.
    pub(super) model: String,
    /// The answer is to be streamed.
    pub(super) stream: bool,
    /// The tokens are to be told at the end of the stream.
    pub(super) stream_usage: bool,
    /// The beginning of the instructions.
    pub(super) system: String,
    /// The conversation, or the new part of it if the provider keeps the rest.
    pub(super) entries: Vec<Entry>,
    /// Whose conversation it is, in the client's words.
    pub(super) user: String,
    /// The conversation's own name, if it has one.
    pub(super) name: Option<String>,
    /// The provider keeps the history under that name, and the request brings only what is new.
    pub(super) kept: bool,
    /// The answer that it goes on from, if the provider keeps the history.
    pub(super) previous: Option<String>,
    /// The names of the tools that the model may call; nothing if the request does not list them.
    pub(super) tools: Option<Vec<String>>,
}

/// A path that servers may resolve in different ways.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct AmbiguousPath;

impl Dialect {
    /// The protocol of a request; `None` if it is passed through unseen.
    ///
    /// # Errors
    /// If the path is ambiguous.
    pub(super) fn of(method: &str, path: &str) -> Result<Option<Self>, AmbiguousPath> {
        // These never ask a model; any other method could be taken for `POST`.
        let asks = !matches!(method, "GET" | "HEAD" | "OPTIONS" | "DELETE");
        let segments = canonical_segments(path).ok_or(AmbiguousPath)?;
        let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
        Ok(match segments.as_slice() {
            _ if !asks => None,
            [.., "chat", "completions"] => Some(Dialect::Chat),
            [.., "responses"] => Some(Dialect::Responses),
            [.., "messages"] => Some(Dialect::Messages),
            _ => None,
        })
    }

    /// Reads a request. `None` if it is not one that a model would be asked with.
    pub(super) fn read(self, body: &Value) -> Option<Asked> {
        let mut asked = match self {
            Dialect::Chat => chat::read(body),
            Dialect::Responses => responses::read(body),
            Dialect::Messages => messages::read(body),
        }?;
        asked.model = super::entry::string(body, "model");
        asked.stream = body.get("stream") == Some(&Value::Bool(true));
        asked.tools = offered(body);
        Some(asked)
    }

    /// Takes an event of a streamed answer.
    pub(super) fn streamed(self, draft: &mut Draft, data: &str) {
        match self {
            Dialect::Chat => chat::streamed(draft, data),
            Dialect::Responses => responses::streamed(draft, data),
            Dialect::Messages => messages::streamed(draft, data),
        }
    }

    /// Takes an answer that came as a whole.
    pub(super) fn whole(self, draft: &mut Draft, body: &Value) {
        match self {
            Dialect::Chat => chat::whole(draft, body),
            Dialect::Responses => responses::whole(draft, body),
            Dialect::Messages => messages::whole(draft, body),
        }
    }

    /// Puts a note into a request, where this protocol takes it. `None` if there is no such place.
    pub(super) fn with_note(self, body: &[u8], note: &str) -> Option<Vec<u8>> {
        match self {
            Dialect::Chat => chat::with_note(body, note),
            Dialect::Responses => responses::with_note(body, note),
            Dialect::Messages => messages::with_note(body, note),
        }
    }

    /// An answer of our own instead of the model's: its body.
    pub(super) fn say(self, asked: &Asked, text: &str, id: &str, now_s: u64) -> String {
        match self {
            Dialect::Chat => chat::say(asked, text, id, now_s),
            Dialect::Responses => responses::say(asked, text, id, now_s),
            Dialect::Messages => messages::say(asked, text, id),
        }
    }

    /// An error of our own, as this protocol writes errors.
    pub(super) fn error(self, message: &str) -> String {
        match self {
            Dialect::Chat | Dialect::Responses => serde_json::json!({"error": {
                "message": message, "type": "server_error", "param": null, "code": "flyball"}}),
            Dialect::Messages => {
                serde_json::json!({"type": "error", "error": {"type": "api_error", "message": message}})
            }
        }
        .to_string()
    }
}

/// The names of the tools that a request offers, in any of the protocols. A provider may know of tools by itself, from a
/// prompt or an answer that it keeps, so a request without a list says nothing.
fn offered(body: &Value) -> Option<Vec<String>> {
    let lists = ["tools", "functions"].into_iter().filter_map(|list| body.get(list)?.as_array());
    let lists: Vec<&Vec<Value>> = lists.collect();
    let name = |tool: &Value| {
        let named = tool.get("name").or_else(|| tool.get("function")?.get("name"));
        named.and_then(Value::as_str).map(str::to_owned)
    };
    (!lists.is_empty()).then(|| lists.into_iter().flatten().filter_map(name).collect())
}

/// An event of a stream, as it is written.
pub(super) fn event(name: Option<&str>, data: &Value) -> String {
    match name {
        Some(name) => format!("event: {name}\ndata: {data}\n\n"),
        None => format!("data: {data}\n\n"),
    }
}

//! The three supported protocols and the parsed form of a request.

use super::entry::ConversationEntry;
use super::partial_answer::PartialAnswer;
use super::path::canonical_segments;
use super::{anthropic_messages, openai_chat, openai_responses};
use serde_json::Value;

/// A protocol between agents and model providers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ProxyProtocol {
    /// OpenAI Chat Completions.
    Chat,
    /// OpenAI Responses.
    Responses,
    /// Anthropic Messages.
    Messages,
}

/// The parsed parts of a request.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct ProxyRequest {
    /// The model name.
    pub(super) model: String,
    /// Whether the answer is streamed.
    pub(super) stream: bool,
    /// Whether usage is reported at the end of the stream.
    pub(super) stream_usage: bool,
    /// The beginning of the system prompt.
    pub(super) system: String,
    /// The conversation, or its new part if the provider stores the history.
    pub(super) entries: Vec<ConversationEntry>,
    /// The client's user id.
    pub(super) user: String,
    /// The conversation's name, if the request has one.
    pub(super) conversation_name: Option<String>,
    /// Whether the provider stores the history under that name and the request contains only new entries.
    pub(super) history_kept: bool,
    /// The answer that the request continues from, if the provider stores the history.
    pub(super) previous_answer: Option<String>,
    /// The names of the offered tools; `None` if the request does not list them.
    pub(super) tools: Option<Vec<String>>,
}

/// A path that servers may resolve differently.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct AmbiguousPath;

impl ProxyProtocol {
    /// The protocol of a request; `None` if it is forwarded without inspection.
    ///
    /// # Errors
    /// If the path is ambiguous.
    pub(super) fn detect(method: &str, path: &str) -> Result<Option<Self>, AmbiguousPath> {
        // These methods never call a model; any other one could be treated as `POST`.
        let asks = !matches!(method, "GET" | "HEAD" | "OPTIONS" | "DELETE");
        let segments = canonical_segments(path).ok_or(AmbiguousPath)?;
        let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
        Ok(match segments.as_slice() {
            _ if !asks => None,
            [.., "chat", "completions"] => Some(ProxyProtocol::Chat),
            [.., "responses"] => Some(ProxyProtocol::Responses),
            [.., "messages"] => Some(ProxyProtocol::Messages),
            _ => None,
        })
    }

    /// Parses a request. `None` if it is not a model call.
    pub(super) fn parse_request(self, body: &Value) -> Option<ProxyRequest> {
        let mut request = match self {
            ProxyProtocol::Chat => openai_chat::parse_request(body),
            ProxyProtocol::Responses => openai_responses::parse_request(body),
            ProxyProtocol::Messages => anthropic_messages::parse_request(body),
        }?;
        request.model = super::entry::str_field(body, "model");
        request.stream = body.get("stream") == Some(&Value::Bool(true));
        request.tools = offered_tools(body);
        Some(request)
    }

    /// Applies an event of a streamed answer.
    pub(super) fn apply_stream_event(self, draft: &mut PartialAnswer, data: &str) {
        match self {
            ProxyProtocol::Chat => openai_chat::apply_stream_event(draft, data),
            ProxyProtocol::Responses => openai_responses::apply_stream_event(draft, data),
            ProxyProtocol::Messages => anthropic_messages::apply_stream_event(draft, data),
        }
    }

    /// Applies a complete answer.
    pub(super) fn apply_full_answer(self, draft: &mut PartialAnswer, body: &Value) {
        match self {
            ProxyProtocol::Chat => openai_chat::apply_full_answer(draft, body),
            ProxyProtocol::Responses => openai_responses::apply_full_answer(draft, body),
            ProxyProtocol::Messages => anthropic_messages::apply_full_answer(draft, body),
        }
    }

    /// Adds a note to a request. `None` if the protocol has no place for it.
    pub(super) fn with_note(self, body: &[u8], note: &str) -> Option<Vec<u8>> {
        match self {
            ProxyProtocol::Chat => openai_chat::with_note(body, note),
            ProxyProtocol::Responses => openai_responses::with_note(body, note),
            ProxyProtocol::Messages => anthropic_messages::with_note(body, note),
        }
    }

    /// Renders the body of an answer written by the proxy.
    pub(super) fn render_answer(self, request: &ProxyRequest, text: &str, id: &str, now_s: u64) -> String {
        match self {
            ProxyProtocol::Chat => openai_chat::render_answer(request, text, id, now_s),
            ProxyProtocol::Responses => openai_responses::render_answer(request, text, id, now_s),
            ProxyProtocol::Messages => anthropic_messages::render_answer(request, text, id),
        }
    }

    /// Renders an error in the protocol's format.
    pub(super) fn render_error(self, message: &str) -> String {
        match self {
            ProxyProtocol::Chat | ProxyProtocol::Responses => serde_json::json!({"error": {
                "message": message, "type": "server_error", "param": null, "code": "flyball"}}),
            ProxyProtocol::Messages => {
                serde_json::json!({"type": "error", "error": {"type": "api_error", "message": message}})
            }
        }
        .to_string()
    }
}

/// The names of the tools in a request, for all protocols. `None` if the request has no list, because the provider may
/// know tools from a stored prompt or answer.
fn offered_tools(body: &Value) -> Option<Vec<String>> {
    let lists = ["tools", "functions"].into_iter().filter_map(|list| body.get(list)?.as_array());
    let lists: Vec<&Vec<Value>> = lists.collect();
    let name = |tool: &Value| {
        let named = tool.get("name").or_else(|| tool.get("function")?.get("name"));
        named.and_then(Value::as_str).map(str::to_owned)
    };
    (!lists.is_empty()).then(|| lists.into_iter().flatten().filter_map(name).collect())
}

/// Formats a server-sent event.
pub(super) fn sse_event(name: Option<&str>, data: &Value) -> String {
    match name {
        Some(name) => format!("event: {name}\ndata: {data}\n\n"),
        None => format!("data: {data}\n\n"),
    }
}

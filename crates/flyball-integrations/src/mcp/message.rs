//! Minimal parser for MCP messages: the message type and the request it belongs to.
//!
//! All parts are slices of the original line, so unmodified parts are forwarded byte for byte.

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use std::borrow::Cow;

/// An MCP message.
#[derive(Debug, Default, Deserialize)]
pub(super) struct McpMessage<'a> {
    /// The raw id: `1` and `"1"` are different ids.
    #[serde(borrow, default)]
    pub(super) id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) method: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    pub(super) params: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) result: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) error: Option<&'a RawValue>,
}

/// The parameters of `tools/call`.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct McpToolCall {
    /// The tool name.
    pub(super) name: String,
    /// The arguments.
    #[serde(default)]
    pub(super) arguments: Value,
    /// Input that the server requested before continuing the call.
    #[serde(default)]
    input_responses: Value,
    /// Opaque state that the server expects back when the call continues.
    #[serde(default)]
    request_state: Value,
}

impl McpToolCall {
    /// Whether this request continues an earlier call.
    pub(super) fn is_continuation(&self) -> bool {
        !self.input_responses.is_null() || !self.request_state.is_null()
    }
}

impl<'a> McpMessage<'a> {
    /// Parses a message; `None` if the text is not an MCP message.
    pub(super) fn parse(text: &'a str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }

    /// The raw id of a request or response.
    pub(super) fn id(&self) -> Option<&'a str> {
        self.id.map(RawValue::get).filter(|id| *id != "null")
    }

    /// The id and call of a `tools/call` request.
    pub(super) fn tool_call(&self) -> Option<(&'a str, McpToolCall)> {
        if self.method.as_deref() != Some("tools/call") {
            return None;
        }
        Some((self.id()?, serde_json::from_str(self.params?.get()).ok()?))
    }

    /// The id of the request that this message responds to.
    pub(super) fn response_id(&self) -> Option<&'a str> {
        if self.method.is_some() || (self.result.is_none() && self.error.is_none()) {
            return None;
        }
        self.id()
    }

    /// The parameters as a JSON value.
    pub(super) fn params(&self) -> Value {
        self.params.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default()
    }
}

/// The response to a call that was not run; the model reads it as the tool's result.
pub(super) fn error_result(id: &str, text: &str) -> String {
    let result = json!({"content": [{"type": "text", "text": text}], "isError": true});
    format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{result}}}")
}

//! One message of the protocol, as far as it must be known: what it is, and whose answer it is.
//!
//! Everything is a slice of the line, so that what is not touched stays as it is, byte for byte.

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use std::borrow::Cow;

/// A message.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Message<'a> {
    /// As it is written: `1` and `"1"` are different ids.
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
pub(super) struct ToolCall {
    /// The tool.
    pub(super) name: String,
    /// Its arguments.
    #[serde(default)]
    pub(super) arguments: Value,
    /// What the server had asked for before it goes on with the call.
    #[serde(default)]
    input_responses: Value,
    /// What the server wants back when it goes on with the call.
    #[serde(default)]
    request_state: Value,
}

impl ToolCall {
    /// Whether a call that was begun before goes on.
    pub(super) fn goes_on(&self) -> bool {
        !self.input_responses.is_null() || !self.request_state.is_null()
    }
}

impl<'a> Message<'a> {
    /// Reads a message; `None` if it is none, and then it is nobody's business.
    pub(super) fn read(text: &'a str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }

    /// The id as it is written, of a request or an answer.
    pub(super) fn id(&self) -> Option<&'a str> {
        self.id.map(RawValue::get).filter(|id| *id != "null")
    }

    /// The call, if it is a request for one.
    pub(super) fn call(&self) -> Option<(&'a str, ToolCall)> {
        if self.method.as_deref() != Some("tools/call") {
            return None;
        }
        Some((self.id()?, serde_json::from_str(self.params?.get()).ok()?))
    }

    /// The id of the request that it answers, if it is an answer.
    pub(super) fn answers(&self) -> Option<&'a str> {
        if self.method.is_some() || (self.result.is_none() && self.error.is_none()) {
            return None;
        }
        self.id()
    }

    /// The parameters as a value.
    pub(super) fn params(&self) -> Value {
        self.params.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default()
    }
}

/// The answer to a call that was not let through: the model reads it as the tool's own words.
pub(super) fn refusal(id: &str, text: &str) -> String {
    let result = json!({"content": [{"type": "text", "text": text}], "isError": true});
    format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{result}}}")
}

//! Settings of a scripted provider.
//!
//! ```yaml
//! demo:
//!   kind: script
//!   rules:                                   # checked first, in this order
//!     - when: {tool_failed: true}
//!       reply: {text: "That failed. Trying another way.", calls: [{tool: bash, args: {command: ls}}]}
//!   nodes:
//!     coder: {turns: [["first turn, first answer", "first turn, second answer"], ["second turn"]]}
//!   replies: ["for every other node"]
//!   otherwise: "nothing else to say"
//! ```

use super::price::TokenPrice;
use super::retry::ProviderRetryPolicy;
use super::units::ProviderDuration;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, de::Error};
use serde_json::Value;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// A scripted provider. The reply comes from the first match among `rules`, the node's own list, `replies` and
/// `otherwise`.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ScriptConfig {
    /// Model name to report. Default: `script`.
    pub model: Option<String>,
    /// Token prices; without them the cost is unknown.
    pub price: Option<TokenPrice>,
    /// Retries of a scripted failure.
    pub retry: ProviderRetryPolicy,
    /// Behavior after the last reply of a list.
    pub repeat: ScriptRepeat,
    /// Replies to the latest messages, by condition.
    pub rules: Vec<ScriptRule>,
    /// Replies by node.
    pub nodes: BTreeMap<String, NodeScript>,
    /// Replies in order, for nodes without a list in `nodes`.
    pub replies: Vec<ScriptReply>,
    /// Reply if nothing else matches.
    pub otherwise: Option<ScriptReply>,
}

/// Behavior after the last reply of a list.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ScriptRepeat {
    /// None: the script is exhausted.
    #[default]
    None,
    /// Repeat the last reply.
    Last,
}

/// Replies of a node: `turns` or `replies`.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct NodeScript {
    /// A list of replies for each turn of the node.
    pub turns: Vec<Vec<ScriptReply>>,
    /// One list of replies, the same in every turn.
    pub replies: Vec<ScriptReply>,
}

/// A reply with a condition.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[schemars(rename = "ScriptRule")]
#[serde(deny_unknown_fields)]
pub struct ScriptRule {
    /// The condition.
    pub when: ScriptCondition,
    /// The reply.
    pub reply: ScriptReply,
}

/// A condition; all its parts must hold. "Latest messages" are those since the model's last reply.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[schemars(rename = "ScriptWhen")]
#[serde(deny_unknown_fields, default)]
pub struct ScriptCondition {
    /// A latest message contains this text.
    pub contains: Option<String>,
    /// A latest message matches this regular expression.
    pub matches: Option<String>,
    /// Whether a tool result among the latest messages is a failure.
    pub tool_failed: Option<bool>,
    /// The latest messages include a result of this tool.
    pub tool: Option<String>,
    /// This node asks.
    pub node: Option<String>,
    /// Turn number of the node, starting at 1.
    pub turn: Option<u64>,
    /// Reply number within the turn, starting at 1.
    pub round: Option<u64>,
}

/// A reply or a failure. A plain string is a reply with that text.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ScriptReply(pub Box<ScriptAnswer>);

impl JsonSchema for ScriptReply {
    fn schema_name() -> Cow<'static, str> {
        "ScriptReply".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let said = generator.subschema_for::<ScriptAnswer>();
        json_schema!({
            "description": "A reply or a failure. A plain string is a reply with that text.",
            "anyOf": [{"type": "string"}, said],
        })
    }
}

/// A scripted reply and how it fails.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[schemars(rename = "ScriptSaid")]
#[serde(deny_unknown_fields, default)]
pub struct ScriptAnswer {
    /// Text of the reply.
    pub text: String,
    /// Tool calls.
    pub calls: Vec<ScriptCall>,
    /// Finish reason: `end`, `tool_calls`, `max_tokens`, `refused` or any other. Default: derived from the calls.
    pub stop: Option<String>,
    /// Token counts to report. Default: estimated from the characters.
    pub usage: Option<ScriptUsage>,
    /// Delay before the reply.
    pub wait: Option<ProviderDuration>,
    /// Truncates the reply after this many characters.
    pub cut_at: Option<usize>,
    /// Fails like an HTTP provider.
    pub fail: Option<ScriptFailure>,
    /// Number of attempts of a request that are truncated or fail before one succeeds. Default: all.
    pub times: Option<u32>,
}

/// A scripted tool call.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ScriptCall {
    /// Tool name.
    pub tool: String,
    /// Arguments.
    #[serde(default)]
    pub args: Value,
    /// Raw argument text instead of `args`, to script invalid JSON.
    #[serde(default)]
    pub raw: Option<String>,
    /// Call id. Default: derived from node, turn and round.
    #[serde(default)]
    pub id: Option<String>,
}

/// Token counts of a scripted reply.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ScriptUsage {
    /// All input tokens.
    pub tokens_in: u64,
    /// Output tokens.
    pub tokens_out: u64,
    /// Input tokens read from the cache.
    pub cached_in: u64,
}

/// A scripted failure.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[schemars(rename = "ScriptFailure")]
#[serde(deny_unknown_fields)]
pub struct ScriptFailure {
    /// HTTP status to simulate.
    pub status: u16,
    /// Error message.
    #[serde(default)]
    pub message: String,
    /// Requested delay before a retry.
    #[serde(default)]
    pub retry_after: Option<ProviderDuration>,
}

impl<'de> Deserialize<'de> for ScriptReply {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Value::deserialize(deserializer)? {
            Value::String(text) => {
                Ok(ScriptReply(Box::new(ScriptAnswer { text, ..ScriptAnswer::default() })))
            }
            said @ Value::Object(_) => {
                let said = serde_json::from_value(said)
                    .map_err(|error| D::Error::custom(format!("reply: {error}")))?;
                Ok(ScriptReply(Box::new(said)))
            }
            _ => Err(D::Error::custom("a reply must be a string or a map with `text`, `calls` or `fail`")),
        }
    }
}

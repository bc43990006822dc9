//! What the file says about a scripted provider.
//!
//! ```yaml
//! demo:
//!   kind: script
//!   rules:                                   # asked first, in this order
//!     - when: {tool_failed: true}
//!       reply: {text: "That failed. I try another way.", calls: [{tool: bash, args: {command: ls}}]}
//!   nodes:
//!     coder: {turns: [["first turn, first answer", "first turn, second answer"], ["second turn"]]}
//!   replies: ["for every other node"]
//!   otherwise: "nothing else to say"
//! ```

use super::price::Price;
use super::retry::RetryPolicy;
use super::units::Millis;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, de::Error};
use serde_json::Value;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// A scripted provider. The first of these that has an answer gives it: `rules`, the node's own list, `replies`,
/// `otherwise`.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ScriptConfig {
    /// The name to report as the model; `script` if absent.
    pub model: Option<String>,
    /// What tokens cost; without it the cost is not known.
    pub price: Option<Price>,
    /// How often a scripted failure is tried again.
    pub retry: RetryPolicy,
    /// What follows on the last reply of a list.
    pub repeat: Repeat,
    /// Answers to what was said last.
    pub rules: Vec<Rule>,
    /// Answers of a node.
    pub nodes: BTreeMap<String, NodeScript>,
    /// Answers in order, for nodes without a list of their own.
    pub replies: Vec<ScriptReply>,
    /// The answer if nothing else fits.
    pub otherwise: Option<ScriptReply>,
}

/// What follows on the last reply of a list.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Repeat {
    /// Nothing: the script is exhausted.
    #[default]
    None,
    /// The last one again.
    Last,
}

/// Answers of a node: `turns` or `replies`.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct NodeScript {
    /// A list of answers for each turn of the node.
    pub turns: Vec<Vec<ScriptReply>>,
    /// One list of answers, the same in every turn.
    pub replies: Vec<ScriptReply>,
}

/// If this holds, that is the answer.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[schemars(rename = "ScriptRule")]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// What must hold.
    pub when: When,
    /// The answer.
    pub reply: ScriptReply,
}

/// What must hold, all of it. "The last" is everything that was said since the model spoke.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[schemars(rename = "ScriptWhen")]
#[serde(deny_unknown_fields, default)]
pub struct When {
    /// The last contains this text.
    pub contains: Option<String>,
    /// The last matches this regular expression.
    pub matches: Option<String>,
    /// Whether a tool result among the last failed.
    pub tool_failed: Option<bool>,
    /// There is a result of this tool among the last.
    pub tool: Option<String>,
    /// It is this node that asks.
    pub node: Option<String>,
    /// It is this turn of the node, counted from 1.
    pub turn: Option<u64>,
    /// It is this answer of the turn, counted from 1.
    pub round: Option<u64>,
}

/// One answer, or one failure. A text alone is an answer that says it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ScriptReply(pub Box<Said>);

impl JsonSchema for ScriptReply {
    fn schema_name() -> Cow<'static, str> {
        "ScriptReply".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let said = generator.subschema_for::<Said>();
        json_schema!({
            "description": "One answer, or one failure. A text alone is an answer that says it.",
            "anyOf": [{"type": "string"}, said],
        })
    }
}

/// What an answer says and how it goes wrong.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[schemars(rename = "ScriptSaid")]
#[serde(deny_unknown_fields, default)]
pub struct Said {
    /// What the model says.
    pub text: String,
    /// The tools that it calls.
    pub calls: Vec<ScriptCall>,
    /// Why it stops: `end`, `tool_calls`, `max_tokens`, `refused` or another word; worked out if absent.
    pub stop: Option<String>,
    /// The tokens to report; estimated from the characters if absent.
    pub usage: Option<ScriptUsage>,
    /// How long it takes to answer.
    pub wait: Option<Millis>,
    /// It breaks off after so many characters.
    pub cut_at: Option<usize>,
    /// It fails, like a provider behind HTTP.
    pub fail: Option<Failure>,
    /// How many tries of one ask are cut or fail before it goes well; all of them if absent.
    pub times: Option<u32>,
}

/// A tool call of a script.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ScriptCall {
    /// The tool.
    pub tool: String,
    /// The arguments.
    #[serde(default)]
    pub args: Value,
    /// The arguments as text, for those that are no JSON; instead of `args`.
    #[serde(default)]
    pub raw: Option<String>,
    /// Its id; made from node, turn and round if absent.
    #[serde(default)]
    pub id: Option<String>,
}

/// The tokens of a scripted answer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ScriptUsage {
    /// All tokens that went in.
    pub tokens_in: u64,
    /// Tokens that came out.
    pub tokens_out: u64,
    /// Of those that went in, read from the cache.
    pub cached_in: u64,
}

/// A scripted failure.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[schemars(rename = "ScriptFailure")]
#[serde(deny_unknown_fields)]
pub struct Failure {
    /// The HTTP status that it stands for.
    pub status: u16,
    /// The message.
    #[serde(default)]
    pub message: String,
    /// How long to wait before another try.
    #[serde(default)]
    pub retry_after: Option<Millis>,
}

impl<'de> Deserialize<'de> for ScriptReply {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Value::deserialize(deserializer)? {
            Value::String(text) => Ok(ScriptReply(Box::new(Said { text, ..Said::default() }))),
            said @ Value::Object(_) => {
                let said = serde_json::from_value(said)
                    .map_err(|error| D::Error::custom(format!("reply: {error}")))?;
                Ok(ScriptReply(Box::new(said)))
            }
            _ => Err(D::Error::custom("a reply is a text or a map with `text`, `calls` or `fail`")),
        }
    }
}

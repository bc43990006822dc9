//! Provider settings of a workflow file.
//!
//! ```yaml
//! providers:
//!   main:
//!     kind: openai
//!     model: gpt-5-mini
//!     key_env: OPENAI_API_KEY
//!     price: {input_per_million_usd: 0.25, output_per_million_usd: 2}
//!   local: {kind: openai, model: qwen3, base_url: "http://localhost:11434/v1"}
//!   agent: {kind: command, argv: [my-agent, --print], input: prompt}
//!   demo: {kind: script, replies: ["hello"], repeat: last}
//! ```

use super::price::TokenPrice;
use super::provider_error::{ProviderError, ProviderErrorCode};
use super::provider_key::reject_keys_in_config;
use super::retry::ProviderRetryPolicy;
use super::script_config::ScriptConfig;
use super::units::ProviderDuration;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, de::Error};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// Settings of all providers, by name.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ProviderConfigs(pub BTreeMap<String, ProviderConfig>);

/// Settings of one provider.
#[derive(Debug, Clone, PartialEq)]
pub enum ProviderConfig {
    /// `kind: script`
    Script(Box<ScriptConfig>),
    /// `kind: openai`
    OpenAi(Box<HttpProviderConfig>),
    /// `kind: anthropic`
    Anthropic(Box<HttpProviderConfig>),
    /// `kind: command`
    Command(Box<CommandProviderConfig>),
}

/// A provider behind an HTTP API.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HttpProviderConfig {
    /// Model name.
    pub model: String,
    /// URL before `path`. Default: the provider's own API.
    #[serde(default)]
    pub base_url: Option<String>,
    /// URL path. Default: `/chat/completions` (openai) or `/v1/messages` (anthropic).
    #[serde(default)]
    pub path: Option<String>,
    /// Environment variable with the API key. Default: `OPENAI_API_KEY` or `ANTHROPIC_API_KEY`.
    #[serde(default)]
    pub key_env: Option<String>,
    /// Header that carries the bare key, for endpoints that do not use the standard one.
    #[serde(default)]
    pub key_header: Option<String>,
    /// Additional headers. Must not contain keys.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// Additional body parameters of the provider: `temperature`, `reasoning_effort`.
    #[serde(default)]
    pub body: Map<String, Value>,
    /// Maximum tokens per reply, unless the node sets it.
    #[serde(default)]
    pub max_tokens: Option<u64>,
    /// Name of the token limit parameter (openai only). Default: detected.
    #[serde(default)]
    pub max_tokens_field: Option<MaxTokensField>,
    /// Value of the `anthropic-version` header (anthropic only).
    #[serde(default)]
    pub version: Option<String>,
    /// Whether to stream replies. Default: true.
    #[serde(default)]
    pub stream: Option<bool>,
    /// Token prices; without them the cost is unknown.
    #[serde(default)]
    pub price: Option<TokenPrice>,
    /// Retries after failures.
    #[serde(default)]
    pub retry: ProviderRetryPolicy,
    /// Timeouts of the stages, within the turn's budget.
    #[serde(default)]
    pub timeouts: Timeouts,
}

/// Timeouts of the stages of a request, within the turn's budget.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Timeouts {
    /// Connect timeout. Default: 10s.
    pub connect: Option<ProviderDuration>,
    /// Timeout for the first byte. Default: 5m.
    pub first_byte: Option<ProviderDuration>,
    /// Timeout between two chunks of a stream. Default: 2m.
    pub idle: Option<ProviderDuration>,
}

/// Name of the token limit parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MaxTokensField {
    /// `max_tokens`
    MaxTokens,
    /// `max_completion_tokens`
    MaxCompletionTokens,
}

/// A program that answers.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[schemars(rename = "CommandProvider")]
#[serde(deny_unknown_fields)]
pub struct CommandProviderConfig {
    /// The program and its arguments, run without a shell.
    pub argv: Vec<String>,
    /// Working directory. Default: the runner's.
    #[serde(default)]
    pub dir: Option<String>,
    /// Environment variables for it. Must not contain keys: list the variable with the key in `pass_env`.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Environment variables of the runner to inherit in addition to the default set, for example the one with its API
    /// key.
    #[serde(default)]
    pub pass_env: Vec<String>,
    /// Format of its standard input.
    #[serde(default)]
    pub input: CommandInputFormat,
    /// Format of its output.
    #[serde(default)]
    pub output: CommandOutputFormat,
    /// Model name to report if the reply has none. Default: the program name.
    #[serde(default)]
    pub model: Option<String>,
    /// Token prices; without them the cost is unknown.
    #[serde(default)]
    pub price: Option<TokenPrice>,
    /// Retries after exit code 75.
    #[serde(default)]
    pub retry: ProviderRetryPolicy,
}

/// Format of a command's standard input.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CommandInputFormat {
    /// The request as JSON.
    #[default]
    Json,
    /// The conversation as plain text.
    Prompt,
}

/// Format of a command's output.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CommandOutputFormat {
    /// A JSON reply if the output is one, otherwise plain text.
    #[default]
    Auto,
    /// A JSON reply; anything else is an error.
    Json,
    /// Plain text, streamed.
    Text,
}

impl ProviderConfigs {
    /// Parses the `providers` of a workflow file.
    ///
    /// # Errors
    /// `provider_key_in_file` or `provider_config`, with the location.
    pub fn from_value(value: &Value) -> Result<Self, ProviderError> {
        let all = match value {
            Value::Null => return Ok(ProviderConfigs::default()),
            Value::Object(all) => all,
            _ => {
                return Err(config_error(
                    "",
                    "`providers` must be a map",
                    "write `providers: {main: {kind: …}}`",
                ));
            }
        };
        let read = |(name, config)| Ok((String::clone(name), ProviderConfig::from_value(name, config)?));
        all.iter().map(read).collect::<Result<_, _>>().map(ProviderConfigs)
    }

    /// Settings of a provider by name.
    ///
    /// # Errors
    /// `provider_config` with the known names if there is none.
    pub fn get(&self, name: &str) -> Result<&ProviderConfig, ProviderError> {
        self.0.get(name).ok_or_else(|| {
            let known: Vec<&str> = self.0.keys().map(String::as_str).collect();
            let advice = match known.as_slice() {
                [] => "add it under `providers`".to_owned(),
                known => format!("add it under `providers`, or use one of {}", known.join(", ")),
            };
            config_error(name, "unknown provider", &advice)
        })
    }
}

impl ProviderConfig {
    /// Parses the settings of one provider.
    ///
    /// # Errors
    /// `provider_key_in_file` or `provider_config`, with the location.
    pub fn from_value(name: &str, value: &Value) -> Result<Self, ProviderError> {
        let advice = "write `kind: openai`, `anthropic`, `command` or `script`";
        let Some(fields) = value.as_object() else {
            return Err(config_error(name, &format!("providers.{name} must be a map"), advice));
        };
        let kind = fields.get("kind").and_then(Value::as_str).unwrap_or_default();
        // Scripted replies may look like keys, but are not.
        if kind != "script" {
            reject_keys_in_config(name, value)?;
        }
        let mut fields = fields.clone();
        fields.remove("kind");
        let rest = Value::Object(fields);
        match kind {
            "script" => parse_config(name, rest).map(ProviderConfig::Script),
            "openai" => parse_config(name, rest).map(ProviderConfig::OpenAi),
            "anthropic" => parse_config(name, rest).map(ProviderConfig::Anthropic),
            "command" => parse_config(name, rest).map(ProviderConfig::Command),
            "" => Err(config_error(name, &format!("providers.{name} has no `kind`"), advice)),
            other => {
                Err(config_error(name, &format!("providers.{name}.kind: unknown kind '{other}'"), advice))
            }
        }
    }
}

fn parse_config<T: serde::de::DeserializeOwned>(name: &str, value: Value) -> Result<Box<T>, ProviderError> {
    serde_json::from_value(value).map(Box::new).map_err(|error| {
        config_error(name, &format!("providers.{name}: {error}"), "fix it in the workflow file")
    })
}

/// Configuration error.
pub(super) fn config_error(name: &str, what: &str, advice: &str) -> ProviderError {
    ProviderError::new(ProviderErrorCode::Config, name, what).with_help(advice)
}

impl<'de> Deserialize<'de> for ProviderConfigs {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        let to_serde = |error: ProviderError| D::Error::custom(format!("{error}; {}", error.help));
        ProviderConfigs::from_value(&value).map_err(to_serde)
    }
}

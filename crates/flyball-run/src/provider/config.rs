//! What the workflow file says about providers.
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

use super::error::{Code, ProviderError};
use super::price::Price;
use super::retry::RetryPolicy;
use super::script_config::ScriptConfig;
use super::secret::refuse_keys;
use super::units::Millis;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, de::Error};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// What the file says about all providers, by name.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Providers(pub BTreeMap<String, ProviderConfig>);

/// What the file says about one provider.
#[derive(Debug, Clone, PartialEq)]
pub enum ProviderConfig {
    /// `kind: script`
    Script(Box<ScriptConfig>),
    /// `kind: openai`
    OpenAi(Box<RemoteConfig>),
    /// `kind: anthropic`
    Anthropic(Box<RemoteConfig>),
    /// `kind: command`
    Command(Box<CommandConfig>),
}

/// A provider behind HTTP.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RemoteConfig {
    /// The model to ask for.
    pub model: String,
    /// The address before `path`; that of the original provider if absent.
    #[serde(default)]
    pub base_url: Option<String>,
    /// The path: `/chat/completions` (openai) or `/v1/messages` (anthropic) if absent.
    #[serde(default)]
    pub path: Option<String>,
    /// The environment variable with the key: `OPENAI_API_KEY` or `ANTHROPIC_API_KEY` if absent.
    #[serde(default)]
    pub key_env: Option<String>,
    /// The header that carries the key as it is, for endpoints that want another than the usual one.
    #[serde(default)]
    pub key_header: Option<String>,
    /// Further headers. None of them may be a key.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// Further parameters, as the provider knows them: `temperature`, `reasoning_effort`.
    #[serde(default)]
    pub body: Map<String, Value>,
    /// The most tokens of an answer, if the request does not say.
    #[serde(default)]
    pub max_tokens: Option<u64>,
    /// The name of that parameter (openai only); found out if absent.
    #[serde(default)]
    pub max_tokens_field: Option<MaxTokensField>,
    /// The header `anthropic-version` (anthropic only).
    #[serde(default)]
    pub version: Option<String>,
    /// Whether answers are streamed; they are if absent.
    #[serde(default)]
    pub stream: Option<bool>,
    /// What tokens cost; without it the cost is not known.
    #[serde(default)]
    pub price: Option<Price>,
    /// How often it is tried again.
    #[serde(default)]
    pub retry: RetryPolicy,
    /// How long the stages may take, inside the turn's budget.
    #[serde(default)]
    pub timeouts: Timeouts,
}

/// How long the stages of an answer may take, inside the turn's budget.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Timeouts {
    /// Connecting: 10s if absent.
    pub connect: Option<Millis>,
    /// From there to the first byte: 5m if absent.
    pub first_byte: Option<Millis>,
    /// Between two pieces of a stream: 2m if absent.
    pub idle: Option<Millis>,
}

/// The name of the parameter for the most tokens.
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
pub struct CommandConfig {
    /// The program and its arguments; no shell is involved.
    pub argv: Vec<String>,
    /// The folder to run it in; the runner's if absent.
    #[serde(default)]
    pub dir: Option<String>,
    /// Variables for it. None of them may be a key: name the variable that holds it in `pass_env`.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Variables of the runner's environment that it inherits beside the ordinary ones, for example the one with its
    /// key.
    #[serde(default)]
    pub pass_env: Vec<String>,
    /// What it reads on its standard input.
    #[serde(default)]
    pub input: PromptForm,
    /// What it prints.
    #[serde(default)]
    pub output: ReplyForm,
    /// The name to report as the model, if its reply gives none; the program's if absent.
    #[serde(default)]
    pub model: Option<String>,
    /// What tokens cost; without it the cost is not known.
    #[serde(default)]
    pub price: Option<Price>,
    /// How often it is tried again when it exits with 75.
    #[serde(default)]
    pub retry: RetryPolicy,
}

/// What a command reads on its standard input.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PromptForm {
    /// The request as JSON.
    #[default]
    Json,
    /// The conversation as plain text.
    Prompt,
}

/// What a command prints.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ReplyForm {
    /// A reply as JSON if it is one, else plain text.
    #[default]
    Auto,
    /// A reply as JSON; anything else is an error.
    Json,
    /// Plain text, passed on as it comes.
    Text,
}

impl Providers {
    /// Reads the `providers` of a workflow file.
    ///
    /// # Errors
    /// `provider_key_in_file` or `provider_config`, with the place.
    pub fn from_value(value: &Value) -> Result<Self, ProviderError> {
        let all = match value {
            Value::Null => return Ok(Providers::default()),
            Value::Object(all) => all,
            _ => {
                return Err(wrong(
                    "",
                    "`providers` is not a map of names",
                    "write `providers: {main: {kind: …}}`",
                ));
            }
        };
        let read = |(name, config)| Ok((String::clone(name), ProviderConfig::from_value(name, config)?));
        all.iter().map(read).collect::<Result<_, _>>().map(Providers)
    }

    /// The provider with this name.
    ///
    /// # Errors
    /// `provider_config` if there is none, with the names that there are.
    pub fn get(&self, name: &str) -> Result<&ProviderConfig, ProviderError> {
        self.0.get(name).ok_or_else(|| {
            let known: Vec<&str> = self.0.keys().map(String::as_str).collect();
            let advice = match known.as_slice() {
                [] => "add it under `providers`".to_owned(),
                known => format!("add it under `providers`, or use one of these: {}", known.join(", ")),
            };
            wrong(name, "there is no provider with this name in the file", &advice)
        })
    }
}

impl ProviderConfig {
    /// Reads what the file says about the provider with this name.
    ///
    /// # Errors
    /// `provider_key_in_file` or `provider_config`, with the place.
    pub fn from_value(name: &str, value: &Value) -> Result<Self, ProviderError> {
        let advice = "write `kind: openai`, `anthropic`, `command` or `script`";
        let Some(fields) = value.as_object() else {
            return Err(wrong(name, &format!("providers.{name} is not a map"), advice));
        };
        let kind = fields.get("kind").and_then(Value::as_str).unwrap_or_default();
        // What a script says is nobody's key, even if it looks like one.
        if kind != "script" {
            refuse_keys(name, value)?;
        }
        let mut fields = fields.clone();
        fields.remove("kind");
        let rest = Value::Object(fields);
        match kind {
            "script" => read(name, rest).map(ProviderConfig::Script),
            "openai" => read(name, rest).map(ProviderConfig::OpenAi),
            "anthropic" => read(name, rest).map(ProviderConfig::Anthropic),
            "command" => read(name, rest).map(ProviderConfig::Command),
            "" => Err(wrong(name, &format!("providers.{name} has no `kind`"), advice)),
            other => Err(wrong(name, &format!("providers.{name}.kind: there is no '{other}'"), advice)),
        }
    }
}

fn read<T: serde::de::DeserializeOwned>(name: &str, value: Value) -> Result<Box<T>, ProviderError> {
    serde_json::from_value(value).map(Box::new).map_err(|error| {
        wrong(name, &format!("providers.{name}: {error}"), "correct it in the workflow file")
    })
}

/// An error in the file.
pub(super) fn wrong(name: &str, what: &str, advice: &str) -> ProviderError {
    ProviderError::new(Code::Config, name, what).advised(advice)
}

impl<'de> Deserialize<'de> for Providers {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        let told = |error: ProviderError| D::Error::custom(format!("{error}; {}", error.advice));
        Providers::from_value(&value).map_err(told)
    }
}

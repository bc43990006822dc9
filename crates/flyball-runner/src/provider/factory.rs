//! Builds providers from their configuration.

use super::Provider;
use super::anthropic::AnthropicProtocol;
use super::command_provider::CommandProvider;
use super::http::{AgentPool, HttpTimeouts, proxy_for};
use super::http_provider::{EndpointSupport, HttpProvider, WireProtocol};
use super::limits::{CONNECT_TIMEOUT, FIRST_BYTE_TIMEOUT, IDLE_TIMEOUT};
use super::openai::OpenAiProtocol;
use super::provider_config::{HttpProviderConfig, MaxTokensField, ProviderConfig, config_error};
use super::provider_error::{ProviderError, ProviderErrorCode};
use super::provider_key::ProviderKey;
use super::script_provider::ScriptProvider;
use std::sync::Mutex;

/// Body parameters that Flyball sets.
const RESERVED_PARAMS: [&str; 9] = [
    "model",
    "n",
    "messages",
    "tools",
    "stream",
    "stream_options",
    "system",
    "max_tokens",
    "max_completion_tokens",
];
/// Headers that Flyball sets.
const RESERVED_HEADERS: [&str; 5] = ["content-type", "accept", "content-length", "host", "anthropic-version"];

/// Defaults of a protocol.
struct ProtocolDefaults {
    kind: &'static str,
    base_url: &'static str,
    path: &'static str,
    key_env: &'static str,
}

const OPENAI: ProtocolDefaults = ProtocolDefaults {
    kind: "openai",
    base_url: "https://api.openai.com/v1",
    path: "/chat/completions",
    key_env: "OPENAI_API_KEY",
};
const ANTHROPIC: ProtocolDefaults = ProtocolDefaults {
    kind: "anthropic",
    base_url: "https://api.anthropic.com",
    path: "/v1/messages",
    key_env: "ANTHROPIC_API_KEY",
};
const ANTHROPIC_VERSION: &str = "2023-06-01";

/// Builds a provider. `env` looks up environment variables: the API key and the proxy settings.
///
/// # Errors
/// `provider_config` if the configuration is invalid, `provider_auth` if the configured key is not set.
pub fn build_provider(
    config: &ProviderConfig,
    name: &str,
    env: &dyn Fn(&str) -> Option<String>,
) -> Result<Box<dyn Provider>, ProviderError> {
    match config {
        ProviderConfig::Script(config) => Ok(Box::new(ScriptProvider::new(name, config)?)),
        ProviderConfig::Command(config) => Ok(Box::new(CommandProvider::new(name, config)?)),
        ProviderConfig::OpenAi(config) => {
            if config.version.is_some() {
                return Err(config_error(
                    name,
                    "`version` is only valid with `kind: anthropic`",
                    "remove it",
                ));
            }
            let max_tokens_field = config.max_tokens_field.map(|field| match field {
                MaxTokensField::MaxTokens => "max_tokens",
                MaxTokensField::MaxCompletionTokens => "max_completion_tokens",
            });
            build_http_provider(config, name, &OPENAI, Box::new(OpenAiProtocol { max_tokens_field }), env)
        }
        ProviderConfig::Anthropic(config) => {
            if config.max_tokens_field.is_some() {
                return Err(config_error(
                    name,
                    "`max_tokens_field` is only valid with `kind: openai`",
                    "remove it",
                ));
            }
            let version = config.version.clone().unwrap_or_else(|| ANTHROPIC_VERSION.to_owned());
            build_http_provider(config, name, &ANTHROPIC, Box::new(AnthropicProtocol { version }), env)
        }
    }
}

fn build_http_provider(
    config: &HttpProviderConfig,
    name: &str,
    defaults: &ProtocolDefaults,
    protocol: Box<dyn WireProtocol>,
    env: &dyn Fn(&str) -> Option<String>,
) -> Result<Box<dyn Provider>, ProviderError> {
    check_config(config, name, defaults)?;
    let base_url = config.base_url.as_deref().unwrap_or(defaults.base_url).trim_end_matches('/');
    let url = format!("{base_url}{}", config.path.as_deref().unwrap_or(defaults.path));
    let proxy = proxy_for(&url, env)
        .map_err(|what| config_error(name, &what, "write `base_url: https://host/path`"))?;
    let millis =
        |given: Option<super::units::ProviderDuration>, default| given.map_or(default, |given| given.0);
    let timeouts = HttpTimeouts {
        connect: millis(config.timeouts.connect, CONNECT_TIMEOUT),
        first_byte: millis(config.timeouts.first_byte, FIRST_BYTE_TIMEOUT),
        idle: millis(config.timeouts.idle, IDLE_TIMEOUT),
    };
    let stream = config.stream.unwrap_or(true);
    Ok(Box::new(HttpProvider {
        name: name.to_owned(),
        model: config.model.clone(),
        protocol,
        key: resolve_key(config, name, defaults, env)?,
        key_env: config.key_env.clone().unwrap_or_else(|| defaults.key_env.to_owned()),
        key_header: config.key_header.clone(),
        headers: config.headers.iter().map(|(name, value)| (name.clone(), value.clone())).collect(),
        extra: config.body.clone(),
        max_tokens: config.max_tokens,
        price: config.price,
        retry: config.retry.clone(),
        agents: AgentPool::new(&timeouts, proxy),
        timeouts,
        support: Mutex::new(EndpointSupport { stream, stream_options: true, alternate_max_tokens: false }),
        url,
    }))
}

/// Looks up the API key. A configured `key_env` must be set; the default one is required only for the provider's own
/// endpoint.
fn resolve_key(
    config: &HttpProviderConfig,
    name: &str,
    defaults: &ProtocolDefaults,
    env: &dyn Fn(&str) -> Option<String>,
) -> Result<ProviderKey, ProviderError> {
    let variable = config.key_env.as_deref().unwrap_or(defaults.key_env);
    let auth = |what: String, advice: String| {
        Err(ProviderError::new(ProviderErrorCode::Auth, name, what).with_help(advice))
    };
    let key = match ProviderKey::from_variable(env(variable)) {
        Ok(key) => key,
        Err(why) => {
            return auth(format!("{variable} {why}"), format!("set {variable} to the key only"));
        }
    };
    let needed = config.key_env.is_some() || config.base_url.is_none();
    if needed && key.is_none() {
        let advice = format!("set {variable} in the environment, or name another variable in `key_env`");
        return auth(format!("the environment variable {variable} is not set"), advice);
    }
    Ok(key)
}

fn check_config(
    config: &HttpProviderConfig,
    name: &str,
    defaults: &ProtocolDefaults,
) -> Result<(), ProviderError> {
    let place = format!("providers.{name}");
    if config.model.trim().is_empty() {
        return Err(config_error(
            name,
            &format!("{place}.model is empty"),
            "set it to a model of the provider",
        ));
    }
    let scheme = |url: &String| url.starts_with("http://") || url.starts_with("https://");
    if config.base_url.as_ref().is_some_and(|url| !scheme(url)) {
        let what = format!("{place}.base_url must start with http:// or https://");
        return Err(config_error(name, &what, "write `base_url: https://host/path`"));
    }
    if config.path.as_ref().is_some_and(|path| !path.starts_with('/')) {
        return Err(config_error(
            name,
            &format!("{place}.path must start with /"),
            "write `path: /chat/completions`",
        ));
    }
    if let Some(ours) = config.body.keys().find(|key| RESERVED_PARAMS.contains(&key.as_str())) {
        let what = format!("{place}.body.{ours} is set by Flyball");
        return Err(config_error(
            name,
            &what,
            "remove it; `model`, `max_tokens` and `stream` are separate settings",
        ));
    }
    if defaults.kind == "anthropic" && config.body.contains_key("thinking") {
        let what = format!(
            "{place}.body.thinking is not supported: with tools, the API requires the thinking blocks back"
        );
        return Err(config_error(name, &what, "remove it"));
    }
    for (header, value) in config.headers.iter().map(|(header, value)| (header, value.as_str())) {
        let known = RESERVED_HEADERS.contains(&header.to_ascii_lowercase().as_str());
        let sound = ureq::http::HeaderName::try_from(header.as_str()).is_ok()
            && ureq::http::HeaderValue::try_from(value).is_ok();
        if known || !sound {
            let why = if known { "is set by Flyball" } else { "is not a valid header" };
            return Err(config_error(name, &format!("{place}.headers.{header} {why}"), "remove it"));
        }
    }
    let bad_name = |header: &String| ureq::http::HeaderName::try_from(header.as_str()).is_err();
    if config.key_header.as_ref().is_some_and(bad_name) {
        return Err(config_error(
            name,
            &format!("{place}.key_header is not a valid header"),
            "write `key_header: api-key`",
        ));
    }
    if config.max_tokens == Some(0) {
        return Err(config_error(name, &format!("{place}.max_tokens is 0"), "write a number above 0"));
    }
    config.retry.check().map_err(|what| config_error(name, &format!("{place}: {what}"), "fix it"))
}

//! From what the file says to a provider that can be asked.

use super::Provider;
use super::anthropic::Anthropic;
use super::command::CommandProvider;
use super::config::{MaxTokensField, ProviderConfig, RemoteConfig, wrong};
use super::error::{Code, ProviderError};
use super::http::{Agents, Patience, proxy};
use super::limits::{CONNECT, FIRST_BYTE, IDLE};
use super::openai::OpenAi;
use super::remote::{Adjusted, Protocol, Remote};
use super::script::ScriptProvider;
use super::secret::Key;
use std::sync::Mutex;

/// Parameters that are ours to set.
const OURS: [&str; 9] = [
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
/// Headers that are ours to set.
const OUR_HEADERS: [&str; 5] = ["content-type", "accept", "content-length", "host", "anthropic-version"];

/// What the two protocols have of their own.
struct Usual {
    kind: &'static str,
    base_url: &'static str,
    path: &'static str,
    key_env: &'static str,
}

const OPENAI: Usual = Usual {
    kind: "openai",
    base_url: "https://api.openai.com/v1",
    path: "/chat/completions",
    key_env: "OPENAI_API_KEY",
};
const ANTHROPIC: Usual = Usual {
    kind: "anthropic",
    base_url: "https://api.anthropic.com",
    path: "/v1/messages",
    key_env: "ANTHROPIC_API_KEY",
};
const ANTHROPIC_VERSION: &str = "2023-06-01";

/// Makes a provider that can be asked. `env` looks up a variable of the environment: the key, and the usual ones for a
/// proxy.
///
/// # Errors
/// `provider_config` if the file says something that cannot be used, `provider_auth` if the key that it names is not
/// there.
pub fn build(
    config: &ProviderConfig,
    name: &str,
    env: &dyn Fn(&str) -> Option<String>,
) -> Result<Box<dyn Provider>, ProviderError> {
    match config {
        ProviderConfig::Script(config) => Ok(Box::new(ScriptProvider::new(name, config)?)),
        ProviderConfig::Command(config) => Ok(Box::new(CommandProvider::new(name, config)?)),
        ProviderConfig::OpenAi(config) => {
            if config.version.is_some() {
                return Err(wrong(name, "`version` belongs to `kind: anthropic`", "take it out"));
            }
            let max_tokens_field = config.max_tokens_field.map(|field| match field {
                MaxTokensField::MaxTokens => "max_tokens",
                MaxTokensField::MaxCompletionTokens => "max_completion_tokens",
            });
            remote(config, name, &OPENAI, Box::new(OpenAi { max_tokens_field }), env)
        }
        ProviderConfig::Anthropic(config) => {
            if config.max_tokens_field.is_some() {
                return Err(wrong(name, "`max_tokens_field` belongs to `kind: openai`", "take it out"));
            }
            let version = config.version.clone().unwrap_or_else(|| ANTHROPIC_VERSION.to_owned());
            remote(config, name, &ANTHROPIC, Box::new(Anthropic { version }), env)
        }
    }
}

fn remote(
    config: &RemoteConfig,
    name: &str,
    usual: &Usual,
    protocol: Box<dyn Protocol>,
    env: &dyn Fn(&str) -> Option<String>,
) -> Result<Box<dyn Provider>, ProviderError> {
    check(config, name, usual)?;
    let base_url = config.base_url.as_deref().unwrap_or(usual.base_url).trim_end_matches('/');
    let url = format!("{base_url}{}", config.path.as_deref().unwrap_or(usual.path));
    let proxy = proxy(&url, env).map_err(|what| wrong(name, &what, "write `base_url: https://host/path`"))?;
    let millis = |given: Option<super::units::Millis>, usual| given.map_or(usual, |given| given.0);
    let patience = Patience {
        connect: millis(config.timeouts.connect, CONNECT),
        first_byte: millis(config.timeouts.first_byte, FIRST_BYTE),
        idle: millis(config.timeouts.idle, IDLE),
    };
    let stream = config.stream.unwrap_or(true);
    Ok(Box::new(Remote {
        name: name.to_owned(),
        model: config.model.clone(),
        protocol,
        key: key(config, name, usual, env)?,
        key_env: config.key_env.clone().unwrap_or_else(|| usual.key_env.to_owned()),
        key_header: config.key_header.clone(),
        headers: config.headers.iter().map(|(name, value)| (name.clone(), value.clone())).collect(),
        extra: config.body.clone(),
        max_tokens: config.max_tokens,
        price: config.price,
        retry: config.retry.clone(),
        agents: Agents::new(&patience, proxy),
        patience,
        adjusted: Mutex::new(Adjusted { stream, stream_options: true, other_max_tokens: false }),
        url,
    }))
}

/// The key. One that the file names must be there; the usual one only for the original provider.
fn key(
    config: &RemoteConfig,
    name: &str,
    usual: &Usual,
    env: &dyn Fn(&str) -> Option<String>,
) -> Result<Key, ProviderError> {
    let variable = config.key_env.as_deref().unwrap_or(usual.key_env);
    let auth = |what: String, advice: String| Err(ProviderError::new(Code::Auth, name, what).advised(advice));
    let key = match Key::from_variable(env(variable)) {
        Ok(key) => key,
        Err(why) => {
            return auth(format!("{variable} {why}"), format!("set {variable} to the key and nothing else"));
        }
    };
    let needed = config.key_env.is_some() || config.base_url.is_none();
    if needed && key.is_none() {
        let advice = format!("set {variable} in the environment, or name another variable in `key_env`");
        return auth(format!("the environment variable {variable} is not set"), advice);
    }
    Ok(key)
}

fn check(config: &RemoteConfig, name: &str, usual: &Usual) -> Result<(), ProviderError> {
    let place = format!("providers.{name}");
    if config.model.trim().is_empty() {
        return Err(wrong(name, &format!("{place}.model is empty"), "name a model of the provider"));
    }
    let scheme = |url: &String| url.starts_with("http://") || url.starts_with("https://");
    if config.base_url.as_ref().is_some_and(|url| !scheme(url)) {
        let what = format!("{place}.base_url begins neither with http:// nor with https://");
        return Err(wrong(name, &what, "write `base_url: https://host/path`"));
    }
    if config.path.as_ref().is_some_and(|path| !path.starts_with('/')) {
        return Err(wrong(
            name,
            &format!("{place}.path does not begin with /"),
            "write `path: /chat/completions`",
        ));
    }
    if let Some(ours) = config.body.keys().find(|key| OURS.contains(&key.as_str())) {
        let what = format!("{place}.body.{ours} is set by Flyball itself");
        return Err(wrong(
            name,
            &what,
            "take it out; `model`, `max_tokens` and `stream` have fields of their own",
        ));
    }
    if usual.kind == "anthropic" && config.body.contains_key("thinking") {
        let what = format!(
            "{place}.body.thinking: thoughts are not kept, and the provider wants them back with tools"
        );
        return Err(wrong(name, &what, "take it out"));
    }
    for (header, value) in config.headers.iter().map(|(header, value)| (header, value.as_str())) {
        let known = OUR_HEADERS.contains(&header.to_ascii_lowercase().as_str());
        let sound = ureq::http::HeaderName::try_from(header.as_str()).is_ok()
            && ureq::http::HeaderValue::try_from(value).is_ok();
        if known || !sound {
            let why = if known { "is set by Flyball itself" } else { "is no valid header" };
            return Err(wrong(name, &format!("{place}.headers.{header} {why}"), "take it out"));
        }
    }
    let bad_name = |header: &String| ureq::http::HeaderName::try_from(header.as_str()).is_err();
    if config.key_header.as_ref().is_some_and(bad_name) {
        return Err(wrong(
            name,
            &format!("{place}.key_header is no valid header"),
            "write `key_header: api-key`",
        ));
    }
    if config.max_tokens == Some(0) {
        return Err(wrong(name, &format!("{place}.max_tokens is 0"), "write a number above 0"));
    }
    config.retry.check().map_err(|what| wrong(name, &format!("{place}: {what}"), "correct it"))
}

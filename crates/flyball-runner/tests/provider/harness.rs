//! Test harness that calls a provider as the runner does, from its settings to the reply.

use flyball_model_server::{ModelServer, ReplyBehavior, ServerScript};
use flyball_runner::process::CancelToken;
use flyball_runner::provider::{
    ModelReply, ModelRequest, ModelToolSpec, Provider, ProviderConfigs, ProviderError, ProviderProgress,
    RetryNotice, build_provider,
};
use serde_json::{Value, json};
use std::time::Duration;

/// Key sent by the tests. It has no known format, so only the provider's own redaction keeps it out of messages.
pub(crate) const KEY: &str = "zq-live-0123456789abcdefghij";
/// Reached only by a hang.
pub(crate) const LONG: Duration = Duration::from_secs(60);

/// The two protocols.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ProtocolKind {
    OpenAi,
    Anthropic,
}

pub(crate) const PROTOCOLS: [ProtocolKind; 2] = [ProtocolKind::OpenAi, ProtocolKind::Anthropic];

impl ProtocolKind {
    /// Settings of a provider of this kind for a server.
    pub(crate) fn config(self, url: &str, more: &Value) -> Value {
        let mut config = match self {
            ProtocolKind::OpenAi => json!({"kind": "openai", "base_url": format!("{url}/v1")}),
            ProtocolKind::Anthropic => json!({"kind": "anthropic", "base_url": url}),
        };
        config["model"] = json!("test-model");
        config["key_env"] = json!("TEST_KEY");
        // Delays too short to notice.
        config["retry"] = json!({"base": 1, "cap": 2});
        merge(&mut config, more);
        config
    }
}

fn merge(into: &mut Value, more: &Value) {
    for (name, value) in more.as_object().into_iter().flatten() {
        if into[name].is_object() && value.is_object() {
            merge(&mut into[name], value);
        } else {
            into[name] = value.clone();
        }
    }
}

/// Environment of the tests.
pub(crate) fn env(name: &str) -> Option<String> {
    (name == "TEST_KEY").then(|| KEY.to_owned())
}

/// Builds a provider from settings.
pub(crate) fn provider(config: &Value) -> Result<Box<dyn Provider>, ProviderError> {
    let file = ProviderConfigs::from_value(&json!({"main": config}))?;
    build_provider(file.get("main")?, "main", &env)
}

/// Observed result of a request.
#[derive(Debug)]
pub(crate) struct AskResult {
    pub(crate) result: Result<ModelReply, ProviderError>,
    pub(crate) texts: Vec<String>,
    pub(crate) retries: Vec<RetryNotice>,
}

impl AskResult {
    pub(crate) fn reply(&self) -> &ModelReply {
        self.result.as_ref().unwrap_or_else(|error| panic!("{error}; {}", error.help))
    }

    pub(crate) fn error(&self) -> &ProviderError {
        self.result.as_ref().expect_err("an error was expected")
    }

    pub(crate) fn text(&self) -> String {
        self.texts.concat()
    }
}

/// Sends a request to a provider.
pub(crate) fn ask(provider: &dyn Provider, request: &ModelRequest) -> AskResult {
    ask_until(provider, request, &CancelToken::new())
}

/// Sends a request to a provider until it is cancelled.
pub(crate) fn ask_until(provider: &dyn Provider, request: &ModelRequest, cancel: &CancelToken) -> AskResult {
    let mut texts = Vec::new();
    let mut retries = Vec::new();
    let result = provider.ask_with_progress(request, cancel, &mut |progress| match progress {
        ProviderProgress::Text(text) => texts.push(text.to_owned()),
        ProviderProgress::Retry(retry) => retries.push(retry.clone()),
    });
    AskResult { result, texts, retries }
}

/// A server with replies and the test key.
pub(crate) fn server(replies: impl IntoIterator<Item = ReplyBehavior>) -> ModelServer {
    let script = ServerScript { key: Some(KEY.to_owned()), ..ServerScript::new(replies) };
    ModelServer::start(script).unwrap()
}

/// A request with a long deadline and a tool.
pub(crate) fn question() -> ModelRequest {
    let schema = json!({"type": "object", "properties": {"command": {"type": "string"}}});
    ModelRequest {
        system: Some("be brief".to_owned()),
        tools: vec![ModelToolSpec {
            name: "bash".to_owned(),
            description: "runs a command".to_owned(),
            schema,
        }],
        deadline: Some(LONG),
        ..ModelRequest::new("what is there?")
    }
}

/// Sends a request to a new server with these replies and additional settings.
pub(crate) fn check(
    kind: ProtocolKind,
    replies: impl IntoIterator<Item = ReplyBehavior>,
    more: Value,
) -> (AskResult, ModelServer) {
    let server = server(replies);
    let provider = provider(&kind.config(&server.url(), &more)).unwrap();
    (ask(provider.as_ref(), &question()), server)
}

//! Asking a provider the way the runner does: from the file's words to the answer.

use flyball_model_server::{Behaviour, Script, Server};
use flyball_run::process::Cancel;
use flyball_run::provider::{
    Progress, Provider, ProviderError, Providers, Reply, Request, Retry, ToolSpec, build,
};
use serde_json::{Value, json};
use std::time::Duration;

/// The key that tests send. It looks like nobody's, so only our own care keeps it out of messages.
pub(crate) const KEY: &str = "zq-live-0123456789abcdefghij";
/// Long enough that nothing but a hang reaches it.
pub(crate) const LONG: Duration = Duration::from_secs(60);

/// The two protocols.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    OpenAi,
    Anthropic,
}

pub(crate) const BOTH: [Kind; 2] = [Kind::OpenAi, Kind::Anthropic];

impl Kind {
    /// What the file says about a provider of this kind at a server.
    pub(crate) fn config(self, url: &str, more: &Value) -> Value {
        let mut config = match self {
            Kind::OpenAi => json!({"kind": "openai", "base_url": format!("{url}/v1")}),
            Kind::Anthropic => json!({"kind": "anthropic", "base_url": url}),
        };
        config["model"] = json!("test-model");
        config["key_env"] = json!("TEST_KEY");
        // Waits that a test does not notice.
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

/// The environment of the tests.
pub(crate) fn env(name: &str) -> Option<String> {
    (name == "TEST_KEY").then(|| KEY.to_owned())
}

/// A provider from what the file says.
pub(crate) fn provider(config: &Value) -> Result<Box<dyn Provider>, ProviderError> {
    let file = Providers::from_value(&json!({"main": config}))?;
    build(file.get("main")?, "main", &env)
}

/// What was seen of an ask.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) result: Result<Reply, ProviderError>,
    pub(crate) texts: Vec<String>,
    pub(crate) retries: Vec<Retry>,
}

impl Asked {
    pub(crate) fn reply(&self) -> &Reply {
        self.result.as_ref().unwrap_or_else(|error| panic!("{error}; {}", error.advice))
    }

    pub(crate) fn error(&self) -> &ProviderError {
        self.result.as_ref().expect_err("an error was expected")
    }

    pub(crate) fn text(&self) -> String {
        self.texts.concat()
    }
}

/// Asks a provider.
pub(crate) fn ask(provider: &dyn Provider, request: &Request) -> Asked {
    ask_until(provider, request, &Cancel::new())
}

/// Asks a provider until somebody cancels it.
pub(crate) fn ask_until(provider: &dyn Provider, request: &Request, cancel: &Cancel) -> Asked {
    let mut texts = Vec::new();
    let mut retries = Vec::new();
    let result = provider.ask_watched(request, cancel, &mut |progress| match progress {
        Progress::Text(text) => texts.push(text.to_owned()),
        Progress::Retry(retry) => retries.push(retry.clone()),
    });
    Asked { result, texts, retries }
}

/// A server with some answers and the key of the tests.
pub(crate) fn server(replies: impl IntoIterator<Item = Behaviour>) -> Server {
    let script = Script { key: Some(KEY.to_owned()), ..Script::new(replies) };
    Server::start(script).unwrap()
}

/// A question with a long deadline and a tool.
pub(crate) fn question() -> Request {
    let schema = json!({"type": "object", "properties": {"command": {"type": "string"}}});
    Request {
        system: Some("be brief".to_owned()),
        tools: vec![ToolSpec { name: "bash".to_owned(), description: "runs a command".to_owned(), schema }],
        deadline: Some(LONG),
        ..Request::new("what is there?")
    }
}

/// Asks a new server with these answers, with these words added to the file.
pub(crate) fn check(
    kind: Kind,
    replies: impl IntoIterator<Item = Behaviour>,
    more: Value,
) -> (Asked, Server) {
    let server = server(replies);
    let provider = provider(&kind.config(&server.url(), &more)).unwrap();
    (ask(provider.as_ref(), &question()), server)
}

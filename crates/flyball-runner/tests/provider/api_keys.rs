//! Keys go from the environment to a header, and nowhere else.

use super::harness::{KEY, PROTOCOLS, ProtocolKind, ask, env, provider, question, server};
use flyball_model_server::{ModelServer, ReplyBehavior, ServerScript, StreamErrorEvent};
use flyball_runner::provider::{ProviderConfigs, build_provider};
use serde_json::{Value, json};

/// A server with a different key: it responds 401 and echoes the key it got.
fn server_with_other_key(replies: impl IntoIterator<Item = ReplyBehavior>) -> ModelServer {
    ModelServer::start(ServerScript { key: Some("another".to_owned()), ..ServerScript::new(replies) })
        .unwrap()
}

#[test]
fn wrong_key_is_rejected_and_not_leaked() {
    for kind in PROTOCOLS {
        let server = server_with_other_key([]);
        let provider = provider(&kind.config(&server.url(), &json!({}))).unwrap();
        let asked = ask(provider.as_ref(), &question());
        let error = asked.error();
        assert_eq!((error.code(), error.status), ("provider_auth", Some(401)), "{kind:?}");
        assert!(error.message.contains("Incorrect API key provided: [key]"), "{}", error.message);
        assert!(error.help.contains("TEST_KEY"));
        let shown = format!("{error} {error:?} {} {}", error.help, serde_json::to_string(error).unwrap());
        assert!(!shown.contains(KEY), "{shown}");
        // The key was sent, so a leak would be visible.
        assert!(format!("{:?}", server.requests()).contains(KEY));
    }
}

/// All ways in which a provider can echo the key.
#[test]
fn echoed_key_is_scrubbed() {
    let event = StreamErrorEvent { after: 1, kind: format!("kind_{KEY}"), message: format!("message {KEY}") };
    let mut redirect = ReplyBehavior { body: Some(String::new()), ..ReplyBehavior::status(302) };
    redirect.headers.insert("Location".to_owned(), format!("http://x.invalid/?key={KEY}"));
    let says = [
        ReplyBehavior { error: Some(format!("bad {KEY}")), ..ReplyBehavior::status(400) },
        ReplyBehavior { error: Some(format!("busy {KEY}")), ..ReplyBehavior::status(503) },
        ReplyBehavior { body: Some(format!("plain {KEY}")), ..ReplyBehavior::status(500) },
        ReplyBehavior { body: Some(format!("nonsense {KEY}")), ..ReplyBehavior::default() },
        ReplyBehavior {
            content_type: Some(format!("text/{KEY}")),
            body: Some("<x>".to_owned()),
            ..ReplyBehavior::default()
        },
        ReplyBehavior { error_event: Some(event), ..ReplyBehavior::text("abc") },
        redirect,
    ];
    for kind in PROTOCOLS {
        for said in &says {
            let server = server([said.clone(), said.clone()]);
            let config = kind.config(&server.url(), &json!({"retry": {"attempts": 2}}));
            let asked = ask(provider(&config).unwrap().as_ref(), &question());
            asked.error();
            let shown = format!("{asked:?}");
            assert!(!shown.contains(KEY) && !shown.contains("0123456789"), "{kind:?}: {shown}");
        }
    }
}

#[test]
fn missing_key_is_reported_before_any_request() {
    for (kind, usual) in [("openai", "OPENAI_API_KEY"), ("anthropic", "ANTHROPIC_API_KEY")] {
        let named =
            json!({"kind": kind, "model": "m", "key_env": "NOT_SET", "base_url": "http://127.0.0.1:1"});
        for (config, variable) in [(named, "NOT_SET"), (json!({"kind": kind, "model": "m"}), usual)] {
            let error = provider(&config).expect_err("no key");
            assert_eq!(error.code(), "provider_auth");
            assert!(error.message.contains(variable) && error.help.contains("key_env"), "{error}");
        }
    }
}

#[test]
fn default_key_variable_is_used() {
    for (kind, variable) in
        [(ProtocolKind::OpenAi, "OPENAI_API_KEY"), (ProtocolKind::Anthropic, "ANTHROPIC_API_KEY")]
    {
        let server = server([ReplyBehavior::text("in")]);
        let mut config = kind.config(&server.url(), &json!({}));
        config.as_object_mut().unwrap().remove("key_env");
        let file = ProviderConfigs::from_value(&json!({"main": config})).unwrap();
        let env = |name: &str| (name == variable).then(|| KEY.to_owned());
        let provider = build_provider(file.get("main").unwrap(), "main", &env).unwrap();
        assert_eq!(ask(provider.as_ref(), &question()).reply().text, "in", "{kind:?}");
    }
}

#[test]
fn custom_endpoint_needs_no_key() {
    for kind in PROTOCOLS {
        let server = ModelServer::start(ServerScript::new([ReplyBehavior::text("in")])).unwrap();
        let mut config = kind.config(&server.url(), &json!({}));
        config.as_object_mut().unwrap().remove("key_env");
        assert_eq!(ask(provider(&config).unwrap().as_ref(), &question()).reply().text, "in");
        let headers = server.requests().remove(0).headers;
        assert!(!headers.contains_key("authorization") && !headers.contains_key("x-api-key"), "{headers:?}");
        // If the endpoint requires a key after all, the help says so.
        let server = server_with_other_key([]);
        config["base_url"] = kind.config(&server.url(), &json!({}))["base_url"].clone();
        let asked = ask(provider(&config).unwrap().as_ref(), &question());
        assert_eq!(asked.error().code(), "provider_auth");
        assert!(asked.error().help.contains("no key was sent"), "{}", asked.error().help);
    }
}

#[test]
fn key_is_sent_in_the_configured_header() {
    for kind in PROTOCOLS {
        let server = ModelServer::start(ServerScript::new([ReplyBehavior::text("in")])).unwrap();
        let config = kind.config(&server.url(), &json!({"key_header": "api-key"}));
        ask(provider(&config).unwrap().as_ref(), &question()).reply();
        let request = server.requests().remove(0);
        assert_eq!(request.header("api-key"), Some(KEY));
        assert!(request.header("authorization").is_none() && request.header("x-api-key").is_none());
    }
}

#[test]
fn invalid_key_value_is_rejected_without_leaking_it() {
    let file = ProviderConfigs::from_value(
        &json!({"main": {"kind": "openai", "model": "m", "key_env": "TEST_KEY"}}),
    )
    .unwrap();
    for value in ["two words", "new\nline", "ключ-ключ"] {
        let error =
            build_provider(file.get("main").unwrap(), "main", &|name| env(name).map(|_| value.to_owned()))
                .err()
                .unwrap();
        assert_eq!(error.code(), "provider_auth");
        assert!(!format!("{error:?}").contains(value) && error.message.contains("TEST_KEY"), "{error}");
    }
    let spaced =
        build_provider(file.get("main").unwrap(), "main", &|name| env(name).map(|key| format!(" {key}\n")));
    assert!(spaced.is_ok(), "surrounding spaces are ignored");
}

/// Keys in a workflow file are rejected.
#[test]
fn key_in_workflow_file_is_rejected() {
    let token = "ghp_0123456789abcdefghijABCDEFGHIJ012345";
    let cases: [(Value, &str); 6] = [
        (json!({"kind": "openai", "model": "m", "api_key": KEY}), "providers.main.api_key"),
        (json!({"kind": "anthropic", "model": "m", "key": KEY}), "providers.main.key"),
        (json!({"kind": "openai", "model": "m", "key_env": KEY}), "providers.main.key_env"),
        (
            json!({"kind": "openai", "model": "m", "headers": {"x-api-key": KEY}}),
            "providers.main.headers.x-api-key",
        ),
        (json!({"kind": "openai", "model": "m", "body": {"user": token}}), "providers.main"),
        (json!({"kind": "command", "argv": ["agent"], "env": {"GITHUB_TOKEN": token}}), "providers.main"),
    ];
    for (config, place) in cases {
        let error = provider(&config).expect_err("a key in the file");
        assert_eq!(error.code(), "provider_key_in_file", "{config}");
        assert!(error.message.ends_with(place), "{}", error.message);
        let by_serde =
            serde_json::from_value::<ProviderConfigs>(json!({"main": config})).unwrap_err().to_string();
        assert!(
            by_serde.contains("provider_key_in_file") && by_serde.contains("environment variable"),
            "{by_serde}"
        );
        let shown = format!("{error:?} {by_serde}");
        assert!(!shown.contains(KEY) && !shown.contains(token), "{shown}");
    }
}

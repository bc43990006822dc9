//! Keys: from the environment, into a header, and nowhere else.

use super::kit::{BOTH, KEY, Kind, ask, env, provider, question, server};
use flyball_model_server::{Behaviour, ErrorEvent, Script, Server};
use flyball_run::provider::{Providers, build};
use serde_json::{Value, json};

/// A server with another key: it answers 401 and shows the key that it got.
fn stranger(replies: impl IntoIterator<Item = Behaviour>) -> Server {
    Server::start(Script { key: Some("another".to_owned()), ..Script::new(replies) }).unwrap()
}

#[test]
fn a_wrong_key_is_refused_and_shown_to_nobody() {
    for kind in BOTH {
        let server = stranger([]);
        let provider = provider(&kind.config(&server.url(), &json!({}))).unwrap();
        let asked = ask(provider.as_ref(), &question());
        let error = asked.error();
        assert_eq!((error.code(), error.status), ("provider_auth", Some(401)), "{kind:?}");
        assert!(error.what.contains("Incorrect API key provided: [key]"), "{}", error.what);
        assert!(error.advice.contains("TEST_KEY"));
        let shown = format!("{error} {error:?} {} {}", error.advice, serde_json::to_string(error).unwrap());
        assert!(!shown.contains(KEY), "{shown}");
        // It was sent, so the test would see it.
        assert!(format!("{:?}", server.requests()).contains(KEY));
    }
}

/// Every way in which a provider can repeat the key to us.
#[test]
fn a_provider_that_repeats_the_key_is_not_repeated() {
    let event = ErrorEvent { after: 1, kind: format!("kind_{KEY}"), message: format!("message {KEY}") };
    let mut redirect = Behaviour { body: Some(String::new()), ..Behaviour::status(302) };
    redirect.headers.insert("Location".to_owned(), format!("http://x.invalid/?key={KEY}"));
    let says = [
        Behaviour { error: Some(format!("bad {KEY}")), ..Behaviour::status(400) },
        Behaviour { error: Some(format!("busy {KEY}")), ..Behaviour::status(503) },
        Behaviour { body: Some(format!("plain {KEY}")), ..Behaviour::status(500) },
        Behaviour { body: Some(format!("nonsense {KEY}")), ..Behaviour::default() },
        Behaviour {
            content_type: Some(format!("text/{KEY}")),
            body: Some("<x>".to_owned()),
            ..Behaviour::default()
        },
        Behaviour { error_event: Some(event), ..Behaviour::text("abc") },
        redirect,
    ];
    for kind in BOTH {
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
fn a_key_that_is_not_there_is_told_before_anything_is_asked() {
    for (kind, usual) in [("openai", "OPENAI_API_KEY"), ("anthropic", "ANTHROPIC_API_KEY")] {
        let named =
            json!({"kind": kind, "model": "m", "key_env": "NOT_SET", "base_url": "http://127.0.0.1:1"});
        for (config, variable) in [(named, "NOT_SET"), (json!({"kind": kind, "model": "m"}), usual)] {
            let error = provider(&config).expect_err("no key");
            assert_eq!(error.code(), "provider_auth");
            assert!(error.what.contains(variable) && error.advice.contains("key_env"), "{error}");
        }
    }
}

#[test]
fn the_usual_variable_is_read_if_the_file_names_none() {
    for (kind, variable) in [(Kind::OpenAi, "OPENAI_API_KEY"), (Kind::Anthropic, "ANTHROPIC_API_KEY")] {
        let server = server([Behaviour::text("in")]);
        let mut config = kind.config(&server.url(), &json!({}));
        config.as_object_mut().unwrap().remove("key_env");
        let file = Providers::from_value(&json!({"main": config})).unwrap();
        let env = |name: &str| (name == variable).then(|| KEY.to_owned());
        let provider = build(file.get("main").unwrap(), "main", &env).unwrap();
        assert_eq!(ask(provider.as_ref(), &question()).reply().text, "in", "{kind:?}");
    }
}

#[test]
fn an_endpoint_of_ones_own_needs_no_key() {
    for kind in BOTH {
        let server = Server::start(Script::new([Behaviour::text("in")])).unwrap();
        let mut config = kind.config(&server.url(), &json!({}));
        config.as_object_mut().unwrap().remove("key_env");
        assert_eq!(ask(provider(&config).unwrap().as_ref(), &question()).reply().text, "in");
        let headers = server.requests().remove(0).headers;
        assert!(!headers.contains_key("authorization") && !headers.contains_key("x-api-key"), "{headers:?}");
        // One that wants a key after all says so, and so do we.
        let server = stranger([]);
        config["base_url"] = kind.config(&server.url(), &json!({}))["base_url"].clone();
        let asked = ask(provider(&config).unwrap().as_ref(), &question());
        assert_eq!(asked.error().code(), "provider_auth");
        assert!(asked.error().advice.contains("no key was sent"), "{}", asked.error().advice);
    }
}

#[test]
fn the_key_goes_into_the_header_that_the_file_names() {
    for kind in BOTH {
        let server = Server::start(Script::new([Behaviour::text("in")])).unwrap();
        let config = kind.config(&server.url(), &json!({"key_header": "api-key"}));
        ask(provider(&config).unwrap().as_ref(), &question()).reply();
        let request = server.requests().remove(0);
        assert_eq!(request.header("api-key"), Some(KEY));
        assert!(request.header("authorization").is_none() && request.header("x-api-key").is_none());
    }
}

#[test]
fn a_variable_that_holds_no_key_is_refused_without_showing_it() {
    let file =
        Providers::from_value(&json!({"main": {"kind": "openai", "model": "m", "key_env": "TEST_KEY"}}))
            .unwrap();
    for value in ["two words", "new\nline", "ключ-ключ"] {
        let error = build(file.get("main").unwrap(), "main", &|name| env(name).map(|_| value.to_owned()))
            .err()
            .unwrap();
        assert_eq!(error.code(), "provider_auth");
        assert!(!format!("{error:?}").contains(value) && error.what.contains("TEST_KEY"), "{error}");
    }
    let spaced = build(file.get("main").unwrap(), "main", &|name| env(name).map(|key| format!(" {key}\n")));
    assert!(spaced.is_ok(), "spaces around it do no harm");
}

/// From the file to the refusal, the way a workflow is read.
#[test]
fn a_key_in_the_file_is_refused() {
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
        assert!(error.what.ends_with(place), "{}", error.what);
        let by_serde = serde_json::from_value::<Providers>(json!({"main": config})).unwrap_err().to_string();
        assert!(
            by_serde.contains("provider_key_in_file") && by_serde.contains("environment variable"),
            "{by_serde}"
        );
        let shown = format!("{error:?} {by_serde}");
        assert!(!shown.contains(KEY) && !shown.contains(token), "{shown}");
    }
}

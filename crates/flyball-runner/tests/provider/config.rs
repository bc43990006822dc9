//! Validation of provider settings.

use super::harness::{KEY, ProtocolKind, ask, provider, question, server};
use flyball_model_server::ReplyBehavior;
use flyball_runner::provider::{ProviderConfig, ProviderConfigs};
use serde_json::{Value, json};

#[test]
fn invalid_config_is_rejected_with_location() {
    let remote = |more: Value| {
        let mut config = ProtocolKind::OpenAi.config("http://127.0.0.1:1", &json!({}));
        for (name, value) in more.as_object().unwrap() {
            config[name] = value.clone();
        }
        config
    };
    let cases = [
        (json!("x"), "providers.main must be a map"),
        (json!({}), "providers.main has no `kind`"),
        (json!({"kind": "oracle"}), "unknown kind 'oracle'"),
        (json!({"kind": "openai"}), "missing field `model`"),
        (remote(json!({"model": " "})), "model is empty"),
        (remote(json!({"temprature": 1})), "temprature"),
        (remote(json!({"base_url": "localhost:80"})), "base_url"),
        (remote(json!({"base_url": "http://"})), "invalid URL"),
        (remote(json!({"path": "chat"})), "path"),
        (remote(json!({"version": "1"})), "version"),
        (remote(json!({"kind": "anthropic", "max_tokens_field": "max_tokens"})), "max_tokens_field"),
        (remote(json!({"kind": "anthropic", "body": {"thinking": {}}})), "body.thinking"),
        (remote(json!({"max_tokens": 0})), "max_tokens is 0"),
        (remote(json!({"body": {"messages": []}})), "body.messages"),
        (remote(json!({"body": {"n": 2}})), "body.n"),
        (remote(json!({"headers": {"Accept": "x"}})), "headers.Accept"),
        (remote(json!({"headers": {"bad name": "x"}})), "headers.bad name"),
        (remote(json!({"headers": {"x-y": "a\nb"}})), "headers.x-y"),
        (remote(json!({"key_header": "bad name"})), "key_header"),
        (remote(json!({"retry": {"attempts": 0}})), "retry.attempts"),
        (remote(json!({"retry": {"attempts": 101}})), "retry.attempts"),
        (remote(json!({"retry": {"bsae": 1}})), "bsae"),
        (remote(json!({"retry": {"broken_off": "panic"}})), "panic"),
        (remote(json!({"timeouts": {"idle": "soon"}})), "invalid duration 'soon'"),
        (
            remote(json!({"price": {"input_per_million_usd": "cheap", "output_per_million_usd": 1}})),
            "'cheap'",
        ),
        (json!({"kind": "command", "argv": []}), "argv is empty"),
        (json!({"kind": "command", "argv": ["x"], "shell": true}), "shell"),
        (json!({"kind": "script", "replies": [7]}), "a reply must be a string or a map"),
        (json!({"kind": "script", "replies": [{"txet": "x"}]}), "txet"),
        (json!({"kind": "script", "rules": [{"when": {}, "reply": "x"}]}), "rules[0].when is empty"),
        (
            json!({"kind": "script", "rules": [{"when": {"matches": "("}, "reply": "x"}]}),
            "rules[0].when.matches",
        ),
        (json!({"kind": "script", "nodes": {"a": {"turns": [["x"]], "replies": ["y"]}}}), "nodes.a"),
        (json!({"kind": "script", "nodes": {"a": {"turns": [[]]}}}), "nodes.a has an empty turn"),
    ];
    for (config, place) in cases {
        let error = provider(&config).err().unwrap_or_else(|| panic!("{config} was accepted"));
        assert_eq!(error.code(), "provider_config", "{config}: {error}");
        assert!(error.message.contains(place), "{config}: {}", error.message);
        assert!(!error.help.is_empty());
    }
}

#[test]
fn unknown_provider_error_lists_known_providers() {
    let file = ProviderConfigs::from_value(&json!({"main": {"kind": "script"}, "other": {"kind": "script"}}))
        .unwrap();
    let error = file.get("mian").unwrap_err();
    assert_eq!(error.code(), "provider_config");
    assert!(error.help.contains("main, other"), "{}", error.help);
    assert!(ProviderConfigs::from_value(&json!(null)).unwrap().get("main").is_err());
    assert!(ProviderConfigs::from_value(&json!([])).is_err());
}

#[test]
fn all_config_keys_are_accepted() {
    let all = json!({
        "openai": {"kind": "openai", "model": "m", "base_url": "https://host.example/v1/", "path": "/chat/completions?v=1",
            "key_env": "TEST_KEY", "key_header": "api-key", "headers": {"x-y": "z"}, "body": {"temperature": 0.5},
            "max_tokens": 5, "max_tokens_field": "max_completion_tokens", "stream": false,
            "price": {"input_per_million_usd": 1, "output_per_million_usd": "2.5"},
            "retry": {"attempts": 2, "base": "1s", "cap": "1m", "broken_off": "retry"},
            "timeouts": {"connect": "1s", "first_byte": "1m", "idle": 500}},
        "anthropic": {"kind": "anthropic", "model": "m", "version": "2023-06-01"},
        "command": {"kind": "command", "argv": ["x", "y"], "dir": "/", "env": {"A": "b"}, "input": "prompt",
            "output": "text", "model": "m", "retry": {"attempts": 1}},
        "script": {"kind": "script", "model": "m", "repeat": "last", "replies": ["a", {"text": "b"}], "otherwise": "c",
            "rules": [{"when": {"contains": "x", "matches": "y", "tool_failed": true, "tool": "t", "node": "n",
                "turn": 1, "round": 2}, "reply": {"text": "d", "calls": [{"tool": "t", "args": {}, "id": "i"},
                {"tool": "t", "raw": "{"}], "stop": "end", "usage": {"tokens_in": 1}, "wait": "1ms", "cut_at": 1,
                "times": 2}}],
            "nodes": {"n": {"turns": [["x"], [{"fail": {"status": 500, "message": "m", "retry_after": 5}}]]}}},
    });
    let by_serde: ProviderConfigs = serde_json::from_value(all.clone()).unwrap();
    let file = ProviderConfigs::from_value(&all).unwrap();
    assert_eq!(file, by_serde);
    assert!(
        matches!(file.get("anthropic").unwrap(), ProviderConfig::Anthropic(config) if config.model == "m")
    );
}

#[test]
fn base_url_and_path_are_joined() {
    for (base, path, expected) in [
        ("/v1/", None, "/v1/chat/completions"),
        ("", Some("/deep/chat/completions?version=7"), "/deep/chat/completions?version=7"),
    ] {
        let server = server([ReplyBehavior::text("in")]);
        let mut config = ProtocolKind::OpenAi
            .config(&server.url(), &json!({"base_url": format!("{}{base}", server.url())}));
        if let Some(path) = path {
            config["path"] = json!(path);
        }
        assert_eq!(ask(provider(&config).unwrap().as_ref(), &question()).reply().text, "in");
        assert_eq!(server.requests()[0].path, expected);
    }
}

#[test]
fn debug_output_has_no_key() {
    let config = ProtocolKind::OpenAi.config("http://127.0.0.1:1", &json!({}));
    let provider = provider(&config).unwrap();
    assert_eq!(provider.name(), "main");
    let shown = format!("{provider:?}");
    assert!(shown.contains("test-model") && shown.contains("[key]"), "{shown}");
    assert!(!shown.contains(KEY), "{shown}");
}

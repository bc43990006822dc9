//! Keys are rejected in files and redacted in messages.

use super::*;
use serde_json::json;

const KEY: &str = "zq-live-0123456789abcdefghij";

fn key() -> ProviderKey {
    ProviderKey::from_variable(Some(format!(" {KEY}\n"))).unwrap()
}

#[test]
fn key_is_trimmed_and_not_in_debug_output() {
    assert_eq!(key().reveal(), Some(KEY));
    assert_eq!(format!("{:?}", key()), "[key]");
    assert_eq!(format!("{:?}", ProviderKey::default()), "no key");
    assert!(ProviderKey::from_variable(None).unwrap().is_none());
    assert!(ProviderKey::from_variable(Some(" ".to_owned())).unwrap().is_none());
    let error = ProviderKey::from_variable(Some("two words".to_owned())).unwrap_err();
    assert!(!error.contains("two words"));
}

#[test]
fn key_and_its_fragments_are_scrubbed() {
    let cases = [
        (format!("Incorrect API key provided: {KEY}."), "Incorrect API key provided: [key]."),
        ("bad key zq-live-01234***".to_owned(), "bad key [key]***"),
        ("ends with cdefghij, really".to_owned(), "ends with [key], really"),
        (format!("{KEY}{KEY}"), "[key][key]"),
        ("żółw zq-liv 🐢".to_owned(), "żółw zq-liv 🐢"),
        (String::new(), ""),
    ];
    for (said, expected) in cases {
        assert_eq!(key().scrub(&said), expected);
    }
    let short = ProviderKey::from_variable(Some("abc".to_owned())).unwrap();
    assert_eq!(short.scrub("x abc y"), "x [key] y");
    let other = "token ghp_0123456789abcdefghijABCDEFGHIJ012345";
    assert!(!ProviderKey::default().scrub(other).contains("ghp_0123"), "other secrets are redacted too");
}

#[test]
fn key_in_config_is_rejected_with_location_and_without_value() {
    let token = "ghp_0123456789abcdefghijABCDEFGHIJ012345";
    let cases = [
        (json!({"key": KEY}), "providers.main.key"),
        (json!({"api_key": KEY}), "providers.main.api_key"),
        (json!({"apiKey": KEY}), "providers.main.apiKey"),
        (json!({"token": 17}), "providers.main.token"),
        (json!({"headers": {"Authorization": "Bearer x"}}), "providers.main.headers.Authorization"),
        (json!({"headers": {"X-Api-Key": KEY}}), "providers.main.headers.X-Api-Key"),
        (json!({"key_env": KEY}), "providers.main.key_env"),
        (json!({"key_env": ""}), "providers.main.key_env"),
        (json!({"base_url": format!("https://user:{KEY}@host/v1")}), "providers.main.base_url"),
        (json!({"argv": ["agent", "--key", token]}), "providers.main"),
        (json!({"env": {"TOKEN": token}}), "providers.main"),
    ];
    for (config, place) in cases {
        let error = reject_keys_in_config("main", &config).unwrap_err();
        assert_eq!(error.code(), "provider_key_in_file", "{config}");
        assert!(error.message.ends_with(place), "{}", error.message);
        let shown = format!("{error} {error:?} {}", error.help);
        assert!(!shown.contains(KEY) && !shown.contains(token), "{shown}");
    }
}

#[test]
fn config_without_keys_is_accepted() {
    let cases = [
        json!({"key_env": "OPENAI_API_KEY", "key_header": "api-key"}),
        json!({"key_env": "my_key_2", "base_url": "https://host.example/v1/@me"}),
        json!({"api_key": null}),
        json!({"max_tokens": 4096, "max_tokens_field": "max_tokens", "price": {"input_per_million_usd": 0.25}}),
        json!({"argv": ["agent", "--print", "--model", "some-model-4-5-20250929"], "env": {"MAX_TOKENS": "100"}}),
        json!({"headers": {"anthropic-beta": "token-efficient-tools-2025-02-19", "HTTP-Referer": "https://a.example"}}),
    ];
    for config in cases {
        assert!(reject_keys_in_config("main", &config).is_ok(), "{config}");
    }
}

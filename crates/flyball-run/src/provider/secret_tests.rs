//! No key in a file, none in a message.

use super::*;
use serde_json::json;

const KEY: &str = "zq-live-0123456789abcdefghij";

fn key() -> Key {
    Key::from_variable(Some(format!(" {KEY}\n"))).unwrap()
}

#[test]
fn a_key_is_trimmed_and_never_shown() {
    assert_eq!(key().reveal(), Some(KEY));
    assert_eq!(format!("{:?}", key()), "[key]");
    assert_eq!(format!("{:?}", Key::default()), "no key");
    assert!(Key::from_variable(None).unwrap().is_none());
    assert!(Key::from_variable(Some(" ".to_owned())).unwrap().is_none());
    let error = Key::from_variable(Some("two words".to_owned())).unwrap_err();
    assert!(!error.contains("two words"));
}

#[test]
fn messages_lose_the_key_and_every_piece_of_it() {
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
    let short = Key::from_variable(Some("abc".to_owned())).unwrap();
    assert_eq!(short.scrub("x abc y"), "x [key] y");
    let other = "token ghp_0123456789abcdefghijABCDEFGHIJ012345";
    assert!(!Key::default().scrub(other).contains("ghp_0123"), "somebody else's secret is taken out, too");
}

#[test]
fn a_key_in_the_file_is_refused_with_its_place_and_without_its_value() {
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
        let error = refuse_keys("main", &config).unwrap_err();
        assert_eq!(error.code(), "provider_key_in_file", "{config}");
        assert!(error.what.ends_with(place), "{}", error.what);
        let shown = format!("{error} {error:?} {}", error.advice);
        assert!(!shown.contains(KEY) && !shown.contains(token), "{shown}");
    }
}

#[test]
fn what_is_no_key_is_let_through() {
    let cases = [
        json!({"key_env": "OPENAI_API_KEY", "key_header": "api-key"}),
        json!({"key_env": "my_key_2", "base_url": "https://host.example/v1/@me"}),
        json!({"api_key": null}),
        json!({"max_tokens": 4096, "max_tokens_field": "max_tokens", "price": {"input_per_million_usd": 0.25}}),
        json!({"argv": ["agent", "--print", "--model", "some-model-4-5-20250929"], "env": {"MAX_TOKENS": "100"}}),
        json!({"headers": {"anthropic-beta": "token-efficient-tools-2025-02-19", "HTTP-Referer": "https://a.example"}}),
    ];
    for config in cases {
        assert!(refuse_keys("main", &config).is_ok(), "{config}");
    }
}

//! Retries: conditions, counts, delays and notices.

use super::harness::{PROTOCOLS, ProtocolKind, ask, check, provider, question, server};
use flyball_model_server::{ModelServer, ReplyBehavior, ServerScript, StreamErrorEvent};
use serde_json::json;
use std::time::Duration;

#[test]
fn transient_errors_are_retried_and_reported() {
    for kind in PROTOCOLS {
        for (status, code) in [
            (408, "provider_timeout"),
            (429, "provider_rate_limited"),
            (500, "provider_overloaded"),
            (502, "provider_overloaded"),
            (503, "provider_overloaded"),
            (504, "provider_overloaded"),
            (529, "provider_overloaded"),
        ] {
            let replies = [
                ReplyBehavior::status(status),
                ReplyBehavior::status(status),
                ReplyBehavior::text("at last"),
            ];
            let (asked, server) = check(kind, replies, json!({}));
            assert_eq!(asked.reply().text, "at last", "{kind:?} {status}");
            assert_eq!(server.requests().len(), 3);
            let notices: Vec<_> =
                asked.retries.iter().map(|r| (r.attempt, r.attempts, r.code, r.status)).collect();
            assert_eq!(notices, [(1, 5, code, Some(status)), (2, 5, code, Some(status))], "{kind:?}");
            assert!(asked.retries.iter().all(|retry| !retry.text_discarded && retry.provider == "main"));
        }
    }
}

#[test]
fn attempts_are_limited_by_config() {
    for kind in PROTOCOLS {
        for attempts in [1, 3] {
            let replies = (0..9).map(|_| ReplyBehavior::status(503));
            let (asked, server) = check(kind, replies, json!({"retry": {"attempts": attempts}}));
            assert_eq!(asked.error().code(), "provider_overloaded", "{kind:?}");
            assert_eq!(asked.error().attempts, attempts);
            assert_eq!(server.requests().len(), attempts as usize);
            assert_eq!(asked.retries.len(), attempts as usize - 1);
        }
    }
}

#[test]
fn dropped_connection_is_retried() {
    for kind in PROTOCOLS {
        let hang_up = ReplyBehavior { hang_up: true, ..ReplyBehavior::default() };
        let (asked, _) = check(kind, [hang_up, ReplyBehavior::text("hello")], json!({}));
        assert_eq!(asked.reply().text, "hello", "{kind:?}");
        assert_eq!(asked.retries[0].code, "provider_unreachable");
    }
}

#[test]
fn retry_after_is_honored_in_all_forms() {
    let date = ("Date", "Sun, 06 Nov 1994 08:49:37 GMT");
    let cases = [
        (Some("1"), None, 1_000),
        (Some("Sun, 06 Nov 1994 08:49:38 GMT"), Some(date), 1_000),
        (Some("30"), Some(("retry-after-ms", "40")), 40),
        (Some("0"), None, 0),
    ];
    for kind in PROTOCOLS {
        for (retry_after, header, least_ms) in cases {
            let mut limited =
                ReplyBehavior { retry_after: retry_after.map(str::to_owned), ..ReplyBehavior::status(429) };
            limited.headers.extend(header.map(|(name, value)| (name.to_owned(), value.to_owned())));
            let (asked, _) = check(kind, [limited, ReplyBehavior::text("now")], json!({}));
            assert_eq!(asked.reply().text, "now");
            let wait = asked.retries[0].wait_ms;
            assert!(wait >= least_ms && wait <= least_ms + 10, "{kind:?} {retry_after:?}: {wait}");
        }
    }
}

#[test]
fn retry_after_beyond_the_deadline_fails() {
    for kind in PROTOCOLS {
        let limited = ReplyBehavior { retry_after: Some("3600".to_owned()), ..ReplyBehavior::status(429) };
        let (asked, server) = check(kind, [limited, ReplyBehavior::text("never")], json!({}));
        let error = asked.error();
        assert_eq!(
            (error.code(), error.retry_after_ms),
            ("provider_rate_limited", Some(3_600_000)),
            "{kind:?}"
        );
        assert!(
            error.message.contains("3600000 ms") && error.message.contains("ms left"),
            "{}",
            error.message
        );
        assert!(asked.retries.is_empty(), "no notice without a retry");
        assert_eq!(server.requests().len(), 1);
    }
}

#[test]
fn backoff_stays_within_the_deadline() {
    for kind in PROTOCOLS {
        let server = server((0..50).map(|_| ReplyBehavior::status(500)));
        let more = json!({"retry": {"attempts": 50, "base": "1h", "cap": "10h"}});
        let provider = provider(&kind.config(&server.url(), &more)).unwrap();
        let mut request = question();
        request.deadline = Some(Duration::from_secs(2));
        let began = std::time::Instant::now();
        let asked = ask(provider.as_ref(), &request);
        assert!(began.elapsed() < Duration::from_secs(30));
        // The deadline may end the last attempt.
        let error = asked.error();
        assert!(["provider_overloaded", "provider_timeout"].contains(&error.code()), "{error}");
        assert!(error.message.contains("the provider answered 500"), "{error}");
        assert!(!asked.retries.is_empty());
        assert!(asked.retries.iter().map(|retry| retry.wait_ms).sum::<u64>() < 2_000);
    }
}

#[test]
fn truncation_before_any_text_is_retried() {
    for kind in PROTOCOLS {
        let cut = ReplyBehavior { cut_at: Some(10), ..ReplyBehavior::text("abc") };
        let spoilt = ReplyBehavior { spoil_event: Some(0), ..ReplyBehavior::text("abc") };
        let event =
            StreamErrorEvent { after: 1, kind: "overloaded_error".to_owned(), message: String::new() };
        let error = ReplyBehavior { error_event: Some(event), ..ReplyBehavior::text("abc") };
        let (asked, _) = check(kind, [cut, spoilt, error, ReplyBehavior::text("whole")], json!({}));
        assert_eq!(asked.reply().text, "whole", "{kind:?}");
        assert_eq!(asked.text(), "whole");
        let codes: Vec<_> = asked.retries.iter().map(|retry| retry.code).collect();
        assert_eq!(codes, ["provider_truncated", "provider_malformed", "provider_overloaded"]);
    }
}

/// Handling of text received before a failure is configurable.
#[test]
fn truncation_after_text_is_reported_unless_configured() {
    for kind in PROTOCOLS {
        for (broken_off, expected) in [("retry_if_silent", None), ("report", None), ("retry", Some("whole"))]
        {
            let drop_last = 3;
            let cut = ReplyBehavior { drop_last, piece_chars: 1, ..ReplyBehavior::text("abc") };
            let more = json!({"retry": {"broken_off": broken_off}});
            let (asked, server) = check(kind, [cut, ReplyBehavior::text("whole")], more);
            match expected {
                Some(text) => {
                    assert_eq!(asked.reply().text, text, "{kind:?}");
                    assert!(
                        asked.retries[0].text_discarded,
                        "the notice says that the received text is discarded"
                    );
                    assert!(asked.text().ends_with("whole") && asked.text().len() > "whole".len());
                }
                None => {
                    assert_eq!(asked.error().code(), "provider_truncated", "{kind:?} {broken_off}");
                    assert!(!asked.error().partial.as_ref().unwrap().text.is_empty());
                    assert_eq!(server.requests().len(), 1);
                }
            }
        }
        let silent = ReplyBehavior { cut_at: Some(10), ..ReplyBehavior::text("abc") };
        let (asked, _) = check(kind, [silent], json!({"retry": {"broken_off": "report"}}));
        assert_eq!(asked.error().code(), "provider_truncated");
    }
}

/// Endpoints that reject a parameter are asked without it, and the result is remembered.
#[test]
fn unsupported_parameters_are_adapted_and_remembered() {
    let cases: [(&[&str], &[&str], &[&str]); 4] = [
        (&["stream_options"], &["stream", "max_tokens"], &["stream_options"]),
        (&["max_tokens"], &["stream", "max_completion_tokens"], &["max_tokens"]),
        (&["stream"], &["max_tokens"], &["stream", "stream_options"]),
        (
            &["stream_options", "stream", "max_tokens"],
            &["max_completion_tokens"],
            &["stream", "stream_options", "max_tokens"],
        ),
    ];
    for (refuse, kept, gone) in cases {
        let script = ServerScript {
            refuse: refuse.iter().map(|&name| name.to_owned()).collect(),
            ..ServerScript::new([ReplyBehavior::text("one"), ReplyBehavior::text("two")])
        };
        let server = ModelServer::start(script).unwrap();
        let provider =
            provider(&ProtocolKind::OpenAi.config(&server.url(), &json!({"max_tokens": 5}))).unwrap();
        let asked = ask(provider.as_ref(), &question());
        assert_eq!(asked.reply().text, "one", "{refuse:?}");
        assert!(asked.retries.is_empty(), "it does not count as a failure");
        let first = server.requests().len();
        assert_eq!(ask(provider.as_ref(), &question()).reply().text, "two");
        let requests = server.requests();
        assert_eq!(requests.len(), first + 1, "{refuse:?}: it is remembered");
        let last = &requests.last().unwrap().body;
        assert!(kept.iter().all(|&name| last.get(name).is_some()), "{refuse:?} {last}");
        assert!(gone.iter().all(|&name| last.get(name).is_none()), "{refuse:?} {last}");
    }
}

#[test]
fn configured_parameter_is_never_dropped() {
    let script = ServerScript {
        refuse: vec!["max_tokens".to_owned()],
        ..ServerScript::new([ReplyBehavior::text("one")])
    };
    let server = ModelServer::start(script).unwrap();
    let more = json!({"max_tokens": 5, "max_tokens_field": "max_tokens"});
    let provider = provider(&ProtocolKind::OpenAi.config(&server.url(), &more)).unwrap();
    assert_eq!(ask(provider.as_ref(), &question()).error().code(), "provider_bad_request");
    assert_eq!(server.requests().len(), 1);
}

#[test]
fn invalid_value_is_not_an_unsupported_parameter() {
    let said = ReplyBehavior {
        error: Some("max_tokens is too large: 999. This model supports at most 5".into()),
        ..ReplyBehavior::status(400)
    };
    let (asked, server) = check(ProtocolKind::OpenAi, [said], json!({"max_tokens": 999}));
    assert_eq!(asked.error().code(), "provider_bad_request");
    assert_eq!(server.requests().len(), 1);
}

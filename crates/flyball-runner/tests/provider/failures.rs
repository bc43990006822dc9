//! Failed replies: error code, help and partial reply of each.

use super::harness::{PROTOCOLS, ProtocolKind, ask, check, provider, question, server};
use flyball_model_server::{Framing, ReplyBehavior, StreamErrorEvent};
use serde_json::json;

/// No retries, so that the first error is visible.
fn without_retry() -> serde_json::Value {
    json!({"retry": {"attempts": 1}})
}

#[test]
fn permanent_errors_have_code_and_help_and_are_not_retried() {
    let cases = [
        (400, "provider_bad_request", "model"),
        (401, "provider_auth", "TEST_KEY"),
        (403, "provider_auth", "TEST_KEY"),
        (404, "provider_bad_request", "base_url"),
        (413, "provider_bad_request", "shorten"),
        (422, "provider_bad_request", "model"),
        (501, "provider_overloaded", "later"),
    ];
    for kind in PROTOCOLS {
        for (status, code, advice) in cases {
            let said =
                ReplyBehavior { error: Some("the\nreason".to_owned()), ..ReplyBehavior::status(status) };
            let (asked, server) = check(kind, [said, ReplyBehavior::text("never asked for")], json!({}));
            let error = asked.error();
            assert_eq!((error.code(), error.status), (code, Some(status)), "{kind:?}");
            assert!(error.message.contains("the reason"), "{}", error.message);
            assert!(error.help.contains(advice), "{status}: {}", error.help);
            assert_eq!(error.attempts, 1);
            assert_eq!((server.requests().len(), asked.retries.len()), (1, 0), "{kind:?} {status}");
            assert!(error.to_string().contains(code) && error.to_string().contains("'main'"));
        }
    }
}

#[test]
fn html_error_page_is_not_quoted() {
    let page = "<html><body><h1>502</h1>nginx</body></html>".to_owned();
    let said = ReplyBehavior {
        body: Some(page),
        content_type: Some("text/html".to_owned()),
        ..ReplyBehavior::status(404)
    };
    let (asked, _) = check(ProtocolKind::OpenAi, [said], json!({}));
    assert_eq!(asked.error().message, "the provider answered 404");
    let said = ReplyBehavior { body: Some("upstream is away".to_owned()), ..ReplyBehavior::status(404) };
    let (asked, _) = check(ProtocolKind::OpenAi, [said], json!({}));
    assert_eq!(asked.error().message, "the provider answered 404: upstream is away");
}

#[test]
fn redirect_is_not_followed() {
    for kind in PROTOCOLS {
        let elsewhere = server([ReplyBehavior::text("stolen")]);
        let mut said = ReplyBehavior { body: Some(String::new()), ..ReplyBehavior::status(307) };
        said.headers.insert("Location".to_owned(), format!("{}/v1/messages", elsewhere.url()));
        let (asked, _) = check(kind, [said], json!({}));
        assert_eq!((asked.error().code(), asked.error().status), ("provider_bad_request", Some(307)));
        assert!(asked.error().message.contains(&elsewhere.url()), "{}", asked.error().message);
        assert!(elsewhere.requests().is_empty());
    }
}

#[test]
fn exhausted_quota_is_not_retried() {
    let said =
        ReplyBehavior { error_type: Some("insufficient_quota".to_owned()), ..ReplyBehavior::status(429) };
    let (asked, server) = check(ProtocolKind::OpenAi, [said], json!({}));
    assert_eq!(asked.error().code(), "provider_rate_limited");
    assert!(asked.error().help.contains("billing"));
    assert_eq!(server.requests().len(), 1);
}

/// Truncated replies at every position, with every kind of framing.
#[test]
fn stream_cut_at_any_byte_is_truncated() {
    for kind in PROTOCOLS {
        for framing in [Framing::Chunked, Framing::Length, Framing::Close] {
            let whole = ReplyBehavior { framing, piece_chars: 2, ..ReplyBehavior::text("abcdef") };
            let length = stream_length(kind, &whole);
            for cut in (0..length).step_by(29) {
                let said = ReplyBehavior { cut_at: Some(cut), ..whole.clone() };
                let (asked, _) = check(kind, [said], without_retry());
                // If the framing marks the end, only the end marker may be missing.
                let complete = framing == Framing::Close && asked.result.is_ok();
                if complete {
                    assert_eq!(asked.reply().text, "abcdef", "{kind:?} {framing:?} {cut}");
                    continue;
                }
                let error = asked.error();
                assert_eq!(
                    error.code(),
                    "provider_truncated",
                    "{kind:?} {framing:?} {cut}: {}",
                    error.message
                );
                let partial = error.partial.as_ref().map(|partial| partial.text.clone()).unwrap_or_default();
                assert_eq!(partial, asked.text(), "the partial reply equals the received text");
                assert!("abcdef".starts_with(&partial));
            }
        }
    }
}

/// Length of the body of a reply.
fn stream_length(kind: ProtocolKind, said: &ReplyBehavior) -> usize {
    let server = server([ReplyBehavior { framing: Framing::Length, ..said.clone() }]);
    let body = json!({"model": "m", "max_tokens": 5, "stream": true, "messages": [{"role": "user", "content": "x"}]});
    let (path, key) = match kind {
        ProtocolKind::OpenAi => {
            ("/v1/chat/completions", ("Authorization", format!("Bearer {}", super::harness::KEY)))
        }
        ProtocolKind::Anthropic => ("/v1/messages", ("x-api-key", super::harness::KEY.to_owned())),
    };
    let agent: ureq::Agent = ureq::Agent::config_builder().proxy(None).build().into();
    let response = agent
        .post(format!("{}{path}", server.url()))
        .header(key.0, key.1)
        .header("anthropic-version", "2023-06-01")
        .send(body.to_string())
        .unwrap();
    usize::try_from(response.into_body().content_length().unwrap()).unwrap()
}

#[test]
fn stream_without_end_marker_is_truncated() {
    for (kind, drop_last) in [(ProtocolKind::OpenAi, 3), (ProtocolKind::Anthropic, 2)] {
        let said = ReplyBehavior { drop_last, ..ReplyBehavior::text("abc") };
        let (asked, _) = check(kind, [said], without_retry());
        assert_eq!(asked.error().code(), "provider_truncated", "{kind:?}");
        let partial = asked.error().partial.as_ref().unwrap();
        assert_eq!((partial.text.as_str(), partial.stop.as_str()), ("abc", "incomplete"));
    }
    // A finish reason suffices: some endpoints omit the end marker.
    for kind in PROTOCOLS {
        let (asked, _) =
            check(kind, [ReplyBehavior { drop_last: 1, ..ReplyBehavior::text("abc") }], without_retry());
        assert_eq!(asked.reply().text, "abc", "{kind:?}");
    }
}

#[test]
fn partial_tool_call_is_not_run() {
    for kind in PROTOCOLS {
        let whole = ReplyBehavior { piece_chars: 4, ..ReplyBehavior::default() }
            .call("bash", json!({"command": "rm -r x"}));
        // Everything except the last part of the arguments and what follows.
        let (asked, _) = check(kind, [ReplyBehavior { drop_last: 4, ..whole }], without_retry());
        let error = asked.error();
        assert_eq!(error.code(), "provider_truncated", "{kind:?}");
        let partial = error.partial.as_ref().unwrap();
        assert!(partial.calls.is_empty(), "{kind:?} {:?}", partial.calls);
        assert_eq!(partial.malformed.len(), 1);
    }
}

#[test]
fn cut_document_is_truncated() {
    for kind in PROTOCOLS {
        for (framing, cut) in [(Framing::Length, 40), (Framing::Length, 0)] {
            let said = ReplyBehavior {
                stream: Some(false),
                framing,
                cut_at: Some(cut),
                ..ReplyBehavior::text("abc")
            };
            let (asked, _) = check(kind, [said], without_retry());
            assert_eq!(asked.error().code(), "provider_truncated", "{kind:?} {cut}");
        }
    }
}

#[test]
fn invalid_event_is_malformed() {
    for kind in PROTOCOLS {
        for spoil in [0, 1, 2] {
            let said = ReplyBehavior { spoil_event: Some(spoil), ..ReplyBehavior::text("abc") };
            let (asked, _) = check(kind, [said], without_retry());
            let error = asked.error();
            assert_eq!(error.code(), "provider_malformed", "{kind:?} {spoil}: {}", error.message);
            assert!(error.message.contains("invalid JSON"));
        }
    }
}

#[test]
fn unrecognized_body_is_malformed_and_not_retried() {
    let bodies = [
        ("<html>welcome to the wifi</html>", "text/html"),
        ("hello there", "text/plain"),
        ("[1, 2]", "application/json"),
        (r#"{"hello": "world"}"#, "application/json"),
        (r#"{"choices": []}"#, "application/json"),
    ];
    for kind in PROTOCOLS {
        for (body, content_type) in bodies {
            let body = Some(body.to_owned());
            let said = ReplyBehavior {
                body,
                content_type: Some(content_type.to_owned()),
                ..ReplyBehavior::default()
            };
            let (asked, server) = check(kind, [said], json!({}));
            let error = asked.error();
            assert_eq!(error.code(), "provider_malformed", "{kind:?} {content_type}: {}", error.message);
            assert!(
                error.message.contains(content_type) && error.help.contains("base_url"),
                "{}",
                error.message
            );
            assert_eq!(server.requests().len(), 1);
        }
    }
}

#[test]
fn non_utf8_stream_is_malformed() {
    use flyball_model_server::{ResponsePlan, WriteStep};
    let steps = vec![WriteStep::Write("data: ".to_owned()), WriteStep::Bytes(vec![0xff, 0xfe, b'\n', b'\n'])];
    let exact = ResponsePlan { status: 200, steps, ..ResponsePlan::default() };
    for kind in PROTOCOLS {
        let (asked, _) = check(
            kind,
            [ReplyBehavior { exact: Some(exact.clone()), ..ReplyBehavior::default() }],
            without_retry(),
        );
        assert_eq!(asked.error().code(), "provider_malformed", "{kind:?}");
        assert!(asked.error().message.contains("UTF-8"));
    }
}

#[test]
fn non_http_response_is_truncated_or_unreachable() {
    use flyball_model_server::{ResponsePlan, WriteStep};
    let steps = vec![WriteStep::Write("SSH-2.0-OpenSSH_9.6\r\n".to_owned()), WriteStep::Cut];
    let exact = ResponsePlan { status: 0, steps, ..ResponsePlan::default() };
    for kind in PROTOCOLS {
        let (asked, _) = check(
            kind,
            [ReplyBehavior { exact: Some(exact.clone()), ..ReplyBehavior::default() }],
            without_retry(),
        );
        let code = asked.error().code();
        assert!(["provider_truncated", "provider_unreachable"].contains(&code), "{kind:?} {code}");
    }
}

#[test]
fn mid_stream_error_is_classified() {
    let cases = [
        ("overloaded_error", "provider_overloaded"),
        ("server_error", "provider_overloaded"),
        ("rate_limit_error", "provider_rate_limited"),
        ("authentication_error", "provider_auth"),
        ("invalid_request_error", "provider_bad_request"),
        ("brand_new_error", "provider_overloaded"),
    ];
    for kind in PROTOCOLS {
        for (word, code) in cases {
            let error_event =
                StreamErrorEvent { after: 3, kind: word.to_owned(), message: "too busy".to_owned() };
            let text = ReplyBehavior { piece_chars: 1, ..ReplyBehavior::text("abc") };
            let (asked, _) =
                check(kind, [ReplyBehavior { error_event: Some(error_event), ..text }], without_retry());
            let error = asked.error();
            assert_eq!(error.code(), code, "{kind:?} {word}");
            assert!(error.message.contains("too busy") && error.message.contains(word), "{}", error.message);
            assert_eq!(
                error.partial.as_ref().map(|partial| partial.text.clone()).unwrap_or_default(),
                asked.text()
            );
            assert!(!asked.text().is_empty());
        }
    }
}

#[test]
fn refused_connection_is_unreachable() {
    for kind in PROTOCOLS {
        let url = server([]).url(); // The server is gone by now.
        let provider = provider(&kind.config(&url, &json!({"retry": {"attempts": 2}}))).unwrap();
        let asked = ask(provider.as_ref(), &question());
        assert_eq!((asked.error().code(), asked.error().attempts), ("provider_unreachable", 2), "{kind:?}");
        assert_eq!(asked.retries.len(), 1);
        assert!(asked.error().help.contains("base_url"));
    }
}

#[test]
fn unresolvable_host_is_unreachable() {
    let config = ProtocolKind::OpenAi.config("http://no-such-host.invalid", &without_retry());
    let asked = ask(provider(&config).unwrap().as_ref(), &question());
    assert_eq!(asked.error().code(), "provider_unreachable");
}

#[test]
fn tls_handshake_failure_is_unreachable() {
    let server = server([]);
    let url = server.url().replace("http://", "https://");
    let asked =
        ask(provider(&ProtocolKind::OpenAi.config(&url, &without_retry())).unwrap().as_ref(), &question());
    assert_eq!(asked.error().code(), "provider_unreachable");
    assert!(server.requests().is_empty());
}

#[test]
fn oversized_reply_is_rejected() {
    use flyball_model_server::{ResponsePlan, WriteStep};
    let comment = WriteStep::Write(format!(": {}\n", "x".repeat(1 << 20)));
    let exact = ResponsePlan { status: 200, steps: vec![comment; 70], ..ResponsePlan::default() };
    let (asked, _) = check(
        ProtocolKind::OpenAi,
        [ReplyBehavior { exact: Some(exact), ..ReplyBehavior::default() }],
        without_retry(),
    );
    assert_eq!(asked.error().code(), "provider_malformed");
    assert!(asked.error().message.contains("too large"), "{}", asked.error().message);
}

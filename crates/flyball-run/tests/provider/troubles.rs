//! Answers that go wrong: each has its code, its advice, and what had come of it.

use super::kit::{BOTH, Kind, ask, check, provider, question, server};
use flyball_model_server::{Behaviour, ErrorEvent, Framing};
use serde_json::json;

/// No second try, so that the first trouble is what is seen.
fn once() -> serde_json::Value {
    json!({"retry": {"attempts": 1}})
}

#[test]
fn a_refusal_is_told_with_its_code_and_what_to_do_and_not_tried_again() {
    let cases = [
        (400, "provider_bad_request", "model"),
        (401, "provider_auth", "TEST_KEY"),
        (403, "provider_auth", "TEST_KEY"),
        (404, "provider_bad_request", "base_url"),
        (413, "provider_bad_request", "shorten"),
        (422, "provider_bad_request", "model"),
        (501, "provider_overloaded", "later"),
    ];
    for kind in BOTH {
        for (status, code, advice) in cases {
            let said = Behaviour { error: Some("the\nreason".to_owned()), ..Behaviour::status(status) };
            let (asked, server) = check(kind, [said, Behaviour::text("never asked for")], json!({}));
            let error = asked.error();
            assert_eq!((error.code(), error.status), (code, Some(status)), "{kind:?}");
            assert!(error.what.contains("the reason"), "{}", error.what);
            assert!(error.advice.contains(advice), "{status}: {}", error.advice);
            assert_eq!(error.attempts, 1);
            assert_eq!((server.requests().len(), asked.retries.len()), (1, 0), "{kind:?} {status}");
            assert!(error.to_string().contains(code) && error.to_string().contains("'main'"));
        }
    }
}

#[test]
fn an_error_page_is_no_message() {
    let page = "<html><body><h1>502</h1>nginx</body></html>".to_owned();
    let said =
        Behaviour { body: Some(page), content_type: Some("text/html".to_owned()), ..Behaviour::status(404) };
    let (asked, _) = check(Kind::OpenAi, [said], json!({}));
    assert_eq!(asked.error().what, "the provider answered 404");
    let said = Behaviour { body: Some("upstream is away".to_owned()), ..Behaviour::status(404) };
    let (asked, _) = check(Kind::OpenAi, [said], json!({}));
    assert_eq!(asked.error().what, "the provider answered 404: upstream is away");
}

#[test]
fn a_redirect_is_not_followed_with_the_key() {
    for kind in BOTH {
        let elsewhere = server([Behaviour::text("stolen")]);
        let mut said = Behaviour { body: Some(String::new()), ..Behaviour::status(307) };
        said.headers.insert("Location".to_owned(), format!("{}/v1/messages", elsewhere.url()));
        let (asked, _) = check(kind, [said], json!({}));
        assert_eq!((asked.error().code(), asked.error().status), ("provider_bad_request", Some(307)));
        assert!(asked.error().what.contains(&elsewhere.url()), "{}", asked.error().what);
        assert!(elsewhere.requests().is_empty());
    }
}

#[test]
fn a_spent_quota_is_not_asked_again() {
    let said = Behaviour { error_type: Some("insufficient_quota".to_owned()), ..Behaviour::status(429) };
    let (asked, server) = check(Kind::OpenAi, [said], json!({}));
    assert_eq!(asked.error().code(), "provider_rate_limited");
    assert!(asked.error().advice.contains("billing"));
    assert_eq!(server.requests().len(), 1);
}

/// Everything that breaks off: where it is cut, and how the body is framed.
#[test]
fn a_stream_that_breaks_off_is_truncated_wherever_it_is_cut() {
    for kind in BOTH {
        for framing in [Framing::Chunked, Framing::Length, Framing::Close] {
            let whole = Behaviour { framing, piece_chars: 2, ..Behaviour::text("abcdef") };
            let length = stream_length(kind, &whole);
            for cut in (0..length).step_by(29) {
                let said = Behaviour { cut_at: Some(cut), ..whole.clone() };
                let (asked, _) = check(kind, [said], once());
                // With the end known from elsewhere, the marker alone may be missing.
                let complete = framing == Framing::Close && asked.result.is_ok();
                if complete {
                    assert_eq!(asked.reply().text, "abcdef", "{kind:?} {framing:?} {cut}");
                    continue;
                }
                let error = asked.error();
                assert_eq!(error.code(), "provider_truncated", "{kind:?} {framing:?} {cut}: {}", error.what);
                let partial = error.partial.as_ref().map(|partial| partial.text.clone()).unwrap_or_default();
                assert_eq!(partial, asked.text(), "what was heard is what is reported");
                assert!("abcdef".starts_with(&partial));
            }
        }
    }
}

/// The length of a behaviour's body.
fn stream_length(kind: Kind, said: &Behaviour) -> usize {
    let server = server([Behaviour { framing: Framing::Length, ..said.clone() }]);
    let body = json!({"model": "m", "max_tokens": 5, "stream": true, "messages": [{"role": "user", "content": "x"}]});
    let (path, key) = match kind {
        Kind::OpenAi => ("/v1/chat/completions", ("Authorization", format!("Bearer {}", super::kit::KEY))),
        Kind::Anthropic => ("/v1/messages", ("x-api-key", super::kit::KEY.to_owned())),
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
fn a_stream_that_ends_properly_without_its_end_is_truncated_too() {
    for (kind, drop_last) in [(Kind::OpenAi, 3), (Kind::Anthropic, 2)] {
        let said = Behaviour { drop_last, ..Behaviour::text("abc") };
        let (asked, _) = check(kind, [said], once());
        assert_eq!(asked.error().code(), "provider_truncated", "{kind:?}");
        let partial = asked.error().partial.as_ref().unwrap();
        assert_eq!((partial.text.as_str(), partial.stop.as_str()), ("abc", "incomplete"));
    }
    // Why it stopped is enough: some endpoints leave the marker out.
    for kind in BOTH {
        let (asked, _) = check(kind, [Behaviour { drop_last: 1, ..Behaviour::text("abc") }], once());
        assert_eq!(asked.reply().text, "abc", "{kind:?}");
    }
}

#[test]
fn a_half_arrived_call_is_not_run() {
    for kind in BOTH {
        let whole =
            Behaviour { piece_chars: 4, ..Behaviour::default() }.call("bash", json!({"command": "rm -r x"}));
        // Everything but the last piece of the arguments and what follows on it.
        let (asked, _) = check(kind, [Behaviour { drop_last: 4, ..whole }], once());
        let error = asked.error();
        assert_eq!(error.code(), "provider_truncated", "{kind:?}");
        let partial = error.partial.as_ref().unwrap();
        assert!(partial.calls.is_empty(), "{kind:?} {:?}", partial.calls);
        assert_eq!(partial.malformed.len(), 1);
    }
}

#[test]
fn a_whole_answer_that_breaks_off_is_truncated() {
    for kind in BOTH {
        for (framing, cut) in [(Framing::Length, 40), (Framing::Length, 0)] {
            let said =
                Behaviour { stream: Some(false), framing, cut_at: Some(cut), ..Behaviour::text("abc") };
            let (asked, _) = check(kind, [said], once());
            assert_eq!(asked.error().code(), "provider_truncated", "{kind:?} {cut}");
        }
    }
}

#[test]
fn a_broken_event_is_malformed() {
    for kind in BOTH {
        for spoil in [0, 1, 2] {
            let said = Behaviour { spoil_event: Some(spoil), ..Behaviour::text("abc") };
            let (asked, _) = check(kind, [said], once());
            let error = asked.error();
            assert_eq!(error.code(), "provider_malformed", "{kind:?} {spoil}: {}", error.what);
            assert!(error.what.contains("not JSON"));
        }
    }
}

#[test]
fn what_is_no_answer_at_all_is_malformed_and_not_tried_again() {
    let bodies = [
        ("<html>welcome to the wifi</html>", "text/html"),
        ("hello there", "text/plain"),
        ("[1, 2]", "application/json"),
        (r#"{"hello": "world"}"#, "application/json"),
        (r#"{"choices": []}"#, "application/json"),
    ];
    for kind in BOTH {
        for (body, content_type) in bodies {
            let body = Some(body.to_owned());
            let said =
                Behaviour { body, content_type: Some(content_type.to_owned()), ..Behaviour::default() };
            let (asked, server) = check(kind, [said], json!({}));
            let error = asked.error();
            assert_eq!(error.code(), "provider_malformed", "{kind:?} {content_type}: {}", error.what);
            assert!(error.what.contains(content_type) && error.advice.contains("base_url"), "{}", error.what);
            assert_eq!(server.requests().len(), 1);
        }
    }
}

#[test]
fn a_stream_that_is_no_text_is_malformed() {
    use flyball_model_server::{Plan, Step};
    let steps = vec![Step::Write("data: ".to_owned()), Step::Bytes(vec![0xff, 0xfe, b'\n', b'\n'])];
    let exact = Plan { status: 200, steps, ..Plan::default() };
    for kind in BOTH {
        let (asked, _) =
            check(kind, [Behaviour { exact: Some(exact.clone()), ..Behaviour::default() }], once());
        assert_eq!(asked.error().code(), "provider_malformed", "{kind:?}");
        assert!(asked.error().what.contains("UTF-8"));
    }
}

#[test]
fn what_is_no_http_is_told_as_such() {
    use flyball_model_server::{Plan, Step};
    let steps = vec![Step::Write("SSH-2.0-OpenSSH_9.6\r\n".to_owned()), Step::Cut];
    let exact = Plan { status: 0, steps, ..Plan::default() };
    for kind in BOTH {
        let (asked, _) =
            check(kind, [Behaviour { exact: Some(exact.clone()), ..Behaviour::default() }], once());
        let code = asked.error().code();
        assert!(["provider_truncated", "provider_unreachable"].contains(&code), "{kind:?} {code}");
    }
}

#[test]
fn an_error_in_mid_stream_is_what_it_says_it_is() {
    let cases = [
        ("overloaded_error", "provider_overloaded"),
        ("server_error", "provider_overloaded"),
        ("rate_limit_error", "provider_rate_limited"),
        ("authentication_error", "provider_auth"),
        ("invalid_request_error", "provider_bad_request"),
        ("brand_new_error", "provider_overloaded"),
    ];
    for kind in BOTH {
        for (word, code) in cases {
            let error_event = ErrorEvent { after: 3, kind: word.to_owned(), message: "too busy".to_owned() };
            let text = Behaviour { piece_chars: 1, ..Behaviour::text("abc") };
            let (asked, _) = check(kind, [Behaviour { error_event: Some(error_event), ..text }], once());
            let error = asked.error();
            assert_eq!(error.code(), code, "{kind:?} {word}");
            assert!(error.what.contains("too busy") && error.what.contains(word), "{}", error.what);
            assert_eq!(
                error.partial.as_ref().map(|partial| partial.text.clone()).unwrap_or_default(),
                asked.text()
            );
            assert!(!asked.text().is_empty());
        }
    }
}

#[test]
fn nobody_at_home_is_unreachable() {
    for kind in BOTH {
        let url = server([]).url(); // The server is gone by now.
        let provider = provider(&kind.config(&url, &json!({"retry": {"attempts": 2}}))).unwrap();
        let asked = ask(provider.as_ref(), &question());
        assert_eq!((asked.error().code(), asked.error().attempts), ("provider_unreachable", 2), "{kind:?}");
        assert_eq!(asked.retries.len(), 1);
        assert!(asked.error().advice.contains("base_url"));
    }
}

#[test]
fn a_name_that_nobody_has_is_unreachable() {
    let config = Kind::OpenAi.config("http://no-such-host.invalid", &once());
    let asked = ask(provider(&config).unwrap().as_ref(), &question());
    assert_eq!(asked.error().code(), "provider_unreachable");
}

#[test]
fn a_server_that_speaks_no_tls_is_unreachable() {
    let server = server([]);
    let url = server.url().replace("http://", "https://");
    let asked = ask(provider(&Kind::OpenAi.config(&url, &once())).unwrap().as_ref(), &question());
    assert_eq!(asked.error().code(), "provider_unreachable");
    assert!(server.requests().is_empty());
}

#[test]
fn an_answer_without_end_is_cut_off() {
    use flyball_model_server::{Plan, Step};
    let comment = Step::Write(format!(": {}\n", "x".repeat(1 << 20)));
    let exact = Plan { status: 200, steps: vec![comment; 70], ..Plan::default() };
    let (asked, _) = check(Kind::OpenAi, [Behaviour { exact: Some(exact), ..Behaviour::default() }], once());
    assert_eq!(asked.error().code(), "provider_malformed");
    assert!(asked.error().what.contains("too large"), "{}", asked.error().what);
}

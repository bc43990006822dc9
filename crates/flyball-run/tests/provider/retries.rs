//! Trying again: when, how often, for how long, and who is told.

use super::kit::{BOTH, Kind, ask, check, provider, question, server};
use flyball_model_server::{Behaviour, ErrorEvent, Script, Server};
use serde_json::json;
use std::time::Duration;

#[test]
fn passing_troubles_are_tried_again_and_told() {
    for kind in BOTH {
        for (status, code) in [
            (408, "provider_timeout"),
            (429, "provider_rate_limited"),
            (500, "provider_overloaded"),
            (502, "provider_overloaded"),
            (503, "provider_overloaded"),
            (504, "provider_overloaded"),
            (529, "provider_overloaded"),
        ] {
            let replies = [Behaviour::status(status), Behaviour::status(status), Behaviour::text("at last")];
            let (asked, server) = check(kind, replies, json!({}));
            assert_eq!(asked.reply().text, "at last", "{kind:?} {status}");
            assert_eq!(server.requests().len(), 3);
            let told: Vec<_> =
                asked.retries.iter().map(|r| (r.attempt, r.attempts, r.code, r.status)).collect();
            assert_eq!(told, [(1, 5, code, Some(status)), (2, 5, code, Some(status))], "{kind:?}");
            assert!(asked.retries.iter().all(|retry| !retry.heard && retry.provider == "main"));
        }
    }
}

#[test]
fn tries_end_with_the_number_in_the_file() {
    for kind in BOTH {
        for attempts in [1, 3] {
            let replies = (0..9).map(|_| Behaviour::status(503));
            let (asked, server) = check(kind, replies, json!({"retry": {"attempts": attempts}}));
            assert_eq!(asked.error().code(), "provider_overloaded", "{kind:?}");
            assert_eq!(asked.error().attempts, attempts);
            assert_eq!(server.requests().len(), attempts as usize);
            assert_eq!(asked.retries.len(), attempts as usize - 1);
        }
    }
}

#[test]
fn a_connection_that_is_hung_up_is_tried_again() {
    for kind in BOTH {
        let hang_up = Behaviour { hang_up: true, ..Behaviour::default() };
        let (asked, _) = check(kind, [hang_up, Behaviour::text("hello")], json!({}));
        assert_eq!(asked.reply().text, "hello", "{kind:?}");
        assert_eq!(asked.retries[0].code, "provider_unreachable");
    }
}

#[test]
fn retry_after_is_honoured_in_all_its_forms() {
    let date = ("Date", "Sun, 06 Nov 1994 08:49:37 GMT");
    let cases = [
        (Some("1"), None, 1_000),
        (Some("Sun, 06 Nov 1994 08:49:38 GMT"), Some(date), 1_000),
        (Some("30"), Some(("retry-after-ms", "40")), 40),
        (Some("0"), None, 0),
    ];
    for kind in BOTH {
        for (retry_after, header, least_ms) in cases {
            let mut limited =
                Behaviour { retry_after: retry_after.map(str::to_owned), ..Behaviour::status(429) };
            limited.headers.extend(header.map(|(name, value)| (name.to_owned(), value.to_owned())));
            let (asked, _) = check(kind, [limited, Behaviour::text("now")], json!({}));
            assert_eq!(asked.reply().text, "now");
            let wait = asked.retries[0].wait_ms;
            assert!(wait >= least_ms && wait <= least_ms + 10, "{kind:?} {retry_after:?}: {wait}");
        }
    }
}

#[test]
fn nobody_waits_past_the_deadline() {
    for kind in BOTH {
        let limited = Behaviour { retry_after: Some("3600".to_owned()), ..Behaviour::status(429) };
        let (asked, server) = check(kind, [limited, Behaviour::text("never")], json!({}));
        let error = asked.error();
        assert_eq!(
            (error.code(), error.retry_after_ms),
            ("provider_rate_limited", Some(3_600_000)),
            "{kind:?}"
        );
        assert!(error.what.contains("3600000 ms") && error.what.contains("are left"), "{}", error.what);
        assert!(asked.retries.is_empty(), "a retry that does not come is not told");
        assert_eq!(server.requests().len(), 1);
    }
}

#[test]
fn our_own_waits_stay_inside_the_deadline_however_long_they_may_be() {
    for kind in BOTH {
        let server = server((0..50).map(|_| Behaviour::status(500)));
        let more = json!({"retry": {"attempts": 50, "base": "1h", "cap": "10h"}});
        let provider = provider(&kind.config(&server.url(), &more)).unwrap();
        let mut request = question();
        request.deadline = Some(Duration::from_secs(2));
        let began = std::time::Instant::now();
        let asked = ask(provider.as_ref(), &request);
        assert!(began.elapsed() < Duration::from_secs(30));
        // The last try may be the one that the deadline ends.
        let error = asked.error();
        assert!(["provider_overloaded", "provider_timeout"].contains(&error.code()), "{error}");
        assert!(error.what.contains("the provider answered 500"), "{error}");
        assert!(!asked.retries.is_empty());
        assert!(asked.retries.iter().map(|retry| retry.wait_ms).sum::<u64>() < 2_000);
    }
}

#[test]
fn an_answer_that_broke_off_before_a_word_was_heard_is_asked_for_again() {
    for kind in BOTH {
        let cut = Behaviour { cut_at: Some(10), ..Behaviour::text("abc") };
        let spoilt = Behaviour { spoil_event: Some(0), ..Behaviour::text("abc") };
        let event = ErrorEvent { after: 1, kind: "overloaded_error".to_owned(), message: String::new() };
        let error = Behaviour { error_event: Some(event), ..Behaviour::text("abc") };
        let (asked, _) = check(kind, [cut, spoilt, error, Behaviour::text("whole")], json!({}));
        assert_eq!(asked.reply().text, "whole", "{kind:?}");
        assert_eq!(asked.text(), "whole");
        let codes: Vec<_> = asked.retries.iter().map(|retry| retry.code).collect();
        assert_eq!(codes, ["provider_truncated", "provider_malformed", "provider_overloaded"]);
    }
}

/// What is done when words were heard already is up to the file.
#[test]
fn an_answer_that_broke_off_after_words_were_heard_is_reported_unless_the_file_says_otherwise() {
    for kind in BOTH {
        for (broken_off, expected) in [("retry_if_silent", None), ("report", None), ("retry", Some("whole"))]
        {
            let drop_last = 3;
            let cut = Behaviour { drop_last, piece_chars: 1, ..Behaviour::text("abc") };
            let more = json!({"retry": {"broken_off": broken_off}});
            let (asked, server) = check(kind, [cut, Behaviour::text("whole")], more);
            match expected {
                Some(text) => {
                    assert_eq!(asked.reply().text, text, "{kind:?}");
                    assert!(asked.retries[0].heard, "the listener is told that what it heard is void");
                    assert!(asked.text().ends_with("whole") && asked.text().len() > "whole".len());
                }
                None => {
                    assert_eq!(asked.error().code(), "provider_truncated", "{kind:?} {broken_off}");
                    assert!(!asked.error().partial.as_ref().unwrap().text.is_empty());
                    assert_eq!(server.requests().len(), 1);
                }
            }
        }
        let silent = Behaviour { cut_at: Some(10), ..Behaviour::text("abc") };
        let (asked, _) = check(kind, [silent], json!({"retry": {"broken_off": "report"}}));
        assert_eq!(asked.error().code(), "provider_truncated");
    }
}

/// Endpoints that do not know a parameter are asked without it, and it is remembered.
#[test]
fn an_endpoint_is_asked_in_the_words_that_it_knows() {
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
        let script = Script {
            refuse: refuse.iter().map(|&name| name.to_owned()).collect(),
            ..Script::new([Behaviour::text("one"), Behaviour::text("two")])
        };
        let server = Server::start(script).unwrap();
        let provider = provider(&Kind::OpenAi.config(&server.url(), &json!({"max_tokens": 5}))).unwrap();
        let asked = ask(provider.as_ref(), &question());
        assert_eq!(asked.reply().text, "one", "{refuse:?}");
        assert!(asked.retries.is_empty(), "it is no failure");
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
fn a_parameter_that_the_file_insists_on_is_not_changed() {
    let script = Script { refuse: vec!["max_tokens".to_owned()], ..Script::new([Behaviour::text("one")]) };
    let server = Server::start(script).unwrap();
    let more = json!({"max_tokens": 5, "max_tokens_field": "max_tokens"});
    let provider = provider(&Kind::OpenAi.config(&server.url(), &more)).unwrap();
    assert_eq!(ask(provider.as_ref(), &question()).error().code(), "provider_bad_request");
    assert_eq!(server.requests().len(), 1);
}

#[test]
fn a_value_that_is_too_large_is_no_unknown_parameter() {
    let said = Behaviour {
        error: Some("max_tokens is too large: 999. This model supports at most 5".into()),
        ..Behaviour::status(400)
    };
    let (asked, server) = check(Kind::OpenAi, [said], json!({"max_tokens": 999}));
    assert_eq!(asked.error().code(), "provider_bad_request");
    assert_eq!(server.requests().len(), 1);
}

//! Deadlines: nothing waits longer than the turn allows. The durations in these tests are far apart, so that a slow
//! machine does not matter: an abandoned wait would take an hour.

use super::harness::{PROTOCOLS, ask, check, provider, question, server};
use flyball_model_server::{ModelServer, RepeatMode, ReplyBehavior, ServerScript};
use serde_json::json;
use std::time::{Duration, Instant};

const HOUR_MS: u64 = 3_600_000;

fn slow_first_byte() -> ReplyBehavior {
    ReplyBehavior { first_byte_ms: HOUR_MS, ..ReplyBehavior::text("abc") }
}

fn slow_pieces() -> ReplyBehavior {
    ReplyBehavior { gap_ms: HOUR_MS, piece_chars: 1, ..ReplyBehavior::text("abc") }
}

#[test]
fn deadline_ends_every_wait() {
    for kind in PROTOCOLS {
        for said in
            [slow_first_byte(), slow_pieces(), ReplyBehavior { stream: Some(false), ..slow_first_byte() }]
        {
            let server = server([said, ReplyBehavior::text("never")]);
            let provider = provider(&kind.config(&server.url(), &json!({}))).unwrap();
            let mut request = question();
            request.deadline = Some(Duration::from_millis(300));
            let began = Instant::now();
            let asked = ask(provider.as_ref(), &request);
            assert!(began.elapsed() < Duration::from_secs(30), "{kind:?}");
            assert_eq!(asked.error().code(), "provider_timeout", "{kind:?}");
            assert!(asked.retries.is_empty(), "no time left for a retry");
            // On a busy machine it may have ended before the request arrived.
            let arrived = !server.requests().is_empty();
            assert!(
                !arrived || server.wait_for_abandoned(1, Duration::from_secs(30)),
                "the connection is closed"
            );
        }
    }
}

#[test]
fn expired_deadline_sends_no_request() {
    for kind in PROTOCOLS {
        let server = server([ReplyBehavior::text("never")]);
        let provider = provider(&kind.config(&server.url(), &json!({}))).unwrap();
        let mut request = question();
        request.deadline = Some(Duration::ZERO);
        assert_eq!(ask(provider.as_ref(), &request).error().code(), "provider_timeout");
        assert!(server.requests().is_empty());
    }
}

#[test]
fn first_byte_and_idle_timeouts_are_retried() {
    for kind in PROTOCOLS {
        for (timeout, said) in [("first_byte", slow_first_byte()), ("idle", slow_pieces())] {
            let script = ServerScript {
                repeat: RepeatMode::Last,
                ..ServerScript::new([said, ReplyBehavior::text("quick")])
            };
            let server = ModelServer::start(script).unwrap();
            // On a busy machine the fast reply may be too slow a few times.
            let more = json!({"timeouts": {"connect": "200ms", timeout: "300ms"}, "retry": {"attempts": 50}});
            let provider = provider(&kind.config(&server.url(), &more)).unwrap();
            let asked = ask(provider.as_ref(), &question());
            assert_eq!(asked.reply().text, "quick", "{kind:?} {timeout}");
            assert_eq!(asked.retries[0].code, "provider_timeout");
            assert!(asked.retries[0].message.contains("no data for"), "{}", asked.retries[0].message);
            assert!(server.wait_for_abandoned(1, Duration::from_secs(30)));
        }
    }
}

#[test]
fn deadline_mid_stream_reports_partial_text() {
    for kind in PROTOCOLS {
        let server =
            server([ReplyBehavior { gap_ms: 100, piece_chars: 1, ..ReplyBehavior::text(&"x".repeat(200)) }]);
        let provider = provider(&kind.config(&server.url(), &json!({}))).unwrap();
        let mut request = question();
        request.deadline = Some(Duration::from_secs(5));
        let asked = ask(provider.as_ref(), &request);
        assert_eq!(asked.error().code(), "provider_timeout", "{kind:?}");
        let partial = asked.error().partial.as_ref().expect("a partial reply");
        assert_eq!(partial.text, asked.text());
        assert!(!partial.text.is_empty() && partial.text.len() < 200);
    }
}

#[test]
fn slow_but_active_stream_is_not_timed_out() {
    for kind in PROTOCOLS {
        let said = ReplyBehavior {
            gap_ms: 30,
            first_byte_ms: 30,
            piece_chars: 1,
            chatter: true,
            ..ReplyBehavior::text("abcdefgh")
        };
        let (asked, _) = check(kind, [said], json!({"timeouts": {"idle": "20s", "first_byte": "20s"}}));
        assert_eq!(asked.reply().text, "abcdefgh");
        assert_eq!(asked.texts.len(), 8);
    }
}

/// A listener that never accepts: connections stay in its queue.
#[test]
fn unaccepted_connection_ends_at_the_deadline() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    for kind in PROTOCOLS {
        let provider = provider(&kind.config(&url, &json!({}))).unwrap();
        let mut request = question();
        request.deadline = Some(Duration::from_millis(300));
        let began = Instant::now();
        assert_eq!(ask(provider.as_ref(), &request).error().code(), "provider_timeout", "{kind:?}");
        assert!(began.elapsed() < Duration::from_secs(30));
    }
}

//! Deadlines: nothing waits longer than the turn may take. The times in these tests are far apart, so that a slow
//! machine changes nothing: what must be given up would take an hour.

use super::kit::{BOTH, ask, check, provider, question, server};
use flyball_model_server::{Behaviour, Repeat, Script, Server};
use serde_json::json;
use std::time::{Duration, Instant};

const HOUR_MS: u64 = 3_600_000;

fn slow_first_byte() -> Behaviour {
    Behaviour { first_byte_ms: HOUR_MS, ..Behaviour::text("abc") }
}

fn slow_pieces() -> Behaviour {
    Behaviour { gap_ms: HOUR_MS, piece_chars: 1, ..Behaviour::text("abc") }
}

#[test]
fn the_deadline_ends_every_wait() {
    for kind in BOTH {
        for said in [slow_first_byte(), slow_pieces(), Behaviour { stream: Some(false), ..slow_first_byte() }]
        {
            let server = server([said, Behaviour::text("never")]);
            let provider = provider(&kind.config(&server.url(), &json!({}))).unwrap();
            let mut request = question();
            request.deadline = Some(Duration::from_millis(300));
            let began = Instant::now();
            let asked = ask(provider.as_ref(), &request);
            assert!(began.elapsed() < Duration::from_secs(30), "{kind:?}");
            assert_eq!(asked.error().code(), "provider_timeout", "{kind:?}");
            assert!(asked.retries.is_empty(), "no time is left for another try");
            // On a busy machine it may have ended before the request was there.
            let arrived = !server.requests().is_empty();
            assert!(
                !arrived || server.wait_for_abandoned(1, Duration::from_secs(30)),
                "the connection is shut"
            );
        }
    }
}

#[test]
fn a_turn_without_any_time_asks_nobody_anything() {
    for kind in BOTH {
        let server = server([Behaviour::text("never")]);
        let provider = provider(&kind.config(&server.url(), &json!({}))).unwrap();
        let mut request = question();
        request.deadline = Some(Duration::ZERO);
        assert_eq!(ask(provider.as_ref(), &request).error().code(), "provider_timeout");
        assert!(server.requests().is_empty());
    }
}

#[test]
fn a_silent_provider_is_given_up_and_asked_again_inside_the_deadline() {
    for kind in BOTH {
        for (timeout, said) in [("first_byte", slow_first_byte()), ("idle", slow_pieces())] {
            let script = Script { repeat: Repeat::Last, ..Script::new([said, Behaviour::text("quick")]) };
            let server = Server::start(script).unwrap();
            // On a busy machine the quick one may be too slow a few times.
            let more = json!({"timeouts": {"connect": "200ms", timeout: "300ms"}, "retry": {"attempts": 50}});
            let provider = provider(&kind.config(&server.url(), &more)).unwrap();
            let asked = ask(provider.as_ref(), &question());
            assert_eq!(asked.reply().text, "quick", "{kind:?} {timeout}");
            assert_eq!(asked.retries[0].code, "provider_timeout");
            assert!(asked.retries[0].what.contains("nothing came for"), "{}", asked.retries[0].what);
            assert!(server.wait_for_abandoned(1, Duration::from_secs(30)));
        }
    }
}

#[test]
fn a_provider_that_falls_silent_in_mid_sentence_is_reported_with_what_it_said() {
    for kind in BOTH {
        let server = server([Behaviour { gap_ms: 100, piece_chars: 1, ..Behaviour::text(&"x".repeat(200)) }]);
        let provider = provider(&kind.config(&server.url(), &json!({}))).unwrap();
        let mut request = question();
        request.deadline = Some(Duration::from_secs(5));
        let asked = ask(provider.as_ref(), &request);
        assert_eq!(asked.error().code(), "provider_timeout", "{kind:?}");
        let partial = asked.error().partial.as_ref().expect("some of it had come");
        assert_eq!(partial.text, asked.text());
        assert!(!partial.text.is_empty() && partial.text.len() < 200);
    }
}

#[test]
fn a_slow_stream_that_goes_on_is_not_given_up() {
    for kind in BOTH {
        let said = Behaviour {
            gap_ms: 30,
            first_byte_ms: 30,
            piece_chars: 1,
            chatter: true,
            ..Behaviour::text("abcdefgh")
        };
        let (asked, _) = check(kind, [said], json!({"timeouts": {"idle": "20s", "first_byte": "20s"}}));
        assert_eq!(asked.reply().text, "abcdefgh");
        assert_eq!(asked.texts.len(), 8);
    }
}

/// A listener that accepts nobody: connections stay in its queue, unanswered.
#[test]
fn a_connection_that_nobody_accepts_ends_with_the_deadline() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    for kind in BOTH {
        let provider = provider(&kind.config(&url, &json!({}))).unwrap();
        let mut request = question();
        request.deadline = Some(Duration::from_millis(300));
        let began = Instant::now();
        assert_eq!(ask(provider.as_ref(), &request).error().code(), "provider_timeout", "{kind:?}");
        assert!(began.elapsed() < Duration::from_secs(30));
    }
}

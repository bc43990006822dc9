//! Cancelling: whatever is waited for, the wait ends, and the provider is told by a closed connection.

use super::kit::{BOTH, Kind, ask_until, provider, question, server};
use flyball_model_server::Behaviour;
use flyball_run::process::Cancel;
use flyball_run::provider::Progress;
use serde_json::json;
use std::time::{Duration, Instant};

const HOUR_MS: u64 = 3_600_000;
const SOON: Duration = Duration::from_secs(30);

fn an_hour() -> flyball_run::provider::Request {
    flyball_run::provider::Request { deadline: Some(Duration::from_millis(HOUR_MS)), ..question() }
}

#[test]
fn a_wait_for_the_provider_ends_when_it_is_cancelled() {
    let waits = [
        Behaviour { first_byte_ms: HOUR_MS, ..Behaviour::text("abc") },
        Behaviour { gap_ms: HOUR_MS, ..Behaviour::text("abc") },
        Behaviour { stream: Some(false), first_byte_ms: HOUR_MS, ..Behaviour::text("abc") },
    ];
    for kind in BOTH {
        for said in &waits {
            let server = server([said.clone()]);
            let provider = provider(&kind.config(&server.url(), &json!({}))).unwrap();
            let cancel = Cancel::new();
            let began = Instant::now();
            let asked = std::thread::scope(|scope| {
                let asking = scope.spawn(|| ask_until(provider.as_ref(), &an_hour(), &cancel));
                assert!(server.wait_for_requests(1, SOON));
                cancel.cancel();
                asking.join().unwrap()
            });
            assert_eq!(asked.error().code(), "provider_cancelled", "{kind:?}");
            assert!(began.elapsed() < SOON);
            assert!(asked.retries.is_empty());
            assert!(server.wait_for_abandoned(1, SOON), "{kind:?}: the connection is shut");
        }
    }
}

#[test]
fn a_wait_for_another_try_ends_when_it_is_cancelled() {
    for kind in BOTH {
        let server = server([Behaviour { retry_after: Some("1800".to_owned()), ..Behaviour::status(429) }]);
        let provider = provider(&kind.config(&server.url(), &json!({}))).unwrap();
        let cancel = Cancel::new();
        let began = Instant::now();
        // Told of the retry, it cancels: the wait begins after that.
        let mut told = 0;
        let result = provider.ask_watched(&an_hour(), &cancel, &mut |progress| {
            if let Progress::Retry(retry) = progress {
                told += 1;
                assert!(retry.wait_ms >= 1_800_000);
                cancel.cancel();
            }
        });
        assert_eq!(result.unwrap_err().code(), "provider_cancelled", "{kind:?}");
        assert_eq!(told, 1);
        assert!(began.elapsed() < SOON);
    }
}

#[test]
fn what_was_said_until_then_is_reported() {
    for kind in BOTH {
        let server =
            server([Behaviour { piece_chars: 1, gap_ms: 20, ..Behaviour::text(&"x".repeat(5_000)) }]);
        let provider = provider(&kind.config(&server.url(), &json!({}))).unwrap();
        let cancel = Cancel::new();
        let mut heard = String::new();
        let result = provider.ask(&an_hour(), &cancel, &mut |text| {
            heard.push_str(text);
            if heard.len() >= 3 {
                cancel.cancel();
            }
        });
        let error = result.unwrap_err();
        assert_eq!(error.code(), "provider_cancelled", "{kind:?}");
        assert_eq!(error.partial.unwrap().text, heard);
        assert!(heard.len() < 5_000);
    }
}

#[test]
fn what_is_cancelled_before_it_begins_asks_nobody() {
    let cancel = Cancel::new();
    cancel.cancel();
    for kind in BOTH {
        let server = server([Behaviour::text("never")]);
        let provider = provider(&kind.config(&server.url(), &json!({}))).unwrap();
        assert_eq!(ask_until(provider.as_ref(), &an_hour(), &cancel).error().code(), "provider_cancelled");
        assert!(server.requests().is_empty());
    }
}

#[test]
fn cancelling_one_ask_leaves_the_others_alone() {
    let slow = Behaviour { first_byte_ms: HOUR_MS, ..Behaviour::text("never") };
    let server = server([slow, Behaviour { gap_ms: 20, piece_chars: 1, ..Behaviour::text("undisturbed") }]);
    let provider = provider(&Kind::OpenAi.config(&server.url(), &json!({}))).unwrap();
    let cancel = Cancel::new();
    std::thread::scope(|scope| {
        let first = scope.spawn(|| ask_until(provider.as_ref(), &an_hour(), &cancel));
        assert!(server.wait_for_requests(1, SOON));
        let mut heard = String::new();
        let second = provider.ask(&an_hour(), &Cancel::new(), &mut |text| {
            heard.push_str(text);
            cancel.cancel();
        });
        assert_eq!(second.unwrap().text, "undisturbed");
        assert_eq!(first.join().unwrap().error().code(), "provider_cancelled");
    });
}

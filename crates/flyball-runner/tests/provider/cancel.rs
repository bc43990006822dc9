//! Cancellation ends every wait and closes the connection to the provider.

use super::harness::{PROTOCOLS, ProtocolKind, ask_until, provider, question, server};
use flyball_model_server::ReplyBehavior;
use flyball_runner::process::CancelToken;
use flyball_runner::provider::ProviderProgress;
use serde_json::json;
use std::time::{Duration, Instant};

const HOUR_MS: u64 = 3_600_000;
const CANCEL_TIMEOUT: Duration = Duration::from_secs(30);

fn request_with_long_deadline() -> flyball_runner::provider::ModelRequest {
    flyball_runner::provider::ModelRequest { deadline: Some(Duration::from_millis(HOUR_MS)), ..question() }
}

#[test]
fn cancel_ends_waiting_for_the_provider() {
    let waits = [
        ReplyBehavior { first_byte_ms: HOUR_MS, ..ReplyBehavior::text("abc") },
        ReplyBehavior { gap_ms: HOUR_MS, ..ReplyBehavior::text("abc") },
        ReplyBehavior { stream: Some(false), first_byte_ms: HOUR_MS, ..ReplyBehavior::text("abc") },
    ];
    for kind in PROTOCOLS {
        for said in &waits {
            let server = server([said.clone()]);
            let provider = provider(&kind.config(&server.url(), &json!({}))).unwrap();
            let cancel = CancelToken::new();
            let began = Instant::now();
            let asked = std::thread::scope(|scope| {
                let asking =
                    scope.spawn(|| ask_until(provider.as_ref(), &request_with_long_deadline(), &cancel));
                assert!(server.wait_for_requests(1, CANCEL_TIMEOUT));
                cancel.cancel();
                asking.join().unwrap()
            });
            assert_eq!(asked.error().code(), "provider_cancelled", "{kind:?}");
            assert!(began.elapsed() < CANCEL_TIMEOUT);
            assert!(asked.retries.is_empty());
            assert!(server.wait_for_abandoned(1, CANCEL_TIMEOUT), "{kind:?}: the connection is closed");
        }
    }
}

#[test]
fn cancel_ends_backoff() {
    for kind in PROTOCOLS {
        let server =
            server([ReplyBehavior { retry_after: Some("1800".to_owned()), ..ReplyBehavior::status(429) }]);
        let provider = provider(&kind.config(&server.url(), &json!({}))).unwrap();
        let cancel = CancelToken::new();
        let began = Instant::now();
        // Cancels on the retry notice, before the delay starts.
        let mut notices = 0;
        let result = provider.ask_with_progress(&request_with_long_deadline(), &cancel, &mut |progress| {
            if let ProviderProgress::Retry(retry) = progress {
                notices += 1;
                assert!(retry.wait_ms >= 1_800_000);
                cancel.cancel();
            }
        });
        assert_eq!(result.unwrap_err().code(), "provider_cancelled", "{kind:?}");
        assert_eq!(notices, 1);
        assert!(began.elapsed() < CANCEL_TIMEOUT);
    }
}

#[test]
fn cancel_reports_partial_text() {
    for kind in PROTOCOLS {
        let server =
            server([ReplyBehavior { piece_chars: 1, gap_ms: 20, ..ReplyBehavior::text(&"x".repeat(5_000)) }]);
        let provider = provider(&kind.config(&server.url(), &json!({}))).unwrap();
        let cancel = CancelToken::new();
        let mut heard = String::new();
        let result = provider.ask(&request_with_long_deadline(), &cancel, &mut |text| {
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
fn cancelled_request_is_not_sent() {
    let cancel = CancelToken::new();
    cancel.cancel();
    for kind in PROTOCOLS {
        let server = server([ReplyBehavior::text("never")]);
        let provider = provider(&kind.config(&server.url(), &json!({}))).unwrap();
        assert_eq!(
            ask_until(provider.as_ref(), &request_with_long_deadline(), &cancel).error().code(),
            "provider_cancelled"
        );
        assert!(server.requests().is_empty());
    }
}

#[test]
fn cancelling_one_request_does_not_affect_others() {
    let slow = ReplyBehavior { first_byte_ms: HOUR_MS, ..ReplyBehavior::text("never") };
    let server =
        server([slow, ReplyBehavior { gap_ms: 20, piece_chars: 1, ..ReplyBehavior::text("undisturbed") }]);
    let provider = provider(&ProtocolKind::OpenAi.config(&server.url(), &json!({}))).unwrap();
    let cancel = CancelToken::new();
    std::thread::scope(|scope| {
        let first = scope.spawn(|| ask_until(provider.as_ref(), &request_with_long_deadline(), &cancel));
        assert!(server.wait_for_requests(1, CANCEL_TIMEOUT));
        let mut heard = String::new();
        let second = provider.ask(&request_with_long_deadline(), &CancelToken::new(), &mut |text| {
            heard.push_str(text);
            cancel.cancel();
        });
        assert_eq!(second.unwrap().text, "undisturbed");
        assert_eq!(first.join().unwrap().error().code(), "provider_cancelled");
    });
}

//! Backoff delays and retry decisions.

use super::*;

fn policy() -> ProviderRetryPolicy {
    ProviderRetryPolicy {
        base: ProviderDuration(ms(100)),
        cap: ProviderDuration(ms(1_000)),
        ..ProviderRetryPolicy::default()
    }
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

const LONG: Duration = Duration::from_secs(3_600);

#[test]
fn backoff_doubles_with_full_jitter_up_to_the_cap() {
    for (tried, window_ms) in
        [(1, 100), (2, 200), (3, 400), (4, 800), (5, 1_000), (60, 1_000), (u32::MAX, 1_000)]
    {
        let window = window_ms * 1_000;
        let wait = |random| backoff_delay(&policy(), tried, None, LONG, random).unwrap();
        assert_eq!(wait(0), Duration::ZERO, "full jitter starts at zero");
        assert_eq!(wait(window), ms(window_ms), "full jitter covers the window of attempt {tried}");
        assert_eq!(wait(window + 1), Duration::ZERO, "full jitter never exceeds the window");
    }
}

#[test]
fn backoff_leaves_time_for_the_next_attempt() {
    for random in [0, 1, 12_345, u64::MAX] {
        let wait = backoff_delay(&policy(), 10, None, ms(50), random).unwrap();
        assert!(wait <= ms(25), "{wait:?}");
    }
    assert_eq!(backoff_delay(&policy(), 1, None, Duration::ZERO, 7), None);
}

#[test]
fn retry_after_is_never_shortened() {
    for random in [0, 99_999, u64::MAX] {
        let wait = backoff_delay(&policy(), 1, Some(ms(5_000)), LONG, random).unwrap();
        assert!(wait >= ms(5_000) && wait <= ms(5_100), "{wait:?}");
        // A requested delay may exceed the cap.
        assert!(backoff_delay(&policy(), 1, Some(ms(90_000)), LONG, random).unwrap() >= ms(90_000));
        // Little time left: the jitter shrinks.
        let wait = backoff_delay(&policy(), 1, Some(ms(5_000)), ms(5_002), random).unwrap();
        assert!(wait >= ms(5_000) && wait < ms(5_002), "{wait:?}");
        // No time left: no retry.
        assert_eq!(backoff_delay(&policy(), 1, Some(ms(5_000)), ms(5_000), random), None);
    }
}

#[test]
fn zero_base_means_no_delay() {
    let none = ProviderRetryPolicy { base: ProviderDuration(Duration::ZERO), ..policy() };
    assert_eq!(backoff_delay(&none, 3, None, LONG, u64::MAX), Some(Duration::ZERO));
}

#[test]
fn retry_decision_follows_policy_and_streamed_text() {
    use OnTruncated::{Report, Retry, RetryIfSilent};
    use Retryability::{AfterPartial, Later, Never};
    let cases = [
        (Never, Retry, false, false),
        (Later, Report, true, true),
        (AfterPartial, RetryIfSilent, false, true),
        (AfterPartial, RetryIfSilent, true, false),
        (AfterPartial, Retry, true, true),
        (AfterPartial, Report, false, false),
    ];
    for (again, broken_off, received, expected) in cases {
        let error = AttemptError::new(ProviderErrorCode::Truncated, again, "x");
        let policy = ProviderRetryPolicy { on_truncated: broken_off, ..policy() };
        assert_eq!(
            should_retry(&policy, &error, received),
            expected,
            "{again:?} {broken_off:?} received={received}"
        );
    }
}

#[test]
fn random_values_differ() {
    assert_ne!(random_u64(), random_u64());
}

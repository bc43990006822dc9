//! How long to wait, and when to give up.

use super::*;

fn policy() -> RetryPolicy {
    RetryPolicy { base: Millis(ms(100)), cap: Millis(ms(1_000)), ..RetryPolicy::default() }
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

const LONG: Duration = Duration::from_secs(3_600);

#[test]
fn our_own_wait_is_anything_up_to_a_window_that_doubles_up_to_the_cap() {
    for (tried, window_ms) in
        [(1, 100), (2, 200), (3, 400), (4, 800), (5, 1_000), (60, 1_000), (u32::MAX, 1_000)]
    {
        let window = window_ms * 1_000;
        let wait = |random| pause(&policy(), tried, None, LONG, random).unwrap();
        assert_eq!(wait(0), Duration::ZERO, "full jitter reaches down to nothing");
        assert_eq!(wait(window), ms(window_ms), "and up to the whole window of try {tried}");
        assert_eq!(wait(window + 1), Duration::ZERO, "and never beyond it");
    }
}

#[test]
fn our_own_wait_leaves_time_for_the_try_that_follows() {
    for random in [0, 1, 12_345, u64::MAX] {
        let wait = pause(&policy(), 10, None, ms(50), random).unwrap();
        assert!(wait <= ms(25), "{wait:?}");
    }
    assert_eq!(pause(&policy(), 1, None, Duration::ZERO, 7), None);
}

#[test]
fn what_the_provider_asks_for_is_never_cut_short() {
    for random in [0, 99_999, u64::MAX] {
        let wait = pause(&policy(), 1, Some(ms(5_000)), LONG, random).unwrap();
        assert!(wait >= ms(5_000) && wait <= ms(5_100), "{wait:?}");
        // Beyond the cap of our own waits, too.
        assert!(pause(&policy(), 1, Some(ms(90_000)), LONG, random).unwrap() >= ms(90_000));
        // Little time: the jitter gives way.
        let wait = pause(&policy(), 1, Some(ms(5_000)), ms(5_002), random).unwrap();
        assert!(wait >= ms(5_000) && wait < ms(5_002), "{wait:?}");
        // No time: not at all.
        assert_eq!(pause(&policy(), 1, Some(ms(5_000)), ms(5_000), random), None);
    }
}

#[test]
fn a_base_of_nothing_is_no_wait() {
    let none = RetryPolicy { base: Millis(Duration::ZERO), ..policy() };
    assert_eq!(pause(&none, 3, None, LONG, u64::MAX), Some(Duration::ZERO));
}

#[test]
fn hope_follows_the_policy_and_what_was_heard() {
    use Again::{Later, Midway, Never};
    use BrokenOff::{Report, Retry, RetryIfSilent};
    let cases = [
        (Never, Retry, false, false),
        (Later, Report, true, true),
        (Midway, RetryIfSilent, false, true),
        (Midway, RetryIfSilent, true, false),
        (Midway, Retry, true, true),
        (Midway, Report, false, false),
    ];
    for (again, broken_off, heard, expected) in cases {
        let fault = Fault::new(Code::Truncated, again, "x");
        let policy = RetryPolicy { broken_off, ..policy() };
        assert_eq!(hopeful(&policy, &fault, heard), expected, "{again:?} {broken_off:?} heard={heard}");
    }
}

#[test]
fn two_random_numbers_differ() {
    assert_ne!(random(), random());
}

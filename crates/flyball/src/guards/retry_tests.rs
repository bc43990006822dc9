//! The breaker as a table, every transition taken; the waits and their jitter.

use super::{Breaker, Next, Operation, backoff, counter_name};
use crate::fingerprint::Fingerprint;
use crate::policy::{Backoff, RetryLimits};

const LIMIT: u64 = 2;
const NOW: u64 = 1_000_000;

fn limits() -> RetryLimits {
    RetryLimits {
        limit: Some(LIMIT),
        base_ms: 1_000,
        cap_ms: 60_000,
        jitter_percent: 0,
        cooldown_ms: 10_000,
        max_cooldown_ms: 40_000,
        probe_ms: 5_000,
        ..RetryLimits::default()
    }
}

fn operation(attempts: u32, breaker: Breaker, trips: u32) -> Operation {
    Operation { attempts, breaker, trips, first: 1, ..Operation::default() }
}

#[test]
fn every_transition_of_the_breaker() {
    let open = |until| Breaker::Open { until };
    let probing = |until| Breaker::Probing { until };
    let closed = Breaker::Closed;
    for (name, before, next, after) in [
        (
            "closed, the first failure: try again",
            operation(0, closed, 0),
            Next::Again { attempt: 1, wait_ms: 1_000 },
            operation(1, closed, 0),
        ),
        (
            "closed, the last failure that may be tried again",
            operation(1, closed, 0),
            Next::Again { attempt: 2, wait_ms: 2_000 },
            operation(2, closed, 0),
        ),
        (
            "closed, one failure more: open",
            operation(2, closed, 0),
            Next::Opened { wait_ms: 10_000 },
            operation(0, open(NOW + 10_000), 1),
        ),
        (
            "open, the cooldown goes on: refused with what is left of it",
            operation(0, open(NOW + 1), 1),
            Next::StillOpen { wait_ms: 1 },
            operation(0, open(NOW + 1), 1),
        ),
        (
            "open, the cooldown is over: one probe",
            operation(0, open(NOW), 1),
            Next::Probe { wait_ms: 0 },
            operation(0, probing(NOW + 5_000), 1),
        ),
        (
            "half-open, the probe failed: open again, for twice as long",
            operation(0, probing(NOW + 1), 1),
            Next::Opened { wait_ms: 20_000 },
            operation(0, open(NOW + 20_000), 2),
        ),
        (
            "half-open, the probe was lost: another probe",
            operation(0, probing(NOW), 1),
            Next::Probe { wait_ms: 0 },
            operation(0, probing(NOW + 5_000), 1),
        ),
        (
            "the cooldown grows up to its cap",
            operation(2, closed, 7),
            Next::Opened { wait_ms: 40_000 },
            operation(0, open(NOW + 40_000), 8),
        ),
        (
            "very many openings do not overflow",
            operation(2, closed, u32::MAX),
            Next::Opened { wait_ms: 40_000 },
            operation(0, open(NOW + 40_000), u32::MAX),
        ),
    ] {
        let mut operation = before;
        assert_eq!(operation.fail(&limits(), LIMIT, NOW, Fingerprint::NONE), next, "{name}");
        assert_eq!(operation, after, "{name}");
    }
}

#[test]
fn a_cooldown_above_its_own_cap_is_kept() {
    let limits = RetryLimits { cooldown_ms: 90_000, ..limits() };
    let mut operation = operation(2, Breaker::Closed, 3);
    assert_eq!(operation.fail(&limits, LIMIT, NOW, Fingerprint::NONE), Next::Opened { wait_ms: 90_000 });
}

#[test]
fn the_wait_grows_as_the_policy_says() {
    for (kind, waits) in [
        (Backoff::Exponential, [1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000]),
        (Backoff::Linear, [1_000, 2_000, 3_000, 4_000, 5_000, 6_000, 7_000, 8_000]),
        (Backoff::Fixed, [1_000; 8]),
    ] {
        let limits = RetryLimits { backoff: kind, ..limits() };
        let seen: Vec<u64> = (1..=8).map(|attempt| backoff(&limits, attempt, Fingerprint::NONE)).collect();
        assert_eq!(seen, waits, "{kind:?}");
    }
}

#[test]
fn no_attempt_is_too_high_or_too_low_to_wait_for() {
    for kind in [Backoff::Exponential, Backoff::Linear, Backoff::Fixed] {
        let limits = RetryLimits {
            backoff: kind,
            base_ms: u64::MAX,
            cap_ms: u64::MAX,
            jitter_percent: 100,
            ..limits()
        };
        for attempt in [0, 1, 31, 32, 64, u32::MAX] {
            assert!(backoff(&limits, attempt, Fingerprint::of_text("x")) >= limits.base_ms / 2);
        }
    }
    assert_eq!(backoff(&limits(), 0, Fingerprint::NONE), backoff(&limits(), 1, Fingerprint::NONE));
}

#[test]
fn jitter_is_the_same_every_time_and_stays_in_its_bounds() {
    let limits = RetryLimits { jitter_percent: 20, ..limits() };
    let mut seen = std::collections::BTreeSet::new();
    for seed in 0..500_u32 {
        let jitter = Fingerprint::of(&seed.to_le_bytes());
        let wait = backoff(&limits, 3, jitter);
        assert_eq!(wait, backoff(&limits, 3, jitter), "the same on every replay");
        assert!((4_000..=4_800).contains(&wait), "{wait}");
        seen.insert(wait);
    }
    assert!(seen.len() > 100, "it spreads: {}", seen.len());
    for attempt in 1..40 {
        assert!(backoff(&limits, attempt, Fingerprint::of(&attempt.to_le_bytes())) <= limits.cap_ms);
    }
}

#[test]
fn the_counters_are_named_as_the_seed_names_them() {
    for (operation, name) in [
        ("confirmation", "_confirmation_attempts"),
        ("validation", "_validation_attempts"),
        ("correction", "_correction_retries"),
        ("modification", "_modification_retries"),
        ("collect_next_slot", "_collect_next_slot_retries"),
    ] {
        assert_eq!(counter_name(operation), name);
    }
    assert!(counter_name(&"x".repeat(500)).len() < 60);
}

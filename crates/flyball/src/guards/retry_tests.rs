//! Table test of every breaker transition, and tests of backoff and jitter.

use super::{BreakerState, RetryOutcome, RetryState, backoff_ms, counter_name};
use crate::fingerprint::Fingerprint;
use crate::policy::{BackoffStrategy, RetryLimits};

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

fn operation(attempts: u32, breaker: BreakerState, trips: u32) -> RetryState {
    RetryState { attempts, breaker, trips, first: 1, ..RetryState::default() }
}

#[test]
fn breaker_takes_every_transition() {
    let open = |until| BreakerState::Open { until };
    let probing = |until| BreakerState::Probing { until };
    let closed = BreakerState::Closed;
    for (name, before, next, after) in [
        (
            "closed, first failure: retry",
            operation(0, closed, 0),
            RetryOutcome::Retry { attempt: 1, wait_ms: 1_000 },
            operation(1, closed, 0),
        ),
        (
            "closed, last failure that may be retried",
            operation(1, closed, 0),
            RetryOutcome::Retry { attempt: 2, wait_ms: 2_000 },
            operation(2, closed, 0),
        ),
        (
            "closed, one failure more: open",
            operation(2, closed, 0),
            RetryOutcome::Opened { wait_ms: 10_000 },
            operation(0, open(NOW + 10_000), 1),
        ),
        (
            "open, cooldown not over: denied with the remaining time",
            operation(0, open(NOW + 1), 1),
            RetryOutcome::StillOpen { wait_ms: 1 },
            operation(0, open(NOW + 1), 1),
        ),
        (
            "open, cooldown over: one probe",
            operation(0, open(NOW), 1),
            RetryOutcome::Probe { wait_ms: 0 },
            operation(0, probing(NOW + 5_000), 1),
        ),
        (
            "half-open, probe failed: open again, for twice as long",
            operation(0, probing(NOW + 1), 1),
            RetryOutcome::Opened { wait_ms: 20_000 },
            operation(0, open(NOW + 20_000), 2),
        ),
        (
            "half-open, probe lost: another probe",
            operation(0, probing(NOW), 1),
            RetryOutcome::Probe { wait_ms: 0 },
            operation(0, probing(NOW + 5_000), 1),
        ),
        (
            "the cooldown grows up to its cap",
            operation(2, closed, 7),
            RetryOutcome::Opened { wait_ms: 40_000 },
            operation(0, open(NOW + 40_000), 8),
        ),
        (
            "very many openings do not overflow",
            operation(2, closed, u32::MAX),
            RetryOutcome::Opened { wait_ms: 40_000 },
            operation(0, open(NOW + 40_000), u32::MAX),
        ),
    ] {
        let mut operation = before;
        assert_eq!(operation.on_failure(&limits(), LIMIT, NOW, Fingerprint::NONE), next, "{name}");
        assert_eq!(operation, after, "{name}");
    }
}

#[test]
fn cooldown_above_its_cap_is_kept() {
    let limits = RetryLimits { cooldown_ms: 90_000, ..limits() };
    let mut operation = operation(2, BreakerState::Closed, 3);
    assert_eq!(
        operation.on_failure(&limits, LIMIT, NOW, Fingerprint::NONE),
        RetryOutcome::Opened { wait_ms: 90_000 }
    );
}

#[test]
fn backoff_grows_as_configured() {
    for (kind, waits) in [
        (BackoffStrategy::Exponential, [1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000]),
        (BackoffStrategy::Linear, [1_000, 2_000, 3_000, 4_000, 5_000, 6_000, 7_000, 8_000]),
        (BackoffStrategy::Fixed, [1_000; 8]),
    ] {
        let limits = RetryLimits { backoff: kind, ..limits() };
        let seen: Vec<u64> = (1..=8).map(|attempt| backoff_ms(&limits, attempt, Fingerprint::NONE)).collect();
        assert_eq!(seen, waits, "{kind:?}");
    }
}

#[test]
fn backoff_handles_extreme_attempt_numbers() {
    for kind in [BackoffStrategy::Exponential, BackoffStrategy::Linear, BackoffStrategy::Fixed] {
        let limits = RetryLimits {
            backoff: kind,
            base_ms: u64::MAX,
            cap_ms: u64::MAX,
            jitter_percent: 100,
            ..limits()
        };
        for attempt in [0, 1, 31, 32, 64, u32::MAX] {
            assert!(backoff_ms(&limits, attempt, Fingerprint::of_text("x")) >= limits.base_ms / 2);
        }
    }
    assert_eq!(backoff_ms(&limits(), 0, Fingerprint::NONE), backoff_ms(&limits(), 1, Fingerprint::NONE));
}

#[test]
fn jitter_is_deterministic_and_bounded() {
    let limits = RetryLimits { jitter_percent: 20, ..limits() };
    let mut seen = std::collections::BTreeSet::new();
    for seed in 0..500_u32 {
        let jitter = Fingerprint::of(&seed.to_le_bytes());
        let wait = backoff_ms(&limits, 3, jitter);
        assert_eq!(wait, backoff_ms(&limits, 3, jitter), "not deterministic");
        assert!((4_000..=4_800).contains(&wait), "{wait}");
        seen.insert(wait);
    }
    assert!(seen.len() > 100, "no jitter: {}", seen.len());
    for attempt in 1..40 {
        assert!(backoff_ms(&limits, attempt, Fingerprint::of(&attempt.to_le_bytes())) <= limits.cap_ms);
    }
}

#[test]
fn counter_names_match_the_original_system() {
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

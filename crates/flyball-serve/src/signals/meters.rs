//! The server's own counts: requests, how long decisions take, deliveries, traces, lines of the log that were dropped.
//!
//! What is told apart is bounded: routes by their pattern, methods and statuses that there are; never a name or an
//! argument.

use flyball::metrics::Family;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// The upper ends of the buckets: as they are written, in seconds, and in microseconds.
const BUCKETS: [(&str, u64); 14] = [
    ("0.0005", 500),
    ("0.001", 1_000),
    ("0.0025", 2_500),
    ("0.005", 5_000),
    ("0.01", 10_000),
    ("0.025", 25_000),
    ("0.05", 50_000),
    ("0.1", 100_000),
    ("0.25", 250_000),
    ("0.5", 500_000),
    ("1", 1_000_000),
    ("2.5", 2_500_000),
    ("5", 5_000_000),
    ("10", 10_000_000),
];

/// A count.
#[derive(Debug, Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    /// So many more.
    pub(crate) fn add(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    /// How many there are.
    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// How long something takes, in buckets.
#[derive(Debug, Default)]
pub(crate) struct Spread {
    buckets: [Count; BUCKETS.len()],
    count: Count,
    micros: Count,
}

impl Spread {
    /// It took so long.
    pub(crate) fn take(&self, took: Duration) {
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        for (bucket, (_, most)) in self.buckets.iter().zip(BUCKETS) {
            if micros <= most {
                bucket.add(1);
                break;
            }
        }
        self.micros.add(micros);
        self.count.add(1);
    }

    /// The lines of a histogram. Buckets are summed up here, and the count is the last of them: a take that comes
    /// between is in none of the lines, or in all that come after.
    pub(super) fn write(&self, family: &mut Family<'_>) {
        let mut sum = 0;
        for (bucket, (word, _)) in self.buckets.iter().zip(BUCKETS) {
            sum += bucket.get();
            family.part("_bucket", &[("le", word)], sum);
        }
        let count = self.count.get().max(sum);
        family.part("_bucket", &[("le", "+Inf")], count);
        let micros = self.micros.get();
        family.part("_sum", &[], format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000));
        family.part("_count", &[], count);
    }

    /// So many of a hundred took no longer than this, in microseconds; `None` if there were none, or it is not known.
    pub(crate) fn share(&self, of_a_hundred: u64) -> Option<u64> {
        let wanted = self.count.get().saturating_mul(of_a_hundred).div_ceil(100);
        let mut sum = 0;
        let reached = |bucket: &Count| {
            sum += bucket.get();
            sum >= wanted
        };
        let place = self.buckets.iter().position(reached).filter(|_| wanted > 0)?;
        BUCKETS.get(place).map(|(_, most)| *most)
    }

    pub(super) fn to_json(&self) -> Value {
        let mut sum = 0;
        let mut buckets = Vec::new();
        for (bucket, (_, most)) in self.buckets.iter().zip(BUCKETS) {
            sum += bucket.get();
            buckets.push(json!({"up_to_micros": most, "count": sum}));
        }
        json!({"count": self.count.get().max(sum), "sum_micros": self.micros.get(), "buckets": buckets})
    }
}

/// What is told apart among requests.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Asked {
    /// The pattern of the route, or `other`.
    pub(crate) route: String,
    /// The method, or `other`.
    pub(crate) method: &'static str,
    /// The status of the answer.
    pub(crate) status: u16,
}

/// The server's own counts.
#[derive(Debug, Default)]
pub(crate) struct Meters {
    requests: Mutex<BTreeMap<Asked, u64>>,
    /// How long requests take, until the answer begins.
    pub(crate) answers: Spread,
    /// How long decisions take, from the line to the disk.
    pub(crate) decisions: Spread,
    /// Requests that were refused because there is too much to do.
    pub(crate) overloads: Count,
    /// Errands that were performed, will be tried again, were given up.
    pub(crate) delivered: Count,
    /// As above.
    pub(crate) deferred: Count,
    /// As above.
    pub(crate) died: Count,
    /// Spans that a collector has taken.
    pub(crate) spans_sent: Count,
    /// Spans that it has refused for good.
    pub(crate) spans_refused: Count,
    /// Attempts to send spans that failed and are made again.
    pub(crate) spans_again: Count,
}

impl Meters {
    /// A request was answered.
    pub(crate) fn answered(&self, asked: Asked, took: Duration) {
        if asked.status == 429 {
            self.overloads.add(1);
        }
        self.answers.take(took);
        let mut requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        *requests.entry(asked).or_default() += 1;
    }

    /// Requests by route, method and status.
    pub(super) fn requests(&self) -> BTreeMap<Asked, u64> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

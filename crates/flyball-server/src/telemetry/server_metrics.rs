//! The server's own metrics: requests, decision times, deliveries, traces and dropped log lines.
//!
//! Label values are bounded: route patterns, known methods and statuses; never a name or an argument.

use flyball::metrics::MetricFamily;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Upper bounds of the buckets, in seconds as text and in microseconds.
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

/// A counter.
#[derive(Debug, Default)]
pub(crate) struct AtomicCounter(AtomicU64);

impl AtomicCounter {
    /// Adds to the counter.
    pub(crate) fn add(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    /// The current value.
    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A latency histogram.
#[derive(Debug, Default)]
pub(crate) struct LatencyHistogram {
    buckets: [AtomicCounter; BUCKETS.len()],
    count: AtomicCounter,
    micros: AtomicCounter,
}

impl LatencyHistogram {
    /// Records a duration.
    pub(crate) fn record(&self, took: Duration) {
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

    /// Writes the histogram. The count is derived from the buckets, so that concurrent records keep it consistent
    /// with them.
    pub(super) fn write_prometheus(&self, family: &mut MetricFamily<'_>) {
        let mut sum = 0;
        for (bucket, (bound, _)) in self.buckets.iter().zip(BUCKETS) {
            sum += bucket.get();
            family.sample_with_suffix("_bucket", &[("le", bound)], sum);
        }
        let count = self.count.get().max(sum);
        family.sample_with_suffix("_bucket", &[("le", "+Inf")], count);
        let micros = self.micros.get();
        family.sample_with_suffix("_sum", &[], format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000));
        family.sample_with_suffix("_count", &[], count);
    }

    /// The upper bound of a percentile, in microseconds; `None` without records, or beyond the last bucket.
    pub(crate) fn percentile(&self, percent: u64) -> Option<u64> {
        let wanted = self.count.get().saturating_mul(percent).div_ceil(100);
        let mut sum = 0;
        let reached = |bucket: &AtomicCounter| {
            sum += bucket.get();
            sum >= wanted
        };
        let index = self.buckets.iter().position(reached).filter(|_| wanted > 0)?;
        BUCKETS.get(index).map(|(_, most)| *most)
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

/// Labels of a request.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RequestLabels {
    /// Route pattern, or `other`.
    pub(crate) route: String,
    /// Method, or `other`.
    pub(crate) method: &'static str,
    /// Response status.
    pub(crate) status: u16,
}

/// The server's own metrics.
#[derive(Debug, Default)]
pub(crate) struct ServerMetrics {
    requests: Mutex<BTreeMap<RequestLabels, u64>>,
    /// Time until the response starts.
    pub(crate) request_duration: LatencyHistogram,
    /// Time from queueing an event to a durable decision.
    pub(crate) decision_duration: LatencyHistogram,
    /// Requests refused with status 429.
    pub(crate) overloads: AtomicCounter,
    /// Completed deliveries.
    pub(crate) delivered: AtomicCounter,
    /// Deliveries that will be retried.
    pub(crate) delivery_retries: AtomicCounter,
    /// Deliveries that were given up.
    pub(crate) dead_deliveries: AtomicCounter,
    /// Spans accepted by the collector.
    pub(crate) spans_sent: AtomicCounter,
    /// Spans rejected by the collector.
    pub(crate) spans_refused: AtomicCounter,
    /// Spans whose export failed and is retried.
    pub(crate) span_retries: AtomicCounter,
}

impl ServerMetrics {
    /// Records a request.
    pub(crate) fn record_request(&self, labels: RequestLabels, took: Duration) {
        if labels.status == 429 {
            self.overloads.add(1);
        }
        self.request_duration.record(took);
        let mut requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        *requests.entry(labels).or_default() += 1;
    }

    /// Requests by route, method and status.
    pub(super) fn requests(&self) -> BTreeMap<RequestLabels, u64> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

//! The counters in the Prometheus text format, and as lists where JSON has no compound keys.

use super::{Metrics, TripKind};
use serde::Serialize;
use serde::ser::{SerializeSeq, Serializer};
use std::collections::BTreeMap;
use std::fmt::{Display, Write};

/// A trip and its count, flattened.
#[derive(Serialize)]
struct TripCount<'a> {
    #[serde(flatten)]
    kind: &'a TripKind,
    count: u64,
}

/// Serializes trips as a list of objects.
pub(super) fn serialize_trips<S: Serializer>(
    trips: &BTreeMap<TripKind, u64>,
    to: S,
) -> Result<S::Ok, S::Error> {
    let mut list = to.serialize_seq(Some(trips.len()))?;
    for (kind, count) in trips {
        list.serialize_element(&TripCount { kind, count: *count })?;
    }
    list.end()
}

/// The lines of one metric family in the Prometheus text format; every name starts with `flyball_`.
#[derive(Debug)]
pub struct MetricFamily<'a> {
    text: &'a mut String,
    name: &'a str,
}

impl<'a> MetricFamily<'a> {
    /// Starts a family, given its name without prefix, its type (`counter`, `gauge` or `histogram`) and its help text.
    pub fn begin(text: &'a mut String, name: &'a str, kind: &str, help: &str) -> Self {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "# HELP flyball_{name} {help}\n# TYPE flyball_{name} {kind}");
        MetricFamily { text, name }
    }

    /// Writes one sample.
    pub fn sample(&mut self, labels: &[(&str, &str)], value: impl Display) {
        self.sample_with_suffix("", labels, value);
    }

    /// Writes one sample with a suffix: `_bucket`, `_sum` or `_count` of a histogram.
    pub fn sample_with_suffix(&mut self, suffix: &str, labels: &[(&str, &str)], value: impl Display) {
        let labels: Vec<String> =
            labels.iter().map(|(key, value)| format!("{key}=\"{}\"", escape_label(value))).collect();
        let labels = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
        let _ = writeln!(self.text, "flyball_{}{suffix}{labels} {value}", self.name);
    }
}

fn escape_label(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

impl Metrics {
    /// The counters in the Prometheus text format.
    #[must_use]
    pub fn to_prometheus(&self) -> String {
        let mut text = String::new();
        for (name, value, help) in self.simple_counters() {
            MetricFamily::begin(&mut text, name, "counter", help).sample(&[], value);
        }
        let mut family =
            MetricFamily::begin(&mut text, "decisions_total", "counter", "Decisions by verdict.");
        self.decisions.iter().for_each(|(verdict, count)| family.sample(&[("decision", verdict)], count));
        let mut family =
            MetricFamily::begin(&mut text, "trips_total", "counter", "Trips by guard, reason and severity.");
        for (kind, count) in &self.trips {
            let labels = [("guard", &*kind.guard), ("reason", &*kind.reason), ("severity", kind.severity)];
            family.sample(&labels, count);
        }
        let mut family = MetricFamily::begin(&mut text, "halts_total", "counter", "Halts by coarse reason.");
        self.halts.iter().for_each(|(reason, count)| family.sample(&[("reason", reason)], count));
        let help = "Attempts at operations.";
        let mut family = MetricFamily::begin(&mut text, "operation_attempts_total", "counter", help);
        for (operation, tried) in &self.operations {
            family.sample(&[("operation", operation), ("outcome", "failed")], tried.failed);
            family.sample(&[("operation", operation), ("outcome", "succeeded")], tried.succeeded);
        }
        let help = "Circuit breakers opened after too many failures.";
        let mut family = MetricFamily::begin(&mut text, "breakers_opened_total", "counter", help);
        for (operation, tried) in &self.operations {
            family.sample(&[("operation", operation)], tried.breaker_opened);
        }
        let help = "Plan confirmations by outcome.";
        let mut family = MetricFamily::begin(&mut text, "confirmations_total", "counter", help);
        self.confirmation_counts()
            .iter()
            .for_each(|(outcome, count)| family.sample(&[("outcome", outcome)], count));
        let mut family = MetricFamily::begin(&mut text, "releases_total", "counter", "Releases by guard.");
        self.releases.iter().for_each(|(guard, count)| family.sample(&[("guard", guard)], count));
        let help = "Active sessions by health.";
        let mut family = MetricFamily::begin(&mut text, "sessions", "gauge", help);
        self.sessions_by_health()
            .iter()
            .for_each(|(health, count)| family.sample(&[("health", health.as_str())], count));
        let help = "Active sessions by status.";
        let mut family = MetricFamily::begin(&mut text, "session_states", "gauge", help);
        self.sessions_by_status().iter().for_each(|(state, count)| family.sample(&[("state", state)], count));
        text
    }

    fn confirmation_counts(&self) -> [(&'static str, u64); 7] {
        let all = &self.confirmations;
        [
            ("asked", all.asked),
            ("confirmed", all.confirmed),
            ("rejected", all.rejected),
            ("unclear", all.unclear),
            ("expired", all.expired),
            ("aborted", all.aborted),
            ("replaced", all.replaced),
        ]
    }

    fn simple_counters(&self) -> [(&'static str, String, &'static str); 12] {
        let micros = self.cost_micro_usd;
        let dollars = format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000);
        [
            ("events_total", self.events.to_string(), "Events."),
            (
                "phase_visits_blocked_total",
                self.phase_visits_blocked.to_string(),
                "Blocked visits to a phase.",
            ),
            ("transitions_blocked_total", self.transitions_blocked.to_string(), "Blocked transitions."),
            ("cycles_detected_total", self.cycles_detected.to_string(), "Cycles detected and blocked."),
            ("hitl_triggered_total", self.hitl_triggered.to_string(), "Escalations to a person."),
            (
                "repetitions_blocked_total",
                self.repetitions_blocked.to_string(),
                "Calls blocked because they repeat.",
            ),
            (
                "validation_failures_total",
                self.validation_failures.to_string(),
                "Model responses that failed validation.",
            ),
            ("gate_blocks_total", self.gate_blocks.to_string(), "Completions blocked by a quality gate."),
            ("large_responses_total", self.large_responses.to_string(), "Outputs written to a file."),
            ("input_tokens_total", self.tokens_in.to_string(), "Input tokens."),
            ("output_tokens_total", self.tokens_out.to_string(), "Output tokens."),
            ("cost_dollars_total", dollars, "Model cost in dollars, where prices are known."),
        ]
    }
}

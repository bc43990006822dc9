//! The counts as text: what Prometheus reads, and lists where JSON has no keys of more than one word.

use super::{Metrics, TripKind};
use serde::Serialize;
use serde::ser::{SerializeSeq, Serializer};
use std::collections::BTreeMap;
use std::fmt::{Display, Write};

/// A trip with its count, flat.
#[derive(Serialize)]
struct Counted<'a> {
    #[serde(flatten)]
    kind: &'a TripKind,
    count: u64,
}

/// Trips as a list of objects.
pub(super) fn listed<S: Serializer>(trips: &BTreeMap<TripKind, u64>, to: S) -> Result<S::Ok, S::Error> {
    let mut list = to.serialize_seq(Some(trips.len()))?;
    for (kind, count) in trips {
        list.serialize_element(&Counted { kind, count: *count })?;
    }
    list.end()
}

/// The lines of one family in the text format of Prometheus; every name begins with `flyball_`.
#[derive(Debug)]
pub struct Family<'a> {
    text: &'a mut String,
    name: &'a str,
}

impl<'a> Family<'a> {
    /// Begins a family: its name without the beginning, `counter`, `gauge` or `histogram`, and what it counts.
    pub fn begin(text: &'a mut String, name: &'a str, kind: &str, help: &str) -> Self {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "# HELP flyball_{name} {help}\n# TYPE flyball_{name} {kind}");
        Family { text, name }
    }

    /// One line of it.
    pub fn line(&mut self, labels: &[(&str, &str)], value: impl Display) {
        self.part("", labels, value);
    }

    /// One line of a part of it: `_bucket`, `_sum` or `_count` of a histogram.
    pub fn part(&mut self, suffix: &str, labels: &[(&str, &str)], value: impl Display) {
        let labels: Vec<String> =
            labels.iter().map(|(key, value)| format!("{key}=\"{}\"", escaped(value))).collect();
        let labels = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
        let _ = writeln!(self.text, "flyball_{}{suffix}{labels} {value}", self.name);
    }
}

fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

impl Metrics {
    /// The counts in the text format of Prometheus.
    #[must_use]
    pub fn to_prometheus(&self) -> String {
        let mut text = String::new();
        for (name, value, help) in self.plain() {
            Family::begin(&mut text, name, "counter", help).line(&[], value);
        }
        let mut family = Family::begin(&mut text, "decisions_total", "counter", "Decisions by verdict.");
        self.decisions.iter().for_each(|(verdict, count)| family.line(&[("decision", verdict)], count));
        let mut family = Family::begin(&mut text, "trips_total", "counter", "Findings of guards.");
        for (kind, count) in &self.trips {
            let labels = [("guard", &*kind.guard), ("reason", &*kind.reason), ("severity", kind.severity)];
            family.line(&labels, count);
        }
        let mut family = Family::begin(&mut text, "halts_total", "counter", "Halts by coarse reason.");
        self.halts.iter().for_each(|(reason, count)| family.line(&[("reason", reason)], count));
        let help = "Attempts of operations.";
        let mut family = Family::begin(&mut text, "operation_attempts_total", "counter", help);
        for (operation, tried) in &self.operations {
            family.line(&[("operation", operation), ("outcome", "failed")], tried.failed);
            family.line(&[("operation", operation), ("outcome", "succeeded")], tried.succeeded);
        }
        let help = "Breakers that opened after too many failures.";
        let mut family = Family::begin(&mut text, "breakers_opened_total", "counter", help);
        for (operation, tried) in &self.operations {
            family.line(&[("operation", operation)], tried.breaker_opened);
        }
        let help = "Questions whether a plan may be run.";
        let mut family = Family::begin(&mut text, "confirmations_total", "counter", help);
        self.asked().iter().for_each(|(outcome, count)| family.line(&[("outcome", outcome)], count));
        let mut family = Family::begin(&mut text, "releases_total", "counter", "Releases by guard.");
        self.releases.iter().for_each(|(guard, count)| family.line(&[("guard", guard)], count));
        let help = "Sessions that have not ended, by how they do.";
        let mut family = Family::begin(&mut text, "sessions", "gauge", help);
        self.sessions().iter().for_each(|(health, count)| family.line(&[("health", health.as_str())], count));
        let help = "Sessions that have not ended, by what they are doing.";
        let mut family = Family::begin(&mut text, "session_states", "gauge", help);
        self.states().iter().for_each(|(state, count)| family.line(&[("state", state)], count));
        text
    }

    fn asked(&self) -> [(&'static str, u64); 7] {
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

    fn plain(&self) -> [(&'static str, String, &'static str); 12] {
        let micros = self.cost_micro_usd;
        let dollars = format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000);
        [
            ("events_total", self.events.to_string(), "Events."),
            (
                "phase_visits_blocked_total",
                self.phase_visits_blocked.to_string(),
                "Entries into a phase that were refused.",
            ),
            (
                "transitions_blocked_total",
                self.transitions_blocked.to_string(),
                "Transitions that were refused.",
            ),
            (
                "cycles_detected_total",
                self.cycles_detected.to_string(),
                "Circles that were found and refused.",
            ),
            ("hitl_triggered_total", self.hitl_triggered.to_string(), "How often a person was called."),
            (
                "repetitions_blocked_total",
                self.repetitions_blocked.to_string(),
                "Calls refused because they repeat.",
            ),
            (
                "validation_failures_total",
                self.validation_failures.to_string(),
                "Answers that could not be used.",
            ),
            ("gate_blocks_total", self.gate_blocks.to_string(), "Completions that a quality gate refused."),
            ("large_responses_total", self.large_responses.to_string(), "Outputs that went to a file."),
            ("input_tokens_total", self.tokens_in.to_string(), "Tokens sent to models."),
            ("output_tokens_total", self.tokens_out.to_string(), "Tokens that models wrote."),
            ("cost_dollars_total", dollars, "What models cost, as far as prices are known."),
        ]
    }
}

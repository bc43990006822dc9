//! Fingerprints of the work that an event reports, computed once per event: a node's output, its structured output, the
//! content of a progress signal, a failing set. Guards compare them, and halts carry the most recent ones as evidence.

use crate::backpressure;
use crate::bounded_map::{push_bounded, truncate_bytes};
use crate::event::{Event, EventKind, normalize, normalize_markdown, strip_timestamps, value_fingerprint};
use crate::fingerprint::Fingerprint;
use crate::limits::MAX_EVIDENCE_HASHES;
use crate::rules_version::RulesVersion;
use serde::{Deserialize, Serialize};

/// Fingerprints of the content of one event.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Observation {
    /// Text of a finished turn or a final message, if any.
    pub(crate) output: Option<Fingerprint>,
    /// The accompanying structured output.
    pub(crate) structured: Option<Fingerprint>,
    /// The content of a progress signal.
    pub(crate) content: Option<Fingerprint>,
}

impl Observation {
    /// Computes the fingerprints of an event.
    pub(crate) fn from_event(event: &Event, rules: RulesVersion) -> Self {
        let text_of = |text: &str| (!text.trim().is_empty()).then(|| Fingerprint::of_text(&normalize(text)));
        match &event.kind {
            EventKind::TurnFinished { output, structured, .. } => Observation {
                output: output.as_deref().and_then(text_of),
                structured: structured.as_ref().map(value_fingerprint),
                content: None,
            },
            EventKind::AssistantMessage { text, structured, is_final: true } => Observation {
                output: text_of(text),
                structured: structured.as_ref().map(value_fingerprint),
                content: None,
            },
            EventKind::Progress { signal, content: Some(content), .. } => Observation {
                content: Some(Fingerprint::of_text(&normalize_content(signal, content, rules))),
                ..Observation::default()
            },
            _ => Observation::default(),
        }
    }

    /// Combined fingerprint of text and structured output.
    pub(crate) fn combined(&self) -> Option<Fingerprint> {
        match (self.output, self.structured) {
            (Some(text), Some(data)) => Some(text.combine(data)),
            (text, data) => text.or(data),
        }
    }
}

/// Normalizes a signal's content for comparison. A patch is compared without timestamps only: a change of just a port,
/// a date or an id is a change. Documents are compared without whitespace differences.
fn normalize_content(signal: &str, content: &str, rules: RulesVersion) -> String {
    match signal {
        "diff" if rules > RulesVersion::V1 => strip_timestamps(content),
        "docs" if rules > RulesVersion::V1 => normalize_markdown(&strip_timestamps(content)),
        _ => normalize(content),
    }
}

/// A set of failing tests, independent of the listed order.
pub(crate) fn sorted_failing(failing: &[String]) -> Vec<&str> {
    let mut names: Vec<&str> = failing.iter().map(String::as_str).collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// The most recent fingerprints of the session's work, as evidence for a halt. No decision depends on them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct WorkLog {
    /// Outputs of nodes, or final messages as long as no turn was reported.
    outputs: Vec<Fingerprint>,
    diffs: Vec<Fingerprint>,
    /// Failing sets, or gate failures as long as no failing set was reported.
    failing: Vec<Fingerprint>,
    /// The first failing tests of the last failing set.
    failing_names: Vec<String>,
    turns: bool,
    failing_sets: bool,
}

/// Maximum number of failing test names shown.
const MAX_NAMES: usize = 4;
const MAX_NAME_BYTES: usize = crate::limits::SHOWN_NAME_BYTES;

impl WorkLog {
    /// Records the content of an event.
    pub(crate) fn record(&mut self, event: &Event, seen: &Observation) {
        match &event.kind {
            EventKind::TurnFinished { .. } => {
                if !std::mem::replace(&mut self.turns, true) {
                    self.outputs.clear();
                }
                self.record_output(seen);
            }
            EventKind::AssistantMessage { .. } if !self.turns => self.record_output(seen),
            EventKind::Progress { signal, hash, failing, .. } => {
                if let Some(failing) = failing {
                    if !std::mem::replace(&mut self.failing_sets, true) {
                        self.failing.clear();
                    }
                    let names = sorted_failing(failing);
                    push_bounded(
                        &mut self.failing,
                        Fingerprint::of_text(&names.join("\n")),
                        MAX_EVIDENCE_HASHES,
                    );
                    self.failing_names = names
                        .iter()
                        .take(MAX_NAMES)
                        .map(|name| truncate_bytes(name, MAX_NAME_BYTES).to_owned())
                        .collect();
                }
                let hash = || hash.as_deref().filter(|hash| !hash.is_empty()).map(Fingerprint::of_text);
                if let (Some(diff), "diff") = (seen.content.or_else(hash), signal.as_str()) {
                    push_bounded(&mut self.diffs, diff, MAX_EVIDENCE_HASHES);
                }
            }
            EventKind::GateChecked { checks, .. }
                if !self.failing_sets && checks.iter().any(backpressure::has_failed) =>
            {
                push_bounded(
                    &mut self.failing,
                    backpressure::failure_fingerprint(checks),
                    MAX_EVIDENCE_HASHES,
                );
                let failed = checks.iter().filter(|check| backpressure::has_failed(check)).take(MAX_NAMES);
                self.failing_names =
                    failed.map(|check| truncate_bytes(&check.name, MAX_NAME_BYTES).to_owned()).collect();
            }
            _ => {}
        }
    }

    fn record_output(&mut self, seen: &Observation) {
        if let Some(output) = seen.combined() {
            push_bounded(&mut self.outputs, output, MAX_EVIDENCE_HASHES);
        }
    }

    /// The most recent outputs, oldest first.
    pub(crate) fn outputs(&self) -> &[Fingerprint] {
        &self.outputs
    }

    /// The most recent diff states, oldest first.
    pub(crate) fn diffs(&self) -> &[Fingerprint] {
        &self.diffs
    }

    /// The most recent failing sets, oldest first.
    pub(crate) fn failing(&self) -> &[Fingerprint] {
        &self.failing
    }

    /// The first failing tests of the last failing set.
    pub(crate) fn failing_names(&self) -> &[String] {
        &self.failing_names
    }
}

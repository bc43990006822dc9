//! What an event reports of the work, as fingerprints, worked out once an event: a node's output, its structured output,
//! the content of a progress signal, a failing set. Guards compare them, and halts carry the last of them as evidence.

use crate::backpressure;
use crate::event::{Event, Kind, normalised, normalised_markdown, value_fingerprint, without_timestamps};
use crate::fingerprint::Fingerprint;
use crate::limits::EVIDENCE_HASHES;
use crate::rules_version::RulesVersion;
use crate::window::{cut, keep};
use serde::{Deserialize, Serialize};

/// The fingerprints of what one event reports.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Observation {
    /// The text of a finished turn or a final message, if there is any.
    pub(crate) output: Option<Fingerprint>,
    /// The structured output beside it.
    pub(crate) structured: Option<Fingerprint>,
    /// The content of a progress signal.
    pub(crate) content: Option<Fingerprint>,
}

impl Observation {
    /// What an event reports.
    pub(crate) fn of(event: &Event, rules: RulesVersion) -> Self {
        let text_of = |text: &str| (!text.trim().is_empty()).then(|| Fingerprint::of_text(&normalised(text)));
        match &event.kind {
            Kind::TurnFinished { output, structured, .. } => Observation {
                output: output.as_deref().and_then(text_of),
                structured: structured.as_ref().map(value_fingerprint),
                content: None,
            },
            Kind::AssistantMessage { text, structured, is_final: true } => Observation {
                output: text_of(text),
                structured: structured.as_ref().map(value_fingerprint),
                content: None,
            },
            Kind::Progress { signal, content: Some(content), .. } => Observation {
                content: Some(Fingerprint::of_text(&content_of(signal, content, rules))),
                ..Observation::default()
            },
            _ => Observation::default(),
        }
    }

    /// One fingerprint for all of an output.
    pub(crate) fn whole(&self) -> Option<Fingerprint> {
        match (self.output, self.structured) {
            (Some(text), Some(data)) => Some(text.with(data)),
            (text, data) => text.or(data),
        }
    }
}

/// What counts of a signal's content. A patch is compared without its time stamps and with everything else: one that
/// changes only a port, a date or an id is a change. Documents are compared without differences in white space.
fn content_of(signal: &str, content: &str, rules: RulesVersion) -> String {
    match signal {
        "diff" if rules > RulesVersion::V1 => without_timestamps(content),
        "docs" if rules > RulesVersion::V1 => normalised_markdown(&without_timestamps(content)),
        _ => normalised(content),
    }
}

/// A set of failing tests, in whatever order they are listed.
pub(crate) fn failing_set(failing: &[String]) -> Vec<&str> {
    let mut names: Vec<&str> = failing.iter().map(String::as_str).collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// The last fingerprints of the session's work, for the evidence of a halt. No decision depends on them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct WorkLog {
    /// Outputs of nodes; of final messages as long as no turn was reported.
    outputs: Vec<Fingerprint>,
    diffs: Vec<Fingerprint>,
    /// Failing sets; failures of gates as long as no failing set was reported.
    failing: Vec<Fingerprint>,
    /// The first failing tests of the last failing set.
    failing_names: Vec<String>,
    turns: bool,
    failing_sets: bool,
}

/// How many names of failing tests are shown, and how much of each.
const NAMES: usize = 4;
const NAME_BYTES: usize = crate::limits::SHOWN_NAME_BYTES;

impl WorkLog {
    /// Takes what an event reports.
    pub(crate) fn note(&mut self, event: &Event, seen: &Observation) {
        match &event.kind {
            Kind::TurnFinished { .. } => {
                if !std::mem::replace(&mut self.turns, true) {
                    self.outputs.clear();
                }
                self.output(seen);
            }
            Kind::AssistantMessage { .. } if !self.turns => self.output(seen),
            Kind::Progress { signal, hash, failing, .. } => {
                if let Some(failing) = failing {
                    if !std::mem::replace(&mut self.failing_sets, true) {
                        self.failing.clear();
                    }
                    let names = failing_set(failing);
                    keep(&mut self.failing, Fingerprint::of_text(&names.join("\n")), EVIDENCE_HASHES);
                    self.failing_names =
                        names.iter().take(NAMES).map(|name| cut(name, NAME_BYTES).to_owned()).collect();
                }
                let hash = || hash.as_deref().filter(|hash| !hash.is_empty()).map(Fingerprint::of_text);
                if let (Some(diff), "diff") = (seen.content.or_else(hash), signal.as_str()) {
                    keep(&mut self.diffs, diff, EVIDENCE_HASHES);
                }
            }
            Kind::GateChecked { checks, .. }
                if !self.failing_sets && checks.iter().any(backpressure::failed) =>
            {
                keep(&mut self.failing, backpressure::failure_fingerprint(checks), EVIDENCE_HASHES);
                let failed = checks.iter().filter(|check| backpressure::failed(check)).take(NAMES);
                self.failing_names = failed.map(|check| cut(&check.name, NAME_BYTES).to_owned()).collect();
            }
            _ => {}
        }
    }

    fn output(&mut self, seen: &Observation) {
        if let Some(output) = seen.whole() {
            keep(&mut self.outputs, output, EVIDENCE_HASHES);
        }
    }

    /// The last outputs, oldest first.
    pub(crate) fn outputs(&self) -> &[Fingerprint] {
        &self.outputs
    }

    /// The last states of the diff, oldest first.
    pub(crate) fn diffs(&self) -> &[Fingerprint] {
        &self.diffs
    }

    /// The last failing sets, oldest first.
    pub(crate) fn failing(&self) -> &[Fingerprint] {
        &self.failing
    }

    /// The first failing tests of the last failing set.
    pub(crate) fn failing_names(&self) -> &[String] {
        &self.failing_names
    }
}

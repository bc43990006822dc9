//! `monologue`: repeated or nearly repeated messages, and chanting within one message.
//!
//! Messages are compared as sets of word triples, so a changed name or number does not hide the repetition. Only
//! messages with nothing in between count: a tool call or a user message ends the run.

use super::info::GuardInfo;
use super::info::ScopeKind::Node;
use super::{Guard, GuardContext, TripBuilder, Trips};
use crate::bounded_map::{push_bounded, truncate_bytes};
use crate::decision::{HaltReason, TripSeverity};
use crate::event::EventKind;
use crate::fingerprint::Fingerprint;
use crate::limits::MESSAGE_BYTES;
use crate::policy::settings::StricterDirection::Less;
use crate::policy::settings::{Count, IN_A_ROW_RANGE, PERCENT_RANGE, Word, settings};
use crate::policy::{GuardMode, Limit};
use crate::reasons::Reason;
use crate::rules_version::RulesVersion;
use serde::{Deserialize, Serialize};

/// The declaration of the guard.
pub(super) const INFO: GuardInfo =
    GuardInfo::new(RulesVersion::V1, "The same message again, or repetition within one message.")
        .table(
            "the same or nearly the same message, chanting",
            "warn at 3, block at 6, halt at 9; nearly the same: twice as many",
        )
        .reasons(&[Reason::exhausted("monologue", "The agent repeats itself instead of acting.")])
        .scopes::<MonologuePolicy>(&[Node]);

settings! {
    /// Repeated messages that are identical or nearly identical.
    pub struct MonologuePolicy: "MonologueFile" {
        /// Action when the guard trips.
        mode: GuardMode = GuardMode::Staged => Word;
        /// Consecutive identical or similar messages.
        limit: Limit = Some(3) => Count(IN_A_ROW_RANGE, Less);
        /// Minimum similarity for two messages to count as the same, in percent.
        similarity_percent as "similarity": u64 = 80 => Count(PERCENT_RANGE, Less), in Strict => 80;
        /// Repeats of one passage within one message.
        chant: Limit = Some(4) => Count(IN_A_ROW_RANGE, Less);
    }
}

/// Number of word triples in a message sketch.
const SKETCH_SIZE: usize = 64;
/// Longest detected chant phrase, in words.
const MAX_PHRASE_WORDS: usize = 32;
/// A chant must cover at least this many words and characters.
const MIN_CHANT_WORDS: usize = 24;
const MIN_CHANT_CHARS: usize = 100;
const MAX_EVENTS: usize = 16;

/// The last message and its repetition counts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct MonologueGuard {
    sketch: Vec<Fingerprint>,
    /// Number of nearly identical messages in a row.
    similar_count: u32,
    /// Number of messages with identical words in a row.
    equal_count: u32,
    /// Whether the message has only one or two words.
    is_short: bool,
    events: Vec<u64>,
}

struct HashedWord {
    hash: Fingerprint,
    chars: usize,
    letters: bool,
}

fn hash_words(text: &str) -> Vec<HashedWord> {
    let mut buffer = String::new();
    truncate_bytes(text, MESSAGE_BYTES)
        .split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(|word| {
            buffer.clear();
            buffer.extend(word.chars().flat_map(char::to_lowercase));
            HashedWord {
                hash: Fingerprint::of_text(&buffer),
                chars: word.chars().count(),
                letters: word.chars().any(char::is_alphabetic),
            }
        })
        .collect()
}

/// MinHash sketch: the smallest fingerprints of all word triples. Similar messages have similar sketches.
fn sketch(words: &[HashedWord]) -> Vec<Fingerprint> {
    let mut all: Vec<Fingerprint> = if words.len() < 3 {
        vec![words.iter().fold(Fingerprint::of_text("short"), |all, word| all.combine(word.hash))]
    } else {
        words
            .windows(3)
            .map(|triple| triple.iter().fold(Fingerprint::NONE, |all, word| all.combine(word.hash)))
            .collect()
    };
    all.sort_unstable();
    all.dedup();
    all.truncate(SKETCH_SIZE);
    all
}

/// Estimated percentage of word triples that two messages share.
fn similarity_percent(left: &[Fingerprint], right: &[Fingerprint]) -> u64 {
    let (mut i, mut j, mut both, mut all) = (0, 0, 0_u64, 0_u64);
    while all < SKETCH_SIZE as u64 && (i < left.len() || j < right.len()) {
        match (left.get(i), right.get(j)) {
            (Some(a), Some(b)) if a == b => {
                both += 1;
                i += 1;
                j += 1;
            }
            (Some(a), Some(b)) if a < b => i += 1,
            (Some(_), None) => i += 1,
            _ => j += 1,
        }
        all += 1;
    }
    (both * 100).checked_div(all).unwrap_or(0)
}

/// A repeated phrase within a message: its length in words and its number of repetitions.
fn find_chant(words: &[HashedWord], passes: u64) -> Option<(usize, u64)> {
    (1..=MAX_PHRASE_WORDS.min(words.len() / 2)).find_map(|period| {
        let (mut run, mut best) = (0_usize, (0_usize, 0_usize));
        for at in period..words.len() {
            run = if words[at].hash == words[at - period].hash { run + 1 } else { 0 };
            if run > best.0 {
                best = (run, at);
            }
        }
        let (run, end) = best;
        let span = words.get((end + 1).saturating_sub(run + period)..=end)?;
        let times = (run / period + 1) as u64;
        let long = span.len() >= MIN_CHANT_WORDS
            && span.iter().map(|word| word.chars).sum::<usize>() >= MIN_CHANT_CHARS;
        (times >= passes && long && span.iter().any(|word| word.letters)).then_some((period, times))
    })
}

impl MonologueGuard {
    fn record_message(&mut self, cx: &GuardContext<'_>, text: &str, trips: &mut Trips) {
        let limits = &cx.limits.monologue;
        let words = hash_words(text);
        if words.is_empty() || !limits.mode.is_on() {
            return;
        }
        let sketch = sketch(&words);
        let likeness = similarity_percent(&self.sketch, &sketch);
        let alike = likeness >= limits.similarity_percent.max(1) && self.similar_count > 0;
        self.equal_count =
            if likeness == 100 && self.similar_count > 0 { self.equal_count.saturating_add(1) } else { 1 };
        if alike {
            self.similar_count = self.similar_count.saturating_add(1);
        } else {
            self.similar_count = 1;
            self.events.clear();
        }
        push_bounded(&mut self.events, cx.seq, MAX_EVENTS);
        self.sketch = sketch;
        self.is_short = words.len() < 3;
        self.check_similar_messages(cx, trips);
        if let Some((period, times)) = limits.chant.and_then(|passes| find_chant(&words, passes)) {
            let limit = limits.chant.unwrap_or(0);
            let severity = if times >= limit * 2 { TripSeverity::Block } else { TripSeverity::Warn };
            let draft = TripBuilder::new(
                "monologue",
                "monologue",
                severity,
                cx.rules.wording(
                    format!("one phrase of {period} words stands {times} times in one message"),
                    format!("one phrase of {period} words is repeated {times} times in one message"),
                ),
            )
            .count(times, limit)
            .scope("sign", "chant")
            .events(vec![cx.seq])
            .repeating(period as u64, times, Vec::new())
            .actions(&["try_different_approach", "retry_with_new_provider"])
            .halt_reason(HaltReason::Stalled)
            .feedback("Your message repeats one phrase over and over. Stop and say it once.");
            trips.add(limits.mode, draft);
        }
    }

    /// Trips on repeated messages. Identical words trip at `limit`; near-identical ones may be legitimate rewording and
    /// get twice the limit. A block takes twice as many again, because a message does no harm by itself.
    fn check_similar_messages(&self, cx: &GuardContext<'_>, trips: &mut Trips) {
        let limits = &cx.limits.monologue;
        let Some(limit) = limits.limit else { return };
        // Repeating one or two words ("Observation", "ok") is a weak signal.
        let short = u64::from(self.is_short) + 1;
        let (row, equal) = (u64::from(self.similar_count) / short, u64::from(self.equal_count) / short);
        let (count, what) = if equal >= limit { (equal, "the same") } else { (row / 2, "nearly the same") };
        let severity = if count >= limit * 3 {
            TripSeverity::Halt
        } else if count >= limit * 2 {
            TripSeverity::Block
        } else if count >= limit {
            TripSeverity::Warn
        } else {
            return;
        };
        let times = if equal >= limit { equal } else { row };
        let (message, feedback) = cx.rules.wording(
            (
                format!("{what} message {times} times, with nothing done between"),
                format!(
                    "You have said {what} {times} times and done nothing between. Act, or say what you are waiting for."
                ),
            ),
            (
                format!("{what} message {times} times, with no action in between"),
                format!(
                    "You have sent {what} message {times} times and taken no action in between. Act, or say what you \
                     are waiting for."
                ),
            ),
        );
        let draft = TripBuilder::new("monologue", "monologue", severity, message)
            .count(times, limit)
            .events(self.events.clone())
            .repeating(1, times, self.sketch.iter().take(1).copied().collect())
            .actions(&["try_different_approach", "switch_to_interactive"])
            .halt_reason(HaltReason::Stalled)
            .feedback(feedback);
        trips.add(limits.mode, draft);
    }
}

impl Guard for MonologueGuard {
    fn record(&mut self, cx: &GuardContext<'_>, trips: &mut Trips) {
        match &cx.event.kind {
            EventKind::AssistantMessage { text, .. } => self.record_message(cx, text, trips),
            EventKind::ToolRequested { .. } | EventKind::ToolFinished { .. } => {
                self.similar_count = 0;
                self.equal_count = 0;
            }
            _ => {}
        }
    }

    fn on_user_input(&mut self) {
        *self = MonologueGuard::default();
    }

    fn reset(&mut self) {
        *self = MonologueGuard::default();
    }
}

#[cfg(test)]
#[path = "monologue_tests.rs"]
mod tests;

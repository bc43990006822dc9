//! `monologue`: the same or nearly the same message again and again, and chanting inside one message.
//!
//! Messages are compared as sets of word triples, so that a changed name or number does not hide the repetition.
//! Only messages with nothing between count: a tool that ran or a person who spoke ends the row.

use super::{Cx, Draft, Guard, Trips};
use crate::decision::{HaltReason, Severity};
use crate::event::Kind;
use crate::fingerprint::Fingerprint;
use crate::limits::MESSAGE_BYTES;
use crate::window::{cut, keep};
use serde::{Deserialize, Serialize};

/// How many word triples stand for a message.
const SKETCH: usize = 64;
/// The longest chanted phrase that is looked for, in words.
const PHRASE: usize = 32;
/// A chant must cover at least this many words and characters.
const CHANT_WORDS: usize = 24;
const CHANT_CHARS: usize = 100;
const EVENTS: usize = 16;

/// The last message, and how often it came.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Monologue {
    sketch: Vec<Fingerprint>,
    /// Nearly the same messages in a row.
    row: u32,
    /// Messages with the very same words in a row.
    equal: u32,
    /// The message has one or two words only.
    short: bool,
    events: Vec<u64>,
}

struct Word {
    hash: Fingerprint,
    chars: usize,
    letters: bool,
}

fn words(text: &str) -> Vec<Word> {
    let mut buffer = String::new();
    cut(text, MESSAGE_BYTES)
        .split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(|word| {
            buffer.clear();
            buffer.extend(word.chars().flat_map(char::to_lowercase));
            Word {
                hash: Fingerprint::of_text(&buffer),
                chars: word.chars().count(),
                letters: word.chars().any(char::is_alphabetic),
            }
        })
        .collect()
}

/// The smallest fingerprints of all word triples: equal sets have equal sketches, near sets have near ones.
fn sketch(words: &[Word]) -> Vec<Fingerprint> {
    let mut all: Vec<Fingerprint> = if words.len() < 3 {
        vec![words.iter().fold(Fingerprint::of_text("short"), |all, word| all.with(word.hash))]
    } else {
        words
            .windows(3)
            .map(|triple| triple.iter().fold(Fingerprint::NONE, |all, word| all.with(word.hash)))
            .collect()
    };
    all.sort_unstable();
    all.dedup();
    all.truncate(SKETCH);
    all
}

/// How many percent of the smallest triples of both messages together belong to both.
fn likeness(left: &[Fingerprint], right: &[Fingerprint]) -> u64 {
    let (mut i, mut j, mut both, mut all) = (0, 0, 0_u64, 0_u64);
    while all < SKETCH as u64 && (i < left.len() || j < right.len()) {
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

/// The longest row of one phrase inside a message: its length in words, and how often it stands.
fn chant(words: &[Word], passes: u64) -> Option<(usize, u64)> {
    (1..=PHRASE.min(words.len() / 2)).find_map(|period| {
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
        let long =
            span.len() >= CHANT_WORDS && span.iter().map(|word| word.chars).sum::<usize>() >= CHANT_CHARS;
        (times >= passes && long && span.iter().any(|word| word.letters)).then_some((period, times))
    })
}

impl Monologue {
    fn hear(&mut self, cx: &Cx<'_>, text: &str, trips: &mut Trips) {
        let limits = &cx.limits.monologue;
        let words = words(text);
        if words.is_empty() || !limits.mode.is_on() {
            return;
        }
        let sketch = sketch(&words);
        let likeness = likeness(&self.sketch, &sketch);
        let alike = likeness >= limits.similarity_percent.max(1) && self.row > 0;
        self.equal = if likeness == 100 && self.row > 0 { self.equal.saturating_add(1) } else { 1 };
        if alike {
            self.row = self.row.saturating_add(1);
        } else {
            self.row = 1;
            self.events.clear();
        }
        keep(&mut self.events, cx.seq, EVENTS);
        self.sketch = sketch;
        self.short = words.len() < 3;
        self.judge_row(cx, trips);
        if let Some((period, times)) = limits.chant.and_then(|passes| chant(&words, passes)) {
            let limit = limits.chant.unwrap_or(0);
            let severity = if times >= limit * 2 { Severity::Block } else { Severity::Warn };
            let draft = Draft::new(
                "monologue",
                "monologue",
                severity,
                format!("one phrase of {period} words stands {times} times in one message"),
            )
            .count(times, limit)
            .scope("sign", "chant")
            .events(vec![cx.seq])
            .block(period as u64, times, Vec::new())
            .actions(&["try_different_approach", "retry_with_new_provider"])
            .halts_as(HaltReason::Stalled)
            .feedback("Your message repeats one phrase over and over. Stop and say it once.");
            trips.add(limits.mode, draft);
        }
    }

    /// The very same words are a sign at `limit`; nearly the same ones may be honest rewording, and are given twice
    /// as long. A refusal takes twice as many again, because a sentence does no harm by itself.
    fn judge_row(&self, cx: &Cx<'_>, trips: &mut Trips) {
        let limits = &cx.limits.monologue;
        let Some(limit) = limits.limit else { return };
        // A word or two ("Observation", "ok") says so little that its repetition says little as well.
        let short = u64::from(self.short) + 1;
        let (row, equal) = (u64::from(self.row) / short, u64::from(self.equal) / short);
        let (count, what) = if equal >= limit { (equal, "the same") } else { (row / 2, "nearly the same") };
        let severity = if count >= limit * 3 {
            Severity::Halt
        } else if count >= limit * 2 {
            Severity::Block
        } else if count >= limit {
            Severity::Warn
        } else {
            return;
        };
        let times = if equal >= limit { equal } else { row };
        let draft = Draft::new("monologue", "monologue", severity, format!("{what} message {times} times, with nothing done between"))
            .count(times, limit)
            .events(self.events.clone())
            .block(1, times, self.sketch.iter().take(1).copied().collect())
            .actions(&["try_different_approach", "switch_to_interactive"])
            .halts_as(HaltReason::Stalled)
            .feedback(format!("You have said {what} {times} times and done nothing between. Act, or say what you are waiting for."));
        trips.add(limits.mode, draft);
    }
}

impl Guard for Monologue {
    fn tell(&mut self, cx: &Cx<'_>, trips: &mut Trips) {
        match &cx.event.kind {
            Kind::AssistantMessage { text, .. } => self.hear(cx, text, trips),
            Kind::ToolRequested { .. } | Kind::ToolFinished { .. } => {
                self.row = 0;
                self.equal = 0;
            }
            _ => {}
        }
    }

    fn fresh(&mut self) {
        *self = Monologue::default();
    }

    fn reset(&mut self) {
        *self = Monologue::default();
    }
}

#[cfg(test)]
#[path = "monologue_tests.rs"]
mod tests;

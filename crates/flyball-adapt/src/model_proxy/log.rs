//! What is already recorded of a conversation, and where a request goes on from it.
//!
//! A request brings its whole history again. The log knows each entry by its key, and each place by the chain of all
//! keys up to it, so that only what is new is counted. Three ways fit:
//! the log is the beginning of the history (the usual case); it is, but for its last answer (the client asked again);
//! its end stands somewhere in the history (the client has shortened what came before).

use super::entry::Entry;
use flyball::Fingerprint;

/// How many entries at the end of the log are looked for in a shortened history; at least two of them must be there,
/// unless the last one is like no other.
const TAIL: usize = 4;

/// An entry that is recorded.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Known {
    /// What it is known by; none if it was there before we were, or is pruned.
    pub(super) key: Fingerprint,
    /// All keys up to it.
    pub(super) chain: Fingerprint,
    /// The model said it.
    pub(super) answer: bool,
    /// It is an answer with calls that have ids, so there is no other like it.
    pub(super) alone: bool,
    /// What the guards had to say about it.
    pub(super) notes: Vec<Note>,
}

/// What a guard had to say, for the model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Note {
    /// The call was refused, though it had been made already.
    pub(super) refused: bool,
    /// The words, from the core's templates.
    pub(super) text: String,
}

/// Where a request goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Fit {
    /// How much of the log stays.
    pub(super) keep: usize,
    /// The first entry of the request that is new.
    pub(super) new: usize,
    /// The answer that was given before is asked for again.
    pub(super) retry: bool,
}

/// The entries of one conversation, in order.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Log {
    entries: Vec<Known>,
}

/// The chains of a history, one an entry.
pub(super) fn chains(entries: &[Entry]) -> Vec<(Fingerprint, Fingerprint)> {
    let mut chain = Fingerprint::NONE;
    let link = |entry: &Entry| {
        let key = entry.key();
        chain = chain.with(key);
        (key, chain)
    };
    entries.iter().map(link).collect()
}

impl Log {
    /// How many entries there are.
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Puts an entry at a place. What stood there or after it was not gone on with; what is missing before it was
    /// there before we were.
    pub(super) fn put(&mut self, at: usize, known: Known) {
        self.entries.truncate(at);
        let hole = Known {
            key: Fingerprint::NONE,
            chain: Fingerprint::NONE,
            answer: false,
            alone: false,
            notes: Vec::new(),
        };
        self.entries.resize(at, hole);
        self.entries.push(known);
    }

    /// The entry at a place.
    pub(super) fn get(&self, at: usize) -> Option<&Known> {
        self.entries.get(at)
    }

    /// Adds what was said about an entry.
    pub(super) fn note(&mut self, at: usize, note: Note) {
        if let Some(known) = self.entries.get_mut(at)
            && !known.notes.contains(&note)
        {
            known.notes.push(note);
        }
    }

    /// The chain at the end of the first `len` entries.
    pub(super) fn chain(&self, len: usize) -> Fingerprint {
        len.checked_sub(1).and_then(|at| self.entries.get(at)).map_or(Fingerprint::NONE, |known| known.chain)
    }

    /// What was said about the last answer and everything after it.
    pub(super) fn notes(&self) -> impl Iterator<Item = &Note> {
        let last = self.entries.iter().rposition(|known| known.answer).unwrap_or(0);
        self.entries.iter().skip(last).flat_map(|known| &known.notes)
    }

    /// Where a history goes on from here, if it is this conversation's.
    pub(super) fn fit(&self, history: &[(Fingerprint, Fingerprint)]) -> Option<Fit> {
        let len = self.entries.len();
        let asked = len - usize::from(self.entries.last().is_some_and(|known| known.answer));
        for keep in [len, asked] {
            let chain = keep.checked_sub(1).and_then(|at| history.get(at)).map(|(_, chain)| *chain);
            if keep > 0 && chain == Some(self.chain(keep)) {
                return Some(Fit { keep, new: keep, retry: keep < len && history.len() == keep });
            }
        }
        self.fit_end(history, len).or_else(|| self.fit_end(history, asked))
    }

    /// The last entries of the log stand in the history: what follows on them is new.
    fn fit_end(&self, history: &[(Fingerprint, Fingerprint)], keep: usize) -> Option<Fit> {
        (1..=TAIL).rev().find_map(|size| {
            let tail = self.entries.get(keep.checked_sub(size)?..keep)?;
            if size == 1 && !tail.iter().all(|known| known.alone) {
                return None;
            }
            let same = |window: &[(Fingerprint, Fingerprint)]| {
                window.iter().zip(tail).all(|((key, _), known)| *key == known.key)
            };
            let new = history.windows(size).rposition(same)? + size;
            Some(Fit { keep, new, retry: keep < self.entries.len() && new == history.len() })
        })
    }

    /// Where entries go on that the provider keeps the history of: after `keep` entries, or, if they are recorded
    /// already, after those.
    pub(super) fn fit_after(&self, history: &[(Fingerprint, Fingerprint)], keep: usize) -> Fit {
        let mut new = 0;
        while let (Some((key, _)), Some(known)) = (history.get(new), self.entries.get(keep + new)) {
            if *key != known.key {
                break;
            }
            new += 1;
        }
        let keep = keep + new;
        Fit {
            keep,
            new,
            retry: new == history.len() && self.entries.get(keep).is_some_and(|known| known.answer),
        }
    }

    /// As [`Log::fit_after`], at the end of the log, wherever that is: if the entries stand there already, but for an
    /// answer, they are asked again.
    pub(super) fn fit_kept(&self, history: &[(Fingerprint, Fingerprint)]) -> Fit {
        let len = self.entries.len();
        let asked = len - usize::from(self.entries.last().is_some_and(|known| known.answer));
        let before = asked.checked_sub(history.len());
        match before.map(|before| self.fit_after(history, before)) {
            Some(fit) if fit.new == history.len() && !history.is_empty() => fit,
            _ => Fit { keep: len, new: 0, retry: false },
        }
    }
}

#[cfg(test)]
#[path = "log_tests.rs"]
mod tests;

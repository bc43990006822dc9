//! The recorded entries of a conversation, and how a request continues them.
//!
//! A request contains the whole history again. The log identifies each entry by its key and each position by the chain
//! of all keys up to it, so that only new entries are recorded. A request matches in three ways: the log is a prefix of
//! the history (the usual case); it is a prefix except for its last answer (a retry); or the end of the log occurs
//! inside the history (the client compacted the earlier part).

use super::entry::ConversationEntry;
use flyball::Fingerprint;

/// Number of entries at the end of the log that are searched for in a compacted history. At least two must match,
/// unless the last one is unique.
const MAX_TAIL: usize = 4;

/// A recorded entry.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct LoggedEntry {
    /// The key; [`Fingerprint::NONE`] if the entry was sent before recording started or was pruned.
    pub(super) key: Fingerprint,
    /// Chained fingerprint of all keys up to this entry.
    pub(super) chain: Fingerprint,
    /// Whether it is an answer of the model.
    pub(super) is_answer: bool,
    /// Whether it is an answer with call ids, which make it unique.
    pub(super) is_unique: bool,
    /// Guard notes about this entry.
    pub(super) notes: Vec<GuardNote>,
}

/// A guard's note for the model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct GuardNote {
    /// Whether the call was denied after it had already run.
    pub(super) blocked: bool,
    /// The feedback text from the core's templates.
    pub(super) text: String,
}

/// The position at which a request continues the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LogMatch {
    /// Number of log entries to keep.
    pub(super) keep: usize,
    /// Index of the request's first new entry.
    pub(super) new: usize,
    /// Whether the previous answer is requested again.
    pub(super) retry: bool,
}

/// The entries of one conversation, in order.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct ConversationLog {
    entries: Vec<LoggedEntry>,
}

/// The key and chain of each entry of a history.
pub(super) fn entry_chains(entries: &[ConversationEntry]) -> Vec<(Fingerprint, Fingerprint)> {
    let mut chain = Fingerprint::NONE;
    let link = |entry: &ConversationEntry| {
        let key = entry.key();
        chain = chain.combine(key);
        (key, chain)
    };
    entries.iter().map(link).collect()
}

impl ConversationLog {
    /// Number of entries.
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Sets the entry at a position. Existing entries from there on are dropped, because they were not continued;
    /// missing ones before it were sent before recording started.
    pub(super) fn set(&mut self, at: usize, known: LoggedEntry) {
        self.entries.truncate(at);
        let hole = LoggedEntry {
            key: Fingerprint::NONE,
            chain: Fingerprint::NONE,
            is_answer: false,
            is_unique: false,
            notes: Vec::new(),
        };
        self.entries.resize(at, hole);
        self.entries.push(known);
    }

    /// The entry at a position.
    pub(super) fn get(&self, at: usize) -> Option<&LoggedEntry> {
        self.entries.get(at)
    }

    /// Adds a note to an entry.
    pub(super) fn add_note(&mut self, at: usize, note: GuardNote) {
        if let Some(known) = self.entries.get_mut(at)
            && !known.notes.contains(&note)
        {
            known.notes.push(note);
        }
    }

    /// The chain after the first `len` entries.
    pub(super) fn chain(&self, len: usize) -> Fingerprint {
        len.checked_sub(1).and_then(|at| self.entries.get(at)).map_or(Fingerprint::NONE, |known| known.chain)
    }

    /// The notes about the last answer and everything after it.
    pub(super) fn notes(&self) -> impl Iterator<Item = &GuardNote> {
        let last = self.entries.iter().rposition(|known| known.is_answer).unwrap_or(0);
        self.entries.iter().skip(last).flat_map(|known| &known.notes)
    }

    /// The position at which a history continues this log; `None` if it belongs to another conversation.
    pub(super) fn match_history(&self, history: &[(Fingerprint, Fingerprint)]) -> Option<LogMatch> {
        let len = self.entries.len();
        let asked = len - usize::from(self.entries.last().is_some_and(|known| known.is_answer));
        for keep in [len, asked] {
            let chain = keep.checked_sub(1).and_then(|at| history.get(at)).map(|(_, chain)| *chain);
            if keep > 0 && chain == Some(self.chain(keep)) {
                return Some(LogMatch { keep, new: keep, retry: keep < len && history.len() == keep });
            }
        }
        self.match_tail(history, len).or_else(|| self.match_tail(history, asked))
    }

    /// Matches the last log entries inside the history; everything after them is new.
    fn match_tail(&self, history: &[(Fingerprint, Fingerprint)], keep: usize) -> Option<LogMatch> {
        (1..=MAX_TAIL).rev().find_map(|size| {
            let tail = self.entries.get(keep.checked_sub(size)?..keep)?;
            if size == 1 && !tail.iter().all(|known| known.is_unique) {
                return None;
            }
            let same = |window: &[(Fingerprint, Fingerprint)]| {
                window.iter().zip(tail).all(|((key, _), known)| *key == known.key)
            };
            let new = history.windows(size).rposition(same)? + size;
            Some(LogMatch { keep, new, retry: keep < self.entries.len() && new == history.len() })
        })
    }

    /// The match for a provider-stored history: after `keep` entries, or after those of `history` that are already
    /// recorded.
    pub(super) fn match_after(&self, history: &[(Fingerprint, Fingerprint)], keep: usize) -> LogMatch {
        let mut new = 0;
        while let (Some((key, _)), Some(known)) = (history.get(new), self.entries.get(keep + new)) {
            if *key != known.key {
                break;
            }
            new += 1;
        }
        let keep = keep + new;
        LogMatch {
            keep,
            new,
            retry: new == history.len() && self.entries.get(keep).is_some_and(|known| known.is_answer),
        }
    }

    /// Like [`ConversationLog::match_after`] at the end of the log. If the entries are already there, except for an
    /// answer, it is a retry.
    pub(super) fn match_kept(&self, history: &[(Fingerprint, Fingerprint)]) -> LogMatch {
        let len = self.entries.len();
        let asked = len - usize::from(self.entries.last().is_some_and(|known| known.is_answer));
        let before = asked.checked_sub(history.len());
        match before.map(|before| self.match_after(history, before)) {
            Some(fit) if fit.new == history.len() && !history.is_empty() => fit,
            _ => LogMatch { keep: len, new: 0, retry: false },
        }
    }
}

#[cfg(test)]
#[path = "conversation_log_tests.rs"]
mod tests;

//! Which session a request belongs to, and what of its conversation is recorded already.
//!
//! A conversation has a base name: the one it was given, or one made of who asks and how it begins. Histories that go
//! apart under one base (the same task begun again, an earlier message edited, an agent's helpers) are branches, and
//! each branch is a session: `BASE`, `BASE~2`, `BASE~3`. Branches of a name that was given are its children, so that
//! they draw on its budget and stop when it does; those of a made-up name have nothing to do with each other.
//!
//! Everything here can be made again from the journal, so a restart forgets nothing.

use super::dialect::Asked;
use super::entry::Entry;
use super::log::{Fit, Known, Log, Note};
use flyball::{Decision, Fingerprint, Verdict, limits::NAME_BYTES};
use flyball_journal::{Desk, StoreError};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// How many conversations are kept at hand; others are read from the journal again.
const AT_HAND: usize = 2_048;
/// How many of the newest branches of a base are looked at.
const BRANCHES: u64 = 64;
/// How many answers are remembered by the provider's name for them.
const ANSWERS: usize = 65_536;
/// How many events are read from the journal at once.
const PAGE: u64 = 512;
/// How much of the instructions goes into a made-up name.
const SYSTEM_CHARS: usize = 512;

/// What an event of the proxy carries, so that the log can be made again from the journal.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(super) struct Mark {
    /// The place of its entry in the conversation.
    pub(super) at: usize,
    /// What the entry is known by.
    pub(super) key: Fingerprint,
    /// All keys up to it.
    pub(super) chain: Fingerprint,
    /// The model said it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) answer: bool,
    /// It is an answer that there is no other like.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) alone: bool,
}

/// One way that a conversation went.
#[derive(Debug)]
pub(super) struct Branch {
    /// The session.
    pub(super) session: String,
    /// Its number under the base, from 1.
    pub(super) number: u64,
    /// What is recorded of it.
    pub(super) log: Log,
    /// When it was gone on with, counted in requests.
    used: u64,
}

/// All branches under one name.
#[derive(Debug)]
pub(super) struct Base {
    /// The name.
    pub(super) name: String,
    /// The name was given, not made up.
    pub(super) given: bool,
    branches: Vec<Branch>,
    requests: u64,
}

/// A name for a conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Name {
    pub(super) text: String,
    pub(super) given: bool,
}

/// An answer that the provider keeps: where the conversation stood after it.
#[derive(Debug, Clone)]
pub(super) struct Place {
    name: Name,
    number: u64,
    len: usize,
}

/// All conversations.
#[derive(Debug, Default)]
pub(super) struct Book {
    bases: Mutex<BTreeMap<String, Arc<Mutex<Option<Base>>>>>,
    answers: Mutex<BTreeMap<String, Place>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Name {
    /// What a conversation is called: as the header says, as the conversation itself says, or by who asks, how the
    /// instructions begin and what was said first. The credentials go in as a hash of everything together.
    pub(super) fn of(header: Option<&str>, asked: &Asked, credentials: &str) -> Self {
        let given = header.or(asked.name.as_deref()).filter(|name| !name.is_empty());
        if let Some(name) = given {
            return Name { text: shortened(name), given: true };
        }
        let system: String = asked.system.chars().take(SYSTEM_CHARS).collect();
        let first = asked.entries.iter().find_map(|entry| match entry {
            Entry::User { text, .. } => Some(text.as_str()),
            _ => None,
        });
        let begun = asked.previous.as_deref().or(first).unwrap_or_default();
        let mut hasher = blake3::Hasher::new();
        for part in [credentials, &asked.user, &flyball::normalised(&system), begun] {
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part.as_bytes());
        }
        let digest = hasher.finalize().to_hex();
        Name { text: format!("proxy-{}", digest.as_str().get(..16).unwrap_or_default()), given: false }
    }
}

/// A name that fits a session's, with room for the number of a branch.
fn shortened(name: &str) -> String {
    let most = NAME_BYTES - 24;
    if name.len() <= most {
        return name.to_owned();
    }
    let digest = blake3::hash(name.as_bytes()).to_hex();
    let cut = (0..=most - 40).rev().find(|at| name.is_char_boundary(*at)).unwrap_or(0);
    format!("{}-{}", name.get(..cut).unwrap_or_default(), digest.as_str().get(..32).unwrap_or_default())
}

impl Book {
    /// Where the answer that a request goes on from was given, if that is known.
    pub(super) fn place(&self, answer: &str) -> Option<Place> {
        lock(&self.answers).get(answer).cloned()
    }

    /// Remembers where an answer was given.
    pub(super) fn remember(&self, answer: &str, name: Name, number: u64, len: usize) {
        let mut answers = lock(&self.answers);
        if answers.len() >= ANSWERS {
            answers.pop_first();
        }
        answers.insert(answer.to_owned(), Place { name, number, len });
    }

    /// Works on the branches of a name; nobody else does at the same time.
    pub(super) fn with<T>(
        &self,
        desk: &dyn Desk,
        name: &Name,
        work: impl FnOnce(&mut Base) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let slot = {
            let mut bases = lock(&self.bases);
            if bases.len() >= AT_HAND && !bases.contains_key(&name.text) {
                // Nobody loses anything: what is not at hand is read again.
                bases.retain(|_, slot| Arc::strong_count(slot) > 1);
            }
            Arc::clone(bases.entry(name.text.clone()).or_default())
        };
        let mut slot = lock(&slot);
        let mut base = match slot.take() {
            Some(base) => base,
            None => Base::read(desk, name)?,
        };
        let done = work(&mut base);
        if done.is_ok() {
            *slot = Some(base);
        }
        done
    }
}

impl Place {
    /// The name of its conversation.
    pub(super) fn name(&self) -> &Name {
        &self.name
    }
}

impl Base {
    /// The branch that a history goes on from, and where; a new branch if it goes on from none.
    pub(super) fn find(
        &mut self,
        history: &[(Fingerprint, Fingerprint)],
        kept: Option<&Place>,
        alone: bool,
    ) -> (usize, Option<Fit>) {
        self.requests += 1;
        let mut best: Option<(usize, Fit)> = None;
        for (at, branch) in self.branches.iter().enumerate() {
            let fit = match kept {
                Some(place) if place.number == branch.number => {
                    Some(branch.log.fit_after(history, place.len))
                }
                Some(_) => None,
                // The provider keeps the history under the conversation's own name: there is one way only.
                None if alone => Some(branch.log.fit_kept(history)),
                None => branch.log.fit(history),
            };
            let Some(fit) = fit else { continue };
            let rank = |branch: &Branch, fit: &Fit| (!fit.retry, fit.keep, branch.used);
            let better =
                best.and_then(|(at, best)| Some(rank(branch, &fit) > rank(self.branches.get(at)?, &best)));
            if better != Some(false) {
                best = Some((at, fit));
            }
        }
        let found = match best {
            Some((at, fit)) => (at, Some(fit)),
            None => (self.begin(), None),
        };
        if let Some(branch) = self.branches.get_mut(found.0) {
            branch.used = self.requests;
        }
        found
    }

    /// A new branch; a session of this name that has nothing of the proxy's yet is taken.
    fn begin(&mut self) -> usize {
        if let Some(at) = self.branches.iter().position(|branch| branch.log.len() == 0) {
            return at;
        }
        let number = self.branches.iter().map(|branch| branch.number).max().unwrap_or(0) + 1;
        self.branches.push(Branch {
            session: branch_name(&self.name, number),
            number,
            log: Log::default(),
            used: 0,
        });
        self.branches.len() - 1
    }

    /// A branch by its place.
    pub(super) fn branch(&mut self, at: usize) -> Option<&mut Branch> {
        self.branches.get_mut(at)
    }

    /// A branch by its number.
    pub(super) fn numbered(&mut self, number: u64) -> Option<&mut Branch> {
        self.branches.iter_mut().find(|branch| branch.number == number)
    }

    /// Reads what the journal has of a name.
    fn read(desk: &dyn Desk, name: &Name) -> Result<Self, StoreError> {
        let mut base = Base { name: name.text.clone(), given: name.given, branches: Vec::new(), requests: 0 };
        let last = last_branch(desk, &name.text)?;
        for number in last.saturating_sub(BRANCHES - 1).max(1)..=last {
            let session = branch_name(&name.text, number);
            let log = read_log(desk, &session)?;
            base.branches.push(Branch { session, number, log, used: 0 });
        }
        Ok(base)
    }
}

fn branch_name(base: &str, number: u64) -> String {
    if number == 1 { base.to_owned() } else { format!("{base}~{number}") }
}

/// The number of the last branch that the journal has; 0 if there is none. They are numbered without gaps.
fn last_branch(desk: &dyn Desk, base: &str) -> Result<u64, StoreError> {
    let there = |number: u64| Ok::<bool, StoreError>(desk.load(&branch_name(base, number))?.is_some());
    let (mut low, mut high) = (0, 1);
    while there(high)? {
        (low, high) = (high, high * 2);
    }
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if there(middle)? { low = middle } else { high = middle }
    }
    Ok(low)
}

/// The log of a session, from the marks of its events.
fn read_log(desk: &dyn Desk, session: &str) -> Result<Log, StoreError> {
    let mut log = Log::default();
    let last = desk.load(session)?.map_or(0, |loaded| loaded.head.seq);
    let mut from = 1;
    while from <= last {
        for record in desk.records(session, from, (from + PAGE - 1).min(last))? {
            let Ok(event) = serde_json::from_str::<Value>(&record.text) else { continue };
            let mark = event.get("proxy").and_then(|mark| Mark::deserialize(mark).ok());
            let Some(mark) = mark else { continue };
            if log.get(mark.at).is_none_or(|known| known.key != mark.key) {
                log.put(mark.at, mark.known());
            }
            if record.verdict >= Verdict::Warn
                && let Ok(decision) = serde_json::from_str::<Decision>(&record.decision)
                && let Some(note) = Note::of(&decision)
            {
                log.note(mark.at, note);
            }
        }
        from += PAGE;
    }
    Ok(log)
}

impl Mark {
    /// The entry that it marks.
    pub(super) fn known(self) -> Known {
        Known { key: self.key, chain: self.chain, answer: self.answer, alone: self.alone, notes: Vec::new() }
    }
}

impl Note {
    /// What a decision has to say to the model; nothing if it lets everything go on as it is.
    pub(super) fn of(decision: &Decision) -> Option<Self> {
        let text = decision.feedback.clone()?;
        match decision.decision {
            Verdict::Warn => Some(Note { refused: false, text }),
            Verdict::Block => Some(Note { refused: true, text }),
            // A halt is answered by ourselves, and once it is released there is nothing left to say.
            Verdict::Allow | Verdict::Halt => None,
        }
    }
}

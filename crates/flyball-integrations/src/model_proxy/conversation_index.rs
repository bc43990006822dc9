//! Maps a request to its session and finds out which part of the conversation is already recorded.
//!
//! A conversation has a base name: a given name, or a name derived from the client and the first messages. Histories
//! that diverge under one base (the same task started again, an edited message, sub-agents) are branches, and each
//! branch is a session: `BASE`, `BASE~2`, `BASE~3`. Branches of a given name are its children, so they share its budget
//! and stop with it. Branches of a derived name are independent.
//!
//! All of this can be rebuilt from the store, so a restart loses nothing.

use super::conversation_log::{ConversationLog, GuardNote, LogMatch, LoggedEntry};
use super::entry::ConversationEntry;
use super::protocol::ProxyRequest;
use flyball::{Decision, Fingerprint, Verdict, limits::NAME_BYTES};
use flyball_store::{AdminStore, StoreError};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Maximum number of cached conversations; others are reloaded from the store.
const MAX_CACHED_CONVERSATIONS: usize = 2_048;
/// Number of most recent branches of a base that are searched.
const MAX_BRANCHES: u64 = 64;
/// Maximum number of answers remembered by the provider's id.
const MAX_REMEMBERED_ANSWERS: usize = 65_536;
/// Number of events read from the store per page.
const PAGE_EVENTS: u64 = 512;
/// Number of characters of the system prompt that enter a derived name.
const SYSTEM_CHARS: usize = 512;

/// Metadata on each event of the proxy, from which the log is rebuilt.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(super) struct ProxyMark {
    /// The entry's position in the conversation.
    pub(super) at: usize,
    /// The entry's key.
    pub(super) key: Fingerprint,
    /// Chained fingerprint of all keys up to this entry.
    pub(super) chain: Fingerprint,
    /// Whether the entry is an answer of the model.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) answer: bool,
    /// Whether the entry is an answer with unique call ids.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[serde(rename = "alone")]
    pub(super) is_unique: bool,
}

/// A branch of a conversation.
#[derive(Debug)]
pub(super) struct ConversationBranch {
    /// The session name.
    pub(super) session: String,
    /// Its number under the base, starting at 1.
    pub(super) number: u64,
    /// The recorded entries.
    pub(super) log: ConversationLog,
    /// Number of the request that last used it.
    last_used: u64,
}

/// All branches under one name.
#[derive(Debug)]
pub(super) struct BranchSet {
    /// The base name.
    pub(super) name: String,
    /// Whether the name was given and not derived.
    pub(super) is_explicit: bool,
    branches: Vec<ConversationBranch>,
    requests: u64,
}

/// The name of a conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ConversationName {
    pub(super) text: String,
    pub(super) is_explicit: bool,
}

/// The position after an answer that the provider stores.
#[derive(Debug, Clone)]
pub(super) struct AnswerPosition {
    name: ConversationName,
    number: u64,
    len: usize,
}

/// All conversations.
#[derive(Debug, Default)]
pub(super) struct ConversationIndex {
    branch_sets: Mutex<BTreeMap<String, Arc<Mutex<Option<BranchSet>>>>>,
    answers: Mutex<BTreeMap<String, AnswerPosition>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ConversationName {
    /// The name of a request's conversation: from the header, from the request itself, or derived from the credentials,
    /// the start of the system prompt and the first message. Credentials enter only as part of a hash.
    pub(super) fn for_request(header: Option<&str>, request: &ProxyRequest, credentials: &str) -> Self {
        let given = header.or(request.conversation_name.as_deref()).filter(|name| !name.is_empty());
        if let Some(name) = given {
            return ConversationName { text: bounded_name(name), is_explicit: true };
        }
        let system: String = request.system.chars().take(SYSTEM_CHARS).collect();
        let first = request.entries.iter().find_map(|entry| match entry {
            ConversationEntry::User { text, .. } => Some(text.as_str()),
            _ => None,
        });
        let begun = request.previous_answer.as_deref().or(first).unwrap_or_default();
        let mut hasher = blake3::Hasher::new();
        for part in [credentials, &request.user, &flyball::normalize(&system), begun] {
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part.as_bytes());
        }
        let digest = hasher.finalize().to_hex();
        ConversationName {
            text: format!("proxy-{}", digest.as_str().get(..16).unwrap_or_default()),
            is_explicit: false,
        }
    }
}

/// A name bounded to leave space for a branch number.
fn bounded_name(name: &str) -> String {
    let most = NAME_BYTES - 24;
    if name.len() <= most {
        return name.to_owned();
    }
    let digest = blake3::hash(name.as_bytes()).to_hex();
    let cut = (0..=most - 40).rev().find(|at| name.is_char_boundary(*at)).unwrap_or(0);
    format!("{}-{}", name.get(..cut).unwrap_or_default(), digest.as_str().get(..32).unwrap_or_default())
}

impl ConversationIndex {
    /// The position of the answer that a request continues from, if known.
    pub(super) fn answer_position(&self, answer: &str) -> Option<AnswerPosition> {
        lock(&self.answers).get(answer).cloned()
    }

    /// Remembers the position of an answer.
    pub(super) fn remember_answer(&self, answer: &str, name: ConversationName, number: u64, len: usize) {
        let mut answers = lock(&self.answers);
        if answers.len() >= MAX_REMEMBERED_ANSWERS {
            answers.pop_first();
        }
        answers.insert(answer.to_owned(), AnswerPosition { name, number, len });
    }

    /// Runs a function with exclusive access to the branches of a name.
    pub(super) fn with_branches<T>(
        &self,
        store: &dyn AdminStore,
        name: &ConversationName,
        work: impl FnOnce(&mut BranchSet) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let slot = {
            let mut bases = lock(&self.branch_sets);
            if bases.len() >= MAX_CACHED_CONVERSATIONS && !bases.contains_key(&name.text) {
                // Evicting loses nothing; the conversation is reloaded from the store.
                bases.retain(|_, slot| Arc::strong_count(slot) > 1);
            }
            Arc::clone(bases.entry(name.text.clone()).or_default())
        };
        let mut slot = lock(&slot);
        let mut base = match slot.take() {
            Some(base) => base,
            None => BranchSet::load(store, name)?,
        };
        let done = work(&mut base);
        if done.is_ok() {
            *slot = Some(base);
        }
        done
    }
}

impl AnswerPosition {
    /// The conversation's name.
    pub(super) fn name(&self) -> &ConversationName {
        &self.name
    }
}

impl BranchSet {
    /// The branch that a history continues, and where; a new branch if none matches.
    pub(super) fn find_branch(
        &mut self,
        history: &[(Fingerprint, Fingerprint)],
        kept: Option<&AnswerPosition>,
        alone: bool,
    ) -> (usize, Option<LogMatch>) {
        self.requests += 1;
        let mut best: Option<(usize, LogMatch)> = None;
        for (at, branch) in self.branches.iter().enumerate() {
            let fit = match kept {
                Some(place) if place.number == branch.number => {
                    Some(branch.log.match_after(history, place.len))
                }
                Some(_) => None,
                // The provider stores the history under the conversation's name, so there is only one branch.
                None if alone => Some(branch.log.match_kept(history)),
                None => branch.log.match_history(history),
            };
            let Some(fit) = fit else { continue };
            let rank = |branch: &ConversationBranch, fit: &LogMatch| (!fit.retry, fit.keep, branch.last_used);
            let better =
                best.and_then(|(at, best)| Some(rank(branch, &fit) > rank(self.branches.get(at)?, &best)));
            if better != Some(false) {
                best = Some((at, fit));
            }
        }
        let found = match best {
            Some((at, fit)) => (at, Some(fit)),
            None => (self.new_branch(), None),
        };
        if let Some(branch) = self.branches.get_mut(found.0) {
            branch.last_used = self.requests;
        }
        found
    }

    /// Adds a branch; reuses an existing session of that name if the proxy has recorded nothing in it.
    fn new_branch(&mut self) -> usize {
        if let Some(at) = self.branches.iter().position(|branch| branch.log.len() == 0) {
            return at;
        }
        let number = self.branches.iter().map(|branch| branch.number).max().unwrap_or(0) + 1;
        self.branches.push(ConversationBranch {
            session: branch_name(&self.name, number),
            number,
            log: ConversationLog::default(),
            last_used: 0,
        });
        self.branches.len() - 1
    }

    /// A branch by index.
    pub(super) fn branch(&mut self, at: usize) -> Option<&mut ConversationBranch> {
        self.branches.get_mut(at)
    }

    /// A branch by number.
    pub(super) fn branch_by_number(&mut self, number: u64) -> Option<&mut ConversationBranch> {
        self.branches.iter_mut().find(|branch| branch.number == number)
    }

    /// Loads the branches of a name from the store.
    fn load(store: &dyn AdminStore, name: &ConversationName) -> Result<Self, StoreError> {
        let mut base = BranchSet {
            name: name.text.clone(),
            is_explicit: name.is_explicit,
            branches: Vec::new(),
            requests: 0,
        };
        let last = last_branch(store, &name.text)?;
        for number in last.saturating_sub(MAX_BRANCHES - 1).max(1)..=last {
            let session = branch_name(&name.text, number);
            let log = load_log(store, &session)?;
            base.branches.push(ConversationBranch { session, number, log, last_used: 0 });
        }
        Ok(base)
    }
}

fn branch_name(base: &str, number: u64) -> String {
    if number == 1 { base.to_owned() } else { format!("{base}~{number}") }
}

/// The number of the last stored branch; 0 if there is none. Branch numbers have no gaps.
fn last_branch(store: &dyn AdminStore, base: &str) -> Result<u64, StoreError> {
    let there = |number: u64| Ok::<bool, StoreError>(store.load(&branch_name(base, number))?.is_some());
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

/// Rebuilds the log of a session from the marks of its events.
fn load_log(store: &dyn AdminStore, session: &str) -> Result<ConversationLog, StoreError> {
    let mut log = ConversationLog::default();
    let last = store.load(session)?.map_or(0, |loaded| loaded.head.seq);
    let mut from = 1;
    while from <= last {
        for record in store.records(session, from, (from + PAGE_EVENTS - 1).min(last))? {
            let Ok(event) = serde_json::from_str::<Value>(&record.text) else { continue };
            let mark = event.get("proxy").and_then(|mark| ProxyMark::deserialize(mark).ok());
            let Some(mark) = mark else { continue };
            if log.get(mark.at).is_none_or(|known| known.key != mark.key) {
                log.set(mark.at, mark.to_logged_entry());
            }
            if record.verdict >= Verdict::Warn
                && let Ok(decision) = serde_json::from_str::<Decision>(&record.decision_json)
                && let Some(note) = GuardNote::from_decision(&decision)
            {
                log.add_note(mark.at, note);
            }
        }
        from += PAGE_EVENTS;
    }
    Ok(log)
}

impl ProxyMark {
    /// The log entry for this mark.
    pub(super) fn to_logged_entry(self) -> LoggedEntry {
        LoggedEntry {
            key: self.key,
            chain: self.chain,
            is_answer: self.answer,
            is_unique: self.is_unique,
            notes: Vec::new(),
        }
    }
}

impl GuardNote {
    /// The note for the model in a decision, if any.
    pub(super) fn from_decision(decision: &Decision) -> Option<Self> {
        let text = decision.feedback.clone()?;
        match decision.decision {
            Verdict::Warn => Some(GuardNote { blocked: false, text }),
            Verdict::Block => Some(GuardNote { blocked: true, text }),
            // A halt is answered by the proxy itself, and after a release no note is needed.
            Verdict::Allow | Verdict::Halt => None,
        }
    }
}

//! One commit for many events: fold them, store them, and answer only what is stored.

use super::cache::Cache;
use super::draft::{Draft, Rules};
use super::{Answer, Recorder, Refusal, lock};
use crate::error::{StoreError, Trouble};
use crate::incoming::Incoming;
use crate::journal::{Appended, Unit};
use crate::payload::shortened;
use crate::probe::Point;
use flyball::limits::{ANSWERS, TREE_DEPTH};
use flyball::{Code, Decision, Error, Event, Kind, Usage};
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::Ordering;

/// How often an event is tried again when its session has moved meanwhile, or the outcome is not known.
const TRIES: usize = 16;

/// What is being put together for one append.
#[derive(Default)]
pub(super) struct Work {
    drafts: BTreeMap<String, Draft>,
    /// The sessions whose handles were looked at.
    reconciled: BTreeSet<String>,
    /// Events that are answered once their session is stored.
    waiting: Vec<Waiting>,
}

struct Waiting {
    index: usize,
    session: String,
    decision: Decision,
    /// The number that tells our own event from somebody else's; none if it was answered before.
    nonce: Option<u64>,
}

/// What folding an event gave.
pub(super) enum Folded {
    /// It is stored already.
    Known(Decision),
    /// It was answered before, in this same batch.
    Again(Decision),
    /// It is new.
    New(Decision, u64),
}

impl Recorder {
    /// Decides upon events and stores them in one transaction, as far as nobody else is quicker.
    pub(super) fn commit(&self, events: Vec<Incoming>) -> Vec<Answer> {
        let mut cache = lock(&self.cache);
        let _turn = match self.journal.turn() {
            Ok(turn) => turn,
            Err(error) => return events.iter().map(|_| Err(Refusal::Store(error.clone()))).collect(),
        };
        let mut answers: Vec<Option<Answer>> = events.iter().map(|_| None).collect();
        let mut open: Vec<usize> = (0..events.len()).collect();
        let mut last = StoreError::new(Trouble::Busy, "others were quicker each time that this was tried");
        for _ in 0..TRIES {
            if open.is_empty() {
                break;
            }
            open = self.attempt(&mut cache, &events, &mut answers, &open, &mut last);
        }
        cache.trim(self.options.hot_sessions);
        answers.into_iter().map(|answer| answer.unwrap_or_else(|| Err(last.clone().into()))).collect()
    }

    /// Tries once; returns the events that must be tried again. What keeps the store from storing is left in `last`.
    fn attempt(
        &self,
        cache: &mut Cache,
        events: &[Incoming],
        answers: &mut [Option<Answer>],
        open: &[usize],
        last: &mut StoreError,
    ) -> Vec<usize> {
        let mut work = Work::default();
        let mut answer = |index: usize, with: Answer| {
            if let Some(place) = answers.get_mut(index) {
                *place = Some(with);
            }
        };
        // What the store refused will be sent again: nothing of its session may overtake it.
        let mut held: BTreeMap<String, StoreError> = BTreeMap::new();
        for &index in open {
            let Some(event) = events.get(index) else { continue };
            let session = event.event.session.clone();
            if let Some(error) = held.get(&session) {
                answer(index, Err(error.clone().into()));
                continue;
            }
            match self.take(cache, &mut work, event) {
                Ok(Folded::Known(decision)) => {
                    answer(index, self.journal.harden().map(|()| decision).map_err(Refusal::Store));
                }
                Ok(Folded::Again(decision)) => {
                    work.waiting.push(Waiting { index, session, decision, nonce: None });
                }
                Ok(Folded::New(decision, nonce)) => {
                    work.waiting.push(Waiting { index, session, decision, nonce: Some(nonce) });
                }
                Err(refusal) => {
                    if let Refusal::Store(error) = &refusal {
                        held.insert(session, error.clone());
                    }
                    answer(index, Err(refusal));
                }
            }
        }
        if work.drafts.is_empty() {
            return Vec::new();
        }
        let names: Vec<String> = work.drafts.keys().cloned().collect();
        let stored = self.units(cache, work.drafts).and_then(|units| {
            self.keep_policy()?;
            self.options.probe.pass(Point::BeforeAppend);
            let outcomes = self.append(&units)?;
            self.options.probe.pass(Point::AfterCommit);
            Ok((units, outcomes))
        });
        match stored {
            Ok((units, outcomes)) => self.settle(cache, units, outcomes, work.waiting, &mut answer),
            Err(error) => {
                // What is in memory was folded further than what is stored.
                names.iter().for_each(|name| cache.forget(name));
                last.clone_from(&error);
                self.lost(&error, work.waiting, &mut answer)
            }
        }
    }

    /// Stores units together. If one of them meets damage they are stored one by one, so that a damaged session keeps
    /// nobody else back.
    fn append(&self, units: &[Unit]) -> Result<Vec<Result<Appended, StoreError>>, StoreError> {
        match self.journal.append(units) {
            Ok(outcomes) => Ok(outcomes.into_iter().map(Ok).collect()),
            Err(error) if error.trouble == Trouble::Corrupt && !error.is_unknown() && units.len() > 1 => {
                let one = |unit: &Unit| {
                    let outcome = self.journal.append(std::slice::from_ref(unit))?;
                    Ok(outcome.first().copied().unwrap_or(Appended::Stale))
                };
                Ok(units.iter().map(one).collect())
            }
            Err(error) => Err(error),
        }
    }

    /// The policy is kept before the first event that is decided under it.
    fn keep_policy(&self) -> Result<(), StoreError> {
        if !self.policy_kept.load(Ordering::Relaxed) {
            self.journal.keep_policy(&self.digest, &self.source.to_json())?;
            self.policy_kept.store(true, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Folds one event into its session.
    fn take(&self, cache: &mut Cache, work: &mut Work, event: &Incoming) -> Result<Folded, Refusal> {
        let name = &event.event.session;
        self.ensure(cache, name)?;
        self.ensure_parents(cache, &event.event)?;
        if work.reconciled.insert(name.clone()) {
            self.reconcile(cache, work, name, event.event.at)?;
        }
        if let Some(id) = &event.event.id
            && let Some(record) = work.drafts.get(name).and_then(|draft| draft.by_id(&id.id))
        {
            // Sent twice in one batch; the session itself remembers only the newest.
            return if record.body == id.body.number() {
                Ok(Folded::Again(whole(&record.decision).ok_or_else(|| unreadable(name))?))
            } else {
                Err(conflict(record.seq).into())
            };
        }
        if let Some(known) = self.known(cache, &event.event)? {
            return Ok(Folded::Known(known));
        }
        self.fold(cache, work, event)
    }

    /// The answer that an id got long ago; recent ones are remembered by the session itself.
    fn known(&self, cache: &mut Cache, event: &Event) -> Result<Option<Decision>, Refusal> {
        let Some(id) = &event.id else { return Ok(None) };
        let long = cache.head(&event.session).is_some_and(|head| head.seq > ANSWERS as u64 / 2);
        if !long {
            return Ok(None);
        }
        let Some(found) = self.journal.find_covered(&event.session, &id.id)? else { return Ok(None) };
        if found.body != id.body.number() {
            return Err(conflict(found.seq).into());
        }
        Ok(Some(found.decision.as_deref().and_then(whole).unwrap_or_else(|| Decision {
            session: event.session.clone(),
            seq: found.seq,
            decision: found.verdict,
            state: found.status,
            ..Decision::default()
        })))
    }

    /// Brings the sessions above one into memory: it draws on their budgets.
    fn ensure_parents(&self, cache: &mut Cache, event: &Event) -> Result<(), Refusal> {
        let named = match &event.kind {
            Kind::SessionStarted { parent, .. } => parent.clone(),
            _ => None,
        };
        let mut next = named.or_else(|| parent_of(cache, &event.session));
        for _ in 0..TREE_DEPTH {
            let Some(parent) = next else { break };
            self.ensure(cache, &parent)?;
            next = parent_of(cache, &parent);
        }
        Ok(())
    }

    /// Puts an event through the governor and into the draft of its session.
    pub(super) fn fold(
        &self,
        cache: &mut Cache,
        work: &mut Work,
        event: &Incoming,
    ) -> Result<Folded, Refusal> {
        let name = event.event.session.as_str();
        let before = cache.sessions.get(name).map_or(0, |session| session.state().seq());
        let above = used_above(cache, name);
        let decision = cache.sessions.step(&event.event)?;
        if decision.seq <= before {
            return self.again(work, name, decision);
        }
        let nonce = RandomState::new().hash_one(decision.seq);
        let errands = self.errands(&decision);
        let text = self.stored_text(event);
        let draft = self.draft(cache, work, name);
        draft.take(event, text, &decision, nonce);
        draft.errands.extend(errands);
        for (parent, used) in above {
            let now = cache.sessions.get(&parent).map(|session| *session.state().used());
            if now.is_some_and(|now| now != used) {
                self.draft(cache, work, &parent).drawn = true;
            }
        }
        Ok(Folded::New(decision, nonce))
    }

    /// What is stored of an event, and whether that is the whole.
    fn stored_text(&self, event: &Incoming) -> (String, bool) {
        let journal = &self.source.base().journal;
        let limit = journal.payload.and_then(|limit| usize::try_from(limit).ok());
        let preview = usize::try_from(journal.preview).unwrap_or(usize::MAX);
        match limit.and_then(|limit| shortened(&event.text, limit, preview)) {
            Some(short) => (short, false),
            None => (event.text.clone(), true),
        }
    }

    /// An event that was answered before gets the very same answer, as it is stored.
    fn again(&self, work: &Work, name: &str, decision: Decision) -> Result<Folded, Refusal> {
        let draft = work.drafts.get(name);
        if let Some(text) = draft.and_then(|draft| draft.answered(decision.seq)) {
            return Ok(Folded::Again(whole(text).unwrap_or(decision)));
        }
        let stored = self.journal.records(name, decision.seq, decision.seq)?.pop();
        let stored = stored.and_then(|record| whole(&record.decision));
        Ok(Folded::Known(stored.unwrap_or(decision)))
    }

    /// The draft of a session, begun if need be.
    pub(super) fn draft<'a>(&self, cache: &mut Cache, work: &'a mut Work, name: &str) -> &'a mut Draft {
        let leased = lock(&self.leases).get(name).copied();
        work.drafts.entry(name.to_owned()).or_insert_with(|| Draft::new(name, cache.head(name), leased))
    }

    /// The drafts as units: sessions of one family are stored together or not at all.
    fn units(&self, cache: &Cache, drafts: BTreeMap<String, Draft>) -> Result<Vec<Unit>, StoreError> {
        let rules = Rules { every: self.options.snapshot_every, digest: &self.digest };
        let mut families: BTreeMap<String, Unit> = BTreeMap::new();
        for (name, draft) in drafts {
            let Some(session) = cache.sessions.get(&name) else { continue };
            let change = draft.finish(session.state(), session.policy(), &rules)?;
            let root = root_of(cache, &name);
            families.entry(root).or_insert_with(|| Unit { changes: Vec::new() }).changes.push(change);
        }
        Ok(families.into_values().collect())
    }

    /// Answers what is stored; returns what must be tried again.
    fn settle(
        &self,
        cache: &mut Cache,
        units: Vec<Unit>,
        outcomes: Vec<Result<Appended, StoreError>>,
        waiting: Vec<Waiting>,
        answer: &mut impl FnMut(usize, Answer),
    ) -> Vec<usize> {
        let mut fate: BTreeMap<String, Result<Appended, StoreError>> = BTreeMap::new();
        for (unit, outcome) in units.into_iter().zip(outcomes) {
            for change in unit.changes {
                fate.insert(change.head.session.clone(), outcome.clone());
                if outcome == Ok(Appended::Done) {
                    cache.moved(change.head);
                } else {
                    cache.forget(&change.head.session);
                }
            }
        }
        let mut again = Vec::new();
        for entry in waiting {
            match fate.get(&entry.session) {
                Some(Ok(Appended::Done)) => answer(entry.index, Ok(entry.decision)),
                Some(Err(error)) => again.extend(self.lost(error, vec![entry], answer)),
                Some(Ok(Appended::Fenced)) if lock(&self.leases).contains_key(&entry.session) => {
                    let what = format!("session '{}' was taken over by another worker", entry.session);
                    answer(entry.index, Err(StoreError::new(Trouble::LeaseLost, what).into()));
                }
                _ => again.push(entry.index),
            }
        }
        again
    }

    /// Nothing was stored, or nobody knows: those who can be found again are answered.
    fn lost(
        &self,
        error: &StoreError,
        waiting: Vec<Waiting>,
        answer: &mut impl FnMut(usize, Answer),
    ) -> Vec<usize> {
        let mut again = Vec::new();
        // As in an attempt: nothing may overtake an event that was refused.
        let mut held: BTreeSet<String> = BTreeSet::new();
        for entry in waiting {
            if !error.is_unknown() {
                answer(entry.index, Err(error.clone().into()));
                continue;
            }
            let seq = entry.decision.seq;
            let read = self.journal.records(&entry.session, seq, seq);
            match read.and_then(|found| self.journal.harden().map(|()| found)) {
                Ok(found) if found.iter().any(|record| Some(record.nonce) == entry.nonce) => {
                    answer(entry.index, Ok(entry.decision));
                }
                Ok(_) if !held.contains(&entry.session) => again.push(entry.index),
                _ => {
                    answer(entry.index, Err(error.clone().unsure().into()));
                    held.insert(entry.session);
                }
            }
        }
        again
    }
}

fn conflict(seq: u64) -> Error {
    Error::new(
        Code::EventConflict,
        format!("this id was used before, by event {seq} of the session, with another body"),
        "give every event an id of its own; send the same body when you send it again",
    )
}

/// A stored decision.
fn whole(text: &str) -> Option<Decision> {
    serde_json::from_str(text).ok()
}

fn unreadable(session: &str) -> StoreError {
    StoreError::corrupt(format!("a decision of session '{session}' cannot be read back"))
}

fn parent_of(cache: &Cache, name: &str) -> Option<String> {
    cache.sessions.get(name)?.state().parent().map(str::to_owned)
}

/// The sessions above one, nearest first, as far as they are known; a ring of parents ends where it closes.
fn above(cache: &Cache, name: &str) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    let mut next = parent_of(cache, name);
    while let Some(parent) = next {
        if parent == name || names.contains(&parent) || names.len() == TREE_DEPTH {
            break;
        }
        next = parent_of(cache, &parent);
        names.push(parent);
    }
    names
}

fn root_of(cache: &Cache, name: &str) -> String {
    above(cache, name).pop().unwrap_or_else(|| name.to_owned())
}

/// What the sessions above one have used so far.
fn used_above(cache: &Cache, name: &str) -> Vec<(String, Usage)> {
    let known = |parent: String| {
        let used = *cache.sessions.get(&parent)?.state().used();
        Some((parent, used))
    };
    above(cache, name).into_iter().filter_map(known).collect()
}

//! Folding an event into its session: is it known, whose budgets does it draw on, what does the governor say?

use super::batch::{Folded, Work};
use super::cache::Cache;
use super::draft::Draft;
use super::{Recorder, Refusal, lock};
use crate::error::StoreError;
use crate::incoming::Incoming;
use crate::payload::shortened;
use flyball::limits::{ANSWERS, TREE_DEPTH};
use flyball::{Code, Decision, Error, Event, Kind, Usage};
use std::hash::{BuildHasher, RandomState};

/// Stands between an id and the number of the refusal after which its event was judged anew.
const AGAIN: char = '\u{1f}';

/// What became of the id of an event.
enum Answered {
    /// It was answered.
    Before(Folded),
    /// It was not; the event is stored under this id.
    Never(Option<String>),
}

/// So many of its last events a session knows by itself: it keeps their ids, and some of them under a call as well.
pub(super) const REMEMBERED: u64 = ANSWERS as u64 / 2;

impl Recorder {
    /// Folds one event into its session.
    pub(super) fn take(
        &self,
        cache: &mut Cache,
        work: &mut Work,
        event: &Incoming,
    ) -> Result<Folded, Refusal> {
        let name = &event.event.session;
        if self.is_elsewhere(work, name) {
            return Ok(Folded::Later);
        }
        self.ensure(cache, name)?;
        if self.ensure_parents(cache, work, &event.event)? {
            return Ok(Folded::Later);
        }
        if let Some(change) = cache.take_policy_event(name) {
            self.inject(cache, work, change, event.event.at)?;
        }
        if has_handles(cache, name) && work.reconciled.insert(name.clone()) {
            self.reconcile(cache, work, name, event.event.at)?;
        }
        match self.answered(cache, work, &event.event)? {
            Answered::Before(folded) => Ok(folded),
            Answered::Never(id) => self.fold(cache, work, event, id),
        }
    }

    /// What the id of an event was answered with, or the id under which the event is stored. An act that was refused is
    /// judged anew after an approval or a release; it is then stored beside the refusal, under an id of its own.
    fn answered(&self, cache: &mut Cache, work: &Work, event: &Event) -> Result<Answered, Refusal> {
        let Some(id) = &event.id else { return Ok(Answered::Never(None)) };
        if id.id.contains(AGAIN) {
            let what = "`id` holds the control character U+001F, which Flyball uses itself";
            return Err(Error::new(Code::WrongType, what, "leave it out of ids").into());
        }
        let mut stored = id.id.clone();
        loop {
            let known = match work.drafts.get(&event.session).and_then(|draft| draft.by_id(&stored)) {
                // Sent twice in one batch; the session itself remembers only the newest.
                Some(record) if record.body == id.body.number() => {
                    let known = whole(&record.decision).ok_or_else(|| unreadable(&event.session))?;
                    Some((known, true))
                }
                Some(record) => return Err(conflict(record.seq).into()),
                None => self.known(cache, event, &stored)?.map(|known| (known, false)),
            };
            let Some((known, in_batch)) = known else { break };
            if cache.sessions.is_judged_anew(event, &known) {
                stored = format!("{}{AGAIN}{}", id.id, known.seq);
                continue;
            }
            let answer = cache.sessions.current_answer(event, known);
            return Ok(Answered::Before(if in_batch {
                Folded::Again(answer)
            } else {
                Folded::Known(answer)
            }));
        }
        if let Some(seq) = cache.sessions.refused_before(event) {
            stored = format!("{}{AGAIN}{seq}", id.id);
        }
        Ok(Answered::Never(Some(stored)))
    }

    /// The answer that an id got long ago; recent ones are remembered by the session itself.
    fn known(&self, cache: &mut Cache, event: &Event, stored: &str) -> Result<Option<Decision>, Refusal> {
        let name = &event.session;
        let Some(id) = &event.id else { return Ok(None) };
        // Counted with the events of this batch: they push others out of the session's memory before they are stored.
        let now = cache.sessions.get(name).map_or(0, |session| session.state().seq());
        if now <= REMEMBERED || cache.is_new(name, stored) {
            return Ok(None);
        }
        let Some(snapshot) = cache.head(name).map(|head| head.snapshot) else { return Ok(None) };
        let found = if now.saturating_sub(snapshot) <= REMEMBERED {
            self.journal.find_covered(name, stored)?
        } else {
            self.journal.find(name, stored)?
        };
        let Some(found) = found else { return Ok(None) };
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

    /// Whether a session is on its way to the store with another batch.
    fn is_elsewhere(&self, work: &Work, name: &str) -> bool {
        !work.drafts.has(name) && self.flights.has(name)
    }

    /// Brings the sessions above one into memory: it draws on their budgets. Says whether one of them is on its way to
    /// the store.
    fn ensure_parents(&self, cache: &mut Cache, work: &Work, event: &Event) -> Result<bool, Refusal> {
        let named = match &event.kind {
            Kind::SessionStarted { parent, .. } => parent.clone(),
            _ => None,
        };
        let mut next = named.or_else(|| parent_of(cache, &event.session));
        for _ in 0..TREE_DEPTH {
            let Some(parent) = next else { break };
            if self.is_elsewhere(work, &parent) {
                return Ok(true);
            }
            self.ensure(cache, &parent)?;
            next = parent_of(cache, &parent);
        }
        Ok(false)
    }

    /// Puts an event through the governor and into the draft of its session, where it is stored under this id.
    pub(super) fn fold(
        &self,
        cache: &mut Cache,
        work: &mut Work,
        event: &Incoming,
        id: Option<String>,
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
        draft.take(event, id.clone(), text, &decision, nonce);
        draft.errands.extend(errands);
        if let Some(id) = &id {
            cache.saw(name, id);
        }
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
            return Ok(Folded::Again(strictest(whole(text), decision)));
        }
        let stored = self.journal.records(name, decision.seq, decision.seq)?.pop();
        let stored = stored.and_then(|record| whole(&record.decision));
        Ok(Folded::Known(strictest(stored, decision)))
    }

    /// The draft of a session, begun if need be. From then on nobody else folds it, until it is stored or forgotten.
    pub(super) fn draft<'a>(&self, cache: &mut Cache, work: &'a mut Work, name: &str) -> &'a mut Draft {
        work.drafts.entry(name, || {
            self.flights.begin(name);
            let leased = lock(&self.leases).get(name).copied();
            Draft::new(name, cache.head(name), leased)
        })
    }
}

/// Whether a session has rows that a person may have taken away.
fn has_handles(cache: &mut Cache, name: &str) -> bool {
    cache.head(name).is_some_and(|head| head.pending.is_some() || head.glance.label.is_some())
}

fn conflict(seq: u64) -> Error {
    Error::new(
        Code::EventConflict,
        format!("this id was used before, by event {seq} of the session, with another body"),
        "give every event an id of its own; send the same body when you send it again",
    )
}

/// The stored decision, unless the session has been halted since it allowed the event.
fn strictest(stored: Option<Decision>, now: Decision) -> Decision {
    match stored {
        Some(stored) if stored.decision >= now.decision => stored,
        _ => now,
    }
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

/// Whether a session has one above it.
pub(super) fn has_parent(cache: &Cache, name: &str) -> bool {
    cache.sessions.get(name).is_some_and(|session| session.state().parent().is_some())
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

pub(super) fn root_of(cache: &Cache, name: &str) -> String {
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

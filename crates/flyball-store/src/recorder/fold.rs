//! Folding an event into its session: deduplication, budget ancestors, and the governor's decision.

use super::change_builder::ChangeBuilder;
use super::commit::{FoldOutcome, PendingCommit};
use super::session_cache::SessionCache;
use super::{RecordError, Recorder, lock};
use crate::error::StoreError;
use crate::payload::truncate_large_texts;
use crate::submission::Submission;
use flyball::limits::{CACHED_DECISIONS, TREE_DEPTH};
use flyball::{Decision, Error, ErrorCode, Event, EventKind, Usage};
use std::hash::{BuildHasher, RandomState};

/// Separates an id from the sequence number of the denial after which the event was evaluated again.
const REJUDGED_ID_SEPARATOR: char = '\u{1f}';

/// Result of an id lookup.
enum IdLookup {
    /// Answered before.
    Known(FoldOutcome),
    /// New; the event is stored under this id.
    New(Option<String>),
}

/// Number of last events whose ids a session remembers itself. Half the cache, because some are also cached by call.
pub(super) const REMEMBERED_EVENTS: u64 = CACHED_DECISIONS as u64 / 2;

impl Recorder {
    /// Folds one event into its session.
    pub(super) fn fold_event(
        &self,
        cache: &mut SessionCache,
        commit: &mut PendingCommit,
        event: &Submission,
    ) -> Result<FoldOutcome, RecordError> {
        let name = &event.event.session;
        if self.is_in_flight_elsewhere(commit, name) {
            return Ok(FoldOutcome::Deferred);
        }
        self.ensure_loaded(cache, name)?;
        if self.ensure_ancestors_loaded(cache, commit, &event.event)? {
            return Ok(FoldOutcome::Deferred);
        }
        if let Some(change) = cache.take_policy_event(name) {
            self.record_event(cache, commit, change, event.event.at)?;
        }
        if has_operator_rows(cache, name) && commit.reconciled.insert(name.clone()) {
            self.reconcile(cache, commit, name, event.event.at)?;
        }
        match self.look_up_id(cache, commit, &event.event)? {
            IdLookup::Known(folded) => Ok(folded),
            IdLookup::New(id) => self.apply_event(cache, commit, event, id),
        }
    }

    /// Finds the answer to an event's id, or the id to store the event under. A denied action is evaluated again
    /// after an approval or a release, and is then stored beside the denial under a different id.
    fn look_up_id(
        &self,
        cache: &mut SessionCache,
        commit: &PendingCommit,
        event: &Event,
    ) -> Result<IdLookup, RecordError> {
        let Some(id) = &event.id else { return Ok(IdLookup::New(None)) };
        if id.id.contains(REJUDGED_ID_SEPARATOR) {
            let what = "`id` contains the control character U+001F, which Flyball reserves";
            return Err(Error::new(ErrorCode::WrongType, what, "remove it from the id").into());
        }
        let mut stored = id.id.clone();
        loop {
            let known = match commit.drafts.get(&event.session).and_then(|draft| draft.find_by_id(&stored)) {
                // A duplicate within the batch. The session itself remembers only the newest event.
                Some(record) if record.body_hash == id.body.number() => {
                    let known = parse_decision(&record.decision_json)
                        .ok_or_else(|| unreadable_decision(&event.session))?;
                    Some((known, true))
                }
                Some(record) => return Err(id_conflict(record.seq).into()),
                None => self.find_stored_decision(cache, event, &stored)?.map(|known| (known, false)),
            };
            let Some((known, in_batch)) = known else { break };
            if cache.sessions.should_reevaluate(event, &known) {
                stored = format!("{}{REJUDGED_ID_SEPARATOR}{}", id.id, known.seq);
                continue;
            }
            let answer = cache.sessions.refresh_cached_decision(event, known);
            return Ok(IdLookup::Known(if in_batch {
                FoldOutcome::RepeatedInBatch(answer)
            } else {
                FoldOutcome::AlreadyStored(answer)
            }));
        }
        if let Some(seq) = cache.sessions.previous_refusal(event) {
            stored = format!("{}{REJUDGED_ID_SEPARATOR}{seq}", id.id);
        }
        Ok(IdLookup::New(Some(stored)))
    }

    /// The stored answer to an old id. The session itself remembers recent ones.
    fn find_stored_decision(
        &self,
        cache: &mut SessionCache,
        event: &Event,
        stored: &str,
    ) -> Result<Option<Decision>, RecordError> {
        let name = &event.session;
        let Some(id) = &event.id else { return Ok(None) };
        // Includes the events of this batch: they evict others from the session's memory before they are stored.
        let now = cache.sessions.get(name).map_or(0, |session| session.state().seq());
        if now <= REMEMBERED_EVENTS || cache.is_new_id(name, stored) {
            return Ok(None);
        }
        let Some(snapshot) = cache.head(name).map(|head| head.snapshot_seq) else { return Ok(None) };
        let found = if now.saturating_sub(snapshot) <= REMEMBERED_EVENTS {
            self.store.find_by_id_in_snapshot(name, stored)?
        } else {
            self.store.find_by_id(name, stored)?
        };
        let Some(found) = found else { return Ok(None) };
        if found.body_hash != id.body.number() {
            return Err(id_conflict(found.seq).into());
        }
        Ok(Some(found.decision_json.as_deref().and_then(parse_decision).unwrap_or_else(|| Decision {
            session: event.session.clone(),
            seq: found.seq,
            decision: found.verdict,
            state: found.status,
            ..Decision::default()
        })))
    }

    /// Whether a session is in flight with another batch.
    fn is_in_flight_elsewhere(&self, commit: &PendingCommit, name: &str) -> bool {
        !commit.drafts.contains(name) && self.in_flight.contains(name)
    }

    /// Loads a session's ancestors, because it draws on their budgets. Returns whether one of them is in flight.
    fn ensure_ancestors_loaded(
        &self,
        cache: &mut SessionCache,
        work: &PendingCommit,
        event: &Event,
    ) -> Result<bool, RecordError> {
        let named = match &event.kind {
            EventKind::SessionStarted { parent, .. } => parent.clone(),
            _ => None,
        };
        let mut next = named.or_else(|| parent_of(cache, &event.session));
        for _ in 0..TREE_DEPTH {
            let Some(parent) = next else { break };
            if self.is_in_flight_elsewhere(work, &parent) {
                return Ok(true);
            }
            self.ensure_loaded(cache, &parent)?;
            next = parent_of(cache, &parent);
        }
        Ok(false)
    }

    /// Evaluates an event and adds it to the change builder of its session, under this id.
    pub(super) fn apply_event(
        &self,
        cache: &mut SessionCache,
        commit: &mut PendingCommit,
        event: &Submission,
        id: Option<String>,
    ) -> Result<FoldOutcome, RecordError> {
        let name = event.event.session.as_str();
        let before = cache.sessions.get(name).map_or(0, |session| session.state().seq());
        let above = ancestor_usage(cache, name);
        let decision = cache.sessions.step(&event.event)?;
        if decision.seq <= before {
            return self.repeat_decision(commit, name, decision);
        }
        let nonce = RandomState::new().hash_one(decision.seq);
        let messages = self.outbox_messages(&decision);
        let text = self.json_to_store(event);
        let draft = self.change_builder(cache, commit, name);
        draft.add_event(event, id.clone(), text, &decision, nonce);
        draft.outbox_messages.extend(messages);
        if let Some(id) = &id {
            cache.add_id(name, id);
        }
        for (parent, used) in above {
            let now = cache.sessions.get(&parent).map(|session| *session.state().usage());
            if now.is_some_and(|now| now != used) {
                self.change_builder(cache, commit, &parent).charged_by_child = true;
            }
        }
        Ok(FoldOutcome::New(decision, nonce))
    }

    /// The JSON to store for an event, and whether it is complete.
    fn json_to_store(&self, event: &Submission) -> (String, bool) {
        let journal = &self.policy_source.base().journal;
        let limit = journal.payload.and_then(|limit| usize::try_from(limit).ok());
        let preview = usize::try_from(journal.preview).unwrap_or(usize::MAX);
        match limit.and_then(|limit| truncate_large_texts(&event.text, limit, preview)) {
            Some(short) => (short, false),
            None => (event.text.clone(), true),
        }
    }

    /// Repeats the stored answer to an event that was answered before.
    fn repeat_decision(
        &self,
        work: &PendingCommit,
        name: &str,
        decision: Decision,
    ) -> Result<FoldOutcome, RecordError> {
        let draft = work.drafts.get(name);
        if let Some(text) = draft.and_then(|draft| draft.decision_json(decision.seq)) {
            return Ok(FoldOutcome::RepeatedInBatch(strictest(parse_decision(text), decision)));
        }
        let stored = self.store.records(name, decision.seq, decision.seq)?.pop();
        let stored = stored.and_then(|record| parse_decision(&record.decision_json));
        Ok(FoldOutcome::AlreadyStored(strictest(stored, decision)))
    }

    /// The change builder of a session, created if missing. Until it is stored or dropped, no other batch folds the
    /// session.
    pub(super) fn change_builder<'a>(
        &self,
        cache: &mut SessionCache,
        work: &'a mut PendingCommit,
        name: &str,
    ) -> &'a mut ChangeBuilder {
        work.drafts.get_or_insert_with(name, || {
            self.in_flight.insert(name);
            let leased = lock(&self.leases).get(name).copied();
            ChangeBuilder::new(name, cache.head(name), leased)
        })
    }
}

/// Whether a session has rows that an operator may have deleted.
fn has_operator_rows(cache: &mut SessionCache, name: &str) -> bool {
    cache.head(name).is_some_and(|head| head.pending.is_some() || head.summary.label.is_some())
}

fn id_conflict(seq: u64) -> Error {
    Error::new(
        ErrorCode::EventConflict,
        format!("this id was already used by event {seq} of the session, with a different body"),
        "give every event a unique id; when you resend an event, send the same body",
    )
}

/// The stored decision, unless the session has been halted since that decision allowed the event.
fn strictest(stored: Option<Decision>, now: Decision) -> Decision {
    match stored {
        Some(stored) if stored.decision >= now.decision => stored,
        _ => now,
    }
}

/// Parses a stored decision.
fn parse_decision(text: &str) -> Option<Decision> {
    serde_json::from_str(text).ok()
}

fn unreadable_decision(session: &str) -> StoreError {
    StoreError::corrupt(format!("a stored decision of session '{session}' is invalid"))
}

fn parent_of(cache: &SessionCache, name: &str) -> Option<String> {
    cache.sessions.get(name)?.state().parent().map(str::to_owned)
}

/// Whether a session has a parent.
pub(super) fn has_parent(cache: &SessionCache, name: &str) -> bool {
    cache.sessions.get(name).is_some_and(|session| session.state().parent().is_some())
}

/// The known ancestors of a session, nearest first. Stops at a cycle of parents.
fn ancestors(cache: &SessionCache, name: &str) -> Vec<String> {
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

pub(super) fn root_of(cache: &SessionCache, name: &str) -> String {
    ancestors(cache, name).pop().unwrap_or_else(|| name.to_owned())
}

/// Usage of a session's ancestors so far.
fn ancestor_usage(cache: &SessionCache, name: &str) -> Vec<(String, Usage)> {
    let known = |parent: String| {
        let used = *cache.sessions.get(&parent)?.state().usage();
        Some((parent, used))
    };
    ancestors(cache, name).into_iter().filter_map(known).collect()
}

//! Group commit: folds many events, stores them in one transaction, and answers only what is stored.

use super::change_builder::{ChangeBuilder, ChangeBuilders, SnapshotRules};
use super::fold::{REMEMBERED_EVENTS, has_parent, root_of};
use super::queue::CommitBatch;
use super::session_cache::SessionCache;
use super::{RecordError, RecordResult, Recorder, lock};
use crate::error::{StoreError, StoreErrorKind};
use crate::event_store::{AppendOutcome, AppendUnit};
use crate::failpoint::Failpoint;
use crate::name_map::NameMap;
use crate::submission::BoxedSubmission;
use flyball::Decision;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Total cost of attempts after which an event whose session keeps changing fails.
const MAX_ATTEMPT_COST: u32 = 64;
/// Cost of an attempt in which the store failed. Higher, because a retry is less likely to help.
const STORE_FAILURE_COST: u32 = 8;
/// Maximum backoff between attempts, so that writers of the same session do not collide again.
const MAX_BACKOFF_MS: u64 = 32;

/// Maximum wait for more events, here and in the submit queue: about one sync of a fast disk.
pub(crate) const BATCH_WINDOW: Duration = Duration::from_micros(300);

/// Factor by which sessions in memory are snapshotted less often, because they do not have to be loaded.
const WARM_SNAPSHOT_FACTOR: u64 = 3;
/// Maximum number of events without a snapshot. Loading the session has to fold them again.
const MAX_TAIL_EVENTS: u64 = 96;

/// State of one append that is being prepared.
#[derive(Default)]
pub(super) struct PendingCommit {
    pub(super) drafts: ChangeBuilders,
    /// Sessions whose operator rows were checked.
    pub(super) reconciled: BTreeSet<String>,
    /// Events that are answered once their session is stored.
    pending_answers: Vec<PendingAnswer>,
    /// Events of sessions that are in flight.
    deferred: Vec<usize>,
    /// Their sessions: no later event may overtake them.
    deferred_sessions: BTreeSet<String>,
    /// Sessions whose append failed. Their events are retried, and no later event may overtake them.
    failed_sessions: BTreeMap<String, StoreError>,
}

/// The folded changes, ready to append.
struct AppendRequest {
    sessions: Vec<String>,
    /// Policies that sessions are pinned to and that are not stored yet.
    policies: Vec<(String, String)>,
    units: Result<Vec<AppendUnit>, StoreError>,
}

impl Default for AppendRequest {
    fn default() -> Self {
        AppendRequest { sessions: Vec::new(), policies: Vec::new(), units: Ok(Vec::new()) }
    }
}

/// Result of an append: the outcome of each unit, or why nothing was stored.
type AppendResult = Result<(Vec<AppendUnit>, Vec<Result<AppendOutcome, StoreError>>), StoreError>;

/// The answers of a batch.
#[derive(Default)]
pub(super) struct BatchAnswers {
    pub(super) list: Vec<Option<RecordResult>>,
}

impl BatchAnswers {
    fn set(&mut self, index: usize, answer: RecordResult) {
        if let Some(place) = self.list.get_mut(index) {
            *place = Some(answer);
        }
    }

    /// Answers unanswered events with the last error.
    fn fill_missing(&mut self, last: &StoreError) {
        for answer in &mut self.list {
            answer.get_or_insert_with(|| Err(last.clone().into()));
        }
    }
}

struct PendingAnswer {
    index: usize,
    session: String,
    decision: Decision,
    /// Number that identifies our own event; `None` if it was answered before.
    nonce: Option<u64>,
}

/// Outcome of folding an event.
pub(super) enum FoldOutcome {
    /// Already stored.
    AlreadyStored(Decision),
    /// Already answered in this batch.
    RepeatedInBatch(Decision),
    /// New.
    New(Decision, u64),
    /// Its session or an ancestor is in flight.
    Deferred,
}

impl Recorder {
    /// Decides all queued events and stores them in one transaction, unless other writers interfere.
    ///
    /// In an engine with one writer, events are folded while the previous commit is in progress, and events that
    /// arrive until it ends join the batch. Then the next leader may start while this batch waits for the disk.
    pub(super) fn fold_and_commit(&self) -> CommitBatch {
        let mut batch = CommitBatch::default();
        let mut commit = PendingCommit::default();
        let mut request = AppendRequest::default();
        let gated = self.store.prefers_batching();
        let began = Instant::now();
        loop {
            self.fold_queued(gated, &mut batch, &mut commit, &mut request);
            if gated && self.should_wait_for_more(&batch, began) {
                std::thread::yield_now();
            } else if !gated || self.commit_lock.try_acquire() {
                break;
            }
        }
        if gated {
            self.fold_queued(gated, &mut batch, &mut commit, &mut request);
        }
        self.load.begin_commit();
        if lock(&self.queue).wake_next_leader() {
            self.contended.store(true, Ordering::Relaxed);
        }
        let lasting = self.options.long_lived || self.load.is_long_lived();
        let apart = lasting || self.contended.load(Ordering::Relaxed);
        let mut last = StoreError::new(StoreErrorKind::Busy, "other writers won every attempt");
        let later = std::mem::take(&mut commit.deferred);
        let mut inside = gated;
        let mut leave = || {
            if std::mem::take(&mut inside) {
                self.commit_lock.release();
            }
        };
        let appended = self.execute_append(request, None, apart.then_some(&mut leave));
        leave();
        let mut open = self.resolve_answers(appended, commit, &mut batch.answers, &mut last);
        open.extend(later);
        if !open.is_empty() {
            self.retry_conflicts(open, &mut batch, &mut last);
        }
        batch.answers.fill_missing(&last);
        batch
    }

    /// Dequeues waiting events and folds them. If commits are serialized, takes at most half of the current load: the
    /// rest is folded while this batch is written.
    fn fold_queued(
        &self,
        gated: bool,
        batch: &mut CommitBatch,
        commit: &mut PendingCommit,
        request: &mut AppendRequest,
    ) {
        let most = if gated { self.load.max_batch() } else { usize::MAX };
        let open = lock(&self.queue).dequeue_into(batch, most);
        if !open.is_empty() {
            let mut cache = lock(&self.cache);
            self.fold_all(&mut cache, commit, &batch.events, open, &mut batch.answers);
            self.prepare_append(&mut cache, commit, request);
            // Evict here, not after the batch: by then the next batch is being folded, and answers would wait for it.
            cache.evict(self.options.hot_sessions, &self.in_flight);
        }
    }

    /// Whether to wait for more events: under load, the submitters of the previous commit are about to return. A
    /// commit for a few events costs almost as much as one for all of them.
    fn should_wait_for_more(&self, batch: &CommitBatch, since: Instant) -> bool {
        let expected = batch.events.len() < self.load.expected_batch();
        expected && self.contended.load(Ordering::Relaxed) && since.elapsed() < BATCH_WINDOW
    }

    /// Retries the remaining events under the write lock: no other writer can interfere between load and append.
    fn retry_conflicts(&self, mut open: Vec<usize>, batch: &mut CommitBatch, last: &mut StoreError) {
        let mut tries = 1;
        while !open.is_empty() && tries < MAX_ATTEMPT_COST {
            let mut cache = lock(&self.cache);
            let guard = match self.store.write_lock() {
                Ok(guard) => guard,
                Err(error) => {
                    *last = error;
                    return;
                }
            };
            let mut commit = PendingCommit::default();
            open.sort_unstable();
            self.fold_all(&mut cache, &mut commit, &batch.events, open, &mut batch.answers);
            let later = std::mem::take(&mut commit.deferred);
            let idle = commit.drafts.is_empty();
            let mut request = AppendRequest::default();
            self.prepare_append(&mut cache, &mut commit, &mut request);
            let appended = self.execute_append(request, Some(&mut cache), None);
            open = self.resolve_answers(appended, commit, &mut batch.answers, last);
            drop(guard);
            drop(cache);
            if idle && !later.is_empty() {
                self.in_flight.wait_for_change();
            } else {
                tries += if last.kind == StoreErrorKind::Busy { 1 } else { STORE_FAILURE_COST };
            }
            open.extend(later);
            if !open.is_empty() && tries > 1 {
                backoff(tries);
            }
        }
    }

    /// Folds events into their sessions, in order.
    fn fold_all(
        &self,
        cache: &mut SessionCache,
        commit: &mut PendingCommit,
        events: &[BoxedSubmission],
        open: impl IntoIterator<Item = usize>,
        answers: &mut BatchAnswers,
    ) {
        for index in open {
            let Some(event) = events.get(index) else { continue };
            let session = event.event.session.clone();
            if let Some(error) = commit.failed_sessions.get(&session) {
                answers.set(index, Err(error.clone().into()));
                continue;
            }
            if commit.deferred_sessions.contains(&session) {
                commit.deferred.push(index);
                continue;
            }
            match self.fold_event(cache, commit, event) {
                Ok(FoldOutcome::AlreadyStored(decision)) => {
                    answers.set(index, self.store.fsync().map(|()| decision).map_err(RecordError::Store));
                }
                Ok(FoldOutcome::RepeatedInBatch(decision)) => {
                    commit.pending_answers.push(PendingAnswer { index, session, decision, nonce: None });
                }
                Ok(FoldOutcome::New(decision, nonce)) => {
                    commit.pending_answers.push(PendingAnswer {
                        index,
                        session,
                        decision,
                        nonce: Some(nonce),
                    });
                }
                Ok(FoldOutcome::Deferred) => {
                    commit.deferred.push(index);
                    commit.deferred_sessions.insert(session);
                }
                Err(refusal) => {
                    if let RecordError::Store(error) = &refusal {
                        commit.failed_sessions.insert(session, error.clone());
                    }
                    answers.set(index, Err(refusal));
                }
            }
        }
    }

    /// Marks the folded changes as in flight. The cache already has the new session rows; it drops them if the append
    /// fails.
    fn prepare_append(
        &self,
        cache: &mut SessionCache,
        commit: &mut PendingCommit,
        request: &mut AppendRequest,
    ) {
        let drafts = std::mem::take(&mut commit.drafts).into_vec();
        request.sessions.extend(drafts.iter().map(|draft| draft.session().to_owned()));
        request.policies.extend(drafts.iter().filter_map(|draft| cache.pinned_text(draft.session())));
        match (self.build_units(cache, drafts), &mut request.units) {
            (Ok(units), Ok(all)) => {
                units
                    .iter()
                    .flat_map(|unit| &unit.changes)
                    .for_each(|change| cache.set_stored_head(&change.head));
                all.extend(units);
            }
            (Err(error), all @ Ok(_)) => *all = Err(error),
            (_, Err(_)) => {}
        }
    }

    /// Appends the folded changes. `leave` lets the next writer start while this one waits for the disk.
    fn execute_append(
        &self,
        request: AppendRequest,
        cache: Option<&mut SessionCache>,
        leave: Option<&mut dyn FnMut()>,
    ) -> AppendResult {
        let AppendRequest { sessions: names, policies, units } = request;
        if names.is_empty() {
            return Ok((Vec::new(), Vec::new()));
        }
        let stored = units.and_then(|units| {
            self.save_policy()?;
            for (digest, text) in &policies {
                self.store.save_policy(digest, text)?;
            }
            self.options.failpoints.reach(Failpoint::BeforeAppend);
            let outcomes = self.append_units(&units, leave)?;
            self.options.failpoints.reach(Failpoint::AfterCommit);
            Ok((units, outcomes))
        });
        let mut own = None;
        let wrong = match &stored {
            Ok((_, outcomes)) if outcomes.iter().all(|outcome| *outcome == Ok(AppendOutcome::Done)) => {
                Vec::new()
            }
            Ok((units, outcomes)) => unstored_sessions(&names, units, outcomes),
            Err(_) => names.clone(),
        };
        if !wrong.is_empty() {
            // The cached state is ahead of the stored one.
            let cache = match cache {
                Some(cache) => cache,
                None => own.insert(lock(&self.cache)),
            };
            wrong.iter().for_each(|name| cache.remove(name));
        }
        self.in_flight.remove(&names);
        stored
    }

    /// Answers stored events; returns the events to retry. Leaves the store's error in `last`.
    fn resolve_answers(
        &self,
        appended: AppendResult,
        commit: PendingCommit,
        answers: &mut BatchAnswers,
        last: &mut StoreError,
    ) -> Vec<usize> {
        match appended {
            Ok((units, outcomes)) => self.answer_stored(units, outcomes, commit.pending_answers, answers),
            Err(error) => {
                last.clone_from(&error);
                self.resolve_unknown(&error, commit.pending_answers, answers)
            }
        }
    }

    /// Appends units together. If one of them hits corruption, appends them one by one, so that a corrupt session
    /// does not affect the others.
    fn append_units(
        &self,
        units: &[AppendUnit],
        leave: Option<&mut dyn FnMut()>,
    ) -> Result<Vec<Result<AppendOutcome, StoreError>>, StoreError> {
        let together = match leave {
            Some(leave) => self.store.append_pipelined(units, leave),
            None => self.store.append(units),
        };
        match together {
            Ok(outcomes) => Ok(outcomes.into_iter().map(Ok).collect()),
            Err(error)
                if error.kind == StoreErrorKind::Corrupt
                    && !error.is_outcome_unknown()
                    && units.len() > 1 =>
            {
                let one = |unit: &AppendUnit| {
                    let outcome = self.store.append(std::slice::from_ref(unit))?;
                    Ok(outcome.first().copied().unwrap_or(AppendOutcome::Stale))
                };
                Ok(units.iter().map(one).collect())
            }
            Err(error) => Err(error),
        }
    }

    /// Stores the policy before the first event that is decided under it.
    fn save_policy(&self) -> Result<(), StoreError> {
        if !self.policy_saved.load(Ordering::Relaxed) {
            self.store.save_policy(&self.policy_digest, &self.policy_source.to_json())?;
            self.policy_saved.store(true, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Turns the builders into units: a session and its ancestors are stored together or not at all.
    fn build_units(
        &self,
        cache: &SessionCache,
        drafts: Vec<ChangeBuilder>,
    ) -> Result<Vec<AppendUnit>, StoreError> {
        let cold = self.options.snapshot_every;
        let warm = cold.saturating_mul(WARM_SNAPSHOT_FACTOR).min(MAX_TAIL_EVENTS).max(cold);
        let mut units: Vec<AppendUnit> = Vec::with_capacity(drafts.len());
        let mut families: NameMap<usize> = NameMap::default();
        let alone = drafts.iter().all(|draft| !has_parent(cache, draft.session()));
        for draft in drafts {
            let name = draft.session();
            let Some(session) = cache.sessions.get(name) else {
                return Err(StoreError::corrupt(format!("session '{name}' has no state")));
            };
            let root = if alone { String::new() } else { root_of(cache, name) };
            let every = match (cache.is_warm(name), cache.tracks_ids(name)) {
                (false, _) => cold,
                (true, true) => warm,
                // Its older ids are only in the store. New ids are recognized quickly as long as the session itself
                // knows all ids that no snapshot covers.
                (true, false) => warm.min(REMEMBERED_EVENTS),
            };
            let digest = cache.pinned_digest(name).unwrap_or(&self.policy_digest);
            let rules = SnapshotRules { every, policy_digest: digest };
            let change = draft.build(session.state(), session.policy(), &rules)?;
            match families.get(&root).and_then(|place| units.get_mut(*place)) {
                Some(unit) => unit.changes.push(change),
                None => {
                    if !alone {
                        families.insert(root, units.len());
                    }
                    units.push(AppendUnit { changes: vec![change] });
                }
            }
        }
        Ok(units)
    }

    /// Answers stored events; returns the events to retry.
    fn answer_stored(
        &self,
        units: Vec<AppendUnit>,
        outcomes: Vec<Result<AppendOutcome, StoreError>>,
        waiting: Vec<PendingAnswer>,
        answers: &mut BatchAnswers,
    ) -> Vec<usize> {
        if outcomes.iter().all(|outcome| *outcome == Ok(AppendOutcome::Done)) {
            waiting.into_iter().for_each(|entry| answers.set(entry.index, Ok(entry.decision)));
            return Vec::new();
        }
        let mut fate: BTreeMap<String, Result<AppendOutcome, StoreError>> = BTreeMap::new();
        for (unit, outcome) in units.into_iter().zip(outcomes) {
            fate.extend(unit.changes.into_iter().map(|change| (change.head.session, outcome.clone())));
        }
        let mut again = Vec::new();
        for entry in waiting {
            match fate.get(&entry.session) {
                Some(Ok(AppendOutcome::Done)) => answers.set(entry.index, Ok(entry.decision)),
                Some(Err(error)) => again.extend(self.resolve_unknown(error, vec![entry], answers)),
                Some(Ok(AppendOutcome::Fenced)) if lock(&self.leases).contains_key(&entry.session) => {
                    let what = format!("session '{}' was taken over by another worker", entry.session);
                    answers.set(entry.index, Err(StoreError::new(StoreErrorKind::LeaseLost, what).into()));
                }
                _ => again.push(entry.index),
            }
        }
        again
    }

    /// Handles a failed or unknown outcome: answers the events that are found in the store.
    fn resolve_unknown(
        &self,
        error: &StoreError,
        waiting: Vec<PendingAnswer>,
        answers: &mut BatchAnswers,
    ) -> Vec<usize> {
        let mut again = Vec::new();
        // As in an attempt: no event may overtake one that failed.
        let mut held: BTreeSet<String> = BTreeSet::new();
        for entry in waiting {
            if !error.is_outcome_unknown() {
                answers.set(entry.index, Err(error.clone().into()));
                continue;
            }
            let seq = entry.decision.seq;
            let read = self.store.records(&entry.session, seq, seq);
            match read.and_then(|found| self.store.fsync().map(|()| found)) {
                Ok(found) if found.iter().any(|record| Some(record.nonce) == entry.nonce) => {
                    answers.set(entry.index, Ok(entry.decision));
                }
                Ok(_) if !held.contains(&entry.session) => again.push(entry.index),
                _ => {
                    answers.set(entry.index, Err(error.clone().with_unknown_outcome().into()));
                    held.insert(entry.session);
                }
            }
        }
        again
    }
}

/// The sessions of units that were not stored.
fn unstored_sessions(
    names: &[String],
    units: &[AppendUnit],
    outcomes: &[Result<AppendOutcome, StoreError>],
) -> Vec<String> {
    let arrived = units.iter().zip(outcomes).filter(|(_, outcome)| **outcome == Ok(AppendOutcome::Done));
    let arrived: BTreeSet<&str> =
        arrived.flat_map(|(unit, _)| &unit.changes).map(|change| change.head.session.as_str()).collect();
    names.iter().filter(|name| !arrived.contains(name.as_str())).cloned().collect()
}

/// Sleeps for a random time that grows with each attempt.
fn backoff(tries: u32) {
    let most = (1_u64 << tries.min(10)).min(MAX_BACKOFF_MS) * 1_000;
    let micros = RandomState::new().hash_one(tries) % most;
    std::thread::park_timeout(Duration::from_micros(micros));
}

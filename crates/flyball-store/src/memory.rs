//! In-memory engine without durability: for pipes that need no store, for tests, and as the reference implementation.

use crate::event_store::{
    AdminStore, AppendOutcome, AppendUnit, ConfirmationRow, DeliveryOutcome, EventStore, Lease, OperatorRows,
    OutboxMessage, OutboxState, PruneReport, StoreResult, StoredAnswer, StreamCursor, StreamEntry,
    WriteGuard,
};
use crate::kv_store::{KvEntry, KvStore, Precondition};
use crate::record::{
    ConfirmationChange, EventRecord, LabelChange, LoadedSession, SessionChange, SessionFilter, SessionRow,
};
use flyball::SessionPhase;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// A store in memory.
#[derive(Debug)]
pub struct MemoryStore {
    /// Maximum number of events kept per session. The state is always complete.
    max_events: usize,
    started: Instant,
    state: Mutex<MemoryState>,
}

#[derive(Debug, Default)]
struct MemoryState {
    sessions: BTreeMap<String, StoredSession>,
    stream: VecDeque<(u64, String, u64)>,
    position: u64,
    policies: BTreeMap<String, String>,
    confirmations: BTreeMap<String, ConfirmationRow>,
    quarantined: Vec<(ConfirmationRow, String)>,
    labels: BTreeMap<String, String>,
    outbox: BTreeMap<String, OutboxMessage>,
    kv: BTreeMap<(String, String), KvEntry>,
}

#[derive(Debug, Default)]
struct StoredSession {
    head: SessionRow,
    state: Vec<u8>,
    records: VecDeque<EventRecord>,
    ids: BTreeMap<String, StoredAnswer>,
    holder: Option<String>,
    until: u64,
}

impl Default for MemoryStore {
    fn default() -> Self {
        MemoryStore { max_events: usize::MAX, started: Instant::now(), state: Mutex::default() }
    }
}

impl MemoryStore {
    /// A store that keeps only the newest events of each session (at least those since the last snapshot), for
    /// long-running pipes. Older ids are dropped with their events.
    #[must_use]
    pub fn bounded(max_events: usize) -> Self {
        MemoryStore { max_events, ..MemoryStore::default() }
    }

    fn lock(&self) -> MutexGuard<'_, MemoryState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

impl MemoryState {
    fn check_fence(&self, change: &SessionChange) -> AppendOutcome {
        match self.sessions.get(&change.head.session) {
            None if change.new => AppendOutcome::Done,
            Some(kept) if !change.new && kept.head.epoch != change.epoch => AppendOutcome::Fenced,
            Some(kept) if !change.new && kept.head.rev.wrapping_add(1) == change.head.rev => {
                AppendOutcome::Done
            }
            _ => AppendOutcome::Stale,
        }
    }

    fn apply(&mut self, change: &SessionChange, keep: usize, now: u64) {
        let name = &change.head.session;
        let kept = self.sessions.entry(name.clone()).or_default();
        kept.head = change.head.clone();
        if let Some(state) = &change.snapshot {
            kept.state.clone_from(state);
        }
        for record in &change.records {
            self.position += 1;
            self.stream.push_back((self.position, name.clone(), record.seq));
            if let Some(id) = &record.id {
                kept.ids.insert(id.clone(), stored_answer(record));
            }
            kept.records.push_back(record.clone());
        }
        while kept.records.len() > keep
            && kept.records.front().is_some_and(|oldest| oldest.seq <= kept.head.snapshot_seq)
        {
            if let Some(id) = kept.records.pop_front().and_then(|oldest| oldest.id) {
                kept.ids.remove(&id);
            }
        }
        while self.stream.len() > keep.saturating_mul(4) {
            self.stream.pop_front();
        }
        match &change.row {
            ConfirmationChange::Keep => {}
            ConfirmationChange::Put(row) => {
                self.confirmations.insert(name.clone(), row.clone());
            }
            ConfirmationChange::Clear => {
                self.confirmations.remove(name);
            }
            ConfirmationChange::Quarantine { reason: why } => {
                self.quarantined.extend(self.confirmations.remove(name).map(|row| (row, why.clone())));
            }
        }
        match &change.label {
            LabelChange::Keep => {}
            LabelChange::Set(label) => {
                self.labels.insert(name.clone(), label.clone());
            }
            LabelChange::Clear => {
                self.labels.remove(name);
            }
        }
        for message in &change.outbox_messages {
            self.outbox
                .entry(message.key.clone())
                .or_insert_with(|| OutboxMessage { due: now, ..message.clone() });
        }
    }
}

fn stored_answer(record: &EventRecord) -> StoredAnswer {
    StoredAnswer {
        seq: record.seq,
        body_hash: record.body_hash,
        verdict: record.verdict,
        status: record.status,
        decision_json: None,
    }
}

impl EventStore for MemoryStore {
    fn address(&self) -> String {
        "memory:".to_owned()
    }

    fn write_lock(&self) -> StoreResult<WriteGuard<'_>> {
        Ok(WriteGuard::noop())
    }

    fn load(&self, session: &str) -> StoreResult<Option<LoadedSession>> {
        let all = self.lock();
        Ok(all.sessions.get(session).map(|kept| LoadedSession {
            head: kept.head.clone(),
            state: kept.state.clone(),
            tail: kept.records.iter().filter(|record| record.seq > kept.head.snapshot_seq).cloned().collect(),
        }))
    }

    fn append(&self, units: &[AppendUnit]) -> StoreResult<Vec<AppendOutcome>> {
        let now = self.now_ms();
        let mut all = self.lock();
        let mut outcomes = Vec::with_capacity(units.len());
        for unit in units {
            let refused = unit
                .changes
                .iter()
                .map(|change| all.check_fence(change))
                .find(|fate| *fate != AppendOutcome::Done);
            if refused.is_none() {
                unit.changes.iter().for_each(|change| all.apply(change, self.max_events, now));
            }
            outcomes.push(refused.unwrap_or(AppendOutcome::Done));
        }
        Ok(outcomes)
    }

    fn find_by_id(&self, session: &str, id: &str) -> StoreResult<Option<StoredAnswer>> {
        let all = self.lock();
        let Some(kept) = all.sessions.get(session) else { return Ok(None) };
        let Some(found) = kept.ids.get(id) else { return Ok(None) };
        let record = kept.records.iter().find(|record| record.seq == found.seq);
        Ok(Some(StoredAnswer {
            decision_json: record.map(|record| record.decision_json.clone()),
            ..found.clone()
        }))
    }

    fn records(&self, session: &str, from: u64, to: u64) -> StoreResult<Vec<EventRecord>> {
        let all = self.lock();
        let kept = all.sessions.get(session).map(|kept| kept.records.iter());
        Ok(kept.into_iter().flatten().filter(|record| (from..=to).contains(&record.seq)).cloned().collect())
    }

    fn operator_rows(&self, session: &str) -> StoreResult<OperatorRows> {
        let all = self.lock();
        let pending = all.confirmations.get(session).map(ConfirmationRow::sum);
        Ok(OperatorRows { pending, label: all.labels.contains_key(session) })
    }

    fn save_policy(&self, digest: &str, text: &str) -> StoreResult<()> {
        self.lock().policies.insert(digest.to_owned(), text.to_owned());
        Ok(())
    }

    fn policy(&self, digest: &str) -> StoreResult<Option<String>> {
        Ok(self.lock().policies.get(digest).cloned())
    }

    fn events_since(&self, after: StreamCursor, limit: usize) -> StoreResult<Vec<StreamEntry>> {
        let all = self.lock();
        let later = all.stream.iter().filter(|(position, ..)| *position > after.position);
        let entries = later.filter_map(|(position, session, seq)| {
            let record = all.sessions.get(session)?.records.iter().find(|record| record.seq == *seq)?.clone();
            let cursor = StreamCursor { transaction: 0, position: *position };
            Some(StreamEntry { cursor, session: session.clone(), record })
        });
        Ok(entries.take(limit).collect())
    }

    fn latest_cursor(&self) -> StoreResult<StreamCursor> {
        let position = self.lock().stream.iter().map(|(position, ..)| *position).max().unwrap_or_default();
        Ok(StreamCursor { transaction: 0, position })
    }

    fn lease(&self, session: &str, holder: &str, ttl_ms: u64) -> StoreResult<Option<Lease>> {
        let now = self.now_ms();
        let mut all = self.lock();
        let kept = all.sessions.entry(session.to_owned()).or_insert_with(|| StoredSession {
            head: SessionRow { session: session.to_owned(), ..SessionRow::default() },
            ..StoredSession::default()
        });
        let live = kept.until > now;
        if live && kept.holder.as_deref() != Some(holder) {
            return Ok(None);
        }
        if !live {
            kept.head.epoch += 1;
        }
        kept.holder = Some(holder.to_owned());
        kept.until = now.saturating_add(ttl_ms);
        Ok(Some(Lease { session: session.to_owned(), holder: holder.to_owned(), epoch: kept.head.epoch }))
    }

    fn renew_lease(&self, lease: &Lease, ttl_ms: u64) -> StoreResult<bool> {
        let now = self.now_ms();
        let mut all = self.lock();
        let held =
            all.sessions.get_mut(&lease.session).filter(|kept| kept.is_held_by(lease) && kept.until > now);
        let renewed = held.map(|kept| kept.until = now.saturating_add(ttl_ms));
        Ok(renewed.is_some())
    }

    fn release_lease(&self, lease: &Lease) -> StoreResult<()> {
        if let Some(kept) = self.lock().sessions.get_mut(&lease.session).filter(|kept| kept.is_held_by(lease))
        {
            kept.holder = None;
            kept.until = 0;
        }
        Ok(())
    }

    fn claim_outbox(&self, limit: usize, hold_ms: u64) -> StoreResult<Vec<OutboxMessage>> {
        let now = self.now_ms();
        let mut all = self.lock();
        let due = |message: &&mut OutboxMessage| message.state == OutboxState::Waiting && message.due <= now;
        let taken = all.outbox.values_mut().filter(due).take(limit).map(|message| {
            let before = message.clone();
            message.due = now.saturating_add(hold_ms);
            message.attempts += 1;
            before
        });
        Ok(taken.collect())
    }

    fn record_delivery(&self, key: &str, how: &DeliveryOutcome) -> StoreResult<()> {
        let now = self.now_ms();
        let mut all = self.lock();
        let Some(message) = all.outbox.get_mut(key).filter(|message| message.state != OutboxState::Done)
        else {
            return Ok(());
        };
        (message.state, message.due, message.error) = match how {
            DeliveryOutcome::Delivered => (OutboxState::Done, now, None),
            DeliveryOutcome::Retry { error, after_ms } => {
                (OutboxState::Waiting, now.saturating_add(*after_ms), Some(error.clone()))
            }
            DeliveryOutcome::Dead { error } => (OutboxState::Dead, now, Some(error.clone())),
        };
        Ok(())
    }

    fn now(&self) -> StoreResult<u64> {
        Ok(self.now_ms())
    }
}

impl StoredSession {
    fn is_held_by(&self, lease: &Lease) -> bool {
        self.holder.as_deref() == Some(lease.holder.as_str()) && self.head.epoch == lease.epoch
    }
}

impl AdminStore for MemoryStore {
    fn leases(&self) -> StoreResult<Vec<Lease>> {
        let now = self.now_ms();
        let all = self.lock();
        let held = all.sessions.iter().filter(|(_, kept)| kept.until > now);
        let lease = |(session, kept): (&String, &StoredSession)| {
            let holder = kept.holder.clone()?;
            Some(Lease { session: session.clone(), holder, epoch: kept.head.epoch })
        };
        Ok(held.filter_map(lease).collect())
    }

    fn list_sessions(&self, which: SessionFilter, limit: usize) -> StoreResult<Vec<SessionRow>> {
        let all = self.lock();
        let mut heads: Vec<SessionRow> =
            all.sessions.values().map(|kept| kept.head.clone()).filter(|head| which.matches(head)).collect();
        heads.sort_by_key(|head| std::cmp::Reverse(head.updated));
        heads.truncate(limit);
        Ok(heads)
    }

    fn pending(&self, session: &str) -> StoreResult<Option<ConfirmationRow>> {
        Ok(self.lock().confirmations.get(session).cloned())
    }

    fn outbox_messages(&self, state: OutboxState, limit: usize) -> StoreResult<Vec<OutboxMessage>> {
        let all = self.lock();
        Ok(all.outbox.values().filter(|message| message.state == state).take(limit).cloned().collect())
    }

    fn retry_outbox(&self, key: &str) -> StoreResult<bool> {
        let mut all = self.lock();
        let dead = all.outbox.get_mut(key).filter(|message| message.state == OutboxState::Dead);
        let revived = dead.map(|message| {
            message.state = OutboxState::Waiting;
            message.due = 0;
            message.attempts = 0;
        });
        Ok(revived.is_some())
    }

    fn prune(&self, before: u64, dry_run: bool) -> StoreResult<PruneReport> {
        let mut all = self.lock();
        let over = |head: &SessionRow| {
            let ended = head.summary.status == SessionPhase::Ended && !head.summary.is_held();
            ended && head.updated < before
        };
        let old = |kept: &StoredSession, record: &EventRecord| {
            record.seq <= kept.head.snapshot_seq && record.at.is_some_and(|at| at < before)
        };
        let done = |message: &OutboxMessage| message.state == OutboxState::Done && message.due < before;
        let mut found = PruneReport {
            outbox_messages: all.outbox.values().filter(|message| done(message)).count() as u64,
            ..PruneReport::default()
        };
        for kept in all.sessions.values() {
            if over(&kept.head) {
                found.sessions += 1;
            } else {
                found.events += kept.records.iter().filter(|record| old(kept, record)).count() as u64;
            }
        }
        if dry_run {
            return Ok(found);
        }
        all.sessions.retain(|_, kept| !over(&kept.head));
        for kept in all.sessions.values_mut() {
            let covered = kept.head.snapshot_seq;
            kept.records.retain(|record| record.seq > covered || record.at.is_none_or(|at| at >= before));
        }
        all.outbox.retain(|_, message| !done(message));
        Ok(found)
    }

    fn verify(&self, _progress: &mut dyn FnMut(u64)) -> StoreResult<Vec<String>> {
        Ok(Vec::new())
    }

    fn engine_version(&self) -> StoreResult<String> {
        Ok("memory".to_owned())
    }
}

impl KvStore for MemoryStore {
    fn kv_put(&self, entry: &KvEntry, only_if: Precondition<'_>) -> StoreResult<bool> {
        let now = self.now_ms();
        let mut all = self.lock();
        let place = (entry.namespace.clone(), entry.key.clone());
        let there = all.kv.get(&place).filter(|there| is_live(there, now));
        let holds = match only_if {
            Precondition::Any => true,
            Precondition::Absent => there.is_none(),
            Precondition::Equals(text) => there.is_some_and(|there| there.value == text),
        };
        if holds {
            all.kv.insert(place, entry.clone());
        }
        Ok(holds)
    }

    fn kv_get(&self, namespace: &str, key: &str) -> StoreResult<Option<KvEntry>> {
        let now = self.now_ms();
        let place = (namespace.to_owned(), key.to_owned());
        Ok(self.lock().kv.get(&place).filter(|entry| is_live(entry, now)).cloned())
    }

    fn kv_list(&self, namespace: &str, after: &str, limit: usize) -> StoreResult<Vec<KvEntry>> {
        let now = self.now_ms();
        let all = self.lock();
        let here = all.kv.values().filter(|entry| entry.namespace == namespace && entry.key.as_str() > after);
        Ok(here.filter(|entry| is_live(entry, now)).take(limit).cloned().collect())
    }

    fn kv_take(&self, namespace: &str, key: &str) -> StoreResult<Option<KvEntry>> {
        let now = self.now_ms();
        let taken = self.lock().kv.remove(&(namespace.to_owned(), key.to_owned()));
        Ok(taken.filter(|entry| is_live(entry, now)))
    }

    fn kv_delete_expired(&self) -> StoreResult<u64> {
        let now = self.now_ms();
        let mut all = self.lock();
        let before = all.kv.len();
        all.kv.retain(|_, entry| is_live(entry, now));
        Ok((before - all.kv.len()) as u64)
    }
}

fn is_live(entry: &KvEntry, now: u64) -> bool {
    entry.expires_at.is_none_or(|until| until > now)
}

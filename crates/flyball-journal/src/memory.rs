//! The engine that forgets: for pipes that need no store, for tests, and as the plainest reading of the contract.

use crate::journal::{
    Answered, Appended, Cursor, Desk, Entry, Errand, ErrandState, Handles, Journal, Lease, PendingRow,
    Pruned, Result, Settled, Turn, Unit,
};
use crate::record::{Change, Head, LabelChange, Loaded, Record, RowChange, Which};
use crate::shelf::{If, Note, Shelf};
use flyball::Status;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// A store in memory.
#[derive(Debug)]
pub struct Memory {
    /// How many events of a session are kept; the state is always whole.
    keep: usize,
    began: Instant,
    all: Mutex<All>,
}

#[derive(Debug, Default)]
struct All {
    sessions: BTreeMap<String, Kept>,
    order: VecDeque<(u64, String, u64)>,
    position: u64,
    policies: BTreeMap<String, String>,
    rows: BTreeMap<String, PendingRow>,
    aside: Vec<(PendingRow, String)>,
    labels: BTreeMap<String, String>,
    outbox: BTreeMap<String, Errand>,
    notes: BTreeMap<(String, String), Note>,
}

#[derive(Debug, Default)]
struct Kept {
    head: Head,
    state: Vec<u8>,
    records: VecDeque<Record>,
    ids: BTreeMap<String, Answered>,
    holder: Option<String>,
    until: u64,
}

impl Default for Memory {
    fn default() -> Self {
        Memory { keep: usize::MAX, began: Instant::now(), all: Mutex::default() }
    }
}

impl Memory {
    /// A store that keeps only the newest events of each session (at least the ones since the last snapshot), for a
    /// pipe that runs for long. Older ids are forgotten with them.
    #[must_use]
    pub fn bounded(keep: usize) -> Self {
        Memory { keep, ..Memory::default() }
    }

    fn all(&self) -> MutexGuard<'_, All> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn clock(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

impl All {
    fn fence(&self, change: &Change) -> Appended {
        match self.sessions.get(&change.head.session) {
            None if change.new => Appended::Done,
            Some(kept) if !change.new && kept.head.epoch != change.epoch => Appended::Fenced,
            Some(kept) if !change.new && kept.head.rev.wrapping_add(1) == change.head.rev => Appended::Done,
            _ => Appended::Stale,
        }
    }

    fn write(&mut self, change: &Change, keep: usize, now: u64) {
        let name = &change.head.session;
        let kept = self.sessions.entry(name.clone()).or_default();
        kept.head = change.head.clone();
        if let Some(state) = &change.snapshot {
            kept.state.clone_from(state);
        }
        for record in &change.records {
            self.position += 1;
            self.order.push_back((self.position, name.clone(), record.seq));
            if let Some(id) = &record.id {
                kept.ids.insert(id.clone(), answered(record));
            }
            kept.records.push_back(record.clone());
        }
        while kept.records.len() > keep
            && kept.records.front().is_some_and(|oldest| oldest.seq <= kept.head.snapshot)
        {
            if let Some(id) = kept.records.pop_front().and_then(|oldest| oldest.id) {
                kept.ids.remove(&id);
            }
        }
        while self.order.len() > keep.saturating_mul(4) {
            self.order.pop_front();
        }
        match &change.row {
            RowChange::Keep => {}
            RowChange::Put(row) => {
                self.rows.insert(name.clone(), row.clone());
            }
            RowChange::Clear => {
                self.rows.remove(name);
            }
            RowChange::SetAside { why } => {
                self.aside.extend(self.rows.remove(name).map(|row| (row, why.clone())));
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
        for errand in &change.errands {
            self.outbox.entry(errand.key.clone()).or_insert_with(|| Errand { due: now, ..errand.clone() });
        }
    }
}

fn answered(record: &Record) -> Answered {
    Answered {
        seq: record.seq,
        body: record.body,
        verdict: record.verdict,
        status: record.status,
        decision: None,
    }
}

impl Journal for Memory {
    fn address(&self) -> String {
        "memory:".to_owned()
    }

    fn turn(&self) -> Result<Turn<'_>> {
        Ok(Turn::free())
    }

    fn load(&self, session: &str) -> Result<Option<Loaded>> {
        let all = self.all();
        Ok(all.sessions.get(session).map(|kept| Loaded {
            head: kept.head.clone(),
            state: kept.state.clone(),
            tail: kept.records.iter().filter(|record| record.seq > kept.head.snapshot).cloned().collect(),
        }))
    }

    fn append(&self, units: &[Unit]) -> Result<Vec<Appended>> {
        let now = self.clock();
        let mut all = self.all();
        let mut outcomes = Vec::with_capacity(units.len());
        for unit in units {
            let refused =
                unit.changes.iter().map(|change| all.fence(change)).find(|fate| *fate != Appended::Done);
            if refused.is_none() {
                unit.changes.iter().for_each(|change| all.write(change, self.keep, now));
            }
            outcomes.push(refused.unwrap_or(Appended::Done));
        }
        Ok(outcomes)
    }

    fn find(&self, session: &str, id: &str) -> Result<Option<Answered>> {
        let all = self.all();
        let Some(kept) = all.sessions.get(session) else { return Ok(None) };
        let Some(found) = kept.ids.get(id) else { return Ok(None) };
        let record = kept.records.iter().find(|record| record.seq == found.seq);
        Ok(Some(Answered { decision: record.map(|record| record.decision.clone()), ..found.clone() }))
    }

    fn records(&self, session: &str, from: u64, to: u64) -> Result<Vec<Record>> {
        let all = self.all();
        let kept = all.sessions.get(session).map(|kept| kept.records.iter());
        Ok(kept.into_iter().flatten().filter(|record| (from..=to).contains(&record.seq)).cloned().collect())
    }

    fn handles(&self, session: &str) -> Result<Handles> {
        let all = self.all();
        let pending = all.rows.get(session).map(PendingRow::sum);
        Ok(Handles { pending, label: all.labels.contains_key(session) })
    }

    fn keep_policy(&self, digest: &str, text: &str) -> Result<()> {
        self.all().policies.insert(digest.to_owned(), text.to_owned());
        Ok(())
    }

    fn policy(&self, digest: &str) -> Result<Option<String>> {
        Ok(self.all().policies.get(digest).cloned())
    }

    fn since(&self, after: Cursor, limit: usize) -> Result<Vec<Entry>> {
        let all = self.all();
        let later = all.order.iter().filter(|(position, ..)| *position > after.position);
        let entries = later.filter_map(|(position, session, seq)| {
            let record = all.sessions.get(session)?.records.iter().find(|record| record.seq == *seq)?.clone();
            let cursor = Cursor { transaction: 0, position: *position };
            Some(Entry { cursor, session: session.clone(), record })
        });
        Ok(entries.take(limit).collect())
    }

    fn newest(&self) -> Result<Cursor> {
        let position = self.all().order.iter().map(|(position, ..)| *position).max().unwrap_or_default();
        Ok(Cursor { transaction: 0, position })
    }

    fn lease(&self, session: &str, holder: &str, ttl_ms: u64) -> Result<Option<Lease>> {
        let now = self.clock();
        let mut all = self.all();
        let kept = all.sessions.entry(session.to_owned()).or_insert_with(|| Kept {
            head: Head { session: session.to_owned(), ..Head::default() },
            ..Kept::default()
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

    fn renew(&self, lease: &Lease, ttl_ms: u64) -> Result<bool> {
        let now = self.clock();
        let mut all = self.all();
        let held = all.sessions.get_mut(&lease.session).filter(|kept| kept.held(lease) && kept.until > now);
        let renewed = held.map(|kept| kept.until = now.saturating_add(ttl_ms));
        Ok(renewed.is_some())
    }

    fn free(&self, lease: &Lease) -> Result<()> {
        if let Some(kept) = self.all().sessions.get_mut(&lease.session).filter(|kept| kept.held(lease)) {
            kept.holder = None;
            kept.until = 0;
        }
        Ok(())
    }

    fn claim(&self, limit: usize, hold_ms: u64) -> Result<Vec<Errand>> {
        let now = self.clock();
        let mut all = self.all();
        let due = |errand: &&mut Errand| errand.state == ErrandState::Waiting && errand.due <= now;
        let taken = all.outbox.values_mut().filter(due).take(limit).map(|errand| {
            let before = errand.clone();
            errand.due = now.saturating_add(hold_ms);
            errand.attempts += 1;
            before
        });
        Ok(taken.collect())
    }

    fn settle(&self, key: &str, how: &Settled) -> Result<()> {
        let now = self.clock();
        let mut all = self.all();
        let Some(errand) = all.outbox.get_mut(key).filter(|errand| errand.state != ErrandState::Done) else {
            return Ok(());
        };
        (errand.state, errand.due, errand.error) = match how {
            Settled::Done => (ErrandState::Done, now, None),
            Settled::Again { error, after_ms } => {
                (ErrandState::Waiting, now.saturating_add(*after_ms), Some(error.clone()))
            }
            Settled::Dead { error } => (ErrandState::Dead, now, Some(error.clone())),
        };
        Ok(())
    }

    fn now(&self) -> Result<u64> {
        Ok(self.clock())
    }
}

impl Kept {
    fn held(&self, lease: &Lease) -> bool {
        self.holder.as_deref() == Some(lease.holder.as_str()) && self.head.epoch == lease.epoch
    }
}

impl Desk for Memory {
    fn leases(&self) -> Result<Vec<Lease>> {
        let now = self.clock();
        let all = self.all();
        let held = all.sessions.iter().filter(|(_, kept)| kept.until > now);
        let lease = |(session, kept): (&String, &Kept)| {
            let holder = kept.holder.clone()?;
            Some(Lease { session: session.clone(), holder, epoch: kept.head.epoch })
        };
        Ok(held.filter_map(lease).collect())
    }

    fn heads(&self, which: Which, limit: usize) -> Result<Vec<Head>> {
        let all = self.all();
        let mut heads: Vec<Head> =
            all.sessions.values().map(|kept| kept.head.clone()).filter(|head| which.takes(head)).collect();
        heads.sort_by_key(|head| std::cmp::Reverse(head.updated));
        heads.truncate(limit);
        Ok(heads)
    }

    fn pending(&self, session: &str) -> Result<Option<PendingRow>> {
        Ok(self.all().rows.get(session).cloned())
    }

    fn errands(&self, state: ErrandState, limit: usize) -> Result<Vec<Errand>> {
        let all = self.all();
        Ok(all.outbox.values().filter(|errand| errand.state == state).take(limit).cloned().collect())
    }

    fn retry(&self, key: &str) -> Result<bool> {
        let mut all = self.all();
        let dead = all.outbox.get_mut(key).filter(|errand| errand.state == ErrandState::Dead);
        let revived = dead.map(|errand| {
            errand.state = ErrandState::Waiting;
            errand.due = 0;
            errand.attempts = 0;
        });
        Ok(revived.is_some())
    }

    fn prune(&self, before: u64, dry_run: bool) -> Result<Pruned> {
        let mut all = self.all();
        let over = |head: &Head| {
            let ended = head.glance.status == Status::Ended && !head.glance.is_held();
            ended && head.updated < before
        };
        let old = |kept: &Kept, record: &Record| {
            record.seq <= kept.head.snapshot && record.at.is_some_and(|at| at < before)
        };
        let done = |errand: &Errand| errand.state == ErrandState::Done && errand.due < before;
        let mut found = Pruned {
            errands: all.outbox.values().filter(|errand| done(errand)).count() as u64,
            ..Pruned::default()
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
            let covered = kept.head.snapshot;
            kept.records.retain(|record| record.seq > covered || record.at.is_none_or(|at| at >= before));
        }
        all.outbox.retain(|_, errand| !done(errand));
        Ok(found)
    }

    fn verify(&self, _progress: &mut dyn FnMut(u64)) -> Result<Vec<String>> {
        Ok(Vec::new())
    }

    fn engine(&self) -> Result<String> {
        Ok("memory".to_owned())
    }
}

impl Shelf for Memory {
    fn put(&self, note: &Note, only_if: If<'_>) -> Result<bool> {
        let now = self.clock();
        let mut all = self.all();
        let place = (note.shelf.clone(), note.key.clone());
        let there = all.notes.get(&place).filter(|there| live(there, now));
        let holds = match only_if {
            If::Any => true,
            If::New => there.is_none(),
            If::Was(text) => there.is_some_and(|there| there.text == text),
        };
        if holds {
            all.notes.insert(place, note.clone());
        }
        Ok(holds)
    }

    fn note(&self, shelf: &str, key: &str) -> Result<Option<Note>> {
        let now = self.clock();
        let place = (shelf.to_owned(), key.to_owned());
        Ok(self.all().notes.get(&place).filter(|note| live(note, now)).cloned())
    }

    fn notes(&self, shelf: &str, after: &str, limit: usize) -> Result<Vec<Note>> {
        let now = self.clock();
        let all = self.all();
        let here = all.notes.values().filter(|note| note.shelf == shelf && note.key.as_str() > after);
        Ok(here.filter(|note| live(note, now)).take(limit).cloned().collect())
    }

    fn take(&self, shelf: &str, key: &str) -> Result<Option<Note>> {
        let now = self.clock();
        let taken = self.all().notes.remove(&(shelf.to_owned(), key.to_owned()));
        Ok(taken.filter(|note| live(note, now)))
    }

    fn sweep(&self) -> Result<u64> {
        let now = self.clock();
        let mut all = self.all();
        let before = all.notes.len();
        all.notes.retain(|_, note| live(note, now));
        Ok((before - all.notes.len()) as u64)
    }
}

fn live(note: &Note, now: u64) -> bool {
    note.until.is_none_or(|until| until > now)
}

//! What is stored: a session's head, its events with their decisions, and the changes that lead from one to the next.
//!
//! Every row that a decision rests on carries a checksum over all its columns, and the events of a session are chained by a hash: what was
//! damaged on the disk is noticed when it is read, and never decided upon.

use crate::journal::{Errand, PendingRow};
use flyball::{Status, Verdict};
use std::cell::Cell;
use xxhash_rust::xxh3::xxh3_64;

/// The hash that chains the events of a session: of the hash before it, the event and its decision.
pub type Chain = [u8; 16];

/// What a list shows of a session, without reading its state.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize)]
pub struct Glance {
    /// What it is doing.
    pub status: Status,
    /// Decisions `warn` so far.
    pub warnings: u64,
    /// Decisions `block` so far.
    pub blocks: u64,
    /// Decisions `halt` so far.
    pub halts: u64,
    /// Why it stands still, if it does.
    pub stopped_by: Option<String>,
    /// The label that calls a person, while it is set.
    pub label: Option<String>,
    /// The session above it.
    pub parent: Option<String>,
}

impl Glance {
    /// Whether the session waits for a release. A session that was halted and then ended still does: it stays halted
    /// when it is resumed.
    #[must_use]
    pub fn is_held(&self) -> bool {
        match self.status {
            Status::Blocked | Status::Halted => true,
            Status::Ended => self.stopped_by.is_some(),
            Status::Running | Status::AwaitingConfirmation => false,
        }
    }

    /// Whether the session waits for a person: for a release or for an approval.
    #[must_use]
    pub fn needs_person(&self) -> bool {
        self.is_held() || self.status == Status::AwaitingConfirmation
    }
}

/// Where a session stands in the store.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize)]
pub struct Head {
    /// Its name.
    pub session: String,
    /// Moves by one with every change: events, and what a child draws.
    pub rev: u64,
    /// The epoch of the newest lease; 0 if nobody ever held one.
    pub epoch: u64,
    /// The number of its last event.
    pub seq: u64,
    /// The hash that its events are chained by.
    pub chain: Chain,
    /// The digest of the policy that the events after the snapshot were decided under.
    pub policy: String,
    /// The last event that the snapshot covers; 0 if there is none.
    pub snapshot: u64,
    /// The checksum of the confirmation row that belongs to it, if a plan waits.
    pub pending: Option<u64>,
    /// The time of its first event, in milliseconds since 1970.
    pub started: u64,
    /// The time of its last event.
    pub updated: u64,
    /// What a list shows.
    pub glance: Glance,
}

impl Head {
    /// Becomes as another one. Texts that stay the same are not made anew: they seldom change.
    pub(crate) fn become_as(&mut self, other: &Head) {
        let Head { session, rev, epoch, seq, chain, policy, snapshot, pending, started, updated, glance } =
            other;
        if self.session != *session {
            self.session.clone_from(session);
        }
        if self.policy != *policy {
            self.policy.clone_from(policy);
        }
        if self.glance != *glance {
            self.glance.clone_from(glance);
        }
        (self.rev, self.epoch, self.seq, self.chain) = (*rev, *epoch, *seq, *chain);
        (self.snapshot, self.pending) = (*snapshot, *pending);
        (self.started, self.updated) = (*started, *updated);
    }

    /// The checksum over everything that is stored of it. The epoch is left out: it moves on its own, with a lease.
    #[must_use]
    pub fn sum(&self) -> u64 {
        let glance = &self.glance;
        let mut sum = Sum::of_about(256);
        sum.text(&self.session).number(self.rev).number(self.seq);
        sum.bytes(&self.chain).text(&self.policy).number(self.snapshot);
        sum.number(self.pending.map_or(0, |row| row | 1)).number(self.started).number(self.updated);
        sum.text(glance.status.as_str()).number(glance.warnings).number(glance.blocks).number(glance.halts);
        sum.maybe(glance.stopped_by.as_deref())
            .maybe(glance.label.as_deref())
            .maybe(glance.parent.as_deref());
        sum.done()
    }
}

/// Whether the process that holds a session's lease is known to be gone, by session and holder. A lease outlives a
/// killed process by some seconds; on the machine of the run its lock file tells at once.
pub type HolderIsGone = Box<dyn Fn(&str, &str) -> bool>;

/// Which sessions are asked for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Which {
    /// All of them.
    #[default]
    All,
    /// Blocked or halted, also if it has ended since: it waits for a release.
    Blocked,
    /// A plan waits for a yes.
    Waiting,
    /// Running, and warned or blocked before.
    Struggling,
}

impl Which {
    /// Whether a head belongs to it.
    #[must_use]
    pub fn takes(self, head: &Head) -> bool {
        match self {
            Which::All => true,
            Which::Blocked => head.glance.is_held(),
            Which::Waiting => head.glance.status == Status::AwaitingConfirmation,
            Which::Struggling => {
                head.glance.status == Status::Running && head.glance.warnings + head.glance.blocks > 0
            }
        }
    }
}

/// One event of a session, with its decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Its number in the session.
    pub seq: u64,
    /// When it happened, in milliseconds since 1970: as sent, or as stamped on arrival.
    pub at: Option<u64>,
    /// A number that the writer made up, to know its own event again when an answer was lost.
    pub nonce: u64,
    /// The epoch under which it was stored.
    pub epoch: u64,
    /// The idempotency key, if it has one.
    pub id: Option<String>,
    /// The fingerprint of the body that came with the id; 0 without one.
    pub body: u64,
    /// The event as JSON, redacted.
    pub text: String,
    /// Whether `text` is the whole event. If not, large parts stand as fingerprint, length and preview, and a
    /// snapshot was stored with it.
    pub whole: bool,
    /// The decision as JSON.
    pub decision: String,
    /// What it said.
    pub verdict: Verdict,
    /// The session's state after it.
    pub status: Status,
    /// The hash that chains it to the events before it.
    pub chain: Chain,
}

impl Record {
    /// The chain hash that this record must have after one with `before`.
    #[must_use]
    pub fn chained(&self, before: &Chain) -> Chain {
        let mut room = Room::of_about(256 + self.text.len() + self.decision.len());
        room.0.extend_from_slice(before);
        room.0.extend_from_slice(&self.seq.to_le_bytes());
        room.0.extend_from_slice(&self.at.map_or([0xff; 8], u64::to_le_bytes));
        room.0.extend_from_slice(&self.epoch.to_le_bytes());
        room.0.extend_from_slice(self.id.as_deref().unwrap_or_default().as_bytes());
        room.0.extend_from_slice(&[0, u8::from(self.whole)]);
        room.0.extend_from_slice(self.text.as_bytes());
        room.0.push(0);
        room.0.extend_from_slice(self.decision.as_bytes());
        let hash = blake3::hash(&room.0);
        hash.as_bytes().first_chunk::<16>().copied().unwrap_or_default()
    }

    /// The checksum over everything that is stored of it.
    #[must_use]
    pub fn sum(&self, session: &str) -> u64 {
        let mut sum = Sum::of_about(256 + session.len() + self.text.len() + self.decision.len());
        sum.text(session)
            .number(self.seq)
            .number(u64::from(self.at.is_some()))
            .number(self.at.unwrap_or(0))
            .number(self.nonce);
        sum.number(self.epoch).maybe(self.id.as_deref()).number(self.body);
        sum.text(&self.text).number(u64::from(self.whole)).text(&self.decision);
        sum.text(self.verdict.as_str()).text(self.status.as_str()).bytes(&self.chain);
        sum.done()
    }

    /// The checksum of the entry under which its id is found again.
    #[must_use]
    pub fn id_sum(session: &str, id: &str, seq: u64, body: u64, verdict: Verdict, status: Status) -> u64 {
        let mut sum = Sum::of_about(128);
        sum.text(session).text(id).number(seq).number(body).text(verdict.as_str()).text(status.as_str());
        sum.done()
    }
}

/// The checksum of an encoded state.
#[must_use]
pub fn state_sum(session: &str, seq: u64, state: &[u8]) -> u64 {
    let mut sum = Sum::of_about(64 + session.len() + state.len());
    sum.text(session).number(seq).bytes(state);
    sum.done()
}

impl PendingRow {
    /// The checksum over the columns that matter: what would be run, who may say yes, and until when.
    #[must_use]
    pub fn sum(&self) -> u64 {
        let mut sum = Sum::of_about(256 + self.pending_plan.len());
        sum.text(&self.session_id).text(&self.pending_plan).text(&self.confirmation_question);
        sum.maybe(self.requester.as_deref()).text(&self.digest).text(&self.status);
        sum.text(&self.created_at).maybe(self.expires_at.as_deref());
        // 0 means that there is no row.
        sum.done() | 1
    }
}

/// Where the parts of a sum are gathered: summing them at once is quicker than a running sum of many small ones.
struct Room(Vec<u8>);

thread_local! {
    /// Where the parts of the last sum were gathered: the next one can use the same room.
    static ROOM: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// The most bytes of room that are kept.
const ROOM_BYTES: usize = 64 * 1024;

impl Drop for Room {
    fn drop(&mut self) {
        if self.0.capacity() <= ROOM_BYTES {
            // A thread that is about to end has no use for it.
            let _ = ROOM.try_with(|room| room.set(std::mem::take(&mut self.0)));
        }
    }
}

impl Room {
    /// Room for about so many bytes.
    fn of_about(bytes: usize) -> Self {
        let mut room = ROOM.try_with(Cell::take).unwrap_or_default();
        room.clear();
        room.reserve(bytes);
        Room(room)
    }
}

/// A checksum in which every part is told apart from the next.
pub struct Sum(Room);

impl Sum {
    /// A sum of about so many bytes.
    #[must_use]
    pub fn of_about(bytes: usize) -> Self {
        Sum(Room::of_about(bytes))
    }

    /// Adds bytes.
    pub fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.0.0.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
        self.0.0.extend_from_slice(bytes);
        self
    }

    /// Adds a text.
    pub fn text(&mut self, text: &str) -> &mut Self {
        self.bytes(text.as_bytes())
    }

    /// Adds a text that may be absent.
    pub fn maybe(&mut self, text: Option<&str>) -> &mut Self {
        match text {
            Some(text) => self.text(text),
            None => self.number(u64::MAX),
        }
    }

    /// Adds a number.
    pub fn number(&mut self, number: u64) -> &mut Self {
        self.0.0.extend_from_slice(&number.to_le_bytes());
        self
    }

    /// The checksum.
    #[must_use]
    pub fn done(&self) -> u64 {
        xxh3_64(&self.0.0)
    }
}

/// A session as it was stored last.
#[derive(Debug, Clone, PartialEq)]
pub struct Loaded {
    /// Its head.
    pub head: Head,
    /// The encoded state after event `head.snapshot`; empty if there is no snapshot.
    pub state: Vec<u8>,
    /// The events after the snapshot, oldest first.
    pub tail: Vec<Record>,
}

/// What becomes of the confirmation row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RowChange {
    /// It stays as it is.
    Keep,
    /// A plan waits: exactly this row.
    Put(PendingRow),
    /// The plan was settled: no row.
    Clear,
    /// The row cannot be trusted: it is moved to where a person can look at it, and is never run.
    SetAside {
        /// What is wrong with it.
        why: String,
    },
}

/// What becomes of the label that calls a person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LabelChange {
    /// It stays as it is.
    Keep,
    /// It is set.
    Set(String),
    /// It is taken off.
    Clear,
}

/// A session's step from one revision to the next.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    /// The session is not in the store yet.
    pub new: bool,
    /// What seldom changes in a head has changed: everything but the counters, the chain and the time.
    pub seldom: bool,
    /// The head after the change. The store must still have the revision before it (`head.rev - 1`), and `epoch`.
    pub head: Head,
    /// The epoch that the writer works under.
    pub epoch: u64,
    /// The events, oldest first; none if only the state changed.
    pub records: Vec<Record>,
    /// The encoded state after the last of them, if it is to be stored.
    pub snapshot: Option<Vec<u8>>,
    /// What becomes of the confirmation row.
    pub row: RowChange,
    /// What becomes of the label.
    pub label: LabelChange,
    /// The errands that follow.
    pub errands: Vec<Errand>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use xxhash_rust::xxh3::Xxh3;

    #[test]
    fn a_sum_is_that_of_its_parts_one_behind_the_other() {
        let parts: [&[u8]; 4] = [b"", b"session", &[7; 1000], &[0; 3]];
        let mut running = Xxh3::new();
        let mut sum = Sum::of_about(0);
        for part in parts {
            running.update(&(part.len() as u64).to_le_bytes());
            running.update(part);
            sum.bytes(part);
        }
        running.update(&u64::MAX.to_le_bytes());
        assert_eq!(sum.maybe(None).done(), running.digest());
    }
}

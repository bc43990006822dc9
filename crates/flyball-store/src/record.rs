//! Stored records: session rows, events with their decisions, and the changes between revisions.
//!
//! Every row that a decision depends on has a checksum over all its columns, and the events of a session form a hash
//! chain. So corruption on disk is detected on read and never used for a decision.

use crate::event_store::{ConfirmationRow, OutboxMessage};
use flyball::{SessionPhase, Verdict};
use std::cell::Cell;
use xxhash_rust::xxh3::xxh3_64;

/// Chain hash of an event: covers the previous hash, the event and its decision.
pub type ChainHash = [u8; 16];

/// Session summary for lists, readable without decoding the state.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize)]
pub struct SessionSummary {
    /// Current phase.
    pub status: SessionPhase,
    /// Number of `warn` decisions.
    pub warnings: u64,
    /// Number of `block` decisions.
    pub blocks: u64,
    /// Number of `halt` decisions.
    pub halts: u64,
    /// Why it stopped, if it did.
    pub stopped_by: Option<String>,
    /// The label that requests attention, while it is set.
    pub label: Option<String>,
    /// Its parent session.
    pub parent: Option<String>,
}

impl SessionSummary {
    /// Whether the session needs a release. A session that was halted and then ended still does: it stays halted when
    /// it is resumed.
    #[must_use]
    pub fn is_held(&self) -> bool {
        match self.status {
            SessionPhase::Blocked | SessionPhase::Halted => true,
            SessionPhase::Ended => self.stopped_by.is_some(),
            SessionPhase::Running | SessionPhase::AwaitingConfirmation => false,
        }
    }

    /// Whether the session needs an operator: for a release or an approval.
    #[must_use]
    pub fn needs_person(&self) -> bool {
        self.is_held() || self.status == SessionPhase::AwaitingConfirmation
    }
}

/// A session's row in the store.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize)]
pub struct SessionRow {
    /// Its name.
    pub session: String,
    /// Revision; increases by one with every change, including usage charged by a child.
    pub rev: u64,
    /// Epoch of the newest lease; 0 if it was never leased.
    pub epoch: u64,
    /// Sequence number of its last event.
    pub seq: u64,
    /// Chain hash of its last event.
    pub chain: ChainHash,
    /// Digest of the policy under which the events after the snapshot were decided.
    pub policy: String,
    /// Last event that the snapshot covers; 0 if there is none.
    pub snapshot_seq: u64,
    /// Checksum of its confirmation row, if a plan is pending.
    pub pending: Option<u64>,
    /// Time of its first event, in milliseconds since the Unix epoch.
    pub started: u64,
    /// The time of its last event.
    pub updated: u64,
    /// Summary for lists.
    pub summary: SessionSummary,
}

impl SessionRow {
    /// Copies another summary into this one. Unchanged strings keep their allocation, since they seldom change.
    pub(crate) fn assign_from(&mut self, other: &SessionRow) {
        let SessionRow {
            session,
            rev,
            epoch,
            seq,
            chain,
            policy,
            snapshot_seq: snapshot,
            pending,
            started,
            updated,
            summary,
        } = other;
        if self.session != *session {
            self.session.clone_from(session);
        }
        if self.policy != *policy {
            self.policy.clone_from(policy);
        }
        if self.summary != *summary {
            self.summary.clone_from(summary);
        }
        (self.rev, self.epoch, self.seq, self.chain) = (*rev, *epoch, *seq, *chain);
        (self.snapshot_seq, self.pending) = (*snapshot, *pending);
        (self.started, self.updated) = (*started, *updated);
    }

    /// Checksum over the stored row. The epoch is left out, because a lease changes it independently.
    #[must_use]
    pub fn sum(&self) -> u64 {
        let summary = &self.summary;
        let mut sum = Checksum::with_capacity(256);
        sum.text(&self.session).number(self.rev).number(self.seq);
        sum.bytes(&self.chain).text(&self.policy).number(self.snapshot_seq);
        sum.number(self.pending.map_or(0, |row| row | 1)).number(self.started).number(self.updated);
        sum.text(summary.status.as_str())
            .number(summary.warnings)
            .number(summary.blocks)
            .number(summary.halts);
        sum.optional_text(summary.stopped_by.as_deref())
            .optional_text(summary.label.as_deref())
            .optional_text(summary.parent.as_deref());
        sum.finish()
    }
}

/// Whether the process that holds a session's lease is known to be dead, by session and holder. A lease outlives a
/// killed process by some seconds; on the same machine the run's lock file shows it at once.
pub type HolderIsGone = Box<dyn Fn(&str, &str) -> bool>;

/// Session filter.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum SessionFilter {
    /// All of them.
    #[default]
    All,
    /// Blocked or halted and in need of a release, even if it has ended since.
    Blocked,
    /// A plan awaits approval.
    Waiting,
    /// Running, and warned or blocked before.
    Warned,
}

impl SessionFilter {
    /// Whether a head belongs to it.
    #[must_use]
    pub fn matches(self, head: &SessionRow) -> bool {
        match self {
            SessionFilter::All => true,
            SessionFilter::Blocked => head.summary.is_held(),
            SessionFilter::Waiting => head.summary.status == SessionPhase::AwaitingConfirmation,
            SessionFilter::Warned => {
                head.summary.status == SessionPhase::Running
                    && head.summary.warnings + head.summary.blocks > 0
            }
        }
    }
}

/// One event of a session, with its decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventRecord {
    /// Sequence number in the session.
    pub seq: u64,
    /// When it happened, in milliseconds since the Unix epoch: as sent, or as stamped on arrival.
    pub at: Option<u64>,
    /// Random number of the writer, to recognize its own event when a reply was lost.
    pub nonce: u64,
    /// Epoch under which it was stored.
    pub epoch: u64,
    /// Idempotency key, if it has one.
    pub id: Option<String>,
    /// Fingerprint of the body that came with the id; 0 without one.
    pub body_hash: u64,
    /// The event as JSON, redacted.
    pub text: String,
    /// Whether `text` is the complete event. If not, large texts are replaced by fingerprint, length and preview, and
    /// a snapshot was stored with it.
    pub is_complete: bool,
    /// The decision as JSON.
    pub decision_json: String,
    /// Verdict of the decision.
    pub verdict: Verdict,
    /// The session's phase after it.
    pub status: SessionPhase,
    /// Hash that chains it to the events before it.
    pub chain: ChainHash,
}

impl EventRecord {
    /// Chain hash that this record must have after one with `before`.
    #[must_use]
    pub fn chain_hash_after(&self, before: &ChainHash) -> ChainHash {
        let mut room = ScratchBuffer::with_capacity(256 + self.text.len() + self.decision_json.len());
        room.0.extend_from_slice(before);
        room.0.extend_from_slice(&self.seq.to_le_bytes());
        room.0.extend_from_slice(&self.at.map_or([0xff; 8], u64::to_le_bytes));
        room.0.extend_from_slice(&self.epoch.to_le_bytes());
        room.0.extend_from_slice(self.id.as_deref().unwrap_or_default().as_bytes());
        room.0.extend_from_slice(&[0, u8::from(self.is_complete)]);
        room.0.extend_from_slice(self.text.as_bytes());
        room.0.push(0);
        room.0.extend_from_slice(self.decision_json.as_bytes());
        let hash = blake3::hash(&room.0);
        hash.as_bytes().first_chunk::<16>().copied().unwrap_or_default()
    }

    /// Checksum over the stored row.
    #[must_use]
    pub fn sum(&self, session: &str) -> u64 {
        let mut sum =
            Checksum::with_capacity(256 + session.len() + self.text.len() + self.decision_json.len());
        sum.text(session)
            .number(self.seq)
            .number(u64::from(self.at.is_some()))
            .number(self.at.unwrap_or(0))
            .number(self.nonce);
        sum.number(self.epoch).optional_text(self.id.as_deref()).number(self.body_hash);
        sum.text(&self.text).number(u64::from(self.is_complete)).text(&self.decision_json);
        sum.text(self.verdict.as_str()).text(self.status.as_str()).bytes(&self.chain);
        sum.finish()
    }

    /// Checksum of the entry that maps its id to the event.
    #[must_use]
    pub fn id_checksum(
        session: &str,
        id: &str,
        seq: u64,
        body: u64,
        verdict: Verdict,
        status: SessionPhase,
    ) -> u64 {
        let mut sum = Checksum::with_capacity(128);
        sum.text(session).text(id).number(seq).number(body).text(verdict.as_str()).text(status.as_str());
        sum.finish()
    }
}

/// Checksum of an encoded state.
#[must_use]
pub fn state_checksum(session: &str, seq: u64, state: &[u8]) -> u64 {
    let mut sum = Checksum::with_capacity(64 + session.len() + state.len());
    sum.text(session).number(seq).bytes(state);
    sum.finish()
}

impl ConfirmationRow {
    /// Checksum over the columns that matter: what would run, who may approve it, and until when.
    #[must_use]
    pub fn sum(&self) -> u64 {
        let mut sum = Checksum::with_capacity(256 + self.pending_plan.len());
        sum.text(&self.session_id).text(&self.pending_plan).text(&self.confirmation_question);
        sum.optional_text(self.requester.as_deref()).text(&self.digest).text(&self.status);
        sum.text(&self.created_at).optional_text(self.expires_at.as_deref());
        // 0 means that there is no row.
        sum.finish() | 1
    }
}

/// Buffer for the parts of a checksum: hashing once is faster than updating a hash with many small parts.
struct ScratchBuffer(Vec<u8>);

thread_local! {
    /// Buffer of the last checksum, reused by the next one.
    static SCRATCH: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Maximum size of a buffer that is kept for reuse.
const MAX_SCRATCH_BYTES: usize = 64 * 1024;

impl Drop for ScratchBuffer {
    fn drop(&mut self) {
        if self.0.capacity() <= MAX_SCRATCH_BYTES {
            // Fails only while the thread exits, when the buffer is no longer needed.
            let _ = SCRATCH.try_with(|room| room.set(std::mem::take(&mut self.0)));
        }
    }
}

impl ScratchBuffer {
    /// A buffer with this capacity.
    fn with_capacity(bytes: usize) -> Self {
        let mut room = SCRATCH.try_with(Cell::take).unwrap_or_default();
        room.clear();
        room.reserve(bytes);
        ScratchBuffer(room)
    }
}

/// A checksum over length-delimited parts.
pub struct Checksum(ScratchBuffer);

impl Checksum {
    /// A checksum with a buffer of this capacity.
    #[must_use]
    pub fn with_capacity(bytes: usize) -> Self {
        Checksum(ScratchBuffer::with_capacity(bytes))
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

    /// Adds an optional text.
    pub fn optional_text(&mut self, text: Option<&str>) -> &mut Self {
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
    pub fn finish(&self) -> u64 {
        xxh3_64(&self.0.0)
    }
}

/// A session as last stored.
#[derive(Debug, Clone, PartialEq)]
pub struct LoadedSession {
    /// Its head.
    pub head: SessionRow,
    /// The encoded state after event `head.snapshot`; empty if there is no snapshot.
    pub state: Vec<u8>,
    /// The events after the snapshot, oldest first.
    pub tail: Vec<EventRecord>,
}

/// Change of the confirmation row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConfirmationChange {
    /// Unchanged.
    Keep,
    /// A plan is pending: exactly this row.
    Put(ConfirmationRow),
    /// The plan was settled: no row.
    Clear,
    /// The row cannot be trusted: it is moved aside for inspection and never run.
    Quarantine {
        /// Why it cannot be trusted.
        reason: String,
    },
}

/// Change of the label that requests attention.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LabelChange {
    /// Unchanged.
    Keep,
    /// Set.
    Set(String),
    /// Removed.
    Clear,
}

/// A session's change from one revision to the next.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionChange {
    /// Whether the session is not stored yet.
    pub new: bool,
    /// Whether rarely changing columns changed: all but the counters, the chain and the time.
    pub metadata_changed: bool,
    /// The head after the change. The store must still have the revision before it (`head.rev - 1`), and `epoch`.
    pub head: SessionRow,
    /// The epoch that the writer works under.
    pub epoch: u64,
    /// The events, oldest first; empty if only the state changed.
    pub records: Vec<EventRecord>,
    /// The encoded state after the last event, if it is to be stored.
    pub snapshot: Option<Vec<u8>>,
    /// Change of the confirmation row.
    pub row: ConfirmationChange,
    /// Change of the label.
    pub label: LabelChange,
    /// Outbox messages to store.
    pub outbox_messages: Vec<OutboxMessage>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use xxhash_rust::xxh3::Xxh3;

    #[test]
    fn checksum_equals_streaming_hash_of_its_parts() {
        let parts: [&[u8]; 4] = [b"", b"session", &[7; 1000], &[0; 3]];
        let mut running = Xxh3::new();
        let mut sum = Checksum::with_capacity(0);
        for part in parts {
            running.update(&(part.len() as u64).to_le_bytes());
            running.update(part);
            sum.bytes(part);
        }
        running.update(&u64::MAX.to_le_bytes());
        assert_eq!(sum.optional_text(None).finish(), running.digest());
    }
}

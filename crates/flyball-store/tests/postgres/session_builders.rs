//! Builders for session changes.

use flyball::{SessionPhase, Verdict};
use flyball_store::{
    AppendUnit, ConfirmationChange, ConfirmationRow, EventRecord, LabelChange, SessionChange, SessionRow,
};

/// A head from which a session starts.
pub(crate) fn new_head(session: &str) -> SessionRow {
    SessionRow { session: session.to_owned(), policy: "p1".to_owned(), ..SessionRow::default() }
}

/// A step of `events` events after `head`, which is moved to where the step leads.
pub(crate) fn advance(head: &mut SessionRow, events: u64) -> SessionChange {
    let new = head.rev == 0;
    let epoch = head.epoch;
    head.rev += 1;
    let mut records = Vec::new();
    for _ in 0..events {
        head.seq += 1;
        let mut record = EventRecord {
            seq: head.seq,
            at: Some(1_000 * head.seq),
            nonce: u64::MAX - head.seq,
            epoch,
            id: Some(format!("id-{}", head.seq)),
            body_hash: u64::MAX / head.seq,
            text: format!("{{\"n\":{}}}", head.seq),
            is_complete: true,
            decision_json: "{\"verdict\":\"allow\"}".to_owned(),
            verdict: Verdict::Allow,
            status: SessionPhase::Running,
            chain: [0; 16],
        };
        record.chain = record.chain_hash_after(&head.chain);
        head.chain = record.chain;
        head.updated = 1_000 * head.seq;
        records.push(record);
    }
    SessionChange {
        metadata_changed: true,
        new,
        head: head.clone(),
        epoch,
        records,
        snapshot: None,
        row: ConfirmationChange::Keep,
        label: LabelChange::Keep,
        outbox_messages: Vec::new(),
    }
}

/// A step that also stores the state after it.
pub(crate) fn advance_with_snapshot(head: &mut SessionRow, events: u64, state: &[u8]) -> SessionChange {
    head.snapshot_seq = head.seq + events;
    let mut change = advance(head, events);
    change.snapshot = Some(state.to_vec());
    change
}

pub(crate) fn one(change: SessionChange) -> AppendUnit {
    AppendUnit { changes: vec![change] }
}

/// A pending plan.
pub(crate) fn confirmation_row(session: &str) -> ConfirmationRow {
    ConfirmationRow {
        session_id: session.to_owned(),
        pending_plan: "[{\"tool\":\"wipe\",\"args\":{}}]".to_owned(),
        confirmation_question: "Wipe it?".to_owned(),
        requester: Some("ann".to_owned()),
        digest: "d1".to_owned(),
        status: "awaiting".to_owned(),
        created_at: "2025-10-11 12:40:00".to_owned(),
        expires_at: Some("2025-10-11 12:50:00".to_owned()),
        updated_at: "2025-10-11 12:40:00".to_owned(),
    }
}

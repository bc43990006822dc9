//! Sessions to put into a store, by hand.

use flyball::{Status, Verdict};
use flyball_journal::{Change, Head, LabelChange, PendingRow, Record, RowChange, Unit};

/// A head from which a session starts.
pub(crate) fn start(session: &str) -> Head {
    Head { session: session.to_owned(), policy: "p1".to_owned(), ..Head::default() }
}

/// A step of `events` events after `head`, which is moved to where the step leads.
pub(crate) fn step(head: &mut Head, events: u64) -> Change {
    let new = head.rev == 0;
    let epoch = head.epoch;
    head.rev += 1;
    let mut records = Vec::new();
    for _ in 0..events {
        head.seq += 1;
        let mut record = Record {
            seq: head.seq,
            at: Some(1_000 * head.seq),
            nonce: u64::MAX - head.seq,
            epoch,
            id: Some(format!("id-{}", head.seq)),
            body: u64::MAX / head.seq,
            text: format!("{{\"n\":{}}}", head.seq),
            whole: true,
            decision: "{\"verdict\":\"allow\"}".to_owned(),
            verdict: Verdict::Allow,
            status: Status::Running,
            chain: [0; 16],
        };
        record.chain = record.chained(&head.chain);
        head.chain = record.chain;
        head.updated = 1_000 * head.seq;
        records.push(record);
    }
    Change {
        seldom: true,
        new,
        head: head.clone(),
        epoch,
        records,
        snapshot: None,
        row: RowChange::Keep,
        label: LabelChange::Keep,
        errands: Vec::new(),
    }
}

/// A step that also stores the state after it.
pub(crate) fn step_with_state(head: &mut Head, events: u64, state: &[u8]) -> Change {
    head.snapshot = head.seq + events;
    let mut change = step(head, events);
    change.snapshot = Some(state.to_vec());
    change
}

pub(crate) fn one(change: Change) -> Unit {
    Unit { changes: vec![change] }
}

/// A plan that waits.
pub(crate) fn plan(session: &str) -> PendingRow {
    PendingRow {
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
